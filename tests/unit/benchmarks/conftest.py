"""A pipeline without a model: outputs, times and failures of each prompt are given."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from connectors.settings import ConnectorSettings, DecodeSettings
from connectors.trace import Generation, PassRecord, Trace, VerifiedTree
from corpora.corpus import Corpus
from corpora.example import Example
from corpora.settings import DatasetSettings

VOCABULARY = 50


def record(committed: int, **changes: Any) -> PassRecord:
    values = {
        "candidates": 2,
        "candidate_tokens": 8,
        "proposed_nodes": 6,
        "nodes": 5,
        "depth": 4,
        "proposed": 4,
        "accepted": committed - 1,
        "committed": committed,
        "pathways": [0] * committed,
        "drafted_by": ["", *["pld"] * (committed - 1)],
        "draft_ms": 1.0,
        "verify_ms": 8.0,
        "judge_ms": 0.5,
        "commit_ms": 0.5,
    }
    return PassRecord(**{**values, **changes})


def tree(record: PassRecord) -> VerifiedTree:
    """The tree of a pass: a chain of the tokens 1, 2, ..., committed from its start."""
    nodes = np.arange(record.nodes)
    return VerifiedTree(nodes + 1, nodes - 1, None, 1, nodes[: record.committed])


def generation(ids: Sequence[int], committed: Sequence[int], text: str = "", **changes: Any) -> Generation:
    """A generation whose passes take 10 ms each, after a prefill of 5 ms."""
    passes = [record(count, **changes) for count in committed]
    trace = Trace(5.0, passes=passes, trees=[tree(entry) for entry in passes], sources=("pld",))
    return Generation(list(ids), text or f"Final Answer: {ids[-1]}", "length", trace)


@dataclass
class FakeSettings:
    results_dir: str
    cache_dir: str | None = None
    resume: bool = True
    record_trees: bool = True
    method: Any = field(default_factory=lambda: _Method())
    drafter: dict[str, Any] = field(default_factory=lambda: {"name": "pld"})
    verifier: dict[str, Any] = field(default_factory=lambda: {"name": "exact"})
    model: Any = field(default_factory=lambda: _Model())
    dataset: DatasetSettings = field(default_factory=lambda: DatasetSettings(template="chat"))
    connector: ConnectorSettings = field(default_factory=ConnectorSettings)
    decode: DecodeSettings = field(default_factory=lambda: DecodeSettings(max_new_tokens=6))
    mode: str = "measure"
    device: str = "auto"
    dtype: str = "auto"


@dataclass
class _Method:
    name: str = "pld"


@dataclass
class _Model:
    name: str = "tiny"


class FakeConnector:
    """Answers a prompt with what `answers` holds for it: a generation, or an error to raise.

    Args:
        name: what is written into `calls`.
        answers: by the prompt's first id.
        calls: (name, first id, budget) of each call, in order.
    """

    def __init__(
        self, name: str, answers: dict[int, Generation | BaseException], calls: list[tuple[str, int, int]]
    ) -> None:
        self.max_nodes = 24
        self.drafter = SimpleNamespace(remembers=False)
        self.name = name
        self.answers = answers
        self.calls = calls
        self.decode = FakeTokenizer().decode

    def generate(self, prompt: Sequence[int], settings: DecodeSettings) -> Generation:
        self.calls.append((self.name, prompt[0], settings.max_new_tokens))
        answer = self.answers[prompt[0]]
        if isinstance(answer, BaseException):
            raise answer
        return answer


class FakeTokenizer:
    """Writes each id as a word of its own."""

    def convert_ids_to_tokens(self, ids: Sequence[int]) -> list[str]:
        return [f"w{token}" for token in ids]

    def decode(self, ids: Sequence[int], **_: Any) -> str:
        return "".join(f" w{token}" for token in ids)


class FakeModel:
    """Logits whose best token is always the next id."""

    device = torch.device("cpu")
    dtype = torch.bfloat16

    def __call__(self, ids: torch.Tensor, use_cache: bool) -> Any:
        assert not use_cache
        rows = torch.nn.functional.one_hot((ids + 1) % VOCABULARY, VOCABULARY).to(torch.bfloat16) * 20
        return SimpleNamespace(logits=rows)


class FakePipeline:
    guarantee = "exact"
    store = None
    device = torch.device("cpu")
    dtype = torch.bfloat16
    replayed = False

    def __init__(self, results_dir: Path) -> None:
        self.notes = {"load_seconds": {"model": 0.5, "store": 0.0}}
        self.settings = FakeSettings(str(results_dir), str(results_dir.parent / "cache"))
        self.model = SimpleNamespace(model=FakeModel(), source="made up", tokenizer=FakeTokenizer())
        self.calls: list[tuple[str, int, int]] = []
        self.earlier: list[tuple[str, list[tuple[str, str]]]] = []
        self.connector = FakeConnector("method", {}, self.calls)
        self.baseline = FakeConnector("baseline", {}, self.calls)
        self.fingerprints = {"model": "m1", "tokenizer": "t1", "datastore": None}

    def spare(self) -> FakeConnector:
        return FakeConnector("spare", self.connector.answers, self.calls)

    def encode(self, text: str, earlier: Sequence[tuple[str, str]] = ()) -> list[int]:
        self.earlier.append((text, list(earlier)))
        return [int(text), 0]

    def manifest(self) -> dict[str, Any]:
        return dict(self.fingerprints)

    def set(self, prompt: int, method: Generation | BaseException, baseline: Generation | BaseException) -> None:
        self.connector.answers[prompt] = method
        self.baseline.answers[prompt] = baseline


@pytest.fixture
def make_generation() -> Callable[..., Generation]:
    return generation


@pytest.fixture
def corpus() -> Corpus:
    """Five prompts, "0" to "4"; the gold answer of each is 6."""
    examples = [Example(f"test-{i}", str(i), "6", ("6",)) for i in range(5)]
    return Corpus(examples, "gsm8k-mini", "a small set of the project's own writing")


@pytest.fixture
def pipeline(tmp_path: Path) -> FakePipeline:
    """Both sides answer 1 2 3 4 5 6, the method in two passes of 10 ms and the baseline in five."""
    fake = FakePipeline(tmp_path / "results")
    for prompt in range(5):
        fake.set(prompt, generation(range(1, 7), [3, 2]), generation(range(1, 7), [1] * 5, nodes=1, proposed=0))
    return fake
