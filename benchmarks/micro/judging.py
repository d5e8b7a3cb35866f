"""What judging costs: every verifier on one tree of 64 nodes, as a share of SmolLM2's forward over such a tree.

python -m benchmarks.micro.judging [key=value ...]
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import cache
from time import perf_counter
from typing import Any, Final

import numpy as np
import torch
from platformdirs import user_cache_path
from rich.table import Table

from benchmarks.micro.rig import console, pipeline_and_prompts
from methods.defaults import defaults
from primitives.contract import DraftTree, TargetView, Verifier
from primitives.models.embedded import embedded_cache
from primitives.registry import VERIFIERS

VOCABULARIES: Final = (49_152, 151_936)
NODES: Final = 64
BRANCHES: Final = 7
HIDDEN: Final = 576
ROUNDS: Final = 15
# How far the target goes along with the tree, and how sure it is of itself there.
AGREED: Final = 5
SURE: Final = 0.7
# What stands in for constants that scripts.calibrate would measure: all rules are on, and some mismatches pass.
CALIBRATION: Final[dict[str, Any]] = {
    "c_e": 4e-4,
    "c_l": 4.0,
    "tau_delta": 2.0,
    "margin_bound": 20.0,
    "logit_bound": 2000.0,
    "budget_table": [2.0 * length for length in range(1, NODES + 1)],
    "theta_t": 0.2,
    "theta_d": 0.2,
    "weights": np.zeros(HIDDEN),
    "bias": 0.0,
    "threshold": 0.4,
}


def main() -> None:
    """Time all verifiers in turn, on bfloat16 rows of both vocabularies."""
    forward = _forward_ms()
    table = Table(
        title="ms to judge 64 nodes" + ("" if forward is None else f"; a forward over them: {forward:.1f} ms")
    )
    for column in ("verifier", "draft", *(f"V = {size:,}" for size in VOCABULARIES)):
        table.add_column(column, justify="left" if column in ("verifier", "draft") else "right")
    figures = [_figures(size) for size in VOCABULARIES]
    for key in figures[0]:
        table.add_row(*key, *(_cell(figure[key], forward) for figure in figures))
    console.print(table)


def _forward_ms() -> float | None:
    """Return SmolLM2's milliseconds for a forward over the tree, or None where it is not in the user's cache."""
    if not embedded_cache(user_cache_path("atomsd")).is_dir():
        console.print("SmolLM2 is not in the cache: run `python run.py` once to see shares of its forward")
        return None
    pipeline, prompts = pipeline_and_prompts("method=vanilla", "dataset.num_samples=1", *sys.argv[1:])
    target = pipeline.target
    target.prefill(np.array(prompts[0]))
    tree = _tree(target.vocab_size, chain=False)
    return _median(lambda: target.verify(tree), target.synchronize)


def _figures(vocabulary: int) -> dict[tuple[str, str], float | str]:
    """Return milliseconds by verifier and kind of draft, or why a verifier cannot be timed."""
    found: dict[tuple[str, str], float | str] = {}
    views = {chain: _view(_tree(vocabulary, chain), vocabulary) for chain in (False, True)}
    for name in VERIFIERS.names():
        cls = VERIFIERS.get(name)
        chain = "chain" in cls.needs
        shape = "chain" if chain else "tree"
        for drawn in _kinds(cls):
            tree = _tree(vocabulary, chain, drawn)
            found[name, f"{shape}, drawn" if drawn else shape] = _judging(name, tree, views[chain])
    return found


def _kinds(cls: type[Verifier]) -> Iterator[bool]:
    """Yield whether the draft was drawn, for each kind of draft that makes a difference to the verifier."""
    if "q" not in cls.needs:
        yield False
    if "q" in cls.needs or cls.guarantee == "distribution":
        yield True


def _judging(name: str, tree: DraftTree, view: TargetView) -> float | str:
    vocabulary = view.logits.shape[1]
    offered = {"calibration": CALIBRATION, "vocab_size": vocabulary, "eos_ids": frozenset()}
    if VERIFIERS.asks_for(name, "embeddings"):
        offered["embeddings"] = torch.randn(vocabulary, HIDDEN, generator=torch.Generator().manual_seed(3))
    rng = torch.Generator().manual_seed(0)
    try:
        verifier = VERIFIERS.build(name, defaults("verifier", name), offered)
        return _median(lambda: verifier.judge(tree, view, rng))
    except ValueError as error:
        return str(error)


@cache
def _tree(vocabulary: int, chain: bool, drawn: bool = False) -> DraftTree:
    """Return the pending token with a chain, or with a few branches of equal length, below it; the same each time."""
    rng = np.random.default_rng(1)
    tokens = rng.integers(0, vocabulary, NODES)
    parents = np.arange(-1, NODES - 1)
    if not chain:
        parents[1 :: (NODES - 1) // BRANCHES] = 0
    tree = DraftTree(tokens, parents)
    if not drawn:
        return tree
    q = torch.randn(NODES, vocabulary, generator=torch.Generator().manual_seed(2)) * 2
    q[torch.arange(NODES), torch.from_numpy(tokens)] = torch.logsumexp(q, 1) + _log_odds(SURE)
    return DraftTree(tokens, parents, q=q.softmax(1))


def _view(tree: DraftTree, vocabulary: int) -> TargetView:
    """Return rows that are as sure as a language model's are, and that agree with the tree at its first levels."""
    generator = torch.Generator().manual_seed(4)
    logits = torch.randn(NODES + 1, vocabulary, generator=generator) * 2.5
    best = torch.randint(0, vocabulary, (NODES + 1,), generator=generator)
    agreed = np.flatnonzero(tree.depths <= AGREED)
    best[torch.from_numpy(tree.rows[agreed][::-1].copy())] = torch.from_numpy(tree.tokens[agreed][::-1].copy())
    logits[torch.arange(NODES + 1), best] = torch.logsumexp(logits, 1) + _log_odds(SURE)
    return TargetView(logits.bfloat16(), torch.randn(NODES + 1, HIDDEN, generator=generator).bfloat16())


def _log_odds(share: float) -> float:
    return float(np.log(share / (1 - share)))


def _median(work: Any, wait: Any = lambda: None) -> float:
    times = []
    for _ in range(ROUNDS + 2):
        wait()
        start = perf_counter()
        work()
        wait()
        times.append((perf_counter() - start) * 1e3)
    return float(np.median(times[2:]))


def _cell(figure: float | str, forward: float | None) -> str:
    if isinstance(figure, str):
        return figure
    return f"{figure:.2f}" if forward is None else f"{figure:.2f} ({100 * figure / forward:.1f} %)"


if __name__ == "__main__":
    main()
