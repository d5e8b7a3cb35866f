from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM

from corpora.corpus import Corpus
from corpora.loading import load_corpus
from methods import offline
from methods.offline import cache_folder, prepare, prepare_store, store_corpus
from methods.settings import Settings, compose, needs_store
from primitives.datastores.hidden_state_store import HiddenStateStore
from primitives.datastores.manifest import MANIFEST_FILE, StoreError
from primitives.models.batching import greedy_answers, hidden_states
from primitives.models.device import resolve_dtype
from primitives.models.loading import load_model, render_prompt

Words = Callable[..., list[str]]
METHOD = "sense_without_se"
CPU = torch.device("cpu")


def build(words: list[str]) -> HiddenStateStore:
    store = prepare(compose(words))
    assert store is not None
    return store


def corpus_of(settings: Settings) -> Corpus:
    corpus = store_corpus(settings)
    assert corpus is not None
    return corpus


def stores_in(tmp_path: Path) -> list[Path]:
    return [path for path in (tmp_path / "cache" / "stores").iterdir() if path.is_dir()]


def folder_of(tmp_path: Path) -> Path:
    (folder,) = stores_in(tmp_path)
    return folder


def changed(words: list[str], *changes: str) -> list[str]:
    """Return words with others in the place of those with the same key."""
    keys = {change.split("=")[0] for change in changes}
    return [word for word in words if word.split("=")[0] not in keys] + list(changes)


class Counted:
    """Stands before a function of the offline stage: counts its calls and fails at one of them."""

    def __init__(self, inner: Callable[..., Any], fails_at: int | None = None) -> None:
        self.inner = inner
        self.fails_at = fails_at
        self.calls = 0

    def __call__(self, *arguments: Any) -> Any:
        self.calls += 1
        if self.calls == self.fails_at:
            raise KeyboardInterrupt
        return self.inner(*arguments)


def watch(monkeypatch: pytest.MonkeyPatch, **fails_at: int | None) -> dict[str, Counted]:
    inner: dict[str, Callable[..., Any]] = {"greedy_answers": greedy_answers, "hidden_states": hidden_states}
    watched = {name: Counted(inner[name], fails_at.get(name)) for name in inner}
    for name, counted in watched.items():
        monkeypatch.setattr(offline, name, counted)
    return watched


def documents(store: HiddenStateStore) -> list[list[int]]:
    return [store.tokens[start:end].tolist() for start, end in zip(store.offsets, store.offsets[1:], strict=False)]


def prompts_of(words: list[str]) -> list[list[int]]:
    """The ids of the train prompts that go into the store, in its order."""
    settings = compose(words)
    corpus = load_corpus(settings.dataset, "train", at_most=settings.datastore.num_prompts)
    tokenizer = load_model(settings.model, CPU, torch.float32, Path("unused")).tokenizer
    return [render_prompt(tokenizer, example.instruction, settings.model) for example in corpus.examples]


def test_an_id_store_holds_the_models_own_greedy_answers(words: Words, tiny_folder: Path, tmp_path: Path) -> None:
    chosen = words(METHOD)
    store = build(chosen)
    auto: Any = AutoModelForCausalLM
    model = auto.from_pretrained(tiny_folder)
    texts = []
    for prompt, document in zip(prompts_of(chosen), documents(store), strict=True):
        output = model.generate(torch.tensor([prompt]), max_new_tokens=12, do_sample=False)[0].tolist()
        assert document == output[len(prompt) :]
        texts.append((len(prompt), np.array(output)))
    # Key i is the state that predicted token i: the one of the token before it, the first of them the prompt's last.
    keys = np.concatenate([store.projection(hidden_states(model, [text])[0][n - 1 : -1]) for n, text in texts])
    assert store.index.reconstruct_n(0, len(store)) == pytest.approx(keys, abs=1e-4)
    facts = json.loads((folder_of(tmp_path) / MANIFEST_FILE).read_text())["facts"]
    assert len(facts["prompts"]) == 6
    assert facts["keys"] == len(store)


def test_an_ood_store_holds_the_reference_answers(words: Words) -> None:
    chosen = changed(words(METHOD, "datastore=ood"), "datastore.max_new_tokens=30")
    store = build(chosen)
    settings = compose(chosen)
    tokenizer = load_model(settings.model, CPU, torch.float32, Path("unused")).tokenizer
    corpus = load_corpus(settings.dataset, "train", at_most=6)
    for example, document in zip(corpus.examples, documents(store), strict=True):
        assert len(document) <= 30
        whole = [*tokenizer(example.reference, add_special_tokens=False).input_ids, tokenizer.eos_token_id]
        assert document == whole[:30]


def test_a_finished_store_is_used_again(words: Words, monkeypatch: pytest.MonkeyPatch) -> None:
    first = build(words(METHOD))
    watched = watch(monkeypatch)
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
        "dataset.template=problem",
        "model.chat_template=false",
        "dtype=bfloat16",
    ],
)
def test_other_settings_make_another_store(
    change: str, words: Words, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folders: list[Path] = []
    monkeypatch.setattr(offline, "published", lambda folder, _build: folders.append(folder))
    monkeypatch.setattr(offline, "open_store", lambda *_arguments: SimpleNamespace(probe=lambda _lists: None))
    for chosen in (words(METHOD), words(METHOD), changed(words(METHOD), change)):
        settings = compose(chosen)
        model = load_model(settings.model, CPU, resolve_dtype(settings.dtype, CPU), tmp_path)
        prepare_store(settings, model, corpus_of(settings))
    assert folders[0] == folders[1] != folders[2]


def test_an_interrupted_build_keeps_the_answers_that_are_finished(
    words: Words, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = build(changed(words(METHOD), f"cache_dir={tmp_path / 'whole'}"))
    watch(monkeypatch, greedy_answers=3)
    with pytest.raises(KeyboardInterrupt):
        build(words(METHOD))
    assert stores_in(tmp_path) == []
    watched = watch(monkeypatch)
    resumed = build(words(METHOD))
    assert watched["greedy_answers"].calls == 1
    assert documents(resumed) == documents(whole)


def test_a_build_interrupted_over_its_keys_needs_no_new_answers(
    words: Words, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    watch(monkeypatch, hidden_states=1)
    with pytest.raises(KeyboardInterrupt):
        build(words(METHOD))
    assert stores_in(tmp_path) == []
    watched = watch(monkeypatch)
    assert len(build(words(METHOD))) == 72
    assert watched["greedy_answers"].calls == 0


def test_a_damaged_store_is_named_with_what_to_do(
    words: Words, tiny_folder: Path, rows_folder: Path, tmp_path: Path
) -> None:
    build(words(METHOD))
    path = folder_of(tmp_path) / "tokens.npy"
    path.write_bytes(path.read_bytes()[:-8])
    with pytest.raises(StoreError) as caught:
        build(words(METHOD))
    assert str(caught.value) == (
        f"{path} is damaged; delete that folder, then python -m scripts.prepare method={METHOD} "
        f"model.path={tiny_folder} dataset=gsm8k dataset.path={rows_folder} datastore=id builds one"
    )


def test_a_store_that_is_named_is_used_and_must_fit(words: Words, other_folder: Path, tmp_path: Path) -> None:
    built = build(words(METHOD))
    folder = folder_of(tmp_path)
    assert build(words(METHOD, f"datastore.path={folder}")).fingerprint == built.fingerprint
    with pytest.raises(StoreError, match=rf"the store in {folder} was built for another model \(store: "):
        build(words(METHOD, f"datastore.path={folder}", model=other_folder))
    with pytest.raises(StoreError, match=r"was built for another kind .store: id, run: ood."):
        build(words(METHOD, "datastore=ood", f"datastore.path={folder}"))
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(StoreError, match=f"there is no datastore in {empty}"):
        build(words(METHOD, f"datastore.path={empty}"))


def test_only_retrieval_methods_need_a_store(words: Words, monkeypatch: pytest.MonkeyPatch) -> None:
    watched = watch(monkeypatch)
    for method in ("vanilla", "pld"):
        assert not needs_store(compose(words(method)).drafter)
        assert prepare(compose(words(method))) is None
    assert [counted.calls for counted in watched.values()] == [0, 0]
    assert needs_store(compose(words("sense")).drafter)


def test_more_dimensions_than_states_are_refused_by_the_settings_name(words: Words, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"datastore.pca_dim=65 does not fit 72 hidden states of width 64"):
        build(changed(words(METHOD), "datastore.pca_dim=65"))
    assert stores_in(tmp_path) == []


def test_the_cache_is_the_users_unless_another_is_named(words: Words, tmp_path: Path) -> None:
    assert cache_folder(compose(words("pld"))) == tmp_path / "cache"
    unnamed = [word for word in words("pld") if not word.startswith("cache_dir")]
    assert cache_folder(compose(unnamed)).name == "atomsd"


def test_a_store_can_be_prepared_for_a_model_that_is_loaded(words: Words) -> None:
    settings = compose(words(METHOD))
    model = load_model(settings.model, CPU, torch.float32, Path("unused"))
    assert prepare_store(settings, model, corpus_of(settings)).fingerprint == build(words(METHOD)).fingerprint
