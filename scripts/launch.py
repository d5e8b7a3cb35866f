"""What every command shares: refuse bad settings at once, run the jobs through Hydra, end with a true exit code."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Generic, TypeVar, cast

import hydra
from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig, OmegaConf

from benchmarks.scoring import metric_named
from methods.overrides import OverrideError, check
from methods.schema import CONF_DIR, Settings
from methods.settings import problems

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

    Attributes:
        results: what the finished jobs returned, in order, but not those that a Hydra launcher took to another process.
        failures: one sentence for each job that failed in this process.
    """

    def __init__(
        self, job: Callable[[Settings], T], finish: Callable[[Sequence[Settings]], Sequence[T]] | None = None
    ) -> None:
        self.results: list[T] = []
        self.failures: list[str] = []
        self._job = job
        self._finish = finish
        self._process = os.getpid()

    def __call__(self) -> int:
        """Return the exit code: 0, 1 if a job failed, 2 for a command line that cannot work, 130 after Ctrl-C."""
        try:
            jobs = check(sys.argv[1:])
            bad = list(dict.fromkeys(problem for settings in jobs for problem in _problems(settings)))
            bad = bad or list(dict.fromkeys(_model_problems(jobs)))
        except OverrideError as error:
            bad = str(error).splitlines()
        for problem in bad:
            _say(problem)
        if bad:
            return BAD_USAGE
        # Hydra would print a traceback of its own and end the process; this hands the exception over instead.
        os.environ["HYDRA_FULL_ERROR"] = "1"
        try:
            hydra.main(version_base="1.3", config_path=str(CONF_DIR), config_name="config")(self._run)()
            if self._finish is not None and not self.failures:
                self.results += self._finish(jobs)
        except KeyboardInterrupt:
            _say("interrupted: what was finished is kept, and the same command goes on from there")
            return INTERRUPTED
        except Exception as error:  # from a job in another process, from Hydra itself, or from the finish
            if not self.failures:
                _say(_sentence(error))
            return 1
        return int(bool(self.failures))

    def _run(self, config: DictConfig) -> None:
        try:
            self.results.append(self._job(cast(Settings, OmegaConf.to_object(config))))
        except Exception as error:  # the other jobs of a sweep must run all the same
            _LOG.info("the job failed", exc_info=True)
            log = Path(HydraConfig.get().runtime.output_dir) / f"{HydraConfig.get().job.name}.log"
            self.failures.append(_sentence(error, log))
            _say(self.failures[-1])
            if os.getpid() != self._process:
                raise


def _problems(settings: Settings) -> Iterator[str]:
    yield from problems(settings)
    try:
        metric_named(settings.dataset.metric)
    except ValueError as error:
        yield str(error)


def _model_problems(jobs: list[Settings]) -> Iterator[str]:
    """Ask once for each model whether it can be had; nothing is downloaded or loaded."""
    # transformers takes seconds to import, and what is wrong without it should be answered before that.
    from methods.loaded import check_models

    for settings in {repr((job.model, job.draft_model)): job for job in jobs}.values():
        yield from check_models(settings)


def _sentence(error: Exception, log: Path | None = None) -> str:
    if isinstance(error, USER_ERRORS):
        return str(error)
    where = f" (traceback in {log})" if log else ""
    return f"{type(error).__name__}: {error}{where}"


def _say(sentence: str) -> None:
    sys.stderr.write(f"error: {sentence}\n")
