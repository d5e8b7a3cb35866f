"""Variants side by side, with given outputs: no model and no clock."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from benchmarks import paired
from connectors.trace import Generation
from corpora.corpus import Corpus
from methods.schema import Settings


@pytest.fixture
def table(
    pipeline: Any, corpus: Corpus, make_generation: Callable[..., Generation], monkeypatch: pytest.MonkeyPatch
) -> Any:
    """The baseline takes five passes a prompt; "joined" takes two, "lost" drafts nothing that is accepted."""
    joined = make_generation(range(1, 7), [3, 2])
    for record, by in zip(joined.trace.passes, (["", "sen+pld", "sen"], ["", "pld"]), strict=True):
        record.drafted_by = by
    lost = make_generation(range(1, 7), [1] * 5, proposed=0, nodes=1, depth=1, candidate_tokens=0, proposed_nodes=0)
    outputs = {"joined": joined, "lost": lost}

    def connect(settings: str, *_: Any) -> Any:
        side = type(pipeline.connector)(settings, dict.fromkeys(range(5), outputs[settings]), [])
        side.verifier = SimpleNamespace(guarantee="lossy")
        return side

    monkeypatch.setattr(paired, "connect", connect)
    pipeline.baseline.verifier = SimpleNamespace(guarantee="lossy")
    pipeline.target = None
    variants = cast("dict[str, Settings]", {name: name for name in outputs})
    return paired.compare(pipeline, variants, corpus).set_index("variant")


def test_passes_of_each_variant(table: Any) -> None:
    assert table.loc["joined", ["tau", "nodes_per_pass", "ms_draft", "empty_drafts"]].tolist() == [2.5, 5.0, 1.0, 0.0]
    assert table.loc["joined", "compression"] == pytest.approx(1 - 6 / 8)
    assert table.loc["lost", ["tau", "nodes_per_pass", "empty_drafts"]].tolist() == [1.0, 1.0, 1.0]
    assert table.loc["lost", ["compression"]].isna().all()
    assert table.loc["joined", "overhead"] == pytest.approx(2 / 8)
    assert table.loc["joined", "speedup"] == pytest.approx(50 / 20)


def test_acceptance_by_depth_ends_where_the_trees_do(table: Any) -> None:
    depths = [f"depth_{depth}" for depth in range(1, 9)]
    assert table.loc["joined", depths[:4]].tolist() == [1.0, 1.0, 0.5, 0.0]
    assert table.loc["joined", depths[4:]].isna().all()
    assert table.loc["lost", "depth_1"] == 1.0


def test_shares_of_the_drafters_overlap_where_they_agree(table: Any) -> None:
    assert table.loc["joined", ["by_sen", "by_pld"]].tolist() == pytest.approx([2 / 3, 2 / 3])
    assert table.loc["lost", ["by_sen", "by_pld"]].isna().all()
