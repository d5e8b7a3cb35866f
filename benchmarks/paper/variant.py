"""What sets a run apart from the same drafter and verifier at their defaults."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, Final

from connectors.settings import DEFAULT_MAX_NODES, ConnectorSettings, DecodeSettings
from methods.defaults import defaults

# What may differ between runs of one table: how long and how much, and the draws that greedy decoding never makes.
_FREE: Final = frozenset({"max_new_tokens", "seed", "stop"})


def variant_of(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of drafter, verifier, connector and decoding that are not the defaults, by dotted key.

    Knobs that one side does not know (added or dropped since the run) say nothing.
    """
    config = manifest["config"]
    device = str(config["device"]).partition(":")[0]
    usual = {
        "drafter": defaults("drafter", config["drafter"]["name"]),
        "verifier": defaults("verifier", config["verifier"]["name"]),
        "connector": {**asdict(ConnectorSettings()), "max_nodes": DEFAULT_MAX_NODES.get(device)},
        "decode": {key: value for key, value in asdict(DecodeSettings()).items() if key not in _FREE},
    }
    return {
        f"{section}.{key}": config[section][key]
        for section, known in usual.items()
        for key, value in known.items()
        if key in config[section] and config[section][key] != value
    }
