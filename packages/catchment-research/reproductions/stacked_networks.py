"""Small networks for windows, many copies of each computed side by side.

A federation of twenty people trains twenty copies of one network for a round; five folds, three
seeds and a few settings make thousands. A copy alone leaves a GPU idle, so every parameter has a
leading axis of M models here, and a convolution of all of them is one batched matrix product.

`cnn` has three convolutions with batch normalization and pooling; `inception` is one network of
InceptionTime (Fawaz et al., 2020): six modules with kernels of 39, 19 and 9 steps, two residual
connections. Only torch is imported, so that the file runs where nothing else is installed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

Stack = dict[str, Tensor]
KERNELS = (39, 19, 9)
FILTERS = 32
MOMENTUM = 0.1  # of the running moments that a batch normalization uses in prediction


@dataclass(frozen=True)
class Network:
    """One kind of network for windows of some channels and classes.

    Parameters
    ----------
    kind
        cnn or inception.
    depth
        Modules of inception, a multiple of three.

    >>> Network("cnn", 3, 6).n_numbers
    43462
    """

    kind: str
    channels: int
    classes: int
    depth: int = 6

    def __post_init__(self) -> None:
        if self.kind not in ("cnn", "inception"):
            raise ValueError(f"no network is called {self.kind!r}; use cnn or inception")
        if self.depth < 3 or self.depth % 3:
            raise ValueError(f"depth is {self.depth}; pass a multiple of three")

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Shapes of one model's numbers, those of the running moments included."""
        return _cnn_shapes(self) if self.kind == "cnn" else _inception_shapes(self)

    @property
    def n_numbers(self) -> int:
        """Numbers that a client sends in a round."""
        return sum(math.prod(shape) for shape in self.shapes.values())

    def start(self, seed: int) -> Stack:
        """Return one model's first numbers, drawn on the CPU so that they are the same anywhere."""
        rng = torch.Generator().manual_seed(seed)
        return {name: _first(name, shape, rng) for name, shape in self.shapes.items()}

    def scores(self, model: Stack, x: Tensor, moments: Stack | None = None) -> Tensor:
        """Return class scores (M, B, K) of windows (M, B, T, C).

        Parameters
        ----------
        moments
            Where the batch's moments are to be put, in training; if None, the model's running ones
            are used.
        """
        forward = _cnn if self.kind == "cnn" else _inception
        return forward(self, model, x, moments)


def is_moment(name: str) -> bool:
    """Return whether a number is a running moment, which no gradient changes.

    >>> is_moment("norm1.mean"), is_moment("norm1.gain")
    (True, False)
    """
    return name.endswith((".mean", ".variance"))


def stacked(models: list[Stack]) -> Stack:
    """Return models as one stack."""
    return {name: torch.stack([model[name] for model in models]) for name in models[0]}


def _first(name: str, shape: tuple[int, ...], rng: torch.Generator) -> Tensor:
    if name.endswith((".variance", ".gain")):
        return torch.ones(shape)
    if len(shape) == 1:
        return torch.zeros(shape)
    fan_in = math.prod(shape[:-1])
    bound = math.sqrt((3.0 if name.startswith("head") else 6.0) / fan_in)
    return (2 * torch.rand(shape, generator=rng) - 1) * bound


def _norm_shapes(name: str, width: int) -> dict[str, tuple[int, ...]]:
    return {f"{name}.{part}": (width,) for part in ("gain", "shift", "mean", "variance")}


def _cnn_shapes(net: Network) -> dict[str, tuple[int, ...]]:
    sizes = ((7, net.channels, 64), (5, 64, 64), (5, 64, 64))
    shapes: dict[str, tuple[int, ...]] = {}
    for k, size in enumerate(sizes):
        shapes[f"conv{k}"] = size
        shapes |= _norm_shapes(f"norm{k}", size[2])
    return shapes | {"head.weight": (64, net.classes), "head.bias": (net.classes,)}


def _cnn(net: Network, model: Stack, x: Tensor, moments: Stack | None) -> Tensor:
    for k in range(3):
        x = torch.relu(_norm(model, f"norm{k}", _conv(x, model[f"conv{k}"]), moments))
        if k < 2:
            even = x.shape[2] // 2 * 2
            x = torch.maximum(x[:, :, 0:even:2], x[:, :, 1:even:2])
    return _head(model, x)


def _inception_shapes(net: Network) -> dict[str, tuple[int, ...]]:
    width, shapes = net.channels, dict[str, tuple[int, ...]]()
    out = FILTERS * (len(KERNELS) + 1)
    for k in range(net.depth):
        inner = FILTERS if width > 1 else width
        if width > 1:
            shapes[f"narrow{k}"] = (1, width, FILTERS)
        shapes |= {f"conv{k}.{length}": (length, inner, FILTERS) for length in KERNELS}
        shapes[f"pool{k}"] = (1, width, FILTERS)
        shapes |= _norm_shapes(f"norm{k}", out)
        width = out
        if k % 3 == 2:
            shapes[f"skip{k}"] = (1, net.channels if k == 2 else out, out)
            shapes |= _norm_shapes(f"skipnorm{k}", out)
    return shapes | {"head.weight": (out, net.classes), "head.bias": (net.classes,)}


def _inception(net: Network, model: Stack, x: Tensor, moments: Stack | None) -> Tensor:
    skip = x
    for k in range(net.depth):
        narrow = _conv(x, model[f"narrow{k}"]) if f"narrow{k}" in model else x
        # Kernels share one product: the shorter ones are filled up with zeros on both sides.
        long = KERNELS[0]
        kernels = [
            functional.pad(
                model[f"conv{k}.{length}"], (0, 0, 0, 0, (long - length) // 2, (long - length) // 2)
            )
            for length in KERNELS
        ]
        ends = functional.pad(x, (0, 0, 1, 1), value=-torch.inf)
        widest = torch.maximum(torch.maximum(ends[:, :, :-2], ends[:, :, 2:]), x)
        branches = (_conv(narrow, torch.cat(kernels, 3)), _conv(widest, model[f"pool{k}"]))
        x = torch.relu(_norm(model, f"norm{k}", torch.cat(branches, 3), moments))
        if k % 3 == 2:
            side = _norm(model, f"skipnorm{k}", _conv(skip, model[f"skip{k}"]), moments)
            x = skip = torch.relu(x + side)
    return _head(model, x)


def _conv(x: Tensor, weights: Tensor) -> Tensor:
    """Return (M, B, T, O) of windows (M, B, T, C) and kernels (M, k, C, O), ends filled with 0."""
    M, B, T, C = x.shape
    k = weights.shape[1]
    if k > 1:
        ends = functional.pad(x, (0, 0, k // 2, k // 2))
        x = ends.unfold(2, k, 1).transpose(3, 4)  # (M, B, T, k, C)
    product = torch.bmm(x.reshape(M, B * T, k * C), weights.reshape(M, k * C, -1))
    return product.reshape(M, B, T, -1)


def _norm(model: Mapping[str, Tensor], name: str, x: Tensor, moments: Stack | None) -> Tensor:
    """Return (M, B, T, O) with every model's channels normalized over its own batch."""
    x = x.float()
    if moments is None:
        mean, variance = model[f"{name}.mean"], model[f"{name}.variance"]
    else:
        variance, mean = torch.var_mean(x, dim=(1, 2), correction=0)
        moments[f"{name}.mean"], moments[f"{name}.variance"] = mean.detach(), variance.detach()
    factor = model[f"{name}.gain"] * torch.rsqrt(variance + 1e-5)
    shift = model[f"{name}.shift"] - mean * factor
    return x * factor[:, None, None] + shift[:, None, None]


def _head(model: Stack, x: Tensor) -> Tensor:
    pooled = x.float().mean(2)
    return torch.baddbmm(model["head.bias"][:, None], pooled, model["head.weight"])
