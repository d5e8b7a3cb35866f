from __future__ import annotations

import sys
from pathlib import Path

import pytest

from primitives.contract import Context, Drafter, DraftTree
from primitives.registry import DRAFTERS, VERIFIERS, Registry, nearest


class Plain(Drafter):
    """A primitive with two knobs and two resources."""

    def __init__(self, store: object, length: int = 3, width: int = 1, eos_ids: frozenset[int] = frozenset()) -> None:
        self.store = store
        self.length = length
        self.width = width
        self.eos_ids = eos_ids

    def propose(self, context: Context) -> DraftTree:
        return DraftTree.empty()


@pytest.fixture
def registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Registry[Plain]:
    """A registry over an empty package, with one entry."""
    (tmp_path / "no_primitives").mkdir()
    (tmp_path / "no_primitives" / "__init__.py").write_text("")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "no_primitives", raising=False)
    made: Registry[Plain] = Registry("drafter", "no_primitives", Plain)
    made.register("plain")(Plain)
    return made


def test_a_name_is_taken_once(registry: Registry[Plain]) -> None:
    with pytest.raises(
        ValueError, match=r"drafter 'plain' is registered twice: by .*test_registry and by .*test_registry"
    ):
        registry.register("plain")(Plain)
    assert registry.names() == ["plain"]


@pytest.mark.parametrize(("name", "near"), [("sem", "sen"), ("PLD", None), ("pdl", "pld"), ("nonee", "none")])
def test_an_unknown_name_is_refused_with_the_nearest_one(name: str, near: str | None) -> None:
    with pytest.raises(ValueError, match=f"unknown drafter '{name}'") as caught:
        DRAFTERS.get(name)
    assert str(caught.value).endswith(f"Allowed: {', '.join(DRAFTERS.names())}")
    assert ("did you mean" in str(caught.value)) == (near is not None)
    assert near is None or f"did you mean '{near}'?" in str(caught.value)


def test_an_unknown_knob_is_refused_with_the_nearest_one(registry: Registry[Plain]) -> None:
    with pytest.raises(
        ValueError, match=r"'plain' has no setting 'lenght': did you mean 'length'\? Allowed: length, width"
    ):
        registry.build("plain", {"lenght": 3}, {"store": 1, "eos_ids": frozenset()})


def test_a_resource_is_no_knob(registry: Registry[Plain]) -> None:
    with pytest.raises(ValueError, match="has no setting 'store'"):
        registry.build("plain", {"store": 2}, {"store": 1})


def test_only_the_resources_that_are_asked_for_are_passed_on(registry: Registry[Plain]) -> None:
    built = registry.build("plain", {"width": 4}, {"store": "s", "eos_ids": frozenset({2}), "draft_model": object()})
    assert (built.store, built.length, built.width, built.eos_ids) == ("s", 3, 4, frozenset({2}))
    assert registry.asks_for("plain", "store")
    assert not registry.asks_for("plain", "draft_model")


def test_a_missing_resource_is_refused(registry: Registry[Plain]) -> None:
    with pytest.raises(ValueError, match="drafter 'plain' needs store"):
        registry.build("plain", {}, {"eos_ids": frozenset()})


def test_each_module_of_the_package_is_found_by_its_name() -> None:
    for found in (DRAFTERS, VERIFIERS):
        assert found.names()
        for name in found.names():
            assert found.get(name).__module__ == f"{found.package}.{name}"


def test_nothing_near_is_not_guessed() -> None:
    assert nearest("zzz", ["pld", "sen"]) == "Allowed: pld, sen"
