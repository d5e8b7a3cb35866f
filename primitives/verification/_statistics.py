"""Statistics of the target's rows that several verifiers need, each computed for no more rows than asked.

On a CPU the reductions go through numpy: torch's argmax over a row of bfloat16 is ten times slower than a conversion to
float32 and numpy's argmax.
"""

from __future__ import annotations

from math import log

import numpy as np
import torch

from primitives.contract import Bools, Floats, Ints


def greedy_choice(logits: torch.Tensor) -> Ints:
    """Return int64[rows], the argmax of each row of [rows, V] logits; ties go to the lower id."""
    if logits.device.type == "cpu":
        return logits.float().numpy().argmax(-1)
    return logits.argmax(-1).cpu().numpy()


def within_top(logits: torch.Tensor, tokens: Ints, k: int) -> Bools:
    """Return bool[m]: whether token i is one of the k largest of row i of [m, V] logits; ties go to the lower id."""
    index = torch.from_numpy(tokens).to(logits.device)[:, None]
    values = logits.gather(1, index)
    rank = _count(logits.float() > values)
    near = np.flatnonzero(rank < k)
    # Equal logits are common in bfloat16, and a top-1 that let two tokens in would not be greedy.
    rows = torch.from_numpy(near).to(logits.device)
    earlier = torch.arange(logits.shape[1], device=logits.device) < index[rows]
    rank[near] += _count((logits[rows] == values[rows]) & earlier)
    return rank < k


def normalised_entropy(logits: torch.Tensor) -> Floats:
    """Return float[m], the entropy of each softmax row of [m, V] logits, divided by ln V so that it lies in [0, 1]."""
    log_p = torch.log_softmax(logits, -1, dtype=torch.float32)
    entropy = -torch.linalg.vecdot(log_p.exp(), log_p)
    return (entropy / log(logits.shape[-1])).double().cpu().numpy()


def _count(mask: torch.Tensor) -> Ints:
    if mask.device.type == "cpu":
        return np.count_nonzero(mask.numpy(), axis=1)
    return mask.sum(1).cpu().numpy()
