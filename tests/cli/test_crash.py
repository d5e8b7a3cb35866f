"""A small version of benchmarks/micro/crash.py."""

from __future__ import annotations

import random
from pathlib import Path

from benchmarks.micro.crash import figures, killed, uninterrupted
from benchmarks.micro.tiny_model import save_tiny_model


def test_three_kills_neither_lose_nor_double_a_prompt(tmp_path: Path) -> None:
    save_tiny_model(tmp_path / "tiny")
    whole, taken = uninterrupted(tmp_path, "pld,suffix")
    assert [len(samples) for samples in whole.values()] == [6, 6]
    assert killed(tmp_path, 3, taken, random.Random(0), "pld,suffix") == 3
    assert figures(tmp_path / "killed") == whole
