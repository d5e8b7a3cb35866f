from __future__ import annotations

from typing import Any

import pytest

from benchmarks.run import _warn


@pytest.mark.parametrize(
    ("changes", "warned"),
    [
        ({}, True),
        ({"passes": 49}, False),
        ({"tau": {"value": 1.02}, "acceptance_rate": 0.01}, False),
        ({"acceptance_rate": None}, False),
    ],
)
def test_drafts_of_which_nothing_is_ever_accepted_are_pointed_out(
    changes: dict[str, Any], warned: bool, caplog: pytest.LogCaptureFixture
) -> None:
    _warn({"passes": 50, "tau": {"value": 1.0}, "acceptance_rate": 0.0, "lossless": None, **changes})
    assert ("no drafted token was accepted in 50 passes" in caplog.text) == warned
