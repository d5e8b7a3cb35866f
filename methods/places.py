"""Where models and stores are kept between runs."""

from __future__ import annotations

import json
from hashlib import sha256
from pathlib import Path
from typing import Any

from platformdirs import user_cache_path

from methods.schema import Settings


def cache_folder(settings: Settings) -> Path:
    """Return where models and stores are kept: `cache_dir`, or the user's cache folder."""
    return Path(settings.cache_dir).expanduser() if settings.cache_dir else user_cache_path("atomsd")


def short_hash(content: Any) -> str:
    """Return ten hexadecimal digits that stand for a content that JSON can write."""
    return sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:10]
