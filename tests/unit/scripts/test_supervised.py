"""A sweep in a child process: the jobs here are found again by the child, which imports this file."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from methods.schema import Settings
from scripts.supervised import SupervisedLaunch


class Jobs:
    """Seed 1 raises, seed 2 kills its process, seed 3 kills it while it works ahead for seed 4; the others are good."""

    def expect(
        self, jobs: Sequence[Settings], left_out: frozenset[int], turn: Callable[[int], None] | None = None
    ) -> None:
        self.jobs, self.left_out, self.turn = jobs, left_out, turn

    def __call__(self, settings: Settings) -> str:
        seed = settings.decode.seed
        if seed == 1:
            raise RuntimeError("a fault")
        if seed == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        if seed == 3 and len(self.jobs) - 1 not in self.left_out:
            assert self.turn is not None
            self.turn(len(self.jobs) - 1)
            os._exit(7)
        if seed == 9:
            os.kill(os.getpid(), signal.SIGINT)
        return f"seed {seed} in {os.getpid()}"


@pytest.fixture
def launch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., SupervisedLaunch[str]]:
    monkeypatch.setenv("HYDRA_FULL_ERROR", "0")
    # The child finds this module by its name.
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(Path(__file__).parent), str(Path(__file__).parents[3])]))
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    from test_supervised import Jobs as Found  # type: ignore[import-not-found, unused-ignore]

    def make(*words: str) -> SupervisedLaunch[str]:
        monkeypatch.setattr(sys, "argv", ["run.py", *words, f"results_dir={tmp_path}"])
        jobs: Any = Found()
        return SupervisedLaunch(jobs)

    return make


def test_jobs_that_raise_or_kill_their_process_leave_the_others_alone(
    launch: Callable[..., SupervisedLaunch[str]], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    run = launch("-m", "method=pld", "decode.seed=0,1,2,3,4")
    assert run() == 1
    assert [result.split(" in ")[0] for result in run.results] == ["seed 0", "seed 3"]
    reasons = [(failure.settings.decode.seed, failure.reason) for failure in run.failures]
    assert [seed for seed, _ in reasons] == [1, 2, 4]
    assert reasons[0][1].startswith("RuntimeError: a fault (traceback in ")
    assert reasons[1][1].startswith("its process was killed (SIGKILL, which is what a machine without free memory does")
    assert reasons[2][1].startswith("its process ended itself with exit code 7")
    logs = sorted(tmp_path.glob("hydra/*/*/*/run.log"))
    assert sum("a fault" in log.read_text(encoding="utf-8") for log in logs) == 1
    for failure in run.failures:
        assert failure.log is not None
        assert failure.reason.split(" (")[0].split(": ")[-1] in Path(failure.log).read_text(encoding="utf-8")
    assert len({failure.log for failure in run.failures}) == 3
    assert all(reason in capfd.readouterr().err for _, reason in reasons[:1])


def test_one_job_needs_no_child(launch: Callable[..., SupervisedLaunch[str]]) -> None:
    run = launch("method=pld")
    assert run() == 0
    assert run.results == [f"seed 0 in {os.getpid()}"]


def test_an_interrupted_sweep_ends_with_130(
    launch: Callable[..., SupervisedLaunch[str]], capfd: pytest.CaptureFixture[str]
) -> None:
    run = launch("-m", "method=pld", "decode.seed=0,9,5")
    assert run() == 130
    assert [result.split(" in ")[0] for result in run.results] == ["seed 0"]
    assert capfd.readouterr().err.count("interrupted") == 1
