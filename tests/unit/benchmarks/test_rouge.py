import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.rouge import rouge_l_f1


def test_rouge_l_by_hand() -> None:
    # Longest common subsequence "the cat on mat" = 4 of 6 and of 4 words: P = 1, R = 4/6, F1 = 0.8.
    assert rouge_l_f1("the cat on mat", "The cat sat on the mat.") == pytest.approx(0.8)
    assert rouge_l_f1("nothing alike", "The cat sat") == 0.0


@pytest.mark.parametrize(
    "text",
    [
        "\u732b\u304c\u5ea7\u3063\u305f",
        "\u041a\u043e\u0448\u043a\u0430 \u0441\u0438\u0434\u0438\u0442",
        "\u0939\u093f\u0928\u094d\u0926\u0940 \u092d\u093e\u0937\u093e",
        "\ud55c\uad6d\uc5b4 \ubb38\uc7a5",
        "\u0e41\u0e21\u0e27\u0e19\u0e31\u0e48\u0e07",
        "\u0627\u0644\u0642\u0637",
        "plain text",
        "caf\u00e9",
        "!?",
        "",
    ],
)
def test_identical_text_scores_one_in_every_script(text: str) -> None:
    assert rouge_l_f1(text, text) == pytest.approx(1.0)


def test_non_latin_text_is_compared_word_by_word() -> None:
    # Han letters are words of their own: 3 of 4 and of 4 are common.
    assert rouge_l_f1("\u732b\u304c\u5ea7\u308b", "\u72ac\u304c\u5ea7\u308b") == pytest.approx(0.75)
    assert rouge_l_f1("cat", "\u732b\u304c\u5ea7\u308b") == 0.0


def test_empty_sides_are_defined() -> None:
    assert rouge_l_f1("", "text") == 0.0
    assert rouge_l_f1("text", "") == 0.0
    assert rouge_l_f1("!!", "??") == 0.0


@given(st.text(), st.text())
def test_scores_stay_between_zero_and_one(text: str, reference: str) -> None:
    assert 0.0 <= rouge_l_f1(text, reference) <= 1.0
