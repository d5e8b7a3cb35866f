"""What every command shares: refuse bad settings at once, run the jobs through Hydra, end with a true exit code."""

from __future__ import annotations

import logging
import os
import pickle
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Generic, TypeVar, cast

import hydra
from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig, OmegaConf

from benchmarks.runner import Stopped
from benchmarks.scoring import metric_named
from methods.overrides import OverrideError, check
from methods.schema import CONF_DIR, Settings
from methods.settings import problems
from scripts.failure import Failure

T = TypeVar("T")

BAD_USAGE = 2
INTERRUPTED = 130
# What a person can put right. Anything else is a fault of the program: its sentence names the log with the traceback.
USER_ERRORS = (ValueError, OSError)

_LOG = logging.getLogger(__name__)


class OneLine(logging.Formatter):
    """Messages for the terminal: a traceback belongs in the log."""

    def formatException(self, ei: object) -> str:
        """Return nothing in place of the traceback."""
        return ""

    def format(self, record: logging.LogRecord) -> str:
        """Return the message alone; the record keeps its traceback for the file."""
        kept, record.exc_text = record.exc_text, None
        line = super().format(record).rstrip()
        record.exc_text = kept
        return line


class Launch(Generic[T]):
    """Runs a job for each settings that the command line asks for, and keeps what they return.

    Args:
        job: what to do with the settings of one job.
        finish: what to do with the settings of all jobs when none has failed, in this process; it returns more results.
        preflight: yields what is wrong with the jobs as a whole, before the first one starts.

    Attributes:
        jobs: settings of all jobs, in order; empty where only Hydra knows them.
        ends: by number, what a job returned or why it failed; not of those that a launcher took to another machine.
    """

    def __init__(
        self,
        job: Callable[[Settings], T],
        finish: Callable[[Sequence[Settings]], Sequence[T]] | None = None,
        preflight: Callable[[Sequence[Settings], Sequence[str]], Iterable[str]] | None = None,
    ) -> None:
        self.jobs: list[Settings] = []
        self.ends: dict[int, T | Failure] = {}
        self._more: list[T] = []
        self._job = job
        self._finish = finish
        self._preflight = preflight
        self._process = os.getpid()
        self._journal = Path()

    @property
    def _elsewhere(self) -> bool:
        """Whether a launcher of Hydra has taken this object to another process."""
        return os.getpid() != self._process

    @property
    def results(self) -> list[T]:
        """What the jobs that have not failed returned, in their order."""
        return [end for _, end in sorted(self.ends.items()) if not isinstance(end, Failure)] + self._more

    @property
    def failures(self) -> list[Failure]:
        """The jobs that have failed or were not run, in their order."""
        return [end for _, end in sorted(self.ends.items()) if isinstance(end, Failure)]

    def __call__(self) -> int:
        """Return the exit code: 0, 1 if a job failed, 2 for a command line that cannot work, 130 after Ctrl-C."""
        try:
            self.jobs = check(sys.argv[1:])
            bad = list(dict.fromkeys(self._problems()))
        except OverrideError as error:
            bad = str(error).splitlines()
        for problem in bad:
            _say(problem)
        if bad:
            return BAD_USAGE
        try:
            self.run_all()
            if self._finish is not None and not self.failures:
                self._more += self._finish(self.jobs)
        except KeyboardInterrupt:
            _say("interrupted: what was finished is kept, and the same command goes on from there")
            return INTERRUPTED
        except Exception as error:  # from a job in another process, from Hydra itself, or from the finish
            if not self.failures:
                _say(sentence(error))
            return 1
        return int(bool(self.failures))

    def run_all(self) -> None:
        """Run the jobs that have no end yet, in this process, or in those of a launcher of Hydra."""
        with tempfile.TemporaryDirectory() as journal:
            self._journal = Path(journal)
            try:
                self._through_hydra()
            finally:
                for file in self._journal.glob("*.pickle"):
                    self.ends[int(file.stem)] = pickle.loads(file.read_bytes())

    def _through_hydra(self) -> None:
        # Hydra would print a traceback of its own and end the process; this hands the exception over instead.
        os.environ["HYDRA_FULL_ERROR"] = "1"
        hydra.main(version_base="1.3", config_path=str(CONF_DIR), config_name="config")(self._run)()

    def ended(self, number: int, end: T | Failure) -> None:
        """Take note of the end of a job, and say why if it failed."""
        self.ends[number] = end
        if isinstance(end, Failure) and not end.skipped:
            _say(end.reason)
        if self._elsewhere and self._journal.is_dir():
            (self._journal / f"{number}.pickle").write_bytes(pickle.dumps(end))

    def begins(self, number: int) -> None:
        """Take note that a job begins."""

    def _problems(self) -> Iterator[str]:
        for settings in self.jobs:
            yield from problems(settings)
            try:
                metric_named(settings.dataset.metric)
            except ValueError as error:
                yield str(error)
        if self.jobs:
            yield from _model_problems([job for job in self.jobs if not problems(job)])
        if self._preflight is not None:
            yield from self._preflight(self.jobs, sys.argv[1:])

    def _run(self, config: DictConfig) -> None:
        job = HydraConfig.get().job
        number = 0 if OmegaConf.is_missing(job, "num") else int(job.num)
        if number in self.ends:
            return
        settings = cast(Settings, OmegaConf.to_object(config))
        if settings.stop_at_first_failure and any(_failed(end) for end in self.ends.values()):
            self.ended(number, Failure(settings, "not run: another job failed, and stop_at_first_failure=true", True))
            return
        self.begins(number)
        try:
            self.ended(number, self._job(settings))
        except Stopped as error:
            self.ended(number, Failure(settings, f"not finished: {error}", True))
        except Exception as error:  # the other jobs of a sweep must run all the same
            _LOG.info("the job failed", exc_info=True)
            self.ended(number, Failure(settings, sentence(error, log_file()), log=str(log_file())))
            if self._elsewhere and not self._journal.is_dir():
                raise  # on another machine nothing else takes the news home


def log_file() -> Path:
    """Return the log of the job that Hydra is at."""
    config = HydraConfig.get()
    return Path(config.runtime.output_dir) / f"{config.job.name}.log"


def _failed(end: object) -> bool:
    return isinstance(end, Failure) or getattr(end, "exit_code", 0) != 0


def _model_problems(jobs: list[Settings]) -> Iterator[str]:
    """Ask once for each model whether it can be had; nothing is downloaded or loaded."""
    # transformers takes seconds to import, and what is wrong without it should be answered before that.
    from methods.loaded import check_models

    for settings in {repr((job.model, job.draft_model, job.drafter["name"])): job for job in jobs}.values():
        yield from check_models(settings)


def sentence(error: Exception, log: Path | None = None) -> str:
    """Return one sentence for the terminal."""
    if isinstance(error, USER_ERRORS):
        return str(error)
    where = f" (traceback in {log})" if log else ""
    return f"{type(error).__name__}: {error}{where}"


def _say(words: str) -> None:
    sys.stderr.write(f"error: {words}\n")
