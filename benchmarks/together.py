"""The jobs of a sweep, run together where they differ in their methods alone, so that one baseline serves them all."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

from rich.console import Console

from benchmarks.runner import Outcome, Stopped, run_together
from corpora.loading import load_corpus
from methods.schema import Settings

_LOG = logging.getLogger(__name__)

# What a method may bring of its own; jobs that agree in everything else have the same baseline.
OF_THE_METHOD = frozenset({"method", "drafter", "verifier", "connector", "datastore", "calibration", "draft_model"})


def _nobody(number: int) -> None:
    """Take no note of who works next."""


class Together:
    """Does the jobs of a sweep one by one, and with each the others that have the same baseline.

    A method that cannot be put together is only its own job's failure. In a process that a launcher of Hydra has
    started, every job is alone.
    """

    def __init__(self) -> None:
        self._jobs: list[Settings] = []
        self._process = 0
        self._left_out: frozenset[int] = frozenset()
        self._turn: Callable[[int], None] = _nobody
        self._done: dict[str, Outcome | Exception] = {}

    def expect(
        self, jobs: Sequence[Settings], left_out: frozenset[int], turn: Callable[[int], None] | None = None
    ) -> None:
        """Take note of the jobs that will be asked for in this process.

        Args:
            jobs: of the whole command line, in order.
            left_out: numbers of those that will not be asked for.
            turn: is told the number of the job that works next.
        """
        self._jobs, self._left_out, self._process = list(jobs), left_out, os.getpid()
        self._turn = turn or self._turn

    def __call__(self, settings: Settings) -> Outcome:
        """Return what the job of these settings left behind.

        Raises:
            Stopped: it was given up because another job failed.
            Exception: whatever kept it from being done.
        """
        key = repr(settings)
        if key not in self._done:
            self._run(settings)
        end = self._done[key]
        if isinstance(end, Exception):
            raise end
        return end

    def _run(self, settings: Settings) -> None:
        group = self._group(settings)
        corpus = load_corpus(settings.dataset, "test")
        # transformers takes seconds to import, and bad rows should be answered before that.
        from methods.pipeline import Pipeline, assemble
        from methods.replay import Replay, assemble_replay

        pipelines: dict[str, Pipeline | Replay] = {}
        # A model is kept as long as the next job needs it, so those that need a second one come together.
        for key, (number, member) in sorted(group.items(), key=lambda item: item[1][1].draft_model is not None):
            self._turn(number)
            try:
                pipelines[key] = assemble_replay(member) if member.mode == "replay" else assemble(member)
            except Exception as error:
                self._done[key] = error
                if member.stop_at_first_failure:
                    self._give_up(group)
                    return
        if not pipelines:
            return
        if len(pipelines) > 1:
            _LOG.info("%d jobs share one baseline, prompt by prompt", len(pipelines))
        numbers = [group[key][0] for key in pipelines]
        ends = run_together(
            list(pipelines.values()),
            corpus,
            Console(),
            turn=lambda place: self._turn(numbers[place]),
            stop=settings.stop_at_first_failure,
        )
        self._done.update(zip(pipelines, ends, strict=True))

    def _group(self, settings: Settings) -> dict[str, tuple[int, Settings]]:
        """Return number and settings of the jobs to be done now, the one that was asked for among them."""
        group = {repr(settings): (0, settings)}
        if os.getpid() != self._process or settings not in self._jobs:
            return group
        group = {repr(settings): (self._jobs.index(settings), settings)}
        drafts = {settings.draft_model}
        for number, job in enumerate(self._jobs):
            key = repr(job)
            if number in self._left_out or key in group or key in self._done or _baseline(job) != _baseline(settings):
                continue
            # Two draft models beside one target may be more than the memory holds.
            if len({*drafts, job.draft_model} - {None}) <= 1:
                group[key] = (number, job)
                drafts.add(job.draft_model)
        return group

    def _give_up(self, group: dict[str, tuple[int, Settings]]) -> None:
        for key in group.keys() - self._done.keys():
            self._done[key] = Stopped("another job failed, and stop_at_first_failure=true ended this one")


def _baseline(settings: Settings) -> dict[str, Any]:
    return {key: value for key, value in asdict(settings).items() if key not in OF_THE_METHOD}
