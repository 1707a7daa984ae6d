"""What clients do between two messages: a few optimiser steps, many clients at once.

All clients of a group start from the same values, so their trainable tensors are stacked along a
new first axis and one vectorised gradient serves them all; frozen tensors are shared. Clients with
fewer batches stand still while the others finish.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.func import functional_call, grad, vmap
from torch.nn import functional

IGNORED = -100  # a target that does not count, such as padding

Tensors = dict[str, torch.Tensor]
Loss = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]


@dataclass(frozen=True, eq=False)
class Examples:
    """One client's inputs (n, ...) and targets (n,) or (n, steps)."""

    x: NDArray[Any]
    y: NDArray[np.int64]

    def __post_init__(self) -> None:
        if len(self.x) != len(self.y) or len(self.x) == 0:
            raise ValueError(
                f"there are {len(self.x)} inputs and {len(self.y)} targets; "
                "pass as many, and at least one"
            )
        if self.x.dtype.kind == "f" and not np.isfinite(self.x).all():
            raise ValueError("an input is not finite; fill or drop missing values first")


@dataclass(frozen=True, kw_only=True)
class LocalSteps:
    """A client's optimiser, and how long it runs in a round.

    Parameters
    ----------
    optimiser
        "sgd" (with momentum) or "adam".
    epochs
        Passes over the client's examples, in an order drawn anew each time.
    max_steps
        Fewer steps than the epochs have, if given.
    batch_size
        Examples per step.
    prox
        Strength of the pull towards the values received (FedProx).
    """

    optimiser: Literal["sgd", "adam"] = "sgd"
    learning_rate: float = 0.1
    momentum: float = 0.0
    epochs: int = 1
    max_steps: int | None = None
    batch_size: int = 16
    prox: float = 0.0

    def __post_init__(self) -> None:
        if self.optimiser not in ("sgd", "adam"):
            raise ValueError(f"optimiser is {self.optimiser!r}; use 'sgd' or 'adam'")
        if not self.learning_rate > 0 or self.epochs < 1 or self.batch_size < 1:
            raise ValueError(
                f"learning_rate {self.learning_rate}, epochs {self.epochs} and batch_size "
                f"{self.batch_size} must all be above 0"
            )

    def schedule(self, n: int, rng: np.random.Generator) -> NDArray[np.int64]:
        """Return the examples (steps, batch_size) of every step, -1 where a batch is not full."""
        per_epoch = -(-n // self.batch_size)
        rows = []
        for _ in range(self.epochs):
            order = np.full(per_epoch * self.batch_size, -1)
            order[:n] = rng.permutation(n)
            rows.append(order.reshape(per_epoch, self.batch_size))
        return np.concatenate(rows)[: self.max_steps]


def cross_entropy(logits: torch.Tensor, y: torch.Tensor, counts: torch.Tensor) -> torch.Tensor:
    """Return the mean loss of the targets that count; `counts` is one or zero per example."""
    losses = functional.cross_entropy(
        logits.flatten(0, -2), y.flatten(), ignore_index=IGNORED, reduction="none"
    ).reshape(y.shape)
    weight = counts.reshape(-1, *([1] * (y.ndim - 1))) * (y != IGNORED)
    total: torch.Tensor = (losses * weight).sum() / weight.sum().clamp(min=1.0)
    return total


def train_group(
    module: nn.Module,
    start: Tensors,
    frozen: Tensors,
    clients: Sequence[Examples],
    schedules: Sequence[NDArray[np.int64]],
    steps: LocalSteps,
    *,
    learning_rate: float,
    trained: Sequence[set[str]] | None = None,
    loss: Loss = cross_entropy,
) -> Tensors:
    """Return the values (clients, ...) after every client's local steps.

    Parameters
    ----------
    module
        The architecture; its own values are not used. Not to be shared between threads.
    start
        Trainable values that all clients begin with, on the device to use.
    frozen
        All other parameters and buffers, shared by all clients.
    schedules
        Examples of every step, one array (steps, batch) per client.
    trained
        Names that each client trains, if not all of `start`.
    """
    device = next(iter(start.values())).device
    x, y = _stacked([c.x for c in clients], device), _stacked([c.y for c in clients], device)
    index, counts = _plan(schedules, steps.batch_size, device)
    moves = _moves(start, trained, len(clients), device)

    def objective(
        values: Tensors, xb: torch.Tensor, yb: torch.Tensor, cb: torch.Tensor
    ) -> torch.Tensor:
        total = loss(functional_call(module, {**frozen, **values}, (xb,)), yb, cb)
        if steps.prox > 0:
            apart = sum(((values[name] - start[name]) ** 2).sum() for name in start)
            total = total + 0.5 * steps.prox * apart
        return total

    slopes = vmap(grad(objective), randomness="different")
    values = {name: v.expand(len(clients), *v.shape).clone() for name, v in start.items()}
    memory = _Optimiser(steps, learning_rate, values)
    who = torch.arange(len(clients), device=device)[:, None]
    for s in range(index.shape[1]):
        gradient = slopes(values, x[who, index[:, s]], y[who, index[:, s]], counts[:, s])
        active = counts[:, s].amax(dim=1)
        values = memory.step(values, gradient, {n: moves[n] * active for n in moves})
    return values


class _Optimiser:
    """SGD with momentum or Adam on stacked values; a client that does not move forgets nothing."""

    def __init__(self, steps: LocalSteps, learning_rate: float, values: Tensors) -> None:
        self.rule, self.rate = steps, learning_rate
        self.first = {name: torch.zeros_like(v) for name, v in values.items()}
        self.second = {name: torch.zeros_like(v) for name, v in values.items()}
        self.count: Tensors = {}

    def step(self, values: Tensors, gradient: Tensors, moves: Tensors) -> Tensors:
        after = {}
        for name, value in values.items():
            move = moves[name].reshape(-1, *([1] * (value.ndim - 1)))
            change = self._change(name, gradient[name], moves[name], move)
            after[name] = value - self.rate * move * change
        return after

    def _change(
        self, name: str, slope: torch.Tensor, moving: torch.Tensor, move: torch.Tensor
    ) -> torch.Tensor:
        if self.rule.optimiser == "sgd":
            if self.rule.momentum == 0:
                return slope
            self.first[name] = torch.where(
                move > 0, self.rule.momentum * self.first[name] + slope, self.first[name]
            )
            return self.first[name]
        self.count[name] = self.count.get(name, torch.zeros_like(moving)) + moving
        first, second = self.first[name], self.second[name]
        self.first[name] = torch.where(move > 0, 0.9 * first + 0.1 * slope, first)
        self.second[name] = torch.where(move > 0, 0.999 * second + 0.001 * slope**2, second)
        t = self.count[name].clamp(min=1.0).reshape(move.shape)
        mean = self.first[name] / (1 - 0.9**t)
        root = (self.second[name] / (1 - 0.999**t)).sqrt()
        change: torch.Tensor = mean / (root + 1e-8)
        return change


def _stacked(arrays: Sequence[NDArray[Any]], device: torch.device) -> torch.Tensor:
    """Return arrays of unequal length as one tensor (clients, longest, ...), zeros behind."""
    longest = max(len(a) for a in arrays)
    stack = np.zeros((len(arrays), longest, *arrays[0].shape[1:]), dtype=arrays[0].dtype)
    for k, array in enumerate(arrays):
        stack[k, : len(array)] = array
    return torch.from_numpy(stack).to(device)


def _plan(
    schedules: Sequence[NDArray[np.int64]], batch: int, device: torch.device
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the examples (clients, steps, batch) of all steps, and which of them count."""
    plan = np.full((len(schedules), max(len(s) for s in schedules), batch), -1)
    for k, schedule in enumerate(schedules):
        plan[k, : len(schedule)] = schedule
    index = torch.from_numpy(plan).to(device)
    return index.clamp(min=0), (index >= 0).to(torch.float32)


def _moves(
    start: Mapping[str, torch.Tensor],
    trained: Sequence[set[str]] | None,
    n_clients: int,
    device: torch.device,
) -> Tensors:
    """Return, for each tensor, a one for the clients that train it and a zero for the others."""
    if trained is None:
        return {name: torch.ones(n_clients, device=device) for name in start}
    return {
        name: torch.tensor([float(name in names) for names in trained], device=device)
        for name in start
    }
