"""The training loop: batches in a fixed order, checkpoints, and the same result however often it is interrupted."""

from __future__ import annotations

import logging
import math
import os
from collections.abc import Sequence
from pathlib import Path
from time import monotonic, perf_counter
from typing import Any, ClassVar, Final

import numpy as np
import torch

from methods.memory import enough_memory
from methods.training.data import Batch, batches, packed
from methods.training.settings import TrainingSettings
from methods.training.shortage import kept, too_many_tokens, too_many_weights
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
        self._kept = 0
        self._device = next(head.parameters()).device
        self._optimiser = torch.optim.AdamW(
            head.parameters(), lr=0.0, betas=(settings.betas[0], settings.betas[1]), weight_decay=0.0
        )

    def run(self, training: Sequence[Recording], held: Sequence[Recording]) -> list[Row]:
        """Return a row of figures for every step, and shares of held-out drafts in some of them.

        Raises:
            ValueError: a checkpoint of other data or settings, or a GPU that is too small.
        """
        with enough_memory(self._no_room):
            self._resume()
        plan = [
            (epoch, group)
            for epoch in range(self.settings.epochs)
            for group in batches(training, self.settings.batch_tokens, self.settings.seed + epoch)
        ]
        self._measure(held, len(plan))
        saved = monotonic()
        for epoch, group in plan[self.step :]:
            begun = perf_counter()
            row = self._learn(group, len(plan))
            row |= {"step": self.step, "steps": len(plan), "epoch": epoch}
            row["tokens_per_second"] = row["tokens"] / (perf_counter() - begun)
            self.rows.append(row)
            self._measure(held, len(plan))
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

    @property
    def together(self) -> int:
        """Most tokens, padding counted, that go through forward and backward at once."""
        return min(self.settings.micro_batch_tokens or self.settings.batch_tokens, self.settings.batch_tokens)

    def shares(self, held: Sequence[Recording]) -> list[float]:
        """Return for j = 1, 2, ... the share of greedy drafts whose first j tokens are the target's."""
        right, drafts = torch.zeros(self.settings.depth), torch.zeros(self.settings.depth)
        for group in batches(held, self.together, 0):
            batch = self._batch(group)
            chains = torch.ones_like(batch.inside)
            for step, hits in enumerate(self._see(batch, None, None).hits):
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
        self._kept = self.step

    def _resume(self) -> None:
        if not self.path.is_file():
            return
        # By way of the CPU: a GPU that ran out of memory has no room for a second copy of everything.
        state = torch.load(self.path, map_location="cpu", weights_only=True)
        if state["identity"] != self.identity:
            raise ValueError(
                f"{self.path} is the checkpoint of other settings or other answers: set "
                "training.output=<another folder>, or delete it"
            )
        self._kept = state["step"]
        self.head.load_state_dict(state["head"])
        self._optimiser.load_state_dict(state["optimiser"])
        self.step, self.rows = state["step"], state["rows"]

    def _measure(self, held: Sequence[Recording], steps: int) -> None:
        """Add shares to the figures of the last step if it is one of those that have them."""
        due = self.step % max(1, steps // EVALUATIONS) == 0 or self.step == steps
        if self.rows and due and "shares" not in self.rows[-1]:
            with enough_memory(lambda: self._too_much(batches(held, self.together, 0))):
                self.rows[-1]["shares"] = self.shares(held)

    def _learn(self, group: Sequence[Recording], steps: int) -> Row:
        for part in self._optimiser.param_groups:
            part["lr"] = self.settings.learning_rate * _rate(self.step, steps, self.settings.warmup)
        parts = packed(group, self.together)
        with enough_memory(lambda: self._too_much(parts)):
            row = self._gradients(parts)
        with enough_memory(self._no_room):
            self._optimiser.step()
        self._optimiser.zero_grad()
        self.step += 1
        return row

    def _gradients(self, parts: Sequence[Sequence[Recording]]) -> Row:
        """Leave the gradients of all parts of a step behind; return its figures."""
        depth = self.settings.depth
        rng = torch.Generator().manual_seed(self.settings.seed * 1_000_003 + self.step)
        whole = self.objective.counts(self.head, [one for part in parts for one in part], depth)
        losses, hits, places = np.zeros((3, depth))
        taken = 0
        for part in parts:
            batch = self._batch(part)
            seen = self._see(batch, rng, whole)
            taken = max(taken, len(seen.losses))
            for step, (loss, right) in enumerate(zip(seen.losses, seen.hits, strict=True)):
                losses[step] += loss
                hits[step] += int(right.sum())
                places[step] += int(batch.inside[:, step:].sum())
        norm = torch.nn.utils.clip_grad_norm_(self.head.parameters(), self.settings.clip)
        return {
            "losses": losses[:taken].tolist(),
            "accuracies": (hits / places.clip(1))[:taken].tolist(),
            "gradient": float(norm),
            "tokens": max(1, int(places[0])),
        }

    def _see(self, batch: Any, rng: torch.Generator | None, whole: Sequence[int] | None) -> Any:
        """Let the objective run the head over a batch, in the precision of the settings."""
        with torch.autocast(self._device.type, torch.bfloat16, enabled=self.settings.precision == "bfloat16"):
            return self.objective(self.head, batch, rng, self.settings.depth, whole)

    def _too_much(self, parts: Sequence[Sequence[Recording]]) -> str:
        """Keep what has been learnt; return what the GPU cannot hold and what to do."""
        self._optimiser.zero_grad()
        if self.step:
            self.save()
        advice = too_many_tokens(parts, self.settings, self._device, self.also_lower)
        return f"{advice}; {kept(self.path, self._kept)}"

    def _no_room(self) -> str:
        """Return the sentence of an optimiser that the GPU cannot hold; a step that broke off halfway is not kept."""
        count = sum(parameter.numel() for parameter in self.head.parameters())
        advice = too_many_weights(f"the optimiser of {count:,} weights", self._device)
        return f"{advice}; {kept(self.path, self._kept)}"

    def _batch(self, group: Sequence[Recording]) -> Batch:
        return Batch.of(group, self.head.config.target_hidden_size, bool(self.head.captures), self._device)


def _rate(step: int, steps: int, warmup: float) -> float:
    """Return the learning rate of a step as a share of its peak: a linear rise, then a cosine down to a tenth."""
    rise = max(1, round(warmup * steps))
    if step < rise:
        return (step + 1) / rise
    done = (step - rise) / max(1, steps - rise)
    return LEAST_RATE + (1 - LEAST_RATE) * 0.5 * (1 + math.cos(math.pi * done))
