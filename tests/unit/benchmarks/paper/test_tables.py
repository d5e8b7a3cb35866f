"""What stands in which cell."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from benchmarks.paper.cells import EMPTY, Cell
from benchmarks.paper.grid import WINDOWS, figure_6, table_5
from benchmarks.paper.items import ITEMS
from benchmarks.paper.render import csv
from benchmarks.paper.runs import Runs
from benchmarks.paper.table import Labels, Table
from benchmarks.summary import summarise
from corpora.templates import TEMPLATES
from tests.unit.benchmarks.paper.study import SIZES, write_run

MODEL = "Qwen2.5-7B"
EVERYTHING = ("table1", "table3", "table4", "table6", "table7", "table8", "table9", "figure5", "figure8")


def build(name: str, runs: Runs) -> Table:
    return ITEMS[name].build(runs, False)


def summary_of(runs: Runs, cell: Cell) -> dict[str, float]:
    (run,) = [run for run in runs.runs if run.hash in cell.runs]
    return {"tau": run.summary["tau"]["value"], "speedup": run.summary["speedup"]["value"]}


@pytest.mark.parametrize("name", EVERYTHING)
def test_a_whole_study_leaves_no_cell_empty_but_those_of_methods_not_run(name: str, runs: Runs) -> None:
    missing = {row for row, _ in build(name, runs).missing()}
    assert missing == ({(MODEL, "SpS")} if name == "table1" else set())


def test_table_1_has_both_kinds_of_stores(runs: Runs) -> None:
    table = build("table1", runs)
    assert [row[1] for row in table.rows] == [
        "SpS", "PLD", "REST(OOD)", "REST(ID)", "DReSD(OOD)", "DReSD(ID)", "SENSE(OOD)", "SENSE(ID)",
    ]  # fmt: skip
    cell = table.cell((MODEL, "SENSE(OOD)"), ("GSM8K", "τ"))
    (run,) = [run for run in runs.runs if run.hash in cell.runs]
    assert (run.dataset, run.store, run.manifest["verifier"], run.variant) == ("gsm8k", "ood", "soft_gated", {})
    assert cell.value == summary_of(runs, cell)["tau"]


def test_means_are_of_the_four_sets(runs: Runs) -> None:
    table = build("table1", runs)
    row: Labels = (MODEL, "PLD")
    sets = [table.cell(row, (name, "Speed")).number for name in ("GSM8K", "CodeAlpaca", "UltraChat", "TriviaQA")]
    assert table.cell(row, ("Mean", "Speed")).value == pytest.approx(np.mean([value for value in sets if value]))


def test_a_missing_set_leaves_the_mean_empty(tmp_path: Path) -> None:
    for name in ("gsm8k", "codealpaca", "ultrachat"):
        write_run(tmp_path, "pld", dataset=name, model="qwen3-8b")
    table = build("table1", Runs.load([tmp_path]))
    assert table.cell(("Qwen3-8B", "PLD"), ("Mean", "Speed")) is EMPTY
    assert (("Qwen3-8B", "PLD"), ["TriviaQA", "Mean"]) in list(table.missing())


def test_no_speed_of_a_lossy_method_stands_without_its_quality(tmp_path: Path) -> None:
    write_run(tmp_path, "sen", "soft_gated", "id", model="qwen2.5-7b")
    write_run(tmp_path, "sen", "exact", "id", model="qwen2.5-7b")
    runs = Runs.load([tmp_path])
    (run,) = (run for run in runs.runs if run.lossy)
    quality, distinct = run.summary["quality"], run.summary["distinct_n"]
    scored = f"{quality['metric']} {quality['method']:.2f} / {quality['baseline']:.2f}"
    varied = f", distinct-4 {distinct['method']:.2f} / {distinct['baseline']:.2f}" if distinct["method"] else ""
    (note,) = (note for note in build("table3", runs).notes if "lossy" in note)
    assert note == (
        f"{MODEL}: lossy methods, the method's outputs / plain decoding's: SENSE (ID) on GSM8K {scored}{varied}."
    )
    assert not [note for note in build("figure5", runs).notes if "lossy" in note]


def test_table_3_tells_the_ablations_apart(runs: Runs) -> None:
    table = build("table3", runs)
    cells = [table.cell((MODEL, "ID", name), ("GSM8K", "Speed")) for name in ("SENSE", "w/o SEN", "w/o SE")]
    by_hash = {run.hash: run for run in runs.runs}
    made_of = [(by_hash[cell.runs[0]].manifest["verifier"], by_hash[cell.runs[0]].variant) for cell in cells]
    assert made_of == [("soft_gated", {}), ("soft_gated", {"drafter.require_hit": True}), ("exact", {})]


def test_table_5_puts_each_setting_in_its_cell(runs: Runs) -> None:
    table = table_5(runs)
    assert len(table.rows) * len(table.columns) == 80 * 3
    full = {
        (row, column)
        for row in table.rows
        for column in table.columns
        if table.cell(row, column).value is not None and column[1] == "τ"
    }
    corners = {((MODEL, t, w), (f"k = {k}", "τ")) for t in ("0.01", "0.30") for w in "59" for k in (2, 10)}
    assert full == corners | {((MODEL, "0.05", "6"), ("k = 3", "τ"))}


def test_figure_6_averages_over_the_windows_that_were_measured(runs: Runs) -> None:
    grid, figure = table_5(runs), figure_6(runs)
    for name in ("Accuracy", "Speed", "τ"):
        cells = [grid.cell((MODEL, "0.01", str(w)), ("k = 10", name)) for w in WINDOWS]
        there = [cell for cell in cells if cell.number is not None]
        mean = figure.cell((MODEL, "0.01", "10"), (name,))
        assert len(there) == 2
        assert mean.value == pytest.approx(np.mean([cell.number or 0.0 for cell in there]))
        assert mean.low == pytest.approx(np.mean([cell.low or 0.0 for cell in there]))


def test_table_6_takes_plain_decoding_from_the_prompts_of_sense(runs: Runs) -> None:
    table = build("table6", runs)
    plain = table.cell((MODEL, "Vanilla"), ("GSM8K", "accuracy"))
    sense = table.cell((MODEL, "SENSE-OOD"), ("GSM8K", "accuracy"))
    assert plain.runs == sense.runs
    (run,) = [run for run in runs.runs if run.hash in sense.runs]
    assert (plain.value, sense.value) == (run.summary["quality"]["baseline"], run.summary["quality"]["method"])


def test_table_6_counts_the_outputs_that_the_budget_cut(tmp_path: Path) -> None:
    folder = write_run(tmp_path, "sen", "soft_gated", "id", model="qwen2.5-7b")
    samples = folder.samples()
    for sample in samples[:4]:
        sample["finish"] = "eos"
    folder.finish(summarise(folder.manifest() or {}, samples))
    table = build("table6", Runs.load([tmp_path]))
    counts = {row[1]: table.cell(row, ("GSM8K", "accuracy")).cut for row in table.rows}
    assert counts == {"Vanilla": 6, "SENSE-OOD": None, "SENSE-ID": 2}
    (note,) = (note for note in table.notes if "budget" in note)
    assert note.endswith(f": {MODEL}, Vanilla, GSM8K: 6; {MODEL}, SENSE-ID, GSM8K: 2.")
    lines = csv(table).splitlines()
    assert lines[0] == "Model,Method,group,figure,value,low,high,n,cut,runs"
    assert [line.split(",")[8] for line in lines if ",GSM8K," in line] == ["6", "", "2"]


def test_resources_are_what_the_offline_stage_measured(runs: Runs) -> None:
    nine = build("table9", runs)
    peak = SIZES["rss_baseline"] + SIZES["rss_delta"]
    assert [nine.cell((MODEL,), (name,)).value for name in ("Peak", "RSS mean", "Delta max", "Avg")] == [
        peak, peak, SIZES["rss_delta"], SIZES["rss_baseline"] + SIZES["rss_delta"] / 2,
    ]  # fmt: skip
    seven = build("table7", runs)
    assert seven.cell(("Peak RSS",), ("Max",)) == Cell(peak, n=4, runs=seven.cell(("Peak RSS",), ("Max",)).runs)
    assert seven.cell(("Total RAM",), ("Std",)).value == 0


def test_tables_10_and_11_say_what_the_runs_were_made_of(runs: Runs) -> None:
    ten = build("table10", runs)
    assert ten.cell(("GSM8K",), ("Prompt",)).value == TEMPLATES["problem"]
    eleven = build("table11", runs)
    stores = eleven.cell(("REST", "GSM8K"), ("Store source",)).value
    assert stores == "reference answers to 12 prompts of .../gsm8k; the model's own answers to 12 prompts of .../gsm8k"


def test_without_runs_of_a_table_its_layout_stands_empty(tmp_path: Path) -> None:
    write_run(tmp_path, "suffix", model="qwen3-8b")
    table = build("table2", Runs.load([tmp_path]))
    assert table.rows == [("Qwen3-8B", name) for name in ("EAGLE-2", "EAGLE-3", "SENSE(ID)")]
    assert list(table.missing()) == [(("Qwen3-8B",), ["all"])]
