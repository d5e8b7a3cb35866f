from __future__ import annotations

from math import sqrt
from pathlib import Path

import pytest

from benchmarks.paper.cells import EMPTY, Cell, mean_of_sets, mean_of_settings, read
from benchmarks.paper.runs import Pick, Runs
from tests.unit.benchmarks.paper.study import write_run

A = Cell(2.0, 1.0, 4.0, 10, ("a",))
B = Cell(4.0, 3.0, 6.0, 20, ("b",))


def test_the_mean_over_sets_adds_errors_in_quadrature() -> None:
    mean = mean_of_sets([A, B])
    assert (mean.value, mean.n, mean.runs) == (3.0, 30, ("a", "b"))
    assert mean.low == pytest.approx(3 - sqrt(2) / 2)
    assert mean.high == pytest.approx(3 + sqrt(8) / 2)


def test_the_mean_over_sets_needs_all_of_them() -> None:
    assert mean_of_sets([A, B, EMPTY]) is EMPTY
    assert mean_of_sets([]) is EMPTY


def test_the_mean_over_settings_takes_what_is_there_and_the_mean_of_the_ends() -> None:
    mean = mean_of_settings([A, EMPTY, B])
    assert (mean.value, mean.low, mean.high, mean.n) == (3.0, 2.0, 5.0, 20)
    assert mean_of_settings([EMPTY]) is EMPTY


def test_without_an_interval_a_mean_has_none() -> None:
    for mean in (mean_of_sets, mean_of_settings):
        cell = mean([A, Cell(4.0, n=1)])
        assert (cell.value, cell.low, cell.high) == (3.0, None, None)


def test_cells_are_the_figures_of_the_summary(tmp_path: Path) -> None:
    summary = write_run(tmp_path, "sen", "soft_gated", "id").summary()
    run = Runs.load([tmp_path]).pick("tiny", "gsm8k", Pick((), "sen", "soft_gated", "id"))
    assert run is not None
    assert summary is not None
    for name in ("speedup", "tau"):
        cell = read(run, name)
        assert (cell.value, cell.low, cell.high) == tuple(summary[name].values())
        assert (cell.n, cell.runs) == (6, (run.hash,))
    assert read(run, "quality").value == summary["quality"]["method"]
    assert read(run, "quality_ratio").value == summary["quality"]["ratio"]
    assert read(run, "saved").value == pytest.approx(summary["compression"])
    distinct = summary["distinct_n"]
    assert read(run, "distinct_ratio").value == pytest.approx(distinct["method"] / distinct["baseline"])
    assert read(run, "verify").value == pytest.approx(summary["ms_per_pass"]["verify"], abs=1e-3)
    assert read(None, "tau") is EMPTY


def test_the_ratio_of_different_four_grams_has_an_interval_over_the_prompts_that_have_any(tmp_path: Path) -> None:
    write_run(tmp_path, "pld")
    (run,) = Runs.load([tmp_path]).runs
    for line, share in zip(run.lines, (0.5, None, 1.0, 0.8, 0.9, 1.0), strict=True):
        line["distinct_4"], line["baseline"]["distinct_4"] = share, 1.0
    cell = read(run, "distinct_ratio")
    assert cell.value == pytest.approx(4.2 / 5)
    assert cell.n == 5
    assert 0.5 < (cell.low or 0) < 4.2 / 5 < (cell.high or 0) <= 1
