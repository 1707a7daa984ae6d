"""Networks that a plan file knows by name; any other is a function of one's own.

The FedPT paper (Sidahmed et al., 2021) does not print its architectures; they were identified by
their counts: the convolutional network of federated EMNIST (1 690 046 parameters) and the second
version of ResNet-18 with group normalization and 100 outputs (11 227 812).
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn
from torch.nn import functional

from catchment.features import imported


class Cnn(nn.Module):
    """Two convolutions over time, their mean, and a linear layer: recordings of any length.

    Parameters
    ----------
    n_channels, n_classes
        What comes in, (batch, steps, channels), and goes out, logits (batch, classes).

    >>> Cnn(3, 4)(torch.zeros(2, 50, 3)).shape
    torch.Size([2, 4])
    """

    def __init__(self, n_channels: int, n_classes: int) -> None:
        super().__init__()
        self.first = nn.Conv1d(n_channels, 32, 7, padding=3)
        self.second = nn.Conv1d(32, 64, 5, padding=2)
        self.out = nn.Linear(64, n_classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the logits of recordings."""
        h = self.second(self.first(x.transpose(1, 2)).relu()).relu()
        logits: torch.Tensor = self.out(h.mean(-1))
        return logits


class EmnistCnn(nn.Module):
    """Two 5 x 5 convolutions of 32 and 64 maps with pooling, 512 hidden units.

    >>> sum(p.numel() for p in EmnistCnn().parameters())
    1690046
    """

    def __init__(self, n_classes: int = 62) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, 32, 5, padding=2)
        self.conv2 = nn.Conv2d(32, 64, 5, padding=2)
        self.hidden = nn.Linear(7 * 7 * 64, 512)
        self.out = nn.Linear(512, n_classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = functional.max_pool2d(functional.relu(self.conv1(x)), 2)
        x = functional.max_pool2d(functional.relu(self.conv2(x)), 2)
        logits: torch.Tensor = self.out(functional.relu(self.hidden(x.flatten(1))))
        return logits


class _Residual(nn.Module):
    """Two 3 x 3 convolutions, each behind its normalization; a 1 x 1 one may go around them."""

    def __init__(self, before: int, after: int, *, first: bool = False) -> None:
        super().__init__()
        self.norm1 = None if first else nn.GroupNorm(32, before)
        self.conv1 = nn.Conv2d(before, after, 3, 1, 1, bias=False)
        self.norm2 = nn.GroupNorm(32, after)
        self.conv2 = nn.Conv2d(after, after, 3, 1, 1, bias=False)
        around = before != after
        self.around = nn.Conv2d(before, after, 1, bias=False) if around else None
        self.around_norm = nn.GroupNorm(32, after) if around else None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x if self.norm1 is None else functional.relu(self.norm1(x))
        y = self.conv2(functional.relu(self.norm2(self.conv1(y))))
        if self.around is not None and self.around_norm is not None:
            x = self.around_norm(self.around(x))
        total: torch.Tensor = x + y
        return total


class ResNet18(nn.Module):
    """ResNet-18 of the second kind (normalization before convolution) with group normalization.

    As in the code behind the paper, no stage shrinks the image.

    Parameters
    ----------
    n_outputs
        100 in the paper's experiments with CIFAR-10, 90 of them unused.

    >>> sum(p.numel() for p in ResNet18().parameters())
    11227812
    """

    def __init__(self, n_outputs: int = 100) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 64, 7, 2, 3, bias=False)
        self.stem_norm = nn.GroupNorm(32, 64)
        self.stage1 = nn.Sequential(_Residual(64, 64, first=True), _Residual(64, 64))
        self.stage2 = nn.Sequential(_Residual(64, 128), _Residual(128, 128))
        self.stage3 = nn.Sequential(_Residual(128, 256), _Residual(256, 256))
        self.stage4 = nn.Sequential(_Residual(256, 512), _Residual(512, 512))
        self.norm = nn.GroupNorm(32, 512)
        self.out = nn.Linear(512, n_outputs)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = functional.relu(self.stem_norm(self.stem(x)))
        x = functional.max_pool2d(x, 3, 2, 1)
        x = self.stage4(self.stage3(self.stage2(self.stage1(x))))
        logits: torch.Tensor = self.out(functional.relu(self.norm(x)).mean((2, 3)))
        return logits


class EmnistRows(EmnistCnn):
    """`EmnistCnn` for recordings of 28 steps and 28 channels: a step is a row of the image.

    >>> EmnistRows(28, 10)(torch.zeros(2, 28, 28)).shape
    torch.Size([2, 10])
    """

    def __init__(self, n_channels: int, n_classes: int) -> None:
        super().__init__(n_classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(_images(x, "emnist_cnn"))


class ResNetRows(ResNet18):
    """`ResNet18` for recordings of 32 steps and 96 channels: a row's pixels, three colors each.

    >>> ResNetRows(96, 10)(torch.zeros(2, 32, 96)).shape
    torch.Size([2, 10])
    """

    def __init__(self, n_channels: int, n_classes: int) -> None:
        super().__init__(n_classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(_images(x, "resnet18"))


IMAGES = {"emnist_cnn": (28, 1), "resnet18": (32, 3)}  # the side of an image, and its colors


def check_shape(name: str, steps: int | str | None, channels: int) -> None:
    """Raise ValueError if a network is for images and recordings of this shape are none.

    >>> check_shape("cnn", 40, 3), check_shape("resnet18", None, 96)
    (None, None)
    """
    side, colors = IMAGES.get(name, (0, 0))
    known = isinstance(steps, int)
    if side and (steps if known else side, channels) != (side, side * colors):
        raise ValueError(
            f"recordings have {f'{steps} steps of ' if known else ''}{channels} channels; the "
            f"network {name!r} needs {side} steps of {side * colors} channels, the rows of an "
            f"image of {side} x {side} x {colors}"
        )


def _images(x: torch.Tensor, name: str) -> torch.Tensor:
    """Return recordings, a row of pixels in each step, as images (batch, colors, side, side)."""
    check_shape(name, x.shape[1], x.shape[2])
    side, colors = IMAGES[name]
    return x.reshape(-1, side, side, colors).movedim(-1, 1)


NETWORKS: dict[str, Callable[[int, int], nn.Module]] = {
    "cnn": Cnn,
    "emnist_cnn": EmnistRows,
    "resnet18": ResNetRows,
}


def network_named(name: str) -> Callable[[int, int], nn.Module]:
    """Return what makes a network: one of this module, or `module:function` of one's own.

    >>> network_named("cnn").__name__, network_named("torch.nn:Linear").__name__
    ('Cnn', 'Linear')
    """
    if ":" in name:
        found: Callable[[int, int], nn.Module] = imported(name)
        return found
    if name not in NETWORKS:
        known = ", ".join(NETWORKS)
        raise ValueError(f"no network is called {name!r}; use {known} or module:function")
    return NETWORKS[name]
