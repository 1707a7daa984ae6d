"""What clients do between two messages: a few optimizer steps, many clients at once.

All clients of a group start from the same values, so their trainable tensors are stacked along a
new first axis and one vectorized gradient serves them all; frozen tensors are shared. Clients with
fewer batches stand still while the others finish.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.func import functional_call, grad, vmap
from torch.nn import functional

from catchment import refuse_conversions
from catchment.arrays import PositiveFloat, PositiveInt, check_fields
from catchment_research.partial.normalize import JointNorms

IGNORED = -100  # a target that does not count, such as padding
KEPT = 4  # recorded steps of different shapes, such as those of a last, smaller group

Tensors = dict[str, torch.Tensor]
State = dict[str, Tensors]  # values and optimizer memory, each by the names of the parameters
Advance = Callable[[State, State, Tensors], State]
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
        refuse_conversions(self.x, "inputs")
        if self.x.dtype.kind == "f" and not np.isfinite(self.x).all():
            raise ValueError("an input is not finite; fill or drop missing values first")


@dataclass(frozen=True, eq=False)
class Group:
    """What clients made of their steps: values (clients, ...), and how they did (clients,).

    `loss` and `accuracy` are means over the targets that count, as the steps met them; the pull
    towards the values received is not in the loss.
    """

    values: Tensors
    loss: torch.Tensor
    accuracy: torch.Tensor

    @classmethod
    def of(cls, state: State) -> Group:
        met = state["met"]
        count = met["count"].clamp(min=1.0)
        return cls(state["values"], met["loss"] / count, met["right"] / count)


@dataclass(frozen=True, kw_only=True)
class LocalSteps:
    """A client's optimizer, and how long it runs in a round.

    Parameters
    ----------
    optimizer
        "sgd" (with momentum) or "adam".
    epochs
        Passes over the client's examples, in an order drawn anew each time.
    max_steps
        Fewer steps than the epochs have, if given.
    batch_size
        Examples per step.
    prox
        Strength of the pull towards the values received (FedProx).
    precision
        Of products and convolutions; values, sums and the optimizer stay float32.
    """

    optimizer: Literal["sgd", "adam"] = "sgd"
    learning_rate: PositiveFloat = 0.1
    momentum: float = 0.0
    epochs: PositiveInt = 1
    max_steps: int | None = None
    batch_size: PositiveInt = 16
    prox: float = 0.0
    precision: Literal["float32", "bfloat16"] = "float32"

    def __post_init__(self) -> None:
        check_fields(self)

    def schedule(self, n: int, rng: np.random.Generator) -> NDArray[np.int64]:
        """Return the examples (steps, batch_size) of every step, -1 where a batch is not full."""
        per_epoch = -(-n // self.batch_size)
        rows = []
        for _ in range(self.epochs):
            order = np.full(per_epoch * self.batch_size, -1)
            order[:n] = rng.permutation(n)
            rows.append(order.reshape(per_epoch, self.batch_size))
        return np.concatenate(rows)[: self.max_steps]

    def begin(self, start: Tensors, n_clients: int) -> State:
        """Return every client's values, and what its optimizer remembers at first."""
        values = {name: v.expand(n_clients, *v.shape).clone() for name, v in start.items()}
        state = {"values": values}
        if self.optimizer == "adam" or self.momentum > 0:
            state["first"] = {name: torch.zeros_like(v) for name, v in values.items()}
        if self.optimizer == "adam":
            state["second"] = {name: torch.zeros_like(v) for name, v in values.items()}
            state["count"] = {name: v.new_zeros(n_clients) for name, v in values.items()}
        return state

    def moved(self, state: State, slopes: Tensors, moves: Tensors, rate: torch.Tensor) -> State:
        """Return the state after a step; a client whose move is 0 stays and forgets nothing."""
        after: State = {kind: {} for kind in state}
        for name, slope in slopes.items():
            move = moves[name].reshape(-1, *([1] * (slope.ndim - 1)))
            mine = {kind: part[name] for kind, part in state.items()}
            mine, change = self._change(mine, slope, moves[name], move)
            mine["values"] = mine["values"] - rate * move * change
            for kind, tensor in mine.items():
                after[kind][name] = tensor
        return after

    def _change(
        self, mine: Tensors, slope: torch.Tensor, moving: torch.Tensor, move: torch.Tensor
    ) -> tuple[Tensors, torch.Tensor]:
        if "first" not in mine:
            return mine, slope
        if "second" not in mine:
            kept = torch.where(move > 0, self.momentum * mine["first"] + slope, mine["first"])
            return {**mine, "first": kept}, kept
        count = mine["count"] + moving
        first = torch.where(move > 0, 0.9 * mine["first"] + 0.1 * slope, mine["first"])
        second = torch.where(move > 0, 0.999 * mine["second"] + 0.001 * slope**2, mine["second"])
        t = count.clamp(min=1.0).reshape(move.shape)
        change = first / (1 - 0.9**t) / ((second / (1 - 0.999**t)).sqrt() + 1e-8)
        return {**mine, "first": first, "second": second, "count": count}, change


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
    masks: Tensors | None = None,
    loss: Loss = cross_entropy,
    recordings: Recordings | None = None,
) -> Group:
    """Return the values (clients, ...) after every client's local steps, and how these went.

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
    masks
        Ones and zeros (clients, ...) by which values are multiplied where they are used, so that
        what a client does not have is zero and does not move.
    recordings
        Steps recorded on a GPU by earlier calls with the same module, frozen values and steps.
    """
    device = next(iter(start.values())).device
    x, y = _stacked([c.x for c in clients], device), _stacked([c.y for c in clients], device)
    index, counts = _plan(schedules, steps.batch_size, device)
    given = {"start": start, "moves": _moves(start, trained, len(clients), device)}
    given["masks"] = masks or {}
    given["rate"] = {"": torch.tensor(learning_rate, device=device)}
    state = steps.begin(start, len(clients))
    names = ("loss", "right", "count")
    state["met"] = {name: torch.zeros(len(clients), device=device) for name in names}

    def advance(state: State, given: State, batch: Tensors) -> State:
        return _advance(module, frozen, steps, loss, state, given, batch)

    who = torch.arange(len(clients), device=device)[:, None]
    batches = (
        {"x": x[who, index[:, s]], "y": y[who, index[:, s]], "counts": counts[:, s]}
        for s in range(index.shape[1])
    )
    if recordings is not None and device.type == "cuda":
        return Group.of(recordings.run(advance, state, given, batches))
    for batch in batches:
        state = advance(state, given, batch)
    return Group.of(state)


def _advance(
    module: nn.Module,
    frozen: Tensors,
    steps: LocalSteps,
    loss: Loss,
    state: State,
    given: State,
    batch: Tensors,
) -> State:
    """Return the state after one step of every client."""

    def objective(
        values: Tensors, masks: Tensors, x: torch.Tensor, y: torch.Tensor, counts: torch.Tensor
    ) -> tuple[torch.Tensor, Tensors]:
        half = torch.autocast(x.device.type, torch.bfloat16, enabled=steps.precision == "bfloat16")
        with half, JointNorms():
            used = {name: v * masks[name] if name in masks else v for name, v in values.items()}
            outputs = functional_call(module, {**frozen, **used}, (x,))
        total = loss(outputs.float(), y, counts)
        weight = counts.reshape(-1, *([1] * (y.ndim - 1))) * (y != IGNORED)
        right = (weight * (outputs.argmax(dim=-1) == y)).sum()
        met = {"loss": total * weight.sum(), "right": right, "count": weight.sum()}
        if steps.prox > 0:
            apart = sum(((values[name] - v) ** 2).sum() for name, v in given["start"].items())
            total = total + 0.5 * steps.prox * apart
        return total, met

    slopes = vmap(grad(objective, has_aux=True), randomness="different")
    gradient, met = slopes(state["values"], given["masks"], batch["x"], batch["y"], batch["counts"])
    active = batch["counts"].amax(dim=1)
    moves = {name: move * active for name, move in given["moves"].items()}
    training = {kind: part for kind, part in state.items() if kind != "met"}
    after = steps.moved(training, gradient, moves, given["rate"][""])
    return {**after, "met": {name: state["met"][name] + new for name, new in met.items()}}


@final
class Recordings:
    """Steps recorded on a GPU, by their shapes; the next rounds replay them.

    A step of a small network is hundreds of short kernels, and launching them one by one takes
    longer than running them. Holds a lock while it trains: its tensors serve one group at a time.
    """

    def __init__(self) -> None:
        self._kept: dict[tuple[tuple[str, str, torch.Size], ...], _Recorded] = {}
        self._lock = threading.Lock()

    def run(
        self, advance: Advance, state: State, given: State, batches: Iterator[Tensors]
    ) -> State:
        """Return the values after all batches, and how these went."""
        with self._lock:
            step: _Recorded | None = None
            for batch in batches:
                if step is None:
                    parts = {**state, **{f"given {k}": v for k, v in given.items()}, "b": batch}
                    key = tuple(
                        (k, n, t.shape) for k, part in parts.items() for n, t in part.items()
                    )
                    if key not in self._kept:
                        if len(self._kept) >= KEPT:
                            self._kept.clear()  # each holds the memory of a step
                        self._kept[key] = _Recorded(advance, state, given, batch)
                    step = self._kept[key]
                    step.load(state, given)
                step.replay(batch)
            if step is None:
                return state
            return _copied({kind: step.state[kind] for kind in ("values", "met")})


class _Recorded:
    """One step as a CUDA graph over tensors of its own."""

    def __init__(self, advance: Advance, state: State, given: State, batch: Tensors) -> None:
        self.state, self.given = _copied(state), _copied(given)
        self.batch = _copied({"": batch})[""]
        self.advance = advance  # keeps the frozen tensors, which the graph reads, alive
        aside = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        aside.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(aside):  # libraries set themselves up on first use, unrecorded
            for _ in range(2):
                advance(self.state, self.given, self.batch)
        torch.cuda.current_stream().wait_stream(aside)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, capture_error_mode="thread_local"):
            _overwrite(self.state, advance(self.state, self.given, self.batch))

    def load(self, state: State, given: State) -> None:
        _overwrite(self.state, state)
        _overwrite(self.given, given)

    def replay(self, batch: Tensors) -> None:
        _overwrite({"": self.batch}, {"": batch})
        self.graph.replay()


def _copied(state: State) -> State:
    return {kind: {name: t.clone() for name, t in part.items()} for kind, part in state.items()}


def _overwrite(there: State, here: State) -> None:
    for kind, part in here.items():
        for name, tensor in part.items():
            there[kind][name].copy_(tensor)


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
