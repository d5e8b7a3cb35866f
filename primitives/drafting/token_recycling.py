"""Token Recycling: the tokens that the target rated highest after each token make the next draft tree.

Source: arXiv 2408.08696, section 3; github.com/Luowaterbi/TokenRecycling.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray

from primitives.contract import PAD, Context, Drafter, DraftTree, Floats, Ints, Outcome, TargetView
from primitives.registry import DRAFTERS

SUCCESSORS: Final = 8
# The published static tree, version "2.2.2" of the authors' tree_template_.py: for each level, how many children the
# nodes of the level above have, in their order; those after the last one listed have none. 80 nodes below the root.
CHILDREN: Final = (
    (8,),
    (8, 4, 3, 2, 1, 1, 1, 1),
    (8, 3, 2, 1, 1, 1, 1, 1, 2, 1, 0, 0, 1, 0, 0, 1, 0, 1, 1),
    (5, 2, 1, 1, 1, 0, 0, 0, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 1, 0, 0, 1, 1),
    (3, 1, 1, 0, 0, 1, 0, 0, 0, 0, 1, 0, 1),
    (2, 0, 0, 1),
)
# How often the next token is the successor of each rank: measured (docs/fidelity.md), for the node budget alone.
RANK_SHARES: Final = (0.48, 0.12, 0.065, 0.033, 0.027, 0.018, 0.014, 0.007)
_BLOCK: Final = 256


def template() -> tuple[Ints, Ints, Ints, Floats]:
    """Return level, parent and rank int64[81], and score float[81], of the root (level 0) and the 80 nodes below it.

    A node scores the product of the shares of the ranks on its path, so that a smaller budget keeps the likelier ones.
    """
    levels, parents, ranks, scores = [0], [PAD], [0], [1.0]
    above = range(1)
    for level, children in enumerate(CHILDREN, start=1):
        first = len(parents)
        for parent, count in zip(above, children, strict=False):
            levels += [level] * count
            parents += [parent] * count
            ranks += range(count)
            scores += [scores[parent] * share for share in RANK_SHARES[:count]]
        above = range(first, len(parents))
    return np.array(levels), np.array(parents), np.array(ranks), np.array(scores)


@DRAFTERS.register("token_recycling")
class TokenRecyclingDrafter(Drafter):
    """Fills a static tree from a matrix of the latest best successors of every token.

    The tree hangs below the pending token; the node of rank r under token u is the r-th best successor of u. A row is
    written for every token of a verified tree, accepted or not, and for the last token of the prompt, the only one
    whose logits a prefill shows. A token without a row proposes nothing.

    Args:
        vocab_size: ids that may be fed.
        carry_over: whether the matrix is kept from one sequence to the next.
        eos_ids: nothing is proposed after one of these.
    """

    reads = frozenset({"rejected"})

    def __init__(self, vocab_size: int, carry_over: bool = True, eos_ids: frozenset[int] = frozenset()) -> None:
        self.vocab_size = vocab_size
        self.carry_over = carry_over
        self.eos_ids = np.array(sorted(eos_ids), np.int64)
        self._levels, self._parents, self._ranks, self._scores = template()
        self._successors: NDArray[np.int32] | None = None

    @property
    def remembers(self) -> bool:
        """Whether the matrix is kept."""
        return self.carry_over

    def start(self, prompt: Ints, view: TargetView) -> None:
        """Begin with the rows of earlier sequences, or none, and write that of the last token of the prompt."""
        if self._successors is None or not self.carry_over:
            # One row more than there are tokens: PAD, as an index, finds no successors in it.
            self._successors = np.full((self.vocab_size + 1, SUCCESSORS), PAD, np.int32)
        self._write(prompt[-1:], self._best(view.logits[-1:]))

    def propose(self, context: Context) -> DraftTree:
        """Return the tree as far as the matrix fills it, the pending token on top; empty if it knows no successor."""
        assert self._successors is not None
        tokens = np.full(len(self._ranks), PAD, np.int64)
        tokens[0] = context.pending
        for level in range(1, len(CHILDREN) + 1):
            nodes = self._levels == level
            tokens[nodes] = self._successors[tokens[self._parents[nodes]], self._ranks[nodes]]
        real = tokens != PAD
        if real.sum() == 1:
            return DraftTree.empty()
        renumber = np.concatenate([np.cumsum(real) - 1, [PAD]])
        return DraftTree(tokens[real], renumber[self._parents[real]], scores=self._scores[real])

    def observe(self, outcome: Outcome) -> None:
        """Write a row for every token of the tree; where one occurs more than once, the committed place counts."""
        best = self._best(outcome.view.logits[1:])
        self._write(outcome.tree.tokens, best)
        self._write(outcome.committed, best[outcome.path])

    def _best(self, logits: torch.Tensor) -> Ints:
        return best_tokens(logits[:, : self.vocab_size], SUCCESSORS)

    def _write(self, tokens: Ints, best: Ints) -> None:
        assert self._successors is not None
        self._successors[tokens, : best.shape[1]] = best
        self._successors[self.eos_ids] = PAD


def best_tokens(logits: torch.Tensor, k: int) -> Ints:
    """Return int64[n, min(k, V)], the ids of the largest of each row of [n, V] logits, best first, ties by lower id.

    The k largest lie in the k blocks with the largest maxima, which spares a selection over the whole vocabulary: a
    sixth of the time of `torch.topk` over 150,000 columns.
    """
    rows, width = logits.shape
    whole = width // _BLOCK * _BLOCK
    maxima = logits[:, :whole].unflatten(1, (-1, _BLOCK)).amax(-1)
    ids = torch.arange(width, device=logits.device)
    blocks = maxima.topk(min(k, maxima.shape[1])).indices
    inside = (blocks[:, :, None] * _BLOCK + ids[:_BLOCK]).flatten(1)
    columns = torch.cat([inside, ids[whole:].expand(rows, -1)], 1)
    top = logits.gather(1, columns).float().topk(min(k, width))
    chosen: NDArray[Any] = columns.gather(1, top.indices).cpu().numpy()
    order = np.lexsort((chosen, -top.values.cpu().numpy()))
    return np.take_along_axis(chosen, order, 1)
