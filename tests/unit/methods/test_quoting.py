from __future__ import annotations

import shlex
from typing import Any

import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser
from hypothesis import given
from hypothesis import strategies as st

from methods.quoting import quoted, shell_word


def parsed(word: str) -> Any:
    return OverridesParser.create().parse_override(word).value()


@given(st.text("ab\\'\" ,=#%{}[]()@:*?!~\n\t/", max_size=12))
def test_any_characters_arrive_unchanged(value: str) -> None:
    assert parsed(f"cache_dir={quoted(value)}") == value


@given(st.text("ab\\'\" ,=#%{}[]()@:*?!~$/.-", max_size=12))
def test_any_characters_arrive_unchanged_through_a_shell(value: str) -> None:
    (word,) = shlex.split(shell_word("cache_dir", value))
    assert parsed(word) == value


@pytest.mark.parametrize("value", ["null", "True", "nan", "1e3", "12", "", "/a/b-c.d", "ivf_pq", None, 3, 2.5, True])
def test_a_value_keeps_its_type(value: object) -> None:
    (word,) = shlex.split(shell_word("key", value))
    assert parsed(word) == value
    assert type(parsed(word)) is type(value)


def test_only_what_needs_quotes_has_some() -> None:
    assert shell_word("dataset.path", "/data/gsm8k") == "dataset.path=/data/gsm8k"
    assert shell_word("datastore.index", "ivf_pq") == "datastore.index=ivf_pq"
    assert shell_word("datastore.layer", None) == "datastore.layer=null"
    assert shell_word("model.chat_template", False) == "model.chat_template=false"
    assert shell_word("dataset.path", "/a b") == """'dataset.path='"'"'/a b'"'"''"""


def test_a_mapping_is_a_mapping() -> None:
    (word,) = shlex.split(shell_word("model.template_kwargs", {"enable_thinking": False, "style": "a, b"}))
    assert parsed(word) == {"enable_thinking": False, "style": "a, b"}


def test_a_list_is_a_list() -> None:
    value = ["sen", {"name": "pld", "num_tokens": 3}, [0.5, None, "it's"]]
    (word,) = shlex.split(shell_word("drafter.drafters", value))
    assert parsed(word) == value
