import pytest

from benchmarks.scoring import answer_accuracy, answer_contained, metric_named, normalise, number_accuracy, rouge_l
from corpora.example import Example

QUESTION = "Janet has 16 eggs. How many does she sell?"


def _number(text: str, gold: str = "18") -> float | None:
    return number_accuracy(text, Example("1", QUESTION, "", (gold,)))


def _answer(text: str, *accepted: str) -> float | None:
    return answer_accuracy(text, Example("1", "Who wrote it?", "", accepted))


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


def test_a_gold_answer_without_a_number_is_an_error() -> None:
    with pytest.raises(ValueError, match="example '1' has no number as its answer: 'many'"):
        _number("18", gold="many")
    assert number_accuracy("18", Example("1", "", "")) is None


def test_any_of_several_numbers_is_right() -> None:
    example = Example("1", QUESTION, "1", ("1", "- 2"))
    assert [number_accuracy(f"Final Answer: {given}", example) for given in (1, -2, 2, "none")] == [1, 1, 0, 0]


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


def test_what_a_line_of_samples_gets() -> None:
    number, words, rouge = map(metric_named, ("number_accuracy", "answer_accuracy", "rouge_l"))
    example = Example("1", "Who?", "Ada", ("Ada",))
    assert words.judge("Final Answer: It was Ada", example) == {"score": 0, "no_answer": False, "contains_answer": 1}
    assert words.judge("<think>Ada", example) == {"score": 0, "no_answer": True, "contains_answer": 0}
    assert rouge.judge("Ada", example) == {"score": 1, "no_answer": None}
    example = Example("1", "How many?", "", ("18",))
    assert number.judge("Final Answer: 18", example) == {"score": 1, "no_answer": False}
    assert number.judge("Final Answer: none", example) == {"score": 0, "no_answer": True}


def test_nothing_is_said_of_an_example_without_reference() -> None:
    for name in ("number_accuracy", "answer_accuracy", "rouge_l"):
        assert set(metric_named(name).judge("no number", Example("1", "Who?", "")).values()) == {None}


def test_an_example_without_reference_has_no_rouge() -> None:
    assert rouge_l("text", Example("1", "Who?", " ")) is None
    assert rouge_l("<think>other words</think>the text", Example("1", "Who?", "the text")) == 1.0


def test_metric_names() -> None:
    assert metric_named("rouge_l").counts_failures is False
    assert metric_named("number_accuracy").counts_failures is True
    with pytest.raises(ValueError, match=r"dataset.metric 'rouge-l' is unknown: did you mean 'rouge_l'"):
        metric_named("rouge-l")
