"""Measure what a lossy verifier must know of a target: ARC's constants, EASD's percentiles, the classifier of judge.

`python -m scripts.calibrate verifier=arc model=... dataset=...` takes the same settings as run.py, and calibration.*
says how much is measured. The constants lie in the cache, where every run of that verifier on that model finds them.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

from rich.console import Console

from benchmarks.scoring import number_given, words_given
from methods.schema import Settings
from scripts.launch import Launch

if TYPE_CHECKING:
    from methods.calibration.files import Calibration


FINAL_ANSWERS: Final = {
    "number_accuracy": number_given,
    "answer_accuracy": words_given,
    "answer_contained": words_given,
}


def calibration(settings: Settings) -> Calibration:
    """Measure the constants of the verifier of these settings, unless they are there already."""
    # transformers takes seconds to import, and a bad command line should be answered before that.
    from methods.calibration.stage import calibrate

    return calibrate(settings, FINAL_ANSWERS)


def main() -> int:
    """Run the jobs of the command line and say where the constants lie."""
    launch = Launch(calibration)
    code = launch()
    for found in launch.results:
        numbers = ", ".join(f"{key} {value:.6g}" for key, value in found.constants.items() if isinstance(value, float))
        Console().print(
            f"{numbers} ({found.facts['samples']} samples): {found.path}", markup=False, highlight=False, soft_wrap=True
        )
    return code


if __name__ == "__main__":
    sys.exit(main())
