"""A method put together from its primitives, ready to generate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Any, ClassVar, Protocol

import torch
from transformers import PreTrainedTokenizerBase

from connectors.connector import Connector
from connectors.settings import DEFAULT_MAX_NODES
from connectors.trace import Generation
from methods.calibration.files import check_calibration, load_calibration
from methods.drafts import HEAD, MODEL
from methods.loaded import check_tokenizers, draft_fingerprint, draft_folder, loaded_draft, loaded_model
from methods.offline.build import build_store
from methods.offline.plan import Plan, plan_store
from methods.offline.stores import Stores
from methods.quoting import quoted
from methods.schema import Settings
from methods.settings import STORES, compose, validate
from methods.shared import opened_store, target_of
from methods.training.probe_files import check_probes, load_probes
from primitives.contract import Guarantee
from primitives.drafting.none import EmptyDrafter
from primitives.models.causal_lm import CausalLMTarget
from primitives.models.loading import LoadedModel, render_prompt
from primitives.models.replay_target import ReplayTarget
from primitives.registry import DRAFTERS, VERIFIERS
from primitives.verification.exact import ExactVerifier


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
    store: Stores | None
    guarantee: Guarantee
    notes: dict[str, Any]

    def encode(self, text: str, earlier: Sequence[tuple[str, str]] = ()) -> list[int]:
        """Return the ids of a prompt, in the model's chat format if it has one.

        Args:
            text: what the user says.
            earlier: the turns before: what the user said, and the answer.
        """
        return render_prompt(self.model.tokenizer, text, self.settings.model, earlier)

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

    replayed: ClassVar[bool] = False

    @property
    def dtype(self) -> torch.dtype:
        """The target's number format."""
        return self.model.model.dtype

    @property
    def device(self) -> torch.device:
        """Where the target runs."""
        return self.target.device

    def spare(self) -> Connector:
        """Return another connector like the method's, whose drafter has seen no text yet."""
        return connect(self.settings, self.model, self.target, self.store)

    def manifest(self) -> dict[str, Any]:
        """Return the fingerprints of what the pipeline is made of."""
        prints = {"model": self.model.fingerprint, "tokenizer": self.model.tokenizer_fingerprint}
        parts = {
            "datastore": self.store,
            "calibration": load_calibration(self.settings, self.model.fingerprint),
            "probes": load_probes(self.settings, self.model.fingerprint),
        }
        draft = draft_fingerprint(self.settings)
        if draft is not None:
            prints["draft_model"] = draft
        return prints | {name: part.fingerprint for name, part in parts.items() if part is not None}


def load_pipeline(*words: str, **choices: object) -> Pipeline:
    """Return the pipeline that ``python run.py`` would build from the same words.

    Args:
        words: settings as on the command line, "decode.max_new_tokens=64".
        choices: settings whose names have no dot, method="sense".

    Raises:
        ValueError: unknown names, values out of range, or a model, data set or store that cannot be had.
    """
    return assemble(compose([*(f"{key}={quoted(value)}" for key, value in choices.items()), *words]))


def assemble(settings: Settings) -> Pipeline:
    """Load the model, prepare the store if the drafter searches one, and join drafter, verifier and target."""
    validate(settings)
    if settings.datastore.shard is not None:
        raise ValueError(
            "datastore.shard builds a part of a store and decodes nothing: leave it null, or use scripts.prepare"
        )
    clock = perf_counter()
    # A store that is there is checked before the model is loaded, which may take minutes.
    plan = plan_store(settings)
    store = None if plan is None else opened_store(plan)
    check_calibration(settings)
    check_tokenizers(settings)
    check_probes(settings)
    opened = perf_counter()
    model = loaded_model(settings)
    target = target_of(model)
    loaded = perf_counter()
    if plan is not None and store is None:
        store = build_store(plan, lambda: model)
    seconds = {"model": loaded - opened, "store": perf_counter() - loaded + opened - clock}
    notes: dict[str, Any] = {"load_seconds": seconds}
    if plan is not None and store is not None:
        notes["datastore"] = store_notes(plan, store)
    connector = connect(settings, model, target, store)
    baseline = Connector(target, EmptyDrafter(), ExactVerifier(), connector.decode, connector.max_nodes)
    return Pipeline(settings, model, target, connector, baseline, store, connector.verifier.guarantee, notes)


class Known(Protocol):
    """What joining the parts must know of a model: loaded, or recorded."""

    @property
    def fingerprint(self) -> str:
        """Identity of the weights."""

    @property
    def tokenizer(self) -> PreTrainedTokenizerBase:
        """The model's own."""

    @property
    def embeddings(self) -> torch.Tensor | None:
        """[V, h], the input embedding matrix, if it is there."""

    @property
    def output_embeddings(self) -> torch.Tensor | None:
        """[V, h], the output embedding matrix, if it is there."""

    @property
    def num_layers(self) -> int:
        """Number of decoder layers."""


def connect(settings: Settings, model: Known, target: CausalLMTarget | ReplayTarget, store: Stores | None) -> Connector:
    """Join the drafter and the verifier of these settings over a target that is there already."""
    calibration = load_calibration(settings, model.fingerprint)
    trained = load_probes(settings, model.fingerprint)
    whole = DRAFTERS.bare(settings.drafter).whole
    max_nodes = settings.connector.max_nodes or max(DEFAULT_MAX_NODES[target.device.type], whole)
    resources = {
        "vector_store": None if store is None else store.vectors,
        "token_store": None if store is None else store.tokens,
        "eos_ids": target.eos_ids,
        "vocab_size": target.vocab_size,
        "embeddings": model.embeddings,
        "output_embeddings": model.output_embeddings,
        "num_layers": model.num_layers,
        "max_nodes": max_nodes,
        "tokenizer": model.tokenizer,
        MODEL: loaded_draft(settings),
        HEAD: draft_folder(settings),
        "calibration": None if calibration is None else calibration.constants,
        "probes": None if trained is None else trained.probes.to(target.device),
    }
    for name in STORES:
        if resources[name] is None and DRAFTERS.asks_for(settings.drafter, name):
            raise ValueError(
                f"drafter '{settings.drafter['name']}' searches a {name.replace('_', ' ')}, which is not there: "
                "assemble the pipeline for a method that searches one"
            )
    drafter = DRAFTERS.build(settings.drafter["name"], _knobs(settings.drafter), resources)
    verifier = VERIFIERS.build(settings.verifier["name"], _knobs(settings.verifier), resources)

    def decode(ids: Sequence[int]) -> str:
        return str(model.tokenizer.decode(list(ids), skip_special_tokens=True))

    return Connector(target, drafter, verifier, decode, max_nodes, settings.connector.layout)


def store_notes(plan: Plan, store: Stores) -> dict[str, Any]:
    """Return what the manifest of a run tells of its store; `overlap`: documents in it that repeat the test split."""
    facts = store.facts
    repeated = len(facts["overlaps"])
    dropped = repeated if facts["leaks"] == "drop" else 0
    return {
        "kind": plan.settings.datastore.kind,
        "corpus": plan.train.name,
        "source": plan.train.source,
        "prompts": len(facts["prompts"]),
        "tokens": len(store),
        "keys": 0 if store.vectors is None else len(store),
        "left_out": {"empty": len(facts["empty"]), "too_long": len(facts["too_long"]), "overlap": dropped},
        "overlap": repeated - dropped,
        "sizes_mb": facts["sizes_mb"],
    }


def _knobs(config: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in config.items() if key != "name"}
