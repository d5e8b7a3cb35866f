"""Making a recording: plain greedy decoding of the test prompts, with everything kept that the target says."""

from __future__ import annotations

import logging
import shutil

import numpy as np

from connectors.connector import Connector
from corpora.corpus import Corpus
from corpora.templates import render
from methods.pipeline import Pipeline
from methods.recordings import TOKENIZER, Recording, begin_recording, read_recording, recording_folder
from primitives.drafting.none import EmptyDrafter
from primitives.models.device import dtype_name
from primitives.models.recording_target import RecordingTarget
from primitives.verification.exact import ExactVerifier

_LOG = logging.getLogger(__name__)


def record(pipeline: Pipeline, corpus: Corpus) -> tuple[Recording, int]:
    """Record what is not recorded yet; return the recording and how many texts were added.

    A recording made with other weights, on another device, or without the layers that the drafter looks at, is made
    anew; the layers of methods recorded earlier are recorded again, too.
    """
    recording = _begun(pipeline)
    target = RecordingTarget(pipeline.target, recording.facts["layers"])
    plain = Connector(target, EmptyDrafter(), ExactVerifier(), pipeline.connector.decode, max_nodes=1)
    added = 0
    for example in corpus.examples:
        said: list[tuple[str, str]] = []
        for turn in (render(pipeline.settings.dataset.template, example.instruction), *example.followups):
            prompt = np.array(pipeline.encode(turn, said), np.int64)
            if not recording.holds(prompt):
                recording.keep(target.text(plain.generate(prompt, pipeline.settings.decode).ids))
                added += 1
                _LOG.info("recorded prompt %s", example.id)
            if len(said) < len(example.followups):
                said.append((turn, pipeline.connector.decode(recording.text(prompt).output.tolist())))
    return recording, added


def _begun(pipeline: Pipeline) -> Recording:
    folder = recording_folder(pipeline.settings)
    before = read_recording(folder)
    target, model = pipeline.target, pipeline.model
    facts = {
        "fingerprints": {"model": model.fingerprint, "tokenizer": model.tokenizer_fingerprint},
        "device": str(target.device),
        "dtype": dtype_name(model.model.dtype),
        "num_layers": model.num_layers,
        "layers": sorted({*pipeline.connector.drafter.layers, *(before.facts["layers"] if before else ())}),
        "vocab_size": target.vocab_size,
        "eos_ids": sorted(target.eos_ids),
        "max_positions": target.max_positions,
        "model_source": model.source,
    }
    if before is not None and pipeline.settings.resume and {**before.facts, **facts} == before.facts:
        return before
    if before is not None:
        shutil.rmtree(folder)
    folder.mkdir(parents=True, exist_ok=True)
    model.tokenizer.save_pretrained(folder / TOKENIZER)
    return begin_recording(folder, facts)
