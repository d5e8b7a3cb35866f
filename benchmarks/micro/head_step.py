"""What drafting with an EAGLE head costs beside the bare forwards of the head: the same levels, no trees, no caches.

python -m benchmarks.micro.head_step method=eagle3 draft_model=<folder> [key=value ...]
"""

from __future__ import annotations

import sys
from time import perf_counter

import numpy as np
import torch

from benchmarks.micro.rig import console, pipeline_and_prompts, report
from primitives.contract import Context, TargetView
from primitives.drafting._eagle import HeadDrafter
from primitives.models.eagle_head import EagleHead
from primitives.models.pooled_cache import PooledCache

ROUNDS = 40


class Levels:
    """The bare forwards behind one draft: every level's rows through layer and output matrix, behind the same text.

    Args:
        head: of the drafter.
        rows: pairs of each level.
        text: pairs of the text.
    """

    def __init__(self, head: EagleHead, rows: list[int], text: int) -> None:
        self.head = head
        self.text = text
        self.cache = PooledCache(1)
        self.parts = [self._part(count) for count in rows]
        self._run(*self._part(text))

    @torch.inference_mode()
    def __call__(self) -> None:
        """Run all levels."""
        self.cache.truncate(self.text)
        for part in self.parts:
            self.head.logits(self._run(*part)).topk(10)

    def _part(self, count: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        like, width = self.head.embedding, self.head.config.hidden_size
        states = torch.randn(count, width, dtype=like.dtype, device=like.device)
        return (
            torch.zeros(count, dtype=torch.int64, device=like.device),
            states,
            torch.arange(count, device=like.device),
        )

    @torch.inference_mode()
    def _run(self, tokens: torch.Tensor, states: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        return self.head.step(tokens, states, positions, self.cache)


def main() -> None:
    """Time whole drafts and their bare forwards in turn, and print the ratio."""
    pipeline, prompts = pipeline_and_prompts("dataset.num_samples=4", *sys.argv[1:])
    torch.set_num_threads(1)
    drafter, target = pipeline.connector.drafter, pipeline.target
    if not isinstance(drafter, HeadDrafter):
        raise ValueError(f"drafter '{drafter.name}' has no head: choose method=eagle2 or method=eagle3")
    pairs = []
    for prompt in prompts:
        ids = np.array(prompt)
        target.capture(drafter.layers)
        view = target.prefill(ids)
        rows = _rows_of(drafter, ids, view)
        bare = Levels(drafter.head, rows, len(ids))
        for _ in range(ROUNDS):
            mine = _draft(drafter, ids, view)
            begun = perf_counter()
            bare()
            pairs.append((mine, (perf_counter() - begun) * 1e3))
    report(f"a draft with {drafter.name} beside its bare forwards", pairs[ROUNDS // 4 :], "ms")
    console.print(f"levels of the last prompt: {rows} pairs")


def _draft(drafter: HeadDrafter, ids: np.ndarray[tuple[int], np.dtype[np.int64]], view: TargetView) -> float:
    """Return the milliseconds of one draft after the prompt."""
    pending = int(view.logits[-1].argmax())
    features = None if view.features is None else view.features[-1]
    drafter.start(ids, view)
    context = Context(np.append(ids, pending), view.logits[-1], view.hidden[-1], 100, features)
    begun = perf_counter()
    drafter.propose(context)
    return (perf_counter() - begun) * 1e3


def _rows_of(drafter: HeadDrafter, ids: np.ndarray[tuple[int], np.dtype[np.int64]], view: TargetView) -> list[int]:
    """Return how many pairs each forward of a draft feeds."""
    rows: list[int] = []
    handle = drafter.head.layer.mlp.register_forward_hook(lambda _m, _i, output: rows.append(output.shape[1]))
    _draft(drafter, ids, view)
    handle.remove()
    # The first forward is that of the prompt, in `start`.
    return rows[1:]


if __name__ == "__main__":
    main()
