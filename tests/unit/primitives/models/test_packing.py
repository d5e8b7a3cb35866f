from __future__ import annotations

import pytest
import torch
from torch import nn

from primitives.models.packing import PackedLinear, pack, packed, product

needs_onednn = pytest.mark.skipif(not torch.backends.mkldnn.is_available(), reason="torch without oneDNN")


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("rows", [(1,), (2, 24), (1, 300)])
@pytest.mark.parametrize(("dtype", "atol"), [(torch.float32, 1e-5), (torch.bfloat16, 2e-2)])
def test_packed_layers_compute_the_same(dtype: torch.dtype, atol: float, bias: bool, rows: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    plain = nn.Sequential(nn.Linear(40, 56, bias=bias), nn.SiLU(), nn.Linear(56, 24, bias=bias)).requires_grad_(False)
    plain.to(dtype)
    states = torch.randn(*rows, 40, dtype=dtype)
    wanted = plain(states)
    pack(plain)
    assert plain(states).dtype == dtype
    assert torch.allclose(plain(states), wanted, atol=atol)
    assert torch.allclose(product(states, packed(torch.eye(40, dtype=dtype))), states)


@needs_onednn
def test_only_the_plain_weight_that_others_read_is_kept() -> None:
    model = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 16))
    wanted = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    weight = model[1].weight
    pack(model, keep=model[1])
    assert isinstance(model[0], PackedLinear)
    assert model[0].weight is None
    assert model[1].weight is weight
    assert model.state_dict().keys() == wanted.keys()
    assert all(torch.equal(tensor, wanted[name]) for name, tensor in model.state_dict().items())


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_what_gains_nothing_is_left_alone(dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.ops.mkldnn, "_is_mkldnn_bf16_supported", lambda: False)
    model = nn.Sequential(nn.Linear(8, 8, dtype=dtype))
    layer: nn.Module = model[0]
    weight = model.get_parameter("0.weight")
    pack(model)
    assert model[0] is layer
    assert packed(weight) is weight
    states = torch.randn(3, 8, dtype=dtype)
    assert torch.equal(product(states, weight), nn.functional.linear(states, weight))
