from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from benchmarks.pieces import piece_lengths

END = 256


def decode(ids: Sequence[int]) -> str:
    """A tokenizer of single bytes; 256 and above are special and left out."""
    return bytes(token for token in ids if token < END).decode("utf-8", errors="replace")


def cut(ids: Sequence[int], text: str) -> list[str]:
    pieces, start = [], 0
    for length in piece_lengths(ids, text, decode):
        pieces.append(text[start : start + length])
        start += length
    return pieces


def test_each_token_has_what_it_added() -> None:
    assert cut(list(b"ab c"), "ab c") == ["a", "b", " ", "c"]


def test_the_token_that_completes_a_character_has_all_of_it() -> None:
    ids = list("a\U0001f600é".encode())
    assert cut(ids, decode(ids)) == ["a", "", "", "", "\U0001f600", "", "é"]


def test_a_text_that_ends_inside_a_character_is_whole() -> None:
    ids = list("x\U0001f600".encode())[:-1]
    assert cut(ids, decode(ids)) == ["x", "", "", "\ufffd"]


def test_special_tokens_have_no_text() -> None:
    assert cut([97, END, 98, END + 1], "ab") == ["a", "", "b", ""]


def test_what_lies_behind_a_stop_string_belongs_to_no_token() -> None:
    assert cut(list(b"abcd"), "ab") == ["a", "b", "", ""]


def test_no_token() -> None:
    assert piece_lengths([], "", decode) == []


@given(st.text(), st.integers(0, 3))
def test_the_pieces_of_any_text_add_up_to_it(text: str, torn: int) -> None:
    ids = list(text.encode())[: -torn or None]
    assert "".join(cut(ids, decode(ids))) == decode(ids)


def test_a_decoder_that_changes_its_mind_changes_no_text() -> None:
    def stripping(ids: Sequence[int]) -> str:
        return decode(ids).strip()

    ids = list(b" a b ")
    lengths = piece_lengths(ids, stripping(ids), stripping)
    assert sum(lengths) == len("a b")
    assert min(lengths) >= 0
