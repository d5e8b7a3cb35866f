"""Train the probes of SemanticSpec.

`python -m scripts.train_semantic_probe method=semanticspec model=... draft_model=... dataset=...`: both models draw
segments behind the beginnings of the target's answers to train prompts; two probes learn from the states behind a
segment what share of each model's segments means the same. probe.* says how much and how. A start that was interrupted
is gone on with by the same command. The probes lie in the cache, where every run of that pair of models finds them.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from rich.console import Console

from methods.schema import Settings
from scripts.launch import Launch

if TYPE_CHECKING:
    from methods.training.probe_files import TrainedProbes


def training(settings: Settings) -> TrainedProbes:
    """Train the probes of these settings, unless that has been done before."""
    # transformers takes seconds to import, and a bad command line should be answered before that.
    from methods.training.probe_stage import train_probes

    return train_probes(settings)


def main() -> int:
    """Run the jobs of the command line and say where the probes lie and how good they are."""
    launch = Launch(training)
    code = launch()
    for done in launch.results:
        errors = "; ".join(
            "{side} {mse:.4f} ({mse_of_the_mean:.4f} by the mean alone)".format(side=side, **done.facts[side])
            for side in ("target", "draft")
        )
        Console().print(
            f"squared error on held-out prompts: {errors}; {done.facts['target']['segments']} segments: {done.folder}",
            markup=False,
            highlight=False,
            soft_wrap=True,
        )
    return code


if __name__ == "__main__":
    sys.exit(main())
