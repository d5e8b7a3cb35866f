"""A method put together over a recording instead of a model: its drafts are real, its times mean nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from transformers import AutoTokenizer, PreTrainedTokenizerBase

from connectors.connector import Connector
from methods.loaded import draft_fingerprint
from methods.offline.plan import Origin, plan_store
from methods.offline.stores import Stores
from methods.pipeline import connect, store_notes
from methods.recordings import TOKENIZER, Recording, open_recording
from methods.schema import Settings
from methods.settings import validate
from methods.shared import opened_store
from primitives.contract import Guarantee
from primitives.drafting.none import EmptyDrafter
from primitives.models.device import DTYPES
from primitives.models.loading import render_prompt
from primitives.models.replay_target import ReplayTarget
from primitives.verification.exact import ExactVerifier


@dataclass(frozen=True, eq=False)
class RecordedModel:
    """What is known of a model from its recording alone.

    Attributes:
        tokenizer: the model's own.
        recording: the recording.
        embeddings, output_embeddings: none; a drafter that shares the target's is refused by the settings.
    """

    tokenizer: PreTrainedTokenizerBase
    recording: Recording
    embeddings: ClassVar[None] = None
    output_embeddings: ClassVar[None] = None

    @property
    def num_layers(self) -> int:
        """Number of decoder layers."""
        return int(self.recording.facts["num_layers"])

    @property
    def fingerprint(self) -> str:
        """Identity of the weights that were recorded."""
        return str(self.recording.facts["fingerprints"]["model"])

    @property
    def source(self) -> str:
        """Where the model came from when it was recorded."""
        return str(self.recording.facts["model_source"])


@dataclass(frozen=True, eq=False)
class Replay:
    """A method and plain decoding over a recording; the attributes are those of `Pipeline`."""

    settings: Settings
    model: RecordedModel
    target: ReplayTarget
    connector: Connector
    baseline: Connector
    store: Stores | None
    guarantee: Guarantee
    notes: dict[str, Any]
    replayed: ClassVar[bool] = True

    @property
    def device(self) -> torch.device:
        """Where the recording was made."""
        return torch.device(self.model.recording.facts["device"])

    @property
    def dtype(self) -> torch.dtype:
        """The number format that the recording was made in."""
        return DTYPES[self.model.recording.facts["dtype"]]

    def encode(self, text: str, earlier: Sequence[tuple[str, str]] = ()) -> list[int]:
        """Return the ids of a prompt, in the model's chat format if it has one: see `Pipeline.encode`."""
        return render_prompt(self.model.tokenizer, text, self.settings.model, earlier)

    def spare(self) -> Connector:
        """Return another connector like the method's, whose drafter has seen no text yet."""
        return connect(self.settings, self.model, self.target, self.store)

    def manifest(self) -> dict[str, Any]:
        """Return the fingerprints of what the replay is made of."""
        prints = {**self.model.recording.facts["fingerprints"], "recording": self.model.recording.fingerprint}
        draft = draft_fingerprint(self.settings)
        if draft is not None:
            prints["draft_model"] = draft
        return prints if self.store is None else {**prints, "datastore": self.store.fingerprint}


def assemble_replay(settings: Settings) -> Replay:
    """Join drafter and verifier over the recording of these settings; no target is loaded.

    Raises:
        ValueError: there is no recording, or the store that the drafter searches has not been built.
    """
    validate(settings)
    recording = open_recording(settings)
    facts = recording.facts
    model = RecordedModel(AutoTokenizer.from_pretrained(recording.folder / TOKENIZER), recording)
    plan = plan_store(settings, Origin(**facts["fingerprints"], dtype=facts["dtype"]))
    store = None if plan is None else opened_store(plan)
    if plan is not None and store is None:
        raise ValueError(
            f"mode=replay builds no store, and the one that drafter '{settings.drafter['name']}' searches is not in "
            f"{plan.folder}: run scripts.prepare where the model is, and bring that folder here"
        )
    target = recording.target()
    connector = connect(settings, model, target, store)
    # Refused now and not at the first prompt: a layer that was not recorded.
    target.capture(connector.drafter.layers)
    baseline = Connector(target, EmptyDrafter(), ExactVerifier(), connector.decode, connector.max_nodes)
    notes = {} if plan is None or store is None else {"datastore": store_notes(plan, store)}
    return Replay(settings, model, target, connector, baseline, store, connector.verifier.guarantee, notes)
