"""The drafter of segments: whose turn it is, where a segment ends, and the states that it carries."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from transformers import PreTrainedModel, PreTrainedTokenizerFast

from connectors.connector import Connector
from connectors.settings import DecodeSettings
from connectors.trace import Generation
from primitives.contract import Context, Drafter, DraftTree, Verifier
from primitives.models.causal_lm import CausalLMTarget
from primitives.registry import DRAFTERS, VERIFIERS
from tests.rigs import Draft, greedy_of, passed, random_prompt, tiny_draft, tiny_model

# Words that end a segment: every fifth.
BREAKS = frozenset(range(0, 100, 5))


def line_tokenizer() -> Any:
    words = {f"t{index}" + "\n\n" * (index in BREAKS): index for index in range(100)}
    build: Any = PreTrainedTokenizerFast
    return build(tokenizer_object=Tokenizer(WordLevel(words, unk_token="t1")))


TOKENIZER = line_tokenizer()


def drafter_of(model: PreTrainedModel, eos_ids: Iterable[int] = (), **knobs: Any) -> Any:
    offered = {
        "draft_model": Draft(model, TOKENIZER),
        "tokenizer": TOKENIZER,
        "vocab_size": 100,
        "eos_ids": frozenset(eos_ids),
    }
    return DRAFTERS.build("semanticspec", knobs, offered)


class Watched(Drafter):
    """A drafter whose proposals are noted, with the number of committed tokens before each."""

    def __init__(self, inner: Drafter) -> None:
        self.inner = inner
        self.drafts: dict[int, DraftTree] = {}
        self.start = inner.start  # type: ignore[method-assign]
        self.observe = inner.observe  # type: ignore[method-assign]
        self.finish = inner.finish  # type: ignore[method-assign]

    def propose(self, context: Context) -> DraftTree:
        tree = self.inner.propose(context)
        if len(tree):
            self.drafts[len(context.tokens) - 1] = tree
        return tree


def run(
    drafter: Drafter, verifier: Verifier, prompt: Sequence[int], count: int, eos_ids: Iterable[int] = (), **more: Any
) -> Generation:
    max_nodes = more.pop("max_nodes", 500)
    target = CausalLMTarget(tiny_model(), eos_ids=eos_ids)
    connector = Connector(target, drafter, verifier, lambda ids: str(TOKENIZER.decode(list(ids))), max_nodes)
    return connector.generate(prompt, DecodeSettings(max_new_tokens=count, **more))


def never() -> Verifier:
    return VERIFIERS.build("semantic", {"rule": "none", "top_k": 0}, {})


def exact() -> Verifier:
    return VERIFIERS.build("exact", {}, {})


def beginnings(text: Sequence[int], start: int, longest: int = 500) -> list[int]:
    """Return where the segments of the output begin, the first one left out."""
    found, begin = [], start
    for place in range(start, len(text)):
        if text[place] in BREAKS or place + 1 - begin == longest:
            begin = place + 1
            found.append(begin)
    return found


@pytest.mark.parametrize("longest", [500, 7])
def test_after_a_rejection_the_target_writes_the_segment_and_then_a_draft_comes_again(longest: int) -> None:
    prompt = random_prompt(4)
    drafter = Watched(drafter_of(tiny_draft().model, max_tokens=longest))
    done = run(drafter, never(), prompt, 60)
    text = [*prompt, *greedy_of(tiny_model(), prompt, 60)]
    assert [*prompt, *done.ids] == text
    assert done.trace.tau == 1
    # A segment whose first token, the target's own, ends it leaves nothing to draft; nor does the last token.
    expected = [begin for begin in beginnings(text, len(prompt), longest) if begin < 68 and text[begin] not in BREAKS]
    assert list(drafter.drafts) == expected
    assert len(expected) >= 5


@pytest.mark.parametrize("longest", [500, 4])
def test_a_draft_model_that_is_the_target_writes_all_segments_but_the_first(longest: int) -> None:
    prompt = random_prompt(4)
    drafter = Watched(drafter_of(tiny_model(), max_tokens=longest))
    done = run(drafter, exact(), prompt, 60)
    text = [*prompt, *greedy_of(tiny_model(), prompt, 60)]
    assert [*prompt, *done.ids] == text
    begins = beginnings(text, len(prompt), longest)
    lengths = np.diff([*begins, len(text)]).tolist()
    committed = [record.committed for record in done.trace.passes]
    # The first segment token by token; the very last token needs no pass if it stands alone.
    expected = [1] * (begins[0] - len(prompt)) + [length for length in lengths if length]
    assert committed == (expected if len(committed) == len(expected) else expected[:-1])
    assert max(committed) > 1


def test_a_draft_is_a_segment_from_the_pending_token_on() -> None:
    prompt = random_prompt(4)
    drafter = Watched(drafter_of(tiny_draft().model))
    run(drafter, never(), prompt, 60)
    for begin, tree in drafter.drafts.items():
        assert tree.is_chain
        ended = tree.tokens[-1] in BREAKS
        assert ended or begin + len(tree) == len(prompt) + 60
        assert not BREAKS & set(tree.tokens[:-1].tolist())


def test_the_states_are_those_of_a_whole_forward() -> None:
    prompt = random_prompt(4)
    drafter = Watched(drafter_of(tiny_draft().model))
    done = run(drafter, never(), prompt, 60)
    lm = CausalLMTarget(tiny_draft().model, eos_ids=())
    text = np.array([*prompt, *done.ids])
    assert len(drafter.drafts) >= 5
    for begin, tree in drafter.drafts.items():
        whole = lm.teacher_forced(np.concatenate([text[:begin], tree.tokens])).hidden[begin:]
        assert tree.hidden is not None
        torch.testing.assert_close(tree.hidden, whole, rtol=0, atol=1e-4)


def test_a_draft_that_the_node_budget_cuts_is_ended_by_the_target() -> None:
    prompt = random_prompt(4)
    drafter = Watched(drafter_of(tiny_model()))
    done = run(drafter, exact(), prompt, 60, max_nodes=3)
    text = [*prompt, *greedy_of(tiny_model(), prompt, 60)]
    assert [*prompt, *done.ids] == text
    begins = [begin for begin in beginnings(text, len(prompt)) if begin < 68 and text[begin] not in BREAKS]
    assert list(drafter.drafts) == begins
    assert max(record.nodes for record in done.trace.passes) == 3


def test_an_end_of_text_ends_a_draft() -> None:
    prompt = random_prompt(4)
    plain = Watched(drafter_of(tiny_draft().model))
    run(plain, never(), prompt, 60)
    longest = max(plain.drafts.values(), key=len)
    eos = int(longest.tokens[2])
    drafter = Watched(drafter_of(tiny_draft().model, eos_ids=[eos]))
    run(drafter, never(), prompt, 60, eos_ids=())
    assert all(eos not in tree.tokens[:-1] for tree in drafter.drafts.values())
    assert any(tree.tokens[-1] == eos for tree in drafter.drafts.values())


def test_behind_the_string_that_ends_the_thoughts_the_target_writes_alone() -> None:
    prompt = random_prompt(4)
    text = [*prompt, *greedy_of(tiny_model(), prompt, 60)]
    whole = Watched(drafter_of(tiny_model()))
    run(whole, exact(), prompt, 60)
    begins = list(whole.drafts)
    middle = begins[len(begins) // 2]
    # Two words, so that the string lies across tokens; a draft that comes to it is not proposed.
    mark = TOKENIZER.decode(text[middle + 1 : middle + 3])
    drafter = Watched(drafter_of(tiny_model(), answer_after=mark))
    done = run(drafter, exact(), prompt, 60)
    assert [*prompt, *done.ids] == text
    first = TOKENIZER.decode(text[len(prompt) :]).index(mark)
    expected = [
        begin
        for begin, tree in whole.drafts.items()
        if len(TOKENIZER.decode(text[len(prompt) : begin + len(tree)])) <= first
    ]
    assert list(drafter.drafts) == expected
    assert 0 < len(expected) < len(begins)


def test_the_string_in_the_prompt_ends_nothing() -> None:
    prompt = random_prompt(4)
    drafter = Watched(drafter_of(tiny_model(), answer_after=TOKENIZER.decode(prompt[:2])))
    run(drafter, exact(), prompt, 30)
    assert drafter.drafts


def test_a_draft_ends_where_the_budget_or_the_draft_models_positions_do() -> None:
    prompt = random_prompt(4)
    for count in (10, 17, 30):
        drafter = Watched(drafter_of(tiny_draft().model))
        run(drafter, never(), prompt, count)
        assert all(begin + len(tree) <= len(prompt) + count for begin, tree in drafter.drafts.items())
    near = drafter_of(tiny_model())
    near.lm.max_positions = 40
    watched = Watched(near)
    done = run(watched, exact(), prompt, 60)
    assert done.ids == greedy_of(tiny_model(), prompt, 60)
    assert max(begin + len(tree) for begin, tree in watched.drafts.items()) <= 40


def test_a_draft_is_drawn_where_the_text_is() -> None:
    prompt = random_prompt(4)
    drafts = []
    for seed in (0, 0, 1):
        drafter = Watched(drafter_of(tiny_draft().model))
        run(drafter, never(), prompt, 60, temperature=1.0, seed=seed, top_p=0.95)
        drafts.append({begin: tree.tokens.tolist() for begin, tree in drafter.drafts.items()})
    assert drafts[0] == drafts[1] != drafts[2]


def test_a_token_that_is_forbidden_is_not_drafted() -> None:
    prompt = random_prompt(4)
    plain = Watched(drafter_of(tiny_draft().model))
    run(plain, never(), prompt, 60)
    token = int(max(plain.drafts.values(), key=len).tokens[1])
    drafter = Watched(drafter_of(tiny_draft().model))
    run(drafter, never(), prompt, 60, logit_bias={token: float("-inf")})
    assert drafter.drafts
    assert all(token not in tree.tokens for tree in drafter.drafts.values())


def test_each_text_begins_with_the_targets_segment() -> None:
    drafter = drafter_of(tiny_model())
    for _ in range(2):
        drafter.start(np.array([3, 5]), passed([3, 5], None).view)  # type: ignore[arg-type]
        zero = torch.zeros(1)
        assert not len(drafter.propose(Context(np.array([3, 5, 7]), zero, zero, 50)))
        assert len(drafter.propose(Context(np.array([3, 5, 10, 7]), zero, zero, 50)))


def test_settings_out_of_range_are_refused() -> None:
    with pytest.raises(ValueError, match="drafter 'semanticspec': max_tokens=1 is out of range; it must be at least 2"):
        DRAFTERS.bare({"name": "semanticspec", "max_tokens": 1})
    assert DRAFTERS.bare({"name": "semanticspec", "max_tokens": 30}).whole == 30
