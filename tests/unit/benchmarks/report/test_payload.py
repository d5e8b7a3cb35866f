"""What the viewer is given of a sample."""

from __future__ import annotations

import pytest

from benchmarks.measure import without_times
from benchmarks.report.charts.plane import pareto_front
from benchmarks.report.payload import payload
from benchmarks.report.svg import Axis, tag
from tests.unit.benchmarks.report.making import WRONG, sample

TEXT = ["So", " it", " is", " 42", ".", ""]


def test_each_token_tells_how_it_was_made() -> None:
    content = payload(sample("a", TEXT, committed=[3, 2], ways=[[0, 1, 0], [0, 2]], drafters=("sen", "pld")))
    assert content["tokens"] == TEXT
    assert content["places"] == [0, 0, 0, 1, 1, None]
    assert content["ways"] == [4, 1, 0, 4, 2, 5]
    assert content["drafters"] == ["pld", "sen"]
    assert content["who"] == [-1, 1, 0, -1, 1, -1]
    assert content["names"][0] == {5: "<end>"}


def test_each_pass_has_its_own_tree() -> None:
    content = payload(sample("a", TEXT, committed=[3, 2], drafters=("sen", "pld")))
    first, second = (entry["tree"] for entry in content["passes"])
    assert first["texts"] == ["So", " it", " is", WRONG]
    assert (first["parents"], first["path"], first["who"]) == ([-1, 0, 1, 0], [0, 1, 2], [0, 1, 2, 1])
    assert second["texts"] == [" 42", ".", WRONG]
    assert (second["parents"], second["path"], second["pending"]) == ([-1, 0, 0], [0, 1], 0)


@pytest.mark.parametrize(
    ("greedy", "place"),
    [(TEXT, None), (["So", " what", "?"], 1), (TEXT[:3], 3), (["No"], 0)],
)
def test_the_first_divergence(greedy: list[str], place: int | None) -> None:
    assert payload(sample("a", TEXT, greedy))["diverges"] == place


def test_without_trees_the_rest_is_there() -> None:
    content = payload(sample("a", TEXT, trees=None))
    assert content["tokens"] == TEXT
    assert [entry["tree"] for entry in content["passes"]] == [None]


def test_a_run_from_before_texts_were_cut_shows_them_whole() -> None:
    line = sample("a", TEXT)
    for key in ("pieces", "token_texts", "trees"):
        del line[key]
    content = payload(line)
    assert (content["text"], content["greedy_text"]) == ("So it is 42.", "So it is 42.")
    assert "tokens" not in content


def test_each_turn_may_end_with_a_token_that_needed_no_pass() -> None:
    turns = [{"tokens": 4, "passes": 1}, {"tokens": 1, "passes": 0}, {"tokens": 2, "passes": 1}]
    line = sample("a", [*TEXT, "!"], committed=[3, 2], turns=turns)
    content = payload(line)
    assert content["places"] == [0, 0, 0, None, None, 1, 1]
    assert content["ways"] == [4, 0, 0, 5, 5, 4, 0]


def test_an_output_without_a_pass() -> None:
    content = payload(sample("a", [""], committed=[]))
    assert (content["passes"], content["facts"]["tau"]) == ([], None)


def test_a_replay_has_no_times() -> None:
    content = payload(without_times(sample("a", TEXT, committed=[3, 2])))
    assert (content["facts"]["speedup"], content["facts"]["tau"]) == (None, 2.5)
    assert [entry["ms"] for entry in content["passes"]] == [[None] * 4] * 2


def test_the_front_joins_what_nothing_beats() -> None:
    assert pareto_front([(1.0, 1.0), (2.0, 0.9), (1.5, 0.8), (3.0, 0.5), (3.0, 0.4)]) == [0, 1, 3]
    assert pareto_front([(1.0, 1.0), (2.0, 1.0)]) == [1]


def test_an_axis_has_its_values_between_round_ends() -> None:
    axis = Axis.around([0.93, 3.4], 100.0, 200.0)
    assert axis.ticks[0] <= 0.93
    assert axis.ticks[-1] >= 3.4
    assert (axis(axis.ticks[0]), axis(axis.ticks[-1])) == (100.0, 200.0)
    assert len(set(Axis.around([1.0, 1.0], 0.0, 1.0).ticks)) > 1


def test_svg_is_escaped() -> None:
    assert str(tag("text", "<&", x=1.25, class_='"')) == '<text x="1.2" class="&#34;">&lt;&amp;</text>'
