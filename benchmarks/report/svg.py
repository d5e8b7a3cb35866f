"""SVG by hand: elements whose text is escaped, and linear axes."""

from __future__ import annotations

from dataclasses import dataclass

from markupsafe import Markup, escape
from matplotlib.ticker import MaxNLocator

_TICKS = 5


def tag(name: str, *children: str, **attributes: object) -> Markup:
    """Return an element; `class_` stands for class and `stroke_width` for stroke-width. None leaves an attribute out.

    Children that are no Markup are escaped, and so are the attributes.
    """
    words = [
        Markup('{}="{}"').format(key.rstrip("_").replace("_", "-"), _shown(value))
        for key, value in attributes.items()
        if value is not None
    ]
    start = Markup(" ").join([Markup(name), *words])
    return Markup("<{}>{}</{}>").format(start, Markup("").join(map(escape, children)), Markup(name))


def text(x: float, y: float, words: str, class_: str = "", anchor: str = "start") -> Markup:
    """Return words that begin, have their middle or end at a point: "start", "middle" or "end"."""
    return tag("text", words, x=x, y=y, class_=class_ or None, text_anchor=None if anchor == "start" else anchor)


def line(x1: float, y1: float, x2: float, y2: float, class_: str) -> Markup:
    """Return a line."""
    return tag("line", x1=x1, y1=y1, x2=x2, y2=y2, class_=class_)


def marker(x: float, y: float, lossy: bool) -> Markup:
    """Return a filled circle, or for a lossy method a hollow diamond."""
    if lossy:
        return tag("path", d=f"M{x:.1f} {y - 6.5:.1f}l6.5 6.5l-6.5 6.5l-6.5 -6.5z", class_="mark lossy")
    return tag("circle", cx=x, cy=y, r=5, class_="mark")


@dataclass(frozen=True)
class Axis:
    """A linear scale from values to pixels, with round ticks from end to end."""

    ticks: tuple[float, ...]
    start: float
    end: float

    @classmethod
    def around(cls, values: list[float], start: float, end: float) -> Axis:
        """Return an axis on which all values have a place; of equal values it shows their surroundings."""
        low, high = min(values), max(values)
        if low == high:
            low, high = low - 0.5, high + 0.5
        ticks = [float(tick) for tick in MaxNLocator(_TICKS, steps=[1, 2, 2.5, 5, 10]).tick_values(low, high)]
        return cls(tuple(ticks), start, end)

    def __call__(self, value: float) -> float:
        """Return the pixel of a value."""
        share = (value - self.ticks[0]) / (self.ticks[-1] - self.ticks[0])
        return self.start + share * (self.end - self.start)


def tick_text(value: float) -> str:
    """Return a tick's number without superfluous zeros."""
    return f"{value:.4g}".replace("-", "\N{MINUS SIGN}")


def _shown(value: object) -> str:
    return f"{value:.1f}".removesuffix(".0") if isinstance(value, float) else str(value)
