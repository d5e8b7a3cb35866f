from __future__ import annotations

import pytest

from primitives.contract import DraftTree, Pathway
from primitives.verification.aasd import ConditionalVerifier
from tests.unit.primitives.verification.relaxed_rig import case, entropy, judge, naive, of, softmax, view_of


def test_the_floor_falls_with_the_entropy() -> None:
    # H = 0.394 nats, floor 0.0606; and H = 0.603 nats, floor 0.0397.
    sure = of(0.9, 0.058, 0.042 - 3e-6, 1e-6, 1e-6, 1e-6)
    unsure = of(0.8, 0.158, 0.042 - 3e-6, 1e-6, 1e-6, 1e-6)
    assert entropy(softmax(sure)) == pytest.approx(0.394, abs=2e-3)
    assert entropy(softmax(unsure)) == pytest.approx(0.603, abs=2e-3)
    tree = DraftTree.chain([0, 2])
    assert judge(ConditionalVerifier(), tree, view_of(sure, sure, sure)).pathways.tolist() == [0]
    assert judge(ConditionalVerifier(), tree, view_of(unsure, unsure, unsure)).pathways.tolist() == [0, Pathway.RELAXED]


def test_from_one_nat_on_every_token_passes() -> None:
    row = of(0.3, 0.3 - 1e-6, 0.2, 0.1, 0.1 - 1e-9, 1e-9)
    assert len(judge(ConditionalVerifier(), DraftTree.chain([5, 5]), view_of(row, row, row)).path) == 2


@pytest.mark.parametrize(("alpha", "beta"), [(0.1, 0.1), (0.0, 0.2), (0.2, 0.5)])
def test_it_is_the_plain_rule(alpha: float, beta: float) -> None:
    def passes(row: list[float], token: int) -> bool:
        p = softmax(row)
        return p[token] >= min(beta - alpha * entropy(p), max(p))

    for seed in range(150):
        tree, view = case(seed)
        assert judge(ConditionalVerifier(alpha, beta), tree, view).path.tolist() == naive(tree, view, passes)


@pytest.mark.parametrize(
    ("name", "value", "allowed"),
    [
        ("alpha", -0.1, "be at least 0"),
        ("alpha", float("nan"), "be at least 0"),
        ("beta", -0.1, "lie between 0 and 1"),
        ("beta", 1.1, "lie between 0 and 1"),
    ],
)
def test_settings_out_of_range_are_refused(name: str, value: float, allowed: str) -> None:
    message = f"verifier 'aasd': {name}={value} is out of range; it must {allowed}"
    with pytest.raises(ValueError, match=message):
        ConditionalVerifier(**{name: value})
