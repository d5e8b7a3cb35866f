"""Acceptance by depth: one row a run, one cell a depth."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from benchmarks.report.charts.chart import LABEL_END, WIDTH, Chart, Entry, row_label
from benchmarks.report.loading import Run
from benchmarks.report.svg import tag, text

_ROW, _TOP = 40.0, 24.0
_DEEPEST = 12
_FIRST = 2


def depths(entries: Sequence[Entry], runs: Sequence[Run]) -> Chart | None:
    """Return the plot; None if nothing was drafted below the pending token."""
    found = [{cell["depth"]: cell for cell in run.summary.get("acceptance_by_depth") or []} for run in runs]
    deepest = min(max((depth for cells in found for depth in cells), default=0), _DEEPEST)
    shown = range(_FIRST, deepest + 1)
    rows = [(entry, cells) for entry, cells in zip(entries, found, strict=True) if _FIRST in cells]
    if not rows:
        return None
    width = min((WIDTH - LABEL_END - 10) / len(shown), 64.0)
    columns = [
        text(LABEL_END + width * (place + 0.5), _TOP - 8, str(depth), "tick", "middle")
        for place, depth in enumerate(shown)
    ]
    drawn = [tag("g", *_cells(entry, cells, shown, width, row)) for row, (entry, cells) in enumerate(rows)]
    said = "; ".join(
        f"{entry.label}: " + ", ".join(f"depth {d} {cells[d]['share']:.0%}" for d in shown if d in cells)
        for entry, cells in rows
    )
    return Chart(
        "depths",
        "Acceptance by depth",
        "Of the passes whose verified tree was at least this deep, the share that committed this many tokens. "
        "Depth 1 is the pending token, which is always committed.",
        Markup("").join([text(LABEL_END - 14, _TOP - 8, "depth", "tick", "end"), *columns, *drawn]),
        _TOP + _ROW * len(rows) + 6,
        f"{said}.",
        ("run", *(f"depth {depth}" for depth in shown), "quality"),
        [(entry.label, *(_number(cells.get(depth)) for depth in shown), entry.quality) for entry, cells in rows],
    )


def _cells(entry: Entry, cells: dict[int, dict[str, float]], shown: range, width: float, row: int) -> list[Markup]:
    y = _TOP + _ROW * row
    drawn = [row_label(entry, y + _ROW / 2)]
    for place, depth in enumerate(shown):
        if depth in cells:
            x, share = LABEL_END + width * place, cells[depth]["share"]
            drawn.append(
                tag(
                    "rect",
                    tag("title", f"{entry.label}, depth {depth}: {_number(cells[depth])}"),
                    x=x + 1,
                    y=y + 3,
                    width=width - 2,
                    height=_ROW - 6,
                    rx=3,
                    class_="heat",
                    style=f"--share:{share:.3f}",
                )
            )
            drawn.append(text(x + width / 2, y + _ROW / 2 + 4, f"{share:.0%}", "inside", "middle"))
    return drawn


def _number(cell: dict[str, float] | None) -> str:
    return "\N{EN DASH}" if cell is None else f"{cell['share']:.1%} of {cell['passes']} passes"
