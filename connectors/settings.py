"""Settings of the decode loop."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from math import isfinite, isnan
from typing import Final

# Scores divided by less leave the range of float32.
MIN_TEMPERATURE: Final = 1e-30
MAX_SEED: Final = 2**63 - 1
# Nodes that a forward takes at little more than the price of one: docs/fidelity.md, "Node budget".
DEFAULT_MAX_NODES: Final = {"cpu": 24, "cuda": 64}


@dataclass
class DecodeSettings:
    """How to decode. The processors are those of transformers, in its order; greedy decoding heeds the last two too.

    Attributes:
        max_new_tokens: most tokens to generate, at least 1.
        temperature: 0 is greedy decoding; above it tokens are drawn from the softmax of the scores divided by it.
        top_k: draw from so many of the largest scores only; 0 is off.
        top_p: draw from the largest scores that make up this share of the probability mass only; 1 is off.
        min_p: draw from tokens of at least this share of the largest probability only; 0 is off.
        repetition_penalty: divides the positive and multiplies the negative scores of tokens that are in the prompt or
            in the output; 1 is off.
        logit_bias: what is added to the scores of these token ids.
        seed: of the draws; those of one prompt do not depend on the prompts before it.
        stop: a text ends with the token that completes one of these strings; that token is kept in the ids, and the
            returned text is cut before the string.
    """

    max_new_tokens: int = 128
    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    logit_bias: dict[int, float] = field(default_factory=dict)
    seed: int = 0
    stop: list[str] = field(default_factory=list)

    @property
    def greedy(self) -> bool:
        """Whether the next token is the best one, and not a draw."""
        return self.temperature == 0

    def problems(self) -> Iterator[str]:
        """Yield one sentence for each setting that is out of range."""
        if self.max_new_tokens < 1:
            yield f"max_new_tokens is {self.max_new_tokens}; it must be at least 1"
        if not (isfinite(self.temperature) and (self.greedy or self.temperature >= MIN_TEMPERATURE)):
            yield f"temperature is {self.temperature}; it must be 0 (greedy decoding), or at least {MIN_TEMPERATURE}"
        if self.top_k < 0:
            yield f"top_k is {self.top_k}; it must be at least 1, or 0 for all tokens"
        if not 0 < self.top_p <= 1:
            yield f"top_p is {self.top_p}; it must be above 0 and at most 1"
        if not 0 <= self.min_p <= 1:
            yield f"min_p is {self.min_p}; it must lie between 0 and 1"
        if not (isfinite(self.repetition_penalty) and self.repetition_penalty > 0):
            yield f"repetition_penalty is {self.repetition_penalty}; it must be above 0, and 1 for none"
        for token, bias in self.logit_bias.items():
            if token < 0:
                yield f"logit_bias names token {token}; token ids are at least 0"
            if isnan(bias) or bias == float("inf"):
                yield f"logit_bias of token {token} is {bias}; it must be a number, or -inf to forbid the token"
        if not 0 <= self.seed <= MAX_SEED:
            yield f"seed is {self.seed}; it must lie between 0 and {MAX_SEED}"
        if any(not text for text in self.stop):
            yield "stop holds an empty string, which would end every text at once: leave it out"


@dataclass
class ConnectorSettings:
    """How the connector treats trees.

    Attributes:
        max_nodes: most nodes of a tree in one forward, the pending token's included; None takes the measured default of
            the device class.
        layout: a tree goes through the forward as a "tree" under a mask, or as the "batch" of its root-to-leaf paths.
    """

    max_nodes: int | None = None
    layout: str = "tree"
