"""The training of SemanticSpec's probes: label the train prompts one by one, then fit both probes."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Final, cast

import numpy as np
import torch
from filelock import FileLock

from corpora.corpus import Corpus
from corpora.loading import load_corpus
from corpora.templates import TEMPLATES_VERSION, render
from methods.calibration.recipe import Arrays
from methods.loaded import check_tokenizers, loaded_draft, loaded_model
from methods.memory import enough_memory
from methods.offline.files import write_whole
from methods.places import cache_folder, short_hash
from methods.progress import TokenProgress
from methods.schema import Settings
from methods.train_set import train_settings
from methods.training.probe_equivalence import equivalence_of
from methods.training.probe_files import (
    TrainedProbes,
    asks_probes,
    identity,
    probe_folder,
    read_probes,
    write_probes,
)
from methods.training.probe_fit import Fit, fit_probe
from methods.training.probe_labels import Labeller
from primitives.drafting.semanticspec import SemanticSpecDrafter
from primitives.models.device import dtype_name, resolve_device, resolve_dtype
from primitives.models.fingerprint import model_fingerprint
from primitives.models.loading import LoadedModel, model_folder, render_prompt
from primitives.registry import DRAFTERS
from primitives.verification._probe import Probes

SIDES: Final = ("target", "draft")
CURVES: Final = "loss.png"
# Settings that change no label.
_OF_THE_FIT: Final = ("batch_size", "learning_rate", "epochs", "patience", "validation", "num_prompts")

_LOG = logging.getLogger(__name__)


def train_probes(settings: Settings) -> TrainedProbes:
    """Return the probes of the configured target and draft model, trained first if need be.

    Labels of an interrupted start are kept, unless `resume` is off.

    Raises:
        ValueError: a drafter or verifier without probes, models that do not fit, or too few labels.
    """
    if not asks_probes(settings):
        raise ValueError(
            f"verifier '{settings.verifier['name']}' asks no probes with these settings: use method=semanticspec"
        )
    check_tokenizers(settings)
    settings = replace(settings, dataset=train_settings(settings.dataset))
    corpus = load_corpus(settings.dataset, "train", at_most=settings.probe.num_prompts)
    if len(corpus) < settings.probe.num_prompts:
        _LOG.warning("%s has %d train prompts, not probe.num_prompts", corpus.name, len(corpus))
    model = model_fingerprint(model_folder(settings.model, cache_folder(settings))[0])
    belongs_to = identity(settings, model)
    folder = probe_folder(settings, belongs_to)
    folder.mkdir(parents=True, exist_ok=True)
    with FileLock(folder / "lock"):
        made_of = _made_of(settings, corpus)
        found = read_probes(folder) if settings.resume else None
        if found is None or found.facts["made_of"] != made_of:
            _train(settings, corpus, folder, belongs_to, made_of)
            found = read_probes(folder)
    assert found is not None
    return found


def _train(
    settings: Settings, corpus: Corpus, folder: Path, belongs_to: Mapping[str, Any], made_of: Mapping[str, Any]
) -> None:
    prompts = _labels(settings, corpus, folder)
    owner = np.repeat(np.arange(len(prompts)), [sum(len(part["target_shares"]) for part in found) for found in prompts])
    parts = [part for found in prompts for part in found]
    device = resolve_device(settings.device)
    fits: dict[str, Fit] = {}
    for side in SIDES:
        width = next((part[f"{side}_states"].shape[1] for part in parts), 1)
        states = np.concatenate([np.empty((0, width), np.float32), *(part[f"{side}_states"] for part in parts)])
        labels = np.concatenate([np.empty(0, np.float32), *(part[f"{side}_shares"] for part in parts)])
        with enough_memory(lambda: _too_large(settings, device)):
            fits[side] = fit_probe(states, labels, owner, settings.probe, device)
    draw_curves(folder / CURVES, fits)
    facts = {
        "corpus": f"{corpus.name}: {corpus.source}",
        "prefixes": len(parts),
        "prompts_without": sum(not found for found in prompts),
        **{side: fits[side].facts for side in SIDES},
        "made_of": dict(made_of),
    }
    write_probes(folder, belongs_to, Probes(fits["target"].probe, fits["draft"].probe), facts)


def _labels(settings: Settings, corpus: Corpus, folder: Path) -> list[list[Arrays]]:
    """Return for each prompt what is found behind each prefix of its answer."""
    model = loaded_model(settings)
    draft = cast(LoadedModel, loaded_draft(settings))
    drafter = cast(SemanticSpecDrafter, DRAFTERS.bare(settings.drafter))
    equivalence = equivalence_of(settings.probe, resolve_device(settings.device))
    labels = folder / f"labels-{short_hash(_labels_made_of(settings))}"
    labels.mkdir(exist_ok=True)
    if not settings.resume:
        for file in labels.glob("*.safetensors"):
            file.unlink()
    labeller = Labeller(settings.probe, model, draft, drafter, equivalence, labels)
    found = []
    with TokenProgress("segments of train prompts", len(corpus)) as progress:
        for example in corpus.examples:
            text = render(settings.dataset.template, example.instruction)
            ids = np.array(render_prompt(model.tokenizer, text, settings.model), np.int64)
            # The draws behind a prompt hang on nothing but the prompt.
            seed = int(short_hash([settings.probe.seed, ids.tolist()]), 16)
            with enough_memory(lambda: _too_many(settings, model.model.device)):
                found.append(labeller(ids, f"{example.id}-{short_hash(ids.tolist())}", seed))
            progress.advance(1, sum(len(part["target_shares"]) for part in found[-1]))
    return found


def _too_many(settings: Settings, device: torch.device) -> str:
    return (
        f"probe.samples={settings.probe.samples} segments at once are too much for the memory of {device}: free some "
        "of it and start again, which keeps finished labels, or lower it, which begins them anew"
    )


def _too_large(settings: Settings, device: torch.device) -> str:
    return (
        f"probe.batch_size={settings.probe.batch_size} is too much for the memory of {device}: lower it, or free some "
        "of the memory; the labels are kept"
    )


def _labels_made_of(settings: Settings) -> dict[str, Any]:
    """Return what a label hangs on beside the two models and its prompt."""
    return {
        "drafter": settings.drafter,
        "template": [settings.dataset.template, TEMPLATES_VERSION],
        "chat": [settings.model.chat_template, settings.model.template_kwargs],
        "dtype": dtype_name(resolve_dtype(settings.dtype, resolve_device(settings.device))),
        "sampling": {key: value for key, value in asdict(settings.probe).items() if key not in _OF_THE_FIT},
    }


def _made_of(settings: Settings, corpus: Corpus) -> dict[str, Any]:
    """Return what probes are trained on and how: with anything else they are trained again."""
    return {"corpus": corpus.fingerprint, "probe": asdict(settings.probe), **_labels_made_of(settings)}


def draw_curves(path: Path, fits: Mapping[str, Fit]) -> None:
    """Write a .png of the errors of each probe over the epochs, beside that of a probe that always says the mean."""
    # matplotlib takes a second to import, which no run needs.
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 4), layout="constrained")
    for axes, (side, fit) in zip(figure.subplots(1, len(fits)), fits.items(), strict=True):
        epochs = np.arange(1, len(fit.losses) + 1)
        axes.plot(epochs, fit.losses, marker=".", label="in training (with dropout)")
        axes.plot(epochs, fit.held_out, marker=".", label="prompts held out")
        axes.axhline(fit.facts["mse_of_the_mean"], color="grey", linestyle="--", label="the mean for all of them")
        axes.set(xlabel="epoch", ylabel="mean squared error", title=f"probe of the {side} model", ylim=(0, None))
        axes.legend(fontsize="small")
        axes.grid(alpha=0.3)
    write_whole(path, lambda file: figure.savefig(file, format="png", dpi=120))
