"""Score processors at every drafted position: each row of a view is judged as if its text had been written already."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
import torch
from transformers import (
    LogitsProcessorList,
    MinPLogitsWarper,
    RepetitionPenaltyLogitsProcessor,
    SequenceBiasLogitsProcessor,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

from connectors.settings import DecodeSettings
from primitives.contract import DraftTree, Ints, TargetView


class Warping:
    """transformers' own processors, in its own order, over the rows of a view.

    Args:
        settings: which processors are on.
    """

    def __init__(self, settings: DecodeSettings) -> None:
        self._processors = _processors(settings)
        self._looks_back = settings.repetition_penalty != 1

    def __call__(self, view: TargetView, text: Ints, tree: DraftTree) -> TargetView:
        """Return the view with processed logits; with no processor on, the very same view.

        The history of row 0 is the text, that of row i+1 is the text and the path to node i, so what was drafted and
        rejected leaves no trace.

        Args:
            view: n+1 rows.
            text: int64[T], the committed tokens, at least one.
            tree: n nodes.
        """
        if not self._processors:
            return view
        above = np.concatenate([np.zeros((1, len(tree)), bool), tree.ancestor_mask])
        # Histories differ in length. They are filled up with a token that is in all of them, which changes none, since
        # the processors ask what a history holds and not how often or where.
        drafted = np.where(above, tree.tokens, text[-1])
        histories = np.concatenate([np.full((len(drafted), 1), text[-1]), drafted], axis=1)
        return WarpedView(view, self._processors, text if self._looks_back else text[:0], histories)

    def rows(self, logits: torch.Tensor, texts: Ints) -> torch.Tensor:
        """Return processed [m, V] logits, each row behind its text of int64[m, T]; with no processor on, the same."""
        if not self._processors:
            return logits
        ids = torch.tensor(texts if self._looks_back else texts[:, -1:], device=logits.device)
        return self._processors(ids, logits if logits.dtype == torch.float64 else logits.float())


class WarpedView(TargetView):
    """A view whose logits are processed where they are looked at: all rows at once, or only those selected.

    Sorting a vocabulary for top-p costs as much as many other things together, and most rows are never reached.

    Args:
        raw: the target's own view, [rows, V].
        processors: what logits go through.
        text: int64[T], the beginning that all histories share.
        histories: int64[rows, H], what follows it.
    """

    def __init__(self, raw: TargetView, processors: Any, text: Ints, histories: Ints) -> None:
        # The base is frozen, and its `logits` are computed here.
        vars(self).update(
            hidden=raw.hidden, features=raw.features, raw=raw, processors=processors, text=text, histories=histories
        )

    raw: TargetView
    processors: Any
    text: Ints
    histories: Ints

    @cached_property
    def logits(self) -> torch.Tensor:
        """float[rows, V]: the processed logits."""
        shared = np.broadcast_to(self.text, (len(self.histories), len(self.text)))
        ids = torch.from_numpy(np.concatenate([shared, self.histories], axis=1)).to(self.raw.logits.device)
        raw = self.raw.logits
        return self.processors(ids, raw if raw.dtype == torch.float64 else raw.float())

    def select(self, rows: Ints) -> TargetView:
        """Return the view of some rows only."""
        if "logits" in vars(self):
            return super().select(rows)
        return WarpedView(self.raw.select(rows), self.processors, self.text, self.histories[rows])

    @property
    def last(self) -> TargetView:
        """The view of the last row alone."""
        return self.select(np.array([len(self.histories) - 1]))


def _processors(settings: DecodeSettings) -> Any:
    on: list[Any] = []
    if settings.logit_bias:
        on.append(SequenceBiasLogitsProcessor([[[token], float(bias)] for token, bias in settings.logit_bias.items()]))
    if settings.repetition_penalty != 1:
        on.append(RepetitionPenaltyLogitsProcessor(float(settings.repetition_penalty)))
    if not settings.greedy:
        if settings.temperature != 1:
            on.append(TemperatureLogitsWarper(float(settings.temperature)))
        if settings.top_k:
            on.append(TopKLogitsWarper(settings.top_k))
        if settings.top_p < 1:
            on.append(TopPLogitsWarper(settings.top_p))
        if settings.min_p:
            on.append(MinPLogitsWarper(settings.min_p))
    return LogitsProcessorList(on)
