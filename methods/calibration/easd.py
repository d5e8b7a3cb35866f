"""EASD's thresholds: percentiles of the entropies that target and drafter show on texts that are kept for it.

Source: EASD (arXiv 2512.23765), which takes them on a held-out set; here it is train prompts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import torch

from connectors.connector import Connector
from connectors.settings import DecodeSettings
from corpora.example import Example
from methods.calibration.recipe import Amounts, Arrays, Bench, Recipe
from primitives.contract import DraftTree, Floats, TargetView, Verdict
from primitives.statistics import fetched, normalised_entropy, normalised_entropy_of
from primitives.verification.exact import ExactVerifier


class EasdRecipe(Recipe):
    """Every place that a pass of exact verification comes to."""

    amounts: ClassVar[Amounts] = Amounts(num_prompts=50, positions=128, max_new_tokens=128)
    uses_drafter = True

    def level(self, verifier: Mapping[str, Any]) -> dict[str, float]:
        """Return the percentile of the entropies from which on a side is unsure."""
        return {"percentile": verifier["percentile"]}

    def meter(self, bench: Bench) -> Callable[[Example], Arrays]:
        """Return a function that gives entropies, as shares of ln V: target float64[m], drafter float64[m]."""
        return lambda example: _entropies(bench, example)

    def constants(self, prompts: Sequence[Arrays], level: Mapping[str, float]) -> dict[str, Any]:
        """Return the percentiles theta_t and theta_d.

        Raises:
            ValueError: no drafted token.
        """
        target, drafter = (np.concatenate([prompt[side] for prompt in prompts]) for side in ("target", "drafter"))
        if not len(target):
            raise ValueError("the drafter proposed nothing: raise calibration.num_prompts, or choose another drafter")
        percentile = level["percentile"]
        return {
            "theta_t": float(np.percentile(target, percentile)),
            "theta_d": float(np.percentile(drafter, percentile)),
        }


def _entropies(bench: Bench, example: Example) -> Arrays:
    method, recorder = bench.pipeline.connector, EntropyRecorder()
    decode = DecodeSettings(max_new_tokens=bench.amounts.max_new_tokens)
    connector = Connector(method.target, method.drafter, recorder, method.decode, method.max_nodes)
    connector.generate(bench.prompt(example), decode)
    most = bench.amounts.positions
    return {
        "target": np.concatenate([np.empty(0), *recorder.target])[:most],
        "drafter": np.concatenate([np.empty(0), *recorder.drafter])[:most],
    }


class EntropyRecorder(ExactVerifier):
    """Exact verification that notes how unsure both sides are about each drafted token that it comes to.

    Attributes:
        target: entropies of the target's rows, as shares of ln V.
        drafter: likewise of the drafter's.
    """

    needs = frozenset({"q"})

    def __init__(self) -> None:
        self.target: list[Floats] = []
        self.drafter: list[Floats] = []

    def judge(self, tree: DraftTree, view: TargetView, rng: torch.Generator) -> Verdict:
        """Return the path of the target's choices; note the places along it, and the one where it ends."""
        verdict = super().judge(tree, view, rng)
        if tree.q is not None:
            reached = np.isin(tree.parents, verdict.path)
            # Siblings share a place.
            rows, nodes = np.unique(tree.rows[reached], return_index=True)
            nodes = np.flatnonzero(reached)[nodes]
            self.target += fetched(normalised_entropy(view.select(rows).logits))
            self.drafter += fetched(normalised_entropy_of(tree.q[torch.from_numpy(nodes).to(tree.q.device)]))
        return verdict
