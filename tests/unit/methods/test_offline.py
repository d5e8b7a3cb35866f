from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM

from corpora.loading import load_corpus
from methods.offline import cache_folder, plan_store, prepare
from methods.settings import compose, needs_store
from primitives.contract import DraftTree
from primitives.datastores.manifest import StoreError
from primitives.models.batching import hidden_states
from primitives.models.causal_lm import CausalLMTarget
from primitives.models.loading import load_model
from tests.unit.methods.building import (
    CPU,
    METHOD,
    build,
    changed,
    contents,
    facts_of,
    folder_of,
    prompts_of,
    stores_in,
    texts,
    vectors,
    watch,
)
from tests.unit.methods.conftest import write_rows

Words = Callable[..., list[str]]


def test_an_id_store_holds_the_models_own_greedy_answers(words: Words, tiny_folder: Path, tmp_path: Path) -> None:
    stores, prompts = build(words(METHOD)), prompts_of(words(METHOD))
    assert stores.vectors is not None
    auto: Any = AutoModelForCausalLM
    model = auto.from_pretrained(tiny_folder)
    keys = []
    assert sorted(stores.facts["prompts"]) == sorted(prompts)
    for name, document in zip(stores.facts["prompts"], texts(stores), strict=True):
        prompt = prompts[name]
        output = model.generate(torch.from_numpy(prompt)[None], max_new_tokens=12, do_sample=False)[0].numpy()
        assert document == output[len(prompt) :].tolist()
        # Key i is the state that predicted token i: that of the token before it, the first one of the prompt's last.
        keys.append(stores.vectors.projection(hidden_states(model, [output])[0][len(prompt) - 1 : -1]))
    assert stores.vectors.index.reconstruct_n(0, len(stores)) == pytest.approx(np.concatenate(keys), abs=1e-4)
    assert facts_of(tmp_path)["tokens"] == len(stores) == 72


def test_an_ood_store_holds_the_reference_answers(words: Words) -> None:
    chosen = changed(words(METHOD, "datastore=ood"), "datastore.max_new_tokens=30")
    stores, settings = build(chosen), compose(chosen)
    tokenizer = load_model(settings.model, CPU, torch.float32, Path("unused")).tokenizer
    references = {example.id: example.reference for example in load_corpus(settings.dataset, "train").examples}
    for name, document in zip(stores.facts["prompts"], texts(stores), strict=True):
        whole = [*tokenizer(references[name], add_special_tokens=False).input_ids, tokenizer.eos_token_id]
        assert document == whole[:30]


def test_a_finished_store_is_used_again_and_no_model_is_loaded(words: Words, monkeypatch: pytest.MonkeyPatch) -> None:
    first = build(words(METHOD))
    watched = watch(monkeypatch)
    monkeypatch.setattr("methods.offline.stage.loaded_model", lambda _settings: pytest.fail("a model is loaded"))
    again = build(words(METHOD))
    assert again.fingerprint == first.fingerprint
    assert [counted.calls for counted in watched.values()] == [0, 0]


@pytest.mark.parametrize(
    "change",
    [
        "datastore.num_prompts=5",
        "datastore.max_new_tokens=11",
        "datastore.pca_dim=7",
        "datastore.index=flat",
        "datastore.layer=1",
        "datastore.leaks=keep",
        "dataset.template=problem",
        "model.chat_template=false",
        "dtype=bfloat16",
    ],
)
def test_other_settings_make_another_store(change: str, words: Words) -> None:
    plans = [plan_store(compose(chosen)) for chosen in (words(METHOD), words(METHOD), changed(words(METHOD), change))]
    folders = [plan.folder for plan in plans if plan is not None]
    assert folders[0] == folders[1] != folders[2]


@pytest.mark.parametrize("change", ["dataset.num_samples=1", "datastore.nprobe=3", "datastore.shards=4"])
def test_what_does_not_change_the_content_leaves_the_store_the_same(change: str, words: Words) -> None:
    plans = [plan_store(compose(chosen)) for chosen in (words(METHOD), changed(words(METHOD), change))]
    assert plans[0] is not None
    assert plans[1] is not None
    assert plans[0].folder == plans[1].folder


def test_answers_are_shared_by_stores_with_other_keys(words: Words, monkeypatch: pytest.MonkeyPatch) -> None:
    first = build(words(METHOD))
    watched = watch(monkeypatch)
    other = build(changed(words(METHOD), "datastore.pca_dim=4"))
    assert watched["greedy_answers"].calls == 0
    assert watched["hidden_states"].calls > 0
    assert texts(other) == texts(first)


def test_an_inner_layer_gives_the_states_that_enter_it(words: Words, tiny_folder: Path) -> None:
    store, prompts = build(words(METHOD, "datastore.layer=1")), prompts_of(words(METHOD))
    assert store.vectors is not None
    assert store.vectors.layer == 1
    auto: Any = AutoModelForCausalLM
    model = auto.from_pretrained(tiny_folder)
    name, document = store.facts["prompts"][0], texts(store)[0]
    text = torch.from_numpy(np.concatenate([prompts[name], document]))[None]
    with torch.inference_mode():
        entering = model(text, output_hidden_states=True).hidden_states[1][0].numpy()
    keys = store.vectors.projection(entering[len(prompts[name]) - 1 : -1])
    assert store.vectors.index.reconstruct_n(0, len(document)) == pytest.approx(keys, abs=1e-4)


@pytest.mark.parametrize("layer", [None, 1])
def test_every_place_of_a_text_finds_itself_and_what_followed(layer: int | None, words: Words) -> None:
    """Keys come from forwards without a cache, queries from a prefill and cached steps, as when decoding."""
    one = ("datastore.num_prompts=1", "datastore.max_new_tokens=50", "datastore.pca_dim=32")
    chosen = changed(words(METHOD), *one, f"datastore.layer={'null' if layer is None else layer}")
    store, settings = vectors(chosen), compose(chosen)
    tokens = store.token_store.tokens.astype(np.int64)
    (prompt,) = prompts_of(chosen).values()
    target = CausalLMTarget(load_model(settings.model, CPU, torch.float32, Path("unused")).model)
    target.capture(() if layer is None else (layer,))
    target.prefill(prompt)
    states = []
    for start in range(0, 50, 10):
        chain = DraftTree.chain(tokens[start : start + 10])
        view = target.verify(chain)
        # Row i is the state before node i: the one that predicted it.
        states.append((view.hidden if layer is None else view.features)[:-1])  # type: ignore[index]
        target.commit(np.arange(10))
    keys = store.projection(torch.cat(states).numpy())
    for place in range(49):
        near, ids = store.search(keys[place], 5)
        assert ids[0] == place or near[0] - near[list(ids).index(place)] < 1e-4
        assert near[0] == pytest.approx(1, abs=1e-4)
        draft = store.continuations(np.array([place]), 10)[0]
        assert draft[draft >= 0].tolist() == tokens[place : place + 10].tolist()


def test_a_layer_that_the_model_does_not_have_is_refused(words: Words, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"datastore.layer=2 does not exist: the model has layers 0 to 1, and null"):
        build(words(METHOD, "datastore.layer=2"))
    assert stores_in(tmp_path) == []


@pytest.mark.parametrize("index", ["flat", "hnsw", "auto"])
def test_every_index_finds_a_stored_state_and_its_continuation(index: str, words: Words) -> None:
    store = vectors(words(METHOD, f"datastore.index={index}"))
    assert type(store.index).__name__ == {"hnsw": "IndexHNSWFlat"}.get(index, "IndexFlatIP")
    keys = store.index.reconstruct_n(0, len(store))
    for place in range(len(store)):
        near, ids = store.search(keys[place], 3)
        assert place in ids[near >= near[0] - 1e-5]
        assert store.continuations(np.array([place]), 1)[0, 0] == store.token_store.tokens[place]


def test_an_index_that_needs_more_keys_is_refused_before_any_work(
    words: Words, monkeypatch: pytest.MonkeyPatch
) -> None:
    watched = watch(monkeypatch)
    with pytest.raises(ValueError, match=r"datastore.index=ivf_pq needs at least 9984 keys to train"):
        build(words(METHOD, "datastore.index=ivf_pq"))
    assert watched["greedy_answers"].calls == 0


def test_a_damaged_store_is_named_with_what_to_do(
    words: Words, tiny_folder: Path, rows_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    build(words(METHOD))
    path = folder_of(tmp_path) / "tokens.npy"
    path.write_bytes(path.read_bytes()[:-8])
    monkeypatch.setattr("methods.offline.stage.loaded_model", lambda _settings: pytest.fail("a model is loaded"))
    with pytest.raises(StoreError) as caught:
        build(words(METHOD))
    assert str(caught.value) == (
        f"{path} is damaged; delete that folder, then python -m scripts.prepare method={METHOD} "
        f"model.path={tiny_folder} dataset=gsm8k dataset.path={rows_folder} dataset.template=chat datastore=id "
        "datastore.num_prompts=6 datastore.max_new_tokens=12 datastore.batch_size=2 datastore.pca_dim=8 "
        f"dtype=float32 cache_dir={tmp_path / 'cache'} builds one"
    )


def test_a_store_that_is_named_is_used_and_must_fit(words: Words, other_folder: Path, tmp_path: Path) -> None:
    built = build(words(METHOD))
    folder = folder_of(tmp_path)
    assert build(words(METHOD, f"datastore.path={folder}")).fingerprint == built.fingerprint
    with pytest.raises(StoreError, match=rf"the store in {folder} was built for another model \(store: "):
        build(words(METHOD, f"datastore.path={folder}", model=other_folder))
    with pytest.raises(StoreError, match=r"was built for another kind .store: id, run: ood."):
        build(words(METHOD, "datastore=ood", f"datastore.path={folder}"))
    with pytest.raises(StoreError, match=r"was built for another layer .store: final, run: 1."):
        build(words(METHOD, "datastore.layer=1", f"datastore.path={folder}"))
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(StoreError, match=f"there is no datastore in {empty}"):
        build(words(METHOD, f"datastore.path={empty}"))


def test_a_token_store_needs_no_hidden_states(words: Words, monkeypatch: pytest.MonkeyPatch) -> None:
    watched = watch(monkeypatch)
    stores = build(words("rest"))
    assert stores.vectors is None
    assert watched["hidden_states"].calls == 0
    assert texts(stores) == texts(build(words(METHOD)))
    assert stores.tokens.longest_match(stores.tokens.tokens[3:9].astype(np.int64)).length >= 6


def test_a_vector_store_serves_a_drafter_that_searches_tokens_alone(words: Words, tmp_path: Path) -> None:
    build(words(METHOD))
    stores = build(words("rest", f"datastore.path={folder_of(tmp_path)}"))
    assert stores.vectors is None
    assert len(stores) == 72
    token_store = build(words("rest"))
    with pytest.raises(StoreError, match=r"was built for another layer .store: None, run: final."):
        build(words(METHOD, f"datastore.path={token_store.folder}"))


def test_only_retrieval_methods_need_a_store(words: Words, monkeypatch: pytest.MonkeyPatch) -> None:
    watched = watch(monkeypatch)
    for method in ("vanilla", "pld"):
        assert not needs_store(compose(words(method)).drafter)
        assert prepare(compose(words(method))) is None
    assert [counted.calls for counted in watched.values()] == [0, 0]
    assert needs_store(compose(words("sense")).drafter)


def test_copies_of_a_document_are_one_with_a_count(words: Words, tmp_path: Path) -> None:
    rows = [{"question": f"Question {'so ' * i}?", "answer": f"{i // 2}\n#### 1"} for i in range(6)]
    stores = build(_with_rows(words, tmp_path, rows))
    assert stores.tokens.counts.tolist() == [2, 2, 2]
    assert stores.facts["duplicates"] == 3
    assert len(stores.facts["prompts"]) == 6
    assert stores.vectors is not None
    # The keys are those of the first of the copies.
    assert len(stores.vectors) == sum(map(len, texts(stores)))


def _with_rows(words: Words, tmp_path: Path, rows: list[dict[str, str]]) -> list[str]:
    folder = tmp_path / "own"
    folder.mkdir()
    write_rows(folder / "train.jsonl", rows)
    write_rows(folder / "test.jsonl", [{"question": "What else?", "answer": "9\n#### 9"}])
    return changed(words(METHOD, "datastore=ood"), f"dataset.path={folder}")


def test_more_dimensions_than_states_are_refused_by_the_settings_name(words: Words, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"datastore.pca_dim=65 does not fit 72 hidden states of width 64"):
        build(changed(words(METHOD), "datastore.pca_dim=65"))
    assert stores_in(tmp_path) == []


def test_the_same_settings_give_the_same_bytes_in_another_place(words: Words, tmp_path: Path) -> None:
    build(words(METHOD))
    build(changed(words(METHOD), f"cache_dir={tmp_path / 'other' / 'cache'}"))
    assert contents(folder_of(tmp_path)) == contents(folder_of(tmp_path / "other"))


def test_the_cache_is_the_users_unless_another_is_named(words: Words, tmp_path: Path) -> None:
    assert cache_folder(compose(words("pld"))) == tmp_path / "cache"
    unnamed = [word for word in words("pld") if not word.startswith("cache_dir")]
    assert cache_folder(compose(unnamed)).name == "atomsd"
