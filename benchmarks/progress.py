"""Progress of a run: a live bar on a terminal, a plain line every few prompts elsewhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

_LINE_EVERY = 5


class RunProgress:
    """Counts prompts and keeps running figures; use as a context manager.

    Args:
        console: where to show it.
        title: what is running.
        total: number of prompts.
        kept: samples of an earlier part of the run.
        live: whether a terminal gets a bar; a second one beside it cannot be drawn.
    """

    def __init__(
        self, console: Console, title: str, total: int, kept: Sequence[Mapping[str, Any]], live: bool = True
    ) -> None:
        self._console = console
        self._live = live and console.is_terminal
        self._title = title
        self._total = total
        self._done = 0
        self._time = self._base_time = 0.0
        self._tokens = self._base_tokens = self._passes = self._committed = 0
        columns = (
            "{task.description}",
            BarColumn(),
            MofNCompleteColumn(),
            "{task.fields[figures]}",
            TimeRemainingColumn(),
        )
        shown = [TextColumn(column) if isinstance(column, str) else column for column in columns]
        self._bar = Progress(*shown, console=console, transient=True, disable=not self._live)
        self._task = self._bar.add_task(title, total=total, figures="")
        for sample in kept:
            self._count(sample)

    def __enter__(self) -> RunProgress:
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()

    @property
    def done(self) -> int:
        """Prompts that are over, failed ones included."""
        return self._done

    def advance(self, sample: Mapping[str, Any]) -> None:
        """Take in one more prompt and show it."""
        self._count(sample)
        if sample["status"] == "failed":
            self.say(f"{self._title}: prompt {sample['id']} failed: {sample['reason']}")
        if not self._live and (self._done % _LINE_EVERY == 0 or self._done == self._total):
            self.say(f"{self._title}: {self._done}/{self._total} prompts{self._figures()}")

    def say(self, text: str) -> None:
        """Print a line of plain text above the bar."""
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)

    def _count(self, sample: Mapping[str, Any]) -> None:
        self._done += 1
        if sample["status"] == "ok":
            base = sample["baseline"]
            self._time += sample["decode_ms"] or 0.0
            self._tokens += len(sample["output_ids"])
            self._base_time += base["decode_ms"] or 0.0
            self._base_tokens += len(base["output_ids"])
            self._passes += sample["passes"]
            self._committed += sum(sample["committed"])
        self._bar.update(self._task, completed=self._done, figures=self._figures().lstrip(", "))

    def _figures(self) -> str:
        if not (self._base_tokens and self._passes):
            return ""
        tau = f", tau {self._committed / self._passes:.2f}"
        if not self._time:
            return tau
        speedup = (self._base_time / self._base_tokens) / (self._time / self._tokens)
        return f", speedup {speedup:.2f}{tau}"
