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
from methods.training import answers as answering
from methods.training import stage
from methods.training.data import Batch, batches, draft_vocabulary, split_off
from methods.training.loop import CHECKPOINT, Trainer
from methods.training.objective import Objective, Unrolled, _Chain
from methods.training.settings import PRECISIONS, TrainingSettings
from methods.training.stage import train_eagle
from primitives.models.batching import greedy_answers
from primitives.models.eagle_loading import load_head
from primitives.models.loading import load_model
from primitives.models.pooled_cache import PooledCache
from primitives.models.recording import Recording, recorded_answers
from tests.eagle_rig import HIDDEN, VOCABULARY, HeadMaker, head_target
from tests.rigs import random_prompt, tiny_model
from tests.unit.methods.conftest import Words
from tests.unit.methods.steps import assert_near, assert_one_step, taken
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
        loss, count, _ = objective._loss(head, states, chain.states[chain.inside], chain.wanted[chain.inside], rated)
        total = total + 0.8**step * loss / max(1, count)
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
    "training.num_prompts=6",
    "training.held_out=[gsm8k]",
    "training.max_new_tokens=10",
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
    lines = (done.folder / "training.jsonl").read_text("utf-8").splitlines()
    assert [json.loads(line)["step"] for line in lines] == list(range(1, len(done.rows) + 1))
    assert "Share of held-out greedy drafts" in (done.folder / "README.md").read_text("utf-8")
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
    assert untimed(whole.rows) == untimed(torn.rows)


def trainer_of(kind: str, folder: Path, **changes: Any) -> Trainer:
    small = {"depth": 3 if kind == "eagle3" else 1, "epochs": 2, "batch_tokens": 24, "learning_rate": 1e-3, **changes}
    settings = TrainingSettings(name=kind, **small)
    head = head_of(kind, folder).requires_grad_(True)
    return Trainer(settings, head, Objective(settings, head_target().output), folder, "id")


def answers_of(kind: str) -> list[Recording]:
    return [recording(seed, 3, 3 + seed, INNER[kind]) for seed in range(5)]


@pytest.mark.parametrize("kind", KINDS)
def test_a_step_in_parts_is_the_whole_step(tmp_path: Path, kind: str) -> None:
    group, found = answers_of(kind), []
    for most in (None, 20, 1):
        trainer = trainer_of(kind, tmp_path, micro_batch_tokens=most, batch_tokens=99, clip=1e9)
        found.append(taken(trainer, group))
    assert [parts for parts, _, _ in found] == [1, 3, 5]
    assert_one_step(*found)


@pytest.mark.parametrize("kind", KINDS)
def test_a_step_in_bfloat16_is_nearly_the_same(tmp_path: Path, kind: str) -> None:
    group = answers_of(kind)
    trainers = [trainer_of(kind, tmp_path, precision=name, batch_tokens=99, clip=1e9) for name in PRECISIONS]
    assert_near(*(taken(trainer, group) for trainer in trainers))


class Full:
    """A call that runs out of GPU memory from the n-th time on, for good."""

    def __init__(self, inner: Any, number: int) -> None:
        self.inner, self.left = inner, number

    def __call__(self, *arguments: Any, **more: Any) -> Any:
        self.left -= 1
        if self.left <= 0:
            raise torch.cuda.OutOfMemoryError("CUDA out of memory")
        return self.inner(*arguments, **more)


@pytest.mark.parametrize("kind", KINDS)
def test_a_training_that_ran_out_of_memory_goes_on_with_smaller_parts(
    words: Words, rows_folder: Path, six_layers: Path, tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    late = "training.checkpoint_minutes=60"
    whole = train_eagle(small(words, rows_folder, six_layers, kind, tmp_path / "whole", late))
    with monkeypatch.context() as patched:
        full = Full(Trainer._gradients, 3)
        patched.setattr(Trainer, "_gradients", lambda *arguments: full(*arguments))
        with pytest.raises(ValueError, match=r"too much for the memory of cpu") as caught:
            train_eagle(small(words, rows_folder, six_layers, kind, tmp_path / "torn", late))
    assert f"{tmp_path / 'torn' / CHECKPOINT} is kept, and the training goes on from step 2" in str(caught.value)
    calls = Full(Trainer._gradients, 10**6)
    monkeypatch.setattr(Trainer, "_gradients", lambda *arguments: calls(*arguments))
    smaller = (late, "training.micro_batch_tokens=60")
    torn = train_eagle(small(words, rows_folder, six_layers, kind, tmp_path / "torn", *smaller))
    assert 10**6 - calls.left == len(whole.rows) - 2
    assert [row["step"] for row in torn.rows] == [row["step"] for row in whole.rows]
    assert untimed(torn.rows[:2]) == untimed(whole.rows[:2])
    assert torn.rows[2]["losses"] == pytest.approx(whole.rows[2]["losses"], rel=1e-4)
    for ours, theirs in zip(torn.rows, whole.rows, strict=True):
        assert ours["losses"] == pytest.approx(theirs["losses"], rel=5e-2)
        assert ("shares" in ours) == ("shares" in theirs)


def test_memory_that_ends_in_a_batch_an_objective_or_a_measurement_costs_no_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = answers_of("eagle3")
    whole = trainer_of("eagle3", tmp_path / "whole").run(answers[1:], answers[:1])
    for name, number in (("_batch", 4), ("objective", 3), ("shares", 2), ("_batch", 2)):
        folder = tmp_path / f"{name}{number}"
        torn = trainer_of("eagle3", folder)
        monkeypatch.setattr(torn, name, Full(getattr(torn, name), number))
        if name == "objective":
            torn.objective.counts = Objective(torn.settings, head_target().output).counts
        with pytest.raises(ValueError, match=r"too much for the memory of cpu") as caught:
            torn.run(answers[1:], answers[:1])
        assert torn.step
        assert f"{folder / CHECKPOINT} is kept, and the training goes on from step {torn.step}" in str(caught.value)
        again = trainer_of("eagle3", folder)
        assert untimed(again.run(answers[1:], answers[:1])) == untimed(whole)


def test_memory_that_ends_in_the_first_step_leaves_no_checkpoint_in_the_way(tmp_path: Path) -> None:
    trainer = trainer_of("eagle2", tmp_path, micro_batch_tokens=1)
    objective: Any = Full(trainer.objective, 1)
    objective.counts = trainer.objective.counts
    trainer.objective = objective
    with pytest.raises(ValueError, match=r"one answer of \d+ tokens at a time .* training.depth, which") as caught:
        trainer.run(answers_of("eagle2")[1:], answers_of("eagle2")[:1])
    assert str(caught.value).endswith("no checkpoint was due yet, and the training begins anew")
    assert not (tmp_path / CHECKPOINT).exists()


@pytest.mark.parametrize(("minutes", "step"), [(0.0, 2), (60.0, 0)])
def test_memory_that_ends_in_the_optimiser_leaves_the_last_checkpoint(
    tmp_path: Path, minutes: float, step: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers, trainer = answers_of("eagle2"), trainer_of("eagle2", tmp_path, checkpoint_minutes=minutes)
    monkeypatch.setattr(trainer._optimiser, "step", Full(trainer._optimiser.step, 3))
    with pytest.raises(ValueError, match=r"the optimiser of [\d,]+ weights is too much for") as caught:
        trainer.run(answers[1:], answers[:1])
    there = f"{tmp_path / CHECKPOINT} is kept, and the training goes on from step 2"
    assert str(caught.value).endswith(there if step else "no checkpoint was due yet, and the training begins anew")
    again = trainer_of("eagle2", tmp_path)
    again._resume()
    assert again.step == step
    monkeypatch.setattr(again._optimiser, "load_state_dict", Full(None, 1))
    if step:
        with pytest.raises(ValueError, match=r"the optimiser of .* goes on from step 2"):
            again.run(answers[1:], answers[:1])


def test_answers_that_need_too_much_memory_name_their_batch_and_go_on_in_parts(
    words: Words, rows_folder: Path, six_layers: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(answering, "recorded_answers", Full(recorded_answers, 2))
        with pytest.raises(ValueError, match=r"^2 answers at once, of training.answer_batch=4, are too much") as caught:
            train_eagle(small(words, rows_folder, six_layers, "eagle2", tmp_path / "head"))
        assert str(caught.value).endswith("set training.answer_micro_batch=1; finished answers are kept")
    sizes: list[int] = []

    def counted(model: Any, prompts: Any, *more: Any) -> Any:
        sizes.append(len(prompts))
        return recorded_answers(model, prompts, *more)

    monkeypatch.setattr(answering, "recorded_answers", counted)
    parts = "training.answer_micro_batch=1"
    assert train_eagle(small(words, rows_folder, six_layers, "eagle2", tmp_path / "head", parts)).rows
    assert sizes == [1, 1]
    monkeypatch.setattr(answering, "recorded_answers", Full(None, 1))
    shorter = small(words, rows_folder, six_layers, "eagle2", tmp_path / "more", parts, "training.max_new_tokens=9")
    with pytest.raises(ValueError, match=r"^one answer at a time is too much"):
        train_eagle(shorter)


def test_a_head_that_does_not_fit_beside_the_target_is_said(
    words: Words, rows_folder: Path, six_layers: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stage, "first_head", Full(None, 1))
    with pytest.raises(ValueError, match=r"^training.name=eagle2 beside model .* too much for") as caught:
        train_eagle(small(words, rows_folder, six_layers, "eagle2", tmp_path / "head"))
    assert str(caught.value).endswith("the answers are kept")


def untimed(rows: Any) -> list[dict[str, Any]]:
    return [{key: value for key, value in row.items() if key != "tokens_per_second"} for row in rows]


def test_shares_count_drafts_that_are_right_from_their_first_token_on(tmp_path: Path) -> None:
    class Fixed:
        def __call__(self, _head: Any, batch: Batch, _rng: Any, _depth: int, _whole: Any) -> Any:
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
        ("training.precision=bf16", "training.precision is 'bf16': did you mean 'bfloat16'?"),
        ("training.micro_batch_tokens=0", "training.micro_batch_tokens is 0; it must be at least 1, or null for the"),
        ("training.answer_micro_batch=0", "training.answer_micro_batch is 0; it must be at least 1, or null for the"),
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
