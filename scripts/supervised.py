"""A sweep in a process of its own, so that a job that kills its process takes no other job with it."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection, wait
from multiprocessing.sharedctypes import Synchronized
from pathlib import Path
from typing import Any, Final, Protocol, TypeVar

from methods.overrides import launcher
from methods.schema import Settings
from scripts.failure import Failure
from scripts.launch import INTERRUPTED, Launch, log_file

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

NO_JOB: Final = -1
# What a child that was interrupted from the keyboard may take to say so.
_GRACE_S: Final = 10.0


class Job(Protocol[T_co]):
    """What does the jobs of a sweep, and may work ahead for others."""

    def expect(
        self, jobs: Sequence[Settings], left_out: frozenset[int], turn: Callable[[int], None] | None = None
    ) -> None:
        """Take note of all jobs of the process, but for the numbers left out; `turn` is told who works."""

    def __call__(self, settings: Settings) -> T_co:
        """Do one job."""


class SupervisedLaunch(Launch[T]):
    """A launch whose sweeps run in a child process.

    The child does all jobs, so that models stay loaded from one to the next. When it dies, the job that was at work has
    failed, and another child goes on with the others.

    Args:
        job: what to do with the settings of one job.
        preflight: yields what is wrong with the jobs as a whole, before the first one starts.
        announce: told of the jobs of a sweep in which nothing is wrong, before the first one starts.
    """

    def __init__(
        self,
        job: Job[T],
        preflight: Callable[[Sequence[Settings], Sequence[str]], Any] | None = None,
        announce: Callable[[Sequence[Settings]], None] | None = None,
    ) -> None:
        super().__init__(job, preflight=preflight)
        self._jobs_by = job
        self._announce = announce
        self._log = Path()

    def run_all(self) -> None:
        """Run the jobs that have no end yet.

        Raises:
            KeyboardInterrupt: it was interrupted; the child has said so already.
        """
        # Another launcher has processes of its own, and what ties this one to a child could not go there.
        if len(self.jobs) < 2 or launcher(sys.argv[1:]) != "basic":
            self._jobs_by.expect(self.jobs, frozenset())
            super().run_all()
            return
        if self._announce is not None:
            self._announce(self.jobs)
        while len(self.ends) < len(self.jobs):
            if self._child() is None:
                return

    def _child(self) -> int | None:
        """Run a child to its end; return the number of the job that it died of, None if it did not die."""
        context = multiprocessing.get_context("spawn")
        receiver, sender = context.Pipe(duplex=False)
        at_work = context.Value("i", NO_JOB)
        child = context.Process(target=_serve, args=(self, sender, at_work))
        child.start()
        sender.close()
        try:
            news = self._listen(receiver)
            child.join()
        except KeyboardInterrupt:
            child.join(_GRACE_S)
            if child.pid is not None and child.is_alive():
                os.kill(child.pid, signal.SIGINT)
                child.join()
            raise
        if isinstance(news, BaseException):
            raise news
        if child.exitcode == 0:
            return None
        number = at_work.value
        if number == NO_JOB or number in self.ends:
            raise RuntimeError(f"the process of the sweep {_death(child.exitcode)} before or between its jobs")
        why = f"its process {_death(child.exitcode)}; the jobs after it went on in another one"
        self.ended(number, Failure(self.jobs[number], why, log=self._logged(number, why)))
        return number

    def _logged(self, number: int, why: str) -> str:
        """Write into a job's own log what the job could not, and return where that is."""
        log = self._log.parents[1] / str(number) / self._log.name
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("a", encoding="utf-8") as file:
            file.write(f"{why}\n")
        return str(log)

    def _listen(self, receiver: Connection) -> Exception | None:
        """Take note of the ends of jobs until the child is gone; return what it raised."""
        while True:
            try:
                number, end = receiver.recv()
            except EOFError:
                return None
            if isinstance(end, Path):
                self._log = end
            elif number == NO_JOB:
                return end
            else:
                self.ends[number] = end


class _Reporting(Launch[T]):
    """The launch inside the child: it tells its parent of every end."""

    def __init__(self, parent: SupervisedLaunch[T], news: Connection, at_work: Synchronized[int]) -> None:
        super().__init__(parent._jobs_by)
        self.jobs, self.ends = parent.jobs, dict(parent.ends)
        self._news = news
        self._at_work = at_work
        parent._jobs_by.expect(parent.jobs, frozenset(parent.ends), self.begins)

    def begins(self, number: int) -> None:
        """Mark the job that is at work, as the one to blame should the process die, and say where its log is."""
        if self._at_work.value == NO_JOB:
            self._news.send((NO_JOB, log_file()))
        self._at_work.value = number

    def ended(self, number: int, end: T | Failure) -> None:
        """Tell the parent."""
        super().ended(number, end)
        self._news.send((number, end))


def _serve(parent: SupervisedLaunch[T], news: Connection, at_work: Synchronized[int]) -> None:
    threading.Thread(target=_end_with_parent, daemon=True).start()
    launch = _Reporting(parent, news, at_work)
    try:
        launch.run_all()
    except KeyboardInterrupt:
        news.send((NO_JOB, KeyboardInterrupt()))
        news.close()
        os._exit(INTERRUPTED)
    except Exception as error:
        news.send((NO_JOB, error))


def _end_with_parent() -> None:
    """Leave no child at work that nobody waits for."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    wait([parent.sentinel])
    os._exit(1)


def _death(code: int | None) -> str:
    """Return what happened to a process, by its exit code."""
    if code is None or code >= 0:
        return f"ended itself with exit code {code}"
    name = signal.Signals(-code).name
    hint = ", which is what a machine without free memory does" if name == "SIGKILL" else ""
    return f"was killed ({name}{hint})"
