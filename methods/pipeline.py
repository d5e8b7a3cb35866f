"""A method put together from its primitives, ready to generate."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Any, Final

import torch

from connectors.connector import Connector
from connectors.trace import Generation
from methods.offline import cache_folder, check_store, prepare_store, store_corpus
from methods.schema import Settings
from methods.settings import compose, validate
from primitives.contract import Guarantee
from primitives.datastores.hidden_state_store import HiddenStateStore
from primitives.drafting.none import EmptyDrafter
from primitives.models.causal_lm import CausalLMTarget
from primitives.models.device import resolve_device, resolve_dtype
from primitives.models.loading import LoadedModel, load_model, render_prompt
from primitives.registry import DRAFTERS, VERIFIERS
from primitives.verification.exact import ExactVerifier

# Nodes that a forward takes at little more than the price of one: docs/fidelity.md, "Node budget".
DEFAULT_MAX_NODES: Final = {"cpu": 24, "cuda": 64}

_LOADED: dict[str, LoadedModel] = {}


@dataclass(frozen=True, eq=False)
class Pipeline:
    """A method and its baseline over one target.

    Attributes:
        settings: what it was made from.
        model: the loaded model.
        target: the one adapter, and so the one KV cache, that both connectors use in turn.
        connector: the method's loop.
        baseline: plain greedy decoding through the same loop.
        store: what a retrieval drafter searches, else None.
        guarantee: what the verifier promises of the output.
        notes: seconds that loading took, and what the store was made of.
    """

    settings: Settings
    model: LoadedModel
    target: CausalLMTarget
    connector: Connector
    baseline: Connector
    store: HiddenStateStore | None
    guarantee: Guarantee
    notes: dict[str, Any]

    def encode(self, text: str) -> list[int]:
        """Return the ids of a prompt, in the model's chat format if it has one."""
        return render_prompt(self.model.tokenizer, text, self.settings.model)

    def generate(self, text: str, max_new_tokens: int | None = None, stop: Sequence[str] | None = None) -> Generation:
        """Return the continuation of a prompt: `.text`, `.ids` and `.trace`.

        Args:
            text: the prompt, without chat format.
            max_new_tokens: most tokens to generate; None takes the settings' value.
            stop: strings that end the text; None takes the settings' value.
        """
        decode = self.settings.decode
        if max_new_tokens is not None:
            decode = replace(decode, max_new_tokens=max_new_tokens)
        if stop is not None:
            decode = replace(decode, stop=list(stop))
        return self.connector.generate(self.encode(text), decode)

    def manifest(self) -> dict[str, Any]:
        """Return the fingerprints of what the pipeline is made of."""
        prints = {"model": self.model.fingerprint, "tokenizer": self.model.tokenizer_fingerprint}
        return prints if self.store is None else {**prints, "datastore": self.store.fingerprint}


def load_pipeline(*words: str, **choices: object) -> Pipeline:
    """Return the pipeline that ``python run.py`` would build from the same words.

    Args:
        words: settings as on the command line, "decode.max_new_tokens=64".
        choices: settings whose names have no dot, method="sense".

    Raises:
        ValueError: unknown names, values out of range, or a model, data set or store that cannot be had.
    """
    return assemble(compose([*(f"{key}={_quoted(value)}" for key, value in choices.items()), *words]))


def assemble(settings: Settings) -> Pipeline:
    """Load the model, prepare the store if the drafter searches one, and join drafter, verifier and target."""
    validate(settings)
    corpus = store_corpus(settings)
    if corpus is not None:
        check_store(settings, corpus)
    clock = perf_counter()
    model = _model(settings, resolve_device(settings.device))
    target = CausalLMTarget(model.model)
    loaded = perf_counter()
    store = None if corpus is None else prepare_store(settings, model, corpus)
    notes: dict[str, Any] = {"load_seconds": {"model": loaded - clock, "store": perf_counter() - loaded}}
    if store is not None and corpus is not None:
        facts = {"corpus": corpus.name, "source": corpus.source, "prompts": len(corpus), "keys": len(store)}
        notes["datastore"] = {"kind": settings.datastore.kind, **facts}
    connector = connect(settings, model, target, store)
    baseline = Connector(target, EmptyDrafter(), ExactVerifier(), connector.decode, connector.max_nodes)
    return Pipeline(settings, model, target, connector, baseline, store, connector.verifier.guarantee, notes)


def connect(
    settings: Settings, model: LoadedModel, target: CausalLMTarget, store: HiddenStateStore | None
) -> Connector:
    """Join the drafter and the verifier of these settings over a target that is there already."""
    resources = {"vector_store": store, "eos_ids": target.eos_ids, "vocab_size": target.vocab_size}
    drafter = DRAFTERS.build(settings.drafter["name"], _knobs(settings.drafter), resources)
    verifier = VERIFIERS.build(settings.verifier["name"], _knobs(settings.verifier), resources)

    def decode(ids: Sequence[int]) -> str:
        return str(model.tokenizer.decode(list(ids), skip_special_tokens=True))

    max_nodes = settings.connector.max_nodes or DEFAULT_MAX_NODES[target.device.type]
    return Connector(target, drafter, verifier, decode, max_nodes)


def _model(settings: Settings, device: torch.device) -> LoadedModel:
    """Return the model, loaded once for the jobs of a sweep that follow each other with the same one."""
    dtype, cache = resolve_dtype(settings.dtype, device), cache_folder(settings)
    key = repr((settings.model, device, dtype, cache))
    if key not in _LOADED:
        # A sweep over models must not hold two at a time.
        _LOADED.clear()
        _LOADED[key] = load_model(settings.model, device, dtype, cache)
    return _LOADED[key]


def _knobs(config: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in config.items() if key != "name"}


def _quoted(value: object) -> str:
    """Return a value as Hydra's grammar takes it unchanged, whatever characters it holds."""
    if not isinstance(value, str):
        return "null" if value is None else str(value)
    # In Hydra's quotes a backslash stands for itself unless it comes before a quote.
    escaped = re.sub(r"(\\*)('|\Z)", lambda found: found[1] * 2 + ("\\'" if found[2] else ""), value)
    return f"'{escaped}'"
