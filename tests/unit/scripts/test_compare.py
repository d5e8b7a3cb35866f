from __future__ import annotations

import pytest

from scripts.compare import _variants


def test_a_variant_changes_what_it_names_and_shares_the_rest() -> None:
    base = ["method=union", "decode.max_new_tokens=7", "connector.max_nodes=12"]
    variants = _variants(base, ["method=pld", "method=sense verifier=exact", "connector.max_nodes=3"])
    assert list(variants) == ["default", "method=pld", "method=sense verifier=exact", "connector.max_nodes=3"]
    assert [(s.drafter["name"], s.verifier["name"], s.connector.max_nodes) for s in variants.values()] == [
        ("union", "exact", 12),
        ("pld", "exact", 12),
        ("sen", "exact", 12),
        ("union", "exact", 3),
    ]
    assert {settings.decode.max_new_tokens for settings in variants.values()} == {7}


def test_a_variant_that_changes_what_all_share_is_refused() -> None:
    with pytest.raises(ValueError, match="variant 'dtype=float32' changes dtype, which all variants share: set it bef"):
        _variants(["method=pld", "dtype=bfloat16"], ["dtype=float32"])
