"""Numbers that a rule needs of a target: set by hand, or measured once by `scripts.calibrate`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class Constants:
    """Constants by name: those that are set, then those of the calibration.

    Args:
        verifier: whose constants they are.
        calibration: what was measured for this target; None if nothing was, or while only settings are looked at.
        own: what is set; None is not set.
    """

    def __init__(self, verifier: str, calibration: Mapping[str, Any] | None, **own: Any) -> None:
        self._verifier = verifier
        self._calibration = calibration or {}
        self._own = {name: value for name, value in own.items() if value is not None}

    def __getitem__(self, name: str) -> Any:
        """Return a constant; ValueError if nothing gives it."""
        if name in self._own:
            return self._own[name]
        if name not in self._calibration:
            raise ValueError(f"verifier '{self._verifier}' has no {name}: measure it with scripts.calibrate")
        return self._calibration[name]

    def own(self, name: str) -> Any:
        """Return what is set, None if it is not."""
        return self._own.get(name)

    def unset(self, *names: str) -> frozenset[str]:
        """Return those of some constants that only a calibration gives."""
        return frozenset(names) - self._own.keys()
