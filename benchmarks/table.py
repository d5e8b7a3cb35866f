"""The table of runs, as narrow as a plain terminal."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from rich import box
from rich.table import Table
from rich.text import Text

from benchmarks.differences import Words

Content = Mapping[str, Any]

LOOPING = 0.9

_MARK = "*"
_LOOP_NOTE = (
    f"{_MARK} fewer than {LOOPING:g} of plain decoding's different 4-grams (distinct-4): the text repeats itself, "
    "and repeated text makes speedup and tau look better than they are"
)
_OVERLAP_NOTE = (
    "OVERLAP: the store holds documents that repeat the test split (datastore.leaks=keep), so speedup and tau look "
    "better than they are on fresh text"
)


class Finished(NamedTuple):
    """A run, and the settings that tell it from others of its name."""

    manifest: Content
    summary: Content
    differs: Words = ()


@dataclass(frozen=True)
class Unfinished:
    """A job that left no run behind: what it was to measure, why it did not, and the log that tells more."""

    dataset: str
    model: str
    method: str
    reason: str
    differs: Words = ()
    log: str | None = None


def results_table(runs: Sequence[Finished], failures: Sequence[Unfinished] = ()) -> Table:
    """Return the table of runs.

    Args:
        runs: those that came to their end.
        failures: the jobs that did not, each a row too.
    """
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, padding=(0, 1, 0, 0), pad_edge=False)
    table.caption, table.caption_justify = _notes(runs, failures), "left"
    table.add_column("dataset\nmodel", overflow="fold")
    table.add_column("method", overflow="fold")
    for header in ("speedup\n[95 %]", "tau\n[95 %]", "quality\n/ plain", "text\n/ plain"):
        table.add_column(header, no_wrap=True)
    for manifest, summary, differs in runs:
        cells = (
            _data_cell(manifest, summary),
            _method_cell(manifest, differs),
            _figure_cell(summary["speedup"]),
            _tau_cell(summary),
            _quality_cell(summary),
            _likeness_cell(summary),
        )
        table.add_row(*map(Text, cells))
        for name, part in (summary.get("categories") or {}).items():
            figures = (_figure_cell(part["speedup"]), _figure_cell(part["tau"]))
            table.add_row(*map(Text, (f"- {name}\n{_prompts(part)}", "", *figures, "", "")))
        table.add_section()
    for failure in failures:
        told = [failure.method, *failure.differs, f"FAILED: {failure.reason}"]
        table.add_row(Text(f"{failure.dataset}\n{failure.model}"), Text("\n".join(told)), *"----")
        table.add_section()
    return table


def loops(summary: Content) -> bool:
    """Whether the outputs repeat themselves clearly more than plain decoding's do."""
    method, baseline = summary["distinct_n"]["method"], summary["distinct_n"]["baseline"]
    return method is not None and baseline is not None and method < LOOPING * baseline


def overlaps(manifest: Content) -> bool:
    """Whether the store that was searched holds documents that repeat the test split."""
    return bool((manifest.get("datastore") or {}).get("overlap"))


def _data_cell(manifest: Content, summary: Content) -> str:
    return "\n".join([manifest["dataset"]["name"], manifest["model"], _prompts(summary)])


def _prompts(counts: Content) -> str:
    n, total = counts["n"], counts["n"] + counts["failed"]
    return f"{n} prompt{'s' * (n != 1)}" if n == total else f"{n} of {total}"


def _method_cell(manifest: Content, differs: Words) -> str:
    lines = [manifest["method"], *differs, manifest["drafter"], f"+ {manifest['verifier']}"]
    lines.append(manifest["guarantee"])
    lines += ["replay"] if manifest.get("mode") == "replay" else []
    return "\n".join([*lines, "OVERLAP"] if overlaps(manifest) else lines)


def _figure_cell(figure: Content) -> str:
    return f"{_number(figure['value'])}\n{_interval(figure['low'], figure['high'])}".rstrip()


def _tau_cell(summary: Content) -> str:
    nodes, draft = summary["nodes_per_pass"], summary["ms_per_pass"]["draft"]
    cost = [] if nodes is None or draft is None else [f"{nodes:.1f} nodes", f"draft {draft:.1f} ms"]
    return "\n".join([_figure_cell(summary["tau"]), *cost])


def _quality_cell(summary: Content) -> str:
    quality, cut = summary["quality"], summary["cut"]["method"]
    if quality is None:
        return "\n".join(["-", "no metric", *([f"{cut} cut"] if cut else [])])
    lines = [
        f"{_number(quality['method'])}/{_number(quality['baseline'])}",
        _interval(*quality["method_interval"]),
        f"{quality['metric']}",
        f"n={quality['n']}, {cut} cut" if cut else f"n={quality['n']}",
    ]
    silent, contained = (quality.get("no_answer") or {}).get("method"), quality.get("contains_answer")
    if silent:
        lines.append(f"{silent} no answer")
    if contained:
        lines += ["contained", f"{_number(contained['method'])}/{_number(contained['baseline'])}"]
    return "\n".join(filter(None, lines))


def _likeness_cell(summary: Content) -> str:
    share, distinct = summary["identical_share"], summary["distinct_n"]
    lines = [
        "-" if share is None else f"{share:.0%} same",
        "distinct-4",
        f"{_number(distinct['method'])}{_MARK * loops(summary)}/{_number(distinct['baseline'])}",
    ]
    verdicts = summary["lossless"] or {}
    if verdicts.get("near_tie"):
        lines.append(f"{verdicts['near_tie']} near-tie")
    if verdicts.get("mismatch"):
        lines.append(f"{verdicts['mismatch']} MISMATCH")
    return "\n".join(lines)


def _notes(runs: Sequence[Finished], failures: Sequence[Unfinished]) -> Text:
    manifests = [run.manifest for run in runs]
    summaries = [run.summary for run in runs]
    notes = list(dict.fromkeys(f"{m['dataset']['name']}: {m['dataset']['source']}" for m in manifests))
    qualities = [summary["quality"] or {} for summary in summaries]
    failed = [summary["failed"] for summary in summaries]
    if any(n and quality.get("failed_prompts") == "wrong" for n, quality in zip(failed, qualities, strict=True)):
        notes.append("failed prompts are in no figure but quality, where they count as wrong")
    if any(summary["cut"]["method"] for summary in summaries):
        notes.append("cut: outputs that ended at decode.max_new_tokens")
    if any((quality.get("no_answer") or {}).get("method") for quality in qualities):
        notes.append("no answer: outputs in which none was found; they count as wrong")
    if any(quality.get("contains_answer") for quality in qualities):
        notes.append("contained: an accepted answer occurs anywhere in the output; the score is exact match")
    if not all(qualities):
        notes.append("no metric: these prompts have nothing to compare an output with")
    if any(manifest["guarantee"] == "lossy" for manifest in manifests):
        notes.append("lossy: the output may differ from the target's own, see quality")
    if any(overlaps(manifest) for manifest in manifests):
        notes.append(_OVERLAP_NOTE)
    if any(loops(summary) for summary in summaries):
        notes.append(_LOOP_NOTE)
    for failure in failures:
        if failure.log:
            notes.append(f"log of {' '.join([failure.method, *failure.differs])}: {os.path.relpath(failure.log)}")
    return Text("\n".join(notes))


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def _interval(low: float | None, high: float | None) -> str:
    return "" if low is None or high is None else f"[{low:.2f},{high:.2f}]"
