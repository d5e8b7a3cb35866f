"""Kill a sweep again and again at random moments, start it again, and compare with one that was let alone.

python -m benchmarks.micro.crash [KILLS] [SEED]

A tiny random model of its own, 6 jobs of 5 prompts. Killed is the command or its child, with SIGKILL. After the last
start every prompt of every job must be there exactly once, with the figures of the sweep that was never killed.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from time import perf_counter, sleep
from typing import Any, Final

from benchmarks.micro.tiny_model import save_tiny_model
from benchmarks.results import RunFolder
from corpora.loading import MINI

KILLS: Final = 20
METHODS: Final = "vanilla,pld,suffix,token_recycling,logitspec,sam"
PROMPTS: Final = 5
# What no clock decides: ids and everything that was counted.
COUNTED: Final = ("id", "status", "output_ids", "passes", "committed", "nodes", "accepted", "pathways", "score", "text")
ROOT: Final = Path(__file__).resolve().parents[2]

Figures = dict[str, list[dict[str, Any]]]


def main() -> int:
    """Return 0 if nothing was lost, doubled or changed, else 1."""
    kills, seed = (int(word) for word in (sys.argv[1:] + [str(KILLS), "0"][len(sys.argv) - 1 :]))
    with tempfile.TemporaryDirectory() as place:
        save_tiny_model(Path(place) / "tiny")
        whole, taken = uninterrupted(Path(place))
        deaths = killed(Path(place), kills, taken, random.Random(seed))
        same = figures(Path(place) / "killed") == whole
        samples = sum(len(counted) - 1 for counted in whole.values())  # the last of each is its summary
    sys.stdout.write(
        f"{deaths} kills in a sweep of {len(METHODS.split(','))} jobs x {PROMPTS} prompts ({taken:.0f} s alone): "
        f"{samples} samples, {'each once and as without kills' if same else 'NOT as without kills'}\n"
    )
    return int(not same)


def uninterrupted(place: Path, methods: str = METHODS) -> tuple[Figures, float]:
    """Return the figures of a sweep that is let alone, and how many seconds it took."""
    begun = perf_counter()
    code = _start(place, "whole", methods).wait()
    if code:
        raise RuntimeError(f"the sweep ended with exit code {code}: see above")
    return figures(place / "whole"), perf_counter() - begun


def killed(place: Path, kills: int, taken: float, rng: random.Random, methods: str = METHODS) -> int:
    """Kill a sweep so often, then let it end; return the kills.

    One in four comes at any moment of the time that the sweep takes alone, which is mostly its start; the others within
    a second after a sample was written.

    A sweep that has ended before its turn to be killed is begun anew from a part of its samples, torn in the middle of
    a line, as a kill would leave it.
    """
    deaths = 0
    while deaths < kills:
        process = _start(place, "killed", methods)
        _let_work(process, place / "killed", taken, rng)
        if process.poll() is not None:
            _tear(place / "killed", rng)
            continue
        victims = [process.pid, *_children(process.pid)]
        os.kill(rng.choice(victims), signal.SIGKILL)
        deaths += 1
        process.kill()
        process.wait()
    code = _start(place, "killed", methods).wait()
    if code:
        raise RuntimeError(f"the last start ended with exit code {code}: see above")
    return deaths


def _let_work(process: subprocess.Popen[bytes], results: Path, taken: float, rng: random.Random) -> None:
    if rng.random() < 0.25:
        sleep(rng.uniform(0.2, taken))
        return
    before = _written(results)
    while process.poll() is None and _written(results) <= before:
        sleep(0.01)
    sleep(rng.uniform(0, 1))


def _written(results: Path) -> int:
    return sum(file.stat().st_size for file in results.glob("runs/*/*/*/samples.jsonl"))


def figures(results: Path) -> Figures:
    """Return by method what was counted of every prompt, in the order of the ids; a doubled prompt raises."""
    found: Figures = {}
    for run in sorted(results.glob("runs/*/*/*")):
        samples = sorted(RunFolder(run).samples(), key=lambda sample: str(sample["id"]))
        summary = json.loads((run / "summary.json").read_bytes())
        counted = [{key: sample[key] for key in COUNTED} for sample in samples]
        found[run.name] = [*counted, {key: summary[key] for key in ("n", "failed", "tokens", "passes", "tau")}]
    return found


def _start(place: Path, results: str, methods: str) -> subprocess.Popen[bytes]:
    words: Sequence[str] = (
        f"method={methods}",
        f"model.path={place / 'tiny'}",
        f"dataset.path={MINI / 'gsm8k'}",
        f"dataset.num_samples={PROMPTS}",
        "decode.max_new_tokens=48",
        "device=cpu",
        "dtype=float32",
        f"cache_dir={place / 'cache'}",
        f"results_dir={place / results}",
    )
    return subprocess.Popen([sys.executable, "run.py", "-m", *words], cwd=ROOT, stdout=subprocess.DEVNULL)


def _children(pid: int) -> list[int]:
    tasks = Path(f"/proc/{pid}/task/{pid}/children")
    return [int(child) for child in tasks.read_text(encoding="ascii").split()] if tasks.is_file() else []


def _tear(results: Path, rng: random.Random) -> None:
    for run in results.glob("runs/*/*/*"):
        content = (run / "samples.jsonl").read_bytes()
        (run / "samples.jsonl").write_bytes(content[: rng.randrange(len(content))])
        (run / "summary.json").unlink(missing_ok=True)


if __name__ == "__main__":
    sys.exit(main())
