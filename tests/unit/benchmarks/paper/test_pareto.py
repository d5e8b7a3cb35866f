"""The speed-quality plane and the acceptance table, on runs whose place is known."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.paper.acceptance import acceptance
from benchmarks.paper.cells import EMPTY, Cell
from benchmarks.paper.items import ITEMS
from benchmarks.paper.pareto import Point, chosen, lossless_enough, pareto, points
from benchmarks.paper.runs import Run, Runs
from tests.unit.benchmarks.paper.study import write_run


@pytest.fixture(scope="module")
def lossy(tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("lossy")
    write_run(folder, "sen", "soft_gated", "id")
    return Runs.load([folder]).runs[0]


def point(run: Run, speed: float, quality: float | None, low: float = 0.5) -> Point:
    return Point(run, Cell(speed), EMPTY if quality is None else Cell(quality, low, 1.2))


def test_a_verdict_is_by_the_whole_interval_or_by_the_value_alone(lossy: Run) -> None:
    verdicts = [point(lossy, 2, *at).verdict for at in ((1.0, 0.99), (1.0, 0.9), (0.97, 0.9), (None, 0.0))]
    assert verdicts == ["yes", "by value", "no", "-"]


def test_the_edge_itself_is_a_loss_of_two_percent(lossy: Run) -> None:
    assert not point(lossy, 2, 0.98).keeps
    assert point(lossy, 2, 0.981).keeps


def test_the_fastest_setting_that_keeps_the_quality_is_chosen_else_the_best(lossy: Run) -> None:
    fast, kept, slow = point(lossy, 4, 0.8), point(lossy, 3, 0.99), point(lossy, 2, 1.0)
    assert chosen([fast, kept, slow]) is kept
    assert chosen([fast, point(lossy, 3, 0.9)]).quality.value == 0.9
    assert chosen([point(lossy, 3, None)]).quality is EMPTY


def test_the_front_holds_what_no_other_run_beats(runs: Runs) -> None:
    plane = [p for p in points(runs, "Qwen2.5-7B", "gsm8k") if p.place is not None]
    for one in plane:
        beaten = any(
            other.place != one.place and other.place[0] >= one.place[0] and other.place[1] >= one.place[1]
            for other in plane
            if other.place and one.place
        )
        assert one.front != beaten
    assert plane[0].front


def test_a_setting_measured_twice_is_one_point(tmp_path: Path) -> None:
    write_run(tmp_path, "pld", prompts=3)
    write_run(tmp_path, "pld", prompts=6, changes={"decode.max_new_tokens": 64})
    (one,) = points(Runs.load([tmp_path]), "tiny", "gsm8k")
    assert one.run.summary["n"] == 6


def test_looping_text_is_named(lossy: Run) -> None:
    looping = replace(lossy, summary={**lossy.summary, "distinct_n": {"method": 0.3, "baseline": 0.6}})
    assert any("SENSE (ID) (default)" in note for note in pareto(Runs([looping])).notes)
    assert not any("repeats itself" in note for note in pareto(Runs([lossy])).notes)


def test_each_method_has_one_row_in_words(runs: Runs) -> None:
    table = lossless_enough(runs)
    rows = [row[2] for row in table.rows if row[1] == "GSM8K"]
    assert len(rows) == len(set(rows))
    assert {"SENSE (ID)", "SENSE w/o SEN (OOD)", "SEN + FLy (ID)", "PLD", "plain decoding"} <= set(rows)
    assert len(pareto(runs).rows) == len(runs.runs)


def test_acceptance_by_depth_and_pathway_are_the_summarys(lossy: Run) -> None:
    table = acceptance(Runs([lossy]))
    row = table.rows[0]
    for entry in lossy.summary["acceptance_by_depth"]:
        if 2 <= entry["depth"] <= 8:
            cell = table.cell(row, ("accepted at depth", str(int(entry["depth"]))))
            assert cell.value == pytest.approx(entry["share"])
    ways = lossy.summary["pathways"]
    share = table.cell(row, ("committed by", "top-k"))
    assert share.value == pytest.approx(ways["top_k"] / sum(ways.values()))
    assert share.low is not None


def test_a_study_whose_plain_decoding_scores_nothing_is_drawn_all_the_same(lossy: Run) -> None:
    quality = {**lossy.summary["quality"], "ratio": None, "ratio_interval": [None, None]}
    runs = Runs([replace(lossy, summary={**lossy.summary, "quality": quality})])
    draw = ITEMS["pareto"].draw
    assert draw is not None
    figure = draw(runs, pareto(runs))
    assert [text.get_text() for text in figure.axes[0].texts] == [
        "no quality ratio: plain decoding scores nothing here"
    ]
