from __future__ import annotations

from typing import Any

import numpy as np
import pydivsufsort
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from primitives.datastores import suffix_array as module
from primitives.datastores.suffix_array import SuffixSearch, suffix_array

# Ids of one, two, three and four bytes, and those next to a change of the width: an id is written one higher.
IDS = st.sampled_from([0, 1, 2, 254, 255, 256, 65_534, 65_535, 65_536, 151_935, 2**24 - 2, 2**24, 2**32 - 2, 2**32 - 1])
CORPUS = st.lists(st.lists(IDS, min_size=1, max_size=12), min_size=1, max_size=6)
SMALL_CORPUS = st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=12), min_size=1, max_size=6)


def parts(documents: list[list[int]]) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
    return np.concatenate(documents).astype(np.uint32), np.cumsum([0, *map(len, documents)], dtype=np.int64)


def naive(documents: list[list[int]]) -> list[int]:
    """Positions by the text behind them, an end being less than any token, and then by the documents that follow."""
    text: list[int] = []
    places: list[int] = []
    for document in documents:
        places += range(len(text), len(text) + len(document))
        text += [*document, -1]
    order = sorted(places, key=lambda place: text[place:])
    return [place - text[:place].count(-1) for place in order]


@settings(max_examples=300, deadline=None)
@given(documents=CORPUS | SMALL_CORPUS)
def test_it_is_the_order_of_a_naive_sort(documents: list[list[int]]) -> None:
    assert suffix_array(*parts(documents)).tolist() == naive(documents)


@pytest.mark.parametrize("largest", [254, 255, 65_534, 65_535, 2**24 - 2, 2**24 - 1, 2**32 - 1])
def test_ids_of_any_width_are_sorted_as_numbers(largest: int) -> None:
    rng = np.random.default_rng(largest)
    tokens = rng.integers(0, largest, 2000, endpoint=True).astype(np.uint32)
    tokens[7] = largest
    documents = [part.tolist() for part in np.split(tokens, [1, 500, 501])]
    found = suffix_array(*parts(documents))
    assert found.tolist() == naive(documents)
    assert found.dtype == np.int32


def test_a_repetitive_text_is_no_trouble() -> None:
    documents = [[5] * 3000, [5] * 2999, [4]]
    assert suffix_array(*parts(documents)).tolist() == naive(documents)


def test_positions_beyond_32_bits_take_64(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[bool] = []
    sort = pydivsufsort.divsufsort

    def watched(data: NDArray[np.uint8], force64: bool) -> NDArray[Any]:
        calls.append(force64)
        return sort(data, force64=force64)

    monkeypatch.setattr(module, "divsufsort", watched)
    documents = [[3, 1, 300], [1, 3]]
    for most, kind, wide in ((14, np.int32, False), (13, np.int32, True), (4, np.int64, True)):
        monkeypatch.setattr(module, "MOST_IN_32_BITS", most)
        found = suffix_array(*parts(documents))
        assert found.dtype == kind
        assert found.tolist() == naive(documents)
        assert calls[-1] is wide  # Seven places of two bytes: five tokens and two ends.


@settings(max_examples=200, deadline=None)
@given(documents=SMALL_CORPUS, pattern=st.lists(st.integers(0, 3), min_size=1, max_size=5))
def test_a_range_holds_the_suffixes_that_begin_with_the_pattern(documents: list[list[int]], pattern: list[int]) -> None:
    tokens, offsets = parts(documents)
    suffixes = suffix_array(tokens, offsets)
    search = SuffixSearch(tokens, offsets, suffixes)
    ends = offsets[np.searchsorted(offsets, suffixes, side="right")]
    prefixes = [
        tokens[start : min(start + len(pattern), end)].tolist() for start, end in zip(suffixes, ends, strict=True)
    ]
    low = search.lower(pattern)
    assert low == sum(prefix < pattern for prefix in prefixes)
    assert search.upper(pattern, low) == search.upper(pattern) == sum(prefix <= pattern for prefix in prefixes)
    assert search.begins(low, pattern) == (pattern in prefixes)
    assert not search.begins(len(tokens), pattern)


def test_a_search_reads_few_places(monkeypatch: pytest.MonkeyPatch) -> None:
    tokens = np.random.default_rng(0).integers(0, 50, 2**14).astype(np.uint32)
    offsets = np.array([0, 2**14])
    search = SuffixSearch(tokens, offsets, suffix_array(tokens, offsets))
    reads: list[int] = []
    prefix = search._prefix

    def counted(rank: int, pattern: list[int]) -> list[int]:
        reads.append(rank)
        return prefix(rank, pattern)

    monkeypatch.setattr(search, "_prefix", counted)
    search.lower(tokens[100:108].tolist())
    assert len(reads) <= 15
