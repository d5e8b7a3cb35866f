"""The paper's own numbers as they are typed, and what stands beside our cells."""

from __future__ import annotations

import re

import pytest

from benchmarks.paper.items import ITEMS
from benchmarks.paper.published import published_cells, published_models
from benchmarks.paper.runs import MODELS, Runs

COUNTS = {
    "table1": 50, "table2": 30, "table3": 40, "table4": 50, "table5": 60, "table6": 20, "table7": 24, "table8": 30,
    "table9": 42, "figure6": 2, "table10": 0,
}  # fmt: skip


@pytest.mark.parametrize(("name", "count"), COUNTS.items())
def test_every_published_cell_is_there(name: str, count: int) -> None:
    assert len(published_cells(name)) == count


@pytest.mark.parametrize("name", ["table1", "table4"])
def test_the_papers_means_are_those_of_its_sets_to_a_hundredth(name: str) -> None:
    cells = published_cells(name)
    for row in {row for row, _ in cells}:
        for figure in ("Speed", "τ"):
            sets = [cells[row, (group, figure)] for group in ("GSM8K", "CodeAlpaca", "UltraChat", "TriviaQA")]
            assert cells[row, ("Mean", figure)] == pytest.approx(sum(sets) / 4, abs=0.0101)


def test_the_means_of_table_8_are_those_of_its_sets() -> None:
    cells = published_cells("table8")
    for (model,) in {row for row, _ in cells}:
        sets = [cells[(model,), (name,)] for name in ("GSM8K", "CodeAlpaca", "TriviaQA", "UltraChat")]
        assert cells[(model,), ("Mean",)] == pytest.approx(sum(sets) / 4, abs=0.01)


def test_table_9s_average_is_half_way_from_baseline_to_peak() -> None:
    cells = published_cells("table9")
    for (model,) in {row for row, _ in cells}:
        baseline, peak, middle = (cells[(model,), (name,)] for name in ("Baseline", "Peak", "Avg"))
        assert middle == pytest.approx((baseline + peak) / 2, abs=0.01)


@pytest.mark.parametrize("name", [name for name, count in COUNTS.items() if count])
def test_published_labels_are_those_of_our_tables(name: str, runs: Runs) -> None:
    """A typed label that matches no row or column of ours would stand alone for ever."""
    table = ITEMS[name].build(runs, False)
    cells = published_cells(name)
    assert {column for _, column in cells} <= set(table.columns)
    if table.heads[0] == "Model":
        assert set(published_models(name)) <= set(MODELS.values())
        assert {row[1:] for row, _ in cells} <= {row[1:] for row in table.rows}
    else:
        assert {row for row, _ in cells} <= set(table.rows)


def test_our_cells_keep_their_value_beside_the_papers(runs: Runs) -> None:
    ours, both = (ITEMS["table4"].build(runs, published) for published in (False, True))
    place = (("Qwen2.5-7B", "ARC"), ("GSM8K", "Speed"))
    assert both.cell(*place) == ours.cell(*place)
    assert (ours.published_value(*place), both.published_value(*place)) == (None, 2.51)
    assert [row for row in both.rows if row not in ours.rows] == [("Qwen2.5-14B", "ARC"), ("Qwen2.5-14B", "FLy")]
    assert any(re.search("probably a slip", note) for note in both.notes)
