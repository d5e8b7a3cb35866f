"""Sweeps of a tiny model through the real assembly, in this process."""

from __future__ import annotations

import gc
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from benchmarks.runner import Outcome
from benchmarks.together import Together
from corpora.loading import load_corpus
from methods.memory import rss_mb
from methods.pipeline import load_pipeline
from methods.schema import Settings
from methods.settings import compose
from primitives.registry import DRAFTERS
from tests.unit.methods.conftest import save_small, small_run

METHODS = ("vanilla", "suffix", "token_recycling", "sense_without_se", "dresd", "rest", "pld", "sam", "union")
FIGURES = ("output_ids", "passes", "committed", "nodes", "pathways", "drafted_by", "accepted", "status", "score")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sweeps")
    save_small(folder)
    return folder


def _job(place: Path, method: str, results: str, *changes: str) -> Settings:
    words = small_run(method, place / "tiny", place / "rows", place)
    return compose([*(word for word in words if "results_dir" not in word), f"results_dir={place / results}", *changes])


def _sweep(jobs: Sequence[Settings]) -> list[Outcome]:
    together = Together()
    together.expect(jobs, frozenset())
    return [together(job) for job in jobs]


def _figures(outcome: Outcome) -> list[dict[str, Any]]:
    return [{key: sample[key] for key in ("id", *FIGURES)} for sample in outcome.folder.read()]


def test_results_do_not_depend_on_the_order_of_the_jobs_nor_on_being_together(place: Path) -> None:
    jobs = [_job(place, method, "forward") for method in METHODS]
    forward = {outcome.manifest["method"]: _figures(outcome) for outcome in _sweep(jobs)}
    backward = [_job(place, method, "backward") for method in reversed(METHODS)]
    assert {outcome.manifest["method"]: _figures(outcome) for outcome in _sweep(backward)} == forward
    for method in METHODS[:3]:
        assert _figures(_sweep([_job(place, method, "alone")])[0]) == forward[method]


def test_a_stopped_run_of_a_drafter_that_learns_goes_on_as_if_it_had_not_been_stopped(place: Path) -> None:
    for method in ("suffix", "token_recycling"):
        whole = _sweep([_job(place, method, "whole", "dataset.num_samples=3")])[0]
        torn = _sweep([_job(place, method, "torn", "dataset.num_samples=3")])[0]
        lines = (torn.folder.path / "samples.jsonl").read_bytes().splitlines(keepends=True)
        (torn.folder.path / "samples.jsonl").write_bytes(b"".join(lines[:2]) + lines[2][:40])
        (torn.folder.path / "summary.json").unlink()
        again = _sweep([_job(place, method, "torn", "dataset.num_samples=3")])[0]
        assert _figures(again) == _figures(whole)


def test_twelve_jobs_leave_as_much_memory_as_two(place: Path) -> None:
    held = []
    for number in range(12):
        _sweep([_job(place, ("sense_without_se", "suffix")[number % 2], "twelve", f"decode.seed={number}")])
        gc.collect()
        held.append(rss_mb())
    second, twelfth = held[1], held[11]
    if second is None or twelfth is None:
        pytest.skip("this system does not tell how much memory a process holds")
    assert twelfth <= second * 1.1


def test_one_baseline_is_written_into_the_lines_of_all_jobs(place: Path) -> None:
    outcomes = _sweep([_job(place, method, "shared", "decode.max_new_tokens=12") for method in METHODS[:4]])
    baselines = [[sample["baseline"]["decode_ms"] for sample in outcome.folder.read()] for outcome in outcomes]
    assert all(times == baselines[0] for times in baselines)
    assert all(json.loads((outcome.folder.path / "summary.json").read_bytes())["speedup"] for outcome in outcomes)


@pytest.mark.parametrize("drafter", DRAFTERS.names())
def test_a_drafter_says_whether_it_learns_from_text_to_text(place: Path, drafter: str) -> None:
    words = small_run("vanilla", place / "tiny", place / "rows", place)
    try:
        pipeline = load_pipeline(*words, f"drafter={drafter}", "datastore=id")
    except ValueError as error:
        pytest.skip(str(error))
    examples = load_corpus(pipeline.settings.dataset, "test").examples
    prompts = [pipeline.encode(example.instruction) for example in examples[:2]]

    def passes(prompt: list[int]) -> list[tuple[int, int]]:
        generation = pipeline.connector.generate(prompt, pipeline.settings.decode)
        return [(record.nodes, record.committed) for record in generation.trace.passes]

    first = passes(prompts[0])
    passes(prompts[1])
    if not pipeline.connector.drafter.remembers:
        assert passes(prompts[0]) == first
