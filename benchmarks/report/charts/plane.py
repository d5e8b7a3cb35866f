"""The speed-quality plane: what each run gains in speed, and what it keeps of plain decoding's quality."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from markupsafe import Markup
from sklearn.isotonic import isotonic_regression

from benchmarks.report.charts.chart import WIDTH, Chart, Entry, shortened
from benchmarks.report.figures import Figure
from benchmarks.report.svg import Axis, line, marker, tag, text, tick_text

_LEFT, _RIGHT, _TOP, _BOTTOM = 56.0, WIDTH - 140.0, 14.0, 320.0
_LABEL_STEP = 15.0


@dataclass(frozen=True)
class Point:
    """A run in the plane."""

    entry: Entry
    speed: Figure
    quality: Figure

    @property
    def place(self) -> tuple[float, float]:
        """Speed and quality."""
        assert self.speed.value is not None
        assert self.quality.value is not None
        return self.speed.value, self.quality.value


def plane(points: Sequence[Point], quality_title: str, is_ratio: bool) -> Chart | None:
    """Return the plot; None if no run has both figures.

    Args:
        points: the runs.
        quality_title: what the quality axis shows.
        is_ratio: whether that is a ratio to plain decoding, so that 1 is worth a line.
    """
    points = [point for point in points if point.speed.value is not None and point.quality.value is not None]
    if not points:
        return None
    across = Axis.around([1.0, *_ends([point.speed for point in points])], _LEFT, _RIGHT)
    up = Axis.around([*([1.0] if is_ratio else [0.0, 1.0]), *_ends([point.quality for point in points])], _BOTTOM, _TOP)
    front = pareto_front([point.place for point in points])
    best = [points[place] for place in front]
    reference = [line(across(1), _TOP, across(1), _BOTTOM, "reference")]
    reference += [line(_LEFT, up(1), _RIGHT, up(1), "reference")] if is_ratio else []
    corners = " ".join(f"{across(speed):.1f},{up(quality):.1f}" for speed, quality in (point.place for point in best))
    body = [
        _grid(across, up, quality_title),
        *reference,
        tag("polyline", points=corners, class_="front"),
        *(_cross(point, across, up) for point in points),
        *_labels(points, across, up),
    ]
    names = ", ".join(point.entry.label for point in best)
    return Chart(
        "plane",
        "Speed and quality",
        f"{quality_title[:1].upper()}{quality_title[1:]} against speedup, with 95 % intervals; right and up is better. "
        "The line joins the runs that no other run beats in both.",
        Markup("").join(body),
        _BOTTOM + 46,
        f"Not beaten in both speed and quality: {names}.",
        ("run", "speedup", quality_title, "n", "not beaten"),
        [
            (
                point.entry.label,
                point.speed.full(3),
                point.quality.full(3),
                str(point.quality.n),
                "yes" if place in front else "no",
            )
            for place, point in enumerate(points)
        ],
        (("mark", "lossless"), ("mark lossy", "lossy")),
    )


def pareto_front(places: Sequence[tuple[float, float]]) -> list[int]:
    """Return, by rising speed, the places of (speed, quality) that no other one beats."""
    front, best = [], float("-inf")
    for place in sorted(range(len(places)), key=lambda i: (-places[i][0], -places[i][1])):
        if places[place][1] > best:
            front.append(place)
            best = places[place][1]
    return front[::-1]


def _ends(figures: Sequence[Figure]) -> list[float]:
    return [end for figure in figures for end in (figure.value, figure.low, figure.high) if end is not None]


def _grid(across: Axis, up: Axis, quality_title: str) -> Markup:
    parts = []
    for tick in across.ticks:
        parts.append(line(across(tick), _TOP, across(tick), _BOTTOM, "grid"))
        parts.append(text(across(tick), _BOTTOM + 18, tick_text(tick), "tick", "middle"))
    for tick in up.ticks:
        parts.append(line(_LEFT, up(tick), _RIGHT, up(tick), "grid"))
        parts.append(text(_LEFT - 8, up(tick) + 4, tick_text(tick), "tick", "end"))
    parts.append(text((_LEFT + _RIGHT) / 2, _BOTTOM + 38, "speedup", "tick", "middle"))
    middle = (_TOP + _BOTTOM) / 2
    turned = tag(
        "text", quality_title, x=14, y=middle, class_="tick", text_anchor="middle", transform=f"rotate(-90 14 {middle})"
    )
    return Markup("").join([*parts, turned])


def _cross(point: Point, across: Axis, up: Axis) -> Markup:
    x, y = across(point.place[0]), up(point.place[1])
    parts = []
    if point.speed.low is not None and point.speed.high is not None:
        parts.append(line(across(point.speed.low), y, across(point.speed.high), y, "interval thin"))
    if point.quality.low is not None and point.quality.high is not None:
        parts.append(line(x, up(point.quality.low), x, up(point.quality.high), "interval thin"))
    said = tag("title", f"{point.entry.label}: speedup {point.speed.full()}, quality {point.quality.full()}")
    return tag("g", said, *parts, marker(x, y, point.entry.lossy))


def _labels(points: Sequence[Point], across: Axis, up: Axis) -> list[Markup]:
    """Return the names right of the plot, each as near to its point's height as its neighbours let it."""
    order = sorted(points, key=lambda point: (up(point.place[1]), across(point.place[0])))
    # With a step taken off each, labels that keep their distance are a rising sequence.
    steps = _LABEL_STEP * np.arange(len(order))
    wanted = np.array([up(point.place[1]) for point in order]) - steps
    heights = isotonic_regression(wanted, y_min=_TOP, y_max=max(_TOP, _BOTTOM - steps[-1])) + steps
    drawn = []
    for point, at in zip(order, heights.tolist(), strict=True):
        x, y = across(point.place[0]), up(point.place[1])
        drawn.append(tag("polyline", points=f"{x + 8:.1f},{y:.1f} {_RIGHT + 4:.1f},{at:.1f}", class_="leader"))
        label = tag("tspan", shortened(point.entry.label, 18), class_="name")
        drawn.append(tag("text", tag("title", point.entry.label), label, x=_RIGHT + 8, y=at + 4))
    return drawn
