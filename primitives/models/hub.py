"""Models on the Hugging Face hub: from its cache if they lie there whole, else asked for once, in seconds."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, TimeoutError
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Final

from huggingface_hub import HfApi, snapshot_download, try_to_load_from_cache
from huggingface_hub.errors import GatedRepoError, HFValidationError, RepositoryNotFoundError
from omegaconf import OmegaConf

from primitives.models.folder import folder_problem
from primitives.models.wording import brief

TIME_LIMIT = 5.0  # seconds, for the one question whether the hub can be reached and has the model
WANTED = ("*.json", "*.safetensors", "*.model", "*.txt", "*.jinja")
HEAD_FILES = ("*.json", "*.safetensors", "pytorch_model.bin")
UNWANTED = ("original/*", "consolidated*", "onnx/*", "*/*.safetensors")
CONF = Path(__file__).parents[2] / "conf" / "model"


@dataclass(frozen=True)
class Wanted:
    """What is to be had of the hub, and which settings of the user's name it.

    Attributes:
        path_key: setting that takes a local folder instead.
        hub_key: setting that holds the name on the hub.
        files: patterns of the files that are fetched.
        problem: what keeps a folder from being whole, in words.
    """

    path_key: str = "model.path"
    hub_key: str = "model.hub_id"
    files: tuple[str, ...] = WANTED
    problem: Callable[[Path], str | None] = folder_problem

    @property
    def instead(self) -> str:
        """What to do without the hub."""
        return f"set {self.path_key}=<model folder or .gguf file>"


MODEL: Final = Wanted()


def hub_folder(hub_id: str, wanted: Wanted = MODEL) -> Path:
    """Return the folder of a model on the hub, which is downloaded into the hub's own cache if it is not there.

    Raises:
        ValueError: the name is wrong, the model is gated, the hub cannot be reached, or the download broke off.
    """
    cached = cached_folder(hub_id, wanted)
    if cached is not None:
        return cached
    ask_hub(hub_id, wanted)
    try:
        folder = Path(snapshot_download(hub_id, allow_patterns=list(wanted.files), ignore_patterns=list(UNWANTED)))
    except Exception as error:  # the transports below the hub client each raise errors of their own
        raise ValueError(
            f"the download of {wanted.hub_key} '{hub_id}' broke off ({brief(error)}): run again, what is there is kept"
        ) from error
    problem = wanted.problem(folder)
    if problem is not None:
        raise ValueError(f"{wanted.hub_key} '{hub_id}' {problem} on the hub: choose another model, or {wanted.instead}")
    return folder


def cached_folder(hub_id: str, wanted: Wanted = MODEL) -> Path | None:
    """Return the folder of a model in the hub's cache if all its files are there; no network is used."""
    try:
        config = try_to_load_from_cache(hub_id, "config.json")
    except HFValidationError as error:
        raise ValueError(f"{wanted.hub_key} '{hub_id}' is not of the form owner/name{_near(hub_id, wanted)}") from error
    if not isinstance(config, str) or wanted.problem(Path(config).parent) is not None:
        return None
    return Path(config).parent


def ask_hub(hub_id: str, wanted: Wanted = MODEL, time_limit: float = TIME_LIMIT) -> None:
    """Ask the hub once whether a model can be had.

    Args:
        hub_id: `owner/name`.
        wanted: which setting names it.
        time_limit: seconds for everything: looking up the host, connecting, waiting for the answer.

    Raises:
        ValueError: it cannot, and why: unknown name, gated, or no answer.
    """
    answer: Future[None] = Future()
    threading.Thread(target=_ask, args=(hub_id, answer), daemon=True).start()
    try:
        answer.result(time_limit)
    except GatedRepoError as error:
        raise ValueError(
            f"{wanted.hub_key} '{hub_id}' is gated: accept its licence at https://huggingface.co/{hub_id}, "
            "then run `hf auth login` or set HF_TOKEN"
        ) from error
    except RepositoryNotFoundError as error:
        raise ValueError(
            f"{wanted.hub_key} '{hub_id}' is not on the hub, or is private and you are not logged in"
            f"{_near(hub_id, wanted)}"
        ) from error
    except Exception as error:  # whatever else happened on the way, the hub gave no usable answer
        reason = f"no answer in {time_limit:g} s" if isinstance(error, TimeoutError) else brief(error)
        raise ValueError(
            f"{wanted.hub_key} '{hub_id}' is not in the hub's cache and the hub cannot be reached ({reason}): "
            f"connect to the network once, or {wanted.instead}"
        ) from error


def _ask(hub_id: str, answer: Future[None]) -> None:
    try:
        HfApi().auth_check(hub_id)
    except Exception as error:
        answer.set_exception(error)
    else:
        answer.set_result(None)


def _near(hub_id: str, wanted: Wanted) -> str:
    """Return the end of a sentence that names the nearest model of the configuration."""
    known = [str(OmegaConf.select(OmegaConf.load(file), "hub_id")) for file in sorted(CONF.glob("*.yaml"))]
    close = get_close_matches(hub_id, known, n=1, cutoff=0.5)
    return f": did you mean '{close[0]}'?" if close else f": check the name, or {wanted.instead}"
