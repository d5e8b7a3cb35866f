"""Train an EAGLE head for a target: python -m scripts.train_eagle training=eagle3 model=...

The target answers train prompts, and the head learns from the answers and the states behind them. training.* says how
much and how (conf/training). A start that was interrupted is gone on with by the same command, and ends with the same
head. The folder that it names at the end is a `draft_model`.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from methods.schema import Settings
from scripts.train import run

if TYPE_CHECKING:
    from methods.training.stage import Trained


def training(settings: Settings) -> Trained:
    """Train the head of these settings, unless that has been finished before."""
    # transformers takes seconds to import, and a bad command line should be answered before that.
    from methods.training.stage import train_eagle

    return train_eagle(settings)


if __name__ == "__main__":
    sys.exit(run(training))
