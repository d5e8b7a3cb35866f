"""SemanticSpec: a drafted segment is accepted if the target means it as likely as the draft model does.

Source: SemanticSpec (arXiv 2602.03708). `scripts.train_semantic_probe` trains the two probes.
"""

from __future__ import annotations

from math import inf
from typing import Final

import numpy as np
import torch

from primitives.contract import DraftTree, Ints, TargetView, Verdict, Verifier
from primitives.knobs import check_choice, check_range
from primitives.registry import VERIFIERS
from primitives.statistics import greedy_choice, within_top
from primitives.verification._coin import Coin
from primitives.verification._paths import verdict_of
from primitives.verification._probe import Probes

RULES: Final = ("ratio", "greater", "none")
BLOCK: Final = 32


@VERIFIERS.register("semantic")
class SemanticVerifier(Verifier):
    """Accepts a segment whole, or nothing of it but the pending token, with which it begins.

    It is accepted if every token is among the target's `top_k`; else P_t = probe_t(v_t) and P_d = probe_d(v_d) decide,
    with v_t and v_d the means over the segment of the final hidden states that target and draft model have after each
    token. What is judged is what went through the forward: the end of a text cuts its last segment.

    Args:
        probes: of the target and the draft model; None while only settings are looked at.
        rule: "ratio" accepts with probability ``min(1, P_t / P_d)``, "greater" if ``P_t >= P_d`` (older code), "none"
            never.
        top_k: largest logits that a token may be among for the fast path, at least 1; 0 is off.

    Raises:
        ValueError: a setting out of its range.
    """

    guarantee = "lossy"
    needs = frozenset({"chain", "hidden", "draft_hidden"})
    neutral = ({"rule": "none", "top_k": 0},)
    grain = "segment"

    def __init__(self, probes: Probes | None = None, rule: str = "ratio", top_k: int = 2) -> None:
        check_choice("verifier 'semantic'", RULES, rule=rule)
        check_range("verifier 'semantic'", 0, inf, top_k=top_k)
        self.rule = rule
        self.top_k = top_k
        self._probes = probes

    @property
    def awaits_probes(self) -> bool:
        """Whether these settings ask the probes."""
        return self.rule != "none"

    def judge(self, tree: DraftTree, view: TargetView, rng: torch.Generator) -> Verdict:
        """Return the whole chain, or its first node.

        Raises:
            ValueError: a draft with several branches or without the draft model's states, or no probes.
        """
        if len(tree) == 1:
            return verdict_of(np.zeros(1, np.int64), np.ones(1, bool))
        if not tree.is_chain:
            raise ValueError(f"verifier 'semantic' takes a draft of one branch, and this one has {len(tree.leaves)}")
        drafted = np.arange(1, len(tree))
        if not (self._all_near(tree, view, drafted) or self._means_the_same(tree, view, rng)):
            drafted = drafted[:0]
        choice = greedy_choice(view.select(drafted).logits) if len(drafted) else drafted
        # The pending token is the target's own, also where it was drawn.
        return verdict_of(np.append(0, drafted), np.append(True, tree.tokens[drafted] == choice))

    def _all_near(self, tree: DraftTree, view: TargetView, nodes: Ints) -> bool:
        """Return whether every token of int64[m] nodes of a chain is among its row's largest logits.

        Rows are processed where they are looked at, and most segments have a token that is not, so a block at a time.
        """
        blocks = (nodes[start : start + BLOCK] for start in range(0, len(nodes), BLOCK))
        return self.top_k > 0 and all(self._near(view.select(block).logits, tree.tokens[block]) for block in blocks)

    def _near(self, logits: torch.Tensor, tokens: Ints) -> bool:
        ids = torch.from_numpy(tokens).to(logits.device)
        possible = logits.gather(1, ids[:, None])[:, 0] > -inf
        return bool((possible & within_top(logits, ids, self.top_k)).all())

    def _means_the_same(self, tree: DraftTree, view: TargetView, rng: torch.Generator) -> bool:
        """Return what the probes decide; row i+1 of the view and node i of the tree are the states after token i."""
        if not self.awaits_probes:
            return False
        if tree.hidden is None:
            raise ValueError(
                "verifier 'semantic' needs the draft model's hidden states: take drafter=semanticspec, which gives them"
            )
        if self._probes is None:
            raise ValueError("verifier 'semantic' has no probes: train them with scripts.train_semantic_probe")
        target = float(self._probes.target(view.hidden[1:].float().mean(0)))
        draft = float(self._probes.draft(tree.hidden.float().mean(0)))
        if self.rule == "greater":
            return target >= draft
        return Coin(rng).flip(min(1.0, target / draft) if draft > 0 else 1.0)
