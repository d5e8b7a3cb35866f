"""Parts of a whole for several runs: a divided bar in a row each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from benchmarks.report.charts.chart import LABEL_END, WIDTH, Chart, Entry, row_label
from benchmarks.report.svg import Axis, line, tag, text, tick_text

_ROW, _BAR, _TOP = 40.0, 22.0, 8.0
_BAR_END = WIDTH - 96.0
_LETTER = 7.2


@dataclass(frozen=True)
class Part:
    """A kind of part: its class in the style sheet and its name."""

    class_: str
    name: str


@dataclass(frozen=True)
class Bar:
    """A run's parts in the order of the kinds, what stands in each where there is room, and what stands behind all."""

    entry: Entry
    values: Sequence[float]
    texts: Sequence[str]
    total: str


def stacked(name: str, title: str, note: str, parts: Sequence[Part], bars: Sequence[Bar]) -> Chart | None:
    """Return the plot; None if there is no bar, or nothing in any of them."""
    bars = [bar for bar in bars if sum(bar.values)]
    if not bars:
        return None
    used = [place for place, _ in enumerate(parts) if any(bar.values[place] for bar in bars)]
    axis = Axis.around([0.0, max(sum(bar.values) for bar in bars)], LABEL_END, _BAR_END)
    bottom = _TOP + _ROW * len(bars)
    rows = [_bar(bar, parts, axis, _TOP + _ROW * row) for row, bar in enumerate(bars)]
    said = "; ".join(
        f"{bar.entry.label}: " + ", ".join(f"{parts[place].name} {bar.texts[place]}" for place in used) for bar in bars
    )
    return Chart(
        name,
        title,
        note,
        Markup("").join([*rows, line(LABEL_END, _TOP, LABEL_END, bottom, "axis"), _ticks(axis, bottom)]),
        bottom + 30,
        f"{said}.",
        ("run", *(parts[place].name for place in used), "whole", "quality"),
        [(bar.entry.label, *(bar.texts[place] for place in used), bar.total, bar.entry.quality) for bar in bars],
        [(f"part {parts[place].class_}", parts[place].name) for place in used],
    )


def _bar(bar: Bar, parts: Sequence[Part], axis: Axis, top: float) -> Markup:
    drawn, start, y = [row_label(bar.entry, top + _ROW / 2)], 0.0, top + (_ROW - _BAR) / 2
    for part, value, words in zip(parts, bar.values, bar.texts, strict=True):
        if not value:
            continue
        left, right = axis(start), axis(start + value)
        said = tag("title", f"{part.name}: {words}")
        drawn.append(tag("rect", said, x=left, y=y, width=right - left, height=_BAR, class_=f"part {part.class_}"))
        if right - left > _LETTER * (len(words) + 1.5):
            drawn.append(_plate((left + right) / 2, top + _ROW / 2, words))
        start += value
    drawn.append(text(axis(start) + 10, top + _ROW / 2 + 4, bar.total, "small"))
    return tag("g", *drawn)


def _plate(x: float, y: float, words: str) -> Markup:
    """Return words on a ground of their own, to be read over any pattern."""
    width = _LETTER * len(words) + 8
    ground = tag("rect", x=x - width / 2, y=y - 8, width=width, height=16, rx=3, class_="plate")
    return Markup("").join([ground, text(x, y + 4, words, "inside", "middle")])


def _ticks(axis: Axis, bottom: float) -> Markup:
    return Markup("").join(text(axis(tick), bottom + 18, tick_text(tick), "tick", "middle") for tick in axis.ticks)
