"""Statistics of the target's rows, each computed for no more rows than asked, and left where the rows are.

On a CPU the reductions go through numpy. torch's argmax over a row of bfloat16 is slower than numpy's over the same
bits by a factor of 200, and numbers from zero on are ordered like their bits.
"""

from __future__ import annotations

from math import inf, log
from typing import Any, Final

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray

from primitives.contract import Bools, Ints, TargetView

_HALF: Final = (torch.bfloat16, torch.float16)
_BLOCK: Final = 64


def on_accelerator(rows: torch.Tensor) -> bool:
    """Return whether rows lie where one more of them is cheap and a transfer to the host is dear."""
    return rows.device.type != "cpu"


def greedy_choice(logits: torch.Tensor) -> Ints:
    """Return int64[rows], the argmax of each row of [rows, V] logits; ties go to the lower id."""
    if on_accelerator(logits):
        return logits.argmax(-1).cpu().numpy()
    if logits.dtype in _HALF:
        bits = logits.view(torch.int16).numpy()
        choice = bits.argmax(-1)
        if (bits[np.arange(len(bits)), choice] >= 0).all():
            return choice
    return logits.float().numpy().argmax(-1)


def choices(logits: torch.Tensor) -> torch.Tensor:
    """Return int64[rows], what `greedy_choice` does, left on the device."""
    return logits.argmax(-1) if on_accelerator(logits) else torch.from_numpy(greedy_choice(logits))


def own_choice(view: TargetView) -> Ints:
    """Return int64[rows], the target's own next token after each row: the one drawn, or the argmax if none is."""
    return greedy_choice(view.logits) if view.drawn is None else view.drawn


def fetched(*columns: torch.Tensor) -> list[NDArray[Any]]:
    """Return tensors of one device as arrays, brought to the host in one transfer; whole numbers are below 2^53."""
    if not on_accelerator(columns[0]):
        return [column.numpy() for column in columns]
    parts = torch.cat([column.double().flatten() for column in columns]).cpu().split([c.numel() for c in columns])
    return [part.to(column.dtype).view(column.shape).numpy() for part, column in zip(parts, columns, strict=True)]


def within_top(logits: torch.Tensor, tokens: torch.Tensor, k: int) -> torch.Tensor:
    """Return bool[m]: whether token i is one of the k largest of row i of [m, V] logits; ties go to the lower id."""
    if on_accelerator(logits):
        own = logits.gather(1, tokens[:, None])
        earlier = torch.arange(logits.shape[1], device=logits.device) < tokens[:, None]
        return ((logits > own) | ((logits == own) & earlier)).sum(1) < k
    return torch.from_numpy(_rank(logits, tokens.numpy(), k) < k)


def _rank(logits: torch.Tensor, tokens: Ints, k: int) -> Ints:
    """Return int64[m], how many tokens come before each; where they are k or more, not all are counted."""
    rows = np.arange(len(tokens))
    values: NDArray[Any] = logits.view(torch.int16).numpy() if logits.dtype in _HALF else logits.numpy()
    if logits.dtype in _HALF and (values[rows, tokens] < 0).any():
        values = logits.float().numpy()
    own = values[rows, tokens][:, None]
    rank = _count(values > own)
    # Equal logits are common in bfloat16, and a top-1 that let two tokens in would not be greedy.
    near = np.flatnonzero(rank < k)
    rank[near] += _count((values[near] == own[near]) & (np.arange(values.shape[1]) < tokens[near, None]))
    return rank


def top_tokens(rows: torch.Tensor, n: int) -> torch.Tensor:
    """Return int64[m, n], the n largest of each row of [m, V], in no order.

    On a CPU a search for the n best of a whole vocabulary is slow, but the n best blocks by their largest hold them.
    """
    if on_accelerator(rows):
        return rows.topk(n).indices
    blocks = F.pad(rows, (0, -rows.shape[1] % _BLOCK), value=-inf).unflatten(1, (-1, _BLOCK))
    best = blocks.amax(-1).topk(min(n, blocks.shape[1])).indices
    inside = blocks.gather(1, best[:, :, None].expand(-1, -1, _BLOCK)).flatten(1).topk(n).indices
    return best.gather(1, inside // _BLOCK) * _BLOCK + inside % _BLOCK


def normalised_entropy(logits: torch.Tensor) -> torch.Tensor:
    """Return float64[m], the entropy of each softmax row of [m, V] logits as a share of ln V, in [0, 1]."""
    # Tokens that a processor has forbidden have p = 0 and ln p = -inf, whose product is not 0 by itself.
    log_p = torch.log_softmax(logits, -1, dtype=torch.float32).clamp_(min=-1e4)
    entropy = -torch.linalg.vecdot(log_p.exp(), log_p)
    # Rounding takes a uniform row a little over 1, and a gate at 1 must stay shut.
    return (entropy / log(logits.shape[-1])).clamp(max=1).double()


def normalised_entropy_of(laws: torch.Tensor) -> torch.Tensor:
    """Return float64[m], the entropy of each row of [m, V] probabilities as a share of ln V, in [0, 1]."""
    entropy = torch.special.entr(laws.float()).sum(-1)
    return (entropy / log(laws.shape[-1])).double()


def log_total_and_entropy(logits: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return two float64[r]: ln sum exp of each row of [r, V] logits, and the entropy of its softmax in nats."""
    wide = logits.float()
    best = wide.amax(-1, keepdim=True)
    # exp(-200) is 0 already; -inf, a token that was ruled out, would make the entropy 0 * inf.
    behind = (wide - best).clamp_(min=-200)
    weights = behind.exp()
    total = weights.sum(-1)
    entropy = total.log() - torch.linalg.vecdot(weights, behind) / total
    log_total = best[:, 0] + total.log()
    return log_total.double(), entropy.clamp(min=0).double()


def probabilities(logits: torch.Tensor) -> torch.Tensor:
    """Return float64[m, V], the softmax of [m, V] logits, computed in float32 unless they are finer."""
    return torch.softmax(logits, -1, dtype=softmax_dtype(logits)).double()


def softmax_dtype(logits: torch.Tensor) -> torch.dtype:
    """Return what `probabilities` computes in."""
    return torch.float64 if logits.dtype == torch.float64 else torch.float32


def draw(law: torch.Tensor, rng: torch.Generator) -> int:
    """Return a token drawn from [V] probabilities, which need not sum to 1; never one of probability 0."""
    return int(draw_each(law[None], rng)[0])


def draw_each(laws: torch.Tensor, rng: torch.Generator) -> Ints:
    """Return int64[m], a token drawn from each row of [m, V] probabilities, as `draw` does.

    One uniform number of the host decides on each, so that a seed gives the same draws on every device.
    """
    reached = laws.cumsum(-1, dtype=torch.float64)
    mass = reached[:, -1:]
    point = mass * torch.rand(len(laws), 1, generator=rng, dtype=torch.float64).to(laws.device)
    # The product may round up to the mass itself, which no token reaches over.
    point = torch.minimum(point, torch.nextafter(mass, torch.zeros_like(mass)))
    return torch.searchsorted(reached, point, right=True)[:, 0].cpu().numpy()


def _count(mask: Bools) -> Ints:
    """Return int64[m], how many cells of each row are set; counting packed bits spares a sum over single bytes."""
    return np.bitwise_count(np.packbits(mask, axis=1)).sum(1, dtype=np.int64)
