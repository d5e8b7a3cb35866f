"""What a pass costs by the number of its nodes, relative to one node: the ground of the default node budget.

python -m benchmarks.micro.pass_cost [key=value ...]
"""

from __future__ import annotations

import sys
from time import perf_counter

import numpy as np

from benchmarks.micro.rig import console, pipeline_and_prompts
from primitives.contract import DraftTree

SIZES = (1, 8, 12, 16, 20, 24, 32, 48, 64)
ROUNDS = 15
BRANCHES = 4


def main() -> None:
    """Time forwards over trees of every size in turn, behind a real prompt."""
    pipeline, prompts = pipeline_and_prompts("method=vanilla", "dataset.num_samples=1", *sys.argv[1:])
    target = pipeline.target
    target.prefill(np.array(prompts[0]))
    trees = {size: tree_of(size, target.vocab_size) for size in SIZES}
    times: dict[int, list[float]] = {size: [] for size in SIZES}
    for _ in range(ROUNDS + 2):
        for size, tree in trees.items():
            target.synchronize()
            start = perf_counter()
            target.verify(tree)
            target.synchronize()
            times[size].append(perf_counter() - start)
    one = np.median(times[1][2:])
    costs = ", ".join(f"{size}: {np.median(times[size][2:]) / one:.2f}" for size in SIZES)
    console.print(f"cost of a pass by nodes, one node = 1 ({one * 1e3:.1f} ms): {costs}")


def tree_of(size: int, vocab_size: int) -> DraftTree:
    """Return a tree of `size` nodes in a few branches of equal length."""
    rng = np.random.default_rng(size)
    length = -(-size // BRANCHES) if size > 1 else 1
    tree = DraftTree.from_candidates(rng.integers(0, vocab_size, (BRANCHES, length)).tolist())
    return tree.keep(np.isin(np.arange(len(tree)), np.argsort(tree.depths, kind="stable")[:size]))


if __name__ == "__main__":
    main()
