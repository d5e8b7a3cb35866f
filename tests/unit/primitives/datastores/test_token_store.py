from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from primitives.datastores.token_store import TOKEN_FILES, Match, TokenStore, collapse

DOCUMENTS = st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=15), min_size=1, max_size=6)


def store(*documents: Sequence[int]) -> TokenStore:
    return TokenStore.build([np.array(document, np.int64) for document in documents])


def test_documents_lie_one_after_the_other() -> None:
    built = store([7, 8, 9], [5, 6])
    assert (len(built), built.tokens.tolist(), built.offsets.tolist()) == (5, [7, 8, 9, 5, 6], [0, 3, 5])
    assert [str(part.dtype) for part in (built.tokens, built.offsets, built.counts)] == ["uint32", "int64", "int64"]
    assert built.nbytes == 5 * 4 + 3 * 8 + 2 * 8 + 5 * 4


def test_a_thousand_copies_are_one_entry_with_a_count() -> None:
    """Case 31: the copies give one entry, and the other continuation is there too."""
    built = store(*[[1, 2, 3]] * 1000, [1, 2, 4])
    assert built.counts.tolist() == [1000, 1]
    match = built.longest_match(np.array([1, 2]))
    places = built.positions(match.low, match.high, 8)
    assert built.continuations(places, 2, skip=match.length).tolist() == [[3, -1], [4, -1]]
    assert built.weights(places).tolist() == [1000, 1]


def test_copies_collapse_to_the_first_and_add_up() -> None:
    texts = [np.array(text) for text in ([5, 6], [1], [5, 6], [5], [1], [5, 6], [6, 5])]
    kept, counts = collapse(texts)
    assert (kept.tolist(), counts.tolist()) == ([0, 1, 3, 6], [3, 2, 1, 1])
    built = TokenStore.build(texts)
    again = TokenStore.build([texts[place] for place in kept], counts)
    assert built.tokens.tolist() == again.tokens.tolist() == [5, 6, 1, 5, 6, 5]
    assert built.counts.tolist() == again.counts.tolist() == counts.tolist()
    assert TokenStore.build(texts, np.arange(7)).counts.tolist() == [0 + 2 + 5, 1 + 4, 3, 6]
    assert [len(part) for part in collapse([])] == [0, 0]


@pytest.mark.parametrize(
    ("documents", "message"),
    [
        ([], "the corpus of the datastore is empty; give at least one document"),
        ([[1], [], [2]], "document 1 of the datastore's corpus has no tokens; leave it out"),
        ([[1], [2, -1]], "document 1 .* holds token id -1; ids must be 0 to 4294967295"),
        ([[2**32, 1]], "document 0 .* holds token id 4294967296; ids must be 0 to 4294967295"),
    ],
)
def test_a_corpus_that_cannot_be_stored_is_refused(documents: list[list[int]], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        store(*documents)


def test_ids_beyond_16_bits_are_kept() -> None:
    built = store([2**32 - 1, 70_000, 0])
    assert built.continuations(np.array([0]), 3).tolist() == [[2**32 - 1, 70_000, 0]]
    assert built.longest_match(np.array([5, 2**32 - 1, 70_000])) == Match(2, 2, 3)


def test_parts_of_different_stores_are_refused() -> None:
    good, other = store([1, 2], [3]), store([1, 2], [3], [4])
    for tokens, offsets, counts, suffixes in (
        (other.tokens, good.offsets, good.counts, good.suffixes),
        (good.tokens, good.offsets, good.counts, other.suffixes),
        (good.tokens, good.offsets, other.counts, good.suffixes),
        (good.tokens, other.offsets, other.counts, good.suffixes),
    ):
        with pytest.raises(ValueError, match="the token store's parts do not belong together: "):
            TokenStore(tokens, offsets, counts, suffixes)


def test_nothing_is_found_or_read_across_the_end_of_a_document() -> None:
    """Case 30: documents [.., 8, 9] and [5, 6, ..] in this order."""
    built = store([7, 8, 9], [5, 6, 7])
    low, high = built.find(np.array([8, 9]))
    places = built.positions(low, high)
    assert built.continuations(places, 4).tolist() == [[8, 9, -1, -1]]
    assert built.continuations(places, 4, skip=2).tolist() == [[-1] * 4]
    assert built.longest_match(np.array([9, 5])).length == 0
    assert built.longest_match(np.array([8, 9, 5]), shortest=1) == Match(1, 0, 1)
    low, high = built.find(np.array([9, 5]))
    assert low == high


def test_a_document_of_one_token_repeated_is_searched() -> None:
    """Case 30: repetitive text."""
    built = store([4] * 10)
    match = built.longest_match(np.array([4] * 3))
    assert (match.length, match.high - match.low) == (3, 8)
    places = built.positions(match.low, match.high)
    assert places.tolist() == [7, 6, 5, 4, 3, 2, 1, 0]
    assert built.continuations(places[:3], 4, skip=3).tolist() == [[-1] * 4, [4, -1, -1, -1], [4, 4, -1, -1]]


def test_a_limit_cuts_the_range_in_its_order() -> None:
    built = store([1, 9], [1, 5], [1, 7], [1])
    low, high = built.find(np.array([1]))
    places = built.positions(low, high)
    assert built.continuations(places, 2).tolist() == [[1, -1], [1, 5], [1, 7], [1, 9]]
    assert built.positions(low, high, 2).tolist() == places[:2].tolist()
    assert built.positions(low, high, 9).dtype == np.int64
    assert built.positions(0, 0, 9).tolist() == []
    assert built.continuations(built.positions(0, 0), 3).shape == (0, 3)


@settings(max_examples=300, deadline=None)
@given(
    documents=DOCUMENTS,
    text=st.lists(st.integers(0, 3), min_size=1, max_size=20),
    longest=st.integers(1, 16),
    shortest=st.integers(1, 4),
)
def test_the_longest_match_is_that_of_a_scan_over_all_documents(
    documents: list[list[int]], text: list[int], longest: int, shortest: int
) -> None:
    built = store(*documents)
    distinct = [list(document) for document in dict.fromkeys(map(tuple, documents))]
    match = built.longest_match(np.array(text), longest, shortest)
    expected: dict[int, list[int]] = {}
    for length in range(shortest, min(longest, len(text)) + 1):
        end, place = text[len(text) - length :], 0
        for document in distinct:
            for start in range(len(document)):
                if document[start : start + length] == end:
                    expected.setdefault(length, []).append(place + start)
            place += len(document)
    assert match.length == max(expected, default=0)
    assert sorted(built.positions(match.low, match.high).tolist()) == expected.get(match.length, [])
    if match.length:
        assert built.find(np.array(text[-match.length :])) == (match.low, match.high)


def test_an_empty_store_finds_nothing() -> None:
    nothing = np.empty(0, np.int64)
    empty = TokenStore(np.empty(0, np.uint32), np.array([0]), nothing, nothing)
    assert (len(empty), empty.longest_match(np.array([1, 2])), empty.find(np.array([1]))) == (0, Match(), (0, 0))
    assert empty.continuations(nothing, 4).shape == (0, 4)
    assert empty.weights(nothing).tolist() == []


@settings(max_examples=25, deadline=None)
@given(documents=DOCUMENTS)
def test_what_is_saved_is_loaded(documents: list[list[int]], tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("store")
    built = store(*documents)
    built.save(folder)
    loaded = TokenStore.load(folder, "f" * 8)
    assert loaded.fingerprint == "f" * 8
    for name in ("tokens", "offsets", "counts", "suffixes"):
        before, after = getattr(built, name), getattr(loaded, name)
        assert (before.tolist(), before.dtype) == (after.tolist(), after.dtype)
    assert loaded.nbytes == built.nbytes == sum((folder / name).stat().st_size - 128 for name in TOKEN_FILES)
    text = np.array(documents[0])
    assert loaded.longest_match(text) == built.longest_match(text)


@pytest.mark.skipif(not Path("/proc/self/smaps").exists(), reason="reads what the kernel says of mapped files")
def test_a_store_is_mapped_and_a_query_reads_little_of_it(tmp_path: Path) -> None:
    """Case 30: no loading of the whole; the pages of tokens and suffixes in memory after a query are few."""
    rng = np.random.default_rng(0)
    TokenStore.build([rng.integers(0, 50_000, 1000) for _ in range(2000)]).save(tmp_path)
    for name in TOKEN_FILES:
        descriptor = os.open(tmp_path / name, os.O_RDONLY)
        os.fsync(descriptor)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(descriptor)
    loaded = TokenStore.load(tmp_path, "")
    loaded.longest_match(loaded.continuations(np.array([777_000]), 16)[0])
    mapped = Path("/proc/self/smaps").read_text().splitlines()
    resident = 0
    for number, line in enumerate(mapped):
        if str(tmp_path) in line:
            resident += next(int(entry.split()[1]) for entry in mapped[number:] if entry.startswith("Rss:"))
    assert 0 < resident * 1024 < loaded.nbytes / 2
