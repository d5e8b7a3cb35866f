"""The comparison table: one row a run, every figure with its interval."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from benchmarks.report import figures
from benchmarks.report.figures import Figure
from benchmarks.report.loading import Run
from benchmarks.table import LOOPING, loops, overlaps


@dataclass(frozen=True)
class Column:
    """A column of figures: its heading, what it means, how it is computed and shown."""

    title: str
    meaning: str
    figure: Callable[[Run], Figure]
    digits: int = 2
    percent: bool = False


@dataclass(frozen=True)
class Cell:
    """A figure as it is shown; `sort` is None where there is none, `n` empty where it is that of the whole row."""

    value: str
    interval: str = ""
    sort: float | None = None
    n: str = ""
    notes: Sequence[str] = ()


@dataclass(frozen=True)
class Row:
    """A run as a row of the table."""

    run: int
    label: str
    parts: str
    guarantee: str
    replayed: bool
    quality: str
    warnings: list[str]
    dataset: str
    model: str
    n: int
    prompts: str
    cells: list[Cell]


COLUMNS = (
    Column(
        "Speedup",
        "time of plain decoding for a token / time of the method",
        lambda run: figures.of_summary(run, "speedup"),
    ),
    Column("τ", "tokens that a pass commits", lambda run: figures.of_summary(run, "tau")),
    Column("Quality", "score of the method; plain decoding's below it", lambda run: figures.quality(run, "method")),
    Column(
        "Quality / plain", "score of the method / score of plain decoding", lambda run: figures.quality(run, "ratio")
    ),
    Column("Cut", "outputs that ended at the token budget; plain decoding's below them", figures.cut, 0),
    Column("Same text", "share of outputs that equal plain decoding's", figures.identical, percent=True),
    Column("Common prefix", "tokens before an output leaves plain decoding's, mean", figures.prefix, 0),
    Column(
        "Distinct-4 / plain",
        "share of different 4-grams, as a ratio to plain decoding's; below 1 the text repeats itself more",
        figures.distinct_ratio,
    ),
    Column("Accepted", "drafted tokens committed / drafted nodes verified", figures.acceptance, percent=True),
    Column("Nodes", "nodes in a forward", figures.nodes_per_pass, 1),
    Column("ms / token", "milliseconds of decoding for a token", figures.ms_per_token, 1),
)
_NOT_MEASURED = "not measured"


def table_rows(runs: Sequence[Run], labels: Sequence[str]) -> list[Row]:
    """Return a row for each run."""
    return [_row(place, run, label) for place, (run, label) in enumerate(zip(runs, labels, strict=True))]


def _row(place: int, run: Run, label: str) -> Row:
    manifest, n = run.manifest, run.summary["n"]
    total = len(manifest["prompts"])
    return Row(
        run=place,
        label=label,
        parts=f"{manifest['drafter']} + {manifest['verifier']}",
        guarantee=manifest["guarantee"],
        replayed=run.replayed,
        quality=quality_words(run),
        warnings=_warnings(run),
        dataset=manifest["dataset"]["name"],
        model=manifest["model"],
        n=n,
        prompts=str(n) if n == total else f"{n} of {total}",
        cells=[_cell(run, column) for column in COLUMNS],
    )


def quality_words(run: Run) -> str:
    """Return a run's quality beside plain decoding's, in a few words."""
    ratio, ours, plain = (figures.quality(run, side) for side in ("ratio", "method", "baseline"))
    if ours.value is None:
        return "quality not measured"
    if ratio.value is None:
        return f"quality {ours.text()} / {plain.text()}"
    return f"quality ratio {ratio.full()}"


def _cell(run: Run, column: Column) -> Cell:
    figure = column.figure(run)
    value = figure.text(column.digits, column.percent)
    notes: tuple[str, ...] = ()
    if column.title == "Quality" and figure.value is None:
        value = _NOT_MEASURED
    elif column.title == "Quality":
        silent = (run.summary["quality"].get("no_answer") or {}).get("method")
        without = [f"{silent} without answer"] if silent else []
        notes = (f"plain {figures.quality(run, 'baseline').full()}", run.summary["quality"]["metric"], *without)
    elif column.title == "Cut" and figure.value is not None:
        notes = (f"plain {figures.cut(run, 'baseline').text(0)}",)
    n = "" if figure.n == run.summary["n"] or figure.value is None else f"n={figure.n}"
    return Cell(value, figure.interval(column.digits, column.percent), figure.value, n, notes)


def _warnings(run: Run) -> list[str]:
    """Return what a reader must know before believing the row's speed."""
    found = []
    if loops(run.summary):
        found.append(f"repeats itself: fewer than {LOOPING:g} of plain decoding's different 4-grams")
    if overlaps(run.manifest):
        found.append("its store holds documents that repeat the test split")
    if (run.summary.get("lossless") or {}).get("mismatch"):
        found.append(f"{run.summary['lossless']['mismatch']} outputs are not what the target chooses")
    if failed := run.summary["failed"]:
        found.append(f"{failed} prompt{'s' * (failed > 1)} failed")
    if not run.finished:
        found.append("not finished")
    return found
