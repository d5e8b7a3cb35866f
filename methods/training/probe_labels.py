"""The data of the probes: sampled segments of both models, with their mean states and what they are worth.

Source: SemanticSpec (arXiv 2602.03708): segments sampled from each model behind a prefix of the target's answer,
clustered by what they mean; a segment is worth the share of a model's samples in its cluster.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray
from transformers import PreTrainedModel

from methods.calibration.files import kept
from methods.calibration.recipe import Arrays
from methods.schema import ProbeSettings
from methods.training.probe_equivalence import Equivalence
from primitives.contract import Ints
from primitives.drafting.semanticspec import SemanticSpecDrafter
from primitives.models.batching import hidden_states
from primitives.models.causal_lm import configured_eos
from primitives.models.loading import LoadedModel
from primitives.models.sampling import sampled
from primitives.models.segments import SegmentEnds

TOGETHER: Final = 8


class Labeller:
    """Samples and labels the segments behind prompts; what is finished stays on the disk.

    Args:
        settings: how much to sample, and how.
        model: the target.
        draft: the draft model, with the same tokenizer.
        drafter: whose segments they are: the longest one, and the string behind which none is drafted.
        equivalence: which segments mean the same.
        folder: where finished work is kept.
    """

    def __init__(
        self,
        settings: ProbeSettings,
        model: LoadedModel,
        draft: LoadedModel,
        drafter: SemanticSpecDrafter,
        equivalence: Equivalence,
        folder: Path,
    ) -> None:
        self.settings = settings
        self.folder = folder
        self._models = {"target": model.model, "draft": draft.model}
        self._tokenizer = model.tokenizer
        self._longest = drafter.max_tokens
        self._answer_after = drafter.answer_after
        self._equivalence = equivalence
        self._eos_ids = frozenset(configured_eos(model.model))
        self._ends = SegmentEnds(model.tokenizer, len(model.embeddings))

    def __call__(self, prompt: Ints, name: str, seed: int) -> list[Arrays]:
        """Return what is found behind each prefix of the answer to int64[T] prompt ids.

        Each has states of both models, "target_states" float32[m, h] and "draft_states" float32[m, h_d], and shares of
        both in the cluster of each segment, "target_shares" and "draft_shares" float32[m]; m is twice the samples.

        Args:
            prompt: its ids.
            name: of the files.
            seed: of all draws behind the prompt.
        """
        prefixes = kept(self.folder / f"{name}.safetensors", lambda: self._prefixes(prompt, seed))
        text = np.concatenate([prompt, prefixes["answer"]])
        return [
            kept(
                self.folder / f"{name}-{place}.safetensors",
                lambda place=place: self._labelled(text[: len(prompt) + place], seed),  # type: ignore[misc]
            )
            for place in prefixes["places"].tolist()
        ]

    def _prefixes(self, prompt: Ints, seed: int) -> Arrays:
        """Return an answer of the target, int64[a], and how many of its tokens come before each chosen segment."""
        answer = self._sampled("target", prompt, 1, self.settings.max_new_tokens, seed, whole=True)[0]
        before = np.concatenate([prompt[-1:], answer[:-1]])
        places = np.flatnonzero(self._ends.after(before, answer)) + 1
        places = places[places < len(answer)]
        mark = self._answer_after
        if mark and mark in self._tokenizer.decode(answer):
            places = np.array([at for at in places if mark not in self._tokenizer.decode(answer[:at])], np.int64)
        if len(places) > self.settings.prefixes:
            places = places[np.linspace(0, len(places) - 1, self.settings.prefixes).round().astype(np.int64)]
        return {"answer": answer, "places": places}

    def _labelled(self, prefix: Ints, seed: int) -> Arrays:
        """Return states and shares of the segments that both models draw behind a prefix."""
        count = self.settings.samples
        by = {side: self._sampled(side, prefix, count, self._longest, seed + len(prefix)) for side in self._models}
        segments = [*by["target"], *by["draft"]]
        texts = [str(self._tokenizer.decode(segment, skip_special_tokens=True)) for segment in segments]
        clusters = self._equivalence.clusters(texts)
        shares = {
            side: (clusters[:, None] == own).mean(1).astype(np.float32)
            for side, own in (("target", clusters[:count]), ("draft", clusters[count:]))
        }
        found: Arrays = {f"{side}_shares": shares[side] for side in self._models}
        for side, model in self._models.items():
            found[f"{side}_states"] = mean_states(model, prefix, segments)
        return found

    def _sampled(self, side: str, text: Ints, count: int, most: int, seed: int, whole: bool = False) -> list[Ints]:
        model, probe = self._models[side], self.settings
        limit = model.config.get_text_config().max_position_embeddings
        ends = None if whole else self._ends
        most = max(1, min(most, limit - len(text)))
        return sampled(model, text, count, most, self._eos_ids, probe.temperature, probe.top_p, seed, ends)


def mean_states(model: PreTrainedModel, prefix: Ints, segments: list[Ints]) -> NDArray[np.float32]:
    """Return float32[m, h], the mean of a model's final states after each token of m segments behind a prefix."""
    means = []
    for start in range(0, len(segments), TOGETHER):
        texts = [np.concatenate([prefix, segment]) for segment in segments[start : start + TOGETHER]]
        means += [states[len(prefix) :].mean(0) for states in hidden_states(model, texts)]
    return np.stack(means)
