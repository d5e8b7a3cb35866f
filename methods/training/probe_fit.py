"""A probe fitted to labelled segments (SemanticSpec, arXiv 2602.03708): MSE, Adam, early stopping."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from methods.schema import ProbeSettings
from primitives.contract import Bools, Ints
from primitives.verification._probe import Probe


@dataclass(frozen=True, eq=False)
class Fit:
    """A fitted probe and how it came about.

    Attributes:
        probe: of the epoch with the smallest error on segments of prompts that were held out.
        losses: mean squared error in each epoch, while it was trained.
        held_out: likewise after each epoch, on the prompts that were held out.
        facts: counts and figures of the best epoch.
    """

    probe: Probe
    losses: list[float]
    held_out: list[float]
    facts: dict[str, Any]


def fit_probe(
    states: NDArray[np.float32],
    labels: NDArray[np.float32],
    owner: Ints,
    settings: ProbeSettings,
    device: torch.device | None = None,
) -> Fit:
    """Return the probe that tells the labels from the states.

    Args:
        states: [N, h], mean states of segments.
        labels: [N], in [0, 1].
        owner: int64[N], the prompt of each segment: one is never trained on and tried at once.
        settings: how to train; the seed decides about everything that is drawn.
        device: where to train.

    Raises:
        ValueError: segments of fewer than two prompts.
    """
    held = _held_out(owner, settings)
    x = torch.from_numpy(states).to(device or "cpu")
    y = torch.from_numpy(labels).to(x.device)
    kept, tried = (torch.from_numpy(np.flatnonzero(rows)).to(x.device) for rows in (~held, held))
    with torch.random.fork_rng([x.device] if x.device.type == "cuda" else []):
        torch.manual_seed(settings.seed)
        probe = Probe(x.shape[1]).to(x.device)
        probe.standardise(x[kept])
        losses, held_out, best = _epochs(probe, (x[kept], y[kept]), (x[tried], y[tried]), settings)
    probe.load_state_dict(best)
    probe.train(False).requires_grad_(False)
    said = probe(x[tried]).cpu().numpy()
    truth = labels[held]
    facts = {
        "segments": len(labels),
        "prompts": len(np.unique(owner)),
        "epochs": len(losses),
        "best_epoch": int(np.argmin(held_out)) + 1,
        "mse": float(((said - truth) ** 2).mean()),
        "mse_of_the_mean": float(((labels[~held].mean() - truth) ** 2).mean()),
        "correlation": _correlation(said, truth),
    }
    return Fit(probe.cpu(), losses, held_out, facts)


def _epochs(
    probe: Probe,
    training: tuple[torch.Tensor, torch.Tensor],
    held: tuple[torch.Tensor, torch.Tensor],
    settings: ProbeSettings,
) -> tuple[list[float], list[float], dict[str, torch.Tensor]]:
    """Train until the error on held-out segments has not fallen for some epochs; return errors and best weights."""
    x, y = training
    optimiser = torch.optim.Adam(probe.parameters(), lr=settings.learning_rate)
    error = torch.nn.MSELoss()
    losses: list[float] = []
    held_out: list[float] = []
    best: dict[str, torch.Tensor] = {}
    while len(losses) < settings.epochs and len(losses) - int(np.argmin(held_out or [0])) <= settings.patience:
        probe.train()
        total = 0.0
        for rows in torch.randperm(len(x)).to(x.device).split(settings.batch_size):
            loss = error(probe(x[rows]), y[rows])
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            total += float(loss.detach()) * len(rows)
        probe.train(False)
        with torch.inference_mode():
            held_out.append(float(error(probe(held[0]), held[1])))
        losses.append(total / len(x))
        if held_out[-1] == min(held_out):
            best = deepcopy(probe.state_dict())
    return losses, held_out, best


def _held_out(owner: Ints, settings: ProbeSettings) -> Bools:
    """Return bool[N]: segments of the prompts that are held out, at least one prompt and not all."""
    prompts = np.random.default_rng(settings.seed).permutation(np.unique(owner))
    if len(prompts) < 2:
        raise ValueError(
            f"{len(owner)} labelled segments of {len(prompts)} prompts are too few to train on some prompts and try on "
            "others: raise probe.num_prompts, or choose a data set whose answers have several paragraphs"
        )
    count = min(max(1, round(settings.validation * len(prompts))), len(prompts) - 1)
    return np.isin(owner, prompts[:count])


def _correlation(said: NDArray[np.float32], truth: NDArray[np.float32]) -> float | None:
    """Return Pearson's r; None where one of them does not vary."""
    return float(np.corrcoef(said, truth)[0, 1]) if said.std() > 0 and truth.std() > 0 else None
