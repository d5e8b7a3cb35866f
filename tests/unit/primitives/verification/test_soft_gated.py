from __future__ import annotations

from itertools import product
from math import floor, log
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from primitives.contract import DraftTree, Pathway, TargetView, Verdict
from primitives.verification.exact import ExactVerifier
from primitives.verification.soft_gated import ALIGNMENTS, BORDERS, SELECTIONS, SoftGatedVerifier
from tests.rigs import tree_of
from tests.unit.primitives.verification.relaxed_rig import RNG, VOCABULARY, case, certain, flat, view_of


def verdict_of(tree: DraftTree, view: TargetView, **knobs: Any) -> Verdict:
    return SoftGatedVerifier(**knobs).judge(tree, view, RNG)


def naive(tree: DraftTree, view: TargetView, **knobs: Any) -> tuple[list[int], list[int]]:
    """Path and pathways by Eqs. 15 to 17, one path, one token and one window cell at a time."""
    k, w, border = knobs["k"], knobs["w"], knobs["border"]
    offsets = {
        "centered": range(-(w // 2), w - w // 2),
        "forward": range(w),
        "causal": range(1 - w, 1),
    }[knobs["alignment"]]
    ranked = []
    for path in tree.paths:
        nodes = [int(node) for node in path if node >= 0]
        probabilities = [torch.softmax(view.logits[tree.rows[node]].double(), -1).tolist() for node in nodes]
        tokens = [int(tree.tokens[node]) for node in nodes]
        error = [token != row.index(max(row)) for token, row in zip(tokens, probabilities, strict=True)]
        ways: list[Pathway] = []
        for at, (token, row) in enumerate(zip(tokens, probabilities, strict=True)):
            if not error[at]:
                ways.append(Pathway.EXACT)
                continue
            entropy = -sum(p * log(p) for p in row if p > 0) / log(VOCABULARY)
            errors = cells = 0
            for offset in offsets:
                if 0 <= at + offset < len(nodes):
                    cells += 1
                    errors += error[at + offset]
                elif border != "valid":
                    cells += 1
                    errors += border == "mismatch"
            near = knobs["topk"] and token in sorted(range(VOCABULARY), key=lambda i: -row[i])[:k]
            isolated = knobs["window"] and errors <= floor(knobs["tau_c"] * cells + 1e-9)
            if not (entropy > knobs["theta_e"] and (near or isolated)):
                break
            ways.append(Pathway.TOP_K if near else Pathway.WINDOW)
        exact_prefix = next((i for i, way in enumerate(ways) if way != Pathway.EXACT), len(ways))
        score = 0.0 if tree.scores is None else float(tree.scores[nodes[max(len(ways), 1) - 1]])
        by_length = (len(ways), ways.count(Pathway.EXACT), score)
        rank = by_length if knobs["select"] == "longest" else (exact_prefix, len(ways), score)
        ranked.append((rank, nodes[: len(ways)], ways))
    best = max(range(len(ranked)), key=lambda i: (ranked[i][0], -i))
    return ranked[best][1], [int(way) for way in ranked[best][2]]


@pytest.mark.parametrize("select", SELECTIONS)
@pytest.mark.parametrize("border", BORDERS)
@pytest.mark.parametrize("alignment", ALIGNMENTS)
def test_it_is_equation_17_cell_by_cell(alignment: str, border: str, select: str) -> None:
    seen: set[int] = set()
    rules = product((0.05, 0.6), (1, 3), (1, 4, 6), (0.0, 0.2, 0.5), ((True, True), (True, False), (False, True)))
    for seed, (theta_e, k, w, tau_c, (topk, window)) in enumerate(rules):
        knobs = {
            "theta_e": theta_e,
            "k": k,
            "w": w,
            "tau_c": tau_c,
            "topk": topk,
            "window": window,
            "alignment": alignment,
            "border": border,
            "select": select,
        }
        tree, view = case(seed)
        verdict = verdict_of(tree, view, **knobs)
        assert (verdict.path.tolist(), verdict.pathways.tolist()) == naive(tree, view, **knobs), knobs
        seen.update(verdict.pathways.tolist())
    assert {Pathway.EXACT, Pathway.TOP_K} <= seen
    assert Pathway.WINDOW in seen


def test_the_gate_is_closed_where_the_target_is_sure() -> None:
    tree = DraftTree.chain([0, 1, 2])
    open_row = view_of(certain(0), flat(5, (1,)), certain(2), certain(0))
    shut_row = view_of(certain(0), certain(5), certain(2), certain(0))
    assert verdict_of(tree, open_row, window=False).path.tolist() == [0, 1, 2]
    assert verdict_of(tree, shut_row, window=False).path.tolist() == [0]
    assert verdict_of(tree, shut_row, k=VOCABULARY, tau_c=1.0, theta_e=0.01).path.tolist() == [0]


def test_a_lone_mismatch_passes_by_its_neighbourhood() -> None:
    tree = DraftTree.chain([0, 0, 0, 5, 0, 0, 0])
    rows = [flat(0, (1, 2, 3))] * 8
    ways = verdict_of(tree, view_of(*rows), w=3, tau_c=0.34).pathways.tolist()
    assert ways == [0, 0, 0, Pathway.WINDOW, 0, 0, 0]
    assert len(verdict_of(tree, view_of(*rows), w=3, tau_c=0.3).path) == 3
    assert len(verdict_of(tree, view_of(*rows), w=3, tau_c=0.34, window=False).path) == 3


def test_the_border_decides_about_a_mismatch_at_the_end() -> None:
    tree = DraftTree.chain([0, 0, 5])
    rows = [flat(0, (1, 2, 3))] * 4
    accepted = {border: len(verdict_of(tree, view_of(*rows), w=3, tau_c=0.4, border=border).path) for border in BORDERS}
    # One error of three cells; with the cell past the end, two of three; of two cells that count, one.
    assert accepted == {"match": 3, "mismatch": 2, "valid": 2}
    assert len(verdict_of(tree, view_of(*rows), w=3, tau_c=0.5, border="valid").path) == 3


def test_the_default_window_takes_one_error_for_the_sizes_of_table_5() -> None:
    tree = DraftTree.chain([0] * 5 + [5] + [0] * 5)
    two = DraftTree.chain([0] * 5 + [5, 5] + [0] * 5)
    rows = [flat(0, (1, 2, 3))] * 13
    for w in (5, 6, 7):
        assert len(verdict_of(tree, view_of(*rows[:12]), w=w).path) == 11
        assert len(verdict_of(two, view_of(*rows), w=w).path) == 5


def test_the_longest_path_may_lose_to_the_one_with_the_longest_exact_prefix() -> None:
    #   0 - 1 (both the target's choice)
    #     - 2 - 3 - 4 (rescued, then exact)
    tree = tree_of([0, 1, 2, 3, 4], [-1, 0, 0, 2, 3])
    view = view_of(certain(0), flat(1, (2,)), certain(5), certain(3), certain(4), certain(0))
    assert verdict_of(tree, view, window=False).path.tolist() == [0, 2, 3, 4]
    assert verdict_of(tree, view, window=False, select="exact_first").path.tolist() == [0, 1]


def test_ties_go_to_more_exact_matches_then_to_the_higher_score() -> None:
    view = view_of(certain(0), flat(1, (2, 3)), certain(5), certain(5), certain(5))
    exact_second = tree_of([0, 2, 1], [-1, 0, 0], [1, 9, 1])
    assert verdict_of(exact_second, view, window=False).path.tolist() == [0, 2]
    assert verdict_of(tree_of([0, 2, 3], [-1, 0, 0], [1, 1, 2]), view, window=False).path.tolist() == [0, 2]
    assert verdict_of(tree_of([0, 2, 3], [-1, 0, 0]), view, window=False).path.tolist() == [0, 1]


@settings(max_examples=60)
@given(st.integers(0, 10**6), st.sampled_from(ALIGNMENTS), st.sampled_from(BORDERS))
def test_more_relaxed_never_accepts_less(seed: int, alignment: str, border: str) -> None:
    tree, view = case(seed)
    for knob, values in {"theta_e": (1.0, 0.6, 0.05, 0.0), "k": (1, 2, 4), "tau_c": (0.0, 0.2, 0.5, 1.0)}.items():
        lengths = [len(verdict_of(tree, view, alignment=alignment, border=border, **{knob: v}).path) for v in values]
        assert lengths == sorted(lengths), knob


@settings(max_examples=60)
@given(st.integers(0, 10**6), st.sampled_from([{"theta_e": 1.0}, {"k": 1, "window": False}]))
def test_neutral_settings_are_exact(seed: int, knobs: dict[str, Any]) -> None:
    tree, view = case(seed)
    expected = ExactVerifier().judge(tree, view, RNG).path.tolist()
    verdict = verdict_of(tree, view, **knobs)
    assert verdict.path.tolist() == expected
    assert not verdict.pathways.any()


@settings(max_examples=200)
@given(
    seed=st.integers(0, 10**6),
    agreeing=st.sampled_from([0.6, 0.9]),
    alignment=st.sampled_from(ALIGNMENTS),
    border=st.sampled_from(BORDERS),
    w=st.integers(1, 7),
    k=st.integers(1, 3),
    tau_c=st.sampled_from([0.0, 0.2, 0.34, 0.5, 0.7]),
    pathways=st.sampled_from([(True, True), (True, False), (False, True), (False, False)]),
)
def test_what_is_cut_before_the_forward_would_not_have_been_accepted(
    seed: int,
    agreeing: float,
    alignment: str,
    border: str,
    w: int,
    k: int,
    tau_c: float,
    pathways: tuple[bool, bool],
) -> None:
    tree, view = case(seed, agreeing)
    verifier = SoftGatedVerifier(0.05, k, w, tau_c, *pathways, alignment, border)
    first = np.flatnonzero((tree.parents < 0) & (tree.tokens != int(view.logits[0].argmax())))
    admitted = dict(zip(first.tolist(), verifier.admits(tree.tokens[first], view.logits[0]).tolist(), strict=True))
    for top in first:
        # Each level-1 node alone with its branches, so that no other path hides what would be accepted below it.
        below = tree.keep(tree.ancestor_mask[:, top])
        rows = np.concatenate([[0], np.flatnonzero(tree.ancestor_mask[:, top]) + 1])
        if len(verifier.judge(below, view.select(rows), RNG).path):
            assert admitted[int(top)]


def test_level_1_nodes_that_cannot_pass_are_cut() -> None:
    rivals = np.array([0, 1, 3, 4, 5])
    unsure, sure = torch.tensor(flat(2, (4, 0))), torch.tensor(certain(2))
    assert SoftGatedVerifier().admits(rivals, sure).tolist() == [False] * 5
    assert SoftGatedVerifier().admits(rivals, unsure).tolist() == [True, False, False, True, False]
    assert SoftGatedVerifier(topk=False).admits(rivals, unsure).tolist() == [False] * 5
    assert SoftGatedVerifier(border="match").admits(rivals, unsure).all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_equal_scores_are_ranked_by_their_ids(dtype: torch.dtype) -> None:
    # In bfloat16 256.25 and 256.5 are the same number, so three tokens tie at the top.
    row = [256.0, 256.25, 256.5, 0.0, 0.0, 0.0] if dtype == torch.bfloat16 else [256.0, 256.0, 256.0, 0.0, 0.0, 0.0]
    view = view_of(row, row, dtype=dtype)
    accepted = {
        (token, k): len(verdict_of(DraftTree.chain([token]), view, k=k, window=False, theta_e=0.01).path)
        for token in range(3)
        for k in (1, 2, 3)
    }
    assert accepted == {(token, k): int(token < k) for token in range(3) for k in (1, 2, 3)}
    rivals = np.array([1, 2, 3])
    assert SoftGatedVerifier(k=2, window=False).admits(rivals, view.logits[0]).tolist() == [True, False, False]


def test_bfloat16_rows_give_the_verdict_of_their_values_in_float32() -> None:
    for seed in range(20):
        tree, view = case(seed)
        half = TargetView(view.logits.bfloat16(), view.hidden)
        same = TargetView(half.logits.float(), view.hidden)
        assert verdict_of(tree, half).path.tolist() == verdict_of(tree, same).path.tolist()


@pytest.mark.parametrize(
    ("knobs", "message"),
    [
        ({"theta_e": -0.1}, "theta_e=-0.1 is out of range; it must lie between 0 and 1"),
        ({"theta_e": 1.1}, "theta_e=1.1 is out of range"),
        ({"theta_e": float("nan")}, "theta_e=nan is out of range"),
        ({"tau_c": 2}, "tau_c=2 is out of range"),
        ({"tau_c": -1}, "tau_c=-1 is out of range"),
        ({"k": 0}, "k=0 is out of range; it must be at least 1"),
        ({"w": 0}, "w=0 is out of range"),
        ({"alignment": "forwards"}, "alignment=forwards is unknown: did you mean 'forward'?"),
        ({"border": "valide"}, "border=valide is unknown: did you mean 'valid'?"),
        ({"select": "shortest"}, "select=shortest is unknown"),
    ],
)
def test_bad_settings_are_refused(knobs: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match="verifier 'soft_gated'") as caught:
        SoftGatedVerifier(**knobs)
    assert message in str(caught.value)


def test_k_above_the_vocabulary_takes_every_token() -> None:
    assert verdict_of(DraftTree.chain([5]), view_of(flat(0), flat(0)), k=1000, window=False).path.tolist() == [0]
