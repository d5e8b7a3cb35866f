"""Train a small draft model for a target: python -m scripts.train_draft training=draft_lm model=...

The target answers train prompts, and the draft model learns what the target said and might have said. training.* says
how much and how (conf/training/draft_lm.yaml). A start that was interrupted is gone on with by the same command, and
ends with the same model. The folder that it names at the end is a `draft_model` for method=sps.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from methods.schema import Settings
from scripts.train import run

if TYPE_CHECKING:
    from methods.training.stage import Trained


def training(settings: Settings) -> Trained:
    """Train the draft model of these settings, unless that has been finished before."""
    # transformers takes seconds to import, and a bad command line should be answered before that.
    from methods.training.stage import train_draft

    return train_draft(settings)


if __name__ == "__main__":
    sys.exit(run(training))
