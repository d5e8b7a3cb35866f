"""Train an EAGLE head for a target: python -m scripts.train_eagle training=eagle3 model=...

The target answers train prompts, and the head learns from the answers and the states behind them. training.* says how
much and how (conf/training). A start that was interrupted is gone on with by the same command, and ends with the same
head. The folder that it names at the end is a `draft_model`.
"""

from __future__ import annotations

import logging
import sys
from typing import TYPE_CHECKING

from rich.console import Console

from methods.schema import Settings
from scripts.launch import Launch

if TYPE_CHECKING:
    from methods.training.stage import Trained


def training(settings: Settings) -> Trained:
    """Train the head of these settings, unless that has been finished before."""
    # transformers takes seconds to import, and a bad command line should be answered before that.
    from methods.training.stage import train_eagle

    return train_eagle(settings)


def main() -> int:
    """Run the jobs of the command line and say where the heads lie and how good they are."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(asctime)s %(message)s", "%H:%M:%S"))
    log = logging.getLogger("methods.training")
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    launch = Launch(training)
    code = launch()
    for done in launch.results:
        shares = next(row["shares"] for row in reversed(done.rows) if "shares" in row)
        Console().print(
            f"held-out drafts right up to token 1, 2, ...: {', '.join(f'{share:.3f}' for share in shares)}; "
            f"draft_model={done.folder}",
            markup=False,
            highlight=False,
            soft_wrap=True,
        )
    return code


if __name__ == "__main__":
    sys.exit(main())
