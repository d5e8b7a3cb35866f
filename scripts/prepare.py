"""The offline stage alone: build what a method needs before it can decode. `run.py` does the same when it is missing.

`python -m scripts.prepare method=sense model=... dataset=... datastore=...` takes the same settings as run.py.
"""

from __future__ import annotations

import sys

from methods.schema import Settings
from scripts.launch import Launch


def offline_stage(settings: Settings) -> None:
    """Build what the method of these settings needs, unless it is there already."""
    # transformers takes seconds to import, and a bad command line should be answered before that.
    from methods.offline import prepare

    prepare(settings)


if __name__ == "__main__":
    sys.exit(Launch(offline_stage)())
