from __future__ import annotations

import shlex
from collections.abc import Callable
from dataclasses import asdict

import pytest

from methods.offline.command import rebuild_command
from methods.overrides import compose

Words = Callable[..., list[str]]


def test_the_defaults_need_no_words() -> None:
    assert rebuild_command(compose(["method=sense"])) == (
        "python -m scripts.prepare method=sense model=smollm2-135m dataset=gsm8k datastore=id"
    )


@pytest.mark.parametrize(
    "changes",
    [
        ["datastore=ood", "datastore.num_prompts=7", "datastore.index=hnsw", "datastore.layer=3", "datastore.nlist=9"],
        ["model=qwen3-8b", "dataset=ultrachat", "datastore.leaks=keep", "dtype=bfloat16"],
        ["model=qwen3-8b", "model.template_kwargs={enable_thinking:true}"],
        ["dataset=codealpaca", "dataset.template=chat", "dataset.num_samples=3", "cache_dir='/a, b'"],
    ],
)
def test_the_command_builds_the_same_store(changes: list[str]) -> None:
    settings = compose(["method=sense", *changes])
    again = compose(shlex.split(rebuild_command(settings))[3:])
    again.dataset.num_samples = settings.dataset.num_samples
    assert asdict(again) == asdict(settings)


def test_a_model_of_ones_own_is_named_by_its_path(words: Words) -> None:
    settings = compose(words("rest", "model.chat_template=false"))
    again = compose(shlex.split(rebuild_command(settings))[3:])
    assert again.model == settings.model
    assert again.datastore == settings.datastore
    assert again.dataset.path == settings.dataset.path


@pytest.mark.parametrize("word", ["datastore.nprobe=4", "datastore.shards=3", "datastore.path=/stores/mine"])
def test_what_does_not_change_the_store_is_left_out(word: str) -> None:
    assert rebuild_command(compose([word])) == rebuild_command(compose([]))
