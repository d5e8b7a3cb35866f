"""A step of a training taken whole and in parts, which must be the same step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import torch

from methods.training.data import packed
from methods.training.loop import Row, Trainer
from primitives.models.recording import Recording

Taken = tuple[int, Row, dict[str, Any]]


def taken(trainer: Trainer, answers: Sequence[Recording]) -> Taken:
    """Return the number of parts of a step, its figures and the gradients that it leaves."""
    parts = packed(answers, trainer.together)
    row = trainer._gradients(parts)
    return len(parts), row, {name: one.grad for name, one in trainer.head.named_parameters()}


def assert_near(exact: Taken, rounded: Taken) -> None:
    """A step in bfloat16 is the step in float32 but for rounding, and leaves gradients in float32."""
    assert rounded[1]["losses"] == pytest.approx(exact[1]["losses"], rel=0.02)
    ours, theirs = (torch.cat([grad.flatten() for grad in taken[2].values()]) for taken in (exact, rounded))
    assert theirs.dtype == torch.float32
    assert not torch.equal(ours, theirs)
    assert torch.cosine_similarity(ours, theirs, dim=0) > 0.99


def assert_one_step(whole: Taken, *others: Taken) -> None:
    for _, row, gradients in others:
        assert row["losses"] == pytest.approx(whole[1]["losses"], rel=1e-4)
        assert row["gradient"] == pytest.approx(whole[1]["gradient"], rel=1e-4)
        assert (row["accuracies"], row["tokens"]) == (whole[1]["accuracies"], whole[1]["tokens"])
        for name, gradient in whole[2].items():
            torch.testing.assert_close(gradients[name], gradient, rtol=1e-4, atol=1e-5)
