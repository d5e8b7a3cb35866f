"""Which segments mean the same: sampled texts are put into clusters, by entailment or by likeness."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch

from methods.schema import ProbeSettings
from primitives.contract import Bools, Floats, Ints
from primitives.models.folder import head_problem
from primitives.models.hub import WANTED, Wanted, hub_folder

NLI_MODEL: Final = "microsoft/deberta-v2-xlarge-mnli"
PAIRS: Final = 32
# Numbers whole, so that 3.14 and 3.15 share nothing; then words; then every other sign.
TERMS: Final = r"\d+(?:[.,]\d+)*|\w+|[^\w\s]"


class Equivalence(ABC):
    """A notion of texts that mean the same."""

    def clusters(self, texts: Sequence[str]) -> Ints:
        """Return int64[m], the cluster of each text: that of the first cluster whose first text means the same.

        Texts that differ in nothing but the blanks about them are in one cluster.
        """
        different, place = np.unique([text.strip() for text in texts], return_inverse=True)
        # In the order of the first occurrence, whatever the alphabet says.
        order = np.argsort([int(np.argmax(place == index)) for index in range(len(different))])
        ids = np.empty(len(different), np.int64)
        ids[order] = _grouped(len(order), self.compared([str(different[index]) for index in order]))
        return ids[place]

    @abstractmethod
    def compared(self, texts: Sequence[str]) -> Callable[[int, Ints], Bools]:
        """Return a function of one text and int64[c] others, by number: bool[c], which of them mean the same.

        Args:
            texts: different ones, no blanks about them.
        """


class Likeness(Equivalence):
    """Texts whose vectors have at least a given cosine.

    Args:
        threshold: least cosine, in [0, 1].
        folder: of an encoder of transformers whose states are averaged; None takes TF-IDF of words, numbers and signs,
            alone and in pairs, over the texts to be compared. It needs no model, and none whose states a probe sees.
    """

    def __init__(self, threshold: float, folder: Path | None = None, device: torch.device | None = None) -> None:
        self.threshold = threshold
        self._encoder = None if folder is None else _loaded("AutoModel", folder, device)

    def compared(self, texts: Sequence[str]) -> Callable[[int, Ints], Bools]:
        """See the base class; all cosines are computed at once."""
        vectors = self._terms(texts) if self._encoder is None else self._encoded(texts)
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        vectors = vectors / np.where(lengths > 0, lengths, 1)
        cosines = vectors @ vectors.T
        return lambda one, others: cosines[one, others] >= self.threshold

    def _terms(self, texts: Sequence[str]) -> Floats:
        # It takes seconds to import, and only this needs it.
        from sklearn.feature_extraction.text import TfidfVectorizer

        if not any(texts):
            return np.zeros((len(texts), 1))
        return np.asarray(TfidfVectorizer(token_pattern=TERMS, ngram_range=(1, 2)).fit_transform(texts).toarray())

    @torch.inference_mode()
    def _encoded(self, texts: Sequence[str]) -> Floats:
        assert self._encoder is not None
        tokenizer, model = self._encoder
        parts = []
        for start in range(0, len(texts), PAIRS):
            batch = tokenizer(list(texts[start : start + PAIRS]), padding=True, truncation=True, return_tensors="pt")
            batch = batch.to(model.device)
            states = model(**batch).last_hidden_state.double()
            mask = batch["attention_mask"][..., None]
            parts.append(((states * mask).sum(1) / mask.sum(1)).cpu().numpy())
        return np.concatenate(parts)


class Entailment(Equivalence):
    """Texts that entail each other, as a model of natural language inference sees them.

    Args:
        folder: of a sequence classifier of transformers, one of whose labels is entailment.
        device: where it runs.

    Raises:
        ValueError: no label begins with "entail".
    """

    def __init__(self, folder: Path, device: torch.device | None = None) -> None:
        self._tokenizer, self._model = _loaded("AutoModelForSequenceClassification", folder, device)
        labels = {str(label).lower(): index for index, label in self._model.config.id2label.items()}
        entails = [index for label, index in labels.items() if label.startswith("entail")]
        if not entails:
            raise ValueError(
                f"probe.equivalence_model '{folder}' has the labels {', '.join(sorted(labels))} and none for "
                "entailment: choose a model of natural language inference"
            )
        self._label = int(entails[0])

    def compared(self, texts: Sequence[str]) -> Callable[[int, Ints], Bools]:
        """See the base class; only pairs that are asked for are looked at."""

        def same(one: int, others: Ints) -> Bools:
            pairs = [(texts[one], texts[other]) for other in others]
            both = self._entails([*pairs, *((second, first) for first, second in pairs)])
            return both[: len(pairs)] & both[len(pairs) :]

        return same

    @torch.inference_mode()
    def _entails(self, pairs: Sequence[tuple[str, str]]) -> Bools:
        found = []
        for start in range(0, len(pairs), PAIRS):
            first, second = zip(*pairs[start : start + PAIRS], strict=True)
            batch = self._tokenizer(list(first), list(second), padding=True, truncation=True, return_tensors="pt")
            logits = self._model(**batch.to(self._model.device)).logits
            found.append((logits.argmax(-1) == self._label).cpu().numpy())
        return np.concatenate(found)


def equivalence_of(settings: ProbeSettings, device: torch.device) -> Equivalence:
    """Return the configured notion, its model loaded if it has one; ValueError if that cannot be had."""
    model = settings.equivalence_model
    if settings.equivalence == "nli":
        return Entailment(_folder(model or NLI_MODEL), device)
    return Likeness(settings.threshold, None if model is None else _folder(model), device)


def _grouped(count: int, same: Callable[[int, Ints], Bools]) -> Ints:
    """Return int64[m]: each of m texts joins the first cluster whose first text means the same, or opens one."""
    firsts: list[int] = []
    ids: Ints = np.empty(count, np.int64)
    for one in range(count):
        joins = np.flatnonzero(same(one, np.array(firsts))) if firsts else np.empty(0, np.int64)
        ids[one] = joins[0] if len(joins) else len(firsts)
        firsts += [] if len(joins) else [one]
    return ids


def _folder(model: str) -> Path:
    if Path(model).expanduser().is_dir():
        return Path(model).expanduser()
    key = "probe.equivalence_model"
    return hub_folder(model, Wanted(key, key, (*WANTED, "pytorch_model.bin"), head_problem))


def _loaded(kind: str, folder: Path, device: torch.device | None) -> tuple[Any, Any]:
    import transformers

    try:
        tokenizer: Any = transformers.AutoTokenizer.from_pretrained(folder, local_files_only=True)
        model: Any = getattr(transformers, kind).from_pretrained(folder, local_files_only=True)
    except (ValueError, OSError, KeyError) as error:
        raise ValueError(f"probe.equivalence_model '{folder}' cannot be loaded: {error}") from error
    model.train(False)
    model.requires_grad_(False)
    return tokenizer, model if device is None else model.to(device)
