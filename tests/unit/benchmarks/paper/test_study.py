"""The compact form of runs, and tables from it that are the same byte for byte."""

from __future__ import annotations

import json
from io import StringIO
from pathlib import Path
from typing import Any, cast

import matplotlib as mpl
import pytest
from rich.console import Console

from benchmarks.paper.compact import prompt_figures, without_paths
from benchmarks.paper.items import ITEMS, write, write_texts
from benchmarks.paper.runs import Runs
from benchmarks.paper.study import collect, studies
from benchmarks.runner import run_benchmark
from corpora.corpus import Corpus
from tests.unit.benchmarks.conftest import FakePipeline
from tests.unit.benchmarks.paper.study import files_of, write_run

ROOT = Path(__file__).resolve().parents[4]
STUDIES = studies(ROOT / "results")
TEXTS = (".md", ".tex", ".csv")


@pytest.fixture(scope="module")
def study(results: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder: Path = tmp_path_factory.mktemp("study")
    collect([results], folder)
    return folder


def test_whole_runs_and_collected_ones_give_the_same_tables_byte_for_byte(
    results: Path, study: Path, tmp_path: Path
) -> None:
    for place, root in (("whole", results), ("collected", study)):
        runs = Runs.load([root])
        for name in ITEMS:
            write_texts(name, runs, tmp_path / place)
    whole = files_of(tmp_path / "whole")
    assert whole == files_of(tmp_path / "collected")
    assert {Path(file).stem for file in whole} == set(ITEMS)


def test_the_same_runs_give_the_same_pictures_byte_for_byte(tmp_path: Path) -> None:
    write_run(tmp_path / "results", "pld")
    write_run(tmp_path / "results", "sen", "soft_gated", "ood")
    collect([tmp_path / "results"], tmp_path / "study")
    drawn = [name for name, item in ITEMS.items() if item.draw is not None]
    # The users' own settings of matplotlib must not matter.
    with mpl.rc_context({"svg.hashsalt": None, "font.size": 20}):
        for name in drawn:
            write(name, Runs.load([tmp_path / "results"]), tmp_path / "whole")
    for name in drawn:
        write(name, Runs.load([tmp_path / "study"]), tmp_path / "collected")
    pictures = files_of(tmp_path / "whole", ".png", ".svg")
    assert pictures == files_of(tmp_path / "collected", ".png", ".svg")
    assert len(pictures) == 2 * len(drawn) == 16


def test_a_study_holds_no_text_no_token_and_no_path(study: Path) -> None:
    for name, content in files_of(study).items():
        text = content.decode("ascii")
        for word in ("must not be committed", "output_ids", "/home/", "/data/", "/models/", "a-machine"):
            assert word not in text, (name, word)


def test_collecting_twice_changes_nothing_and_a_collected_study_can_be_collected(study: Path, tmp_path: Path) -> None:
    collect([study], tmp_path / "again")
    assert files_of(tmp_path / "again") == files_of(study)


def test_the_figures_of_a_prompt(tmp_path: Path) -> None:
    sample = write_run(tmp_path, "sen", "soft_gated", "id").samples()[0]
    sample |= {"depth": [3, 1, 2], "committed": [2, 1, 2], "pathways": [[0, 1], [0], [0, 2]]}
    figures = prompt_figures(sample)
    assert (figures["deep"], figures["hit"], figures["pathways"]) == ([3, 2, 1], [3, 2, 0], [3, 1, 1, 0])
    assert figures["committed"] == 5
    assert prompt_figures({"id": "x", "status": "failed", "reason": "secret"}) == {"id": "x", "status": "failed"}


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("folder /data/sets/gsm8k", "folder .../gsm8k"),
        ("dataset.path=/data/x.jsonl", "dataset.path=.../x.jsonl"),
        ("~/models/tiny", ".../tiny"),
        ("hub openai/gsm8k (test)", "hub openai/gsm8k (test)"),
        ("https://huggingface.co/a/b", "https://huggingface.co/a/b"),
        ("1/2 and a/b", "1/2 and a/b"),
        ("C:/data/x", ".../x"),
    ],
)
def test_only_paths_are_cut(text: str, kept: str) -> None:
    assert without_paths({"a": [text]}) == {"a": [kept]}


def test_what_cannot_be_collected_is_refused(results: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="lies within"):
        collect([results], results / "mine")
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match="no finished run"):
        collect([tmp_path / "empty"], tmp_path / "out")


def test_a_damaged_file_is_named(study: Path, tmp_path: Path) -> None:
    (folder,) = collect([next(study.rglob("manifest.json")).parent], tmp_path / "one")
    prompts = folder / "prompts.jsonl"
    prompts.write_text(prompts.read_text(encoding="ascii")[:-9] + "\n", encoding="ascii")
    with pytest.raises(ValueError, match=r"prompts\.jsonl is damaged"):
        _ = Runs.load([tmp_path / "one"]).runs[0].prompts


def test_a_variant_stays_what_it_was_when_it_was_collected(study: Path) -> None:
    file = next(file for file in study.rglob("manifest.json") if '"verifier.k"' in file.read_text(encoding="ascii"))
    variant = json.loads(file.read_text(encoding="ascii"))["variant"]
    run = Runs.load([file.parent]).runs[0]
    assert run.variant == variant


def test_what_the_runner_leaves_behind_is_read_whole_and_collected(
    pipeline: FakePipeline, corpus: Corpus, tmp_path: Path
) -> None:
    """The real runner over outputs that are given; no file is written by the test itself."""
    outcome = run_benchmark(cast(Any, pipeline), corpus, Console(file=StringIO()))
    (folder,) = collect([Path(pipeline.settings.results_dir)], tmp_path / "study")
    (run,) = Runs.load([tmp_path / "study"]).runs
    assert folder.relative_to(tmp_path / "study") == outcome.folder.path.relative_to(tmp_path / "results" / "runs")
    assert (run.variant, run.lossy, len(run.prompts)) == ({}, False, 5)
    assert run.summary == outcome.summary
    shares = [entry["share"] for entry in outcome.summary["acceptance_by_depth"]]
    assert [hit / deep for hit, deep in zip(*_depths(run.prompts), strict=True)] == pytest.approx(shares)


def _depths(prompts: list[dict[str, Any]]) -> tuple[list[int], list[int]]:
    columns = [
        [sum(parts) for parts in zip(*(prompt[name] for prompt in prompts), strict=True)] for name in ("hit", "deep")
    ]
    return columns[0], columns[1]


@pytest.mark.skipif(not STUDIES, reason="no study is committed under results/")
def test_the_committed_tables_are_those_of_the_committed_runs(tmp_path: Path) -> None:
    for folder in STUDIES:
        committed = files_of(folder / "paper", *TEXTS)
        assert committed, f"{folder} has no tables: python -m scripts.paper all"
        published = any("published" in content.decode().partition("\n")[0] for content in committed.values())
        for name in dict.fromkeys(Path(file).stem for file in committed):
            write_texts(name, Runs.load([folder]), tmp_path / folder.name, published)
        assert files_of(tmp_path / folder.name, *TEXTS) == committed
