from __future__ import annotations

from math import exp, log

import pytest

from primitives.contract import DraftTree, Pathway
from primitives.verification.typical import TypicalVerifier
from tests.rigs import tree_of
from tests.unit.primitives.verification.relaxed_rig import case, entropy, judge, of, softmax, view_of

ROW = of(0.4, 0.3, 0.2, 0.06, 0.03, 0.01)
SURE = of(0.999, 0.0005, 0.0002, 0.0001, 0.0001, 0.0001)


def test_the_floor_is_the_lower_of_two() -> None:
    # H = 1.370 nats.
    assert exp(-entropy(softmax(ROW))) == pytest.approx(0.254, abs=1e-3)
    tree = DraftTree.chain([0, 1, 2, 3, 4])
    lengths = {
        alpha: len(judge(TypicalVerifier(0.3, alpha), tree, view_of(*[ROW] * 6)).path) for alpha in (0.09, 0.2, 0.9)
    }
    # Floors 0.023, 0.051 and 0.229.
    assert lengths == {0.09: 5, 0.2: 4, 0.9: 2}
    # epsilon is below the last one: floors 0.1 and 0.2001.
    assert len(judge(TypicalVerifier(0.1, 0.9), tree, view_of(*[ROW] * 6)).path) == 3
    assert len(judge(TypicalVerifier(0.2001, 0.9), tree, view_of(*[ROW] * 6)).path) == 2


def test_where_the_target_is_sure_only_its_choice_passes() -> None:
    verdict = judge(TypicalVerifier(), DraftTree.chain([0, 1]), view_of(SURE, SURE, SURE))
    assert verdict.pathways.tolist() == [Pathway.EXACT]


@pytest.mark.parametrize(("temperature", "accepted"), [(0.0, 1), (0.5, 1), (0.7, 2), (1.0, 3), (2.0, 4)])
def test_the_temperature_flattens_p(temperature: float, accepted: int) -> None:
    row = of(0.9, 0.07, 0.02, 0.005, 0.004, 0.001)
    tree = DraftTree.chain([0, 1, 2, 3])
    expected = 1
    if temperature:
        p = softmax([x / temperature for x in row])
        floor = min(0.3, 0.09 * exp(-entropy(p))) / 4
        expected = next((i for i in range(1, 4) if p[i] <= floor), 4)
    verifier = TypicalVerifier(0.3 / 4, 0.09 / 4, temperature)
    assert len(judge(verifier, tree, view_of(*[row] * 5)).path) == expected == accepted


def test_ties_go_to_the_likeliest_path() -> None:
    #   0 - 1 - 0    0.3 x 0.4
    #     - 2 - 1    0.2 x 0.9
    tree = tree_of([0, 1, 0, 2, 1], [-1, 0, 1, 0, 3], [1, 9, 9, 1, 1])
    steep = of(0.01, 0.9, 0.05, 0.02, 0.01, 0.01)
    view = view_of(ROW, ROW, ROW, ROW, steep, ROW)
    verdict = judge(TypicalVerifier(), tree, view)
    assert verdict.path.tolist() == [0, 3, 4]
    assert verdict.pathways.tolist() == [0, Pathway.RELAXED, 0]


@pytest.mark.parametrize(("epsilon", "alpha", "temperature"), [(0.3, 0.09, 1.0), (0.1, 0.5, 1.0), (0.3, 0.3, 0.7)])
def test_it_is_the_plain_rule(epsilon: float, alpha: float, temperature: float) -> None:
    tied = 0
    for seed in range(200):
        tree, view = case(seed, candidates=6, length=4)
        ranked = []
        for path in tree.paths.tolist():
            accepted: list[int] = []
            likelihood = 0.0
            for node in path:
                if node < 0:
                    break
                row, token = view.logits[tree.rows[node]].double().tolist(), int(tree.tokens[node])
                p = softmax([x / temperature for x in row])
                if token != row.index(max(row)) and not p[token] > min(epsilon, alpha * exp(-entropy(p))):
                    break
                accepted.append(node)
                likelihood += log(p[token])
            ranked.append((len(accepted), likelihood, accepted))
        expected = max(ranked)
        tied += len({end[-1] for length, _, end in ranked if length == expected[0] and end}) > 1
        verdict = judge(TypicalVerifier(epsilon, alpha, temperature), tree, view)
        assert verdict.path.tolist() == expected[2]
    assert tied > 10


@pytest.mark.parametrize(
    ("name", "value", "allowed"),
    [
        ("epsilon", -0.1, "lie between 0 and 1"),
        ("epsilon", 1.1, "lie between 0 and 1"),
        ("alpha", -0.1, "be at least 0"),
        ("temperature", -1.0, "be at least 0"),
        ("temperature", float("nan"), "be at least 0"),
    ],
)
def test_settings_out_of_range_are_refused(name: str, value: float, allowed: str) -> None:
    message = f"verifier 'typical': {name}={value} is out of range; it must {allowed}"
    with pytest.raises(ValueError, match=message):
        TypicalVerifier(**{name: value})
