"""How long a sweep may take, by finished runs of the same models on the same kind of machine."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.results import safe_name
from corpora.loading import load_corpus
from methods.schema import Settings
from primitives.models.device import dtype_name, resolve_device, resolve_dtype


def estimate(jobs: Sequence[Settings]) -> str:
    """Return a sentence: the number of jobs, and how many minutes of decoding they take if runs tell.

    A job takes a baseline's share and its own time, every prompt to the full budget; what is finished already is not
    looked for, and no store is counted that has to be built.
    """
    seconds, unknown = 0.0, set()
    baselines = set()
    for job in jobs:
        if job.mode == "replay":
            continue
        runs = list(_runs(job))
        prompts = job.dataset.num_samples or len(load_corpus(job.dataset, "test"))
        tokens = prompts * job.decode.max_new_tokens
        plain = [summary["ms_per_token"]["baseline"] for _, summary in runs]
        own = [summary["ms_per_token"]["method"] for method, summary in runs if method == job.method.name]
        if not plain:
            unknown.add(job.model.name)
            continue
        seconds += median(own or plain) * tokens / 1e3
        if (triple := repr((job.model, job.dataset, job.decode))) not in baselines:
            baselines.add(triple)
            seconds += median(plain) * tokens / 1e3
    title = f"{len(jobs)} jobs"
    if unknown:
        return f"{title}: how long they take can be told after the first finished run of {', '.join(sorted(unknown))}"
    minutes = max(1, round(seconds / 60))
    return f"{title}: about {minutes} min of decoding by finished runs; loading, stores and warm-up come on top"


def _runs(job: Settings) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield method and summary of the finished runs of the job's model with its device and number format."""
    device = resolve_device(job.device)
    made_with = (str(device), dtype_name(resolve_dtype(job.dtype, device)))
    for file in Path(job.results_dir).expanduser().glob(f"runs/*/{safe_name(job.model.name)}/*/summary.json"):
        try:
            manifest = json.loads((file.parent / "manifest.json").read_bytes())
            summary = json.loads(file.read_bytes())
            told = (manifest["device"], manifest["dtype"]) == made_with and summary["ms_per_token"]["baseline"]
        except (ValueError, KeyError, OSError):
            continue  # a damaged run tells nothing here; the job that comes to it says so
        if told:
            yield manifest["method"], summary
