from __future__ import annotations

from typing import Any

import pytest

from primitives.contract import DraftTree, Pathway
from primitives.verification.prob_floor import ProbabilityFloorVerifier
from tests.unit.primitives.verification.relaxed_rig import case, judge, naive, of, softmax, view_of

ROW = of(0.5, 0.3, 0.12, 0.05, 0.02, 0.01)


@pytest.mark.parametrize(
    ("knobs", "length"),
    [
        ({"epsilon": 0.4}, 1),
        ({"epsilon": 0.29}, 2),
        ({"epsilon": 0.1}, 3),
        ({"epsilon": 0.0}, 6),
        ({"epsilon": 0.0, "rho": 0.5}, 2),
        ({"epsilon": 0.0, "rho": 0.2}, 3),
        ({"epsilon": 0.1, "rho": 0.5}, 2),
        ({"epsilon": 0.29, "rho": 0.2}, 2),
    ],
)
def test_a_token_passes_with_enough_probability(knobs: dict[str, Any], length: int) -> None:
    verdict = judge(ProbabilityFloorVerifier(**knobs), DraftTree.chain([0, 1, 2, 3, 4, 5]), view_of(*[ROW] * 7))
    assert verdict.pathways.tolist() == [Pathway.EXACT, *[Pathway.RELAXED] * (length - 1)]


@pytest.mark.parametrize("knobs", [{"epsilon": 0.2}, {"epsilon": 0.0, "rho": 0.3}, {"epsilon": 0.05, "rho": 0.6}])
def test_it_is_the_plain_rule(knobs: dict[str, float]) -> None:
    def passes(row: list[float], token: int) -> bool:
        p = softmax(row)
        return p[token] >= knobs["epsilon"] and p[token] / max(p) > knobs.get("rho", 0)

    for seed in range(150):
        tree, view = case(seed)
        assert judge(ProbabilityFloorVerifier(**knobs), tree, view).path.tolist() == naive(tree, view, passes)


@pytest.mark.parametrize("name", ["epsilon", "rho"])
@pytest.mark.parametrize("value", [-0.1, 1.1, float("nan")])
def test_settings_out_of_range_are_refused(name: str, value: float) -> None:
    message = f"verifier 'prob_floor': {name}={value} is out of range; it must lie between 0 and 1"
    with pytest.raises(ValueError, match=message):
        ProbabilityFloorVerifier(**{name: value})
