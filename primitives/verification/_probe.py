"""The probes of SemanticSpec: from the mean hidden state of a segment to the chance that a model means what it says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import torch
from torch import nn

LAYERS: Final = (512, 512, 256)
DROPOUT: Final = 0.3


class Probe(nn.Module):
    """An MLP ``h -> 512 -> 512 -> 256 -> 1`` with a sigmoid, over standardised states (arXiv 2602.03708).

    Args:
        width: h, of the model's hidden states.
    """

    mean: torch.Tensor
    scale: torch.Tensor

    def __init__(self, width: int) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(width))
        self.register_buffer("scale", torch.ones(width))
        first, second, third = LAYERS
        self.layers = nn.Sequential(
            *(nn.Linear(width, first), nn.ReLU(), nn.Dropout(DROPOUT)),
            *(nn.Linear(first, second), nn.ReLU(), nn.Dropout(DROPOUT)),
            *(nn.Linear(second, third), nn.ReLU()),
            nn.Linear(third, 1),
        )

    def standardise(self, states: torch.Tensor) -> None:
        """Take mean and spread of float[N, h] states for those of all states."""
        self.mean.copy_(states.mean(0))
        self.scale.copy_(states.std(0, correction=0).clamp(min=1e-6))

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        """Return float[...], a probability for each of float[..., h] mean states."""
        return torch.sigmoid(self.layers((states - self.mean) / self.scale))[..., 0]


@dataclass(frozen=True, eq=False)
class Probes:
    """The probes of a target and of a draft model.

    Attributes:
        target: for means of the target's states.
        draft: for means of the draft model's.
    """

    target: Probe
    draft: Probe

    @classmethod
    def of(cls, weights: Mapping[str, torch.Tensor]) -> Probes:
        """Return probes with these weights, as `weights` gives them, ready to be asked."""
        sides = {}
        for side in ("target", "draft"):
            own = {key.removeprefix(f"{side}."): value for key, value in weights.items() if key.startswith(f"{side}.")}
            sides[side] = Probe(len(own["mean"]))
            sides[side].load_state_dict(own)
            sides[side].train(False).requires_grad_(False)
        return cls(**sides)

    def to(self, device: torch.device) -> Probes:
        """Return the probes, moved to a device."""
        return Probes(self.target.to(device), self.draft.to(device))

    @property
    def weights(self) -> dict[str, torch.Tensor]:
        """The tensors of both, by name."""
        sides = {"target": self.target, "draft": self.draft}
        return {f"{side}.{key}": value for side, probe in sides.items() for key, value in probe.state_dict().items()}
