"""One study for all tests of the paper's tables."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.paper.runs import Runs
from tests.unit.benchmarks.paper.study import write_study


@pytest.fixture(scope="session")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Whole run folders of one model, as run.py writes them."""
    folder: Path = tmp_path_factory.mktemp("results")
    write_study(folder, "qwen2.5-7b")
    return folder


@pytest.fixture(scope="session")
def runs(results: Path) -> Runs:
    return Runs.load([results])
