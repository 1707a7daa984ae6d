"""A recurrent network on the same streams: a GRU trained by FedAvg, one person one client.

In every round each client passes once over its streams in pieces, each from the state in which the
piece before it ended (Adam), and the server averages the copies. The rate and the number of rounds
are those with the best accuracy on a fifth of the training people, who are then put back; test
people are looked at once.

    python -m reproductions.streams_gru streams-input.npz --out streams-gru.npz

needs torch and numpy alone: `python -m reproductions streams --export` writes the streams, and
`--labels` takes what came out. Copies of all clients, folds, rates, seeds and tasks are one stack,
because a copy alone leaves a GPU idle.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

PIECE = 250  # steps between two updates of the weights
RATES = (2e-3, 6e-3, 2e-2)
EACH = 10  # rounds between two looks at the people left out
SCALE = 1024  # of inputs in a file
Stack = dict[str, Tensor]


@dataclass(frozen=True, eq=False)
class Streams:
    """Streams u (D, P, S, T, I) of D draws and P people, labels (D, P, S, T), and judged steps."""

    u: Tensor
    label: Tensor
    judged: NDArray[np.int64]
    folds: tuple[tuple[int, ...], ...]
    n_classes: int


@dataclass(frozen=True)
class Federation:
    """Who trains on which draw, who is looked at, how fast, and how long."""

    draw: int
    fold: int
    train: tuple[int, ...]
    test: tuple[int, ...]
    rate: float
    rounds: int


def first_numbers(n_inputs: int, hidden: int, n_classes: int, seed: int) -> Stack:
    """Return the numbers of one network, drawn on the CPU so that they are the same anywhere.

    >>> sum(v.numel() for v in first_numbers(9, 64, 6, 0).values())
    14790
    """
    rng = torch.Generator().manual_seed(seed)
    shapes = {
        "W_in": (n_inputs, 3 * hidden),
        "W": (hidden, 3 * hidden),
        "b_in": (1, 3 * hidden),
        "b": (1, 3 * hidden),
        "W_out": (hidden, n_classes),
        "b_out": (1, n_classes),
    }
    bound = 1 / math.sqrt(hidden)
    return {k: (2 * torch.rand(s, generator=rng) - 1) * bound for k, s in shapes.items()}


def outputs(model: Stack, u: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
    """Return class scores (M, S, T, K) of inputs (M, S, T, I), and the last states (M, S, H)."""
    M, S, T, _ = u.shape
    H = x.shape[2]
    drive = torch.baddbmm(model["b_in"], u.flatten(1, 2), model["W_in"]).view(M, S, T, 3 * H)
    states = []
    for t in range(T):
        own = torch.baddbmm(model["b"], x, model["W"])
        gates = torch.sigmoid(drive[:, :, t, : 2 * H] + own[..., : 2 * H])
        new = torch.tanh(drive[:, :, t, 2 * H :] + gates[..., :H] * own[..., 2 * H :])
        x = torch.lerp(new, x, gates[..., H:])
        states.append(x)
    z = torch.stack(states, dim=2).flatten(1, 2)
    return torch.baddbmm(model["b_out"], z, model["W_out"]).view(M, S, T, -1), x


def trained(
    data: Streams, groups: Sequence[Federation], models: Stack, first: int, rounds: int
) -> Stack:
    """Return the models (G, ...) of federations after some more rounds."""
    device = data.u.device
    owner = torch.tensor([g for g, group in enumerate(groups) for _ in group.train], device=device)
    places = [(group.draw, person) for group in groups for person in group.train]
    draws, people = torch.tensor(places, device=device).T
    u, label = data.u[draws, people], data.label[draws, people]
    share = (1.0 / torch.bincount(owner))[owner]
    rates = torch.tensor([group.rate for group in groups], device=device)[owner]
    ends = torch.tensor([group.rounds for group in groups], device=device)[owner]
    for round_ in range(first, first + rounds):
        copies = {name: value[owner].clone() for name, value in models.items()}
        # The rate falls in the same way whatever the number of rounds.
        _local(copies, u, label, rates / (1 + round_ / 20))
        going = (round_ < ends).float()
        for name, value in models.items():
            weight = (share * going).reshape(-1, *[1] * (value.ndim - 1))
            mean = torch.zeros_like(value).index_add(0, owner, copies[name] * weight)
            still = torch.zeros(len(groups), device=device).index_add(0, owner, share * going)
            models[name] = torch.where(still.reshape(-1, *[1] * (value.ndim - 1)) > 0, mean, value)
    return models


def _local(model: Stack, u: Tensor, label: Tensor, rates: Tensor) -> None:
    """Pass once over the streams of every copy, with Adam, in place."""
    moments = {name: (torch.zeros_like(v), torch.zeros_like(v)) for name, v in model.items()}
    x = u.new_zeros((u.shape[0], u.shape[1], model["W"].shape[1]))
    for k, t in enumerate(range(0, u.shape[2], PIECE)):
        for value in model.values():
            value.requires_grad_(True)
        target = label[:, :, t : t + PIECE].reshape(len(u), -1)
        scores, x = outputs(model, u[:, :, t : t + PIECE], x.detach())
        losses = functional.cross_entropy(
            scores.flatten(0, 2), target.flatten(), ignore_index=-1, reduction="none"
        ).view(target.shape)
        counted = (target >= 0).sum(dim=1).clamp(min=1)
        total = (losses.sum(dim=1) / counted).sum()
        gradients = torch.autograd.grad(total, list(model.values()))
        with torch.no_grad():
            size = sum(g.flatten(1).square().sum(dim=1) for g in gradients)
            factor = 1 / torch.as_tensor(size).sqrt().clamp(min=1.0)
            for (name, value), gradient in zip(list(model.items()), gradients, strict=True):
                wide = (-1, *[1] * (value.ndim - 1))
                g = gradient * factor.reshape(wide)
                m, v = moments[name]
                m.mul_(0.9).add_(g, alpha=0.1)
                v.mul_(0.999).addcmul_(g, g, value=0.001)
                step = (m / (1 - 0.9 ** (k + 1))) / ((v / (1 - 0.999 ** (k + 1))).sqrt() + 1e-8)
                model[name] = value.detach() - rates.reshape(wide) * step


@torch.no_grad()
def labels(data: Streams, groups: Sequence[Federation], models: Stack) -> list[Any]:
    """Return for every federation the labels (people, S, judged) of those it is looked at by."""
    widest = max(len(group.test) for group in groups)
    u = torch.stack(
        [
            torch.cat([data.u[g.draw, g.test[k % len(g.test)]] for k in range(widest)])
            for g in groups
        ]
    )
    x = u.new_zeros((len(groups), u.shape[1], models["W"].shape[1]))
    found = []
    for t in range(0, u.shape[2], 1000):
        scores, x = outputs(models, u[:, :, t : t + 1000], x)
        found.append(scores.argmax(dim=3).cpu())
    guessed = torch.cat(found, dim=2).numpy()[:, :, data.judged]
    S = data.u.shape[2]
    return [
        guessed[g, : len(group.test) * S].reshape(len(group.test), S, -1)
        for g, group in enumerate(groups)
    ]


def fitted(
    data: Streams, seeds: Sequence[int], hidden: int, rounds: int
) -> tuple[NDArray[np.int64], list[list[str]]]:
    """Return labels (D, P, S, judged), each by a model of a fold without them, and the choices."""
    D, P, S, _, n_inputs = data.u.shape
    device = data.u.device

    def fresh(groups: Sequence[Federation]) -> Stack:
        many = [first_numbers(n_inputs, hidden, data.n_classes, seeds[g.draw]) for g in groups]
        return {name: torch.stack([one[name] for one in many]).to(device) for name in many[0]}

    trials, finals = [], []
    for draw in range(D):
        for fold, test in enumerate(data.folds):
            train = tuple(p for p in range(P) if p not in test)
            out = train[seeds[draw] % 5 :: 5] or train[:1]
            rest = tuple(p for p in train if p not in out)
            trials += [Federation(draw, fold, rest, out, rate, rounds) for rate in RATES]
            finals.append(Federation(draw, fold, train, test, RATES[0], rounds))
    models = fresh(trials)
    truth = data.label.cpu().numpy()[..., data.judged]
    best: dict[tuple[int, int], tuple[float, float, int]] = {}
    each = min(EACH, rounds)
    for done in range(each, rounds + 1, each):
        models = trained(data, trials, models, done - each, each)
        for group, guess in zip(trials, labels(data, trials, models), strict=True):
            hits = float((guess == truth[group.draw, list(group.test)]).mean())
            key = (group.draw, group.fold)
            best[key] = max(best.get(key, (-1.0, 0.0, 0)), (hits, group.rate, done))
    finals = [
        Federation(g.draw, g.fold, g.train, g.test, *best[g.draw, g.fold][1:]) for g in finals
    ]
    models = trained(data, finals, fresh(finals), 0, max(g.rounds for g in finals))
    found = np.zeros((D, P, S, len(data.judged)), dtype=np.int64)
    chosen: list[list[str]] = [[] for _ in range(D)]
    for group, guess in zip(finals, labels(data, finals, models), strict=True):
        found[group.draw, list(group.test)] = guess
        chosen[group.draw].append(f"rate {group.rate:g}, {group.rounds} rounds")
    return found, chosen


def main() -> None:
    """Read streams, and write the labels that the networks give them."""
    parser = argparse.ArgumentParser()
    parser.add_argument("streams", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--hidden", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=60)
    given = parser.parse_args()
    with np.load(given.streams, allow_pickle=False) as arrays:
        told = json.loads(str(arrays["about"]))
        u = torch.from_numpy(arrays["counts"].astype(np.float32) / SCALE)
        label = torch.from_numpy(arrays["label"].astype(np.int64))
    judged = np.array(told["judged"], dtype=np.int64)
    counted = torch.full_like(label, -1)
    counted[..., judged] = label[..., judged]
    data = Streams(
        u.to(given.device),
        counted.to(given.device),
        judged,
        tuple(map(tuple, told["folds"])),
        told["n_classes"],
    )
    found, chosen = fitted(data, [seed for _, seed in told["draws"]], given.hidden, given.rounds)
    told |= {"chosen": chosen, "hidden": given.hidden}
    np.savez_compressed(given.out, labels=found.astype(np.int8), about=json.dumps(told))
    right = (found == label.numpy()[..., judged]).mean(axis=(1, 2, 3))
    print(dict(zip(map(str, told["draws"]), right.round(4).tolist(), strict=True)), chosen)


if __name__ == "__main__":
    main()
