from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from connectors.output import Output

PIECES = ["x", "yz", "#", "# ", "\n\n", "<end>"]
END = 5


def decode(ids: Sequence[int]) -> str:
    return "".join(PIECES[token] for token in ids if token != END)


def output(budget: int = 10, stop: Sequence[str] = (), prompt: Sequence[int] = (0, 1)) -> Output:
    return Output(np.array(prompt), budget, frozenset({END}), stop, decode)


def test_it_grows_up_to_its_budget() -> None:
    text = output(budget=3)
    assert text.extend(np.array([0, 1])) == 2
    assert (text.ids, text.finish, text.remaining) == ([0, 1], None, 1)
    assert text.extend(np.array([1, 1, 1])) == 1
    assert (text.ids, text.finish, text.remaining) == ([0, 1, 1], "length", 0)


def test_it_ends_with_the_first_eos_of_a_block() -> None:
    text = output()
    assert text.extend(np.array([0, END, 1, END])) == 2
    assert (text.ids, text.finish, text.text) == ([0, END], "eos", "x")


def test_eos_as_the_last_token_of_the_budget_is_eos() -> None:
    text = output(budget=2)
    text.extend(np.array([0, END]))
    assert text.finish == "eos"


@pytest.mark.parametrize(
    ("block", "ids", "text"),
    [
        ([0, 2, 2, 1], [0, 2, 2], "x"),
        ([0, 2, 3, 1], [0, 2, 3], "x"),
        ([1, 2, 0, 2], [1, 2, 0, 2], "yz#x#"),
        ([2, 2, END], [2, 2], ""),
    ],
)
def test_the_token_that_completes_a_stop_string_is_kept(block: list[int], ids: list[int], text: str) -> None:
    whole, single = output(stop=["##"]), output(stop=["##"])
    whole.extend(np.array(block))
    for token in block:
        if single.finish is None:
            single.extend(np.array([token]))
    assert whole.ids == single.ids == ids
    assert whole.text == single.text == text
    assert whole.finish == single.finish == ("stop" if "##" in decode(ids) else None)


def test_a_stop_string_in_the_prompt_is_not_looked_at() -> None:
    text = output(stop=["##"], prompt=[2, 2])
    text.extend(np.array([2, 0]))
    assert text.finish is None
    assert output(stop=["#x"], prompt=[2]).extend(np.array([0])) == 1


def test_the_pending_token_is_seen_and_not_yet_added() -> None:
    text = output()
    text.extend(np.array([1]))
    seen = text.with_pending(4)
    assert seen.tolist() == [0, 1, 1, 4]
    assert text.ids == [1]
    with pytest.raises(ValueError, match="read-only"):
        seen[0] = 3


def test_a_pending_token_that_ends_the_text_is_known() -> None:
    assert output().ends_with(END)
    assert not output().ends_with(0)
    assert output(budget=1).ends_with(0)
