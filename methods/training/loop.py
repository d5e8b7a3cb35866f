"""The training loop: batches in a fixed order, checkpoints, and the same result however often it is interrupted."""

from __future__ import annotations

import logging
import math
import os
from collections.abc import Sequence
from pathlib import Path
from time import monotonic, perf_counter
from typing import Any, ClassVar, Final

import torch

from methods.training.data import Batch, batches
from methods.training.settings import TrainingSettings
from primitives.models.recording import Recording

CHECKPOINT: Final = "checkpoint.pt"
LEAST_RATE: Final = 0.1
EVALUATIONS: Final = 12
Row = dict[str, Any]

_LOG = logging.getLogger(__name__)


class Trainer:
    """Trains one head.

    Args:
        settings: of the training.
        head: to be trained, on its device: a draft head, or whatever else the objective knows.
        objective: losses and gradients.
        folder: where checkpoints lie.
        identity: of data and settings; a checkpoint of another identity is refused.
    """

    also_lower: ClassVar[str] = "training.depth"

    def __init__(self, settings: TrainingSettings, head: Any, objective: Any, folder: Path, identity: str) -> None:
        self.settings = settings
        self.head = head
        self.objective = objective
        self.path = folder / CHECKPOINT
        self.identity = identity
        self.rows: list[Row] = []
        self.step = 0
        self._device = next(head.parameters()).device
        self._optimiser = torch.optim.AdamW(
            head.parameters(), lr=0.0, betas=(settings.betas[0], settings.betas[1]), weight_decay=0.0
        )

    def run(self, training: Sequence[Recording], held: Sequence[Recording]) -> list[Row]:
        """Return a row of figures for every step, and shares of held-out drafts in some of them.

        Raises:
            ValueError: a checkpoint of other data or settings, or a GPU that is too small.
        """
        self._resume()
        plan = [
            (epoch, group)
            for epoch in range(self.settings.epochs)
            for group in batches(training, self.settings.batch_tokens, self.settings.seed + epoch)
        ]
        every = max(1, len(plan) // EVALUATIONS)
        saved = monotonic()
        for epoch, group in plan[self.step :]:
            begun = perf_counter()
            row = self._learn(group, len(plan))
            row |= {"step": self.step, "steps": len(plan), "epoch": epoch}
            row["tokens_per_second"] = row["tokens"] / (perf_counter() - begun)
            if self.step % every == 0 or self.step == len(plan):
                row["shares"] = self.shares(held)
            self.rows.append(row)
            _LOG.info(
                "step %d of %d: loss %.3f, first token %.3f, %.0f tokens/s%s",
                self.step,
                len(plan),
                row["losses"][0],
                row["accuracies"][0],
                row["tokens_per_second"],
                "".join(f" {share:.3f}" for share in row.get("shares", ())),
            )
            if monotonic() - saved > 60 * self.settings.checkpoint_minutes or self.step == len(plan):
                self.save()
                saved = monotonic()
        return self.rows

    def shares(self, held: Sequence[Recording]) -> list[float]:
        """Return for j = 1, 2, ... the share of greedy drafts whose first j tokens are the target's."""
        right, drafts = torch.zeros(self.settings.depth), torch.zeros(self.settings.depth)
        for group in batches(held, self.settings.batch_tokens, 0):
            batch = self._batch(group)
            chains = torch.ones_like(batch.inside)
            for step, hits in enumerate(self.objective(self.head, batch, None, self.settings.depth).hits):
                chains &= hits
                right[step] += chains.sum().cpu()
                drafts[step] += batch.inside[:, step:].sum().cpu()
        return (right / drafts.clamp(min=1)).tolist()

    def save(self) -> None:
        """Write a checkpoint that is whole or not there."""
        state = {
            "identity": self.identity,
            "step": self.step,
            "rows": self.rows,
            "head": self.head.state_dict(),
            "optimiser": self._optimiser.state_dict(),
        }
        partial = self.path.with_suffix(".partial")
        torch.save(state, partial)
        os.replace(partial, self.path)

    def _resume(self) -> None:
        if not self.path.is_file():
            return
        state = torch.load(self.path, map_location=self._device, weights_only=True)
        if state["identity"] != self.identity:
            raise ValueError(
                f"{self.path} is the checkpoint of other settings or other answers: set "
                "training.output=<another folder>, or delete it"
            )
        self.head.load_state_dict(state["head"])
        self._optimiser.load_state_dict(state["optimiser"])
        self.step, self.rows = state["step"], state["rows"]

    def _learn(self, group: Sequence[Recording], steps: int) -> Row:
        for part in self._optimiser.param_groups:
            part["lr"] = self.settings.learning_rate * _rate(self.step, steps, self.settings.warmup)
        rng = torch.Generator().manual_seed(self.settings.seed * 1_000_003 + self.step)
        batch = self._batch(group)
        try:
            seen = self.objective(self.head, batch, rng, self.settings.depth)
        except torch.cuda.OutOfMemoryError as error:
            kept = f"{self.path} is kept" if self.path.is_file() else "nothing was lost"
            raise ValueError(
                f"training.batch_tokens={self.settings.batch_tokens} is too much for the memory of {self._device}: "
                f"lower it, or {self.also_lower}; {kept}"
            ) from error
        norm = torch.nn.utils.clip_grad_norm_(self.head.parameters(), self.settings.clip)
        self._optimiser.step()
        self._optimiser.zero_grad()
        self.step += 1
        places = [max(1, int(batch.inside[:, step:].sum())) for step in range(len(seen.hits))]
        return {
            "losses": seen.losses,
            "accuracies": [float(hits.sum()) / count for hits, count in zip(seen.hits, places, strict=True)],
            "gradient": float(norm),
            "tokens": places[0],
        }

    def _batch(self, group: Sequence[Recording]) -> Batch:
        return Batch.of(group, self.head.config.target_hidden_size, bool(self.head.captures), self._device)


def _rate(step: int, steps: int, warmup: float) -> float:
    """Return the learning rate of a step as a share of its peak: a linear rise, then a cosine down to a tenth."""
    rise = max(1, round(warmup * steps))
    if step < rise:
        return (step + 1) / rise
    done = (step - rise) / max(1, steps - rise)
    return LEAST_RATE + (1 - LEAST_RATE) * 0.5 * (1 + math.cos(math.pi * done))
