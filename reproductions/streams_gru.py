"""A recurrent network on the same streams: a GRU trained by FedAvg, one person one client.

In every round each client takes one pass over its streams in pieces, starting from the state that
the piece before it ended in, and the server averages the weights. The learning rate and the number
of rounds are those that did best on a fifth of the training people, who are then put back.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from reproductions.streams import Found, Predictions, StreamSettings
from reproductions.streams_data import People, Stream

PIECE = 250  # steps between two updates of the weights
RATES = (3e-3, 1e-2)
EACH = 5  # rounds between two looks at the people left out


class Network(nn.Module):
    """A GRU with a linear readout of its state."""

    def __init__(self, n_inputs: int, hidden: int, n_classes: int) -> None:
        super().__init__()
        self.gru = nn.GRU(n_inputs, hidden, batch_first=True)
        self.readout = nn.Linear(hidden, n_classes)

    def forward(self, u: Tensor, x: Tensor | None = None) -> tuple[Tensor, Tensor]:
        z, x = self.gru(u, x)
        return self.readout(z), x


def gru(
    people: People,
    n_classes: int,
    settings: StreamSettings,
    parts: Sequence[tuple[str, ...]],
    seed: int,
    device: str,
) -> Found:
    """Return the network's labels of all people, each by a model of a fold without them."""
    data = {name: _tensors(streams, device) for name, streams in people.items()}
    n_inputs = next(iter(people.values()))[0].u.shape[1]
    predictions: Predictions = {}
    chosen, most_rounds = [], 0
    for test in parts:
        train = [name for name in sorted(people) if name not in test]
        left_out = train[seed % 5 :: 5]
        rest = [name for name in train if name not in left_out]
        best = (-1.0, RATES[0], EACH)
        for rate in RATES:
            model = _fresh(n_inputs, settings.hidden, n_classes, seed, device)
            for done in range(EACH, settings.rounds + 1, EACH):
                _train(model, [data[name] for name in rest], rate, EACH, done - EACH, seed)
                right = [_labels(model, people[n], data[n]) == _truth(people[n]) for n in left_out]
                best = max(best, (float(np.concatenate(right).mean()), rate, done))
        _, rate, rounds = best
        model = _fresh(n_inputs, settings.hidden, n_classes, seed, device)
        _train(model, [data[name] for name in train], rate, rounds, 0, seed)
        predictions |= {name: _labels(model, people[name], data[name]) for name in test}
        chosen.append(f"rate {rate:g}, {rounds} rounds")
        most_rounds = max(most_rounds, rounds)
    n_parameters = sum(p.numel() for p in model.parameters())
    h = settings.hidden
    costs = {
        "columns": h,
        "state_bytes": 4 * h,
        "work": float(3 * h * (h + n_inputs) + 10 * h),
        "microseconds": _microseconds(model, data[test[0]][0]),
        "upload_bytes": 4 * n_parameters * most_rounds,
    }
    return Found(predictions, tuple(chosen), costs)


def _fresh(n_inputs: int, hidden: int, n_classes: int, seed: int, device: str) -> Network:
    torch.manual_seed(seed)
    return Network(n_inputs, hidden, n_classes).to(device)


def _tensors(streams: Sequence[Stream], device: str) -> tuple[Tensor, Tensor]:
    u = torch.tensor(np.stack([s.u for s in streams]), dtype=torch.float32)
    y = torch.full(u.shape[:2], -100)
    for k, s in enumerate(streams):
        y[k, s.judged] = torch.tensor(s.label[s.judged])
    return u.to(device), y.to(device)


def _train(
    model: Network,
    clients: Sequence[tuple[Tensor, Tensor]],
    rate: float,
    rounds: int,
    first: int,
    seed: int,
) -> None:
    """Average the clients' weights after each round, in place."""
    model.train()
    for round_ in range(first, first + rounds):
        start = copy.deepcopy(model.state_dict())
        total: dict[str, Any] = {name: torch.zeros_like(v) for name, v in start.items()}
        # A rate that falls over the first hundred rounds, whatever the number of rounds is.
        falling = rate / (1 + round_ / 30)
        for u, y in clients:
            model.load_state_dict(start)
            optimiser = torch.optim.Adam(model.parameters(), lr=falling)
            x = None
            for t in range(0, u.shape[1], PIECE):
                logits, x = model(u[:, t : t + PIECE], x)
                x = x.detach()
                target = y[:, t : t + PIECE].reshape(-1)
                if not bool((target >= 0).any()):
                    continue
                loss = functional.cross_entropy(logits.reshape(len(target), -1), target)
                optimiser.zero_grad()
                loss.backward()  # type: ignore[no-untyped-call]
                nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                optimiser.step()
            for name, value in model.state_dict().items():
                total[name] += value / len(clients)
        model.load_state_dict(total)


def _labels(model: Network, streams: Sequence[Stream], data: tuple[Tensor, Tensor]) -> Any:
    model.eval()
    with torch.no_grad():
        logits, _ = model(data[0])
    labels = logits.argmax(dim=2).cpu().numpy()
    return np.concatenate([labels[k, s.judged] for k, s in enumerate(streams)])


def _truth(streams: Sequence[Stream]) -> Any:
    return np.concatenate([s.label[s.judged] for s in streams])


def _microseconds(model: Network, u: Tensor) -> float:
    """Return the time of one step of one stream on one thread of the processor."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    slow, one = copy.deepcopy(model).cpu(), u[:1, :2000].cpu()
    try:
        with torch.no_grad():
            slow(one)
            start = time.process_time()
            slow(one)
            return 1e6 * (time.process_time() - start) / one.shape[1]
    finally:
        torch.set_num_threads(threads)
