"""Figures of passes against values worked out by hand; test_summary.py has those that summary.json shares."""

from collections.abc import Callable
from typing import Any

import pytest

from benchmarks.passes import Passes
from connectors.trace import Generation


def test_the_middle_pass_decides_what_a_draft_costs(make_generation: Callable[..., Generation]) -> None:
    passes = make_generation([1], [3, 2, 1]).trace.passes
    for record, ms in zip(passes, (2.0, 90.0, 3.0), strict=True):
        record.draft_ms = ms
    assert Passes.of_records(passes).median_draft_ms == 3.0
    assert Passes.of_records(passes).ms_per_pass["draft"] == pytest.approx(95 / 3)


def test_records_and_lines_of_a_file_give_the_same_figures(make_generation: Callable[..., Generation]) -> None:
    first, second = make_generation([1], [3, 2]), make_generation([1], [1])
    lines: list[dict[str, Any]] = [
        {name: [getattr(record, name) for record in done.trace.passes] for name in first.trace.passes[0].__slots__}
        for done in (first, second)
    ]
    ours, theirs = Passes.of_records([*first.trace.passes, *second.trace.passes]), Passes.of_samples(lines)
    for name in ("nodes_per_pass", "compression", "acceptance_by_depth", "drafted_by", "pathways", "overhead"):
        assert getattr(ours, name) == getattr(theirs, name)
    assert ours.drafted_by == {"pld": 3}


def test_two_drafters_of_one_name_count_once(make_generation: Callable[..., Generation]) -> None:
    passes = make_generation([1], [2], drafted_by=["", "pld+pld"]).trace.passes
    assert Passes.of_records(passes).drafted_by == {"pld": 1}


def test_without_a_pass_there_is_no_figure() -> None:
    none = Passes.of_records([])
    assert (none.nodes_per_pass, none.median_draft_ms, none.overhead, none.empty_drafts) == (None, None, None, None)
    assert (none.acceptance_by_depth, none.drafted_by) == ([], {})
