"""A target without a model: it says again what was recorded of a text that is written greedily."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import numpy as np
import torch

from primitives.contract import DraftTree, Ints, Target, TargetView
from primitives.models.recorded_text import RecordedText

UNKNOWN: Final = float("nan")


class ReplayTarget(Target):
    """Serves recorded states for nodes on the recorded text; of all others it knows nothing, and says nan.

    Exact verification needs no more: a node off the text differs from the target's own choice, so whatever stands below
    it is rejected. Of the logits only the best are known, the others are as low as the number format goes.

    Args:
        find: gives the text with a prompt; raises ValueError if it was not recorded.
        vocab_size: of the target that was recorded.
        eos_ids: likewise.
        max_positions: likewise.
        layers: inner layers whose states were recorded.
    """

    device = torch.device("cpu")

    def __init__(
        self,
        find: Callable[[Ints], RecordedText],
        vocab_size: int,
        eos_ids: frozenset[int],
        max_positions: int | None,
        layers: Sequence[int] = (),
    ) -> None:
        self.vocab_size = vocab_size
        self.eos_ids = eos_ids
        self.max_positions = max_positions
        self._find = find
        self._layers = list(layers)
        self._wanted: list[int] = []
        self._text: RecordedText
        self._done = 0
        self._tree = DraftTree.empty()

    def capture(self, layers: Sequence[int]) -> None:
        """Give the recorded states of these layers as features.

        Raises:
            ValueError: a layer that was not recorded.
        """
        missing = [layer for layer in layers if layer not in self._layers]
        if missing:
            raise ValueError(
                f"the drafter looks at layer {missing[0]}, which the recording does not hold: run scripts.record with "
                "this method"
            )
        self._wanted = [self._layers.index(layer) for layer in layers]

    def prefill(self, ids: Ints) -> TargetView:
        """Begin the text with this prompt.

        Raises:
            ValueError: it was not recorded.
        """
        self._text, self._done, self._tree = self._find(ids), 0, DraftTree.empty()
        features = self._features(np.arange(len(ids)))
        return TargetView(self._logits(np.zeros(1, np.int64)), self._text.hidden[: len(ids)], features)

    def verify(self, tree: DraftTree) -> TargetView:
        """Return what is known of a tree's nodes."""
        self._tree = tree
        states = self._states(tree)
        rows = np.where(states < 0, -1, states + len(self._text.prompt) - 1)
        return TargetView(self._logits(states), _known(self._text.hidden, rows), self._features(rows))

    def commit(self, path: Ints) -> None:
        """Go on by a path.

        Raises:
            RuntimeError: it leaves the recorded text, which exact verification never does.
        """
        if (self._states(self._tree)[path + 1] < 0).any() and not self._at_end(path):
            raise RuntimeError("a replay has left the recorded text: its verification is not exact")
        self._done += len(path)
        self._tree = DraftTree.empty()

    def _at_end(self, path: Ints) -> bool:
        """Whether a path is the end of the text, whose last token may have no state."""
        left = self._text.output[self._done : self._done + len(path)]
        return self._done + len(path) == len(self._text.output) and bool((self._tree.tokens[path] == left).all())

    def _states(self, tree: DraftTree) -> Ints:
        """Return int64[n + 1], the state of each row: output tokens before it, -1 where it was not recorded."""
        place = self._done + tree.depths - 1
        known = place < min(len(self._text.output), len(self._text.best_ids) - 1)
        right = known & (tree.tokens == self._text.output[np.where(known, place, 0)])
        return np.concatenate([[self._done], np.where(tree.with_ancestors(right), place + 1, -1)])

    def _logits(self, states: Ints) -> torch.Tensor:
        values = self._text.best_logits
        low = torch.finfo(values.dtype).min
        logits = torch.full((len(states), self.vocab_size), low, dtype=values.dtype)
        index = torch.from_numpy(np.maximum(states, 0))
        logits.scatter_(1, self._text.best_ids[index], values[index])
        logits[torch.from_numpy(states < 0)] = UNKNOWN
        return logits

    def _features(self, rows: Ints) -> torch.Tensor | None:
        if not self._wanted or self._text.features is None:
            return None
        parts = self._text.features.chunk(len(self._layers), dim=-1)
        return _known(torch.cat([parts[layer] for layer in self._wanted], dim=-1), rows)


def _known(states: torch.Tensor, rows: Ints) -> torch.Tensor:
    """Return [n, h], the states at int64[n] rows, unknown at -1."""
    found = states[torch.from_numpy(np.maximum(rows, 0))]
    found[torch.from_numpy(rows < 0)] = UNKNOWN
    return found
