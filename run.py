"""One command: compose the settings, put the pipeline together, measure it, write the result files, print the row.

`python run.py --help` tells what can be set.
"""

from __future__ import annotations

import sys

from rich.console import Console

from benchmarks.runner import Outcome, run_benchmark
from benchmarks.table import results_table
from corpora.loading import load_corpus
from methods.schema import Settings
from scripts.launch import Launch


def experiment(settings: Settings) -> Outcome:
    """Measure one method on one model and one data set."""
    corpus = load_corpus(settings.dataset, "test")
    # transformers takes seconds to import, and bad settings or rows should be answered before that.
    from methods.pipeline import assemble

    return run_benchmark(assemble(settings), corpus)


def main() -> int:
    """Run the jobs of the command line and show the rows of all that finished in one table."""
    launch = Launch(experiment)
    code = launch()
    if launch.results:
        Console().print(results_table([(outcome.manifest, outcome.summary) for outcome in launch.results]))
    return max([code, *(outcome.exit_code for outcome in launch.results)])


if __name__ == "__main__":
    sys.exit(main())
