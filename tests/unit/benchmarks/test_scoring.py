import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.scoring import (
    answer_accuracy,
    answer_contained,
    extract_number,
    metric_named,
    normalise,
    number_accuracy,
    own_answer,
    rouge_l,
    without_thinking,
)
from corpora.example import Example

QUESTION = "Janet has 16 eggs. How many does she sell?"


def _number(text: str, gold: str = "18") -> float | None:
    return number_accuracy(text, Example("1", QUESTION, "", (gold,)))


def _answer(text: str, *accepted: str) -> float | None:
    return answer_accuracy(text, Example("1", "Who wrote it?", "", accepted))


def _rouge(text: str, reference: str) -> float | None:
    return rouge_l(text, Example("1", "", reference))


@pytest.mark.parametrize(
    "text",
    [
        "She sells 9 eggs for 2 dollars.\nFinal Answer: 18",
        "Final Answer: 18.",
        "**Final Answer:** $18.00",
        "Final answer : 18 dollars",
        "Final Answer:\n\n18",
        "First Final Answer: 5\nno, wait.\nFinal Answer: 18",
        "the answer is 18",
        "18 eggs",
        "#### 18",
        "#### Step 2: add\nso it is 18",
        "#### 18\nThat is all for question 1 of 3.",
    ],
)
def test_number_is_found_in_any_dress(text: str) -> None:
    assert _number(text) == 1.0


@pytest.mark.parametrize(
    ("text", "gold", "score"),
    [
        ("Final Answer: 1,080", "1080", 1.0),
        ("Final Answer: 1080", "1,080", 1.0),
        ("Final Answer: -$5", "-5", 1.0),
        ("Final Answer: \u22125", "-5", 1.0),
        ("Final Answer: .5", "0.5", 1.0),
        ("Final Answer: 50%", "50", 1.0),
        ("Final Answer: 18.000000001", "18", 1.0),
        ("Final Answer: 18.01", "18", 0.0),
        ("Final Answer: 81", "18", 0.0),
        ("no number at all", "18", 0.0),
        ("", "18", 0.0),
        ("1" * 500, "18", 0.0),
    ],
)
def test_numbers_compare_by_value(text: str, gold: str, score: float) -> None:
    assert _number(text, gold) == score


# The scenarios of a stop marker that cuts too much or too little.
@pytest.mark.parametrize(
    "text",
    [
        "Let me identify the Question first. She bakes some and sells the rest, so 18",
        "#### 18\n\nQuestion: Tom has 9 apples and eats none. How many are left? #### 9",
        "Final Answer: 18\n\nProblem: Tom has 9 apples.\nFinal Answer: 9",
        "**Final Answer:** 18\n\n**Question 2:** Tom has 9 apples.\n**Final Answer:** 9",
        "Final Answer: 18\nUser: and 3 more?\nFinal Answer: 21",
        "Question: 2 + 3?\n#### 5\n\nQuestion: 4 + 4?\n#### 8\n\nNow Janet's eggs: 9 * 2.\n#### 18",
        "Example 1: 2 + 3 is\nFinal Answer: 5\nExample 2: 4 + 4 is\nFinal Answer: 8\nJanet:\nFinal Answer: 18",
        f"Problem: {QUESTION}\nShe sells 9.\nFinal Answer: 18\n\nProblem: Tom has 9 apples.\nFinal Answer: 9",
        f"Question: 2 + 3?\n#### 5\n\nQuestion: {QUESTION}\n#### 18",
        "<think>Is it 5? Final Answer: 5</think>\n\nIt is 18.",
    ],
)
def test_only_the_own_answer_counts(text: str) -> None:
    assert _number(text) == 1.0


def test_an_unfinished_thought_holds_no_answer() -> None:
    assert without_thinking("<think>maybe 18") == ""
    assert without_thinking("a<think>b</think>c") == "c"
    assert _number("<think>maybe 18") == 0.0


def test_a_gold_answer_without_a_number_is_an_error() -> None:
    with pytest.raises(ValueError, match="example '1' has no number as its answer: 'many'"):
        _number("18", gold="many")
    assert number_accuracy("18", Example("1", "", "")) is None


@given(st.integers(-(10**9), 10**9))
def test_every_integer_is_read_back(value: int) -> None:
    assert extract_number(f"17 things\nFinal Answer: {value:,}.\n") == value


@pytest.mark.parametrize(
    ("text", "accepted"),
    [
        ("It is the capital.\nFinal Answer: Washington, D.C.", ("Washington, D.C.",)),
        ("Final Answer: J. R. R. Tolkien", ("Tolkien", "J. R. R. Tolkien")),
        ("**Final Answer:** The Beatles", ("Beatles",)),
        ("Final Answer:\nParis", ("Paris",)),
        ("I think it is\nParis\n\n", ("Paris",)),
        ("Final Answer: the_big-apple!", ("Big Apple",)),
        ("Final Answer: Rock \u2018n\u2019 Roll", ("Rock 'n' Roll",)),
        ("Final Answer: The The", ("The The",)),
        ("Final Answer: Paris\n\nQuestion: Capital of Italy?\nFinal Answer: Rome", ("Paris",)),
    ],
)
def test_names_compare_in_official_normal_form(text: str, accepted: tuple[str, ...]) -> None:
    assert _answer(text, *accepted) == 1.0


@pytest.mark.parametrize("text", ["", "Final Answer:", "Final Answer: A", "Final Answer: London or Paris"])
def test_other_names_are_wrong(text: str) -> None:
    assert _answer(text, "Paris", "The") == 0.0


def test_normal_form() -> None:
    assert (
        normalise(" The  Quick_Brown-Fox, a.k.a. \u201can\u201d `ant\u00b4 ") == "quick brown fox k \u201c \u201d ant"
    )


def test_lenient_metric_finds_whole_words_only() -> None:
    example = Example("1", "Who?", "", ("Ada",))
    assert answer_contained("I believe it was Ada, in 1843", example) == 1.0
    assert answer_contained("Canada", example) == 0.0


def test_rouge_l_by_hand() -> None:
    # Longest common subsequence "the cat on mat" = 4 of 6 and of 4 words: P = 1, R = 4/6, F1 = 0.8.
    assert _rouge("the cat on mat", "The cat sat on the mat.") == pytest.approx(0.8)
    assert _rouge("nothing alike", "The cat sat") == 0.0


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
    assert _rouge(text, text) == pytest.approx(1.0)


def test_non_latin_text_is_compared_word_by_word() -> None:
    # Han letters are words of their own: 3 of 4 and of 4 are common.
    assert _rouge("\u732b\u304c\u5ea7\u308b", "\u72ac\u304c\u5ea7\u308b") == pytest.approx(0.75)
    assert _rouge("cat", "\u732b\u304c\u5ea7\u308b") == 0.0


def test_empty_sides_are_defined() -> None:
    assert _rouge("", "text") == 0.0
    assert _rouge("text", "") == 0.0
    assert _rouge("!!", "??") == 0.0


@given(st.text(), st.text())
def test_scores_stay_between_zero_and_one(text: str, reference: str) -> None:
    score = _rouge(text, reference)
    assert score is not None
    assert 0.0 <= score <= 1.0


@given(st.text(max_size=200))
def test_cutting_never_adds_text(text: str) -> None:
    assert own_answer(text, QUESTION) in text


def test_metric_names() -> None:
    assert metric_named("rouge_l").counts_failures is False
    assert metric_named("number_accuracy").counts_failures is True
    with pytest.raises(ValueError, match=r"dataset.metric 'rouge-l' is unknown: did you mean 'rouge_l'"):
        metric_named("rouge-l")
