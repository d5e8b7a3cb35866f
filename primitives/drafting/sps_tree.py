"""SpS with branches: a small language model drafts a tree, level by level.

Sources: SpecInfer (arXiv:2305.09781, section 3, expansion by the top k) for greedy decoding; siblings drawn without
replacement, in the order that tree verifiers try them, for sampling (arXiv:2402.14160, section 3.2).
"""

from __future__ import annotations

from math import inf
from typing import Any

import numpy as np
import torch

from primitives.contract import Context, DraftTree, Floats, Ints
from primitives.drafting._draft_model import LoadedDraft, ModelDrafter, certain
from primitives.knobs import check_range
from primitives.registry import DRAFTERS
from primitives.statistics import draw_each, probabilities


@DRAFTERS.register("sps_tree")
class SpsTreeDrafter(ModelDrafter):
    """Each level expands its likeliest nodes by the best tokens, or, where the text is sampled, by draws.

    Args:
        draft_model: the language model, with the target's tokenizer.
        tokenizer: the target's.
        vocab_size: ids that the target takes.
        eos_ids: ids that end a text; nothing is drafted below them.
        depth: levels below the pending token; each is one forward of the draft model.
        branching: children of a node.
        width: nodes of a level that are expanded.

    Raises:
        ValueError: a setting out of its range, or a draft model with another tokenizer.
    """

    provides = frozenset({"q"})

    def __init__(
        self,
        draft_model: LoadedDraft | None,
        tokenizer: Any,
        vocab_size: int,
        eos_ids: frozenset[int],
        depth: int = 5,
        branching: int = 2,
        width: int = 2,
    ) -> None:
        check_range("drafter 'sps_tree'", 1, inf, depth=depth, branching=branching, width=width)
        super().__init__(draft_model, tokenizer, vocab_size)
        self._eos_ids = eos_ids
        self.depth = depth
        self.branching = branching
        self.width = width

    def propose(self, context: Context) -> DraftTree:
        """Return a tree below the pending token; empty beyond the draft model's positions."""
        levels = int(min(self.depth, context.budget - 1, self.room(context.tokens)))
        if levels < 1 or context.pending in self._eos_ids:
            return DraftTree.empty()
        texts = context.tokens[None]
        tokens, parents = context.tokens[-1:], np.array([-1])
        log_q, path_log_q = np.zeros(1), np.zeros(1)
        # Nodes to be expanded, and the place of each among the nodes that the draft model has been fed; -1: its text.
        frontier, fed = np.zeros(1, np.int64), np.array([-1])
        count, main_row, laws = 0, 0, []
        logits = self.lm.read(context.tokens)[None]
        for level in range(levels):
            processed = self.laws(context, logits, texts)
            rows, children, shares, drawn = self._children(context, processed)
            new = len(tokens) + np.arange(len(children))
            tokens = np.concatenate([tokens, children])
            parents = np.concatenate([parents, frontier[rows]])
            log_q = np.concatenate([log_q, shares])
            path_log_q = np.concatenate([path_log_q, path_log_q[frontier[rows]] + shares])
            laws += drawn
            open_to = new[~np.isin(children, list(self._eos_ids))]
            if level == levels - 1 or not len(open_to):
                break
            # The chain of the best tokens stays, also where two halves of another branch are likelier.
            main = new[rows == main_row][:1]
            worth = np.where(np.isin(open_to, main), inf, path_log_q[open_to])
            best = np.sort(open_to[np.argsort(-worth, kind="stable")[: self.width]])
            main_row = int(np.flatnonzero(best == main)[0]) if np.isin(main, best).any() else -1
            above = rows[best - new[0]]
            logits = self.lm.grow(tokens[best], fed[above])
            texts = np.concatenate([texts[above], tokens[best][:, None]], axis=1)
            frontier, fed = best, count + np.arange(len(best))
            count += len(best)
        q = torch.cat([certain(context.pending, laws[0]), *laws]) if laws else None
        return DraftTree(tokens, parents, log_q=log_q, q=q, scores=np.exp(path_log_q))

    def _children(self, context: Context, logits: torch.Tensor) -> tuple[Ints, Ints, Floats, list[torch.Tensor]]:
        """Return the children of [m, V] rows: row, token, log of its share, and the laws of all if they are asked for.

        A law is what the token was drawn from; in greedy decoding its row's.
        """
        if context.decoding.greedy:
            shares, best = torch.log_softmax(logits, -1, dtype=torch.float32).topk(
                min(self.branching, logits.shape[-1])
            )
            rows = np.repeat(np.arange(len(best)), best.shape[1])
            log_q = shares.flatten().double().cpu().numpy()
            possible = np.isfinite(log_q)
            rows = rows[possible]
            asked = [probabilities(logits)[torch.from_numpy(rows).to(logits.device)]] if context.decoding.laws else []
            return rows, best.flatten().cpu().numpy()[possible], log_q[possible], asked
        whole = probabilities(logits)
        left = whole.clone()
        drawn = []
        for _ in range(self.branching):
            alive = np.flatnonzero((left.sum(-1) > 0).cpu().numpy())
            if not len(alive):
                break
            at = torch.from_numpy(alive).to(left.device)
            laws = left[at] / left[at].sum(-1, keepdim=True)
            ids = draw_each(laws, context.decoding.rng)
            index = torch.from_numpy(ids).to(left.device)
            drawn.append((alive, ids, whole[at, index].log().cpu().numpy(), laws))
            left[at, index] = 0
        rows, tokens, log_q = (np.concatenate([part[place] for part in drawn]) for place in range(3))
        return rows, tokens, log_q, [part[3] for part in drawn]
