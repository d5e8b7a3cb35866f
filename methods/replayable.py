"""What a recording can serve, and what it cannot: known from the settings."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from methods.schema import Settings
from primitives.models.recorded_text import BEST
from primitives.registry import DRAFTERS, VERIFIERS, nearest

MODES: Final = ("measure", "replay")
NOT_RECORDED: Final = {
    "rejected": "what the target says of rejected tokens",
    "distribution": f"more of the target's distribution than its {BEST} best logits",
}


def replay_problems(settings: Settings) -> Iterator[str]:
    """Yield one sentence for each reason why a job with mode=replay cannot be served by a recording."""
    if settings.mode not in MODES:
        yield f"mode is '{settings.mode}': {nearest(settings.mode, MODES)}"
    if settings.mode != "replay":
        return
    decode, verifier = settings.decode, settings.verifier.get("name")
    if not decode.greedy:
        yield f"mode=replay knows one text, the greedy one: decode.temperature is {decode.temperature}; set it to 0"
    if decode.repetition_penalty != 1 or decode.logit_bias:
        yield (
            "mode=replay knows the best logits only as the target gave them: set decode.repetition_penalty=1 and no "
            "decode.logit_bias"
        )
    if verifier in VERIFIERS.names() and VERIFIERS.get(verifier).guarantee == "lossy":
        yield (
            f"mode=replay cannot serve verifier '{verifier}': what it accepts beside the target's own choice leads "
            "away from the recorded text; set verifier=exact, or mode=measure"
        )
    yield from _drafter_problems(settings)


def _drafter_problems(settings: Settings) -> Iterator[str]:
    try:
        parts = list(DRAFTERS.within(settings.drafter))
    except ValueError:
        return  # said elsewhere
    for name, knobs in parts:
        for missing in sorted(DRAFTERS.get(name).reads):
            yield (
                f"mode=replay cannot serve drafter '{name}': it looks at {NOT_RECORDED[missing]}, which was not "
                "recorded; set mode=measure"
            )
        if DRAFTERS.asks_for(name, "embeddings") or DRAFTERS.asks_for(name, "output_embeddings"):
            yield (
                f"mode=replay cannot serve drafter '{name}': it shares the target's embeddings, and the target is not "
                "loaded; set mode=measure"
            )
        if isinstance(capacity := knobs.get("capacity"), int) and capacity > BEST:
            yield f"mode=replay knows the {BEST} best logits: drafter '{name}' has capacity={capacity}"
