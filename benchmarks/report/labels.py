"""Names by which the runs of a report can be told apart."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.report.loading import Run


def labels(runs: Sequence[Run]) -> list[str]:
    """Return a name for each run that no other run of its data set and model has.

    That is the method's name, and where several runs share it, the settings in which they differ.
    """
    alike: dict[tuple[str, ...], list[int]] = defaultdict(list)
    for place, run in enumerate(runs):
        shared = (*run.group, run.manifest["method"])
        alike[shared].append(place)
    names = [str(run.manifest["method"]) for run in runs]
    for places in alike.values():
        if len(places) > 1:
            for place, words in zip(places, _differences([runs[place] for place in places]), strict=True):
                names[place] += f" {words}"
    return names


def _differences(runs: Sequence[Run]) -> list[str]:
    """Return the settings in which each of these runs differs from the others, or its hash where there is none."""
    flat = [_leaves(run.manifest["config"]) for run in runs]
    keys = sorted({key for leaves in flat for key in leaves})
    differing = [key for key in keys if len({repr(leaves.get(key)) for leaves in flat}) > 1]
    words = [" ".join(f"{key}={leaves[key]}" for key in differing if key in leaves) for leaves in flat]
    unique = len(set(words)) == len(words)
    return words if unique else [run.manifest["hash"] for run in runs]


def _leaves(config: Mapping[str, Any], above: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in config.items():
        found |= _leaves(value, f"{above}{key}.") if isinstance(value, Mapping) else {f"{above}{key}": value}
    return found
