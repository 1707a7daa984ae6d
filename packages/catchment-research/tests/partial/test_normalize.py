# mypy: disable-error-code="no-untyped-call"
"""Group normalization of many clients at once, against torch's own."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.func import functional_call, grad, vmap
from torch.nn import functional

from catchment_research.partial import JointNorms, group_norm


@pytest.mark.parametrize("shape", [(3, 8), (3, 8, 5), (2, 8, 4, 3)])
@pytest.mark.parametrize("affine", [True, False])
def test_values_and_slopes_are_torchs(shape: tuple[int, ...], affine: bool) -> None:
    torch.manual_seed(0)
    x = torch.randn(shape, dtype=torch.float64, requires_grad=True)
    weight, bias = (torch.randn(8, dtype=torch.float64, requires_grad=True) for _ in range(2))
    given = (x, weight, bias) if affine else (x,)
    scale, shift = (weight, bias) if affine else (None, None)
    own = group_norm(x, 4, scale, shift, eps=1e-3)
    torchs = functional.group_norm(x, 4, scale, shift, eps=1e-3)
    torch.testing.assert_close(own, torchs)
    along = torch.randn_like(own)
    torch.testing.assert_close(
        torch.autograd.grad(own, given, along), torch.autograd.grad(torchs, given, along)
    )


@pytest.mark.parametrize("shared", [False, True])
def test_clients_at_once_are_clients_one_by_one(shared: bool) -> None:
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(6, 8), nn.GroupNorm(2, 8), nn.ReLU(), nn.Linear(8, 3)).double()
    named = {name: p.detach() for name, p in module.named_parameters()}
    values = {name: torch.randn(4, *p.shape, dtype=torch.float64) for name, p in named.items()}
    x, y = torch.randn(4, 5, 6, dtype=torch.float64), torch.randint(0, 3, (4, 5))

    def loss(own: dict[str, torch.Tensor], x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        with JointNorms():
            return functional.cross_entropy(functional_call(module, own, (x,)), y)

    x_of = (lambda k: x[0]) if shared else (lambda k: x[k])
    together = vmap(grad(loss), in_dims=(0, None if shared else 0, 0))(values, x_of(slice(None)), y)
    for k in range(4):
        own = {name: v[k].clone().requires_grad_() for name, v in values.items()}
        alone = functional.cross_entropy(functional_call(module, own, (x_of(k),)), y[k])
        for name, slope in zip(own, torch.autograd.grad(alone, list(own.values())), strict=True):
            torch.testing.assert_close(together[name][k], slope)


def test_half_precision_is_widened() -> None:
    x = torch.randn(2, 4, 3, dtype=torch.bfloat16)
    with JointNorms():
        y = functional.group_norm(x, 2)
    torch.testing.assert_close(y, functional.group_norm(x.float(), 2))
