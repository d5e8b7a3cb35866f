"""Result files: one folder a run, with a manifest, one line a prompt, a summary and a log.

Folder: ``results_dir/runs/<dataset>/<model>/<method>-<hash>/``. The hash covers what can change a figure, and no
output option. Whatever happens to the process or the disk, what was finished stays, and another start goes on.
"""

from __future__ import annotations

import errno
import gc
import io
import json
import math
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import orjson

# "training" and "probe" are read by scripts.train_* alone, "tune" by scripts.tune.
OUTPUT_OPTIONS = frozenset(
    {"results_dir", "cache_dir", "resume", "record_trees", "stop_at_first_failure", "training", "probe", "tune"}
)
# What must not have changed between two parts of one run, although the configuration is the same.
_IDENTITY = ("fingerprints", "device", "dtype", "prompts")
_NAME_LENGTH = 60
# Bytes read at once: lines are longer than the usual buffer.
_READ_AHEAD = 1 << 18


def config_hash(config: Mapping[str, Any]) -> str:
    """Return 10 hexadecimal digits over a resolved configuration without its output options."""
    relevant = {key: value for key, value in config.items() if key not in OUTPUT_OPTIONS}
    return sha256(json.dumps(_plain(relevant), sort_keys=True).encode()).hexdigest()[:10]


def safe_name(text: str) -> str:
    """Return the text as a name for a file, short and without separators; different texts may share one name."""
    return re.sub(r"[^A-Za-z0-9._-]+", "_", text).strip("._")[:_NAME_LENGTH] or "_"


class DiskError(OSError):
    """A result file that could not be written: one sentence."""

    def __str__(self) -> str:
        return str(self.strerror)


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
        with _collector_paused():
            return list(self.read())

    def read(self) -> Iterator[dict[str, Any]]:
        """Yield the samples one by one: many of them, of which only some figures are wanted, need no memory.

        Raises:
            ValueError: as `samples`, when the iteration comes to it.
        """
        if not self._samples.exists():
            return
        seen: set[str] = set()
        with self._samples.open("rb", buffering=_READ_AHEAD) as lines:
            for number, line in enumerate(lines, start=1):
                if not line.endswith(b"\n"):
                    return
                sample = self._parse(line, number)
                if sample["id"] in seen:
                    raise ValueError(f"{self._samples} holds a prompt twice; delete {self.path} and run again")
                seen.add(sample["id"])
                yield sample

    def _parse(self, line: bytes, number: int) -> dict[str, Any]:
        try:
            sample = _parsed(line)
        except ValueError as error:
            raise ValueError(f"{self._samples}, line {number} is damaged; delete {self.path} and run again") from error
        if not isinstance(sample, dict) or "id" not in sample:
            raise ValueError(f"{self._samples}, line {number} is no sample; delete {self.path} and run again")
        return sample

    def finished(self, manifest: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return the summary if the run this manifest describes is over, no prompt of it failed and no line is lost.

        Raises:
            ValueError: what is there was made with other weights, data, device or prompts.
        """
        summary = self.summary()
        if summary is None or summary["failed"]:
            return None
        self._check_identity(manifest)
        written = self._samples.read_bytes().count(b"\n") if self._samples.exists() else 0
        return summary if written == len(manifest["prompts"]) else None

    def begin(self, manifest: Mapping[str, Any], resume: bool) -> list[dict[str, Any]]:
        """Write the manifest and return the finished samples that are kept; failed and torn ones are to be run again.

        Args:
            manifest: what this run is made of.
            resume: go on with what is there; otherwise start from nothing.

        Raises:
            ValueError: what is there was made with other weights, data, device or prompts.
        """
        self.path.mkdir(parents=True, exist_ok=True)
        there = self._resumable(manifest) if resume else []
        kept = [sample for sample in there if sample["status"] == "ok"]
        (self.path / "summary.json").unlink(missing_ok=True)
        if there and len(kept) == len(there):
            # Nothing is to go but a torn end, and a file that is long may have no room beside itself for another one.
            _cut_torn_end(self._samples)
        else:
            _write_atomically(self._samples, b"".join(map(_line, kept)))
        _write_atomically(self.path / "manifest.json", _pretty(manifest))
        return kept

    def _resumable(self, manifest: Mapping[str, Any]) -> list[dict[str, Any]]:
        self._check_identity(manifest)
        return self.samples()

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
        """Add one sample; when this returns it is on the disk.

        Raises:
            DiskError: the disk takes no more; the samples before it are as they were.
        """
        line = _line(sample)
        # Without a buffer nothing is left to be written by the close that follows a failure.
        with self._samples.open("ab", buffering=0) as file, _said_in_full(self._samples):
            before = file.seek(0, os.SEEK_END)
            try:
                _write_all(file, line)
            except OSError:
                file.truncate(before)
                raise

    def finish(self, summary: Mapping[str, Any]) -> None:
        """Write the summary, which marks the run as finished."""
        _write_atomically(self.path / "summary.json", _pretty(summary))


def _line(sample: Mapping[str, Any]) -> bytes:
    # Pure ASCII: no text, whatever it holds, can break a line or the encoding, for whatever reads it.
    try:
        text = json.dumps(sample, allow_nan=False, separators=(",", ":"), default=_plain)
    except ValueError:  # a number that is not finite; to look for one in every line would take longer than to write it
        text = json.dumps(_plain(sample), allow_nan=False, separators=(",", ":"))
    return text.encode() + b"\n"


def _parsed(line: bytes) -> Any:
    try:
        return orjson.loads(line)
    except ValueError:
        # orjson refuses half of a surrogate pair, which a text cut between two tokens may end in.
        return json.loads(line)


@contextmanager
def _collector_paused() -> Iterator[None]:
    """Spare the garbage collector from looking through everything again and again while a long file is read."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


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


def _cut_torn_end(path: Path) -> None:
    with path.open("rb+") as file:
        content = file.read()
        file.truncate(content.rfind(b"\n") + 1)
        os.fsync(file.fileno())


def _write_atomically(path: Path, content: bytes) -> None:
    partial = path.with_name(path.name + ".partial")
    with _said_in_full(path):
        try:
            with partial.open("wb", buffering=0) as file:
                _write_all(file, content)
            os.replace(partial, path)
        except OSError:
            # The room that it takes may be what the other files of the run need.
            partial.unlink(missing_ok=True)
            raise


def _write_all(file: io.FileIO, content: bytes) -> None:
    rest = memoryview(content)
    while rest:
        rest = rest[file.write(rest) :]
    os.fsync(file.fileno())


@contextmanager
def _said_in_full(path: Path) -> Iterator[None]:
    """Make of an error of the disk a sentence: which file, and what becomes of the run."""
    try:
        yield
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        raise DiskError(
            error.errno,
            f"{path} cannot be written: {'the disk is full' if full else error.strerror}; what was finished is kept, "
            f"{'free some space' if full else 'put that right'} and start the same command again",
        ) from error
