"""The benchmark: each prompt by the baseline and by one or several methods in turn, in one process."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from filelock import FileLock, Timeout
from rich.console import Console

from benchmarks.device_lock import device_to_itself
from benchmarks.manifest import build_manifest
from benchmarks.results import RunFolder
from benchmarks.run import Answers, Outcome, Run
from benchmarks.scoring import metric_named
from corpora.corpus import Corpus
from corpora.example import Example
from methods.places import cache_folder

if TYPE_CHECKING:
    from methods.pipeline import Pipeline
    from methods.replay import Replay

__all__ = ["Outcome", "Stopped", "run_benchmark", "run_together"]

_LOG = logging.getLogger(__name__)
_WARM_UPS = 2
# Another process that has just been killed may need a moment to let go of its locks.
_PATIENCE_S = 2.0


class Stopped(Exception):
    """A run that was not finished because another one failed."""


def run_benchmark(pipeline: Pipeline | Replay, corpus: Corpus, console: Console | None = None) -> Outcome:
    """Measure a pipeline on every prompt of a corpus and write the result files: see :func:`run_together`.

    Raises:
        ValueError: an unknown metric, or a result folder that another process uses or that holds another run.
        OSError: the disk takes no more.
        KeyboardInterrupt: passed on after everything finished is on the disk.
    """
    (outcome,) = run_together([pipeline], corpus, console)
    if isinstance(outcome, Exception):
        raise outcome
    return outcome


def run_together(
    pipelines: Sequence[Pipeline | Replay],
    corpus: Corpus,
    console: Console | None = None,
    *,
    turn: Callable[[int], None] = lambda number: None,
    stop: bool = False,
) -> list[Outcome | Exception]:
    """Measure pipelines that differ in their methods alone, with one baseline for all of them.

    Every prompt goes through the baseline and all methods, one after the other, before the next prompt; who begins
    changes from prompt to prompt. So each speedup compares times of one process that lie close together, and the
    baseline is measured once. A prompt that raises is written down as failed and the rest goes on. Finished prompts of
    an earlier, interrupted run are kept; a finished run is not run again.

    Args:
        pipelines: over one target.
        corpus: the prompts.
        console: where progress is shown.
        turn: is told the number of the pipeline that works next.
        stop: leave everything as it is after the first prompt or run that fails.

    Returns:
        For each pipeline what it left behind, or why it came to no end.
    """
    console = console or Console()
    group = _Group(corpus, console, turn)
    with ExitStack() as stack:
        places = [
            group.begin(number, pipeline, stack, len(pipelines) == 1) for number, pipeline in enumerate(pipelines)
        ]
        group.work(stop)
    for end in group.ends.values():
        if isinstance(end, Outcome):
            where = "finished before, kept" if end.reused else "written"
            console.print(f"results {where}: {end.folder.path}", markup=False, highlight=False, soft_wrap=True)
    return [place if isinstance(place, Exception) else group.ends[place] for place in places]


class _Group:
    """Runs over one corpus and one target, by their folders: several settings may mean the same run.

    Attributes:
        ends: what the runs that are over left behind, or why they are over.
    """

    def __init__(self, corpus: Corpus, console: Console, turn: Callable[[int], None]) -> None:
        self.ends: dict[Path, Outcome | Exception] = {}
        self._runs: dict[Path, Run] = {}
        self._numbers: dict[Path, int] = {}
        self._corpus = corpus
        self._console = console
        self._turn = turn

    def begin(self, number: int, pipeline: Pipeline | Replay, stack: ExitStack, alone: bool) -> Path | Exception:
        """Return the folder of a run that is begun now, was finished before or is in the group, or what is wrong."""
        self._turn(number)
        try:
            metric_named(pipeline.settings.dataset.metric)
            manifest = build_manifest(pipeline, self._corpus)
            names = (self._corpus.name, manifest["model"], manifest["method"])
            folder = RunFolder.locate(pipeline.settings.results_dir, *names, manifest["config"])
            if folder.path in self._numbers:
                return folder.path
            stack.enter_context(_locked(folder))
            finished = folder.finished(manifest) if pipeline.settings.resume else None
            if finished is not None:
                self.ends[folder.path] = Outcome(folder, folder.manifest() or manifest, finished, reused=True)
            else:
                run = Run(pipeline, self._corpus, folder, manifest, self._console, alone)
                self._runs[folder.path] = run
                stack.callback(run.close)
            self._numbers[folder.path] = number
        except (ValueError, OSError) as error:
            return error
        return folder.path

    def work(self, stop: bool) -> None:
        """Bring all runs to an end."""
        if not self._runs:
            return
        pipeline = next(iter(self._runs.values())).pipeline
        with ExitStack() as stack:
            if not pipeline.replayed:
                cache = cache_folder(pipeline.settings)
                stack.enter_context(device_to_itself(pipeline.device, cache, self._console))
            for path, run in self._runs.items():
                stack.enter_context(run.progress)
                self._try(path, run, self._prepare)
            try:
                for index, example in enumerate(self._corpus.examples):
                    self._prompt(index, example)
                    if stop and (self._failures() or any(run.failed for run in self._runs.values())):
                        break
            except KeyboardInterrupt:
                for path, run in self._left().items():
                    run.progress.say(
                        f"stopped after {run.progress.done} of {len(self._corpus)} prompts; they are kept in {path}, "
                        "and the same command goes on from there"
                    )
                raise
            for path, run in self._left().items():
                self._try(path, run, self._end)

    def _left(self) -> dict[Path, Run]:
        return {path: run for path, run in self._runs.items() if path not in self.ends}

    def _failures(self) -> bool:
        return any(isinstance(end, Exception) for end in self.ends.values())

    def _try(self, path: Path, run: Run, step: Callable[[Run], None]) -> None:
        """Take a step of one run; if it fails, the run is over, and the others go on."""
        self._turn(self._numbers[path])
        try:
            step(run)
        except Exception as error:
            with run.logging():
                _LOG.exception("the run came to no end")
            self.ends[path] = error

    def _prepare(self, run: Run) -> None:
        left = [example for example in self._corpus.examples if example.id in run.todo]
        if left and not run.pipeline.replayed:
            run.warm_up([left[turn % len(left)] for turn in range(_WARM_UPS)])
        run.catch_up()

    def _prompt(self, index: int, example: Example) -> None:
        """Let the baseline and every run that lacks this prompt answer it, another one first than last time."""
        due = {path: run for path, run in self._left().items() if example.id in run.todo}
        if not due:
            return
        order: list[Path | None] = [None, *due]
        first = index % len(order)
        answers: dict[Path | None, Answers] = {path: [] for path in [*order[first:], *order[:first]]}
        for _ in range(1 + len(example.followups)):
            self._let_answer(example, due, answers)
        for path, run in due.items():
            own, plain = answers[path], answers[None]
            self._try(path, run, lambda run, own=own, plain=plain: run.add(example, own, plain))  # type: ignore[misc]

    def _let_answer(self, example: Example, due: dict[Path, Run], answers: dict[Path | None, Answers]) -> None:
        """Let all sides answer the next turn of a prompt; one that has failed is left out, all if it is the baseline.

        All go on from what the baseline has said, so that they decode the same prompt.
        """
        plain = answers[None]
        if isinstance(plain, Exception):
            return
        said = [answer.generation.text for answer in plain]
        for path, given in answers.items():
            if isinstance(given, Exception):
                continue
            if path is None:
                answer = next(iter(due.values())).baseline(example, said)
            else:
                self._turn(self._numbers[path])
                answer = due[path].answer(example, said)
            answers[path] = answer if isinstance(answer, Exception) else [*given, answer]

    def _end(self, run: Run) -> None:
        if not run.todo:
            self.ends[run.folder.path] = run.finish()
        elif run.failed:
            self.ends[run.folder.path] = ValueError(
                f"a prompt failed, and stop_at_first_failure=true ended the run: see {run.folder.log}"
            )
        else:
            self.ends[run.folder.path] = Stopped("another run failed, and stop_at_first_failure=true ended this one")


@contextmanager
def _locked(folder: RunFolder) -> Iterator[None]:
    folder.path.mkdir(parents=True, exist_ok=True)
    try:
        # The lock ends with its process, however that dies.
        with FileLock(folder.path / ".lock", timeout=_PATIENCE_S):
            yield
    except Timeout as error:
        raise ValueError(
            f"another process is working on this very run in {folder.path}; wait for it or stop it"
        ) from error
