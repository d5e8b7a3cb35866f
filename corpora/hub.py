"""The Hugging Face hub and its local cache, with a short time limit.

The cache is asked first. The hub itself is tried once a process and given five seconds to answer, because `datasets`
alone would retry for a minute without a word on a machine that has no network.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from threading import Thread
from typing import TYPE_CHECKING
from urllib.error import HTTPError
from urllib.request import Request, urlopen

if TYPE_CHECKING:
    from datasets import Dataset

_LOG = logging.getLogger(__name__)
_SECONDS_TO_ANSWER = 5.0


class HubError(Exception):
    """The rows are neither in the hub's cache nor to be had from the hub; the text says why."""


def load_rows(hub_id: str, config: str | None, split: str) -> tuple[Dataset, str]:
    """Return the rows of a split and where they were found ("hub" or "hub cache").

    Raises:
        HubError: they are not in the cache, and the hub does not answer or does not hand them out.
    """
    # The import takes more than a second, which runs with a local folder should not pay.
    import datasets
    from huggingface_hub.constants import ENDPOINT
    from huggingface_hub.errors import HfHubHTTPError

    try:
        with _cache_only():
            return datasets.load_dataset(hub_id, config, split=split), "hub cache"
    except (OSError, ValueError) as error:
        _LOG.debug("%s is not in the hub's cache: %s", hub_id, error)
    if datasets.config.HF_HUB_OFFLINE:
        raise HubError(f"{hub_id} is not in the hub's cache, and offline mode is on")
    if not answers(ENDPOINT):
        raise HubError(f"{hub_id} is not in the hub's cache, and {ENDPOINT} does not answer")
    try:
        return datasets.load_dataset(hub_id, config, split=split), "hub"
    except (OSError, ValueError, datasets.exceptions.DatasetsError, HfHubHTTPError) as error:
        reason = str(error).partition("\n")[0]
        raise HubError(f"{hub_id} is not in the hub's cache, and the hub did not hand it out ({reason})") from error


@contextmanager
def _cache_only() -> Iterator[None]:
    """Keep `datasets` off the network; its own switch is read from the environment once, at import."""
    from datasets import config
    from datasets.utils import logging as datasets_logging

    offline, level = config.HF_HUB_OFFLINE, datasets_logging.get_verbosity()
    config.HF_HUB_OFFLINE = True
    datasets_logging.set_verbosity_error()
    try:
        yield
    finally:
        config.HF_HUB_OFFLINE = offline
        datasets_logging.set_verbosity(level)


@lru_cache
def answers(url: str, seconds: float = _SECONDS_TO_ANSWER) -> bool:
    """Return whether a web server answers within the time, name look-up included; asked once a process."""
    replies: list[bool] = []
    # A socket's time limit does not cover the name look-up, so the thread is left behind when the time is over.
    probe = Thread(target=lambda: replies.append(_probe(url, seconds)), daemon=True)
    probe.start()
    probe.join(seconds)
    return bool(replies and replies[0])


def _probe(url: str, seconds: float) -> bool:
    try:
        with urlopen(Request(url, method="HEAD"), timeout=seconds):
            return True
    except HTTPError as error:
        return error.code < 500
    except OSError:
        return False
