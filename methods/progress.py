"""The progress of an offline stage: how far, how many tokens a second, how long to go."""

from __future__ import annotations

from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn


class TokenProgress:
    """A bar on the terminal's error stream, so that results can be piped.

    Args:
        title: what is being done.
        total: sequences to do.
    """

    def __init__(self, title: str, total: int) -> None:
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[rate]}"),
            TimeRemainingColumn(),
            console=Console(stderr=True),
        )
        self._task = self._progress.add_task(title, total=total, rate="")
        self._tokens = 0

    def __enter__(self) -> TokenProgress:
        self._progress.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._progress.stop()

    def advance(self, sequences: int, tokens: int) -> None:
        """Note that some sequences with so many tokens together are done."""
        self._tokens += tokens
        elapsed = self._progress.tasks[self._task].elapsed or 0
        rate = f"{self._tokens / elapsed:,.0f} tokens/s" if elapsed > 0 else ""
        self._progress.update(self._task, advance=sequences, rate=rate)
