"""Drafts by a model with another tokenizer (case 18)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer, decoders, pre_tokenizers
from tokenizers.models import BPE
from transformers import PreTrainedTokenizerFast

from methods.pipeline import load_pipeline
from primitives.contract import Context, DraftTree
from primitives.drafting._retokenised import Retokeniser
from primitives.models.loading import render_prompt
from tests.unit.primitives.models.conftest import SPECIALS, make_model, make_tokenizer

Words = Callable[..., list[str]]

TEXT = "the naïve  theory: the 3,141 workers' café at the theatre 🤖 paid the\n\tbathers"


@cache
def other_tokenizer(bos: bool = True) -> PreTrainedTokenizerFast:
    """Return a byte-level tokenizer with other merges, other ids and a begin token."""
    merges = [("t", "h"), ("h", "e"), ("th", "e"), ("e", "r"), ("Ġ", "the"), ("a", "t")]
    joined = ["".join(merge) for merge in merges]
    tokens = ["<s>", "</s>", *joined, *sorted(pre_tokenizers.ByteLevel.alphabet(), reverse=True)]
    backend = Tokenizer(BPE(vocab={token: index for index, token in enumerate(tokens)}, merges=merges))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    build: Any = PreTrainedTokenizerFast
    tokenizer: PreTrainedTokenizerFast = build(
        tokenizer_object=backend, bos_token="<s>" if bos else None, eos_token="</s>", add_bos_token=bos
    )
    return tokenizer


def tokenizers() -> tuple[Any, Any]:
    return make_tokenizer(), other_tokenizer()


def ids(tokenizer: Any, text: str) -> Any:
    return np.array(tokenizer(text, add_special_tokens=False).input_ids)


def test_texts_go_there_and_back() -> None:
    target, draft = tokenizers()
    words = Retokeniser(target, draft, len(target))
    whole = ids(target, TEXT)
    started = words.start(whole[:3])
    assert started.tolist() == draft(target.decode(whole[:3])).input_ids
    assert started[0] == draft.bos_token_id
    lengths = []
    for done in range(3, len(whole)):
        text = words.text_of(whole[:done])
        assert (text == draft.bos_token_id).sum() == 1
        told = draft.decode(text.tolist(), skip_special_tokens=True)
        assert target.decode(whole[:done].tolist()).rstrip("\ufffd") == told
        rest = ids(draft, TEXT[len(told) :]).tolist()[:6]
        back = words.back(whole[:done], rest).tolist()
        # Where the draft ends its last token may have grown into a longer one.
        assert back[:-2] == whole[done : done + len(back) - 2].tolist() or len(back) < 3
        assert TEXT.startswith(target.decode([*whole[:done].tolist(), *back]).rstrip("\ufffd"))
        lengths.append(len(back))
    assert np.mean(lengths) > 3


def test_the_window_moves_on_without_changing_what_is_said() -> None:
    target, draft = tokenizers()
    words = Retokeniser(target, draft, len(target))
    whole = ids(target, TEXT * 12)
    words.start(whole[:3])
    before = words.text_of(whole[:3])
    for done in range(4, len(whole), 3):
        text = words.text_of(whole[:done])
        shared = min(len(before), len(text))
        # A token or two at the end may be written anew; everything before them stays in the draft model's cache.
        assert (text[: shared - 4] == before[: shared - 4]).all()
        before = text
        assert draft.decode(text.tolist(), skip_special_tokens=True) == target.decode(whole[:done].tolist()).rstrip(
            "\ufffd"
        )
    assert words._anchor > 400


def test_special_tokens_go_neither_way() -> None:
    target, draft = tokenizers()
    words = Retokeniser(target, draft, len(target))
    prompt = np.array([1, *ids(target, "user\nthe"), 2])
    text = words.start(prompt)
    assert draft.decode(text.tolist()) == "<s>user\nthe"
    # Text that looks like a special token is none in a draft.
    assert words.back(prompt, ids(draft, " a<|im_end|> b").tolist()).tolist() == ids(target, " a").tolist()
    assert words.back(prompt, []).tolist() == []


@pytest.fixture(scope="module")
def draft_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tiny target's own weights behind another tokenizer: its drafts say the like, in other ids."""
    folder = tmp_path_factory.mktemp("draft") / "other"
    model: Any = make_model("qwen2")
    model.config.max_position_embeddings = 2048
    model.save_pretrained(folder)
    other_tokenizer().save_pretrained(folder)
    return folder


def test_another_tokenizer_is_refused_before_weights_are_loaded_or_translated_by_config(
    words: Words, draft_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen = words("sps", f"draft_model={draft_folder}", "decode.max_new_tokens=32")
    with monkeypatch.context() as patched:
        patched.setattr("methods.loaded.load_model", lambda *_: pytest.fail("weights are loaded"))
        with pytest.raises(ValueError, match=r"the tokenizer of draft_model differs from the model's, first in "):
            load_pipeline(*chosen)
    pipeline = load_pipeline(*chosen, "drafter.tokenizers=retokenise")
    drafter: Any = pipeline.connector.drafter
    target: Any = pipeline.model.tokenizer
    draft: Any = other_tokenizer()
    # Random weights say mostly bytes that are no text: both sides are kept to letters.
    barred = np.array([not draft.decode([index]).isascii() for index in range(drafter.lm.vocab_size)])
    read, feed, propose = drafter.lm.read, drafter.lm.feed, drafter.propose
    drafter.lm.read = lambda text: read(text).masked_fill(torch.from_numpy(barred), float("-inf"))
    drafter.lm.feed = lambda text: feed(text).masked_fill(torch.from_numpy(barred), float("-inf"))
    proposed: list[DraftTree] = []

    def watched(context: Context) -> DraftTree:
        proposed.append(propose(context))
        return proposed[-1]

    drafter.propose = watched
    bias = {index: float("-inf") for index in range(3, len(target)) if not target.decode([index]).isascii()}
    settings = replace(pipeline.settings.decode, logit_bias=bias)
    for prompt in ("the theatre at a cafe", "a"):
        begun = render_prompt(target, prompt, pipeline.settings.model)
        plain = pipeline.baseline.generate(begun, settings)
        assert pipeline.connector.generate(begun, settings).ids == plain.ids
    drafted = [tree.tokens[1:].tolist() for tree in proposed if len(tree)]
    assert len(drafted) > 30
    specials = set(target.convert_tokens_to_ids(SPECIALS))
    assert not specials & {token for tokens in drafted for token in tokens}
