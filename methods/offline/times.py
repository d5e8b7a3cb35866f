"""How long the stages of a build took, over all its starts and jobs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from uuid import uuid4

from methods.offline.files import writing


@dataclass
class Piece:
    """A piece of work: the tokens that went through it."""

    tokens: int = 0


class Times:
    """A log of pieces of work, one line each, in a file of this process alone.

    Args:
        folder: where the files of all processes lie; made on the first write.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._file = folder / f"{uuid4().hex}.jsonl"

    @contextmanager
    def timed(self, stage: str, tokens: int = 0) -> Iterator[Piece]:
        """Note how long the work inside took; how many tokens went through it may be said in the end."""
        piece = Piece(tokens)
        start = perf_counter()
        yield piece
        line = json.dumps([stage, perf_counter() - start, piece.tokens])
        with writing(self._file):
            self._folder.mkdir(parents=True, exist_ok=True)
            with self._file.open("a", encoding="utf-8") as file:
                file.write(f"{line}\n")

    def totals(self) -> dict[str, tuple[float, int]]:
        """Return seconds and tokens of each stage, summed over all files; a torn last line is left out."""
        totals: dict[str, tuple[float, int]] = {}
        for file in sorted(self._folder.glob("*.jsonl")):
            for line in file.read_text(encoding="utf-8").split("\n")[:-1]:
                stage, seconds, tokens = json.loads(line)
                before = totals.get(stage, (0.0, 0))
                totals[stage] = (before[0] + seconds, before[1] + tokens)
        return totals
