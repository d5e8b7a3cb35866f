"""What a line of samples.jsonl holds for people to look at: text by tokens, and the draft tree of every pass."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.pieces import piece_lengths
from benchmarks.turns import joined
from connectors.trace import Generation, Trace, VerifiedTree
from primitives.models.token_texts import token_texts

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


def recorded(
    tokenizer: PreTrainedTokenizerBase,
    decode: Callable[[Sequence[int]], str],
    method: Sequence[Generation],
    baseline: Sequence[Generation],
    with_trees: bool,
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return what is added to a sample and to its baseline.

    Args:
        tokenizer: the model's.
        decode: turns ids into text, special tokens left out.
        method: the method's output to each turn.
        baseline: the baseline's.
        with_trees: whether the draft trees go in.

    Returns:
        `pieces`, characters of the text that belong to each token, for both. For the method also `trees`, see
        `flat_trees`, or None; and `token_texts`, by id the text of each token in the trees, and of each token that
        is not to be seen in a text.
    """
    # Turn by turn, since a stop string may have cut the text of any of them.
    ours, theirs = (
        [length for output in outputs for length in piece_lengths(output.ids, output.text, decode)]
        for outputs in (method, baseline)
    )
    trace = joined(method).trace
    drafted = chain.from_iterable(tree.tokens.tolist() for tree in trace.trees) if with_trees else ()
    texts = token_texts(tokenizer, chain(_unseen(method, ours), _unseen(baseline, theirs), drafted))
    trees = flat_trees(trace) if with_trees else None
    return {"pieces": ours, "token_texts": texts, "trees": trees}, {"pieces": theirs}


def _unseen(outputs: Sequence[Generation], lengths: Sequence[int]) -> list[int]:
    return [token for token, length in zip(joined(outputs).ids, lengths, strict=True) if not length]


def flat_trees(trace: Trace) -> dict[str, Any]:
    """Return the trees of all passes, one after the other in flat lists.

    `nodes` and `committed` of the sample say where each pass ends: the first in `tokens`, `parents` and `drafted_by`,
    the second in `paths`. `pending` is the node of the pending token in each pass. `drafted_by` holds bits, bit b for
    `sources[b]`, and is None where no tree tells who drafted what.
    """
    trees, everyone = trace.trees, (1 << len(trace.sources)) - 1
    bits = [np.full(len(tree.tokens), everyone) if tree.sources is None else tree.sources for tree in trees]
    return {
        "sources": list(trace.sources),
        "tokens": _joined([tree.tokens for tree in trees]),
        "parents": _joined([tree.parents for tree in trees]),
        "pending": [_pending_node(tree) for tree in trees],
        "drafted_by": _joined(bits) if any(tree.sources is not None for tree in trees) else None,
        "paths": _joined([tree.path for tree in trees]),
    }


def _pending_node(tree: VerifiedTree) -> int:
    return int(np.flatnonzero((tree.tokens == tree.pending) & (tree.parents < 0))[0])


def _joined(arrays: Sequence[Any]) -> list[int]:
    return np.concatenate(arrays).tolist() if arrays else []
