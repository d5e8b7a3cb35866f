"""What a run is made of, written down before it begins."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import asdict
from datetime import datetime, timezone
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from benchmarks.results import config_hash
from corpora.corpus import Corpus
from corpora.templates import TEMPLATES_VERSION
from primitives.models.device import dtype_name

if TYPE_CHECKING:
    from methods.pipeline import Pipeline
    from methods.replay import Replay

FORMAT = 1

_PACKAGES = (
    "torch",
    "transformers",
    "tokenizers",
    "numpy",
    "scipy",
    "datasets",
    "faiss-cpu",
    "hydra-core",
    "rouge-score",
)
_SHARING = frozenset({"shards", "shard"})
_ROOT = Path(__file__).parent.parent


def build_manifest(pipeline: Pipeline | Replay, corpus: Corpus) -> dict[str, Any]:
    """Return the content of manifest.json."""
    settings = pipeline.settings
    config = resolved(asdict(settings), str(pipeline.device), dtype_name(pipeline.dtype))
    if not pipeline.replayed:
        # What was measured before there were replays stays the same run.
        del config["mode"]
    config["connector"]["max_nodes"] = pipeline.connector.max_nodes
    if pipeline.store is None:
        # A store that is not used cannot change a figure, so it must not make another run of the same thing.
        config["datastore"] = None
    else:
        # Nor can the number of jobs that have built it.
        config["datastore"] = {key: value for key, value in config["datastore"].items() if key not in _SHARING}
    return {
        "format": FORMAT,
        "created": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "command": sys.argv,
        "config": config,
        "hash": config_hash(config),
        "method": settings.method.name,
        "drafter": settings.drafter["name"],
        "verifier": settings.verifier["name"],
        "guarantee": pipeline.guarantee,
        "model": settings.model.name,
        "model_source": pipeline.model.source,
        "dataset": {
            "name": corpus.name,
            "source": corpus.source,
            "metric": settings.dataset.metric,
            "template": settings.dataset.template,
            "templates_version": TEMPLATES_VERSION,
        },
        "prompts": [example.id for example in corpus.examples],
        "fingerprints": {**pipeline.manifest(), "dataset": corpus.fingerprint},
        "device": config["device"],
        "dtype": config["dtype"],
        "seeds": {"decode": settings.decode.seed},
        "versions": _versions(),
        "git_commit": _git_commit(),
        "mode": settings.mode,
        "host": _host(torch.device("cpu") if pipeline.replayed else pipeline.device),
        "store_mb": _store_mb(pipeline),
        **pipeline.notes,
    }


def resolved(config: Mapping[str, Any], device: str, dtype: str) -> dict[str, Any]:
    """Return a configuration with what "auto" stands for here, so that figures of two machines never mix."""
    return {**config, "device": device, "dtype": dtype}


def _versions() -> dict[str, str]:
    found = {"python": platform.python_version()}
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def _git_commit() -> str | None:
    """Return the project's commit, marked if files differ from it; None outside a git checkout."""
    try:
        command = ["git", "describe", "--always", "--abbrev=40", "--dirty", "--exclude=*"]
        done = subprocess.run(command, cwd=_ROOT, capture_output=True, text=True, check=True, timeout=10)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()


def _host(device: torch.device) -> dict[str, Any]:
    return {
        "name": platform.node(),
        "system": platform.platform(),
        "cpu": _cpu_name(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "accelerator": torch.cuda.get_device_name(device) if device.type == "cuda" else None,
    }


def _cpu_name() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()


def _store_mb(pipeline: Pipeline | Replay) -> float | None:
    return None if pipeline.store is None else pipeline.store.nbytes / 2**20
