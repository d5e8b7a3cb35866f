"""Replays in tables and figures: they have tau and quality, and no times."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest

from benchmarks.paper.cells import EMPTY, read
from benchmarks.paper.draw import style
from benchmarks.paper.items import ITEMS, write_texts
from benchmarks.paper.runs import Runs
from benchmarks.paper.study import collect
from benchmarks.paper.table import Table
from tests.unit.benchmarks.paper.study import files_of, write_run

PLD, GSM8K = ("tiny", "PLD"), "GSM8K"


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """PLD measured and, over more prompts, replayed; REST replayed alone."""
    folder: Path = tmp_path_factory.mktemp("mixed")
    write_run(folder, "pld")
    write_run(folder, "pld", prompts=9, replay=True)
    write_run(folder, "rest", store="id", replay=True)
    return folder


def build(name: str, folder: Path) -> Table:
    return ITEMS[name].build(Runs.load([folder]), False)


def test_a_replay_stands_without_speed_where_nothing_was_measured(mixed: Path) -> None:
    table = build("table1", mixed)
    rest = ("tiny", "REST(ID)")
    assert table.cell(rest, (GSM8K, "Speed")) is EMPTY
    assert (table.cell(rest, (GSM8K, "τ")).number or 0) > 1
    missing = dict(table.missing())
    assert f"{GSM8K} Speed" in missing[rest]
    assert f"{GSM8K} τ" not in missing[rest]
    assert "tiny: replays of recorded outputs, and so without times: REST (ID) on GSM8K." in table.notes


def test_a_measured_run_is_never_replaced_by_a_replay_of_more_prompts(mixed: Path) -> None:
    table = build("table1", mixed)
    measured, replayed = (
        next(run for run in Runs.load([mixed]).runs if run.manifest["drafter"] == "pld" and run.replayed == flag)
        for flag in (False, True)
    )
    for figure in ("Speed", "τ"):
        assert table.cell(PLD, (GSM8K, figure)).runs == (measured.hash,)
    reason = "replays have no times and a measured run fits the same cell"
    assert f"Left out, since {reason}: {replayed.hash}." in table.notes


def test_tables_of_times_leave_replays_out_and_say_so(mixed: Path) -> None:
    for name, left in (("figure7", "REST (ID) on GSM8K"), ("pareto", "PLD on GSM8K, REST (ID) on GSM8K")):
        table = build(name, mixed)
        assert [row[2] for row in table.rows] == ["PLD"]
        assert table.notes[-1] == f"Replays, left out since they have no times: tiny, {left}."
    assert [row[2] for row in build("acceptance", mixed).rows] == ["PLD", "REST (ID), replay"]


def test_collected_replays_have_no_times_and_give_the_same_tables(mixed: Path, tmp_path: Path) -> None:
    collect([mixed], tmp_path / "study")
    whole, collected = Runs.load([mixed]), Runs.load([tmp_path / "study"])
    for run in collected.runs:
        times = [line[name] for line in run.prompts for name in ("draft_ms", "verify_ms", "prefill_ms", "decode_ms")]
        times += [line["baseline"]["decode_ms"] for line in run.prompts]
        assert all((time is None) == run.replayed for time in times)
        assert (read(run, "verify") is EMPTY) == run.replayed
    for name in ITEMS:
        write_texts(name, whole, tmp_path / "whole")
        write_texts(name, collected, tmp_path / "collected")
    assert files_of(tmp_path / "whole") == files_of(tmp_path / "collected")


def test_a_grid_of_replays_has_its_taus_and_lists_the_speeds(tmp_path: Path) -> None:
    for theta, k in product((0.01, 0.3), (2, 10)):
        knobs = {"verifier.theta_e": theta, "verifier.w": 5, "verifier.k": k}
        write_run(tmp_path, "sen", "soft_gated", "id", changes=knobs, replay=True)
    table = build("table5", tmp_path)
    row = ("tiny", "0.01", "5")
    cells = {name: table.cell(row, ("k = 2", name)) for name in ("Accuracy", "Speed", "τ")}
    assert [name for name, cell in cells.items() if cell.number is None] == ["Speed"]
    assert dict(table.missing())[row] == ["k = 2 Speed", "k = 3", "k = 4", "k = 10 Speed"]
    for name, panels in (("table5", 3 * 4), ("figure6", 3)):
        draw = ITEMS[name].draw
        assert draw is not None
        with style():
            axes = draw(Runs.load([tmp_path]), build(name, tmp_path)).axes
        assert len(axes) == panels
        empty = ["not measured" in [text.get_text() for text in each.texts] for each in axes]
        named = {each.get_title().split("\n")[1].split(",")[0] for each, flag in zip(axes, empty, strict=True) if flag}
        assert "Speed" in named
        assert not all(empty)


def test_replays_alone_leave_tables_of_times_empty(tmp_path: Path) -> None:
    write_run(tmp_path, "pld", replay=True)
    runs = Runs.load([tmp_path])
    for name in ("figure7", "pareto", "pareto_best"):
        assert write_texts(name, runs, tmp_path / "out").rows == []
        assert (tmp_path / "out" / f"{name}.csv").read_text().startswith("Model,Set,Method,")
    draw = ITEMS["pareto"].draw
    assert draw is not None
    (axes,) = draw(runs, build("pareto", tmp_path)).axes
    assert [text.get_text() for text in axes.texts] == ["no run has times"]
