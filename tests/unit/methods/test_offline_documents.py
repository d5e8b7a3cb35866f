"""What goes into a store: empty, overlong and repeated texts, and those of the test split."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from methods.offline.documents import Batch, Documents
from tests.unit.methods.building import METHOD, build, changed, stores_in, texts
from tests.unit.methods.conftest import write_rows
from tests.unit.primitives.models.conftest import make_model, make_tokenizer

Words = Callable[..., list[str]]
LEAK = "Tom walks two miles to school and back again every day of the long week"


def rows(folder: Path, train: list[tuple[str, str]], test: list[tuple[str, str]] | None = None) -> str:
    folder.mkdir()
    for split, pairs in (("train", train), ("test", test or [("What else is there?", "nothing")])):
        write_rows(folder / f"{split}.jsonl", [{"question": q, "answer": f"{a}\n#### 1"} for q, a in pairs])
    return f"dataset.path={folder}"


def small_model(folder: Path, positions: int) -> str:
    model: Any = make_model()
    model.config.max_position_embeddings = positions
    model.save_pretrained(folder)
    make_tokenizer().save_pretrained(folder)
    return f"model.path={folder}"


def wide(words: list[str], *changes: str) -> list[str]:
    """Return words for a store of references that are not cut."""
    return changed(words, "datastore=ood", "datastore.max_new_tokens=400", "datastore.pca_dim=4", *changes)


def test_an_empty_answer_or_prompt_is_left_out_and_counted(
    words: Words, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "rows"
    rows(folder, [("unused", "")])
    chats = [("One?", "an answer"), ("  ", "b"), ("Three?", " \n"), ("Four?", "another answer")]
    lines = [{"prompt": q, "messages": [{"role": "assistant", "content": a}]} for q, a in chats]
    for split in ("train", "test"):
        (folder / f"{split}.jsonl").write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    stores = build(wide(words(METHOD, "datastore.leaks=keep"), f"dataset.path={folder}", "dataset=ultrachat"))
    assert sorted(stores.facts["prompts"]) == ["train-00000", "train-00003"]
    assert sorted(stores.facts["empty"]) == ["train-00001", "train-00002"]
    assert "2 of 4 documents are left out: the prompt or the answer is empty (first: train-0000" in caplog.text


@pytest.mark.parametrize("kind", ["id", "ood"])
def test_an_answer_ends_where_the_models_positions_do(
    kind: str, words: Words, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    place = rows(tmp_path / "rows", [("x" * 10, "y" * 60), ("x" * 40, "y" * 60), ("x" * 90, "y" * 60)])
    model = small_model(tmp_path / "small", 80)
    stores = build(changed(wide(words(METHOD, "model.chat_template=false"), place, model), f"datastore={kind}"))
    assert stores.facts["too_long"] == ["train-00002"]
    lengths = dict(zip(stores.facts["prompts"], map(len, texts(stores)), strict=True))
    assert lengths["train-00001"] == 80 - 40
    assert "train-00001" in stores.facts["cut"]
    assert "are cut where the positions of the model end" in caplog.text
    if kind == "ood":
        assert lengths["train-00000"] == len("y" * 60 + "\n#### 1") + 1
        assert stores.facts["cut"] == ["train-00001"]


def test_a_store_of_nothing_is_refused(words: Words, tmp_path: Path) -> None:
    place = rows(tmp_path / "rows", [("x" * 90, "y"), (" ", "y")])
    model = small_model(tmp_path / "small", 80)
    for method in (METHOD, "rest"):
        with pytest.raises(ValueError, match="gsm8k would be empty: all 2 train prompts are left out"):
            build(wide(words(method, "model.chat_template=false"), place, model))
    assert stores_in(tmp_path) == []


def test_documents_that_repeat_the_test_split_are_left_out_and_reported(
    words: Words, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    train = [("One?", "a"), ("Two?", f"Once: {LEAK.upper()}, and more!"), ("Three?", "c")]
    place = rows(tmp_path / "rows", train, [("Nothing", "x"), (f"{LEAK}. How far is it?", "twenty")])
    stores = build(wide(words(METHOD), place))
    assert sorted(stores.facts["prompts"]) == ["train-00000", "train-00002"]
    assert stores.facts["overlaps"] == {"train-00001": ["test-00001"]}
    assert (
        "leak check: 1 of 3 documents repeat a passage of 1 of the 2 test prompts of gsm8k; they are left out"
        in caplog.text
    )


def test_they_are_kept_if_asked_for_and_still_reported(words: Words, tmp_path: Path) -> None:
    place = rows(tmp_path / "rows", [("One?", "a"), ("Two?", LEAK)], [(LEAK, "x")])
    stores = build(wide(words(METHOD, "datastore.leaks=keep"), place))
    assert sorted(stores.facts["prompts"]) == ["train-00000", "train-00001"]
    assert stores.facts["overlaps"] == {"train-00001": ["test-00000"]}


def test_the_whole_test_split_counts_not_the_sample_of_a_run(words: Words, tmp_path: Path) -> None:
    test = [(f"Another question number {i}", "x") for i in range(30)] + [(LEAK, "x")]
    place = rows(tmp_path / "rows", [("One?", "a"), ("Two?", LEAK)], test)
    stores = build(changed(wide(words(METHOD), place), "dataset.num_samples=1"))
    assert stores.facts["overlaps"] == {"train-00001": ["test-00030"]}


def test_an_own_answer_to_a_test_prompt_is_found_by_its_prompt(words: Words, tmp_path: Path) -> None:
    place = rows(tmp_path / "rows", [("One?", "a"), ("Who  wrote: HAMLET", "b")], [("Who wrote Hamlet?", "x")])
    stores = build(changed(words(METHOD), place))
    assert stores.facts["prompts"] == ["train-00000"]
    assert stores.facts["overlaps"] == {"train-00001": ["test-00000"]}


def test_the_sample_of_the_pca_does_not_favour_short_prompts(
    words: Words, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Batches are sorted by length; the first ones alone would be a sample of the shortest prompts."""
    place = rows(tmp_path / "rows", [("x" * (i + 1), "y" * 20) for i in range(40)])
    monkeypatch.setattr("methods.offline.build.PCA_SAMPLE", 100)
    seen: list[int] = []
    inner = Documents.batch

    def batch(self: Documents, number: int) -> Batch:
        seen.append(number)
        return inner(self, number)

    monkeypatch.setattr(Documents, "batch", batch)
    build(changed(wide(words(METHOD), place), "datastore.num_prompts=40"))
    # Two batches of 56 tokens are the sample; no batch is gone through twice.
    assert seen[:2] == np.random.default_rng(0).permutation(20)[:2].tolist() != [0, 1]
    assert sorted(seen) == list(range(20))
