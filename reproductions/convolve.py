# mypy: disable-error-code="no-untyped-call"
"""Convolutions of many clients at once, as products of matrices.

Vectorised over clients, a convolution whose weights are each client's own becomes one of many
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
    """Within it, convolutions without a bias are those of this module."""

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        if func in (functional.conv2d, torch.conv2d) and len(args) == 7 and args[2] is None:
            x, weight, _, stride, padding, dilation, groups = args
            if groups == 1 and tuple(dilation) == (1, 1):
                return conv2d(x, weight, stride[0], padding[0])
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
    y: torch.Tensor = _Convolution.apply(x, weight, stride, padding)
    return y


def rows(x: torch.Tensor, side: int, stride: int, padding: int) -> torch.Tensor:
    """Return the windows (n, height, width, side, side, channels) of images, one after the other.

    Images are (n, channels, height, width); channels come last, so that a window is copied in
    long pieces.
    """
    last = x.permute(0, 2, 3, 1)
    if side == 1 and padding == 0:
        return last[:, ::stride, ::stride, None, None, :]
    last = functional.pad(last, (0, 0, padding, padding, padding, padding))
    found = last.unfold(1, side, stride).unfold(2, side, stride)
    return found.permute(0, 1, 2, 4, 5, 3)


def matrix(weight: torch.Tensor) -> torch.Tensor:
    """Return weights (..., out, in, side, side) as (..., side * side * in, out)."""
    return weight.movedim(-4, -1).movedim(-4, -2).flatten(-4, -2)


class _Convolution(torch.autograd.Function):
    """Images and weights to images."""

    @staticmethod
    def forward(x: torch.Tensor, weight: torch.Tensor, stride: int, padding: int) -> torch.Tensor:
        return functional.conv2d(x, weight, None, stride, padding)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: torch.Tensor) -> None:
        x, weight, ctx.stride, ctx.padding = inputs
        ctx.save_for_backward(x, weight)

    @staticmethod
    def backward(ctx: Any, slope: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        wanted = ctx.needs_input_grad
        given = (slope, x, weight, ctx.stride, ctx.padding)
        of_x = _BackToImages.apply(*given) if wanted[0] else None
        of_weight = _BackToWeights.apply(*given) if wanted[1] else None
        return of_x, of_weight, None, None

    @staticmethod
    def vmap(
        info: Any,
        in_dims: tuple[int | None, ...],
        x: torch.Tensor,
        weight: torch.Tensor,
        stride: int,
        padding: int,
    ) -> tuple[torch.Tensor, int]:
        n, joined = info.batch_size, _joined(x, in_dims[0], info.batch_size)
        if in_dims[1] is None:
            y = functional.conv2d(_last(joined), _last(weight), None, stride, padding)
            return y.unflatten(0, (n, -1)), 0
        weights = weight.movedim(in_dims[1], 0)
        found = rows(joined, weights.shape[-1], stride, padding)
        y = torch.bmm(found.reshape(n, -1, found[0, 0, 0].numel()), matrix(weights))
        return _images(y, n, found.shape), 0


class _BackToImages(torch.autograd.Function):
    """The slope for the images from that for the result."""

    @staticmethod
    def forward(
        slope: torch.Tensor, x: torch.Tensor, weight: torch.Tensor, stride: int, padding: int
    ) -> torch.Tensor:
        y: torch.Tensor = conv2d_input(x.shape, weight, slope, stride, padding)
        return y

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: torch.Tensor) -> None:
        """Nothing is kept: nobody differentiates twice."""

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, ...], *given: Any) -> tuple[torch.Tensor, int]:
        slope, x, weight, stride, padding = given
        n = info.batch_size
        slopes, joined = (_joined(t, d, n) for t, d in zip((slope, x), in_dims, strict=False))
        if in_dims[2] is None:
            given = (_last(weight), _last(slopes), stride, padding)
            y = conv2d_input(joined.shape, *given)
            return y.unflatten(0, (n, -1)), 0
        if stride != 1:
            raise NotImplementedError("images behind a convolution with a stride need no slope")
        # The slope goes back through the same weights turned by half, in and out exchanged.
        turned = weight.movedim(in_dims[2], 0).flip(-1, -2).transpose(1, 2)
        side = turned.shape[-1]
        found = rows(slopes, side, 1, side - 1 - padding)
        y = torch.bmm(found.reshape(n, -1, found[0, 0, 0].numel()), matrix(turned))
        return _images(y, n, found.shape), 0


class _BackToWeights(torch.autograd.Function):
    """The slope for the weights from that for the result."""

    @staticmethod
    def forward(
        slope: torch.Tensor, x: torch.Tensor, weight: torch.Tensor, stride: int, padding: int
    ) -> torch.Tensor:
        y: torch.Tensor = conv2d_weight(x, weight.shape, slope, stride, padding)
        return y

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: torch.Tensor) -> None:
        """Nothing is kept: nobody differentiates twice."""

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, ...], *given: Any) -> tuple[torch.Tensor, int]:
        slope, x, weight, stride, padding = given
        n = info.batch_size
        slopes, joined = (_joined(t, d, n) for t, d in zip((slope, x), in_dims, strict=False))
        out, channels, side, _ = weight.shape[-4:]
        found = rows(joined, side, stride, padding).reshape(n, -1, side * side * channels)
        last = slopes.permute(0, 2, 3, 1).reshape(n, -1, out)
        y = torch.bmm(found.transpose(1, 2), last)  # (n, side * side * channels, out)
        shaped = y.reshape(n, side, side, channels, out)
        return shaped.permute(0, 4, 3, 1, 2), 0


def _joined(x: torch.Tensor, clients: int | None, n_clients: int) -> torch.Tensor:
    """Return all clients' images as one batch."""
    if clients is None:
        return x.expand(n_clients, *x.shape).flatten(0, 1)
    return x.movedim(clients, 0).flatten(0, 1)


def _last(x: torch.Tensor) -> torch.Tensor:
    """Return the same with channels last in memory, as half precision on a GPU is quickest."""
    return x.contiguous(memory_format=torch.channels_last)


def _images(y: torch.Tensor, n_clients: int, shape: torch.Size) -> torch.Tensor:
    """Return rows (clients, n * height * width, out) as images (clients, n, out, height, width)."""
    n, height, width = shape[:3]
    return y.reshape(n_clients, n // n_clients, height, width, -1).permute(0, 1, 4, 2, 3)
