from __future__ import annotations

from typing import Any

from benchmarks.paper.cells import EMPTY, Cell
from benchmarks.paper.draw import grouped_bars, panels


def test_groups_without_a_bar_keep_their_place() -> None:
    _, ((axes,),) = panels(1, 1, (4, 3))
    grouped_bars(axes, ["GSM8K", "TriviaQA", "Mean"], [("a", [Cell(2.0), EMPTY, EMPTY])])
    left, right = axes.get_xlim()
    bars: list[Any] = list(axes.patches)
    assert left < min(bar.get_x() for bar in bars if bar.get_height() > 0)
    assert right > 2
