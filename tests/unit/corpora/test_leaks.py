from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corpora.example import Example
from corpora.leaks import NGRAM, SHORTEST, LeakCheck, words_of

# 20 words, no one of them twice.
TEXT = "one two three four five six seven eight nine ten eleven twelve thirteen " + " ".join(f"w{i}" for i in range(7))
WORDS = TEXT.split()


def examples(*pairs: tuple[str, str]) -> list[Example]:
    return [Example(f"test-{i}", instruction, reference) for i, (instruction, reference) in enumerate(pairs)]


def naive(instruction: str, answer: str, tests: list[Example], length: int) -> list[str]:
    """The definition, passage by passage."""
    own = words_of(instruction) + words_of(answer)
    found = []
    for example in tests:
        words = words_of(example.instruction) + words_of(example.reference)
        size = min(length, len(words))
        passages = [words[i : i + size] for i in range(len(words) - size + 1)] if size >= min(SHORTEST, length) else []
        same = words_of(instruction) == words_of(example.instruction)
        if same or any(own[i : i + size] in passages for i in range(len(own) - size + 1)):
            found.append(example.id)
    return found


def test_words_are_the_same_in_every_casing_spacing_punctuation_and_form() -> None:
    assert " ".join(words_of("  The  ﬁrst,\n“STRASSE”… a_b c=d, 3.14!")) == "the first strasse a b c d 3 14"
    assert words_of("Straße") == words_of("STRASSE")
    assert words_of("e\u0301") == words_of("\u00e9")
    assert words_of("...") == []


@pytest.mark.parametrize("start", [0, 3, 7])
def test_thirteen_words_in_a_row_are_found_twelve_are_not(start: int) -> None:
    check = LeakCheck(examples((TEXT, "")))
    assert check.overlaps("Before", " ".join(["x", *WORDS[start : start + NGRAM], "y"])) == ["test-0"]
    assert check.overlaps("Before", " ".join(["x", *WORDS[start : start + NGRAM - 1], "y"])) == []


def test_a_passage_may_run_from_the_instruction_into_the_answer() -> None:
    check = LeakCheck(examples((" ".join(WORDS[:8]), " ".join(WORDS[8:]))))
    assert check.overlaps(" ".join(WORDS[:11]), " ".join(WORDS[11:13])) == ["test-0"]


def test_a_short_text_is_found_whole() -> None:
    check = LeakCheck(examples(("Who wrote the play Hamlet?", "William Shakespeare")))
    assert check.overlaps("A list", "1. who wrote the play HAMLET: William  Shakespeare (1603)") == ["test-0"]
    assert check.overlaps("A list", "who wrote the play Hamlet: William the Conqueror") == []


def test_a_very_short_text_counts_as_the_same_instruction_only() -> None:
    check = LeakCheck(examples(("Two plus two?", "4")))
    assert check.overlaps("two plus TWO", "I do not know") == ["test-0"]
    assert check.overlaps("Sums", "two plus two 4, and so on") == []


def test_all_examples_that_share_a_passage_are_named_in_their_order() -> None:
    check = LeakCheck(examples(("other", "text"), (TEXT, "a"), ("b", TEXT)))
    assert check.overlaps("x", TEXT) == ["test-1", "test-2"]


def test_three_of_twenty_hidden_in_longer_texts_are_found() -> None:
    rng = random.Random(0)

    def text(count: int) -> str:
        return " ".join("".join(rng.choices("abcdefgh", k=5)) for _ in range(count))

    tests = [Example(f"test-{i}", text(rng.randint(5, 30)), text(rng.randint(1, 30))) for i in range(20)]
    corpus = [(text(20), text(200)) for _ in range(100)]
    for place, number in ((3, 2), (40, 11), (77, 19)):
        hidden = f"{tests[number].instruction.upper()}\n\n  {tests[number].reference.title()}"
        corpus[place] = (corpus[place][0], f"{text(50)} {hidden}... {text(50)}")
    check = LeakCheck(tests)
    found = {place: hits for place, pair in enumerate(corpus) if (hits := check.overlaps(*pair))}
    assert found == {3: ["test-2"], 40: ["test-11"], 77: ["test-19"]}


def test_nothing_is_found_where_there_is_nothing_to_find() -> None:
    for tests in (examples(), examples(("", "")), examples(("a", "b"))):
        check = LeakCheck(tests)
        assert check.overlaps("some instruction", TEXT) == []
    assert LeakCheck(examples((TEXT, TEXT))).overlaps("x", "...") == []


@given(
    st.lists(st.tuples(st.text("ab ", max_size=20), st.text("abc ", max_size=20)), max_size=4),
    st.text("abc ", max_size=20),
    st.text("abc ", max_size=40),
    st.integers(1, 9),
)
def test_it_is_the_definition(pairs: list[tuple[str, str]], instruction: str, answer: str, length: int) -> None:
    tests = examples(*pairs)
    assert LeakCheck(tests, length).overlaps(instruction, answer) == naive(instruction, answer, tests, length)
