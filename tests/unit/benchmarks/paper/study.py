"""Result folders without a model: the samples are drawn, the rest is made by the code that makes it in a run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from omegaconf import OmegaConf

from benchmarks.measure import without_times
from benchmarks.results import RunFolder, config_hash
from benchmarks.summary import summarise
from methods.schema import CONF_DIR

METRICS = {"gsm8k": "number_accuracy", "codealpaca": "rouge_l", "ultrachat": "rouge_l", "triviaqa": "answer_accuracy"}
SIZES = {
    "disk": 60.0,
    "index_on_disk": 20.0,
    "ram": 50.0,
    "metadata": 40.0,
    "cache": 2.0,
    "rss_baseline": 800.0,
    "rss_delta": 30.0,
    "rss_peak": 900.0,
}


def write_run(
    results: Path,
    drafter: str,
    verifier: str = "exact",
    store: str | None = None,
    *,
    dataset: str = "gsm8k",
    model: str = "tiny",
    prompts: int = 6,
    speed: float = 2.0,
    quality: float = 0.8,
    changes: Mapping[str, Any] | None = None,
    seed: int = 0,
    source: str = "folder /data/sets/gsm8k",
    replay: bool = False,
) -> RunFolder:
    """Write a finished run whose speedup is near `speed`, and whose quality near `quality`, plain decoding's 0.8.

    A replay has no times.
    """
    config = _config(drafter, verifier, changes or {}) | ({"mode": "replay"} if replay else {})
    config |= {"model": {"name": model, "path": "/models/tiny"}, "dataset": {"name": dataset}, "store": store}
    rng = np.random.default_rng([seed, *map(ord, f"{drafter}{verifier}{store}{dataset}{config_hash(config)}")])
    ids = [f"test-{index:05d}" for index in range(prompts)]
    manifest = {
        "format": 1,
        "created": "2026-01-02T03:04:05+00:00",
        "command": ["/home/someone/atomsd/run.py", f"method={drafter}", "dataset.path=/data/sets/gsm8k"],
        "config": config,
        "hash": config_hash(config),
        "method": drafter,
        "drafter": drafter,
        "verifier": verifier,
        "guarantee": "exact" if verifier == "exact" else "lossy",
        "model": model,
        "dataset": {
            "name": dataset,
            "source": source,
            "metric": METRICS.get(dataset.removesuffix("-mini"), "number_accuracy"),
            "template": "problem",
            "templates_version": 1,
        },
        "prompts": ids,
        "fingerprints": {"model": "m"},
        "device": "cpu",
        "dtype": "float32",
        "mode": "replay" if replay else "measure",
        "host": {"name": "a-machine", "cores": 2},
    }
    if store is not None:
        manifest["datastore"] = {"kind": store, "source": source, "prompts": 12, "overlap": 0, "sizes_mb": SIZES}
    folder = RunFolder.locate(results, dataset, model, drafter, config)
    folder.begin(manifest, resume=False)
    for name in ids:
        sample = _sample(name, rng, speed, quality)
        folder.append(without_times(sample) if replay else sample)
    folder.finish(summarise(manifest, folder.samples()))
    return folder


def write_study(results: Path, model: str = "tiny") -> None:
    """Write all runs of Tables 1 to 11 that have a configuration, the grid's corners, and one more lossy verifier."""
    for name in METRICS:
        write_run(results, "none", dataset=name, model=model, speed=1.0)
        write_run(results, "pld", dataset=name, model=model, speed=1.5)
        for store, drafter in product(("ood", "id"), ("rest", "dresd")):
            write_run(results, drafter, store=store, dataset=name, model=model, speed=1.7)
        for store in ("ood", "id"):
            write_run(results, "sen", "soft_gated", store, dataset=name, model=model, speed=3.0, quality=0.7)
            write_run(results, "sen", "exact", store, dataset=name, model=model, speed=2.2)
            hit = {"drafter.require_hit": True}
            write_run(results, "sen", "soft_gated", store, dataset=name, model=model, speed=2.5, changes=hit)
        for verifier in ("fly", "arc", "mars"):
            write_run(results, "sen", verifier, "id", dataset=name, model=model, speed=2.4, quality=0.78)
    for theta, window, k in product((0.01, 0.3), (5, 9), (2, 10)):
        knobs = {"verifier.theta_e": theta, "verifier.w": window, "verifier.k": k}
        speed = 2 + k / 5 - theta * 3
        write_run(results, "sen", "soft_gated", "id", model=model, speed=speed, quality=1 - k / 20, changes=knobs)


def files_of(folder: Path, *endings: str) -> dict[str, bytes]:
    """Return the content of the files below a folder, by their path in it."""
    return {
        file.relative_to(folder).as_posix(): file.read_bytes()
        for file in sorted(folder.rglob("*"))
        if file.is_file() and (not endings or file.suffix in endings)
    }


def _config(drafter: str, verifier: str, changes: Mapping[str, Any]) -> dict[str, Any]:
    config: dict[str, Any] = {
        "drafter": OmegaConf.to_container(OmegaConf.load(CONF_DIR / "drafter" / f"{drafter}.yaml")),
        "verifier": OmegaConf.to_container(OmegaConf.load(CONF_DIR / "verifier" / f"{verifier}.yaml")),
        "connector": {"max_nodes": 24, "layout": "tree"},
        "decode": {"max_new_tokens": 32, "temperature": 0.0},
        "device": "cpu",
        "dtype": "float32",
    }
    for key, value in changes.items():
        section, _, knob = key.partition(".")
        config[section][knob] = value
    return config


def _sample(name: str, rng: np.random.Generator, speed: float, quality: float) -> dict[str, Any]:
    passes = list(_passes(rng, speed))
    committed = [entry["committed"] for entry in passes]
    tokens = sum(committed) + 1
    columns = {key: [entry[key] for entry in passes] for key in passes[0]}
    spent = sum(sum(columns[f"{part}_ms"]) for part in ("draft", "verify", "judge", "commit"))
    return {
        "id": name,
        "status": "ok",
        "prompt_tokens": 9,
        "tokenise_ms": 0.1,
        **_output(rng, tokens, spent, len(passes), quality),
        **columns,
        "lossless": None,
        "peak_rss_mb": 100.0,
        "baseline": _output(rng, tokens, tokens * 10.0, tokens - 1, 0.8),
    }


def _passes(rng: np.random.Generator, speed: float) -> Iterator[dict[str, Any]]:
    for _ in range(8):
        committed = 1 + int(rng.poisson(1.1 * (speed - 1)))
        depth = committed + int(rng.integers(0, 3)) if speed > 1 else 1
        tokens = depth * 3
        yield {
            "candidates": 3,
            "candidate_tokens": tokens,
            "proposed_nodes": tokens - depth,
            "nodes": tokens - depth,
            "depth": depth,
            "proposed": tokens - depth,
            "accepted": committed - 1,
            "committed": committed,
            "pathways": [0, *rng.integers(0, 3, committed - 1).tolist()],
            "drafted_by": ["", *["sen"] * (committed - 1)],
            "draft_ms": float(rng.uniform(0.2, 0.6)),
            "verify_ms": float(rng.uniform(9, 12)),
            "judge_ms": float(rng.uniform(0.1, 0.3)),
            "commit_ms": float(rng.uniform(0.1, 0.2)),
        }


def _output(rng: np.random.Generator, tokens: int, ms: float, passes: int, quality: float) -> dict[str, Any]:
    return {
        "output_ids": rng.integers(0, 50, tokens).tolist(),
        "text": "a text that must not be committed",
        "finish": "length",
        "passes": passes,
        "prefill_ms": 5.0,
        "decode_ms": ms,
        "score": float(rng.random() < quality),
        "no_answer": False,
        "contains_answer": 1.0,
    }
