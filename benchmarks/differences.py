"""The settings in which runs of the same name differ."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

Words = tuple[str, ...]


def told_apart(configs: Sequence[Mapping[str, Any]], names: Sequence[Hashable]) -> list[Words]:
    """Return for each configuration the settings, as key=value, in which it differs from others of its name.

    Args:
        configs: of the runs, nested.
        names: what each run is called without these words.
    """
    alike: dict[Hashable, list[int]] = defaultdict(list)
    for place, name in enumerate(names):
        alike[name].append(place)
    words: list[Words] = [()] * len(configs)
    for places in alike.values():
        for place, differing in zip(places, _differences([configs[place] for place in places]), strict=True):
            words[place] = differing
    return words


def _differences(configs: Sequence[Mapping[str, Any]]) -> list[Words]:
    flat = [_leaves(config) for config in configs]
    keys = sorted({key for leaves in flat for key in leaves})
    differing = [key for key in keys if len({repr(leaves.get(key)) for leaves in flat}) > 1]
    return [tuple(f"{key}={leaves[key]}" for key in differing if key in leaves) for leaves in flat]


def _leaves(config: Mapping[str, Any], above: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in config.items():
        found |= _leaves(value, f"{above}{key}.") if isinstance(value, Mapping) else {f"{above}{key}": value}
    return found
