"""What the choices of a group under conf/ set."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, ListConfig, OmegaConf

from methods.schema import CONF_DIR


def defaults(group: str, name: str) -> dict[str, Any]:
    """Return the settings of a choice without its name; none where there is no such choice."""
    settings: Any = OmegaConf.to_container(_file(CONF_DIR / group / f"{name}.yaml"))
    return {str(key): value for key, value in settings.items() if key != "name"}


@cache
def _file(path: Path) -> DictConfig | ListConfig:
    return OmegaConf.load(path) if path.is_file() else DictConfig({})
