from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from benchmarks.recording import flat_trees, recorded
from benchmarks.results import config_hash
from benchmarks.runner import run_benchmark
from connectors.trace import Generation, Trace, VerifiedTree
from corpora.corpus import Corpus

Make = Callable[..., Generation]


def test_trees_are_laid_one_after_the_other() -> None:
    fork = VerifiedTree(np.array([7, 5, 6]), np.array([-1, -1, 1]), np.array([1, 3, 2]), 5, np.array([1, 2]))
    alone = VerifiedTree(np.array([9]), np.array([-1]), None, 9, np.array([0]))
    assert flat_trees(Trace(trees=[fork, alone], sources=("rest", "pld"))) == {
        "sources": ["rest", "pld"],
        "tokens": [7, 5, 6, 9],
        "parents": [-1, -1, 1, -1],
        "pending": [1, 0],
        "drafted_by": [1, 3, 2, 3],
        "paths": [1, 2, 0],
    }


def test_a_single_drafter_needs_no_bits_and_no_pass_no_tree() -> None:
    alone = VerifiedTree(np.array([9]), np.array([-1]), None, 9, np.array([0]))
    assert flat_trees(Trace(trees=[alone], sources=("pld",)))["drafted_by"] is None
    assert flat_trees(Trace())["tokens"] == []


def test_a_line_tells_text_by_tokens_and_trees(pipeline: Any, corpus: Corpus) -> None:
    sample = run_benchmark(pipeline, corpus).folder.samples()[0]
    assert sum(sample["pieces"]) == len(sample["text"])
    assert sum(sample["baseline"]["pieces"]) == len(sample["baseline"]["text"])
    assert len(sample["trees"]["tokens"]) == len(sample["trees"]["parents"]) == sum(sample["nodes"])
    assert len(sample["trees"]["paths"]) == sum(sample["committed"])
    assert {str(token) for token in sample["trees"]["tokens"]} <= sample["token_texts"].keys()
    assert sample["token_texts"]["2"] == " w2"


def test_without_trees_the_figures_and_the_folder_stay_the_same(pipeline: Any, corpus: Corpus) -> None:
    whole = run_benchmark(pipeline, corpus)
    pipeline.settings.record_trees = pipeline.settings.resume = False
    short = run_benchmark(pipeline, corpus)
    assert short.folder == whole.folder
    figures = whole.summary.keys() - {"memory_mb", "tokenise_ms"}
    assert {key: short.summary[key] for key in figures} == {key: whole.summary[key] for key in figures}
    assert all(sample["trees"] is None for sample in short.folder.samples())


def test_only_trees_need_the_texts_of_visible_tokens(pipeline: Any, make_generation: Make) -> None:
    tokenizer, done = pipeline.model.tokenizer, make_generation([1, 2], [2])
    done = replace(done, text=" w1")
    ours, _ = recorded(tokenizer, tokenizer.decode, [done], [done], with_trees=False)
    assert ours == {"pieces": [3, 0], "token_texts": {2: " w2"}, "trees": None}
    assert json.loads(json.dumps(ours))["token_texts"] == {"2": " w2"}


def test_each_turn_keeps_its_own_text(pipeline: Any, make_generation: Make) -> None:
    tokenizer = pipeline.model.tokenizer
    turns = [replace(make_generation([1, 2], [1]), text=" w"), replace(make_generation([3], []), text=" w3")]
    ours, theirs = recorded(tokenizer, tokenizer.decode, turns, turns[1:], with_trees=True)
    assert (ours["pieces"], theirs["pieces"]) == ([2, 0, 3], [3])
    assert ours["trees"]["paths"] == [0]


def test_the_switch_is_an_output_option() -> None:
    assert config_hash({"a": 1, "record_trees": True}) == config_hash({"a": 1, "record_trees": False})
