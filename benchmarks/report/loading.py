"""Finding runs on the disk."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.results import RunFolder
from benchmarks.summary import summarise

_NEEDED = ("method", "drafter", "verifier", "guarantee", "model", "dataset", "prompts", "config", "hash")


@dataclass(frozen=True, eq=False)
class Run:
    """A run folder, read.

    Attributes:
        manifest: content of manifest.json.
        summary: content of summary.json; of a run that has not come to its end, computed from what is there.
        samples: lines of samples.jsonl.
        finished: whether the run has come to its end.
    """

    manifest: dict[str, Any]
    summary: dict[str, Any]
    samples: list[dict[str, Any]]
    finished: bool

    @property
    def group(self) -> tuple[str, str]:
        """What must be the same where runs are compared: data set and model."""
        return self.manifest["dataset"]["name"], self.manifest["model"]

    @property
    def lossy(self) -> bool:
        """Whether the output may differ from the target's own."""
        return bool(self.manifest["guarantee"] == "lossy")

    @property
    def replayed(self) -> bool:
        """Whether drafts were made against a recording, so that there are no times."""
        return self.manifest.get("mode") == "replay"

    @property
    def ok(self) -> list[dict[str, Any]]:
        """The samples of prompts that did not fail."""
        return [sample for sample in self.samples if sample["status"] == "ok"]


def load_runs(places: Sequence[Path]) -> list[Run]:
    """Return all runs in or below some folders, by data set, model and method.

    Raises:
        ValueError: a place that is no folder or holds no run, or damaged files.
    """
    folders: dict[Path, None] = {}
    for place in places:
        if not place.is_dir():
            raise ValueError(f"{place} is no folder: name run folders, or folders that hold them")
        found = sorted(manifest.parent.resolve() for manifest in place.rglob("manifest.json") if _is_run(manifest))
        if not found:
            raise ValueError(f"{place} holds no run (no manifest.json with a samples.jsonl or summary.json beside it)")
        folders.update(dict.fromkeys(found))
    runs = [_read(folder) for folder in folders]
    return sorted(runs, key=lambda run: (*run.group, run.manifest["method"], run.manifest["hash"]))


def _is_run(manifest: Path) -> bool:
    # Stores have a manifest of their own.
    return any((manifest.parent / name).exists() for name in ("samples.jsonl", "summary.json"))


def _read(path: Path) -> Run:
    folder = RunFolder(path)
    manifest = folder.manifest() or {}
    missing = [key for key in _NEEDED if key not in manifest]
    if missing:
        raise ValueError(f"{path / 'manifest.json'} lacks {', '.join(missing)}: it does not describe a run")
    samples, summary = folder.samples(), folder.summary()
    return Run(manifest, summary or _so_far(path, manifest, samples), samples, summary is not None)


def _so_far(path: Path, manifest: dict[str, Any], samples: list[dict[str, Any]]) -> dict[str, Any]:
    try:
        return summarise(manifest, samples)
    except KeyError as error:
        raise ValueError(
            f"{path} was left unfinished by another version, whose samples lack {error}: finish it or leave it out"
        ) from error
