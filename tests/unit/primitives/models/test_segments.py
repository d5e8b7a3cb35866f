from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from primitives.models.embedded import embedded_folder
from primitives.models.segments import SegmentEnds


def byte_level(*merges: tuple[str, str]) -> Any:
    """Return a byte-level tokenizer of all bytes and some merges."""
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    entries = [*letters, *("".join(pair) for pair in merges)]
    backend = Tokenizer(models.BPE({entry: index for index, entry in enumerate(entries)}, list(merges)))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    backend.decoder = decoders.ByteLevel()
    build: Any = PreTrainedTokenizerFast
    return build(tokenizer_object=backend)


def ends_in(tokenizer: Any, text: str) -> list[str]:
    """Return what each token that ends a segment of a text has before it, itself included."""
    ids = np.array(tokenizer(text, add_special_tokens=False).input_ids)
    ends = SegmentEnds(tokenizer, len(tokenizer)).after(ids[:-1], ids[1:])
    return [tokenizer.decode(ids[: place + 2]) for place in np.flatnonzero(ends)]


def test_a_token_that_holds_a_blank_line_ends_a_segment() -> None:
    tokenizer = byte_level(("Ċ", "Ċ"), (".", "ĊĊ"), ("Ġ", "ĊĊ"))
    known = SegmentEnds(tokenizer, len(tokenizer)).ids
    assert [tokenizer.decode([token]) for token in known] == ["\n\n", ".\n\n", " \n\n"]
    assert ends_in(tokenizer, "a.\n\nb\nc\n\nd") == ["a.\n\n", "a.\n\nb\nc\n\n"]


def test_two_line_breaks_end_one_where_no_token_holds_both() -> None:
    tokenizer = byte_level((".", "Ċ"))
    assert len(SegmentEnds(tokenizer, len(tokenizer)).ids) == 0
    assert ends_in(tokenizer, "a.\n\nb\nc\n\nd") == ["a.\n\n", "a.\n\nb\nc\n\n"]


def test_ids_beyond_the_tokenizer_end_nothing() -> None:
    tokenizer = byte_level(("Ċ", "Ċ"))
    size = len(tokenizer)
    ends = SegmentEnds(tokenizer, size + 50)
    padding = np.arange(size, size + 50)
    assert not ends.after(padding, padding).any()
    assert ends.ids.tolist() == [size - 1]


@pytest.mark.real_model
def test_the_segments_of_a_real_tokenizer_are_those_of_its_text(real_cache: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(embedded_folder(real_cache))
    text = "First.\n\nThen: 3 + 4 = 7\nand\n\n- a point\n\n\nThe end \n\nx"
    pieces = ends_in(tokenizer, text)
    assert [piece.strip() for piece in pieces] == [
        "First.",
        "First.\n\nThen: 3 + 4 = 7\nand",
        "First.\n\nThen: 3 + 4 = 7\nand\n\n- a point",
        "First.\n\nThen: 3 + 4 = 7\nand\n\n- a point\n\n\nThe end",
    ]
    assert all("\n\n" in tokenizer.decode([token]) for token in SegmentEnds(tokenizer, len(tokenizer)).ids)
