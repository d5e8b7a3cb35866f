"""A search for the knobs that make a method fastest while it keeps its quality: Optuna proposes, ordinary runs answer.

Sampler: tree-structured Parzen estimator with a constraint, as Optuna has it. Every trial is a run with a result folder
of its own, so one that was run before is not run again, and a search that was stopped goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from filelock import FileLock, Timeout
from rich.console import Console

from benchmarks.results import OUTPUT_OPTIONS, config_hash, safe_name
from benchmarks.run import Outcome
from methods.overrides import compose
from methods.schema import Settings
from methods.settings import problems

if TYPE_CHECKING:
    import optuna

CONSTRAINTS: Final = ("quality", "distinct_4", "identical_share")
_DIGITS: Final = 4
_PATIENCE_S: Final = 2.0


@dataclass(frozen=True)
class Found:
    """The fastest trial that keeps what must be kept.

    Attributes:
        number: of the trial, from 0.
        knobs: words that set it.
        figures: `speedup` (value, low, high), `kept`, `kept_interval` (or None), `n`, and `run`, its folder.
        trials: how many there were.
        allowed: how many of them keep what must be kept.
    """

    number: int
    knobs: list[str]
    figures: dict[str, Any]
    trials: int
    allowed: int


def is_range(values: Sequence[Any]) -> bool:
    """Return whether the values of a knob are the two ends of a range, not choices."""
    return len(values) == 2 and all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)


def word(key: str, value: Any) -> str:
    """Return the word of a command line that sets a knob."""
    return f"{key}={str(value).lower() if isinstance(value, bool) else value}"


def search(settings: Settings, words: Sequence[str], job: Callable[[Settings], Outcome], console: Console) -> Found:
    """Run the trials that are left, and return the best of all.

    Args:
        settings: of the search.
        words: of its command line, without the space.
        job: does one run.
        console: is told of each trial.

    Raises:
        ValueError: the constraint has no value, a prompt failed, no trial keeps enough, or another process is at it.
        Exception: whatever kept a run from its end; the same trial is tried again by the next start.
    """
    tune = settings.tune
    with _opened(settings) as study:
        while (trial := _next(study, tune.trials, tune.seed)) is not None:
            knobs = [word(key, _suggested(trial, key, values)) for key, values in tune.space.items()]
            title = f"trial {trial.number + 1} of {tune.trials}: {' '.join(knobs)}"
            chosen = compose([*words, *knobs])
            if wrong := problems(chosen):
                study.tell(trial, state=_state("FAIL"))
                _say(console, f"{title}: cannot be, {wrong[0]}")
                continue
            figures = _figures(job(chosen), tune.constraint)
            trial.set_user_attr("knobs", knobs)
            trial.set_user_attr("figures", figures)
            trial.set_constraint("kept", tune.min_quality - figures["kept"])
            study.tell(trial, figures["speedup"]["value"])
            _say(
                console, f"{title}: speedup {figures['speedup']['value']:.3f}, {tune.constraint} {figures['kept']:.3f}"
            )
        return _best(study, settings)


def _say(console: Console, line: str) -> None:
    console.print(line, markup=False, highlight=False, soft_wrap=True)


@contextmanager
def _opened(settings: Settings) -> Iterator[optuna.Study]:
    import optuna

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    decides = {key: value for key, value in asdict(settings.tune).items() if key != "trials"}
    config = {key: value for key, value in asdict(settings).items() if key not in OUTPUT_OPTIONS}
    name = f"{safe_name(settings.method.name)}-{config_hash({**config, 'study': decides})}"
    file = Path(settings.results_dir).expanduser().absolute() / "studies" / f"{name}.db"
    file.parent.mkdir(parents=True, exist_ok=True)
    try:
        with FileLock(file.with_suffix(".lock"), timeout=_PATIENCE_S):
            if not settings.resume:
                file.unlink(missing_ok=True)
            # Four slashes: the path is absolute.
            storage = optuna.storages.RDBStorage(f"sqlite:///{file}")
            try:
                yield optuna.create_study(storage=storage, study_name=name, direction="maximize", load_if_exists=True)
            finally:
                storage.remove_session()
                storage.engine.dispose()
    except Timeout as error:
        raise ValueError(f"another process is working on this very search in {file}; wait for it or stop it") from error


def _state(name: str) -> optuna.trial.TrialState:
    import optuna

    return optuna.trial.TrialState[name]


def _next(study: optuna.Study, trials: int, seed: int) -> optuna.Trial | None:
    """Return the trial that an earlier start left open, else a new one, None when there are enough."""
    import optuna

    known = study.get_trials(deepcopy=False)
    left = [trial for trial in known if trial.state == _state("RUNNING")]
    number = left[0].number if left else len(known)
    if not left and number >= trials:
        return None
    # A seed for each trial: a sampler that goes on after a stop must not draw again what it drew before.
    own = int(np.random.SeedSequence([seed, number]).generate_state(1)[0])
    study.sampler = optuna.samplers.TPESampler(seed=own)
    return optuna.Trial(study, left[0]._trial_id) if left else study.ask()


def _suggested(trial: optuna.Trial, key: str, values: Sequence[Any]) -> Any:
    if not is_range(values):
        return trial.suggest_categorical(key, values)
    low, high = values
    if isinstance(low, int) and isinstance(high, int):
        return trial.suggest_int(key, low, high)
    # More digits would only make the command line longer.
    return min(max(float(f"{trial.suggest_float(key, low, high):.{_DIGITS}g}"), low), high)


def _figures(outcome: Outcome, constraint: str) -> dict[str, Any]:
    summary = outcome.summary
    if summary["failed"]:
        raise ValueError(
            f"{summary['failed']} prompts failed, so the trial compares with no other: see {outcome.folder.log}"
        )
    if summary["speedup"]["value"] is None:
        raise ValueError(f"the trial has no speedup, as no prompt gave a token: see {outcome.folder.log}")
    kept, interval = _kept(summary, constraint)
    if kept is None:
        others = " or ".join(name for name in CONSTRAINTS if name != constraint)
        raise ValueError(
            f"tune.constraint={constraint} has no value here, as {_why(summary, constraint)}: "
            f"take other prompts or tune.constraint={others}"
        )
    return {
        "speedup": summary["speedup"],
        "kept": kept,
        "kept_interval": interval,
        "n": summary["n"],
        "run": str(outcome.folder.path),
    }


def _kept(summary: Mapping[str, Any], constraint: str) -> tuple[float | None, list[float] | None]:
    """Return how much of the constraint was kept, and its interval if it has one."""
    if constraint == "quality":
        quality = summary["quality"] or {"ratio": None, "ratio_interval": None}
        return quality["ratio"], quality["ratio_interval"]
    if constraint == "identical_share":
        return summary["identical_share"], None
    ours, plain = summary["distinct_n"]["method"], summary["distinct_n"]["baseline"]
    return (ours / plain if plain and ours is not None else None), None


def _why(summary: Mapping[str, Any], constraint: str) -> str:
    if constraint == "quality":
        quality = summary["quality"]
        scored = quality is not None and quality["n"] > 0
        return "plain decoding scores 0" if scored else "no prompt has anything to be scored against"
    return "the outputs are too short"


def _best(study: optuna.Study, settings: Settings) -> Found:
    tune = settings.tune
    known = study.get_trials(deepcopy=False)
    done = [trial for trial in known if trial.state == _state("COMPLETE")]
    if not done:
        raise ValueError(f"none of {len(known)} trials could be run: see what was said of each, and change tune.space")
    allowed = [trial for trial in done if trial.user_attrs["figures"]["kept"] >= tune.min_quality]
    if not allowed:
        closest = max(done, key=lambda trial: trial.user_attrs["figures"]["kept"])
        kept = closest.user_attrs["figures"]["kept"]
        raise ValueError(
            f"none of {len(known)} trials keeps {tune.constraint} >= {tune.min_quality:g}; the closest has {kept:.3f} "
            f"with {' '.join(closest.user_attrs['knobs'])}: widen tune.space, add trials or lower tune.min_quality"
        )
    best = max(allowed, key=lambda trial: trial.value or 0.0)
    return Found(best.number, best.user_attrs["knobs"], best.user_attrs["figures"], len(known), len(allowed))
