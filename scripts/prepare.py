"""The offline stage alone: build what a method needs before it can decode. `run.py` does the same when it is missing.

python -m scripts.prepare method=sense model=... dataset=... datastore=...

takes the same settings as run.py, and prints what the store costs. Several jobs share a build, one shard each, in this
process or by a launcher of Hydra (docs/scaling.md); when all have ended, the store is put together here:

python -m scripts.prepare -m method=sense ... datastore.shards=8 'datastore.shard=range(8)' hydra/launcher=ray
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.console import Console

from methods.schema import Settings
from scripts.launch import Launch

if TYPE_CHECKING:
    from methods.offline import Stores


def offline_stage(settings: Settings) -> Stores | None:
    """Build what the method of these settings needs, unless it is there already."""
    # transformers takes seconds to import, and a bad command line should be answered before that.
    from methods.offline import prepare

    return prepare(settings)


def put_together(jobs: Sequence[Settings]) -> list[Stores]:
    """Merge the shards that the jobs have built, if they have built any."""
    if all(settings.datastore.shard is None for settings in jobs):
        return []
    from methods.offline import merge_shards

    return merge_shards(jobs)


def main() -> int:
    """Run the jobs of the command line, put shards together, and show what each store costs."""
    launch: Launch[Stores | None] = Launch(offline_stage, put_together)
    code = launch()
    stores = [result for result in launch.results if result is not None]
    if stores:
        from methods.offline.report import store_table

        for store in stores:
            Console().print(store_table(store))
    return code


if __name__ == "__main__":
    sys.exit(main())
