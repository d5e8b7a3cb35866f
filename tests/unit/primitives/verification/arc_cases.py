"""Cases for ARC: small vocabularies, and its surrogate computed one number at a time."""

from __future__ import annotations

from math import exp, log, sqrt
from typing import Any

import numpy as np
import torch

from primitives.contract import DraftTree, TargetView, Verdict
from primitives.verification.arc import ArcVerifier

VOCABULARY = 6
WIDTH = 3
RNG = torch.Generator()
CONSTANTS: dict[str, Any] = {"c_e": 0.05, "c_l": 0.6, "tau_delta": 1.0}


def embeddings_of(seed: int) -> torch.Tensor:
    """Dimensions of very different spread, so that whitening matters."""
    rng = np.random.default_rng(seed)
    return torch.from_numpy(rng.normal(size=(VOCABULARY, WIDTH)) * [0.01, 1.0, 30.0]).float()


def case(seed: int, agreeing: float = 0.5, scale: float = 2.0) -> tuple[DraftTree, TargetView]:
    """A random tree whose nodes are the target's choice with some probability, and the target's view."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, 7, 4)
    tree = DraftTree.from_candidates([rng.integers(0, 4, n).tolist() for n in lengths], rng.random(4))
    logits = torch.from_numpy(rng.normal(size=(len(tree) + 1, VOCABULARY)) * scale).float()
    for row, token in zip(tree.rows, tree.tokens, strict=True):
        if rng.random() < agreeing:
            logits[row, token] = logits[row].max() + 0.1
    return tree, TargetView(logits, torch.zeros(len(logits), 2))


def arc(seed: int = 0, **knobs: Any) -> ArcVerifier:
    return ArcVerifier(embeddings_of(seed), **{**CONSTANTS, **knobs})


def verdict_of(tree: DraftTree, view: TargetView, verifier: ArcVerifier) -> Verdict:
    return verifier.judge(tree, view, RNG)


def surrogate(embeddings: torch.Tensor, row: list[float], token: int, c_e: float, c_l: float) -> tuple[float, ...]:
    """Margin, logit part and shift of a token, one number at a time."""
    rows = embeddings.tolist()
    choice = row.index(max(row))
    apart = 0.0
    for i in range(len(rows[0])):
        column = [each[i] for each in rows]
        mean = sum(column) / len(column)
        spread = sqrt(sum((x - mean) ** 2 for x in column) / len(column))
        apart += ((rows[token][i] - rows[choice][i]) / (spread + 1e-6)) ** 2
    total = sum(exp(x) for x in row)
    margin = log(exp(row[choice]) / total) - log(exp(row[token]) / total)
    return margin, c_l * margin**2, min(c_e * apart, c_l * margin**2)


def flat(choice: int) -> list[float]:
    return [1.0 if token == choice else 0.5 for token in range(VOCABULARY)]


def flat_view(*choices: int) -> TargetView:
    """A view whose rows let every token pass under `CONSTANTS`."""
    return TargetView(torch.tensor([flat(choice) for choice in choices]), torch.zeros(len(choices), 1))
