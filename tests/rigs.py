"""Targets and drafters whose behaviour is known: what the tests of the loop and of the primitives run on."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import WhitespaceSplit
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedModel, PreTrainedTokenizerFast

from methods.defaults import defaults
from primitives.contract import Context, Drafter, DraftTree, Ints, Outcome, Target, TargetView
from primitives.datastores.store_builder import StoreBuilder
from primitives.datastores.token_store import TokenStore, collapse
from primitives.datastores.vector_store import VectorStore
from primitives.models.batching import greedy_answers, hidden_states
from primitives.models.causal_lm import CausalLMTarget

VOCABULARY = 100
PADDED_VOCABULARY = 128
# Name of a rig: model type, and what differs from the common sizes.
TINY: dict[str, tuple[str, dict[str, Any]]] = {
    "llama": ("llama", {}),
    "qwen2": ("qwen2", {}),
    "qwen3": ("qwen3", {"head_dim": 16}),
    "gemma": ("gemma", {"head_dim": 16}),
    "mistral": ("mistral", {"sliding_window": None}),
    "padded": ("qwen2", {"vocab_size": PADDED_VOCABULARY}),
}
WINDOW = 8


class TableTarget(Target):
    """A target without weights: its next-token scores are looked up by the last token, or by the last two.

    The hidden state after a token is that token's one-hot vector.

    Args:
        table: float[V, V], or float[V, V, V] for the last two tokens.
        eos_ids: ids that end a text.
        max_positions: most positions, None if unlimited.
    """

    def __init__(self, table: torch.Tensor, eos_ids: Sequence[int] = (), max_positions: int | None = None) -> None:
        self.table = table
        self.vocab_size = table.shape[-1]
        self.eos_ids = frozenset(eos_ids)
        self.max_positions = max_positions
        self.text: list[int] = []
        self.furthest = -1
        self.trees: list[DraftTree] = []

    def scores(self, text: Sequence[int]) -> torch.Tensor:
        """Return [V] scores after a text."""
        if self.table.ndim == 2:
            return self.table[text[-1]]
        return self.table[text[-2] if len(text) > 1 else 0, text[-1]]

    def greedy(self, prompt: Sequence[int], count: int) -> list[int]:
        """Return what plain greedy decoding writes, up to and with the first EOS."""
        text = list(prompt)
        while len(text) < len(prompt) + count and not (len(text) > len(prompt) and text[-1] in self.eos_ids):
            text.append(int(self.scores(text).argmax()))
        return text[len(prompt) :]

    def prefill(self, ids: Ints) -> TargetView:
        self.text = ids.tolist()
        self.furthest = len(ids) - 1
        return TargetView(self.scores(self.text)[None], torch.eye(self.vocab_size)[ids])

    def verify(self, tree: DraftTree) -> TargetView:
        self.trees.append(tree)
        self.furthest = max(self.furthest, len(self.text) + int(tree.depths.max()) - 1)
        texts = [self.text, *(self.text + tree.tokens[tree.path_to(node)].tolist() for node in range(len(tree)))]
        last = torch.tensor([text[-1] for text in texts])
        return TargetView(torch.stack([self.scores(text) for text in texts]), torch.eye(self.vocab_size)[last])

    def commit(self, path: Ints) -> None:
        self.text += self.trees[-1].tokens[path].tolist()


class WatchedTarget(Target):
    """A target that compares, at every pass, what it says after the committed text with a fresh forward over it."""

    def __init__(self, inner: CausalLMTarget, tolerance: float = 1e-4) -> None:
        self.inner = inner
        self.tolerance = tolerance
        self.vocab_size = inner.vocab_size
        self.eos_ids = inner.eos_ids
        self.max_positions = inner.max_positions
        self.text: list[int] = []
        self.trees: list[DraftTree] = []

    def prefill(self, ids: Ints) -> TargetView:
        self.text = ids.tolist()
        self.trees = []
        return self.inner.prefill(ids)

    def verify(self, tree: DraftTree) -> TargetView:
        view = self.inner.verify(tree)
        fresh = self.inner.teacher_forced(np.array(self.text))
        torch.testing.assert_close(view.logits[0], fresh.logits[-1], rtol=0, atol=self.tolerance)
        torch.testing.assert_close(view.hidden[0], fresh.hidden[-1], rtol=0, atol=self.tolerance)
        assert self.inner.cache.length == len(self.text) + len(tree)
        self.trees.append(tree)
        return view

    def capture(self, layers: Sequence[int]) -> None:
        self.inner.capture(layers)

    def commit(self, path: Ints) -> None:
        self.inner.commit(path)
        self.text += self.trees[-1].tokens[path].tolist()
        assert self.inner.cache.length == len(self.text)


class OracleDrafter(Drafter):
    """Proposes the continuation that plain greedy decoding writes, and, as a tree, false branches beside it.

    Args:
        text: the prompt and its greedy continuation.
        count: tokens drafted below the pending one.
        tree: whether false branches stand beside the true one at every depth.
    """

    def __init__(self, text: Sequence[int], count: int, tree: bool = False) -> None:
        self.text = list(text)
        self.count = count
        self.tree = tree

    def propose(self, context: Context) -> DraftTree:
        done = len(context.tokens) - 1
        truth = self.text[done : done + self.count + 1]
        wrong = [[*truth[:depth], _other(truth[depth])] for depth in range(len(truth))] if self.tree else []
        return DraftTree.from_candidates([*wrong, truth]) if truth else DraftTree.empty()


class LiarDrafter(OracleDrafter):
    """Proposes, below the pending token, only what plain greedy decoding does not write."""

    def propose(self, context: Context) -> DraftTree:
        done = len(context.tokens) - 1
        wrong = [_other(token) for token in self.text[done + 1 : done + 1 + self.count]]
        if not wrong:
            return DraftTree.empty()
        branches = [[context.pending, *wrong]]
        if self.tree:
            branches += [[context.pending, _other(wrong[0]), *wrong], [_other(context.pending), *wrong]]
        return DraftTree.from_candidates(branches)


class RandomDrafter(OracleDrafter):
    """Proposes the greedy continuation with random errors in it, of random length; sometimes nothing."""

    def __init__(self, text: Sequence[int], count: int, tree: bool = False, seed: int = 0) -> None:
        super().__init__(text, count, tree)
        self.rng = np.random.default_rng(seed)

    def propose(self, context: Context) -> DraftTree:
        done = len(context.tokens) - 1
        truth = np.array(self.text[done : done + self.count + 1])
        branches = self.rng.integers(0, 5) if self.tree else self.rng.integers(0, 2)
        drafts = [self._garbled(truth[: self.rng.integers(0, len(truth) + 1)]) for _ in range(branches)]
        return DraftTree.from_candidates(drafts)

    def _garbled(self, truth: Ints) -> list[int]:
        noise = self.rng.integers(0, VOCABULARY, len(truth))
        return np.where(self.rng.random(len(truth)) < 0.2, noise, truth).tolist()


class FixedDrafter(Drafter):
    """Proposes given trees one after the other, then nothing; notes what it is told."""

    def __init__(self, *trees: DraftTree) -> None:
        self.trees = list(trees)
        self.contexts: list[tuple[list[int], int]] = []
        self.observed: list[tuple[list[int], TargetView]] = []
        self.prompt: list[int] = []
        self.finished = 0

    def start(self, prompt: Ints, view: TargetView) -> None:
        self.prompt = prompt.tolist()

    def propose(self, context: Context) -> DraftTree:
        self.contexts.append((context.tokens.tolist(), context.budget))
        return self.trees.pop(0) if self.trees else DraftTree.empty()

    def observe(self, outcome: Outcome) -> None:
        self.observed.append((outcome.committed.tolist(), outcome.committed_view))

    def finish(self) -> None:
        self.finished += 1


class Wrapped(Drafter):
    """Another drafter, whose trees a subclass changes or looks at."""

    def __init__(self, inner: Drafter) -> None:
        self.inner = inner
        self.start = inner.start  # type: ignore[method-assign]
        self.observe = inner.observe  # type: ignore[method-assign]
        self.finish = inner.finish  # type: ignore[method-assign]

    @property
    def layers(self) -> tuple[int, ...]:
        return self.inner.layers


class FirstBranch(Wrapped):
    """Another drafter, cut to the first branch of its trees."""

    def propose(self, context: Context) -> DraftTree:
        tree = self.inner.propose(context)
        if not len(tree):
            return tree
        branch = tree.paths[0]
        return DraftTree.chain(tree.tokens[branch[branch >= 0]])


class WithStates(Wrapped):
    """Another drafter whose chains carry random states, as of a draft model, and begin with the pending token."""

    def __init__(self, inner: Drafter, width: int = 32) -> None:
        super().__init__(inner)
        self.width = width

    def propose(self, context: Context) -> DraftTree:
        tree = self.inner.propose(context)
        if not len(tree) or tree.tokens[0] != context.pending:
            return DraftTree.empty()
        states = torch.randn(len(tree), self.width, generator=torch.Generator().manual_seed(len(context.tokens)))
        return replace(tree, hidden=states)


def _other(token: int) -> int:
    return (token + 1) % VOCABULARY


def tiny_model(name: str = "llama", window: int | None = None) -> PreTrainedModel:
    """Return a random float32 model of two layers, shared by all tests; `window` gives its layers a sliding window."""
    return _tiny_model(name, window)


@cache
def _tiny_model(name: str, window: int | None) -> PreTrainedModel:
    kind, changes = TINY[name]
    torch.manual_seed(1)
    sizes = {
        "vocab_size": VOCABULARY,
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 256,
        "tie_word_embeddings": False,
        "bos_token_id": None,
        "eos_token_id": None,
        "pad_token_id": None,
        **changes,
    }
    if window is not None:
        sizes["sliding_window"] = window
    auto: Any = AutoModelForCausalLM
    model: PreTrainedModel = auto.from_config(AutoConfig.for_model(kind, **sizes), attn_implementation="sdpa")
    for parameter in model.parameters():
        if parameter.ndim > 1:
            # Larger than at the usual start: greedy texts of such weights vary, and wander instead of looping at once.
            torch.nn.init.normal_(parameter, std=0.35)
    model.train(False)
    model.requires_grad_(False)
    return model


@dataclass(frozen=True, eq=False)
class Draft:
    """A draft model as drafters are given it."""

    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerFast


@cache
def word_tokenizer(size: int = VOCABULARY) -> PreTrainedTokenizerFast:
    """Return a tokenizer of the words t0, t1, ..., with their numbers as ids."""
    words = {f"t{index}": index for index in range(size)}
    backend = Tokenizer(WordLevel(words, unk_token="t0"))
    backend.pre_tokenizer = WhitespaceSplit()
    build: Any = PreTrainedTokenizerFast
    tokenizer: PreTrainedTokenizerFast = build(tokenizer_object=backend)
    return tokenizer


@cache
def tiny_draft(name: str = "llama", noise: float = 0.03) -> Draft:
    """Return a draft model for a tiny model: the same with noise on its weights, so that it is often right."""
    model = deepcopy(tiny_model(name))
    generator = torch.Generator().manual_seed(2)
    for parameter in model.parameters():
        if parameter.ndim > 1:
            parameter.add_(torch.randn(parameter.shape, generator=generator), alpha=noise)
    return Draft(model, word_tokenizer())


def greedy_of(model: PreTrainedModel, prompt: Sequence[int], count: int) -> list[int]:
    """Return what `generate` of transformers writes without sampling, no EOS."""
    generate: Any = model.generate
    ids = torch.tensor([list(prompt)])
    with torch.inference_mode():
        output = generate(
            ids, attention_mask=torch.ones_like(ids), max_new_tokens=count, do_sample=False, pad_token_id=0
        )
    return output[0, len(prompt) :].tolist()


def random_prompt(seed: int, length: int = 9) -> list[int]:
    return np.random.default_rng(seed).integers(0, VOCABULARY, length).tolist()


def drafter_knobs(name: str) -> dict[str, Any]:
    """Return the settings of a drafter as conf/ has them, but for those that the short texts of tests cannot have."""
    # A tiny model writes no blank line, and a segment of 500 tokens would not end.
    return defaults("drafter", name) | {"semanticspec": {"max_tokens": 4}}.get(name, {})


def tiny_store(name: str = "llama") -> VectorStore:
    """Return a store of a tiny model's own greedy answers to the random prompts of seeds 0 to 11, 16 dimensions."""
    return _tiny_store(name, 12, 16)


def tiny_token_store(name: str = "llama") -> TokenStore:
    """Return the answers that `tiny_store` points into."""
    return tiny_store(name).token_store


@cache
def _tiny_store(name: str, documents: int, dim: int) -> VectorStore:
    model = tiny_model(name)
    prompts = [np.array(random_prompt(seed)) for seed in range(documents)]
    answers = [np.array(answer) for answer in greedy_answers(model, prompts, 24, ())]
    kept, _ = collapse(answers)
    builder = StoreBuilder(TokenStore.build(answers), dim)
    texts = [np.concatenate([prompts[place], answers[place]]) for place in kept]
    for place, states in zip(kept, hidden_states(model, texts), strict=True):
        builder.add(states[len(prompts[place]) - 1 : -1])
    return builder.finish()


def successor_table(text: Sequence[int], size: int = VOCABULARY, best: float = 8.0) -> torch.Tensor:
    """Return a table, keyed by the last token, that makes `text` the greedy one where each token occurs once."""
    table = torch.zeros(size, size)
    for token, following in pairwise(text):
        table[token, following] = best
    return table


def passed(tokens: Sequence[int], view: TargetView) -> Outcome:
    """Return the outcome of a pass whose draft was a chain that was committed whole."""
    return Outcome(DraftTree.chain(tokens), view, np.arange(len(tokens)))


def tree_of(tokens: Sequence[int], parents: Sequence[int], scores: Sequence[float] | None = None) -> DraftTree:
    return DraftTree(
        np.array(tokens, np.int64),
        np.array(parents, np.int64),
        scores=None if scores is None else np.array(scores, float),
    )
