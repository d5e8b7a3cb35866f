"""What result files cost: seconds to load many samples, and the share of a run that writing them takes.

python -m benchmarks.micro.result_files [results_dir=FOLDER]

Without a folder the lines are made up: 128 tokens in 50 passes each. With one, its finished runs tell how long a
prompt takes, and their own lines are written again.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from statistics import median
from time import perf_counter, process_time
from typing import Any, Final

import numpy as np

from benchmarks.measure import LAP_DIGITS
from benchmarks.micro.rig import console
from benchmarks.results import RunFolder
from methods.memory import rss_mb

LINES: Final = 100_000
WRITTEN: Final = 200
TOKENS: Final = 128
PASSES: Final = 50
COUNTS: Final = ("candidates", "candidate_tokens", "proposed_nodes", "nodes", "depth", "proposed", "accepted")
LAPS: Final = ("draft_ms", "verify_ms", "judge_ms", "commit_ms")

Sample = dict[str, Any]


def main() -> int:
    """Measure loading and writing; exit code 2 for a word that is no results_dir."""
    words = [word.partition("=") for word in sys.argv[1:]]
    if any(key != "results_dir" for key, _, _ in words):
        sys.stderr.write(f"{__doc__}\n")
        return 2
    with tempfile.TemporaryDirectory() as place:
        _loading(RunFolder(Path(place) / "many"))
        runs = [run for _, _, folder in words for run in sorted(Path(folder).glob("runs/*/*/*"))]
        for index, (name, samples) in enumerate(map(_of_run, runs) if runs else [("made up", [_made_up(0)])]):
            _writing(RunFolder(Path(place) / f"writing-{index}"), name, samples)
    return 0


def _loading(folder: RunFolder) -> None:
    folder.path.mkdir()
    for number in range(300):
        folder.append(_made_up(number))
    lines = (folder.path / "samples.jsonl").read_bytes().splitlines(keepends=True)
    with (folder.path / "samples.jsonl").open("wb") as file:
        for number in range(LINES):
            file.write(lines[number % 300].replace(f"made-{number % 300:06d}".encode(), f"made-{number:06d}".encode()))
    size = (folder.path / "samples.jsonl").stat().st_size
    console.print(f"{LINES:,} samples of {TOKENS} tokens in {PASSES} passes, {size / 2**20:,.0f} MB")
    _timed("read one by one", lambda: sum(sample["passes"] for sample in folder.read()))
    _timed("read and all kept", folder.samples)


def _timed(title: str, load: Callable[[], object]) -> None:
    """Print the seconds of a load, also those of this process alone: on a shared machine the clock sees the others."""
    before, begun, worked = rss_mb(), perf_counter(), process_time()
    kept = load()
    taken, work, after = perf_counter() - begun, process_time() - worked, rss_mb()
    memory = "" if before is None or after is None else f", {after - before:,.0f} MB more in memory"
    console.print(f"{title}: {work:.2f} s of work, {taken:.2f} s by the clock{memory}")
    del kept


def _writing(folder: RunFolder, name: str, samples: list[Sample]) -> None:
    folder.path.mkdir()
    taken = []
    for number in range(WRITTEN):
        begun = perf_counter()
        folder.append({**samples[number % len(samples)], "id": str(number)})
        taken.append((perf_counter() - begun) * 1e3)
    sides = [(sample, sample["baseline"]) for sample in samples]
    both = median(sum(side["decode_ms"] + side["prefill_ms"] for side in pair) for pair in sides)
    console.print(
        f"{name}: a line takes {median(taken):.2f} ms (99 %: {np.percentile(taken, 99):.2f} ms), a prompt "
        f"{both:,.0f} ms by both sides: {median(taken) / both:.2%} of a run, the disk waited for"
    )


def _of_run(path: Path) -> tuple[str, list[Sample]]:
    samples = [sample for sample in RunFolder(path).samples() if sample["status"] == "ok"]
    if not samples:
        raise ValueError(f"{path} holds no finished prompt: leave it out")
    return os.fspath(path.relative_to(path.parents[2])), samples


def _made_up(number: int) -> Sample:
    """Return a sample of the usual size: 35 ms a pass, and as much for each token of plain decoding."""
    rng = np.random.default_rng(number)
    ids = rng.integers(0, 50_000, TOKENS).tolist()
    output = {"output_ids": ids, "text": "some words " * 50, "finish": "length", "prefill_ms": 81.25}
    return {
        "id": f"made-{number:06d}",
        "status": "ok",
        "prompt_tokens": 100,
        **output,
        "passes": PASSES,
        "decode_ms": PASSES * 35.0,
        **{name: rng.integers(1, 30, PASSES).tolist() for name in COUNTS},
        "committed": [3] * PASSES,
        "pathways": [[0, 0, 0]] * PASSES,
        "drafted_by": [["", "sen", "sen"]] * PASSES,
        **{name: (rng.random(PASSES) * 35).round(LAP_DIGITS).tolist() for name in LAPS},
        "score": 1.0,
        "baseline": {**output, "passes": TOKENS - 1, "decode_ms": TOKENS * 35.0, "score": 1.0},
    }


if __name__ == "__main__":
    sys.exit(main())
