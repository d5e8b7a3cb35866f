from __future__ import annotations

import time
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from huggingface_hub import HfApi
from huggingface_hub.errors import GatedRepoError, OfflineModeIsEnabled, RepositoryNotFoundError

from primitives.models import hub
from primitives.models.hub import ask_hub, cached_folder, hub_folder


def answer_with(monkeypatch: pytest.MonkeyPatch, error: Exception | None) -> None:
    monkeypatch.setattr(HfApi, "auth_check", Mock(side_effect=error))


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (GatedRepoError("403", response=Mock()), "is gated: accept its licence at https://huggingface.co/Qwen/Qwen3-8"),
        (RepositoryNotFoundError("404", response=Mock()), "is not on the hub.*did you mean 'Qwen/Qwen3-8B'"),
        (ConnectionError("no route\nto host"), r"cannot be reached \(no route\): connect .* or set model.path="),
        (OfflineModeIsEnabled("offline mode is on"), r"cannot be reached \(offline mode is on\)"),
    ],
)
def test_refusals_are_told_apart_in_one_sentence(monkeypatch: pytest.MonkeyPatch, error: Exception, words: str) -> None:
    answer_with(monkeypatch, error)
    with pytest.raises(ValueError, match=words) as caught:
        ask_hub("Qwen/Qwen3-8")
    assert "\n" not in str(caught.value)


def test_a_silent_hub_is_given_up_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(HfApi, "auth_check", lambda _self, _name: time.sleep(3))
    began = time.monotonic()
    with pytest.raises(ValueError, match=r"cannot be reached \(no answer in 0.05 s\)"):
        ask_hub("Qwen/Qwen3-8B", time_limit=0.05)
    assert time.monotonic() - began < 2


def test_a_name_of_the_wrong_form_is_refused_without_network(monkeypatch: pytest.MonkeyPatch) -> None:
    answer_with(monkeypatch, AssertionError("asked the hub"))
    with pytest.raises(ValueError, match="'Qwen Qwen3 8B' is not of the form owner/name: did you mean 'Qwen/Qwen3-8B'"):
        hub_folder("Qwen Qwen3 8B")


def test_a_whole_cached_model_is_used_without_network(monkeypatch: pytest.MonkeyPatch, model_files: Path) -> None:
    answer_with(monkeypatch, AssertionError("asked the hub"))
    monkeypatch.setattr(hub, "try_to_load_from_cache", lambda _name, file: str(model_files / file))
    assert hub_folder("owner/name") == model_files


def test_a_cached_model_with_missing_files_is_fetched(monkeypatch: pytest.MonkeyPatch, model_files: Path) -> None:
    weights = (model_files / "model.safetensors").read_bytes()
    (model_files / "model.safetensors").unlink()
    monkeypatch.setattr(hub, "try_to_load_from_cache", lambda _name, file: str(model_files / file))
    answer_with(monkeypatch, None)

    def download(name: str, **_patterns: Any) -> str:
        assert name == "owner/name"
        (model_files / "model.safetensors").write_bytes(weights)
        return str(model_files)

    monkeypatch.setattr(hub, "snapshot_download", download)
    assert cached_folder("owner/name") is None
    assert hub_folder("owner/name") == model_files


def test_broken_and_useless_downloads_are_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(hub, "try_to_load_from_cache", lambda _name, _file: None)
    answer_with(monkeypatch, None)
    monkeypatch.setattr(hub, "snapshot_download", Mock(side_effect=ConnectionError("reset")))
    with pytest.raises(ValueError, match=r"'owner/name' broke off \(reset\): run again"):
        hub_folder("owner/name")
    monkeypatch.setattr(hub, "snapshot_download", lambda *_names, **_patterns: str(tmp_path))
    with pytest.raises(ValueError, match=r"'owner/name' has no config.json on the hub"):
        hub_folder("owner/name")
