"""The networks of the FedPT paper (Sidahmed et al., 2021), to the exact parameter count.

The paper does not print its architectures; they were identified by their counts: the convolutional
network of federated EMNIST (1 690 046 parameters), the second version of ResNet-18 with group
normalization and 100 outputs (11 227 812), and a Transformer for next-word prediction (2 277 984).
An echo-state network is the limit case: its recurrent part is frozen whole.
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

    def __init__(self, before: int, after: int, *, stride: int = 1, first: bool = False) -> None:
        super().__init__()
        self.norm1 = None if first else nn.GroupNorm(32, before)
        self.conv1 = nn.Conv2d(before, after, 3, stride, 1, bias=False)
        self.norm2 = nn.GroupNorm(32, after)
        self.conv2 = nn.Conv2d(after, after, 3, 1, 1, bias=False)
        around = before != after or stride != 1
        self.around = nn.Conv2d(before, after, 1, stride, bias=False) if around else None
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

    Parameters
    ----------
    n_outputs
        100 in the paper's experiments with CIFAR-10, 90 of them unused.
    stride
        Of stages 2 to 4: 1 in the code behind the paper, so that no stage shrinks the image; 2 is
        the usual network, with the same parameters and much less work.

    >>> sum(p.numel() for p in ResNet18().parameters())
    11227812
    """

    def __init__(self, n_outputs: int = 100, stride: int = 1) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 64, 7, 2, 3, bias=False)
        self.stem_norm = nn.GroupNorm(32, 64)
        self.stage1 = nn.Sequential(_Residual(64, 64, first=True), _Residual(64, 64))
        self.stage2 = nn.Sequential(_Residual(64, 128, stride=stride), _Residual(128, 128))
        self.stage3 = nn.Sequential(_Residual(128, 256, stride=stride), _Residual(256, 256))
        self.stage4 = nn.Sequential(_Residual(256, 512, stride=stride), _Residual(512, 512))
        self.norm = nn.GroupNorm(32, 512)
        self.out = nn.Linear(512, n_outputs)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = functional.relu(self.stem_norm(self.stem(x)))
        x = functional.max_pool2d(x, 3, 2, 1)
        x = self.stage4(self.stage3(self.stage2(self.stage1(x))))
        logits: torch.Tensor = self.out(functional.relu(self.norm(x)).mean((2, 3)))
        return logits


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
