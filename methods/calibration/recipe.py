"""How the constants of one verifier are measured."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray

from corpora.example import Example
from corpora.templates import render
from methods.schema import CalibrationSettings
from primitives.contract import Ints

if TYPE_CHECKING:
    from methods.pipeline import Pipeline

Arrays = dict[str, NDArray[Any]]
# The final answer of a text, by the metric of its data set; None where it gives none.
FinalAnswer = Callable[[str, Example], object]


@dataclass(frozen=True)
class Amounts:
    """How much is measured.

    Attributes:
        num_prompts: train prompts.
        positions: most positions looked at in one answer.
        max_new_tokens: longest answer, in tokens.
    """

    num_prompts: int
    positions: int
    max_new_tokens: int

    def changed(self, settings: CalibrationSettings) -> Amounts:
        """Return these amounts with those that are set in the place of the recipe's own.

        Raises:
            ValueError: an amount below 1.
        """
        given = {name: amount for name, amount in asdict(settings).items() if amount is not None}
        for name, amount in given.items():
            if amount < 1:
                raise ValueError(f"calibration.{name} is {amount}; it must be at least 1")
        return replace(self, **given)


@dataclass(frozen=True, eq=False)
class Bench:
    """What a measurement works with.

    Attributes:
        pipeline: the target, with the drafter if the recipe uses one.
        amounts: how much to measure.
        final_answer: what a text answers, for recipes that ask for a data set with final answers.
    """

    pipeline: Pipeline
    amounts: Amounts
    final_answer: FinalAnswer

    @property
    def embeddings(self) -> torch.Tensor:
        """[V, h], the target's input embedding matrix."""
        return self.pipeline.model.embeddings

    def prompt(self, example: Example) -> Ints:
        """Return the int64[T] ids of an example's prompt."""
        text = render(self.pipeline.settings.dataset.template, example.instruction)
        return np.array(self.pipeline.encode(text), np.int64)


class Recipe(ABC):
    """Measures prompts one by one, and makes constants of what was measured.

    Attributes:
        amounts: how much is measured unless the settings say otherwise.
        uses_drafter: whether the measurement looks at drafts, so that its constants belong to a drafter too.
        metrics: metrics of the data sets that it can use, those with a final answer; empty for all.
    """

    amounts: ClassVar[Amounts]
    uses_drafter: ClassVar[bool] = False
    metrics: ClassVar[tuple[str, ...]] = ()

    @abstractmethod
    def level(self, verifier: Mapping[str, Any]) -> dict[str, float]:
        """Return the settings of the verifier that its constants are made for, such as a risk level."""

    @abstractmethod
    def meter(self, bench: Bench) -> Callable[[Example], Arrays]:
        """Return a function that tells what one prompt shows, as arrays with one row a sample."""

    @abstractmethod
    def constants(self, prompts: Sequence[Arrays], level: Mapping[str, float]) -> dict[str, Any]:
        """Return the constants, as JSON holds them, from the samples of all prompts.

        Raises:
            ValueError: too few samples.
        """
