"""From scores to the next token."""

from __future__ import annotations

import numpy as np
import torch

from connectors.settings import DecodeSettings
from connectors.warping import Warping
from primitives.contract import TargetView
from primitives.decoding import Decoding
from primitives.statistics import draw, draw_each, greedy_choice, probabilities


class Sampler:
    """The one place where a token of the target's own is chosen: the best one, or a draw.

    Args:
        settings: processors, temperature and seed.
        laws: whether drafts must carry q also where nothing is drawn.

    Attributes:
        greedy: whether nothing is drawn.
        rng: of all draws of a text, the verifier's too. Each text has its own, so none depends on the texts before it.
        warp: makes the view that is judged and drawn from.
        decoding: the same for a drafter that draws.
    """

    def __init__(self, settings: DecodeSettings, laws: bool = False) -> None:
        self.greedy = settings.greedy
        self.rng = torch.Generator().manual_seed(settings.seed)
        self.warp = Warping(settings)
        self.decoding = Decoding(self.greedy, self.rng, self.warp.rows, laws)

    def choose(self, view: TargetView, residual: torch.Tensor | None = None) -> int:
        """Return the token after the text whose warped view of one row is given.

        Args:
            view: one row; a token that is drawn after it already is the one.
            residual: float[V], what the token is drawn from if a verifier has left it.
        """
        if residual is not None:
            return draw(residual, self.rng)
        if self.greedy:
            return int(greedy_choice(view.logits)[0])
        if view.drawn is not None:
            return int(view.drawn[0])
        return draw(probabilities(view.logits)[0], self.rng)

    def draw_each(self, view: TargetView, pending: int) -> TargetView:
        """Return the view with a token drawn after each row: what the target would write there.

        A rule that compares a draft with the target's own choice is lossless sampling as far as it lets nothing else
        in: what matches is a draw from the row's law, and so is the token after the path. Row 0 has all its probability
        on the pending token, which is drawn already.
        """
        logits = view.logits.clone()
        logits[0] = torch.finfo(logits.dtype).min
        logits[0, pending] = 0
        drawn = np.insert(draw_each(probabilities(logits[1:]), self.rng), 0, pending)
        return TargetView(logits, view.hidden, view.features, drawn)
