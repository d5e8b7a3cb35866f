"""The page: templates, style and scripts of `assets/` filled with runs; it needs nothing beside itself."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from benchmarks.report.charts.all import charts
from benchmarks.report.charts.chart import WIDTH
from benchmarks.report.labels import labels
from benchmarks.report.loading import Run
from benchmarks.report.payload import packed
from benchmarks.report.rows import COLUMNS, quality_words, table_rows

ASSETS = Path(__file__).parent / "assets"
_STYLES = ("theme.css", "page.css", "table.css", "charts.css", "viewer.css")
_SCRIPTS = ("page.js", "samples.js", "tokens.js", "tree.js", "viewer.js")


def page(runs: Sequence[Run], title: str = "AtomSD report") -> str:
    """Return the HTML of a report.

    Every text is escaped by the template; the samples go in as base64, so that nothing in them can end a script.

    Args:
        runs: what is reported, those that can be compared beside each other.
        title: of the page.
    """
    environment = Environment(
        loader=FileSystemLoader(ASSETS),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    names = labels(runs)
    return environment.get_template("page.html.j2").render(
        title=title,
        style=_joined(_STYLES),
        script=_joined(_SCRIPTS),
        columns=COLUMNS,
        rows=table_rows(runs, names),
        groups=_groups(runs, names),
        chart_width=WIDTH,
        index=[_entry(run, name) for run, name in zip(runs, names, strict=True)],
        samples=[[packed(sample) for sample in run.samples] for run in runs],
        sources=_sources(runs),
    )


def _groups(runs: Sequence[Run], names: Sequence[str]) -> list[dict[str, Any]]:
    found = []
    for (dataset, model), pairs in groupby(zip(runs, names, strict=True), key=lambda pair: pair[0].group):
        members = list(pairs)
        drawn = charts([run for run, _ in members], [name for _, name in members])
        found.append({"dataset": dataset, "model": model, "charts": drawn})
    return found


def _entry(run: Run, name: str) -> dict[str, Any]:
    """Return what the viewer says of a run before one of its samples is opened."""
    dataset, model = run.group
    return {
        "label": name,
        "dataset": dataset,
        "model": model,
        "guarantee": run.manifest["guarantee"],
        "quality": quality_words(run),
        "prompts": [sample["id"] for sample in run.samples],
    }


def _sources(runs: Sequence[Run]) -> list[dict[str, Any]]:
    """Return where the figures come from, a line a run."""
    return [
        {
            "folder": f"{run.manifest['method']}-{run.manifest['hash']}",
            "created": run.manifest.get("created", "\N{EN DASH}"),
            "commit": str(run.manifest.get("git_commit") or "\N{EN DASH}")[:10],
            "device": run.manifest.get("device", "\N{EN DASH}"),
            "dtype": run.manifest.get("dtype", "\N{EN DASH}"),
            "data": run.manifest["dataset"].get("source", "\N{EN DASH}"),
        }
        for run in runs
    ]


def _joined(names: Sequence[str]) -> Markup:
    # These are the project's own files; a test holds them to have no end of a script or style in them.
    return Markup("\n".join((ASSETS / name).read_text(encoding="utf-8") for name in names))
