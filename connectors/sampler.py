"""From scores to the next token."""

from __future__ import annotations

import torch

from connectors.settings import DecodeSettings
from connectors.warping import Warping
from primitives.contract import TargetView
from primitives.statistics import draw, greedy_choice, probabilities


class Sampler:
    """The one place where a token of the target's own is chosen: the best one, or a draw.

    Args:
        settings: processors, temperature and seed.

    Attributes:
        greedy: whether nothing is drawn.
        rng: of all draws of a text, the verifier's too. Each text has its own, so none depends on the texts before it.
        warp: makes the view that is judged and drawn from.
    """

    def __init__(self, settings: DecodeSettings) -> None:
        self.greedy = settings.greedy
        self.rng = torch.Generator().manual_seed(settings.seed)
        self.warp = Warping(settings)

    def choose(self, view: TargetView, residual: torch.Tensor | None = None) -> int:
        """Return the token after the text whose warped view of one row is given.

        Args:
            view: one row.
            residual: float[V], what the token is drawn from if a verifier has left it.
        """
        if residual is not None:
            return draw(residual, self.rng)
        if self.greedy:
            return int(greedy_choice(view.logits)[0])
        return draw(probabilities(view.logits)[0], self.rng)


def settled(view: TargetView, pending: int) -> TargetView:
    """Return the view with all probability of row 0 on the pending token: drawn already, it is in no question."""
    logits = view.logits.clone()
    logits[0] = torch.finfo(logits.dtype).min
    logits[0, pending] = 0
    return TargetView(logits, view.hidden, view.features)
