"""The keys of a head's config.json, read one by one: what cannot be meant is refused by name."""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite
from typing import Any, Final, NoReturn

from transformers.activations import ACT2FN
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

from primitives.registry import nearest

# Switches of later variants whose networks differ from the published ones though their tensors have the same names.
REFUSED: Final = ("norm_before_residual", "norm_before_fc", "norm_output", "fc_norm", "parallel_drafting")
AUXILIARY: Final = "eagle_aux_hidden_state_layer_ids"
NEEDED: Final = ("hidden_size", "intermediate_size", "num_attention_heads", "vocab_size")
# Numbers that a kind of rotary embedding cannot do without.
_ROPE_NUMBERS: Final[Mapping[str, tuple[str, ...]]] = {
    "linear": ("factor",),
    "dynamic": ("factor",),
    "yarn": ("factor",),
    "llama3": ("factor", "low_freq_factor", "high_freq_factor"),
}


class HeadKeys:
    """The content of a config.json.

    Args:
        keys: as it was read.
        owner: begins the sentence of an error.

    Raises:
        ValueError: it is no object, or belongs to a variant that is not supported.
    """

    def __init__(self, keys: Any, owner: str) -> None:
        self._owner = owner
        if not isinstance(keys, Mapping):
            raise ValueError(
                f"{owner}: config.json holds {str(keys)[:60]}, and it must hold an object with the sizes of an EAGLE "
                "head: fetch it again"
            )
        self._keys: Mapping[str, Any] = keys
        self._refuse_variants()
        missing = [key for key in NEEDED if keys.get(key) is None]
        if missing:
            raise ValueError(f"{owner}: config.json lacks {', '.join(missing)}, so it is not that of an EAGLE head")

    def size(self, key: str, default: int | None = None) -> int:
        """Return a whole number of at least 1; ValueError for anything else."""
        value = self._keys.get(key)
        value = default if value is None else value
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            self.wrong(key, value, "a whole number of at least 1")
        return value

    def number(self, key: str, default: float) -> float:
        """Return a number above 0; ValueError for anything else."""
        value = self._keys.get(key)
        return default if value is None else self._positive(key, value)

    def flag(self, key: str, default: bool) -> bool:
        """Return true or false; ValueError for anything else."""
        value = self._keys.get(key)
        value = default if value is None else value
        if value not in (True, False):
            self.wrong(key, value, "true or false")
        return bool(value)

    def activation(self) -> str:
        """Return the name of the MLP's activation, one that transformers has."""
        value = self._keys.get("hidden_act") or "silu"
        if not isinstance(value, str) or value not in ACT2FN:
            self.wrong("hidden_act", value, f"an activation of transformers ({nearest(str(value), ACT2FN)})")
        return value

    def rope(self) -> dict[str, Any]:
        """Return the parameters of the rotary embedding, as transformers names them."""
        name = "rope_parameters" if self._keys.get("rope_parameters") else "rope_scaling"
        given = self._keys.get(name) or {}
        if not isinstance(given, Mapping):
            self.wrong(name, given, "an object, or null")
        found = {"rope_theta": self.number("rope_theta", 10000.0), **given}
        older = found.pop("type", None)
        kind = found["rope_type"] = found.get("rope_type") or older or "default"
        if kind != "default" and (not isinstance(kind, str) or kind not in ROPE_INIT_FUNCTIONS):
            self.wrong(f"{name}.rope_type", kind, f"one of default, {', '.join(ROPE_INIT_FUNCTIONS)}")
        for key in ("rope_theta", *_ROPE_NUMBERS.get(kind, ())):
            self._positive(f"{name}.{key}", found.get(key))
        return found

    def layers(self) -> tuple[int, ...] | None:
        """Return the layers that are entered by the features; None takes the published choice.

        At the top level the key counts as vLLM counts, layers entered; inside `eagle_config` as SGLang does, layers
        left.
        """
        nested = self._keys.get("eagle_config") or {}
        if not isinstance(nested, Mapping):
            self.wrong("eagle_config", nested, "an object, or null")
        if self._keys.get(AUXILIARY):
            return self._places(AUXILIARY, self._keys[AUXILIARY])
        left = nested.get(AUXILIARY)
        return tuple(layer + 1 for layer in self._places(f"eagle_config.{AUXILIARY}", left)) if left else None

    def wrong(self, key: str, value: Any, allowed: str) -> NoReturn:
        """Raise the ValueError of a key whose value is not allowed."""
        raise ValueError(
            f"{self._owner}: config.json has {key}={value!r}, and it must be {allowed}: fetch it again, or correct it"
        )

    def _positive(self, key: str, value: Any) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float) or not isfinite(value) or value <= 0:
            self.wrong(key, value, "a number above 0")
        return float(value)

    def _places(self, key: str, value: Any) -> tuple[int, ...]:
        sound = isinstance(value, list | tuple) and all(type(layer) is int and layer >= 0 for layer in value)
        if not sound:
            self.wrong(key, value, "a list of whole numbers of at least 0")
        return tuple(value)

    def _refuse_variants(self) -> None:
        keys, owner = self._keys, self._owner
        if "speculators_config" in keys or "transformer_layer_config" in keys:
            raise ValueError(
                f"{owner} is in the format of the speculators library: give the checkpoint that its author published "
                "first"
            )
        wrong = [key for key in REFUSED if keys.get(key)]
        if wrong:
            raise ValueError(
                f"{owner} sets {wrong[0]}={keys[wrong[0]]}, a variant whose network differs from the published head: "
                "only heads without it can be used"
            )
        layers = keys.get("num_hidden_layers", 1)
        if layers != 1:
            raise ValueError(f"{owner} has num_hidden_layers={layers}; an EAGLE head has one layer")
