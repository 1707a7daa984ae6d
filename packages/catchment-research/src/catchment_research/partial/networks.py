"""Networks that a plan file knows by name; any other is a function of one's own."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn

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


NETWORKS: dict[str, Callable[[int, int], nn.Module]] = {"cnn": Cnn}


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
