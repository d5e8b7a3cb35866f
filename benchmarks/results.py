"""Result files: one folder a run, with a manifest, one line a prompt, a summary and a log.

Folder: ``results_dir/runs/<dataset>/<model>/<method>-<hash>/``. The hash covers what can change a figure, and no
output option.
"""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

# "training" decides nothing but what scripts.train_eagle does.
OUTPUT_OPTIONS = frozenset({"results_dir", "cache_dir", "resume", "training"})
# What must not have changed between two parts of one run, although the configuration is the same.
_IDENTITY = ("fingerprints", "device", "dtype", "prompts")
_NAME_LENGTH = 60


def config_hash(config: Mapping[str, Any]) -> str:
    """Return 10 hexadecimal digits over a resolved configuration without its output options."""
    relevant = {key: value for key, value in config.items() if key not in OUTPUT_OPTIONS}
    return sha256(json.dumps(_plain(relevant), sort_keys=True).encode()).hexdigest()[:10]


def safe_name(text: str) -> str:
    """Return the text as a name for a file, short and without separators; different texts may share one name."""
    return re.sub(r"[^A-Za-z0-9._-]+", "_", text).strip("._")[:_NAME_LENGTH] or "_"


@dataclass(frozen=True)
class RunFolder:
    """The files of one run.

    Attributes:
        path: the folder; made on the first write.
    """

    path: Path

    @classmethod
    def locate(
        cls, results_dir: str | Path, dataset: str, model: str, method: str, config: Mapping[str, Any]
    ) -> RunFolder:
        """Return the folder that belongs to a configuration; `dataset` is the shown name, so mini sets stand apart."""
        leaf = f"{safe_name(method)}-{config_hash(config)}"
        return cls(Path(results_dir).expanduser() / "runs" / safe_name(dataset) / safe_name(model) / leaf)

    @property
    def log(self) -> Path:
        """The run's log file."""
        return self.path / "log.txt"

    @property
    def _samples(self) -> Path:
        return self.path / "samples.jsonl"

    def manifest(self) -> dict[str, Any] | None:
        """Return the manifest, None before the run has begun."""
        return _read_json(self.path / "manifest.json")

    def summary(self) -> dict[str, Any] | None:
        """Return the summary, None if the run has not come to its end."""
        return _read_json(self.path / "summary.json")

    def samples(self) -> list[dict[str, Any]]:
        """Return the samples written so far; a last line that was cut off is left out.

        Raises:
            ValueError: a line before the last one is damaged, or a prompt occurs twice.
        """
        lines = self._samples.read_bytes().split(b"\n") if self._samples.exists() else [b""]
        samples = [self._parse(line, number) for number, line in enumerate(lines[:-1], start=1)]
        ids = [sample["id"] for sample in samples]
        if len(set(ids)) < len(ids):
            raise ValueError(f"{self._samples} holds a prompt twice; delete {self.path} and run again")
        return samples

    def _parse(self, line: bytes, number: int) -> dict[str, Any]:
        try:
            sample = json.loads(line)
        except ValueError as error:
            raise ValueError(f"{self._samples}, line {number} is damaged; delete {self.path} and run again") from error
        if not isinstance(sample, dict) or "id" not in sample:
            raise ValueError(f"{self._samples}, line {number} is no sample; delete {self.path} and run again")
        return sample

    def finished(self, manifest: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return the summary if the run this manifest describes is over and no prompt of it failed.

        Raises:
            ValueError: what is there was made with other weights, data, device or prompts.
        """
        summary = self.summary()
        if summary is None or summary["failed"]:
            return None
        self._check_identity(manifest)
        return summary

    def begin(self, manifest: Mapping[str, Any], resume: bool) -> list[dict[str, Any]]:
        """Write the manifest and return the finished samples that are kept; failed and torn ones are to be run again.

        Args:
            manifest: what this run is made of.
            resume: go on with what is there; otherwise start from nothing.

        Raises:
            ValueError: what is there was made with other weights, data, device or prompts.
        """
        self.path.mkdir(parents=True, exist_ok=True)
        kept = self._resumable(manifest) if resume else []
        (self.path / "summary.json").unlink(missing_ok=True)
        _write_atomically(self._samples, b"".join(map(_line, kept)))
        _write_atomically(self.path / "manifest.json", _pretty(manifest))
        return kept

    def _resumable(self, manifest: Mapping[str, Any]) -> list[dict[str, Any]]:
        self._check_identity(manifest)
        return [sample for sample in self.samples() if sample["status"] == "ok"]

    def _check_identity(self, manifest: Mapping[str, Any]) -> None:
        before = self.manifest()
        if before is None:
            return
        changed = [key for key in _IDENTITY if before.get(key) != _plain(manifest.get(key))]
        if changed:
            raise ValueError(
                f"resume: {self.path} holds a run with other {' and '.join(changed)}; "
                "set resume=false to replace it or another results_dir to keep it"
            )

    def append(self, sample: Mapping[str, Any]) -> None:
        """Add one sample; when this returns it is on the disk."""
        with self._samples.open("ab") as file:
            file.write(_line(sample))
            file.flush()
            os.fsync(file.fileno())

    def finish(self, summary: Mapping[str, Any]) -> None:
        """Write the summary, which marks the run as finished."""
        _write_atomically(self.path / "summary.json", _pretty(summary))


def _line(sample: Mapping[str, Any]) -> bytes:
    # Pure ASCII: no text, whatever it holds, can break a line or the encoding.
    return json.dumps(_plain(sample), allow_nan=False, separators=(",", ":")).encode() + b"\n"


def _pretty(content: Mapping[str, Any]) -> bytes:
    return json.dumps(_plain(content), allow_nan=False, indent=2).encode() + b"\n"


def _plain(value: Any) -> Any:
    """Return the value in JSON's own types; a number that is not finite becomes null, unknown types their text."""
    if isinstance(value, Mapping):
        return {str(key): _plain(entry) for key, entry in value.items()}
    if isinstance(value, np.ndarray | np.generic):
        return _plain(value.tolist())
    if isinstance(value, set | frozenset):
        return _plain(sorted(value))
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return [_plain(entry) for entry in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if isinstance(value, str | int | None) else str(value)


def _read_json(path: Path) -> dict[str, Any] | None:
    if not path.exists():
        return None
    try:
        content = json.loads(path.read_bytes())
    except ValueError as error:
        raise ValueError(f"{path} is damaged; delete {path.parent} and run again") from error
    if not isinstance(content, dict):
        raise ValueError(f"{path} must hold a JSON object; delete {path.parent} and run again")
    return content


def _write_atomically(path: Path, content: bytes) -> None:
    partial = path.with_name(path.name + ".partial")
    with partial.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    os.replace(partial, path)
