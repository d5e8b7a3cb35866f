"""One figure of several runs: a mark and an interval in a row each."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from benchmarks.report.charts.chart import LABEL_END, PLOT_END, WIDTH, Chart, Entry, row_label
from benchmarks.report.figures import Figure
from benchmarks.report.svg import Axis, line, marker, tag, text, tick_text

_ROW = 40.0
_TOP = 12.0


def forest(name: str, title: str, note: str, entries: Sequence[Entry], figures: Sequence[Figure]) -> Chart | None:
    """Return the plot of a ratio with a line at 1; None if no run has the figure."""
    known = [(entry, figure) for entry, figure in zip(entries, figures, strict=True) if figure.value is not None]
    if not known:
        return None
    ends = [end for _, figure in known for end in (figure.value, figure.low, figure.high) if end is not None]
    axis = Axis.around([1.0, *ends], LABEL_END, PLOT_END)
    bottom = _TOP + _ROW * len(known)
    marks = [_mark(entry, figure, axis, _TOP + _ROW * (row + 0.5)) for row, (entry, figure) in enumerate(known)]
    body = Markup("").join([_grid(axis, bottom), *marks])
    ranking = sorted(known, key=lambda pair: -(pair[1].value or 0.0))
    said = "; ".join(f"{entry.label} {figure.full()}{_quality(entry)}" for entry, figure in ranking)
    return Chart(
        name,
        title,
        note,
        body,
        bottom + 30,
        f"From the highest to the lowest: {said}.",
        ("run", title, "95 % interval", "n", "quality"),
        [(entry.label, figure.text(3), figure.interval(3), str(figure.n), entry.quality) for entry, figure in known],
        (("mark", "lossless"), ("mark lossy", "lossy")),
    )


def _grid(axis: Axis, bottom: float) -> Markup:
    parts = []
    for tick in axis.ticks:
        parts.append(line(axis(tick), _TOP, axis(tick), bottom, "grid"))
        parts.append(text(axis(tick), bottom + 18, tick_text(tick), "tick", "middle"))
    return Markup("").join([*parts, line(axis(1), _TOP, axis(1), bottom, "reference")])


def _mark(entry: Entry, figure: Figure, axis: Axis, y: float) -> Markup:
    assert figure.value is not None
    parts = [row_label(entry, y)]
    if figure.low is not None and figure.high is not None:
        parts.append(line(axis(figure.low), y, axis(figure.high), y, "interval"))
        parts += [line(axis(end), y - 4, axis(end), y + 4, "interval") for end in (figure.low, figure.high)]
    parts.append(marker(axis(figure.value), y, entry.lossy))
    value = tag("tspan", figure.text(), class_="value")
    rest = tag("tspan", f" {figure.interval()} n={figure.n}".replace("  ", " "), class_="small")
    parts.append(tag("text", value, rest, x=WIDTH - 168, y=y + 4))
    return tag("g", *parts)


def _quality(entry: Entry) -> str:
    return f" (lossy, {entry.quality})" if entry.lossy else ""
