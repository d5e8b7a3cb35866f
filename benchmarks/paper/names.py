"""What runs are called where a table or a figure names them by what they are made of."""

from __future__ import annotations

from typing import Any, Final

from benchmarks.paper.runs import SETS, Run

_WHOLE: Final = {
    ("none", "exact"): "plain decoding",
    ("sen", "soft_gated"): "SENSE",
    ("union", "exact"): "SEN + REST + PLD",
}
_DRAFTERS: Final = {
    "pld": "PLD",
    "rest": "REST",
    "dresd": "DReSD",
    "sen": "SEN",
    "sps": "SpS",
    "eagle2": "EAGLE-2",
    "eagle3": "EAGLE-3",
    "sam": "SAM",
    "suffix": "suffix decoding",
    "token_recycling": "token recycling",
    "logitspec": "LogitSpec",
}
_VERIFIERS: Final = {
    "soft_gated": "SE",
    "fly": "FLy",
    "arc": "ARC",
    "mars": "MARS",
    "easd": "EASD",
    "aasd": "AASD",
    "top_k": "top-k",
    "prob_floor": "probability floor",
}
# SENSE's ablation has a name of its own.
_HIT: Final = "drafter.require_hit"


def set_name(dataset: str) -> str:
    """Return the name of a data set in tables."""
    return SETS.get(dataset, dataset)


def method_name(run: Run) -> str:
    """Return drafter and verifier, and the kind of the store; exact verification goes without saying."""
    drafter, verifier = run.manifest["drafter"], run.manifest["verifier"]
    name = _WHOLE.get((drafter, verifier)) or _DRAFTERS.get(drafter, drafter)
    if (drafter, verifier) not in _WHOLE and verifier != "exact":
        name += f" + {_VERIFIERS.get(verifier, verifier)}"
    name += " w/o SEN" if run.variant.get(_HIT) else ""
    return name if run.store is None else f"{name} ({run.store.upper()})"


def setting_name(run: Run) -> str:
    """Return the settings that are not the defaults."""
    words = [f"{key.rpartition('.')[2]} = {_word(value)}" for key, value in sorted(run.variant.items()) if key != _HIT]
    return ", ".join(words) or "default"


def _word(value: Any) -> str:
    if isinstance(value, dict):
        return str(value.get("name", value))
    if isinstance(value, list):
        return " + ".join(map(_word, value))
    return f"{value:g}" if isinstance(value, float) else str(value)
