from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connectors.stopping import before_stop, stop_cut
from primitives.eos import eos_cut

PIECES = ["a", "b", "ab", " ", "\n", "ba"]


def text(ids: Sequence[int]) -> str:
    return "".join(PIECES[token] for token in ids)


@pytest.mark.parametrize(
    ("tokens", "kept"), [([1, 2, 3], None), ([2, 9, 2], 2), ([8], 1), ([1, 8, 9], 2), ([], None), ([1, 1, 9], 3)]
)
def test_the_first_of_several_eos_ids_ends_a_block(tokens: list[int], kept: int | None) -> None:
    assert eos_cut(tokens, frozenset({8, 9})) == kept
    assert eos_cut(tokens, frozenset()) is None


@given(
    st.lists(st.integers(0, 5), max_size=20),
    st.lists(st.text("ab \n", min_size=1, max_size=4), min_size=1, max_size=2),
    st.data(),
)
def test_a_block_is_cut_where_one_token_at_a_time_would_be(
    ids: list[int], stop: list[str], data: st.DataObject
) -> None:
    expected = next((n for n in range(1, len(ids) + 1) if any(s in text(ids[:n]) for s in stop)), None)
    seen = (expected or len(ids) + 1) - 1
    fresh = len(ids) - data.draw(st.integers(0, seen))
    assert stop_cut(ids, fresh, stop, text) == expected


def test_a_stop_that_a_later_token_changes_is_found_all_the_same() -> None:
    def cleaned(ids: Sequence[int]) -> str:
        return "".join(["x", " ", "."][token] for token in ids).replace(" .", ".")

    assert stop_cut([0, 1, 2], 3, ["x "], cleaned) == 2


def test_without_stop_strings_nothing_is_decoded() -> None:
    def refuse(ids: Sequence[int]) -> str:
        raise AssertionError("decoded for nothing")

    assert stop_cut([1, 2, 3], 3, [], refuse) is None


def test_the_text_ends_before_the_first_stop_string() -> None:
    assert before_stop("one two three", ["three", "tw"]) == "one "
    assert before_stop("one", ["x"]) == "one"
    assert before_stop("one", []) == "one"
