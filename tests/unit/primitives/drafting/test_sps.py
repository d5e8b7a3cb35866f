from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from copy import deepcopy
from typing import Any

import numpy as np
import pytest
import torch
from scipy.stats import chisquare
from tokenizers import Tokenizer
from tokenizers.models import WordLevel

from connectors.connector import Connector
from connectors.settings import DecodeSettings
from connectors.trace import Generation
from primitives.contract import Context, Drafter, DraftTree, Outcome
from primitives.drafting._draft_length import DraftLength
from primitives.models.causal_lm import CausalLMTarget
from primitives.registry import DRAFTERS, VERIFIERS
from tests.rigs import Draft, greedy_of, random_prompt, tiny_draft, tiny_model, word_tokenizer
from tests.unit.connectors.test_warping import of_transformers


def sps(draft: Draft, name: str = "sps", target: str = "llama", tokenizer: Any = None, **knobs: Any) -> Any:
    offered = {
        "draft_model": draft,
        "tokenizer": tokenizer or word_tokenizer(),
        "vocab_size": tiny_model(target).config.vocab_size,
        "eos_ids": frozenset(),
    }
    return DRAFTERS.build(name, knobs, offered)


def run(
    drafter: Drafter, prompt: Sequence[int], count: int, verifier: str = "exact", target: str = "llama", **changes: Any
) -> Generation:
    max_nodes, rule = changes.pop("max_nodes", 64), changes.pop("rule", {})
    connector = Connector(
        CausalLMTarget(changes.pop("model", tiny_model(target)), eos_ids=()),
        drafter,
        VERIFIERS.build(verifier, rule, {}),
        lambda ids: " ".join(map(str, ids)),
        max_nodes,
    )
    return connector.generate(prompt, DecodeSettings(max_new_tokens=count, **changes))


def same() -> Draft:
    return Draft(tiny_model(), word_tokenizer())


class Watched(Drafter):
    """Another drafter, whose trees are kept together with the texts that they were proposed for."""

    def __init__(self, inner: Drafter) -> None:
        self.inner = inner
        self.seen: list[tuple[list[int], DraftTree]] = []
        self.start = inner.start  # type: ignore[method-assign]
        self.observe = inner.observe  # type: ignore[method-assign]
        self.finish = inner.finish  # type: ignore[method-assign]

    def propose(self, context: Context) -> DraftTree:
        tree = self.inner.propose(context)
        self.seen.append((context.tokens.tolist(), tree))
        return tree


class Spoiled(Drafter):
    """Another drafter whose trees are made wrong, cut, or left out in some passes; it may raise in one, too."""

    def __init__(self, inner: Drafter) -> None:
        self.inner = inner
        self.turn = 0
        self.good: list[bool] = []
        self.start = inner.start  # type: ignore[method-assign]
        self.observe = inner.observe  # type: ignore[method-assign]
        self.finish = inner.finish  # type: ignore[method-assign]

    def propose(self, context: Context) -> DraftTree:
        self.turn += 1
        kind = self.turn % 7
        if kind == 5:
            self.good.append(False)
            return DraftTree.empty()
        tree = self.inner.propose(context)
        self.good.append(kind not in (2, 3))
        if kind == 2:
            tokens = tree.tokens.copy()
            tokens[1:] = (tokens[1:] + 1) % 100
            return DraftTree(tokens, tree.parents)
        return tree.keep(tree.depths <= 2) if kind == 3 else tree


@pytest.mark.parametrize("name", ["sps", "sps_tree"])
@pytest.mark.parametrize("spoiled", [False, True])
def test_a_draft_model_that_is_the_target_is_always_right(name: str, spoiled: bool) -> None:
    """Invariant 3: acceptance 100 % up to token 300, whatever became of the drafts before."""
    model = deepcopy(tiny_model())
    model.config.max_position_embeddings = 512
    knobs: dict[str, Any] = {"num_tokens": 4} if name == "sps" else {"depth": 4}
    drafter = sps(Draft(model, word_tokenizer()), name, **knobs)
    checked = Spoiled(drafter) if spoiled else drafter
    prompt = random_prompt(3)
    done = run(checked, prompt, 300, model=model)
    assert done.ids == greedy_of(model, prompt, 300)
    good = checked.good if isinstance(checked, Spoiled) else [True] * len(done.trace.passes)
    whole = [record.committed for record, right in zip(done.trace.passes, good, strict=True) if right]
    assert len(whole) > 20
    assert set(whole[:-1]) == {5}


def test_the_cache_is_right_after_an_error_in_the_middle_of_a_draft(monkeypatch: pytest.MonkeyPatch) -> None:
    drafter = sps(same(), num_tokens=4)
    prompt = random_prompt(3)
    forward, calls = drafter.lm._forward, []

    def failing(*arguments: Any, **more: Any) -> Any:
        calls.append(1)
        view = forward(*arguments, **more)
        if len(calls) == 7:
            raise RuntimeError("out of memory")
        return view

    monkeypatch.setattr(drafter.lm, "_forward", failing)
    with pytest.raises(RuntimeError, match="out of memory"):
        run(drafter, prompt, 30)
    assert {record.committed for record in run(drafter, prompt, 31).trace.passes[:-1]} == {5}
    logits = drafter.lm.read(np.array(prompt))
    drafter.lm.feed(np.array([1]))
    calls[:] = [1] * 6
    with pytest.raises(RuntimeError, match="out of memory"):
        drafter.lm.feed(np.array([2]))
    again = drafter.lm.read(np.array(prompt))
    torch.testing.assert_close(again, logits, rtol=0, atol=1e-4)


def test_after_any_branch_the_logits_are_those_of_a_fresh_forward() -> None:
    lm = sps(same(), "sps_tree").lm
    target = CausalLMTarget(tiny_model(), eos_ids=())
    text = np.array(random_prompt(1))
    lm.read(text)
    first = lm.grow(np.array([5, 6]), np.array([-1, -1]))
    second = lm.grow(np.array([7, 8, 9]), np.array([1, 0, 1]))
    for rows, path in ((first[1], [6]), (second[0], [6, 7]), (second[1], [5, 8]), (second[2], [6, 9])):
        fresh = target.prefill(np.concatenate([text, path])).logits[0]
        torch.testing.assert_close(rows, fresh, rtol=0, atol=1e-4)
    held = lm.cache.length
    for longer in ([6, 9, 3], [6, 9, 3, 3, 1], [6, 2], [4], [6, 9, 3]):
        whole = np.concatenate([text, longer])
        fresh = target.prefill(whole).logits[0]
        torch.testing.assert_close(lm.read(whole), fresh, rtol=0, atol=1e-4)
    assert held == len(text) + 5


@pytest.mark.parametrize("name", ["sps", "sps_tree"])
def test_drafts_of_another_model_leave_the_greedy_text_as_it_is(name: str) -> None:
    prompt = random_prompt(8)
    done = run(sps(tiny_draft(), name), prompt, 100)
    assert done.ids == greedy_of(tiny_model(), prompt, 100)
    assert 1.5 < done.trace.tau < 6


WIDER: dict[str, dict[str, Any]] = {
    "sps": {"num_tokens": 4},
    "sps_tree": {"depth": 4, "branching": 3, "width": 3},
}


def test_a_wider_tree_accepts_more_than_a_chain() -> None:
    texts = [random_prompt(seed) for seed in range(3)]
    chain, tree = (
        [run(sps(tiny_draft(noise=0.1), name, **knobs), text, 60).trace.tau for text in texts]
        for name, knobs in WIDER.items()
    )
    assert np.mean(tree) > np.mean(chain)


def outcome(tokens: list[int], accepted: int, nodes: int | None = None) -> Outcome:
    tree = DraftTree.chain(tokens[:nodes])
    return Outcome(tree, None, np.arange(accepted))  # type: ignore[arg-type]


def test_the_schedules_of_transformers() -> None:
    for schedule, lengths in (("constant", [5, 5, 5]), ("heuristic", [7, 6, 6]), ("heuristic_transient", [7, 6, 5])):
        drafter = sps(same(), schedule=schedule)
        tokens = list(range(6))
        drafter._draft = np.array(tokens)
        drafter.observe(outcome(tokens, 6))
        seen = [drafter._length.value]
        drafter.observe(outcome(tokens, 3))
        seen.append(drafter._length.value)
        drafter._length.start()
        assert [*seen, drafter._length.value] == lengths


def test_the_length_is_never_below_one_and_learns_nothing_from_empty_or_cut_drafts() -> None:
    drafter = sps(same(), schedule="heuristic", num_tokens=2)
    drafter._draft = np.array([4, 5, 6])
    for _ in range(4):
        drafter.observe(outcome([4, 5, 6], 1))
    assert drafter._length.value == 1
    drafter.observe(outcome([4, 5, 6], 2, nodes=2))
    assert drafter._length.value == 1
    drafter._draft = np.empty(0, np.int64)
    drafter.observe(outcome([4], 1))
    assert drafter._length.value == 1
    drafter._draft = np.array([4, 5])
    drafter.observe(Outcome(DraftTree.from_candidates([[4, 3], [4, 5]]), None, np.array([0, 2])))  # type: ignore[arg-type]
    assert drafter._length.value == 3


def test_a_draft_that_is_cut_is_judged_by_what_went_through() -> None:
    length = DraftLength(25, "heuristic")
    draft = np.arange(26)
    seen = []
    for _ in range(50):
        length.learn(draft[: length.value + 1], outcome(list(range(24)), 1))
        seen.append(length.value)
    assert seen == [max(1, 24 - turn) for turn in range(50)]
    length.value = 25
    length.learn(draft, outcome(list(range(24)), 24))
    assert length.value == 25, "whether more would have been accepted is not known"
    length.learn(draft, outcome([0], 1))
    assert length.value == 25, "the pending token is no draft"


def test_no_more_is_drafted_than_goes_through_the_forward() -> None:
    drafter = sps(same(), schedule="heuristic", num_tokens=25, max_nodes=8)
    watched = Watched(drafter)
    done = run(watched, random_prompt(3), 60, max_nodes=8)
    assert {len(tree) for _, tree in watched.seen[:-1]} == {8}
    assert {record.committed for record in done.trace.passes[:-1]} == {8}
    assert drafter._length.value <= 7
    alone = run(sps(same(), max_nodes=1), random_prompt(3), 10, max_nodes=1)
    assert alone.ids == greedy_of(tiny_model(), random_prompt(3), 10)


def test_heuristic_lengths_grow_while_all_is_accepted() -> None:
    done = run(sps(same(), schedule="heuristic", num_tokens=2), random_prompt(3), 60)
    assert [record.committed for record in done.trace.passes[:5]] == [3, 5, 7, 9, 11]


def test_a_draft_ends_with_a_token_of_little_confidence() -> None:
    sure, unsure = (run(sps(tiny_draft(), num_tokens=8, confidence=least), random_prompt(2), 80) for least in (0, 0.9))
    passes = unsure.trace.passes
    lengths = [record.proposed for record in passes]
    assert unsure.ids == sure.ids
    assert 1 <= min(lengths[:-1]) < 8
    rates = [sum(r.accepted for r in done) / sum(r.proposed for r in done) for done in (sure.trace.passes, passes)]
    assert rates[1] > rates[0]
    never_sure = run(sps(same(), confidence=1.0), random_prompt(2), 20).trace.passes
    assert {record.proposed for record in never_sure[:-1]} == {1}


@pytest.mark.parametrize("name", ["sps", "sps_tree"])
@pytest.mark.parametrize("length", [60, 64, 65, 120])
def test_beyond_the_draft_models_positions_nothing_is_drafted(name: str, length: int) -> None:
    """Case 20."""
    model = deepcopy(tiny_model())
    model.config.max_position_embeddings = 64
    drafter = sps(Draft(model, word_tokenizer()), name)
    seen = []
    forward = drafter.lm._forward

    def watched(*arguments: Any, **more: Any) -> Any:
        view = forward(*arguments, **more)
        positions = more.get("position_ids", torch.tensor([drafter.lm.cache.length - 1]))
        seen.append(int(positions.max()))
        return view

    drafter.lm._forward = watched
    prompt = random_prompt(5, length)
    done = run(drafter, prompt, 300)
    assert done.ids == greedy_of(tiny_model(), prompt, 256 - length)
    assert done.finish == "length"
    assert len(prompt) + len(done.ids) == 256
    assert max(seen, default=0) < 64
    late = [record.proposed for record in done.trace.passes[-20:]]
    assert set(late) == {0}
    assert (max(record.proposed for record in done.trace.passes) > 0) == (length < 64)


# Vocabularies (cases 15 and 18).


def tokenizer_of(entries: dict[str, int]) -> Any:
    tokenizer = deepcopy(word_tokenizer())
    tokenizer._tokenizer = Tokenizer(WordLevel(entries, unk_token="t0"))
    return tokenizer


WORDS = {f"t{index}": index for index in range(100)}


@pytest.mark.parametrize(
    ("entries", "words"),
    [
        ({**WORDS, "t7": 9, "t9": 7}, "first in 't7', which is id 7 in the model's and id 9 in the draft's"),
        ({**WORDS, "new": 100}, "first in 'new', which is no entry in the model's and id 100 in the draft's"),
        ({f"t{i}": i for i in range(90)}, "first in 't90', which is id 90 in the model's and no entry in the draft's"),
    ],
)
@pytest.mark.parametrize("name", ["sps", "sps_tree"])
def test_another_tokenizer_is_refused_by_its_first_differing_entry(
    name: str, entries: dict[str, int], words: str
) -> None:
    draft = Draft(tiny_model(), tokenizer_of(entries))
    with pytest.raises(ValueError, match=words):
        sps(draft, name)


def test_padded_widths_of_one_family_work_and_phantom_ids_are_never_proposed() -> None:
    padded = {**WORDS, **{f"[PAD{index}]": index for index in range(100, 128)}}
    draft = Draft(tiny_draft("padded").model, tokenizer_of(padded))
    with torch.no_grad():
        # A draft model that would rather say a padding id than anything else.
        draft.model.lm_head.weight[100:] *= 50
    decodings: list[dict[str, Any]] = [{}, {"verifier": "tree_sampling", "temperature": 1.0}]
    for name in ("sps", "sps_tree"):
        for changes in decodings:
            watched = Watched(sps(draft, name))
            assert len(run(watched, random_prompt(4), 40, **changes).ids) == 40
            assert max(int(tree.tokens.max()) for _, tree in watched.seen if len(tree)) < 100
            assert max(len(tree) for _, tree in watched.seen) > 1


def test_a_narrower_draft_model_reads_what_it_has_no_row_for() -> None:
    """A padded target may write ids that the draft model's embedding does not have."""
    drafter = sps(tiny_draft(), target="padded", num_tokens=3)
    texts = [random_prompt(seed) for seed in range(4)]
    done = [run(drafter, text, 40, target="padded").ids for text in texts]
    assert done == [greedy_of(tiny_model("padded"), text, 40) for text in texts]
    assert max(map(max, done)) >= 100


# The law of what is emitted, on a real (tiny) model.


ONE_TOKEN: dict[str, dict[str, Any]] = {"sps": {"num_tokens": 1}, "sps_tree": {"depth": 1}}
SETTINGS = DecodeSettings(temperature=0.8, top_k=4, repetition_penalty=1.2)


def law_after(model: Any, text: Sequence[int]) -> Any:
    """Return the law of the next token by transformers' own processors."""
    with torch.inference_mode():
        logits = model(torch.tensor([list(text)])).logits[0, -1]
    return of_transformers(logits, list(text), SETTINGS).double().softmax(0).numpy()


@pytest.mark.parametrize(("name", "verifier"), [("sps", "speculative_sampling"), ("sps_tree", "tree_sampling")])
def test_sampled_texts_follow_the_models_law(name: str, verifier: str) -> None:
    prompt, count = random_prompt(4), 150
    drafter = sps(tiny_draft(), name, **ONE_TOKEN[name])
    changes = {key: getattr(SETTINGS, key) for key in ("temperature", "top_k", "repetition_penalty")}
    seen = Counter(tuple(run(drafter, prompt, 2, verifier, seed=seed, **changes).ids) for seed in range(count))
    first = law_after(tiny_model(), prompt)
    law = {
        (one, two): first[one] * second
        for one in np.flatnonzero(first).tolist()
        for two, second in enumerate(law_after(tiny_model(), [*prompt, one]))
        if second > 0
    }
    assert set(seen) <= set(law)
    counts, shares = (np.array([of[pair] for pair in law]) for of in (seen, law))
    common = shares * count >= 4
    counts = np.append(counts[common], counts[~common].sum())
    shares = np.append(shares[common], shares[~common].sum())
    assert len(counts) > 4
    assert chisquare(counts[shares > 0], shares[shares > 0] / shares.sum() * count).pvalue > 0.001


@pytest.mark.parametrize("name", ["sps", "sps_tree"])
def test_q_is_the_law_that_tokens_were_drawn_from(name: str) -> None:
    draft = tiny_draft()
    watched = Watched(sps(draft, name))
    changes: dict[str, Any] = {key: getattr(SETTINGS, key) for key in ("temperature", "top_k", "repetition_penalty")}
    run(watched, random_prompt(4), 16, "tree_sampling", **changes)
    assert len(watched.seen) > 2
    for text, tree in watched.seen[:4]:
        for node in range(1, len(tree)):
            above = tree.tokens[tree.path_to(int(tree.parents[node]))].tolist()
            assert tree.q is not None
            assert tree.log_q is not None
            law = law_after(draft.model, [*text[:-1], *above])
            earlier = [int(tree.tokens[n]) for n in range(1, node) if tree.parents[n] == tree.parents[node]]
            assert tree.log_q[node] == pytest.approx(np.log(law[tree.tokens[node]]), abs=1e-4)
            law[earlier] = 0
            assert tree.q[node].numpy() == pytest.approx(law / law.sum(), abs=1e-5)


# EASD looks at q also where nothing is drawn.

ALWAYS: dict[str, Any] = {"theta_t": 0.0, "theta_d": 0.0, "omega": 0.0}
NEVER: dict[str, Any] = {"theta_t": 0.0, "theta_d": 1.0}


@pytest.mark.parametrize("name", ["sps", "sps_tree"])
def test_a_greedy_draft_carries_the_draft_models_law_for_a_verifier_that_asks(name: str) -> None:
    draft = tiny_draft()
    changes: dict[str, Any] = {"repetition_penalty": SETTINGS.repetition_penalty}
    plain, asked = Watched(sps(draft, name)), Watched(sps(draft, name))
    done = run(plain, random_prompt(4), 40, **changes)
    assert run(asked, random_prompt(4), 40, "easd", rule=NEVER, **changes).ids == done.ids
    assert len(asked.seen) == len(plain.seen) > 2
    for (text, tree), (_, without) in zip(asked.seen, plain.seen, strict=True):
        assert without.q is None
        assert tree.tokens.tolist() == without.tokens.tolist()
        for node in range(1, min(len(tree), 4)):
            above = tree.tokens[tree.path_to(int(tree.parents[node]))].tolist()
            with torch.inference_mode():
                logits = draft.model(torch.tensor([[*text[:-1], *above]])).logits[0, -1]
            law = of_transformers(logits, [*text[:-1], *above], DecodeSettings(**changes)).double().softmax(0)
            assert tree.q is not None
            assert tree.q[node].numpy() == pytest.approx(law.numpy(), abs=1e-5)


@pytest.mark.parametrize("max_nodes", [64, 4])
@pytest.mark.parametrize("name", ["sps", "sps_tree"])
def test_entropy_aware_rejection_works_in_greedy_decoding(name: str, max_nodes: int) -> None:
    prompt = random_prompt(8)
    exact = run(sps(tiny_draft(), name), prompt, 60, max_nodes=max_nodes)
    assert exact.ids == greedy_of(tiny_model(), prompt, 60)
    neutral = run(sps(tiny_draft(), name), prompt, 60, "easd", rule=NEVER, max_nodes=max_nodes)
    assert neutral.ids == exact.ids
    assert [one.committed for one in neutral.trace.passes] == [one.committed for one in exact.trace.passes]
    rejecting = run(sps(tiny_draft(), name), prompt, 60, "easd", rule=ALWAYS, max_nodes=max_nodes)
    assert rejecting.ids != exact.ids
    assert rejecting.trace.tau == 1.0


@pytest.mark.parametrize(
    ("name", "knobs", "words"),
    [
        ("sps", {"num_tokens": 0}, "num_tokens=0 is out of range; it must be at least 1"),
        ("sps", {"confidence": 1.5}, "confidence=1.5 is out of range"),
        ("sps", {"schedule": "heuristics"}, "schedule=heuristics is unknown: did you mean 'heuristic'?"),
        ("sps", {"tokenizers": "other"}, "Allowed: retokenise, same"),
        ("sps_tree", {"branching": 0}, "branching=0 is out of range"),
        ("sps_tree", {"depth": -1}, "depth=-1 is out of range"),
        ("sps_tree", {"width": 0}, "width=0 is out of range"),
    ],
)
def test_settings_out_of_range_are_refused(name: str, knobs: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words.replace("?", r"\?")):
        DRAFTERS.bare({"name": name, **knobs})
