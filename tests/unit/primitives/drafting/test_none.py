from __future__ import annotations

import numpy as np
import torch

from primitives.contract import Context
from primitives.drafting.none import EmptyDrafter


def test_nothing_is_drafted() -> None:
    tree = EmptyDrafter().propose(Context(np.array([1, 1, 1]), torch.zeros(3), torch.zeros(2), 9))
    assert len(tree) == 0
