"""A target that is written down while it decodes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from primitives.contract import DraftTree, Ints, Target, TargetView
from primitives.models.recorded_text import BEST, RecordedText


class RecordingTarget(Target):
    """Passes everything on to another target, and keeps what it says of the committed text.

    Args:
        inner: the target that decodes.
        layers: inner layers whose entering states are kept, whatever the drafter at work asks for.
    """

    def __init__(self, inner: Target, layers: Sequence[int] = ()) -> None:
        self.vocab_size = inner.vocab_size
        self.eos_ids = inner.eos_ids
        self.max_positions = inner.max_positions
        self._inner = inner
        self._layers = list(layers)
        self._prompt: Ints = np.empty(0, np.int64)
        self._rows: list[TargetView] = []
        self._view: TargetView

    def capture(self, layers: Sequence[int]) -> None:
        """Have the states entering the recorded layers shown; a drafter beside it must ask for none.

        Raises:
            ValueError: the drafter asks for some.
        """
        super().capture(layers)
        self._inner.capture(self._layers)

    def prefill(self, ids: Ints) -> TargetView:
        """Begin a text."""
        self._prompt, view = ids.copy(), self._inner.prefill(ids)
        self._rows = [_kept(view)]
        return view

    def verify(self, tree: DraftTree) -> TargetView:
        """Score a tree."""
        self._view = self._inner.verify(tree)
        return self._view

    def commit(self, path: Ints) -> None:
        """Keep what was said after the tokens of a path."""
        self._inner.commit(path)
        self._rows.append(_kept(self._view.select(path + 1)))

    def synchronize(self) -> None:
        """Wait for the device."""
        self._inner.synchronize()

    def text(self, output: Sequence[int]) -> RecordedText:
        """Return the text that has come to its end with this output."""
        features = [rows.features for rows in self._rows if rows.features is not None]
        logits = torch.cat([rows.logits for rows in self._rows])
        best = logits.topk(min(BEST, logits.shape[1]))
        return RecordedText(
            self._prompt,
            np.array(output, np.int64),
            torch.cat([rows.hidden for rows in self._rows]),
            best.indices,
            best.values,
            torch.cat(features) if features else None,
        )


def _kept(view: TargetView) -> TargetView:
    features = None if view.features is None else view.features.cpu().clone()
    return TargetView(view.logits.cpu().clone(), view.hidden.cpu().clone(), features)
