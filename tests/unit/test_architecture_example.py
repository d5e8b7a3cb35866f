"""The pass that ARCHITECTURE.md follows by hand, done by the code."""

from __future__ import annotations

import numpy as np
import torch

from connectors.fitting import fit
from primitives.contract import Context, DraftTree, Pathway, TargetView, Verdict
from primitives.registry import VERIFIERS

WORDS = ["$", "18", "every", "per", "a", "day", "dollars"]
ID = {word: index for index, word in enumerate(WORDS)}
CANDIDATES = [["$", "18", "every", "day"], ["$", "18", "per", "day"], ["18", "dollars", "every", "day"]]
WEIGHTS = np.array([0.9, 0.6, 0.5])
# What the target says after a prefix; everything else is certain.
AFTER = {
    (): {"$": 1.0},
    ("$",): {"18": 1.0},
    ("$", "18"): {"a": 0.5, "every": 0.3, "per": 0.2},
    ("$", "18", "every"): {"day": 1.0},
    ("$", "18", "per"): {"day": 1.0},
}


def words(tree: DraftTree, node: int) -> tuple[str, ...]:
    return tuple(WORDS[token] for token in tree.tokens[tree.path_to(node)])


def row(prefix: tuple[str, ...]) -> torch.Tensor:
    logits = torch.full((len(WORDS),), -30.0)
    for word, share in AFTER.get(prefix, {"a": 1.0}).items():
        logits[ID[word]] = float(np.log(share))
    return logits


def one_pass(verifier: str) -> tuple[DraftTree, Verdict]:
    judge = VERIFIERS.build(verifier, {}, {})
    proposal = DraftTree.from_candidates([[ID[word] for word in candidate] for candidate in CANDIDATES], WEIGHTS)
    assert len(proposal) == 10
    context = Context(np.array([ID["a"], ID["$"]]), row(()), torch.zeros(2), budget=100)
    tree = fit(proposal, context, judge, max_nodes=20)
    logits = torch.stack([row(()), *(row(words(tree, node)) for node in range(len(tree)))])
    view = TargetView(logits, torch.zeros(len(logits), 2))
    return tree, judge.judge(tree, view, torch.Generator())


def test_soft_gated_evaluation_commits_four_tokens() -> None:
    tree, verdict = one_pass("soft_gated")
    assert [words(tree, node) for node in range(len(tree))] == [
        ("$",),
        ("$", "18"),
        ("$", "18", "every"),
        ("$", "18", "every", "day"),
        ("$", "18", "per"),
        ("$", "18", "per", "day"),
    ]
    assert tree.parents.tolist() == [-1, 0, 1, 2, 1, 4]
    assert tree.depths.tolist() == [1, 2, 3, 4, 3, 4]
    assert verdict.path.tolist() == [0, 1, 2, 3]
    assert verdict.pathways.tolist() == [Pathway.EXACT, Pathway.EXACT, Pathway.TOP_K, Pathway.EXACT]


def test_exact_verification_of_the_same_draft_commits_two() -> None:
    tree, verdict = one_pass("exact")
    assert [WORDS[token] for token in tree.tokens[verdict.path]] == ["$", "18"]
