"""The documents of a store: answers to train prompts, the same whoever asks for them and in whatever order."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from math import inf
from pathlib import Path
from typing import Any

import numpy as np

from corpora.example import Example
from corpora.leaks import LeakCheck
from corpora.templates import render
from methods.offline.files import reading, write_json
from methods.offline.plan import Plan
from primitives.contract import Ints
from primitives.models.batching import greedy_answers
from primitives.models.causal_lm import configured_eos
from primitives.models.loading import LoadedModel, render_prompt

Asked = tuple[Example, Ints]


@dataclass
class Batch:
    """Prompts and answers of some train examples, those left out among them by id only.

    Attributes:
        ids: of the examples whose answers go into the store.
        prompts: int64[T_i] each.
        answers: int64[n_i] each, none empty; prompt and answer together fit the model's positions.
        empty: ids of those left out because there is no prompt, or no answer.
        too_long: ids of those left out because the prompt alone takes all positions of the model.
        cut: ids of those whose answer ends where the model's positions do.
        overlaps: ids of those that repeat a passage of the test split, and of the test prompts that they repeat.
    """

    ids: list[str] = field(default_factory=list)
    prompts: list[Ints] = field(default_factory=list)
    answers: list[Ints] = field(default_factory=list)
    empty: list[str] = field(default_factory=list)
    too_long: list[str] = field(default_factory=list)
    cut: list[str] = field(default_factory=list)
    overlaps: dict[str, list[str]] = field(default_factory=dict)

    @property
    def pairs(self) -> list[tuple[Ints, Ints]]:
        """Prompt and answer of each document."""
        return list(zip(self.prompts, self.answers, strict=True))

    @property
    def forwarded(self) -> int:
        """Tokens that go through the model for the keys of the documents."""
        return sum(map(len, self.prompts)) + sum(map(len, self.answers))

    @property
    def notes(self) -> dict[str, Any]:
        """All but the texts, for JSON."""
        lengths = list(map(len, self.answers))
        out = {"empty": self.empty, "too_long": self.too_long, "cut": self.cut, "overlaps": self.overlaps}
        return {"ids": self.ids, "lengths": lengths, **out}


class Documents:
    """All documents of a plan, batch by batch.

    Args:
        plan: of the store.
        model: answers the prompts of an `id` store; its tokenizer reads them all.
    """

    def __init__(self, plan: Plan, model: LoadedModel) -> None:
        self.plan = plan
        self.model = model
        self.eos_ids = frozenset(configured_eos(model.model))
        self._limit = getattr(model.model.config.get_text_config(), "max_position_embeddings", None)
        # Prompts of one length share a batch, so that little of it is padding. Characters will do, so that a job which
        # builds one shard of many need not tokenise the prompts of all.
        self._order = np.argsort([len(example.instruction) for example in plan.train.examples], kind="stable")
        self._leaks = LeakCheck(plan.evaluation.examples)

    def size(self, number: int) -> int:
        """Return how many examples a batch has."""
        return len(self._order[self._rows(number)])

    def answered(self, number: int) -> bool:
        """Return whether a batch needs no more work of the model."""
        return self.plan.settings.datastore.kind != "id" or self._file(number).is_file()

    def batch(self, number: int) -> Batch:
        """Return the documents of a batch; the model's own answers are generated when they are first asked for."""
        batch = Batch()
        asked = list(self._asked(number, batch))
        own = self.plan.settings.datastore.kind == "id"
        answers = self._own(number, asked) if own and asked else self._references(asked)
        for (example, prompt), (answer, cut) in zip(asked, answers, strict=True):
            self._enter(batch, example, prompt, answer, cut)
        return batch

    def _asked(self, number: int, batch: Batch) -> Iterator[Asked]:
        """Yield the examples of a batch that can be answered, and their prompts; note the others."""
        for row in self._order[self._rows(number)]:
            example = self.plan.train.examples[row]
            prompt = self._prompt(example)
            if not len(prompt):
                batch.empty.append(example.id)
            elif self._room(prompt) < 1:
                batch.too_long.append(example.id)
            else:
                yield example, prompt

    def _prompt(self, example: Example) -> Ints:
        """Return int64[T], without tokens where there is nothing to ask."""
        if not example.instruction.strip():
            return np.empty(0, np.int64)
        text = render(self.plan.asking.template, example.instruction)
        return np.array(render_prompt(self.model.tokenizer, text, self.plan.settings.model), np.int64)

    def _room(self, prompt: Ints) -> float:
        """Return how many positions of the model a prompt leaves."""
        return inf if self._limit is None else self._limit - len(prompt)

    def _own(self, number: int, asked: Sequence[Asked]) -> Iterator[tuple[Ints, bool]]:
        """Yield the model's greedy answers, kept from an earlier build or made now, and whether they had to be cut."""
        wanted, path = self.plan.settings.datastore.max_new_tokens, self._file(number)
        longest = int(min(wanted, *(self._room(prompt) for _, prompt in asked)))
        if not path.is_file():
            prompts = [prompt for _, prompt in asked]
            write_json(path, greedy_answers(self.model.model, prompts, longest, self.eos_ids))
        with reading(path):
            answers: list[list[int]] = json.loads(path.read_text(encoding="utf-8"))
            if len(answers) != len(asked):
                raise ValueError(f"it holds {len(answers)} answers to {len(asked)} prompts")
        for answer in answers:
            cut = longest < wanted and len(answer) == longest and answer[-1] not in self.eos_ids
            yield np.array(answer, np.int64), cut

    def _references(self, asked: Sequence[Asked]) -> Iterator[tuple[Ints, bool]]:
        """Yield the reference answers as the model would have written them: tokens, and an EOS at the end."""
        wanted = self.plan.settings.datastore.max_new_tokens
        for example, prompt in asked:
            ids = self.model.tokenizer(example.reference, add_special_tokens=False).input_ids
            answer = np.array([*ids, *sorted(self.eos_ids)[-1:]], np.int64)[:wanted]
            room = self._room(prompt)
            yield answer[: int(min(room, wanted))], len(answer) > room

    def _enter(self, batch: Batch, example: Example, prompt: Ints, answer: Ints, cut: bool) -> None:
        """Add a document to a batch, or note why it is left out."""
        text = str(self.model.tokenizer.decode(answer.tolist(), skip_special_tokens=True))
        if not text.strip():
            batch.empty.append(example.id)
            return
        repeated = self._leaks.overlaps(example.instruction, text)
        if repeated:
            batch.overlaps[example.id] = repeated
            if self.plan.settings.datastore.leaks == "drop":
                return
        if cut:
            batch.cut.append(example.id)
        batch.ids.append(example.id)
        batch.prompts.append(prompt)
        batch.answers.append(answer)

    def _rows(self, number: int) -> slice:
        size = self.plan.settings.datastore.batch_size
        return slice(number * size, (number + 1) * size)

    def _file(self, number: int) -> Path:
        return self.plan.answers / f"{number:05d}.json"
