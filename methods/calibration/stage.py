"""The offline stage of calibrated verifiers: measure the train prompts one by one, then make the constants."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from filelock import FileLock

from connectors.settings import DecodeSettings
from corpora.corpus import Corpus
from corpora.loading import load_corpus
from methods.calibration.files import (
    Calibration,
    calibration_file,
    identity,
    kept,
    read_calibration,
    recipe_of,
    write_calibration,
)
from methods.calibration.recipe import Amounts, Arrays, Bench, FinalAnswer, Recipe
from methods.pipeline import assemble
from methods.places import cache_folder, short_hash
from methods.progress import TokenProgress
from methods.schema import Settings
from methods.settings import needs_store
from methods.train_set import train_settings
from primitives.models.device import dtype_name, resolve_device, resolve_dtype
from primitives.models.fingerprint import model_fingerprint
from primitives.models.loading import model_folder

_LOG = logging.getLogger(__name__)


def calibrate(settings: Settings, final_answers: Mapping[str, FinalAnswer]) -> Calibration:
    """Return the constants of the configured verifier for the configured model, measured first if need be.

    Finished prompts of an interrupted calibration are kept, unless `resume` is off.

    Args:
        settings: verifier, model, train prompts; a drafter, where the recipe looks at drafts.
        final_answers: how to find the final answer of a text, by metric.

    Raises:
        ValueError: a verifier without constants, an unfit data set, or too few samples.
    """
    recipe = recipe_of(settings)
    settings = replace(settings, dataset=train_settings(settings.dataset))
    if recipe.metrics and settings.dataset.metric not in recipe.metrics:
        raise ValueError(
            f"verifier '{settings.verifier['name']}' is calibrated on final answers, which texts of dataset "
            f"'{settings.dataset.name}' do not have: use dataset=gsm8k or dataset=triviaqa"
        )
    amounts = recipe.amounts.changed(settings.calibration)
    corpus = _prompts(settings, recipe, amounts)
    folder, _ = model_folder(settings.model, cache_folder(settings))
    model = model_fingerprint(folder)
    path = calibration_file(settings, model)
    path.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(path.with_suffix(".lock")):
        made_of = _made_of(settings, recipe, corpus, amounts)
        found = read_calibration(path) if settings.resume else None
        if found is None or found.facts["made_of"] != made_of:
            pipeline = assemble(_without_verifier(settings, recipe))
            bench = Bench(
                pipeline, amounts, final_answers.get(str(settings.dataset.metric), lambda text, example: None)
            )
            prompts = _measured(settings, recipe, bench, corpus)
            found = Calibration(
                recipe.constants(prompts, recipe.level(settings.verifier)),
                _facts(corpus, prompts, made_of),
                path,
            )
            write_calibration(path, identity(settings, model), found)
    return found


def _prompts(settings: Settings, recipe: Recipe, amounts: Amounts) -> Corpus:
    """Return the train prompts to measure: where the drafter has a store, those behind the ones that it holds."""
    stored = settings.datastore.num_prompts if recipe.uses_drafter and needs_store(settings.drafter) else 0
    corpus = load_corpus(settings.dataset, "train", at_most=stored + amounts.num_prompts)
    if len(corpus) < stored + amounts.num_prompts:
        _LOG.warning(
            "%s has %d train prompts, fewer than calibration.num_prompts=%d%s",
            corpus.name,
            len(corpus),
            amounts.num_prompts,
            f" besides the {stored} of the store, so that drafts are better than they will be" if stored else "",
        )
    return replace(corpus, examples=corpus.examples[-amounts.num_prompts :])


def _made_of(settings: Settings, recipe: Recipe, corpus: Corpus, amounts: Amounts) -> dict[str, Any]:
    """Return what constants are measured on: with anything else they are measured again."""
    drafter = {"drafter": settings.drafter, "draft_model": settings.draft_model} if recipe.uses_drafter else {}
    return {
        "corpus": corpus.fingerprint,
        "template": settings.dataset.template,
        "chat": [settings.model.chat_template, settings.model.template_kwargs],
        "dtype": dtype_name(resolve_dtype(settings.dtype, resolve_device(settings.device))),
        "amounts": asdict(amounts),
        **drafter,
    }


def _without_verifier(settings: Settings, recipe: Recipe) -> Settings:
    """Return the settings of the pipeline to measure with: greedy, exact, without a drafter that nobody looks at."""
    changes: dict[str, Any] = {"verifier": {"name": "exact"}, "decode": DecodeSettings()}
    if not recipe.uses_drafter:
        changes |= {"drafter": {"name": "none"}, "draft_model": None}
    return replace(settings, **changes)


def _measured(settings: Settings, recipe: Recipe, bench: Bench, corpus: Corpus) -> list[Arrays]:
    """Return what each prompt shows; finished prompts are kept, in files that are whole or not there."""
    pipeline, name = bench.pipeline, settings.verifier["name"]
    drafter = {"drafter": settings.drafter, "nodes": pipeline.connector.max_nodes} if recipe.uses_drafter else {}
    parts = {
        "prints": pipeline.manifest(),
        "dtype": dtype_name(pipeline.model.model.dtype),
        "positions": bench.amounts.positions,
        "max_new_tokens": bench.amounts.max_new_tokens,
        "metric": settings.dataset.metric if recipe.metrics else None,
        **drafter,
    }
    folder = cache_folder(settings) / "calibration" / f"{name}-{settings.model.name}-{short_hash(parts)}"
    folder.mkdir(parents=True, exist_ok=True)
    meter = recipe.meter(bench)
    prompts: list[Arrays] = []
    with TokenProgress(f"calibration of {name}", len(corpus)) as progress:
        for example in corpus.examples:
            path = folder / f"{example.id}-{short_hash(bench.prompt(example).tolist())}.safetensors"
            if not settings.resume:
                path.unlink(missing_ok=True)
            prompts.append(kept(path, lambda example=example: meter(example)))  # type: ignore[misc]
            progress.advance(1, len(next(iter(prompts[-1].values()))))
    return prompts


def _facts(corpus: Corpus, prompts: Sequence[Arrays], made_of: Mapping[str, Any]) -> dict[str, Any]:
    samples = sum(len(next(iter(prompt.values()))) for prompt in prompts)
    return {
        "corpus": f"{corpus.name}: {corpus.source}",
        "prompts": [example.id for example in corpus.examples],
        "samples": samples,
        "made_of": made_of,
    }
