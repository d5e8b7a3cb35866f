"""Settings of the decode loop."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class DecodeSettings:
    """How to decode.

    Attributes:
        max_new_tokens: most tokens to generate, at least 1.
        temperature: 0 is greedy decoding.
        top_p: share of probability mass kept when sampling.
        seed: of the draws when sampling.
        stop: a text ends with the token that completes one of these strings; that token is kept in the ids, and the
            returned text is cut before the string.
    """

    max_new_tokens: int = 128
    temperature: float = 0.0
    top_p: float = 1.0
    seed: int = 0
    stop: list[str] = field(default_factory=list)


@dataclass
class ConnectorSettings:
    """How the connector treats trees.

    Attributes:
        max_nodes: most nodes of a tree in one forward, the pending token's included; None takes the measured default of
            the device class.
    """

    max_nodes: int | None = None
