"""Random trees, rows of known shape, and a plain reference for rules that look at one row: what the tests share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import exp, log
from typing import Any

import numpy as np
import torch

from primitives.contract import DraftTree, TargetView, Verdict, Verifier

VOCABULARY = 6
RNG = torch.Generator()


def case(seed: int, agreeing: float = 0.6, candidates: int = 4, length: int = 7) -> tuple[DraftTree, TargetView]:
    """A random tree whose nodes are the target's choice with some probability, with scores, and the target's view."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, length + 1, candidates)
    tree = DraftTree.from_candidates([rng.integers(0, 3, n).tolist() for n in lengths], rng.random(candidates))
    scale = rng.choice([0.3, 2.0, 5.0], (len(tree) + 1, 1))
    logits = torch.from_numpy(rng.normal(size=(len(tree) + 1, VOCABULARY)) * scale).float()
    for row, token in zip(tree.rows, tree.tokens, strict=True):
        if rng.random() < agreeing:
            logits[row, token] = logits[row].max() + 0.1
    return tree, TargetView(logits, torch.zeros(len(logits), 2))


def flat(choice: int, others: tuple[int, ...] = ()) -> list[float]:
    """A row of high entropy that chooses `choice`, and `others` next."""
    row = [1.0] * VOCABULARY
    for rank, token in enumerate((choice, *others)):
        row[token] = 1.5 - 0.1 * rank
    return row


def certain(choice: int) -> list[float]:
    return [30.0 if token == choice else 0.0 for token in range(VOCABULARY)]


def of(*probabilities: float) -> list[float]:
    """A row with these probabilities."""
    return [log(p) for p in probabilities]


def view_of(*rows: Sequence[float], dtype: torch.dtype = torch.float32) -> TargetView:
    return TargetView(torch.tensor(rows, dtype=dtype), torch.zeros(len(rows), 2))


def judge(verifier: Verifier, tree: DraftTree, view: TargetView) -> Verdict:
    return verifier.judge(tree, view, RNG)


def softmax(row: Sequence[float]) -> list[float]:
    weights = [exp(logit - max(row)) for logit in row]
    return [weight / sum(weights) for weight in weights]


def entropy(p: Sequence[float]) -> float:
    return -sum(x * log(x) for x in p if x > 0)


def naive(tree: DraftTree, view: TargetView, passes: Callable[[list[float], int], bool]) -> list[int]:
    """The longest path by a rule for a row of logits and a token; ties: exact matches, score, first."""
    ranked: list[tuple[Any, list[int]]] = []
    for index, path in enumerate(tree.paths.tolist()):
        accepted: list[int] = []
        exact = 0
        for node in path:
            if node < 0:
                break
            row, token = view.logits[tree.rows[node]].double().tolist(), int(tree.tokens[node])
            matches = token == row.index(max(row))
            if not matches and not passes(row, token):
                break
            exact += matches
            accepted.append(node)
        assert tree.scores is not None
        score = float(tree.scores[accepted[-1] if accepted else path[0]])
        ranked.append(((len(accepted), exact, score, -index), accepted))
    return max(ranked)[1]
