"""Weights of linear layers in the order in which a CPU's kernels read them.

torch gives a product of a few rows to a routine that copies the whole matrix into its own order first, on every call:
8 rows in float32 then take twice the time of one. oneDNN keeps the copy, so that the nodes of a draft tree cost little
more than one token (benchmarks/micro/packing.py measures it).
"""

from __future__ import annotations

from typing import Any, Final

import torch
import torch.nn.functional as F
from torch import nn

# Rows that the order is chosen for: those of an ordinary draft tree.
ROWS: Final = 24


class PackedLinear(nn.Module):
    """A linear layer for inference over packed weights.

    Args:
        linear: the layer that it stands for.
        keep: whether the plain `weight` stays beside the packed one, for those who read it.
    """

    def __init__(self, linear: nn.Linear, keep: bool = False) -> None:
        super().__init__()
        self.bias = linear.bias
        self.weight = linear.weight if keep else None
        self._packed = packed(linear.weight.detach())

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        """Return [..., out] for [..., in] states; no gradient goes through it."""
        return product(states, self._packed, self.bias)

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        if self.weight is None:
            destination[prefix + "weight"] = self._packed.to_dense()


def pack(model: nn.Module, keep: nn.Module | None = None) -> None:
    """Pack the linear layers of a model, in place, where that gains anything.

    Args:
        model: for inference alone.
        keep: the layer whose plain weight is read elsewhere, such as an output embedding.
    """
    for name, layer in list(model.named_modules()):
        if type(layer) is nn.Linear and _gains(layer.weight):
            model.set_submodule(name, PackedLinear(layer, keep=layer is keep))


def packed(weight: torch.Tensor) -> torch.Tensor:
    """Return a [out, in] matrix for `product`: packed where that gains anything, else as it is."""
    if not _gains(weight):
        return weight
    reordered: torch.Tensor = torch.ops.mkldnn._reorder_linear_weight(weight, ROWS)
    return reordered


def product(states: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:
    """Return [..., out], the linear layer of [..., in] states by a [out, in] weight, packed or not."""
    if not weight.is_mkldnn:
        return F.linear(states, weight, bias)
    made: torch.Tensor = torch.ops.mkldnn._linear_pointwise(states, weight, bias, "none", [], "")
    return made


def _gains(weight: torch.Tensor) -> bool:
    """Return whether a matrix lies on a CPU that oneDNN has kernels for in its precision."""
    if weight.device.type != "cpu" or not torch.backends.mkldnn.is_available():
        return False
    if weight.dtype == torch.bfloat16:
        return bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())
    return weight.dtype == torch.float32
