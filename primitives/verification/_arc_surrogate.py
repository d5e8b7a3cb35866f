"""How far one other token would move the target's next distribution, estimated without a forward (ARC, ICML 2026)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
import torch

from primitives.contract import Floats, Ints

EPSILON: Final = 1e-6
# Rows of the embedding turned into float32 at a time: the whole of a large one would take gigabytes.
BLOCK: Final = 8192


@dataclass(frozen=True, eq=False)
class Shifts:
    """What the surrogate says of m tokens, each against the target's own choice at its place.

    Attributes:
        margin: float[m], ln p(choice) - ln p(token), in nats; the same as the difference of the logits.
        logit: float[m], ``c_l * margin ** 2``.
        total: float[m], the estimated shift: the smaller of the embedding's and the logits' estimate.
    """

    margin: Floats
    logit: Floats
    total: Floats


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


def shifts(
    whitening: Whitening, logits: torch.Tensor, rows: Ints, choice: Ints, tokens: Ints, c_e: float, c_l: float
) -> Shifts:
    """Return the estimated shifts of m tokens.

    Args:
        whitening: distances between the target's embeddings.
        logits: [r, V].
        rows: int64[m], which row judges each token.
        choice: int64[m], the greedy choice of each token's row.
        tokens: int64[m].
        c_e: shift of a squared unit of whitened distance.
        c_l: shift of a squared nat.
    """
    place, chosen, drafted = (torch.from_numpy(ids).to(logits.device) for ids in (rows, choice, tokens))
    margin = logits[place, chosen].double() - logits[place, drafted].double()
    apart = whitening.distance(chosen, drafted).double()
    # One transfer: what stays on the device is the size of the vocabulary, what leaves it is two numbers a token.
    both: Floats = torch.stack([margin, apart]).cpu().numpy()
    logit = c_l * np.square(both[0])
    return Shifts(both[0], logit, np.minimum(c_e * both[1], logit))
