"""What every plot has: a picture, its text alternative, and its numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from markupsafe import Markup

from benchmarks.report.svg import tag

WIDTH = 620
LABEL_END = 172.0
PLOT_END = 440.0


@dataclass(frozen=True)
class Entry:
    """A run in a plot.

    Attributes:
        label: its name.
        lossy: whether the output may differ from the target's own.
        quality: its quality and the interval in words; never empty for a lossy run.
        quality_short: the same without the interval.
    """

    label: str
    lossy: bool
    quality: str
    quality_short: str


@dataclass(frozen=True)
class Chart:
    """A plot.

    Attributes:
        name: distinguishes it from the other plots of its group; letters and hyphens.
        title: what it shows.
        note: how to read it.
        body: SVG elements.
        height: in pixels; all plots are `WIDTH` wide.
        alternative: what is to be seen, in words.
        columns: headings of the table of its numbers.
        rows: that table.
        key: class and meaning of each kind of mark.
    """

    name: str
    title: str
    note: str
    body: Markup
    height: float
    alternative: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    key: Sequence[tuple[str, str]] = field(default=())


def shortened(label: str, length: int = 22) -> str:
    """Return a label that fits beside a plot; the whole one is in the table of numbers."""
    return label if len(label) <= length else f"{label[: length - 1]}…"


def row_label(entry: Entry, y: float) -> Markup:
    """Return the name of a run left of its row, and below it the quality of a lossy one."""
    name = tag("title", entry.label)
    words = tag("tspan", shortened(entry.label), class_="name")
    if not entry.lossy:
        return tag("text", name, words, x=LABEL_END - 14, y=y + 4, text_anchor="end")
    below = tag("tspan", f"lossy, {entry.quality_short}", x=LABEL_END - 14, dy="1.25em", class_="small")
    return tag("text", name, words, below, x=LABEL_END - 14, y=y - 3, text_anchor="end")
