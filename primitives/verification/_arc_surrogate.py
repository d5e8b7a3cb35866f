"""How far one other token would move the target's next distribution, estimated without a forward (ARC, ICML 2026)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Final

import torch

from primitives.verification._look import Asked

EPSILON: Final = 1e-6
# Rows of the embedding turned into float32 at a time: the whole of a large one would take gigabytes.
BLOCK: Final = 8192


@dataclass(frozen=True, eq=False)
class Whitening:
    """Distances between input embeddings, each dimension measured by its spread over the vocabulary.

    Attributes:
        embeddings: [V, h], the target's input embedding matrix.
    """

    embeddings: torch.Tensor

    @cached_property
    def scale(self) -> torch.Tensor:
        """float32[h], 1 / (standard deviation over the vocabulary + 1e-6)."""
        sums = torch.zeros(2, self.embeddings.shape[1], dtype=torch.float64, device=self.embeddings.device)
        for block in self.embeddings.split(BLOCK):
            spread, mean = torch.var_mean(block.float(), 0, correction=0)
            sums += len(block) * torch.stack([mean.double(), spread.double() + mean.double().square()])
        mean, square = sums / len(self.embeddings)
        return (1 / ((square - mean.square()).clamp(min=0).sqrt() + EPSILON)).float()

    def distance(self, first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
        """Return float32[m], ``||W (e_first - e_second)||^2`` for int64[m] tokens each."""
        gap = self.embeddings[first].float() - self.embeddings[second].float()
        return (gap * self.scale).square().sum(-1)


def gaps(whitening: Whitening, asked: Asked) -> tuple[torch.Tensor, torch.Tensor]:
    """Return what a shift is estimated from, for m tokens against the target's own choice in their places.

    Args:
        whitening: distances between the target's embeddings.
        asked: about the tokens.

    Returns:
        float64[m], ln p(choice) - ln p(token), in nats, which is the difference of the logits; and float64[m], the
        whitened distance of the embeddings, squared.
    """
    margin = asked.whole[asked.places, asked.choice].double() - asked.own
    return margin, whitening.distance(asked.choice, asked.tokens).double()
