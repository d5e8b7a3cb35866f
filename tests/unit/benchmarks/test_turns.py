from collections.abc import Callable
from typing import Any

import pytest

from benchmarks.turns import joined, lengths, said_in, turn_ids
from connectors.trace import Generation
from corpora.example import Example

Make = Callable[..., Generation]


def test_one_turn_is_left_as_it_is(make_generation: Make) -> None:
    output = make_generation([1, 2], [1])
    assert joined([output]) is output
    assert lengths([output]) is None


def test_turns_are_joined_in_their_order(make_generation: Make) -> None:
    first, second = make_generation([1, 2, 3], [2], "one"), make_generation([4, 5], [1], "two!")
    first.trace.tail_ms, second.finish = 1.5, "eos"
    whole = joined([first, second])
    assert (whole.ids, whole.text, whole.finish) == ([1, 2, 3, 4, 5], "onetwo!", "length")
    assert whole.trace.passes == first.trace.passes + second.trace.passes
    assert whole.trace.prefill_ms == 10.0
    assert whole.trace.decode_ms == pytest.approx(first.trace.decode_ms + second.trace.decode_ms)
    assert lengths([first, second]) == [
        {"tokens": 3, "characters": 3, "passes": 1},
        {"tokens": 2, "characters": 4, "passes": 1},
    ]
    first.finish = "eos"
    assert joined([first, second]).finish == "eos"


def test_what_was_said_is_read_back() -> None:
    turns = [{"characters": 3}, {"characters": 0}, {"characters": 4}]
    assert said_in({"text": "onetwo!", "turns": turns}) == ["one", ""]
    assert said_in({"text": "one", "turns": None}) == []


def test_only_the_first_turn_is_put_into_the_template(pipeline: Any) -> None:
    texts: list[tuple[str, list[tuple[str, str]]]] = []

    def encode(text: str, earlier: list[tuple[str, str]]) -> list[int]:
        texts.append((text, earlier))
        return [1]

    pipeline.encode = encode
    pipeline.settings.dataset.template = "problem"
    example = Example("talk", "Ask.", "", followups=("More?", "And?"))
    for said in ([], ["a"], ["a", "b"]):
        assert turn_ids(pipeline, example, said) == [1]
    asked = texts[0][0]
    assert asked.startswith("Solve the following problem")
    assert texts == [(asked, []), ("More?", [(asked, "a")]), ("And?", [(asked, "a"), ("More?", "b")])]
