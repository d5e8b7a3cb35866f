"""The benchmark of one pipeline over one corpus: each prompt by the baseline and by the method, in one process."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from filelock import FileLock, Timeout
from rich.console import Console

from benchmarks.logs import LogFile
from benchmarks.manifest import build_manifest
from benchmarks.measure import Sample, failure, measure, prompt_ids
from benchmarks.progress import RunProgress
from benchmarks.results import RunFolder
from benchmarks.scoring import metric_named
from benchmarks.summary import summarise
from corpora.corpus import Corpus
from corpora.example import Example

if TYPE_CHECKING:
    from methods.pipeline import Pipeline

_LOG = logging.getLogger(__name__)
_WARM_UPS = 2
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


def run_benchmark(pipeline: Pipeline, corpus: Corpus, console: Console | None = None) -> Outcome:
    """Measure a pipeline on every prompt of a corpus and write the result files.

    A prompt that raises is written down as failed and the rest goes on. Finished prompts of an earlier, interrupted
    run are kept; a finished run is not run again.

    Raises:
        ValueError: an unknown metric, or a result folder that another process uses or that holds another run.
        KeyboardInterrupt: passed on after everything finished is on the disk.
    """
    console = console or Console()
    metric_named(pipeline.settings.dataset.metric)
    manifest = build_manifest(pipeline, corpus)
    folder = RunFolder.locate(
        pipeline.settings.results_dir, corpus.name, manifest["model"], manifest["method"], manifest["config"]
    )
    with _locked(folder):
        finished = folder.finished(manifest) if pipeline.settings.resume else None
        if finished is None:
            outcome = Outcome(folder, manifest, _run(pipeline, corpus, folder, manifest, console))
        else:
            outcome = Outcome(folder, folder.manifest() or manifest, finished, reused=True)
    where = "finished before, kept" if outcome.reused else "written"
    console.print(f"results {where}: {folder.path}", markup=False, highlight=False, soft_wrap=True)
    return outcome


def _run(
    pipeline: Pipeline, corpus: Corpus, folder: RunFolder, manifest: dict[str, Any], console: Console
) -> dict[str, Any]:
    kept = folder.begin(manifest, pipeline.settings.resume)
    known = {sample["id"] for sample in kept}
    todo = [(index, example) for index, example in enumerate(corpus.examples) if example.id not in known]
    progress = RunProgress(console, f"{manifest['method']} on {corpus.name}", len(corpus), kept)
    with _logging_to(folder), progress:
        _LOG.info("%d prompts to run, %d kept", len(todo), len(kept))
        try:
            _warm_up(pipeline, [example for _, example in todo[:_WARM_UPS]])
            for index, example in todo:
                sample = _try(pipeline, example, method_first=index % 2 == 1)
                folder.append(sample)
                progress.advance(sample)
        except KeyboardInterrupt:
            progress.say(
                f"stopped after {progress.done} of {len(corpus)} prompts; they are kept in {folder.path}, "
                "and the same command goes on from there"
            )
            raise
        summary = summarise(manifest, folder.samples())
        folder.finish(summary)
        _warn(summary)
    return summary


def _try(pipeline: Pipeline, example: Example, method_first: bool) -> Sample:
    try:
        sample = measure(pipeline, example, method_first)
    except Exception as error:  # one prompt must not take the others with it
        _LOG.exception("prompt %s failed", example.id)
        return failure(example, error)
    _LOG.info("prompt %s: %d tokens in %d passes", example.id, len(sample["output_ids"]), sample["passes"])
    return sample


def _warm_up(pipeline: Pipeline, examples: Sequence[Example]) -> None:
    """Let both sides do their first, slow calls before anything is counted."""
    short = replace(pipeline.settings.decode, max_new_tokens=_WARM_UP_TOKENS)
    for turn in range(_WARM_UPS if examples else 0):
        try:
            ids = prompt_ids(pipeline, examples[turn % len(examples)])
            pipeline.baseline.generate(ids, short)
            pipeline.connector.generate(ids, short)
        except Exception:  # the prompt fails again when its turn comes, and is reported then
            _LOG.warning("warm-up failed", exc_info=True)


def _warn(summary: dict[str, Any]) -> None:
    if summary["passes"] >= _SUSPICIOUS_PASSES and summary["tau"]["value"] == 1.0 and summary["acceptance_rate"] == 0.0:
        _LOG.warning("no drafted token was accepted in %d passes: the drafter may be wired wrongly", summary["passes"])
    if (summary["lossless"] or {}).get("mismatch"):
        _LOG.error(
            "%d outputs are not what the target chooses: see lossless in samples.jsonl", summary["lossless"]["mismatch"]
        )


@contextmanager
def _locked(folder: RunFolder) -> Iterator[None]:
    folder.path.mkdir(parents=True, exist_ok=True)
    try:
        # The lock ends with its process, however that dies.
        with FileLock(folder.path / ".lock", timeout=0):
            yield
    except Timeout as error:
        raise ValueError(
            f"another process is working on this very run in {folder.path}; wait for it or stop it"
        ) from error


@contextmanager
def _logging_to(folder: RunFolder) -> Iterator[None]:
    """Copy what is logged anywhere, from INFO on, to the run's log file."""
    handler = LogFile(folder.log, encoding="utf-8")
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    root = logging.getLogger()
    level = root.level
    root.addHandler(handler)
    root.setLevel(min(level, logging.INFO))
    try:
        yield
    finally:
        root.setLevel(level)
        root.removeHandler(handler)
        handler.close()
