# mypy: disable-error-code="no-untyped-call"
"""Convolutions of many clients at once, as products of matrices.

Vectorized over clients, a convolution whose weights are each client's own becomes one of many
groups, which the libraries of a GPU are slow at, backwards most of all. Here the windows of the
images are laid out as rows, and one batched product of matrices serves all clients. Where all
clients share the weights (a frozen layer), their images are one batch of an ordinary convolution.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, final

import torch
from torch.nn import functional
from torch.nn.grad import conv2d_input, conv2d_weight
from torch.overrides import TorchFunctionMode


@final
class JointConvolutions(TorchFunctionMode):
    """Within it, convolutions are those of this module."""

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        if func in (functional.conv2d, torch.conv2d) and len(args) == 7:
            x, weight, bias, stride, padding, dilation, groups = args
            if groups == 1 and tuple(dilation) == (1, 1):
                y = conv2d(x, weight, stride[0], padding[0])
                return y if bias is None else y + bias.to(y.dtype)[:, None, None]
        return func(*args, **(kwargs or {}))


def conv2d(x: torch.Tensor, weight: torch.Tensor, stride: int, padding: int) -> torch.Tensor:
    """Return the convolution of images (n, channels, height, width), in the autocast type.

    >>> conv2d(torch.ones(1, 1, 2, 2), torch.ones(1, 1, 3, 3), 1, 1)
    tensor([[[[4., 4.],
              [4., 4.]]]])
    """
    kind = x.device.type
    if torch.is_autocast_enabled(kind):
        half = torch.get_autocast_dtype(kind)
        x, weight = x.to(half), weight.to(half)
    y: torch.Tensor = _Convolution.apply(x, weight, stride, padding)[0]
    return y


def channels_last(x: torch.Tensor) -> torch.Tensor:
    """Return the same numbers, images or weights with their channels last in memory."""
    if x.ndim != 4:
        return x.contiguous()
    return x.contiguous(memory_format=torch.channels_last)


def windows(x: torch.Tensor, side: int, stride: int, padding: int) -> torch.Tensor:
    """Return the windows (n, height, width, side, side, channels) of images, one after the other.

    Images are (n, height, width, channels), so that a window is copied in long pieces.
    """
    if side == 1 and padding == 0:
        return x[:, ::stride, ::stride, None, None, :]
    wide = _wide(functional.pad(x, (0, 0, padding, padding, padding, padding)))
    found = wide.unfold(1, side, stride).unfold(2, side, stride).permute(0, 1, 2, 4, 5, 3)
    return found.contiguous().view(x.dtype)


def _wide(x: torch.Tensor) -> torch.Tensor:
    """Return the same bytes in numbers of sixteen, where they can be, to be copied by these."""
    x = x.contiguous()
    each = 16 // x.element_size()
    fits = x.shape[-1] % each == 0 and all(step % each == 0 for step in x.stride()[:-1])
    return x.view(torch.complex128) if fits else x


def matrix(weight: torch.Tensor) -> torch.Tensor:
    """Return weights (clients, out, in, side, side) as (clients, out, side * side * in)."""
    return weight.permute(0, 1, 3, 4, 2).flatten(2)


def turned(weight: torch.Tensor) -> torch.Tensor:
    """Return weights turned by half, in and out exchanged: (clients, side * side * out, in)."""
    side = weight.shape[-1]
    if side == 1:
        return weight[..., 0, 0]
    last = _wide(weight.permute(0, 1, 3, 4, 2))
    places = [(a, b) for a in reversed(range(side)) for b in reversed(range(side))]
    return torch.cat([last[:, :, a, b] for a, b in places], dim=1).view(weight.dtype)


class _Convolution(torch.autograd.Function):
    """Images and weights to images; the windows are kept for the way back."""

    @staticmethod
    def forward(
        x: torch.Tensor, weight: torch.Tensor, stride: int, padding: int
    ) -> tuple[torch.Tensor, torch.Tensor]:
        return functional.conv2d(x, weight, None, stride, padding), x.clone()

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[torch.Tensor, ...]) -> None:
        x, weight, ctx.stride, ctx.padding = inputs
        ctx.shape = x.shape
        ctx.mark_non_differentiable(output[1])
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(output[1], weight)

    @staticmethod
    def backward(
        ctx: Any, slope: torch.Tensor, *_: torch.Tensor
    ) -> tuple[torch.Tensor | None, ...]:
        wanted = tuple(ctx.needs_input_grad[:2])
        found = _Back.apply(slope, *ctx.saved_tensors, ctx.shape, ctx.stride, ctx.padding, wanted)
        of_x, of_weight = (one if want else None for one, want in zip(found, wanted, strict=True))
        return of_x, of_weight, None, None

    @staticmethod
    def vmap(
        info: Any,
        in_dims: tuple[int | None, ...],
        x: torch.Tensor,
        weight: torch.Tensor,
        stride: int,
        padding: int,
    ) -> tuple[tuple[torch.Tensor, torch.Tensor], tuple[int, int]]:
        n, joined = info.batch_size, _joined(x, in_dims[0], info.batch_size)
        if in_dims[1] is None:  # a frozen layer: its own slope is not asked for
            y = functional.conv2d(
                channels_last(joined), channels_last(weight), None, stride, padding
            )
            return (y.unflatten(0, (n, -1)), y.new_empty(n, 0)), (0, 0)
        weights = weight.movedim(in_dims[1], 0)
        found = windows(joined.permute(0, 2, 3, 1), weights.shape[-1], stride, padding)
        cut = found.reshape(n, -1, found[0, 0, 0].numel())
        y = _product(cut, matrix(weights).transpose(1, 2))
        return (_images(y, n, found.shape), cut), (0, 0)


class _Back(torch.autograd.Function):
    """The slopes for images and weights from that for the result; empty where not wanted."""

    @staticmethod
    def forward(
        slope: torch.Tensor,
        x: torch.Tensor,
        weight: torch.Tensor,
        shape: torch.Size,
        stride: int,
        padding: int,
        wanted: tuple[bool, bool],
    ) -> tuple[torch.Tensor, torch.Tensor]:
        none = slope.new_empty(0)
        return (
            conv2d_input(shape, weight, slope, stride, padding) if wanted[0] else none,
            conv2d_weight(x, weight.shape, slope, stride, padding) if wanted[1] else none.clone(),
        )

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[torch.Tensor, ...]) -> None:
        """Nothing is kept: nobody differentiates twice."""

    @staticmethod
    def vmap(
        info: Any, in_dims: tuple[int | None, ...], *given: Any
    ) -> tuple[tuple[torch.Tensor, torch.Tensor], tuple[int, int]]:
        slope, cut, weight, shape, stride, padding, wanted = given
        n = info.batch_size
        slopes = _joined(slope, in_dims[0], n)
        of_x = of_weight = slopes.new_empty(n, 0)
        if in_dims[2] is None:
            whole = (len(slopes), *shape[1:])
            back = (channels_last(weight), channels_last(slopes), stride, padding)
            of_x = conv2d_input(whole, *back).unflatten(0, (n, -1)) if wanted[0] else of_x
            return (of_x, of_weight), (0, 0)
        weights, last = weight.movedim(in_dims[2], 0), slopes.permute(0, 2, 3, 1).contiguous()
        out, channels, side, _ = weights.shape[1:]
        if wanted[0]:
            if stride != 1:
                raise NotImplementedError("images before a convolution with a stride get no slope")
            found = windows(last, side, 1, side - 1 - padding)
            y = _product(found.reshape(n, -1, side * side * out), turned(weights))
            of_x = _images(y, n, found.shape)
        if wanted[1]:
            y = _product(last.reshape(n, -1, out).transpose(1, 2), cut)
            of_weight = y.reshape(n, out, side, side, channels).permute(0, 1, 4, 2, 3)
        return (of_x, of_weight), (0, 0)


def _product(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Return products of matrices, rounded as the library's own convolutions round on a GPU."""
    usual = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32
    try:
        return torch.bmm(a, b)
    finally:
        torch.backends.cuda.matmul.allow_tf32 = usual


def _joined(x: torch.Tensor, clients: int | None, n_clients: int) -> torch.Tensor:
    """Return all clients' images as one batch."""
    if clients is None:
        return x.expand(n_clients, *x.shape).flatten(0, 1)
    return x.movedim(clients, 0).flatten(0, 1)


def _images(y: torch.Tensor, n_clients: int, shape: torch.Size) -> torch.Tensor:
    """Return rows (clients, n * height * width, out) as images (clients, n, out, height, width)."""
    n, height, width = shape[:3]
    return y.reshape(n_clients, n // n_clients, height, width, -1).permute(0, 1, 4, 2, 3)
