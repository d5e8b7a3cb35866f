from __future__ import annotations

from typing import Any

import pytest

from connectors.settings import DecodeSettings


def test_the_defaults_are_greedy_and_in_range() -> None:
    assert DecodeSettings().greedy
    assert list(DecodeSettings().problems()) == []


@pytest.mark.parametrize(
    "settings",
    [
        {"temperature": 0},
        {"temperature": 1e-8},
        {"temperature": 2.0, "top_k": 50, "top_p": 0.9, "min_p": 1.0},
        {"repetition_penalty": 0.5, "logit_bias": {0: -100.0, 7: float("-inf")}, "seed": 2**63 - 1},
    ],
)
def test_what_is_in_range_is_taken(settings: dict[str, Any]) -> None:
    assert list(DecodeSettings(**settings).problems()) == []


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"max_new_tokens": 0}, "max_new_tokens is 0; it must be at least 1"),
        ({"temperature": -1.0}, "temperature is -1.0; it must be 0 (greedy decoding), or at least 1e-30"),
        ({"temperature": float("nan")}, "temperature is nan; it must be 0 (greedy decoding), or at least 1e-30"),
        ({"temperature": float("inf")}, "temperature is inf; it must be 0 (greedy decoding), or at least 1e-30"),
        ({"temperature": 1e-31}, "temperature is 1e-31; it must be 0 (greedy decoding), or at least 1e-30"),
        ({"top_k": -1}, "top_k is -1; it must be at least 1, or 0 for all tokens"),
        ({"top_p": 0.0}, "top_p is 0.0; it must be above 0 and at most 1"),
        ({"top_p": 1.5}, "top_p is 1.5; it must be above 0 and at most 1"),
        ({"top_p": float("nan")}, "top_p is nan; it must be above 0 and at most 1"),
        ({"min_p": -0.1}, "min_p is -0.1; it must lie between 0 and 1"),
        ({"min_p": 1.1}, "min_p is 1.1; it must lie between 0 and 1"),
        ({"repetition_penalty": 0.0}, "repetition_penalty is 0.0; it must be above 0, and 1 for none"),
        ({"repetition_penalty": float("inf")}, "repetition_penalty is inf; it must be above 0, and 1 for none"),
        ({"logit_bias": {-1: 1.0}}, "logit_bias names token -1; token ids are at least 0"),
        (
            {"logit_bias": {3: float("nan")}},
            "logit_bias of token 3 is nan; it must be a number, or -inf to forbid the token",
        ),
        (
            {"logit_bias": {3: float("inf")}},
            "logit_bias of token 3 is inf; it must be a number, or -inf to forbid the token",
        ),
        ({"seed": -1}, "seed is -1; it must lie between 0 and 9223372036854775807"),
        ({"seed": 2**63}, "seed is 9223372036854775808; it must lie between 0 and 9223372036854775807"),
        ({"stop": ["a", ""]}, "stop holds an empty string, which would end every text at once: leave it out"),
    ],
)
def test_what_is_out_of_range_is_one_sentence(settings: dict[str, Any], sentence: str) -> None:
    assert list(DecodeSettings(**settings).problems()) == [sentence]
