"""Record what a model says while it answers the test prompts by plain greedy decoding, for `run.py mode=replay`.

python -m scripts.record method=sense model=... dataset=...

takes the same settings as run.py. One recording serves every method that looks at no other inner layer than the
methods that it was made with. It lies in results_dir/recordings/ and can be carried to a machine without the model.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from rich.console import Console

from corpora.loading import load_corpus
from methods.schema import Settings
from scripts.launch import Launch

if TYPE_CHECKING:
    from methods.recordings import Recording


def recording(settings: Settings) -> tuple[Recording, int]:
    """Record the test prompts of these settings, as far as they are not recorded yet."""
    if not settings.decode.greedy:
        raise ValueError(f"decode.temperature is {settings.decode.temperature}; only greedy decoding can be recorded")
    corpus = load_corpus(settings.dataset, "test")
    # transformers takes seconds to import, and bad settings or rows should be answered before that.
    from methods.pipeline import assemble
    from methods.record import record

    return record(assemble(settings), corpus)


def main() -> int:
    """Run the jobs of the command line and say where the recordings lie."""
    launch = Launch(recording)
    code = launch()
    for found, added in launch.results:
        Console().print(f"{added} texts recorded: {found.folder}", markup=False, highlight=False, soft_wrap=True)
    return code


if __name__ == "__main__":
    sys.exit(main())
