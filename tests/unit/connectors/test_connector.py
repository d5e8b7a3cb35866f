from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import median
from time import sleep
from typing import Any

import numpy as np
import pytest
import torch

from connectors.connector import Connector
from connectors.settings import DecodeSettings
from connectors.trace import Generation
from primitives.contract import Drafter, DraftTree, Ints, TargetView, Verdict, Verifier
from primitives.drafting.none import EmptyDrafter
from primitives.models.causal_lm import CausalLMTarget
from primitives.verification.exact import ExactVerifier
from primitives.verification.soft_gated import SoftGatedVerifier
from tests.rigs import (
    FixedDrafter,
    LiarDrafter,
    OracleDrafter,
    TableTarget,
    greedy_of,
    random_prompt,
    successor_table,
    tiny_model,
    tree_of,
)

# The greedy text after the prompt [0] is 1, 2, 3, ...
COUNTING = list(range(60))


def counting(**settings: Any) -> TableTarget:
    return TableTarget(successor_table(COUNTING), **settings)


def spell(ids: Sequence[int]) -> str:
    return " ".join(map(str, ids))


def generate(
    target: TableTarget | CausalLMTarget,
    drafter: Drafter,
    verifier: Verifier | None = None,
    prompt: Sequence[int] = (0,),
    decode: Callable[[Sequence[int]], str] = spell,
    max_nodes: int = 64,
    **settings: Any,
) -> Generation:
    connector = Connector(target, drafter, verifier or ExactVerifier(), decode, max_nodes)
    return connector.generate(prompt, DecodeSettings(**{"max_new_tokens": 12, **settings}))


def oracle(count: int) -> Drafter:
    return OracleDrafter(COUNTING, count) if count else EmptyDrafter()


def test_the_pending_token_and_the_accepted_draft_are_committed() -> None:
    drafter = FixedDrafter(DraftTree.chain([1, 2, 3, 9]), tree_of([4, 5, 5, 7], [-1, 0, 0, -1]))
    target = counting()
    done = generate(target, drafter, max_new_tokens=6)
    assert done.ids == [1, 2, 3, 4, 5, 6]
    assert done.text == "1 2 3 4 5 6"
    assert done.finish == "length"
    assert [record.committed for record in done.trace.passes] == [3, 2]
    assert target.text == [0, 1, 2, 3, 4, 5]


def test_a_drafter_sees_the_pending_token_and_learns_what_was_committed() -> None:
    drafter = FixedDrafter(DraftTree.chain([1, 2, 9]))
    generate(counting(), drafter, prompt=[40, 0], max_new_tokens=4)
    assert drafter.prompt == [40, 0]
    assert drafter.contexts == [([40, 0, 1], 4), ([40, 0, 1, 2, 3], 2)]
    assert [committed for committed, _ in drafter.observed] == [[1, 2], [3]]
    # Row 0 before the first committed token, row i + 1 after token i; the table's hidden state is the token itself.
    rows = [view.hidden.argmax(-1).tolist() for _, view in drafter.observed]
    assert rows == [[0, 1, 2], [2, 3]]
    assert drafter.finished == 1


def test_a_drafter_is_finished_when_a_pass_fails() -> None:
    class Broken(FixedDrafter):
        def propose(self, context: Any) -> DraftTree:
            raise RuntimeError("no more memory")

    drafter = Broken()
    with pytest.raises(RuntimeError, match="no more memory"):
        generate(counting(), drafter)
    assert drafter.finished == 1


# Case 04: stop strings inside an accepted block.


def pieces(ids: Sequence[int]) -> str:
    """Token 2 ends with half of a stop string, token 3 begins with the other half and has more characters after it."""
    return "".join({2: "two ##", 3: "# three "}.get(token, f"{token} ") for token in ids)


@pytest.mark.parametrize(
    ("stop", "ids", "text"),
    [
        (["###"], [1, 2, 3], "1 two "),
        (["## three"], [1, 2, 3], "1 two #"),
        (["### three 4 5"], [1, 2, 3, 4, 5], "1 two "),
        (["7", "6 7"], [1, 2, 3, 4, 5, 6, 7], "1 two ### three 4 5 "),
        (["1"], [1], ""),
        (["12 "], list(range(1, 13)), "1 two ### three 4 5 6 7 8 9 10 11 "),
        (["never"], list(range(1, 13)), pieces(range(1, 13))),
    ],
)
@pytest.mark.parametrize("count", [0, 1, 3, 12])
def test_a_stop_string_ends_the_text_alike_with_and_without_a_draft(
    count: int, stop: list[str], ids: list[int], text: str
) -> None:
    done = generate(counting(), oracle(count), decode=pieces, stop=stop)
    assert (done.ids, done.text) == (ids, text)
    assert done.finish == ("length" if stop == ["never"] else "stop")
    assert sum(record.committed for record in done.trace.passes) in (len(ids), len(ids) - 1)


# EOS, budgets and position limits.


@pytest.mark.parametrize("eos", [(), (5,), (90, 5), (5, 3)])
@pytest.mark.parametrize("count", [0, 2, 12])
def test_any_of_several_eos_ids_ends_the_text(count: int, eos: tuple[int, ...]) -> None:
    target = counting(eos_ids=eos)
    done = generate(target, oracle(count))
    assert done.ids == target.greedy([0], 12)
    assert done.finish == ("eos" if eos else "length")


def test_a_pending_eos_needs_no_pass() -> None:
    done = generate(counting(eos_ids=[1]), oracle(4))
    assert (done.ids, done.finish, done.trace.passes) == ([1], "eos", [])
    later = generate(counting(eos_ids=[3]), oracle(1))
    assert later.ids == [1, 2, 3]
    assert [record.committed for record in later.trace.passes] == [2]


def test_the_last_token_of_the_budget_needs_no_pass() -> None:
    alone = generate(counting(), oracle(4), max_new_tokens=1)
    assert (alone.ids, alone.finish, alone.trace.passes) == ([1], "length", [])
    done = generate(counting(), EmptyDrafter(), max_new_tokens=5)
    assert (len(done.ids), len(done.trace.passes), done.trace.tau) == (5, 4, 1.0)


@pytest.mark.parametrize("budget", range(1, 10))
def test_a_budget_is_never_passed(budget: int) -> None:
    for count in (0, 1, 3, 8):
        assert generate(counting(), oracle(count), max_new_tokens=budget).ids == COUNTING[1 : budget + 1]


@pytest.mark.parametrize("count", [0, 3, 8])
def test_the_position_limit_of_the_target_ends_the_text(count: int) -> None:
    target = counting(max_positions=10)
    done = generate(target, oracle(count), max_new_tokens=50)
    assert (done.ids, done.finish) == (COUNTING[1:10], "length")
    assert target.furthest < 10


@pytest.mark.parametrize("count", [0, 8])
@pytest.mark.parametrize("length", [200, 250, 255])
def test_a_real_target_ends_at_its_position_limit(count: int, length: int) -> None:
    model = tiny_model()
    target = CausalLMTarget(model, eos_ids=())
    prompt = random_prompt(1, length)
    text = [*prompt, *greedy_of(model, prompt, 12)]
    drafter = OracleDrafter(text, count) if count else EmptyDrafter()
    done = generate(target, drafter, prompt=prompt)
    room = min(12, 256 - length)
    assert (done.ids, done.finish) == (text[length : length + room], "length")
    assert target.cache.length <= 256


@pytest.mark.parametrize(
    ("prompt", "settings", "message"),
    [
        ([], {}, "the prompt is empty; give at least one token"),
        ([1, 100], {}, "the prompt holds token id 100, but the model's ids go from 0 to 99"),
        ([1, -1], {}, "the prompt holds token id -1, but the model's ids go from 0 to 99"),
        ([1] * 20, {}, "the prompt has 20 tokens and the model takes 20 positions, which leaves no room"),
        ([1] * 25, {}, "the prompt has 25 tokens"),
        ([1], {"max_new_tokens": 0}, "max_new_tokens is 0; it must be at least 1"),
    ],
)
def test_a_prompt_that_cannot_be_continued_is_refused(
    prompt: list[int], settings: dict[str, Any], message: str
) -> None:
    target = counting(max_positions=20)
    with pytest.raises(ValueError, match=message):
        generate(target, oracle(2), prompt=prompt, **settings)
    assert target.furthest == -1


# Trees and node budgets.


def test_the_node_budget_keeps_the_best_prefixes_and_the_pending_token() -> None:
    draft = tree_of([7, 8, 1, 2, 3], [-1, 0, -1, 2, 3], [9.0, 9.0, 0.2, 0.1, 0.1])
    target = counting()
    done = generate(target, FixedDrafter(draft), SoftGatedVerifier(theta_e=0.0, k=100), max_nodes=3, max_new_tokens=4)
    assert target.trees[0].tokens.tolist() == [7, 8, 1]
    assert target.trees[0].parents.tolist() == [-1, 0, -1]
    assert done.trace.passes[0].nodes == 3
    assert all(len(tree) <= 3 for tree in target.trees)


def test_level_1_rivals_that_cannot_win_are_not_verified() -> None:
    target = counting()
    done = generate(target, FixedDrafter(tree_of([7, 8, 1, 2], [-1, 0, -1, 2])), max_new_tokens=4)
    assert target.trees[0].tokens.tolist() == [1, 2]
    assert done.ids == [1, 2, 3, 4]


def test_a_rival_of_the_pending_token_can_win_under_a_lossy_verifier() -> None:
    table = torch.zeros(10, 10)
    table[0, 1], table[0, 7] = 1.0, 0.9
    for token, following in ((7, 8), (8, 9), (9, 9)):
        table[token, following] = 30.0
    target = TableTarget(table)
    draft = tree_of([1, 7, 8, 9], [-1, -1, 1, 2])
    done = generate(target, FixedDrafter(draft), SoftGatedVerifier(k=2, window=False), max_new_tokens=5)
    (first, *_) = done.trace.passes
    assert done.ids[:3] == [7, 8, 9]
    assert (first.committed, first.accepted, first.proposed, first.pathways) == (3, 3, 3, [1, 0, 0])


def test_a_verifier_that_accepts_nothing_is_a_fault() -> None:
    class Strict(Verifier):
        guarantee = "exact"

        def judge(self, tree: DraftTree, view: TargetView, rng: torch.Generator) -> Verdict:
            return Verdict(np.empty(0, np.int64), np.empty(0, np.uint8))

    with pytest.raises(RuntimeError, match="Strict accepted nothing, although the pending token is certain"):
        generate(counting(), oracle(1), Strict())


def test_the_residual_of_a_verifier_chooses_the_next_pending_token() -> None:
    class Rejecting(ExactVerifier):
        def judge(self, tree: DraftTree, view: TargetView, rng: torch.Generator) -> Verdict:
            residual = torch.nn.functional.one_hot(torch.tensor(42), 100).float()
            return Verdict(np.array([0]), np.zeros(1, np.uint8), residual)

    drafter = FixedDrafter(DraftTree.chain([1, 2]), DraftTree.chain([42, 7]))
    assert generate(counting(), drafter, Rejecting(), max_new_tokens=3).ids == [1, 42, 42]


def test_the_pending_token_alone_is_not_judged_by_a_lossless_verifier() -> None:
    class Untouched(ExactVerifier):
        def judge(self, tree: DraftTree, view: TargetView, rng: torch.Generator) -> Verdict:
            raise AssertionError("there is nothing to judge")

    class Watching(SoftGatedVerifier):
        judged = 0

        def judge(self, tree: DraftTree, view: TargetView, rng: torch.Generator) -> Verdict:
            self.judged += 1
            return super().judge(tree, view, rng)

    assert generate(counting(), EmptyDrafter(), Untouched(), max_new_tokens=4).ids == [1, 2, 3, 4]
    watching = Watching()
    generate(counting(), EmptyDrafter(), watching, max_new_tokens=4)
    assert watching.judged == 3


# What is counted.


def test_what_was_proposed_is_counted_and_not_what_could_have_been() -> None:
    # Drafts of 4, 0 and 1 tokens below the pending one, of which 2 and 1 are accepted: 3 of 5, not 3 of 12.
    drafts = (DraftTree.chain([1, 2, 3, 30, 31]), DraftTree.empty(), DraftTree.chain([5, 6]))
    done = generate(counting(), FixedDrafter(*drafts), max_new_tokens=7)
    passes = done.trace.passes
    assert [record.proposed for record in passes] == [4, 0, 1]
    assert [record.accepted for record in passes] == [2, 0, 1]
    assert [record.committed for record in passes] == [3, 1, 2]
    assert [record.nodes for record in passes] == [5, 1, 2]
    assert done.trace.tau == 2.0
    assert done.ids == COUNTING[1:8]


def test_candidates_are_counted_before_any_cut() -> None:
    draft = DraftTree.from_candidates([[1, 2, 3], [1, 2, 4], [8, 9]])
    done = generate(counting(), FixedDrafter(draft), max_nodes=2, max_new_tokens=3)
    (record,) = done.trace.passes
    assert (record.candidates, record.candidate_tokens, record.proposed_nodes) == (3, 8, 6)
    assert (record.nodes, record.depth, record.proposed) == (2, 2, 1)


def test_what_a_stop_cuts_off_is_not_counted() -> None:
    done = generate(counting(eos_ids=[3]), FixedDrafter(DraftTree.chain([1, 2, 3, 4, 5])))
    (record,) = done.trace.passes
    assert (record.committed, record.accepted, record.pathways) == (3, 2, [0, 0, 0])
    assert record.proposed == 4


def test_a_liar_costs_nothing_but_time() -> None:
    done = generate(counting(), LiarDrafter(COUNTING, 4))
    assert done.trace.tau == 1.0
    assert done.ids == COUNTING[1:13]


# Case 25: a device that works only when it is waited for.


class LazyTarget(TableTarget):
    """Forwards return at once; their 20 ms of work are done at the next synchronisation, the first one's 300 ms too."""

    def __init__(self) -> None:
        super().__init__(successor_table(COUNTING))
        self.owed = 0.0
        self.cold = 0.3
        self.waits = 0

    def prefill(self, ids: Ints) -> TargetView:
        self.owed += self.cold + 0.05
        self.cold = 0.0
        return super().prefill(ids)

    def verify(self, tree: DraftTree) -> TargetView:
        self.owed += 0.02
        return super().verify(tree)

    def synchronize(self) -> None:
        self.waits += 1
        sleep(self.owed)
        self.owed = 0.0


@pytest.mark.parametrize("count", [0, 2])
def test_each_part_holds_the_work_that_it_started(count: int) -> None:
    target = LazyTarget()
    generate(target, oracle(count), max_new_tokens=2)
    done = generate(target, oracle(count), max_new_tokens=7)
    trace = done.trace
    assert 50 <= trace.prefill_ms < 250
    assert all(record.verify_ms >= 20 for record in trace.passes)
    # The median, because a shared machine may stop for a while in any part.
    for part in ("draft_ms", "judge_ms", "commit_ms"):
        assert median(getattr(record, part) for record in trace.passes) < 15
    assert trace.decode_ms == pytest.approx(trace.tail_ms + sum(record.total_ms for record in trace.passes))
    assert trace.decode_ms >= 20 * len(trace.passes)


def test_the_device_is_waited_for_at_the_edges_of_the_parts_only() -> None:
    target = LazyTarget()
    done = generate(target, oracle(0), max_new_tokens=5)
    # Before and after the prefill, four parts a pass, and the tail.
    assert target.waits == 2 + 4 * len(done.trace.passes) + 1
