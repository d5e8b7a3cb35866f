"""Training of a draft model: the objective against plain autograd, and whole trainings of tiny models."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from methods.pipeline import load_pipeline
from methods.settings import Settings, compose, problems
from methods.training import draft_lm
from methods.training.draft_lm import Distillation, DraftTrainer, Texts, first_draft
from methods.training.loop import CHECKPOINT, Trainer
from methods.training.objective import Unrolled
from methods.training.settings import PRECISIONS, TrainingSettings
from methods.training.stage import Trained, train_draft, train_eagle
from primitives.models.recording import Recording, recorded_answers
from tests.rigs import random_prompt, tiny_model
from tests.unit.methods.steps import assert_near, assert_one_step, taken

Words = Callable[..., list[str]]

SMALL = (
    "training=draft_lm",
    "training.datasets=[gsm8k]",
    "training.num_prompts=8",
    "training.held_out=[gsm8k]",
    "training.max_new_tokens=16",
    "training.max_prompt_tokens=400",
    "training.answer_batch=4",
    "training.batch_tokens=200",
    "training.epochs=3",
    "training.learning_rate=3e-3",
    "training.checkpoint_minutes=0",
    "training.num_layers=1",
    "training.hidden_size=32",
)


def settings_of(**changes: Any) -> TrainingSettings:
    return replace(TrainingSettings(name="draft_lm", depth=3, num_layers=1, hidden_size=32), **changes)


def recordings(count: int = 3) -> list[Recording]:
    prompts = [np.array(random_prompt(seed, 4 + seed)) for seed in range(count)]
    return recorded_answers(tiny_model(), prompts, 10, (), [])


def small(words: Words, rows: Path, place: Path, *changes: str) -> Any:
    named = rows.parent / f"named-{place.name}"
    named.mkdir(exist_ok=True)
    if not (named / "gsm8k").exists():
        (named / "gsm8k").symlink_to(rows)
    return compose(words("vanilla", *SMALL, f"training.data_dir={named}", f"training.output={place}", *changes))


def _with(settings: Settings, **changes: Any) -> Settings:
    return replace(settings, training=replace(settings.training, **changes))


def test_gradients_and_loss_are_those_of_the_whole_objective(monkeypatch: pytest.MonkeyPatch) -> None:
    target: Any = tiny_model()
    settings, texts = settings_of(init="random", token_weight=0.3), recordings()
    draft: Any = first_draft(settings, target)
    monkeypatch.setattr(draft_lm, "CHUNK", 7)
    objective = Distillation(settings, target.lm_head.weight)
    seen = objective(draft, Texts.of(texts, torch.device("cpu")), torch.Generator(), 3)
    found = {name: parameter.grad.clone() for name, parameter in draft.named_parameters()}
    draft.zero_grad()
    total, count, right = torch.zeros(()), 0, 0
    for one in texts:
        ids = torch.from_numpy(one.tokens)[None]
        own = F.log_softmax(draft(ids).logits[0, one.answer - 1 : -1], -1)
        with torch.no_grad():
            law = F.softmax(target(ids).logits[0, one.answer - 1 : -1], -1)
        wanted = ids[0, one.answer :]
        total = total + (law * (law.log() - own)).sum() + 0.3 * F.nll_loss(own, wanted, reduction="sum")
        count, right = count + len(wanted), right + int((own.argmax(-1) == wanted).sum())
    (total / count).backward()
    assert seen.losses[0] == pytest.approx(float(total.detach()) / count, rel=1e-3)
    assert int(seen.hits[0].sum()) == right
    for name, parameter in draft.named_parameters():
        torch.testing.assert_close(found[name], parameter.grad, rtol=2e-2, atol=2e-4)


def test_a_draft_model_that_is_the_target_loses_nothing_and_is_always_right(tmp_path: Path) -> None:
    target: Any = tiny_model()
    settings = settings_of(num_layers=2, token_weight=0.0)
    draft = first_draft(settings, target)
    trainer = DraftTrainer(settings, draft, Distillation(settings, target.lm_head.weight), tmp_path, "id")
    assert trainer.shares(recordings()) == [1.0, 1.0, 1.0]
    seen = trainer.objective(draft, Texts.of(recordings(), torch.device("cpu")), None, 3)
    assert seen.losses[0] == pytest.approx(0, abs=1e-4)


def test_shares_count_drafts_that_are_right_from_their_first_token_on(tmp_path: Path) -> None:
    class Fixed:
        def __call__(self, *_: Any) -> Any:
            return Unrolled([0.0], [torch.tensor([[True, True, False, True, True, True]])])

    states = np.zeros((9, 4), np.float16)
    trainer = DraftTrainer(settings_of(), first_draft(settings_of(), tiny_model()), Fixed(), tmp_path, "id")
    shares = trainer.shares([Recording(np.arange(10), 4, states)])
    assert shares == pytest.approx([5 / 6, 3 / 5, 1 / 4])


def test_projected_embeddings_lie_as_the_targets_do() -> None:
    target: Any = tiny_model()
    table = target.get_input_embeddings().weight.detach()
    draft: Any = first_draft(settings_of(init="projected", hidden_size=table.shape[1]), target)
    torch.testing.assert_close(torch.pdist(draft.get_input_embeddings().weight.detach()), torch.pdist(table))
    narrow: Any = first_draft(settings_of(init="projected", hidden_size=16), target)
    made = narrow.get_input_embeddings().weight.detach()
    left = table - table.mean(0)
    best = torch.linalg.svdvals(left)[:16].square().sum()
    torch.testing.assert_close(made.square().sum(), best)


@pytest.mark.parametrize("init", ["target", "random", "projected"])
def test_a_trained_model_is_a_draft_model(words: Words, rows_folder: Path, tmp_path: Path, init: str) -> None:
    done = train_draft(small(words, rows_folder, tmp_path / "draft", f"training.init={init}"))
    files = {file.name for file in done.folder.iterdir()}
    assert {"config.json", "model.safetensors", "tokenizer.json", "README.md", "curves.png"} <= files
    assert CHECKPOINT not in files
    losses = [row["losses"][0] for row in done.rows]
    assert losses[-1] < losses[0]
    assert len(done.rows[-1]["shares"]) == 5
    pipeline = load_pipeline(*words("sps", f"draft_model={done.folder}"))
    plain = load_pipeline(*words("vanilla"))
    text = "how many short rows?"
    assert pipeline.generate(text).ids == plain.generate(text).ids
    assert all(record.proposed for record in pipeline.generate(text).trace.passes[:-1])
    assert "python -m scripts.train_draft" in (done.folder / "README.md").read_text("utf-8")
    # What was trained is a beginning, too.
    again = train_draft(small(words, rows_folder, tmp_path / "again", f"training.init={done.folder}"))
    assert again.rows[0]["losses"][0] < losses[0]


def test_a_training_that_was_killed_ends_with_the_same_model(
    words: Words, rows_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = train_draft(small(words, rows_folder, tmp_path / "whole"))
    learn, calls = Trainer._learn, []

    def killed(self: Trainer, *arguments: Any) -> Any:
        calls.append(1)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return learn(self, *arguments)

    settings = small(words, rows_folder, tmp_path / "torn")
    monkeypatch.setattr(Trainer, "_learn", killed)
    with pytest.raises(KeyboardInterrupt):
        train_draft(settings)
    assert (tmp_path / "torn" / CHECKPOINT).is_file()
    monkeypatch.setattr(Trainer, "_learn", learn)
    torn: Trained = train_draft(settings)
    assert (whole.folder / "model.safetensors").read_bytes() == (torn.folder / "model.safetensors").read_bytes()
    assert [row["losses"] for row in whole.rows] == [row["losses"] for row in torn.rows]


def test_a_step_in_parts_is_the_whole_step(tmp_path: Path) -> None:
    found, texts = [], recordings()
    for most in (None, 32, 1):
        settings = settings_of(init="random", token_weight=0.3, micro_batch_tokens=most, clip=1e9)
        target: Any = tiny_model()
        objective = Distillation(settings, target.lm_head.weight)
        trainer = DraftTrainer(settings, first_draft(settings, target), objective, tmp_path, "id")
        found.append(taken(trainer, texts))
    assert [parts for parts, _, _ in found] == [1, 2, 3]
    assert_one_step(*found)


def test_a_step_in_bfloat16_is_nearly_the_same(tmp_path: Path) -> None:
    found = []
    for precision in PRECISIONS:
        settings = settings_of(init="random", token_weight=0.3, precision=precision, clip=1e9)
        target: Any = tiny_model()
        objective = Distillation(settings, target.lm_head.weight)
        found.append(
            taken(DraftTrainer(settings, first_draft(settings, target), objective, tmp_path, "id"), recordings())
        )
    assert_near(*found)


def test_out_of_memory_says_what_to_lower(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> Any:
        raise torch.cuda.OutOfMemoryError("CUDA out of memory")

    for most, words in (
        (None, "set training.micro_batch_tokens="),
        (1, "or training.num_layers, which begins"),
    ):
        settings = settings_of(micro_batch_tokens=most)
        trainer = DraftTrainer(settings, first_draft(settings, tiny_model()), full, tmp_path, "id")
        monkeypatch.setattr(trainer, "_batch", full)
        monkeypatch.setattr(trainer, "objective", Distillation(settings, torch.zeros(1)))
        trainer.step = 7
        trainer.save()
        with pytest.raises(ValueError, match=words) as caught:
            trainer._learn(recordings(), 9)
        assert f"{tmp_path / CHECKPOINT} is kept, and the training goes on from step 7" in str(caught.value)


def test_what_cannot_be_trained_is_refused(words: Words, rows_folder: Path, tiny_folder: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"training.name is 'eagle3', but scripts.train_draft trains a draft model"):
        train_draft(replace(small(words, rows_folder, tmp_path / "a"), training=TrainingSettings()))
    with pytest.raises(ValueError, match=r"training.name is 'draft_lm', but scripts.train_eagle trains a draft head"):
        train_eagle(small(words, rows_folder, tmp_path / "b"))
    with pytest.raises(ValueError, match=r"training.num_layers is 9, and the target has 2: lower it"):
        train_draft(_with(small(words, rows_folder, tmp_path / "c"), num_layers=9))
    (problem,) = problems(_with(small(words, rows_folder, tmp_path / "d"), hidden_size=50))
    assert problem == "training.hidden_size is 50; it must be a multiple of 16"
    with pytest.raises(ValueError, match=r"training.hidden_size is 4096, and the target's is \d+: lower it"):
        train_draft(_with(small(words, rows_folder, tmp_path / "c"), init="projected", hidden_size=4096))
    (problem,) = problems(replace(compose(words("vanilla")), training=TrainingSettings(init="projected")))
    assert problem == "training.init is 'projected', which only training=draft_lm knows: choose target or random"
    (problem,) = problems(_with(small(words, rows_folder, tmp_path / "d"), name="draft"))
    assert problem.startswith("training.name is 'draft'")
