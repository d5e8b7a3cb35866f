"""Studies: finished runs gathered in their compact form, in a folder that can be committed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from benchmarks.paper.compact import compact_manifest, write_compact
from benchmarks.paper.runs import Run, Runs
from benchmarks.results import safe_name

# Folders of results_dir that hold no study: whole runs, and what Hydra writes.
_OTHERS: Final = frozenset({"runs", "hydra"})


def collect(roots: Sequence[Path], out: Path) -> list[Path]:
    """Write the compact form of every finished run under some folders, and return their new folders.

    Layout: ``out/<dataset>/<model>/<method>-<hash>/``.

    Raises:
        ValueError: no finished run, a damaged file, or an `out` that lies among the runs.
    """
    for root in roots:
        if out.resolve() == root.resolve() or root.resolve() in out.resolve().parents:
            raise ValueError(f"out={out} lies within {root}, whose runs it would repeat; give a folder outside it")
    runs = Runs.load(roots).runs
    if not runs:
        raise ValueError(f"there is no finished run under {', '.join(map(str, roots))}; run.py makes them")
    return [_write(run, out) for run in runs]


def studies(results: Path) -> list[Path]:
    """Return the folders of a results folder that hold compact runs."""
    folders = sorted(folder for folder in results.iterdir() if folder.is_dir()) if results.is_dir() else []
    return [folder for folder in folders if folder.name not in _OTHERS and any(folder.rglob("manifest.json"))]


def _write(run: Run, out: Path) -> Path:
    manifest = run.manifest
    leaf = f"{safe_name(manifest['method'])}-{run.hash}"
    folder = out / safe_name(run.dataset) / safe_name(manifest["model"]) / leaf
    write_compact(folder, compact_manifest(manifest, run.variant), run.summary, run.lines)
    return folder
