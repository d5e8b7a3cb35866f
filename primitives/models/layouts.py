"""How a draft tree may go through a forward: as a tree under a mask, or as the batch of its root-to-leaf paths."""

from __future__ import annotations

from typing import Final

LAYOUTS: Final = ("tree", "batch")
