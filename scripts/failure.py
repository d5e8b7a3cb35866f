"""A job that came to no end: what the final table says of it."""

from __future__ import annotations

from dataclasses import dataclass

from methods.schema import Settings


@dataclass(frozen=True)
class Failure:
    """A job without a result.

    Attributes:
        settings: of the job.
        reason: one sentence.
        skipped: it was not run, or given up, because another one failed.
        log: its own log, with the traceback.
    """

    settings: Settings
    reason: str
    skipped: bool = False
    log: str | None = None
