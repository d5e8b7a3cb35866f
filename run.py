"""One command: compose the settings, put the pipeline together, measure it, write the result files, print the row.

`python run.py --help` tells what can be set.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.differences import told_apart
from benchmarks.runner import Outcome
from benchmarks.table import Finished, Unfinished, results_table
from benchmarks.together import Together
from methods.schema import Settings
from scripts.estimate import estimate
from scripts.preflight import preflight
from scripts.supervised import SupervisedLaunch


def main() -> int:
    """Run the jobs of the command line and show all of them in one table, those that failed too."""
    launch: SupervisedLaunch[Outcome] = SupervisedLaunch(Together(), preflight, _announce)
    code = launch()
    if launch.ends and (launch.results or len(launch.jobs) > 1):
        Console().print(_table(launch))
    return max([code, *(outcome.exit_code for outcome in launch.results)])


def _table(launch: SupervisedLaunch[Outcome]) -> Table:
    """Return the table of all jobs that have an end; several settings may mean the same run, which is one row."""
    differs = told_apart([asdict(job) for job in launch.jobs], [_name(job) for job in launch.jobs])
    runs: dict[Path, Finished] = {}
    failures = []
    for number, end in sorted(launch.ends.items()):
        words = differs[number] if differs else ()
        if isinstance(end, Outcome):
            same = end.folder.path in runs
            runs[end.folder.path] = Finished(end.manifest, end.summary, () if same else words)
        else:
            names = (end.settings.dataset.name, end.settings.model.name, end.settings.method.name)
            failures.append(Unfinished(*names, end.reason, words, end.log))
    return results_table(list(runs.values()), failures)


def _name(job: Settings) -> tuple[str, ...]:
    """Return what a row of the table shows of a job."""
    parts = (job.drafter["name"], job.verifier["name"])
    return (job.dataset.name, job.model.name, job.method.name, *parts)


def _announce(jobs: Sequence[Settings]) -> None:
    Console(stderr=True).print(estimate(jobs), markup=False, highlight=False, soft_wrap=True)


if __name__ == "__main__":
    sys.exit(main())
