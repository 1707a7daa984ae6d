# mypy: disable-error-code="no-untyped-call"
"""Group normalization of many clients at once.

Vectorized over clients, the library takes group normalization apart into dozens of small steps, one
kernel on a GPU each. But statistics are per example, whoever's it is: all clients' examples go
through the library's own kernels together, and only scale and shift are each client's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, final

import torch
from torch.nn import functional
from torch.overrides import TorchFunctionMode


@final
class JointNorms(TorchFunctionMode):
    """Within it, group normalization is that of this module."""

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        if func is functional.group_norm:
            return group_norm(*args, **(kwargs or {}))
        return func(*args, **(kwargs or {}))


def group_norm(
    input: torch.Tensor,
    num_groups: int,
    weight: torch.Tensor | None = None,
    bias: torch.Tensor | None = None,
    eps: float = 1e-5,
) -> torch.Tensor:
    """Return the same as torch's function of this name; half precision is widened first.

    >>> group_norm(torch.tensor([[1.0, 3.0]]), 1)
    tensor([[-1.0000,  1.0000]])
    """
    x = input.float() if input.dtype in (torch.bfloat16, torch.float16) else input
    y: torch.Tensor = _Normal.apply(x, num_groups, eps)[0]
    places = (-1, *[1] * (y.ndim - 2))
    if weight is not None:
        y = y * weight.reshape(places)
    return y if bias is None else y + bias.reshape(places)


def _sizes(x: torch.Tensor) -> tuple[int, int, int]:
    n, channels = x.shape[:2]
    return n, channels, x[0, 0].numel()


class _Normal(torch.autograd.Function):
    """Examples (n, channels, ...) normalized, and what the way back needs."""

    @staticmethod
    def forward(x: torch.Tensor, groups: int, eps: float) -> tuple[torch.Tensor, ...]:
        x = x.contiguous()
        found: tuple[torch.Tensor, ...] = torch.native_group_norm(
            x, None, None, *_sizes(x), groups, eps
        )
        return found

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[torch.Tensor, ...]) -> None:
        x, ctx.groups, _ = inputs
        _, mean, scale = output
        ctx.mark_non_differentiable(mean, scale)
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(x, mean, scale)

    @staticmethod
    def backward(
        ctx: Any, slope: torch.Tensor, *_: torch.Tensor
    ) -> tuple[torch.Tensor | None, ...]:
        return _NormalBack.apply(slope, *ctx.saved_tensors, ctx.groups), None, None

    @staticmethod
    def vmap(
        info: Any, in_dims: tuple[int | None, ...], x: torch.Tensor, groups: int, eps: float
    ) -> tuple[tuple[torch.Tensor, ...], tuple[int, ...]]:
        joined = _joined(x, in_dims[0], info.batch_size)
        parts = _Normal.apply(joined, groups, eps)
        return tuple(part.unflatten(0, (info.batch_size, -1)) for part in parts), (0, 0, 0)


class _NormalBack(torch.autograd.Function):
    """The slope for the input of `_Normal` from that for its output."""

    @staticmethod
    def forward(
        slope: torch.Tensor,
        x: torch.Tensor,
        mean: torch.Tensor,
        scale: torch.Tensor,
        groups: int,
    ) -> torch.Tensor:
        given = (slope.contiguous(), x.contiguous(), mean.contiguous(), scale.contiguous())
        found: torch.Tensor = torch.ops.aten.native_group_norm_backward(
            *given, None, *_sizes(x), groups, [True, False, False]
        )[0]
        return found

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: torch.Tensor) -> None:
        """Nothing is kept: nobody differentiates twice."""

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, ...], *given: Any) -> tuple[torch.Tensor, int]:
        *tensors, groups = given
        joined = [_joined(t, d, info.batch_size) for t, d in zip(tensors, in_dims, strict=False)]
        return _NormalBack.apply(*joined, groups).unflatten(0, (info.batch_size, -1)), 0


def _joined(x: torch.Tensor, clients: int | None, n_clients: int) -> torch.Tensor:
    """Return all clients' examples as one batch."""
    if clients is None:
        return x.expand(n_clients, *x.shape).flatten(0, 1)
    return x.movedim(clients, 0).flatten(0, 1)
