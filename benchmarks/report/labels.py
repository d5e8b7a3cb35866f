"""Names by which the runs of a report can be told apart."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from benchmarks.differences import told_apart
from benchmarks.report.loading import Run


def labels(runs: Sequence[Run]) -> list[str]:
    """Return a name for each run that no other run of its data set and model has.

    That is the method's name, for a replay with a word before it, and where several runs share it, the settings in
    which they differ, or else the hash.
    """
    names = [f"{'replay of ' * run.replayed}{run.manifest['method']}" for run in runs]
    alike = [(*run.group, name) for run, name in zip(runs, names, strict=True)]
    words = told_apart([run.manifest["config"] for run in runs], alike)
    taken = Counter(zip(alike, words, strict=True))
    return [
        " ".join([name[-1], *(own if taken[name, own] == 1 else [run.manifest["hash"]])])
        for run, name, own in zip(runs, alike, words, strict=True)
    ]
