"""Whether two tokenizers give the same ids, and which ids a draft may hold."""

from __future__ import annotations

import re
from typing import Any, Final

import numpy as np

from primitives.contract import Bools

# What converters write where an embedding has more rows than the tokenizer has entries.
_PADDING: Final = re.compile(r"\[PAD\d+\]")


def vocabulary(tokenizer: Any) -> dict[str, int]:
    """Return the entries of a tokenizer with their ids, those left out that only fill up an embedding."""
    return {token: index for token, index in tokenizer.get_vocab().items() if not _PADDING.fullmatch(token)}


def refuse_other_tokenizer(drafter: str, target: Any, draft: Any) -> None:
    """Raise ValueError if two tokenizers do not map the same entries to the same ids, naming the first that differs.

    Sizes say nothing: models of one family are padded to different widths, and tokenizers of one size differ.
    """
    own, other = vocabulary(target), vocabulary(draft)
    if own == other:
        return
    _, token = min((own.get(token, other.get(token, 0)), token) for token, _ in own.items() ^ other.items())
    raise ValueError(
        f"drafter '{drafter}': the tokenizer of draft_model differs from the model's, first in {token!r}, which is "
        f"{_id(own, token)} in the model's and {_id(other, token)} in the draft's: choose a draft model of the same "
        "family, or take drafter=sps with drafter.tokenizers=retokenise"
    )


def proposable(tokenizer: Any, width: int) -> Bools:
    """Return bool[width]: the ids that stand for an entry of the tokenizer."""
    ids = np.fromiter(vocabulary(tokenizer).values(), np.int64)
    mask: Bools = np.zeros(width, bool)
    mask[ids[ids < width]] = True
    return mask


def _id(entries: dict[str, int], token: str) -> str:
    return f"id {entries[token]}" if token in entries else "no entry"
