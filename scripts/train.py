"""What the commands that train a drafter's weights share: tell of the progress, and say where the weights lie."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from rich.console import Console

from methods.schema import Settings
from scripts.launch import Launch

if TYPE_CHECKING:
    from methods.training.stage import Trained


def run(training: Callable[[Settings], Trained]) -> int:
    """Run the jobs of the command line, say where the weights lie and how good they are, and return the exit code."""
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
