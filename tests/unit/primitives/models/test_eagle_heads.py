"""EAGLE heads against the papers' equations, and the checkpoints that are refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from primitives.models.eagle_head import EagleHead
from primitives.models.eagle_loading import load_head, save_head
from primitives.models.folder import INDEX
from primitives.models.pooled_cache import PooledCache
from tests.eagle_rig import CONFIG, DRAFTED, HIDDEN, VOCABULARY, HeadMaker, Reference, head_target

KINDS = ("eagle2", "eagle3")
WIDTH = {"eagle2": HIDDEN, "eagle3": 3 * HIDDEN}


def pairs(kind: str, count: int) -> tuple[list[int], torch.Tensor]:
    rng = torch.Generator().manual_seed(11)
    tokens = torch.randint(0, VOCABULARY, (count,), generator=rng).tolist()
    return tokens, torch.randn(count, WIDTH[kind], generator=rng)


def through(head: EagleHead, cache: PooledCache, tokens: list[int], features: torch.Tensor) -> torch.Tensor:
    past, count = cache.length, len(tokens)
    mask = torch.ones(count, past + count, dtype=torch.bool).tril(past)
    return head.step(torch.tensor(tokens), head.fused(features), torch.arange(past, past + count), cache, mask)


@pytest.mark.parametrize("pickled", [False, True])
@pytest.mark.parametrize(
    ("kind", "config"),
    [
        ("eagle2", {}),
        ("eagle2", {"bias": False, "qkv_bias": True}),
        ("eagle3", {}),
        ("eagle3", {"draft_vocab_size": VOCABULARY}),
    ],
)
def test_a_head_computes_the_papers_equations(tmp_path: Path, kind: str, config: dict[str, Any], pickled: bool) -> None:
    maker, target = HeadMaker(kind, config), head_target()
    head, reference = load_head(maker.write(tmp_path, pickled), kind, target), Reference(maker, target)
    tokens, features = pairs(kind, 7)
    wanted = reference.states(tokens, features)
    at_once = through(head, PooledCache(1), tokens, features)
    cache, one_by_one = PooledCache(1), []
    for place in range(7):
        one_by_one.append(through(head, cache, tokens[place : place + 1], features[place : place + 1]))
    for states in (at_once, torch.cat(one_by_one)):
        torch.testing.assert_close(states, torch.stack(wanted), rtol=1e-5, atol=1e-5)
        log_p = head.logits(states).log_softmax(-1)
        torch.testing.assert_close(log_p, torch.stack([reference.log_p(s) for s in wanted]), rtol=1e-5, atol=1e-5)
    columns = torch.arange(head.logits(at_once).shape[1])
    assert head.target_ids(columns).tolist() == reference.ids()


@pytest.mark.parametrize("kind", KINDS)
def test_the_heads_own_states_are_fed_back(tmp_path: Path, kind: str) -> None:
    maker, target = HeadMaker(kind), head_target()
    head, reference = load_head(maker.write(tmp_path), kind, target), Reference(maker, target)
    tokens, features = pairs(kind, 6)
    wanted = reference.states(tokens, features[:3])
    cache = PooledCache(1)
    state = through(head, cache, tokens[:3], features[:3])[-1:]
    for place in range(3, 6):
        state = head.step(torch.tensor(tokens[place : place + 1]), state, torch.tensor([place]), cache)
        torch.testing.assert_close(state[0], wanted[place], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("kind", "config"),
    [
        ("eagle2", {}),
        ("eagle3", {}),
        ("eagle3", {"draft_vocab_size": VOCABULARY}),
        ("eagle3", {"rope_scaling": {"type": "linear", "factor": 2.0}}),
    ],
)
def test_what_is_written_reads_back(tmp_path: Path, kind: str, config: dict[str, Any]) -> None:
    target = head_target()
    head = load_head(HeadMaker(kind, config).write(tmp_path / "a"), kind, target)
    save_head(head, tmp_path / "b", torch.float32)
    again = load_head(tmp_path / "b", kind, target)
    assert again.config == head.config
    for name, tensor in head.state_dict().items():
        assert torch.equal(again.state_dict()[name], tensor)
    assert torch.equal(again.embedding, head.embedding)
    written = json.loads((tmp_path / "b" / "config.json").read_text("utf-8"))
    assert written["num_hidden_layers"] == 1
    assert ("draft_vocab_size" in written) == (kind == "eagle3")


def test_offsets_are_added_to_the_columns(tmp_path: Path) -> None:
    maker = HeadMaker("eagle3", {"draft_vocab_size": 4}, {"d2t": torch.tensor([0, 0, 5, 9])})
    del maker.tensors["t2d"]
    head = load_head(maker.write(tmp_path), "eagle3", head_target())
    assert head.target_ids(torch.arange(4)).tolist() == [0, 1, 7, 12]


@pytest.mark.parametrize(
    ("config", "layers"),
    [
        ({}, (2, 4, 5)),
        ({"eagle_aux_hidden_state_layer_ids": [1, 3, 6]}, (1, 3, 6)),
        ({"eagle_config": {"eagle_aux_hidden_state_layer_ids": [1, 3, 6]}}, (2, 4, 7)),
    ],
)
def test_the_layers_are_the_published_ones_or_those_of_the_config(
    tmp_path: Path, config: dict[str, Any], layers: tuple[int, ...]
) -> None:
    head = load_head(HeadMaker("eagle3", config).write(tmp_path), "eagle3", head_target(layers=8))
    assert head.captures == layers


def without(maker: HeadMaker, name: str) -> HeadMaker:
    del maker.tensors[name]
    return maker


def with_tables(d2t: list[int], size: int) -> HeadMaker:
    maker = HeadMaker("eagle3", {"draft_vocab_size": size}, {"d2t": torch.tensor(d2t)})
    return without(maker, "t2d")


BAD: dict[str, tuple[Callable[[], HeadMaker], str]] = {
    "a tensor is missing": (
        lambda: without(HeadMaker("eagle3"), "fc.weight"),
        "lacks 1 tensors of an eagle3 head .first: fc.weight",
    ),
    "a tensor too many": (lambda: HeadMaker("eagle3", {}, {"gate.weight": torch.zeros(1)}), "first: gate.weight"),
    "a wrong shape": (lambda: HeadMaker("eagle3", {}, {"norm.weight": torch.zeros(3)}), r"norm.weight has shape \[3\]"),
    "one layer for three": (
        lambda: HeadMaker("eagle3", {}, {"fc.weight": torch.zeros(HIDDEN, HIDDEN)}),
        "features of width 32, but 3 layers of hidden size 32 give 96",
    ),
    "no table": (lambda: without(HeadMaker("eagle3"), "d2t"), "has no table d2t"),
    "a table of zeros": (lambda: with_tables([0] * 8, 8), "d2t holds all zeros"),
    "an identity table": (lambda: with_tables(list(range(8)), 8), "the numbers 0, 1, 2"),
    "a table of absolute ids": (lambda: with_tables([3, 5, 50, 98], 4), "turned into offsets"),
    "a table that repeats an id": (lambda: with_tables([1, 0, 3, 3], 4), "does not name 4 different ids"),
    "tables that disagree": (
        lambda: HeadMaker("eagle3", {}, {"t2d": torch.ones(VOCABULARY, dtype=torch.bool)}),
        "d2t and t2d disagree",
    ),
    "another hidden size": (
        lambda: HeadMaker("eagle3", {"target_hidden_size": 64}),
        "targets of hidden size 64, and this one's is 32",
    ),
    "another vocabulary": (
        lambda: HeadMaker("eagle3", {"vocab_size": 120}),
        "targets of 120 token ids, and this one has 100",
    ),
    "norm before residual": (
        lambda: HeadMaker("eagle3", {"norm_before_residual": True}),
        "sets norm_before_residual=True",
    ),
    "the speculators format": (
        lambda: HeadMaker("eagle3", {"speculators_config": {}}),
        "format of the speculators library",
    ),
    "two layers": (lambda: HeadMaker("eagle3", {"num_hidden_layers": 2}), "num_hidden_layers=2"),
    "a layer too deep": (
        lambda: HeadMaker("eagle3", {"eagle_aux_hidden_state_layer_ids": [1, 2, 9]}),
        "looks at layer 9, and the target has layers 0 to 7",
    ),
    "the other kind": (lambda: HeadMaker("eagle2"), "set drafter=eagle2"),
    "no query heads": (
        lambda: HeadMaker("eagle3", {"num_attention_heads": 0}),
        "config.json has num_attention_heads=0, and it must be a whole number of at least 1",
    ),
    "more heads than width": (
        lambda: HeadMaker("eagle3", {"num_attention_heads": 64, "num_key_value_heads": 64}),
        "has head_dim=0, and it must be a whole number",
    ),
    "heads of odd width": (lambda: HeadMaker("eagle3", {"head_dim": 5}), "has head_dim=5, and it must be even"),
    "groups that do not divide the heads": (
        lambda: HeadMaker("eagle3", {"num_key_value_heads": 3}),
        "has num_key_value_heads=3, and it must be a divisor of num_attention_heads=4",
    ),
    "a size in words": (
        lambda: HeadMaker("eagle3", {"intermediate_size": "48"}),
        "has intermediate_size='48', and it must be a whole number",
    ),
    "an unknown activation": (
        lambda: HeadMaker("eagle3", {"hidden_act": "sillu"}),
        "has hidden_act='sillu', and it must be an activation of transformers .did you mean 'silu'",
    ),
    "no epsilon": (
        lambda: HeadMaker("eagle3", {"rms_norm_eps": "1e-5"}),
        "has rms_norm_eps='1e-5', and it must be a number above 0",
    ),
    "a switch in words": (lambda: HeadMaker("eagle3", {"qkv_bias": "no"}), "has qkv_bias='no', and it must be true"),
    "an unknown rope": (
        lambda: HeadMaker("eagle3", {"rope_scaling": {"rope_type": "foo"}}),
        "has rope_scaling.rope_type='foo', and it must be one of default, linear",
    ),
    "a rope without factor": (
        lambda: HeadMaker("eagle3", {"rope_parameters": {"rope_type": "linear"}}),
        "has rope_parameters.factor=None, and it must be a number above 0",
    ),
    "a rope in words": (
        lambda: HeadMaker("eagle3", {"rope_scaling": "linear"}),
        "has rope_scaling='linear', and it must be an object, or null",
    ),
    "a rope with half of what it needs": (
        lambda: HeadMaker("eagle3", {"rope_scaling": {"type": "longrope", "short_factor": [1.0]}}),
        "config.json has values that transformers refuses .*long_factor",
    ),
    "a theta in words": (
        lambda: HeadMaker("eagle3", {"rope_theta": "1e4"}),
        "has rope_theta='1e4', and it must be a number above 0",
    ),
    "layers in words": (
        lambda: HeadMaker("eagle3", {"eagle_aux_hidden_state_layer_ids": ["a"]}),
        r"has eagle_aux_hidden_state_layer_ids=\['a'\], and it must be a list of whole numbers",
    ),
    "one layer for a list": (
        lambda: HeadMaker("eagle3", {"eagle_config": {"eagle_aux_hidden_state_layer_ids": 3}}),
        "has eagle_config.eagle_aux_hidden_state_layer_ids=3, and it must be a list",
    ),
    "a list for an object": (
        lambda: HeadMaker("eagle3", {"eagle_config": [1]}),
        r"has eagle_config=\[1\], and it must be",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_a_checkpoint_that_does_not_fit_is_refused_in_one_sentence(tmp_path: Path, case: str) -> None:
    make, words = BAD[case]
    with pytest.raises(ValueError, match=words) as caught:
        load_head(make().write(tmp_path), "eagle3", head_target())
    assert str(tmp_path) in str(caught.value)
    assert "\n" not in str(caught.value)


POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:0123\nsize 99\n"


def draft_size(value: Any) -> bytes:
    return json.dumps({**CONFIG, "draft_vocab_size": value}).encode()


class Payload:
    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return print, ("this must not run",)


def test_a_pickle_that_is_no_plain_weights_is_not_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    HeadMaker("eagle2").write(tmp_path, pickled=True)
    torch.save({"fc.weight": Payload()}, tmp_path / "pytorch_model.bin")
    with pytest.raises(ValueError, match="more than plain weights"):
        load_head(tmp_path, "eagle2", head_target())
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("config.json", None, "has no config.json"),
        ("config.json", b"{", "is no JSON"),
        ("config.json", b"{}", "lacks hidden_size, intermediate_size"),
        ("config.json", b"[1]", r"config.json holds \[1\], and it must hold an object"),
        ("config.json", draft_size("32"), "has draft_vocab_size='32', and it must be a whole number of at least 1"),
        ("config.json", draft_size(0), "has draft_vocab_size=0, and it must be a whole number of at least 1"),
        (INDEX, b"{", f"{INDEX}' is no index of weights"),
        (INDEX, b"{}", f"{INDEX}' is no index of weights"),
        (INDEX, b"[]", f"{INDEX}' is no index of weights"),
        (INDEX, b'{"weight_map": {"norm.weight": 1}}', f"{INDEX}' is no index of weights"),
        ("model.safetensors", None, "neither model.safetensors nor pytorch_model.bin"),
        ("model.safetensors", b"torn", "damaged weights .model.safetensors"),
        ("model.safetensors", POINTER, "model.safetensors is a git-lfs pointer and not the weights: fetch it again"),
    ],
)
def test_a_partial_folder_is_refused(tmp_path: Path, name: str, content: bytes | None, words: str) -> None:
    HeadMaker("eagle3").write(tmp_path)
    if content is None:
        (tmp_path / name).unlink()
    else:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=words) as caught:
        load_head(tmp_path, "eagle3", head_target())
    assert str(tmp_path) in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (POINTER, "pytorch_model.bin is a git-lfs pointer and not the weights: fetch it again whole"),
        (b"\n<!doctype html><title>404", "pytorch_model.bin is a web page and not the weights: fetch it again whole"),
        (b"Entry not found", "does not begin as torch.save begins a file: fetch it again whole"),
        (b"", "does not begin as torch.save begins a file: fetch it again whole"),
        (b"PK\x03\x04 torn", "has a damaged pytorch_model.bin"),
    ],
)
def test_a_file_that_was_not_fetched_is_not_called_dangerous(tmp_path: Path, content: bytes, words: str) -> None:
    HeadMaker("eagle2").write(tmp_path, pickled=True)
    (tmp_path / "pytorch_model.bin").write_bytes(content)
    with pytest.raises(ValueError, match=words) as caught:
        load_head(tmp_path, "eagle2", head_target())
    assert str(tmp_path) in str(caught.value)
    assert "run code" not in str(caught.value)


def test_a_head_may_be_narrower_than_its_target(tmp_path: Path) -> None:
    own = {"embed_tokens.weight": torch.randn(VOCABULARY, HIDDEN)}
    maker = HeadMaker("eagle3", {"target_hidden_size": 64}, own)
    head = load_head(maker.write(tmp_path), "eagle3", head_target(width=64))
    assert head.fused(torch.zeros(2, 192)).shape == (2, HIDDEN)
    assert torch.equal(head.embedding, own["embed_tokens.weight"])
    assert head.config.draft_vocab_size == DRAFTED
    assert CONFIG["vocab_size"] == len(head.embedding)
