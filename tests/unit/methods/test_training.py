"""Training of draft heads: the objective against the head as it drafts, and whole trainings of tiny models."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM

from methods.pipeline import load_pipeline
from methods.settings import compose, problems
from methods.training.data import Batch, batches, draft_vocabulary, split_off
from methods.training.loop import CHECKPOINT, Trainer
from methods.training.objective import Objective, Unrolled, _Chain
from methods.training.settings import TrainingSettings
from methods.training.stage import train_eagle
from primitives.models.batching import greedy_answers
from primitives.models.eagle_loading import load_head
from primitives.models.loading import load_model
from primitives.models.pooled_cache import PooledCache
from primitives.models.recording import Recording, recorded_answers
from tests.eagle_rig import HIDDEN, VOCABULARY, HeadMaker, head_target
from tests.rigs import random_prompt, tiny_model
from tests.unit.methods.conftest import Words
from tests.unit.primitives.models.conftest import SIZES, make_tokenizer

KINDS = ("eagle2", "eagle3")
INNER = {"eagle2": 0, "eagle3": 3}


def recording(seed: int, prompt: int, answer: int, inner: int) -> Recording:
    rng = np.random.default_rng(seed)
    states = rng.normal(size=(prompt + answer - 1, (inner + 1) * HIDDEN)).astype(np.float16)
    return Recording(rng.integers(0, VOCABULARY, prompt + answer), prompt, states)


def head_of(kind: str, folder: Path) -> Any:
    return load_head(HeadMaker(kind).write(folder), kind, head_target())


@pytest.mark.parametrize("kind", KINDS)
def test_a_step_of_the_objective_is_a_step_of_the_drafter(tmp_path: Path, kind: str) -> None:
    head = head_of(kind, tmp_path)
    texts = [recording(1, 4, 7, INNER[kind]), recording(2, 6, 4, INNER[kind])]
    batch = Batch.of(texts, HIDDEN, kind == "eagle3", torch.device("cpu"))
    chain = _Chain(head, batch, batch.features)
    steps = [chain.advance() for _ in range(4)]
    for row, text in enumerate(texts):
        last = len(text.tokens) - 3
        for place in range(len(text.tokens) - text.answer - 1):
            start = text.answer - 1 + place
            cache = PooledCache(1)
            ids = torch.tensor(text.tokens[1 : start + 2])
            features = torch.tensor(text.states[: start + 1, : 3 * HIDDEN].astype(np.float32))
            mask = torch.ones(start + 1, start + 1, dtype=torch.bool).tril()
            state = head.step(ids, head.fused(features), torch.arange(start + 1), cache, mask)[-1:]
            for step in range(min(4, last - start + 1)):
                if step:
                    token = torch.tensor(text.tokens[start + 1 + step : start + 2 + step])
                    state = head.step(token, state, torch.tensor([start + step]), cache)
                torch.testing.assert_close(steps[step][row, place], state[0], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_wanted_is_the_token_behind_the_chain_and_the_state_that_chose_it(tmp_path: Path, kind: str) -> None:
    text = recording(3, 4, 6, INNER[kind])
    batch = Batch.of([text], HIDDEN, kind == "eagle3", torch.device("cpu"))
    chain = _Chain(head_of(kind, tmp_path), batch, batch.features)
    for step in range(5):
        chain.advance()
        assert int(chain.inside.sum()) == 5 - step
        for place in range(5 - step):
            wanted = text.answer + 1 + place + step
            assert int(chain.wanted[0, place]) == text.tokens[wanted]
            state = torch.tensor(text.states[wanted - 1, -HIDDEN:].astype(np.float32))
            assert torch.equal(chain.states[0, place], state)


@pytest.mark.parametrize("kind", KINDS)
def test_gradients_are_those_of_the_whole_loss(tmp_path: Path, kind: str) -> None:
    settings = TrainingSettings(name=kind, depth=3 if kind == "eagle3" else 1, noise=0.0)
    head = head_of(kind, tmp_path).requires_grad_(True)
    target = head_target()
    batch = Batch.of([recording(1, 3, 6, INNER[kind])], HIDDEN, kind == "eagle3", torch.device("cpu"))
    objective = Objective(settings, target.output)
    seen = objective(head, batch, torch.Generator().manual_seed(0), settings.depth)
    found = {name: parameter.grad.clone() for name, parameter in head.named_parameters()}
    head.zero_grad()
    chain, total = _Chain(head, batch, batch.features), torch.zeros(())
    rated = objective._rated(head)
    for step in range(settings.depth):
        states = chain.advance()[chain.inside]
        total = (
            total
            + 0.8**step
            * objective._loss(head, states, chain.states[chain.inside], chain.wanted[chain.inside], rated)[0]
        )
    total.backward()
    for name, parameter in head.named_parameters():
        torch.testing.assert_close(found[name], parameter.grad, rtol=1e-4, atol=1e-5)
    assert sum(0.8**step * loss for step, loss in enumerate(seen.losses)) == pytest.approx(
        float(total.detach()), rel=1e-5
    )


def test_recorded_states_are_those_of_a_fresh_forward() -> None:
    model: Any = tiny_model()
    prompts = [np.array(random_prompt(seed, length)) for seed, length in ((0, 5), (1, 9))]
    recorded = recorded_answers(model, prompts, 12, (), [0, 1])
    for prompt, one in zip(prompts, recorded, strict=True):
        assert one.tokens.tolist() == [*prompt.tolist(), *greedy_answers(model, [prompt], 12, ())[0]]
        with torch.inference_mode():
            out = model(torch.from_numpy(one.tokens)[None], output_hidden_states=True)
        wanted = torch.cat([out.hidden_states[layer][0, :-1] for layer in (0, 1, 2)], dim=1)
        torch.testing.assert_close(torch.tensor(one.states.astype(np.float32)), wanted, rtol=2e-3, atol=2e-3)


def test_the_draft_vocabulary_holds_the_most_frequent_ids_of_the_answers() -> None:
    texts = [Recording(np.array([9, 9, 9, 1, 1, 5]), 3, np.empty((5, 4), np.float16))]
    assert draft_vocabulary(texts, np.array([0, 0, 0, 4, 0, 0, 2, 0, 0, 9]), 5, [7]).tolist() == [1, 3, 5, 7, 9]
    assert draft_vocabulary(texts, np.zeros(10, np.int64), 3, [7]).tolist() == [1, 5, 7]


def test_every_answer_is_in_one_batch_of_an_epoch_and_none_is_in_both_parts() -> None:
    texts = [recording(seed, 3 + seed % 5, 2 + seed % 11, 0) for seed in range(40)]
    learnt, held = split_off([*texts, recording(99, 4, 1, 0)], 0.1, 0)
    assert 1 <= len(held) <= 12
    assert [id(one) for one in split_off(texts[:30], 0.1, 0)[1]] == [id(one) for one in held if one in texts[:30]]
    assert {id(one) for one in learnt} | {id(one) for one in held} == {id(one) for one in texts}
    groups = batches(learnt, 48, 1)
    assert sorted(id(one) for group in groups for one in group) == sorted(map(id, learnt))
    assert all(len(group) * max(len(one.tokens) for one in group) <= 48 for group in groups)
    order = [[id(one) for one in group] for group in groups]
    assert order == [[id(one) for one in group] for group in batches(learnt, 48, 1)]
    assert order != [[id(one) for one in group] for group in batches(learnt, 48, 2)]


@pytest.fixture(scope="session")
def six_layers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.manual_seed(0)
    auto: Any = AutoModelForCausalLM
    sizes = {**SIZES, "num_hidden_layers": 6, "max_position_embeddings": 2048, "hidden_size": 32}
    folder = tmp_path_factory.mktemp("model") / "six"
    auto.from_config(AutoConfig.for_model("llama", **sizes)).save_pretrained(folder)
    make_tokenizer().save_pretrained(folder)
    return folder


SMALL = (
    "training.datasets=[gsm8k]",
    "training.num_prompts=8",
    "training.held_out=[gsm8k]",
    "training.max_new_tokens=16",
    "training.max_prompt_tokens=400",
    "training.answer_batch=4",
    "training.batch_tokens=200",
    "training.epochs=2",
    "training.learning_rate=1e-3",
    "training.checkpoint_minutes=0",
)


def small(words: Words, rows: Path, model: Path, kind: str, place: Path, *changes: str) -> Any:
    named = rows.parent / f"named-{place.name}"
    named.mkdir(exist_ok=True)
    if not (named / "gsm8k").exists():
        (named / "gsm8k").symlink_to(rows)
    size = ["training.draft_vocab_size=64"] if kind == "eagle3" else []
    more = [f"training={kind}", f"training.data_dir={named}", f"training.output={place}", *SMALL, *size, *changes]
    return compose(words("vanilla", *more, model=model))


@pytest.mark.parametrize("kind", KINDS)
def test_a_trained_head_is_a_draft_model(
    words: Words, rows_folder: Path, six_layers: Path, tmp_path: Path, kind: str
) -> None:
    done = train_eagle(small(words, rows_folder, six_layers, kind, tmp_path / "head"))
    files = {file.name for file in done.folder.iterdir()}
    assert {"config.json", "model.safetensors", "README.md", "curves.png", "training.jsonl"} <= files
    assert CHECKPOINT not in files
    assert len(done.rows[-1]["shares"]) == (7 if kind == "eagle3" else 1)
    assert done.rows[-1]["step"] == done.rows[-1]["steps"] == len(done.rows)
    pipeline = load_pipeline(*words(kind, f"draft_model={done.folder}", "model.chat_template=true", model=six_layers))
    plain = load_pipeline(*words("vanilla", model=six_layers))
    text = "how many short rows?"
    assert pipeline.generate(text).ids == plain.generate(text).ids
    assert any(record.proposed for record in pipeline.generate(text).trace.passes)


@pytest.mark.parametrize("kind", KINDS)
def test_a_training_that_was_killed_ends_with_the_same_head(
    words: Words, rows_folder: Path, six_layers: Path, tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = train_eagle(small(words, rows_folder, six_layers, kind, tmp_path / "whole"))
    learn, calls = Trainer._learn, []

    def killed(self: Trainer, *arguments: Any) -> Any:
        calls.append(1)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return learn(self, *arguments)

    settings = small(words, rows_folder, six_layers, kind, tmp_path / "torn")
    monkeypatch.setattr(Trainer, "_learn", killed)
    with pytest.raises(KeyboardInterrupt):
        train_eagle(settings)
    assert (tmp_path / "torn" / CHECKPOINT).is_file()
    monkeypatch.setattr(Trainer, "_learn", learn)
    with pytest.raises(ValueError, match="checkpoint of other settings"):
        train_eagle(replace(settings, training=replace(settings.training, seed=1)))
    torn = train_eagle(settings)
    for name in ("model.safetensors", "config.json"):
        assert (whole.folder / name).read_bytes() == (torn.folder / name).read_bytes()
    untimed = [
        [{k: v for k, v in row.items() if k != "tokens_per_second"} for row in rows] for rows in (whole.rows, torn.rows)
    ]
    assert untimed[0] == untimed[1]


def test_out_of_memory_says_what_to_lower(tmp_path: Path) -> None:
    def full(*_: Any) -> Any:
        raise torch.cuda.OutOfMemoryError("CUDA out of memory")

    head = head_of("eagle2", tmp_path).requires_grad_(True)
    objective: Any = full
    settings = TrainingSettings(name="eagle2", depth=1)
    trainer = Trainer(settings, head, objective, tmp_path, "id")
    trainer.save()
    texts = [recording(seed, 4, 5, 0) for seed in range(3)]
    with pytest.raises(ValueError, match=r"training\.batch_tokens=2048 is too much") as caught:
        trainer.run(texts, texts)
    assert f"{tmp_path / CHECKPOINT} is kept" in str(caught.value)


def test_shares_count_drafts_that_are_right_from_their_first_token_on(tmp_path: Path) -> None:
    class Fixed:
        def __call__(self, _head: Any, batch: Batch, _rng: Any, _depth: int) -> Any:
            first, second = [True, True, False, True], [False, True, True, False]
            return Unrolled([], [torch.tensor([first]), torch.tensor([second])])

    fixed: Any = Fixed()
    trainer = Trainer(TrainingSettings(name="eagle2", depth=2), head_of("eagle2", tmp_path), fixed, tmp_path, "id")
    assert trainer.shares([recording(0, 4, 5, 0)]) == pytest.approx([3 / 4, 1 / 3])


@pytest.mark.parametrize(
    ("word", "sentence"),
    [
        ("training.init=taget", "training.init is 'taget': did you mean 'target'"),
        ("training.epochs=0", "training.epochs is 0; it must be at least 1"),
        ("training.clip=0", "training.clip is 0.0; it must be above 0"),
        ("training.validation=1", "training.validation is 1.0; it must be at least 0 and below 1"),
        ("training.draft_vocab_size=0", "training.draft_vocab_size is 0"),
        ("training.betas=[0.9]", "training.betas is"),
    ],
)
def test_settings_out_of_range_are_refused(word: str, sentence: str) -> None:
    (problem,) = problems(compose(["method=vanilla", word]))
    assert problem.startswith(sentence)


def test_a_target_with_too_few_layers_is_refused(
    words: Words, rows_folder: Path, tiny_folder: Path, tmp_path: Path
) -> None:
    with pytest.raises(ValueError, match="has only 2 layers: train an EAGLE-2 head"):
        train_eagle(small(words, rows_folder, tiny_folder, "eagle3", tmp_path / "head"))


def test_the_head_begins_as_the_target_without_its_upper_layers(six_layers: Path, tmp_path: Path) -> None:
    from methods.training.initial import first_head, head_target
    from primitives.models.settings import ModelSettings

    model = load_model(ModelSettings("six", path=str(six_layers)), torch.device("cpu"), torch.float32, tmp_path)
    target = head_target(model.model)
    head: Any = first_head(TrainingSettings(), model.model, target, None)
    ids = torch.tensor([[5, 6, 7, 8]])
    with torch.inference_mode():
        states = model.model(ids, output_hidden_states=True).hidden_states
        features = torch.cat([states[layer][0] for layer in (2, 3, 3)], dim=1)
        mask = torch.ones(4, 4, dtype=torch.bool).tril()
        out = head.step(ids[0], head.fused(features), torch.arange(4), PooledCache(1), mask)
        last: Any = model.model.get_decoder()
        turns = last.rotary_emb(states[3], torch.arange(4)[None])
        wanted = last.layers[-1](states[3], position_embeddings=turns)
    torch.testing.assert_close(out, wanted[0] if wanted.ndim == 3 else wanted, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(head.logits(out), model.model.lm_head(last.norm(out)), rtol=1e-4, atol=1e-4)


def test_figures_of_every_step_are_kept(words: Words, rows_folder: Path, six_layers: Path, tmp_path: Path) -> None:
    done = train_eagle(small(words, rows_folder, six_layers, "eagle3", tmp_path / "head", "training.depth=2"))
    lines = (done.folder / "training.jsonl").read_text("utf-8").splitlines()
    assert [json.loads(line)["step"] for line in lines] == list(range(1, len(done.rows) + 1))
    assert "Share of held-out greedy drafts" in (done.folder / "README.md").read_text("utf-8")
