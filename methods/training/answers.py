"""The data of a training: the target's own answers to train prompts, with its hidden states, on the disk."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, Final

import numpy as np

from corpora.corpus import Corpus
from corpora.loading import load_corpus, whole_split
from corpora.settings import DatasetSettings
from corpora.templates import TEMPLATES_VERSION, render
from methods.memory import enough_memory
from methods.offline.files import reading, write_array, write_json
from methods.overrides import compose
from methods.places import cache_folder, short_hash
from methods.progress import TokenProgress
from methods.schema import Settings
from methods.training.shortage import too_many_answers
from primitives.contract import Ints
from primitives.models.causal_lm import configured_eos
from primitives.models.device import dtype_name
from primitives.models.loading import LoadedModel, render_prompt
from primitives.models.recording import Halves, Recording, recorded_answers

# Prompts are sorted by length within so many batches, so that little of a batch is padding and that yet any first part
# of the batches is a fair sample.
SORTED_TOGETHER: Final = 4

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class Shard:
    """The answers of one batch on the disk.

    Attributes:
        facts: the .json file with ids, tokens and what was left out; it is written last.
    """

    facts: Path

    @property
    def states(self) -> Path:
        """The .npy file of the states of all answers, one after the other."""
        return self.facts.with_suffix(".npy")

    def content(self) -> tuple[list[Recording], list[str], int]:
        """Return the answers, their prompts' texts, and how many prompts were unfit; states are mapped, not read.

        Raises:
            StoreError: a file is missing or damaged.
        """
        with reading(self.facts):
            facts = json.loads(self.facts.read_text(encoding="utf-8"))
            states = np.load(self.states, mmap_mode="r")
            lengths = [len(tokens) - 1 for tokens in facts["tokens"]]
            if sum(lengths) != len(states):
                raise ValueError(f"it counts {sum(lengths)} states, and {self.states.name} holds {len(states)}")
            stops = np.cumsum(lengths)
            recordings = [
                Recording(np.array(tokens, np.int64), answer, states[stop - length : stop])
                for tokens, answer, stop, length in zip(facts["tokens"], facts["answers"], stops, lengths, strict=True)
            ]
            return recordings, list(facts["instructions"]), int(facts["unfit"])


class Answers:
    """The answers of a training, made batch by batch; finished batches are kept.

    Args:
        settings: of the run.
        model: the target.
        layers: whose entering states are recorded beside the final ones.
    """

    def __init__(self, settings: Settings, model: LoadedModel, layers: Sequence[int]) -> None:
        self.settings = settings
        self.training = settings.training
        self.model = model
        self.layers = list(layers)
        self.eos_ids = frozenset(configured_eos(model.model))
        # Composing settings takes longer than anything else that is asked of a data set again and again.
        self._sets = {name: _found(name, self.training.data_dir) for name in self._names()}
        self.corpora = {name: self._corpus(name) for name in self.training.datasets}

    def shards(self) -> list[Shard]:
        """Return all batches, made first where they are missing."""
        plan = list(self._plan())
        todo = [batch for batch in plan if not batch[0].facts.is_file()]
        with TokenProgress(f"answers of {self.settings.model.name}", len(todo)) as progress:
            for shard, name, rows in todo:
                with enough_memory(partial(self._too_many, len(rows))):
                    made = self._make(shard, name, rows)
                progress.advance(1, made)
        return [shard for shard, _, _ in plan]

    def reference_counts(self) -> Ints:
        """Return int64[V]: how often each token occurs in the reference answers of all train prompts there are."""
        counts = np.zeros(len(self.model.embeddings), np.int64)
        for name in self.training.datasets:
            texts = [example.reference for example in whole_split(self.dataset(name), "train").examples]
            for ids in self.model.tokenizer(texts, add_special_tokens=False).input_ids:
                counts += np.bincount(np.array(ids, np.int64), minlength=len(counts))
        return counts

    def dataset(self, name: str) -> DatasetSettings:
        """Return where the rows of a data set come from."""
        return self._sets[name]

    def _names(self) -> Iterable[str]:
        return dict.fromkeys([*self.training.datasets, *self.training.held_out])

    def _corpus(self, name: str) -> Corpus:
        count = self.training.num_prompts
        corpus = load_corpus(self.dataset(name), "train", at_most=count)
        if len(corpus) < count:
            _LOG.warning("%s has %d train prompts, not the %d of training.num_prompts", corpus.name, len(corpus), count)
        return corpus

    def _plan(self) -> Iterator[tuple[Shard, str, list[int]]]:
        """Yield each batch of each data set, the sets in turn."""
        queues = [[(name, rows) for rows in self._batches(corpus)] for name, corpus in self.corpora.items()]
        for place in range(max(map(len, queues), default=0)):
            for name, rows in (queue[place] for queue in queues if place < len(queue)):
                yield Shard(self._file(name, rows)), name, rows

    def _batches(self, corpus: Corpus) -> Iterator[list[int]]:
        size = self.training.answer_batch
        for start in range(0, len(corpus), size * SORTED_TOGETHER):
            block = range(start, min(start + size * SORTED_TOGETHER, len(corpus)))
            ordered = sorted(block, key=lambda row: len(corpus.examples[row].instruction))
            yield from (ordered[at : at + size] for at in range(0, len(ordered), size))

    def _file(self, name: str, rows: Sequence[int]) -> Path:
        """Return where a batch lies: named by all that its content hangs on."""
        made_of = {
            "model": self.model.fingerprint,
            "dtype": dtype_name(self.model.model.dtype),
            "layers": self.layers,
            "lengths": [self.training.max_prompt_tokens, self.training.max_new_tokens],
            "template": [self.dataset(name).template, TEMPLATES_VERSION, self.settings.model.template_kwargs],
        }
        folder = cache_folder(self.settings) / "answers" / f"{self.settings.model.name}-{short_hash(made_of)}"
        texts = [self.corpora[name].examples[row].instruction for row in rows]
        return folder / f"{name}-{rows[0]:05d}-{short_hash(texts)}.json"

    def _make(self, shard: Shard, name: str, rows: Sequence[int]) -> int:
        """Write a batch; return the tokens of its answers."""
        examples = [self.corpora[name].examples[row] for row in rows]
        asked = [(example, self._prompt(name, example.instruction)) for example in examples]
        fitting = [(example, ids) for example, ids in asked if 0 < len(ids) <= self.training.max_prompt_tokens]
        made = self._answered([ids for _, ids in fitting]) if fitting else []
        width = self.model.embeddings.shape[1] * (len(self.layers) + 1)
        states: Halves = np.concatenate([np.empty((0, width), np.float16), *(recording.states for recording in made)])
        write_array(shard.states, states)
        facts: dict[str, Any] = {
            "ids": [f"{name}/{example.id}" for example, _ in fitting],
            "instructions": [example.instruction for example, _ in fitting],
            "tokens": [recording.tokens.tolist() for recording in made],
            "answers": [recording.answer for recording in made],
            "unfit": len(asked) - len(fitting),
        }
        write_json(shard.facts, facts)
        return sum(len(recording.tokens) - recording.answer for recording in made)

    def _answered(self, prompts: Sequence[Ints]) -> list[Recording]:
        longest = self.training.max_new_tokens
        limit = getattr(self.model.model.config.get_text_config(), "max_position_embeddings", None)
        if limit is not None:
            longest = min(longest, limit - max(map(len, prompts)))
        size = self._together
        parts = [prompts[at : at + size] for at in range(0, len(prompts), size)]
        made = [recorded_answers(self.model.model, part, longest, self.eos_ids, self.layers) for part in parts]
        return list(chain.from_iterable(made))

    @property
    def _together(self) -> int:
        return min(self.training.answer_micro_batch or self.training.answer_batch, self.training.answer_batch)

    def _too_many(self, rows: int) -> str:
        return too_many_answers(self.training, min(self._together, rows), self.model.model.device)

    def _prompt(self, name: str, instruction: str) -> Ints:
        if not instruction.strip():
            return np.empty(0, np.int64)
        text = render(self.dataset(name).template, instruction)
        return np.array(render_prompt(self.model.tokenizer, text, self.settings.model), np.int64)


def _found(name: str, data_dir: str | None) -> DatasetSettings:
    settings = compose([f"dataset={name}"]).dataset
    return settings if data_dir is None else replace(settings, path=str(Path(data_dir) / name))
