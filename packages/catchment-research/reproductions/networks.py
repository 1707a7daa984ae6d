"""What the FedPT paper freezes, its Transformer for next-word prediction, and the limit case.

Its networks of images are in `catchment_research.partial`; like them, the Transformer was
identified by its count of parameters (2 277 984). An echo-state network is the limit case: its
recurrent part is frozen whole.
"""

from __future__ import annotations

import math

import torch
from torch import nn
from torch.nn import functional

from catchment_research.partial import Freeze

EMNIST_FREEZE = Freeze(names=("hidden.*",))
RESNET_FREEZES = {
    26.45: Freeze(names=("stage4.*.conv?.weight",)),
    8.07: Freeze(names=("stage4.*.conv?.weight", "stage3.*.conv?.weight")),
    3.47: Freeze(names=tuple(f"stage{k}.*.conv?.weight" for k in (4, 3, 2))),
    2.16: Freeze(names=tuple(f"stage{k}.*.conv?.weight" for k in (4, 3, 2, 1))),
}
TRANSFORMER_FREEZES = {
    91.28: Freeze(names=("layers.0.feed.*",)),
    82.56: Freeze(names=("layers.0.feed.*", "layers.1.feed.*")),
    73.84: Freeze(names=tuple(f"layers.{k}.feed.*" for k in range(3))),
}


class _Layer(nn.Module):
    """Self-attention and a feed-forward part, each with a residual and a layer normalization."""

    def __init__(self, width: int, hidden: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value, self.mix = (nn.Linear(width, width) for _ in range(4))
        self.feed, self.back = nn.Linear(width, hidden), nn.Linear(hidden, width)
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = (
            part(x).unflatten(-1, (self.heads, -1)).transpose(-2, -3)
            for part in (self.query, self.key, self.value)
        )
        scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
        later = torch.ones(scores.shape[-2:], dtype=torch.bool, device=x.device).triu(1)
        seen = scores.masked_fill(later, float("-inf")).softmax(-1) @ v
        x = self.norm1(x + self.mix(seen.transpose(-2, -3).flatten(-2)))
        y: torch.Tensor = self.norm2(x + self.back(functional.relu(self.feed(x))))
        return y


class Transformer(nn.Module):
    """Next-word prediction: three layers of width 96, the embedding tied to the output.

    >>> sum(p.numel() for p in Transformer().parameters())
    2277984
    """

    def __init__(
        self,
        n_words: int = 10_004,
        width: int = 96,
        hidden: int = 2048,
        layers: int = 3,
        heads: int = 8,
    ) -> None:
        super().__init__()
        self.embedding = nn.Embedding(n_words, width)
        self.into = nn.Linear(width, width)
        self.layers = nn.ModuleList(_Layer(width, hidden, heads) for _ in range(layers))
        self.onto = nn.Linear(width, width)

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        """Return logits (batch, steps, words) of the word after each."""
        width = self.embedding.embedding_dim
        x = self.into(self.embedding(words) * math.sqrt(width)) + _positions(
            words.shape[-1], width, words
        )
        for layer in self.layers:
            x = layer(x)
        logits: torch.Tensor = self.onto(x) @ self.embedding.weight.T
        return logits


class EchoState(nn.Module):
    """An echo-state network for torch: freeze everything but gain, shift and readout.

    The state is x(t) = (1 - a) x(t-1) + a tanh(g (W x(t-1) + V u(t) + b) + s); the output is read
    from its mean over time. `ECHO_FREEZE` leaves gain, shift and readout to be trained.

    >>> EchoState(3, 50, 4)(torch.zeros(2, 10, 3)).shape
    torch.Size([2, 4])
    """

    def __init__(
        self, inputs: int, units: int, outputs: int, *, leak: float = 0.3, radius: float = 0.9
    ) -> None:
        super().__init__()
        self.leak, self.radius = leak, radius
        self.recurrent = nn.Linear(units, units, bias=False)
        self.drive = nn.Linear(inputs, units)
        self.gain = nn.Parameter(torch.zeros(units))
        self.shift = nn.Parameter(torch.zeros(units))
        self.out = nn.Linear(units, outputs)

    def forward(self, u: torch.Tensor) -> torch.Tensor:
        # Weights of variance 1/N have radius near 1 (circular law), whatever they were drawn with.
        scale = self.radius / (self.recurrent.weight.std() * math.sqrt(self.recurrent.in_features))
        x = u.new_zeros(u.shape[0], self.recurrent.in_features)
        total = torch.zeros_like(x)
        for t in range(u.shape[1]):
            p = self.recurrent(x) * scale + self.drive(u[:, t])
            x = (1 - self.leak) * x + self.leak * torch.tanh((1 + self.gain) * p + self.shift)
            total = total + x
        y: torch.Tensor = self.out(total / u.shape[1])
        return y


ECHO_FREEZE = Freeze(names=("recurrent.*", "drive.*"))


def _positions(steps: int, width: int, like: torch.Tensor) -> torch.Tensor:
    """Return sines and cosines (steps, width) of falling frequency."""
    t = torch.arange(steps, device=like.device, dtype=torch.float32)[:, None]
    rate = torch.exp(torch.arange(0, width, 2, device=like.device) * (-math.log(1e4) / width))
    return torch.cat([torch.sin(t * rate), torch.cos(t * rate)], dim=1)
