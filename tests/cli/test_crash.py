"""A sweep that is killed again and again; `python -m benchmarks.micro.crash` kills a larger one twenty times."""

from __future__ import annotations

import random
from pathlib import Path

from benchmarks.micro.crash import figures, killed, uninterrupted
from benchmarks.micro.tiny_model import save_tiny_model

METHODS = "pld,suffix"


def test_a_sweep_that_is_killed_ends_as_if_it_had_been_let_alone(tmp_path: Path) -> None:
    save_tiny_model(tmp_path / "tiny")
    whole, taken = uninterrupted(tmp_path, METHODS)
    assert killed(tmp_path, 2, taken, random.Random(0), METHODS) == 2
    assert figures(tmp_path / "killed") == whole
    assert [len(samples) for samples in whole.values()] == [6, 6]  # five prompts and the summary
