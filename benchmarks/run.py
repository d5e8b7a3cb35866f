"""One run on its way to its end: its folder, its log, the prompts that are left, and the sides that answer them."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from rich.console import Console

from benchmarks.logs import LogFile
from benchmarks.measure import Answer, Sample, answer, failure, sample_of, without_times
from benchmarks.progress import RunProgress
from benchmarks.results import RunFolder
from benchmarks.summary import summarise
from benchmarks.turns import said_in, turn_ids
from corpora.corpus import Corpus
from corpora.example import Example

if TYPE_CHECKING:
    from connectors.connector import Connector
    from methods.pipeline import Pipeline
    from methods.replay import Replay

# To each turn of a prompt, or why there is none to one of them.
Answers = list[Answer] | Exception

_LOG = logging.getLogger(__name__)
_WARM_UP_TOKENS = 16
_SUSPICIOUS_PASSES = 50


@dataclass(frozen=True)
class Outcome:
    """What a run left behind.

    Attributes:
        folder: its files.
        manifest: content of manifest.json.
        summary: content of summary.json.
        reused: whether it had been finished before and nothing was run.
    """

    folder: RunFolder
    manifest: dict[str, Any]
    summary: dict[str, Any]
    reused: bool = False

    @property
    def exit_code(self) -> int:
        """0, or 1 if a prompt failed."""
        return int(self.summary["failed"] > 0)


class Run:
    """A run that is not finished yet.

    Args:
        pipeline: the method and its baseline.
        corpus: the prompts.
        folder: its files; begun here.
        manifest: content of manifest.json.
        console: where progress is shown.
        alone: whether nothing else is shown beside it, so that a live bar may be drawn.

    Attributes:
        todo: ids of the prompts that are left.
        failed: whether a prompt has failed.
    """

    def __init__(
        self,
        pipeline: Pipeline | Replay,
        corpus: Corpus,
        folder: RunFolder,
        manifest: dict[str, Any],
        console: Console,
        alone: bool = True,
    ) -> None:
        kept = folder.begin(manifest, pipeline.settings.resume)
        known = {sample["id"] for sample in kept}
        self._said = {sample["id"]: said_in(sample["baseline"]) for sample in kept}
        self.pipeline = pipeline
        self.folder = folder
        self.manifest = manifest
        self.todo = {example.id for example in corpus.examples} - known
        self.failed = False
        self.progress = RunProgress(console, f"{manifest['method']} on {corpus.name}", len(corpus), kept, alone)
        if kept:
            title = f"{manifest['method']} on {corpus.name}"
            self.progress.say(f"{title}: goes on after {len(kept)} of {len(corpus)} prompts, which are kept")
        self._corpus = corpus
        self._handler = LogFile(folder.log, encoding="utf-8")
        self._handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
        with self.logging():
            _LOG.info("%d prompts to run, %d kept", len(self.todo), len(kept))

    @contextmanager
    def logging(self) -> Iterator[None]:
        """Copy what is logged anywhere, from INFO on, to the run's log file."""
        root = logging.getLogger()
        level = root.level
        root.addHandler(self._handler)
        root.setLevel(min(level, logging.INFO))
        try:
            yield
        finally:
            root.setLevel(level)
            root.removeHandler(self._handler)

    def close(self) -> None:
        """Close the log file."""
        self._handler.close()

    def warm_up(self, examples: list[Example]) -> None:
        """Let both sides do their first, slow calls before anything is counted.

        A drafter that learns from text to text is spared: another one of its kind goes in its place.
        """
        pipeline = self.pipeline
        short = replace(pipeline.settings.decode, max_new_tokens=_WARM_UP_TOKENS)
        with self.logging():
            method = pipeline.spare() if pipeline.connector.drafter.remembers else pipeline.connector
            for example in examples:
                try:
                    ids = turn_ids(pipeline, example)
                    pipeline.baseline.generate(ids, short)
                    method.generate(ids, short)
                except Exception:  # the prompt fails again when its turn comes, and is reported then
                    _LOG.warning("warm-up failed", exc_info=True)

    def catch_up(self) -> None:
        """Let a drafter that learns from text to text read again what it had read when the run was stopped."""
        done = [example for example in self._corpus.examples if example.id not in self.todo]
        if not (done and self.todo and self.pipeline.connector.drafter.remembers):
            return
        with self.logging():
            name = self.pipeline.settings.drafter["name"]
            _LOG.info("drafter '%s' learns from every text: %d finished prompts are decoded again", name, len(done))
            for example in done:
                for turn in range(1 + len(example.followups)):
                    answer(self.pipeline, self.pipeline.connector, example, self._said[example.id][:turn])

    def answer(self, example: Example, said: Sequence[str]) -> Answer | Exception:
        """Return the method's answer to the turn of a prompt behind what was said, or why there is none."""
        return self._attempt(self.pipeline.connector, example, said)

    def baseline(self, example: Example, said: Sequence[str]) -> Answer | Exception:
        """Return plain decoding's answer to it, or why there is none."""
        return self._attempt(self.pipeline.baseline, example, said)

    def _attempt(self, side: Connector, example: Example, said: Sequence[str]) -> Answer | Exception:
        with self.logging():
            try:
                return answer(self.pipeline, side, example, said)
            except Exception as error:  # one prompt must not take the others with it
                _LOG.exception("prompt %s failed", example.id)
                return error

    def add(self, example: Example, own: Answers, plain: Answers) -> None:
        """Write the line of a prompt, from the answers to its turns.

        Raises:
            DiskError: the disk takes no more.
        """
        with self.logging():
            sample = self._sample(example, own, plain)
            self.folder.append(sample)
            self.todo.discard(example.id)
            self.failed |= sample["status"] == "failed"
            self.progress.advance(sample)

    def _sample(self, example: Example, own: Answers, plain: Answers) -> Sample:
        for side in (own, plain):
            if isinstance(side, Exception):
                return failure(example, side)
        assert not isinstance(own, Exception)
        assert not isinstance(plain, Exception)
        try:
            sample = sample_of(self.pipeline, example, own, plain)
            sample = without_times(sample) if self.pipeline.replayed else sample
        except Exception as error:  # as above: one prompt must not take the others with it
            _LOG.exception("prompt %s failed", example.id)
            return failure(example, error)
        _LOG.info("prompt %s: %d tokens in %d passes", example.id, len(sample["output_ids"]), sample["passes"])
        return sample

    def finish(self) -> Outcome:
        """Write the summary, and say what is odd in it."""
        with self.logging():
            summary = summarise(self.manifest, self.folder.samples())
            self.folder.finish(summary)
            _warn(summary)
        return Outcome(self.folder, self.manifest, summary)


def _warn(summary: dict[str, Any]) -> None:
    if summary["passes"] >= _SUSPICIOUS_PASSES and summary["tau"]["value"] == 1.0 and summary["acceptance_rate"] == 0.0:
        _LOG.warning("no drafted token was accepted in %d passes: the drafter may be wired wrongly", summary["passes"])
    if (summary["lossless"] or {}).get("mismatch"):
        _LOG.error(
            "%d outputs are not what the target chooses: see lossless in samples.jsonl", summary["lossless"]["mismatch"]
        )
