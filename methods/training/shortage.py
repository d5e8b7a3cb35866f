"""What a training says where a GPU is too small: which setting to lower, what that costs, and what is kept."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch

from methods.training.settings import TrainingSettings
from primitives.models.recording import Recording


def too_many_tokens(
    parts: Sequence[Sequence[Recording]], settings: TrainingSettings, device: torch.device, also_lower: str
) -> str:
    """Return what to do where a forward or backward over one of the parts of a step does not fit."""
    longest = max(len(one.tokens) for part in parts for one in part)
    largest = max(len(part) * max(len(one.tokens) for one in part) for part in parts)
    if largest == longest:
        return (
            f"one answer of {longest} tokens at a time is too much for the memory of {device}: free some of it, or "
            f"lower training.max_new_tokens, training.max_prompt_tokens or {also_lower}, which begins another training"
        )
    return (
        f"{largest} tokens at once, of training.batch_tokens={settings.batch_tokens}, are too much for the memory of "
        f"{device}: set training.micro_batch_tokens={max(longest, largest // 2)}, which changes no result"
    )


def too_many_answers(settings: TrainingSettings, together: int, device: torch.device) -> str:
    """Return what to do where so many answers cannot be generated together."""
    if together == 1:
        return (
            f"one answer at a time is too much for the memory of {device} beside the model: free some of it, or lower "
            "training.max_new_tokens or training.max_prompt_tokens, which makes all answers anew"
        )
    return (
        f"{together} answers at once, of training.answer_batch={settings.answer_batch}, are too much for the memory of "
        f"{device}: set training.answer_micro_batch={together // 2}; finished answers are kept"
    )


def too_many_weights(what: str, device: torch.device) -> str:
    """Return what to do where something does not fit that no setting of a training makes smaller."""
    return f"{what} is too much for the memory of {device}: free some of it, or choose another device"


def kept(path: Path, step: int) -> str:
    """Return what the next start finds: the checkpoint of a step, or none where that is 0."""
    if not step:
        return "no checkpoint was due yet, and the training begins anew"
    return f"{path} is kept, and the training goes on from step {step}"
