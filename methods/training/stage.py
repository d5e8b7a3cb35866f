"""The whole training of a head: answers, data, loop, and the folder that is left behind."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from filelock import FileLock

from corpora.example import Example
from corpora.leaks import LeakCheck
from corpora.loading import whole_split
from methods.loaded import loaded_model
from methods.memory import enough_memory
from methods.places import cache_folder, short_hash
from methods.schema import Settings
from methods.settings import validate
from methods.training.answers import Answers, Shard
from methods.training.data import draft_vocabulary, split_off
from methods.training.draft_lm import Distillation, DraftTrainer, first_draft, save_draft
from methods.training.initial import first_head, head_target
from methods.training.loop import CHECKPOINT, Row, Trainer
from methods.training.objective import Objective
from methods.training.report import write_report
from methods.training.settings import DRAFT_LM, HEADS
from methods.training.shortage import too_many_weights
from primitives.models.eagle_loading import HeadTarget, save_head
from primitives.models.loading import LoadedModel
from primitives.models.recording import Recording

# What a checkpoint may differ in and still be gone on from.
FREE = ("data_dir", "checkpoint_minutes", "output", "answer_micro_batch", "micro_batch_tokens")

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class Trained:
    """A finished training.

    Attributes:
        folder: config.json and model.safetensors as published, the card, the curves and the figures of every step.
        rows: those figures.
    """

    folder: Path
    rows: Sequence[Row]


def train_eagle(settings: Settings) -> Trained:
    """Train a head for the configured model; what an interrupted start has finished is kept.

    Raises:
        ValueError: settings that cannot work, too little data, or a GPU that is too small.
    """
    training = settings.training
    model = _target(settings, HEADS, "train_eagle trains a draft head: set training=eagle3 or training=eagle2")
    exact = head_target(model.model)
    layers = exact.features if training.name == "eagle3" else ()
    wrong = [layer for layer in layers if not 0 <= layer < exact.num_layers]
    if wrong:
        raise ValueError(
            f"an EAGLE-3 head looks at layers 2, L // 2 and L - 3, and model '{settings.model.name}' has only "
            f"{exact.num_layers} layers: train an EAGLE-2 head with training=eagle2"
        )

    def trainer(answers: Answers, learnt: Sequence[Recording], folder: Path, identity: str) -> Trainer:
        return _trainer(answers, exact, learnt, folder, identity)

    return _trained(Answers(settings, model, layers), trainer, save_head)


def train_draft(settings: Settings) -> Trained:
    """Train a small language model that drafts for the configured one; as `train_eagle`.

    Its folder is an ordinary one of transformers, with the target's tokenizer.

    Raises:
        ValueError: settings that cannot work, too little data, or a GPU that is too small.
    """
    model = _target(settings, (DRAFT_LM,), "train_draft trains a draft model: set training=draft_lm")

    def trainer(answers: Answers, learnt: Sequence[Recording], folder: Path, identity: str) -> Trainer:
        loaded: Any = model.model
        draft = first_draft(settings.training, model.model)
        objective = Distillation(settings.training, loaded.get_output_embeddings().weight.float())
        return DraftTrainer(settings.training, draft, objective, folder, identity)

    return _trained(Answers(settings, model, ()), trainer, lambda draft, folder: save_draft(draft, model, folder))


def _target(settings: Settings, kinds: Sequence[str], instead: str) -> LoadedModel:
    """Return the target, after a look at the settings."""
    validate(settings)
    if settings.training.name not in kinds:
        raise ValueError(f"training.name is '{settings.training.name}', but scripts.{instead}")
    return loaded_model(replace(settings, drafter={"name": "none"}, draft_model=None))


def _trained(
    answers: Answers,
    trainer_of: Callable[[Answers, Sequence[Recording], Path, str], Trainer],
    save: Callable[[Any, Path], None],
) -> Trained:
    """Train on the answers, and leave behind what has been trained with its report."""
    settings, training = answers.settings, answers.training
    recordings, facts = _without_leaks(answers, answers.shards())
    learnt, held = split_off(recordings, training.validation, training.seed)
    facts |= {"answers": len(learnt), "held_out": len(held)}
    facts["tokens"] = sum(len(one.tokens) - one.answer for one in learnt)
    identity = short_hash([_settings(settings), answers.model.fingerprint, facts])
    folder = _folder(settings, identity)
    folder.mkdir(parents=True, exist_ok=True)
    with FileLock(folder / ".lock"):
        what, device = f"training.name={training.name} beside model '{settings.model.name}'", answers.model.model.device
        with enough_memory(lambda: f"{too_many_weights(what, device)}; the answers are kept"):
            trainer = trainer_of(answers, learnt, folder, identity)
        rows = trainer.run(learnt, held)
        save(trainer.head, folder)
        write_report(folder, settings, facts, rows)
        (folder / CHECKPOINT).unlink(missing_ok=True)
    return Trained(folder, rows)


def _trainer(answers: Answers, exact: HeadTarget, learnt: Sequence[Recording], folder: Path, identity: str) -> Trainer:
    training, model = answers.training, answers.model
    target = HeadTarget(exact.embeddings.float(), exact.output.float(), exact.num_layers)
    full, vocabulary = len(target.embeddings), None
    if training.name == "eagle3" and training.draft_vocab_size is not None and training.draft_vocab_size < full:
        ends = [token for token in model.tokenizer.all_special_ids if token < full]
        vocabulary = draft_vocabulary(learnt, answers.reference_counts(), training.draft_vocab_size, ends)
    head = first_head(training, model.model, target, vocabulary)
    return Trainer(training, head, Objective(training, target.output), folder, identity)


def _without_leaks(answers: Answers, shards: Sequence[Shard]) -> tuple[list[Recording], dict[str, int]]:
    """Return the answers that share no long passage with a test set, and how many prompts have been left out."""
    tests: list[Example] = []
    for name in answers.training.held_out:
        corpus = whole_split(answers.dataset(name), "test")
        tests += [replace(example, id=f"{corpus.name}/{example.id}") for example in corpus.examples]
    check = LeakCheck(tests)
    kept: list[Recording] = []
    facts = {"unfit": 0, "leaks": 0}
    for shard in shards:
        recordings, instructions, unfit = shard.content()
        facts["unfit"] += unfit
        for recording, instruction in zip(recordings, instructions, strict=True):
            text = answers.model.tokenizer.decode(recording.tokens[recording.answer :].tolist())
            if check.overlaps(instruction, str(text)):
                facts["leaks"] += 1
            else:
                kept.append(recording)
    if facts["leaks"]:
        _LOG.info("%d answers repeat a passage of a test set and are left out", facts["leaks"])
    return kept, facts


def _settings(settings: Settings) -> dict[str, object]:
    return {key: value for key, value in asdict(settings.training).items() if key not in FREE}


def _folder(settings: Settings, identity: str) -> Path:
    if settings.training.output is not None:
        return Path(settings.training.output).expanduser()
    return cache_folder(settings) / "heads" / f"{settings.model.name}-{settings.training.name}-{identity}"
