"""One command: compose the settings, put the pipeline together, measure it, write the result files, print the row.

`python run.py --help` tells what can be set.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from rich.console import Console

from benchmarks.runner import Outcome
from benchmarks.table import Unfinished, results_table
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
        rows = [(outcome.manifest, outcome.summary) for outcome in launch.results]
        failures = [
            Unfinished(
                failure.settings.dataset.name, failure.settings.model.name, failure.settings.method.name, failure.reason
            )
            for failure in launch.failures
        ]
        Console().print(results_table(rows, failures))
    return max([code, *(outcome.exit_code for outcome in launch.results)])


def _announce(jobs: Sequence[Settings]) -> None:
    Console(stderr=True).print(estimate(jobs), markup=False, highlight=False, soft_wrap=True)


if __name__ == "__main__":
    sys.exit(main())
