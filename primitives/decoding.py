"""How the target's own next token comes about: what a drafter must know that draws tokens as the target does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

import torch

from primitives.draft_tree import Ints


def unprocessed(logits: torch.Tensor, texts: Ints) -> torch.Tensor:
    """Return logits as they are."""
    return logits


@dataclass(frozen=True, eq=False)
class Decoding:
    """The decode settings of a text, as far as they concern a drafter.

    Attributes:
        greedy: whether the target's next token is the best one, and not a draw.
        rng: of all draws of the text; on the host.
        process: makes of [m, V] logits over target ids, and of int64[m, T], the texts behind which they stand, what the
            target's own logits there are judged by: temperature, penalties, cuts.
        laws: whether the verifier looks at a draft's q also where nothing is drawn: a drafter that has a law gives it.
    """

    greedy: bool = True
    rng: torch.Generator = field(default_factory=torch.Generator)
    process: Callable[[torch.Tensor, Ints], torch.Tensor] = unprocessed
    laws: bool = False


GREEDY: Final = Decoding()
