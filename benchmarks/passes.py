"""Figures of passes, whichever prompts they belong to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from itertools import chain
from typing import Any

import numpy as np

from benchmarks.statistics import Floats, finite
from connectors.trace import PassRecord
from primitives.contract import Pathway

_COLUMNS = [field.name for field in fields(PassRecord)]
_PARTS = ("draft", "verify", "judge", "commit")


class Passes:
    """What the loop wrote down of each pass; a figure that no pass defines is None.

    Args:
        columns: for each field of `PassRecord` its value in every pass.
    """

    def __init__(self, columns: Mapping[str, Sequence[Any]]) -> None:
        self._columns = columns

    @classmethod
    def of_samples(cls, samples: Sequence[Mapping[str, Any]]) -> Passes:
        """Return all passes of some lines of samples.jsonl."""
        return cls({name: [*chain.from_iterable(sample[name] for sample in samples)] for name in _COLUMNS})

    @classmethod
    def of_records(cls, records: Sequence[PassRecord]) -> Passes:
        """Return the passes of these records."""
        return cls({name: [getattr(record, name) for record in records] for name in _COLUMNS})

    def column(self, name: str) -> Floats:
        """Return float[passes], a number of each pass."""
        return np.array(self._columns[name], np.float64)

    @property
    def nodes_per_pass(self) -> float | None:
        """Nodes of a forward, the pending token's included."""
        return _mean(self.column("nodes"))

    @property
    def ms_per_pass(self) -> dict[str, float | None]:
        """Mean milliseconds of each part of a pass."""
        return {part: _mean(self.column(f"{part}_ms")) for part in _PARTS}

    @property
    def median_draft_ms(self) -> float | None:
        """Milliseconds from the context to the tree, in the middle pass: a slow one now and then does not move it."""
        return _median(self.column("draft_ms"))

    @property
    def overhead(self) -> float | None:
        """Median over passes of (pass - target forward) / target forward."""
        verify, *others = (self.column(f"{part}_ms") for part in ("verify", "draft", "judge", "commit"))
        return _median(sum(others) / verify)

    @property
    def compression(self) -> float | None:
        """Share of the candidates' tokens that the tree saves, since a common prefix is one branch."""
        left = _ratio(self.column("proposed_nodes"), self.column("candidate_tokens"))
        return None if left is None else 1 - left

    @property
    def acceptance_rate(self) -> float | None:
        """Drafted tokens committed / drafted nodes verified."""
        return _ratio(self.column("accepted"), self.column("proposed"))

    @property
    def empty_drafts(self) -> float | None:
        """Share of passes in which nothing but the pending token was verified."""
        return _mean((self.column("proposed") == 0).astype(np.float64))

    @property
    def acceptance_by_depth(self) -> list[dict[str, float]]:
        """For each depth d from 1: passes whose verified tree was at least d deep, and their share committing d tokens.

        Depth 1 is that of the pending token, so that its share is 1. A text that ends inside an accepted path cuts
        what its last pass commits.
        """
        deep, committed = self.column("depth"), self.column("committed")
        return [
            {
                "depth": depth,
                "passes": int((deep >= depth).sum()),
                "share": float((committed[deep >= depth] >= depth).mean()),
            }
            for depth in range(1, int(deep.max(initial=0)) + 1)
        ]

    @property
    def drafted_by(self) -> dict[str, int]:
        """Accepted tokens of each drafter; one that several proposed counts for each of them."""
        groups: Iterable[str] = chain.from_iterable(self._columns["drafted_by"])
        counts = Counter(name for group in groups if group for name in set(group.split("+")))
        return dict(sorted(counts.items()))

    @property
    def pathways(self) -> dict[str, int]:
        """Committed tokens by how they were accepted."""
        ways = np.array([*chain.from_iterable(self._columns["pathways"])], np.int64)
        counts = np.bincount(ways, minlength=len(Pathway)).tolist()
        return {way.name.lower(): count for way, count in zip(Pathway, counts, strict=True)}


def _ratio(above: Floats, below: Floats) -> float | None:
    return finite(above.sum() / below.sum()) if below.sum() else None


def _mean(values: Floats) -> float | None:
    return finite(values.mean()) if len(values) else None


def _median(values: Floats) -> float | None:
    return finite(np.median(values)) if len(values) else None
