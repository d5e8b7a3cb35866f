"""Search the knobs of a method for the fastest setting that keeps its quality (extra `tune`: Optuna).

python -m scripts.tune method=sense tune.trials=30 tune.min_quality=0.98 \
    'tune.space={verifier.theta_e: [0.01, 0.6], verifier.k: [1, 8], verifier.w: [2, 10]}'

takes the settings of run.py beside its own. Two numbers are the ends of a range, any other list holds choices. Each
trial is an ordinary run; its speedup is maximised where quality, method / plain decoding, is at least tune.min_quality.
tune.constraint=distinct_4 (its ratio) or identical_share serves prompts without a metric. The search lies in
results_dir/studies; the same command goes on with it, more trials extend it.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from typing import Any, Final

from hydra.core.hydra_config import HydraConfig
from rich.console import Console

from benchmarks.study import CONSTRAINTS, Found, is_range, search, word
from benchmarks.together import Together
from methods.overrides import compose, given
from methods.schema import Settings
from methods.settings import problems
from scripts.launch import Launch
from scripts.preflight import preflight

# Knobs elsewhere would change the baseline that the trials are compared with.
GROUPS: Final = ("verifier", "drafter", "connector")


def tuned(settings: Settings) -> Found:
    """Search with these settings."""
    return search(settings, _of_a_run(HydraConfig.get().overrides.task), Together(), Console())


def tune_problems(jobs: Sequence[Settings], words: Sequence[str]) -> Iterator[str]:
    """Yield one sentence for each thing that is wrong with a search; no model is loaded.

    Args:
        jobs: one, or none where only Hydra knows the settings.
        words: the command line without the program's name.
    """
    if len(jobs) > 1:
        yield "a search has one method, model and data set: leave -m and lists of values out"
        return
    yield from preflight(jobs, words)
    for job in jobs:
        yield from _own_problems(job)
        yield from _space_problems(job, _of_a_run(given(words)))


def _own_problems(job: Settings) -> Iterator[str]:
    tune = job.tune
    if find_spec("optuna") is None:
        yield "scripts.tune needs Optuna: pip install 'atomsd[tune]'"
    if job.mode != "measure":
        yield f"mode is {job.mode}, and a search needs times: leave it out"
    if tune.trials < 1:
        yield f"tune.trials is {tune.trials}; it must be 1 or more"
    if tune.seed < 0:
        yield f"tune.seed is {tune.seed}; it must be 0 or more"
    if tune.min_quality < 0:
        yield f"tune.min_quality is {tune.min_quality:g}; it must be 0 or more, and 1 is plain decoding's"
    if tune.constraint not in CONSTRAINTS:
        yield f"tune.constraint is '{tune.constraint}'; it must be one of {', '.join(CONSTRAINTS)}"
    if tune.constraint == "quality" and job.dataset.metric is None:
        yield (
            f"tune.constraint is quality, and dataset '{job.dataset.name}' has no metric: set dataset.metric, or "
            "tune.constraint=distinct_4 or identical_share"
        )


def _space_problems(job: Settings, words: Sequence[str]) -> Iterator[str]:
    if not isinstance(job.tune.space, dict) or not job.tune.space:
        yield f"tune.space is {job.tune.space}; it must name knobs, as in 'tune.space={{verifier.k: [1, 8]}}'"
        return
    wrong = {key: _knob_problem(key, values) for key, values in job.tune.space.items()}
    yield from (f"tune.space: {key} {problem}" for key, problem in wrong.items() if problem)
    sound = {key: values for key, values in job.tune.space.items() if not wrong[key]}
    # Each value of each knob once, as few jobs as that takes.
    for turn in range(max(map(len, sound.values()), default=0)):
        knobs = [word(key, values[turn % len(values)]) for key, values in sound.items()]
        try:
            yield from (f"tune.space: {problem}" for problem in problems(compose([*words, *knobs])))
        except ValueError as error:
            yield from (f"tune.space: {problem}" for problem in str(error).splitlines())


def _knob_problem(key: str, values: Any) -> str | None:
    if key.partition(".")[0] not in GROUPS or not key.partition(".")[2]:
        return f"is no knob of a method: knobs begin with {', '.join(f'{group}.' for group in GROUPS)}"
    scalars = isinstance(values, list) and all(isinstance(value, bool | int | float | str) for value in values)
    if not scalars or len(values) < 2:
        return f"is {values}; it must be [low, high], or a list of two or more choices"
    if is_range(values) and values[0] >= values[1]:
        return f"is {values}; the first end of a range must be below the second"
    return None


def _of_a_run(words: Sequence[str]) -> list[str]:
    return [word for word in words if not word.lstrip("+").startswith("tune.")]


def _report(found: Found, settings: Settings, words: Sequence[str]) -> str:
    figures, tune = found.figures, settings.tune
    speed, kept = figures["speedup"], figures["kept_interval"]
    knobs = {knob.partition("=")[0] for knob in found.knobs}
    command = [*(word for word in words if word.partition("=")[0] not in knobs), *found.knobs]
    return (
        f"best of {found.trials} trials, of which {found.allowed} keep {tune.constraint} >= {tune.min_quality:g}: "
        f"speedup {speed['value']:.3f}{_interval([speed['low'], speed['high']])}, "
        f"{tune.constraint} {figures['kept']:.3f}{_interval(kept)}, n={figures['n']}\n"
        f"python run.py {shlex.join(command)}\n"
        "Chosen on these very prompts, it looks a little better than it is: measure it on others before quoting it."
    )


def _interval(ends: Sequence[float | None] | None) -> str:
    low, high = ends or (None, None)
    return "" if low is None or high is None else f" [{low:.3f}, {high:.3f}]"


def main() -> int:
    """Search, and print the best trial and the command line that repeats it."""
    launch = Launch(tuned, preflight=tune_problems)
    code = launch()
    for found, settings in zip(launch.results, launch.jobs, strict=False):
        words = _of_a_run(given(sys.argv[1:]))
        Console().print(_report(found, settings, words), markup=False, highlight=False, soft_wrap=True)
    return code


if __name__ == "__main__":
    sys.exit(main())
