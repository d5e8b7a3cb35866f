"""The plots of the runs that can be compared: those of one data set and one model."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.report import figures
from benchmarks.report.charts.chart import Chart, Entry
from benchmarks.report.charts.depths import depths
from benchmarks.report.charts.forest import forest
from benchmarks.report.charts.plane import Point, plane
from benchmarks.report.charts.stacked import Bar, Part, stacked
from benchmarks.report.loading import Run
from benchmarks.report.rows import quality_words

_WAYS = (("exact", "exact"), ("top_k", "top-k"), ("window", "window"), ("relaxed", "relaxed"))
_PLAIN = Part("plain", "plain")
_STEPS = ("draft", "verify", "judge", "commit")


def charts(runs: Sequence[Run], labels: Sequence[str]) -> list[Chart]:
    """Return the plots for which these runs have figures."""
    entries = [Entry(label, run.lossy, *_both_words(run)) for run, label in zip(runs, labels, strict=True)]
    found = [
        forest(
            "speedup",
            "Speedup",
            "Time of plain decoding for a token, divided by the method's; the line at 1 is plain decoding.",
            entries,
            [figures.of_summary(run, "speedup") for run in runs],
        ),
        _plane(entries, runs),
        forest(
            "tau",
            "Tokens a pass (τ)",
            "Tokens that a forward of the target commits; plain decoding commits 1.",
            entries,
            [figures.of_summary(run, "tau") for run in runs],
        ),
        depths(entries, runs),
        stacked(
            "pathways",
            "How tokens were made",
            "Share of the committed tokens by how they were let in. Plain: the target's own next token, which nobody "
            "drafted.",
            [_PLAIN, *(Part(class_, name) for class_, name in _WAYS)],
            [_way_bar(entry, run) for entry, run in zip(entries, runs, strict=True)],
        ),
        stacked(
            "ms",
            "Milliseconds of a pass",
            "Mean time of each part of a pass.",
            [Part(f"step-{step}", step) for step in _STEPS],
            [_step_bar(entry, run) for entry, run in zip(entries, runs, strict=True)],
        ),
    ]
    return [chart for chart in found if chart is not None]


def _both_words(run: Run) -> tuple[str, str]:
    words = quality_words(run)
    return words, words.partition(" [")[0]


def _plane(entries: Sequence[Entry], runs: Sequence[Run]) -> Chart | None:
    """Return the plane by quality ratio, or by bare quality where plain decoding's own is 0."""
    is_ratio = any(figures.quality(run, "ratio").value is not None for run in runs)
    side = "ratio" if is_ratio else "method"
    metric = (runs[0].summary.get("quality") or {}).get("metric") or "quality"
    title = f"{metric} / plain" if is_ratio else metric
    points = [
        Point(entry, figures.of_summary(run, "speedup"), figures.quality(run, side))
        for entry, run in zip(entries, runs, strict=True)
    ]
    return plane(points, title, is_ratio)


def _way_bar(entry: Entry, run: Run) -> Bar:
    counts = run.summary.get("pathways") or {}
    committed = sum(counts.values())
    accepted = sum(sum(sample["accepted"]) for sample in run.ok)
    values = [committed - accepted, *(counts.get(class_, 0) for class_, _ in _WAYS)] if run.ok else [0] * 5
    # A pending token counts as exact where it is judged, although nobody drafted it.
    values[1] -= values[0]
    shares = [100 * value / committed if committed else 0.0 for value in values]
    return Bar(entry, shares, [f"{share:.0f} %" for share in shares], f"{committed} tokens")


def _step_bar(entry: Entry, run: Run) -> Bar:
    steps = run.summary.get("ms_per_pass") or {}
    values = [steps.get(step) or 0.0 for step in _STEPS]
    return Bar(entry, values, [f"{value:.1f}" for value in values], f"{sum(values):.1f} ms")
