"""Federated training of a partially trainable network (FedPT, Sidahmed et al., 2021, Algorithm 1).

Each round the server sends the trainable values and the seed; a client makes the frozen ones again,
takes local steps, and returns how far its trainable values moved. The server moves by the mean of
these changes, through an optimizer of its own. Clients weigh by their examples or, where changes
are clipped, alike; `FollowTheLeader` divides the sum by the number of clients it was declared for,
whoever answers. With nothing frozen this is generalized federated averaging (Reddi et al., ICLR
2021).

The server sees each client's change, mean loss and share of right answers unless a protection hides
them. The last two are not sent where changes are clipped or noise is added: they are not in what
differential privacy bounds.

All clients of a group start from the same values, so their trainable tensors are stacked along a
new first axis and one vectorized gradient serves them all; frozen tensors are shared. Clients with
fewer batches stand still while the others finish. Vectorized over clients, the library takes group
normalization apart into dozens of small steps, one kernel on a GPU each. But statistics are per
example, whoever's it is: all clients' examples go through the library's own kernels together, and
only scale and shift are each client's.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import Annotated, Any, ClassVar, Literal, cast, final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.func import functional_call, grad, vmap
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from catchment import refuse_conversions
from catchment.arrays import PositiveFloat, PositiveInt, check_fields
from catchment.errors import FederationError, IntegrityError, UploadError
from catchment.federation import Algorithm, Data, Requirements, RoundContext
from catchment.wire import ANY_FLOAT, NOT_NEGATIVE, REMARK, WEIGHT, Kind, Message, Structure
from catchment_research.learn.optimizers import Arrays, Mean, Schedule, ServerOptimizer
from catchment_research.learn.recordings import UNKNOWN, Progress
from catchment_research.partial.dropout import WHOLE, Dropout, Kept, links, masks_of
from catchment_research.partial.freeze import Freeze, PartialNetwork
from catchment_research.partial.ftrl import FollowTheLeader

MEAN = Mean()
CONSTANT = Schedule()
LONG_MESSAGE = 1 << 21  # bytes
IGNORED = -100  # a target that does not count, such as padding
KEPT = 4  # recorded steps of different shapes, such as those of a last, smaller group

Tensors = dict[str, torch.Tensor]
State = dict[str, Tensors]  # values and optimizer memory, each by the names of the parameters
Advance = Callable[[State, State, Tensors], State]


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
    toward the values received is not in the loss.
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
        Strength of the pull toward the values received (FedProx).
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
    return (losses * weight).sum() / weight.sum().clamp(min=1.0)


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

    advance = partial(_advance, module, frozen, steps)
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
        total = cross_entropy(outputs.float(), y, counts)
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


@final
class JointNorms(TorchFunctionMode):
    """Within it, group normalization is that of this module."""

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        if func is functional.group_norm:
            return group_norm(*args, **(kwargs or {}))
        return func(*args, **(kwargs or {}))


def group_norm(
    input: torch.Tensor,
    num_groups: int,
    weight: torch.Tensor | None = None,
    bias: torch.Tensor | None = None,
    eps: float = 1e-5,
) -> torch.Tensor:
    """Return the same as torch's function of this name; half precision is widened first.

    >>> group_norm(torch.tensor([[1.0, 3.0]]), 1)
    tensor([[-1.0000,  1.0000]])
    """
    x = input.float() if input.dtype in (torch.bfloat16, torch.float16) else input
    y: torch.Tensor = _Normal.apply(x, num_groups, eps)[0]  # type: ignore[no-untyped-call]
    places = (-1, *[1] * (y.ndim - 2))
    if weight is not None:
        y = y * weight.reshape(places)
    return y if bias is None else y + bias.reshape(places)


def _sizes(x: torch.Tensor) -> tuple[int, int, int]:
    n, channels = x.shape[:2]
    return n, channels, x[0, 0].numel()


class _Normal(torch.autograd.Function):
    """Examples (n, channels, ...) normalized, and what the way back needs."""

    @staticmethod
    def forward(x: torch.Tensor, groups: int, eps: float) -> tuple[torch.Tensor, ...]:
        x = x.contiguous()
        found: tuple[torch.Tensor, ...] = torch.native_group_norm(
            x, None, None, *_sizes(x), groups, eps
        )
        return found

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[torch.Tensor, ...]) -> None:
        x, ctx.groups, _ = inputs
        _, mean, scale = output
        ctx.mark_non_differentiable(mean, scale)
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(x, mean, scale)

    @staticmethod
    def backward(
        ctx: Any, slope: torch.Tensor, *_: torch.Tensor
    ) -> tuple[torch.Tensor | None, ...]:
        return _NormalBack.apply(slope, *ctx.saved_tensors, ctx.groups), None, None  # type: ignore[no-untyped-call]

    @staticmethod
    def vmap(
        info: Any, in_dims: tuple[int | None, ...], x: torch.Tensor, groups: int, eps: float
    ) -> tuple[tuple[torch.Tensor, ...], tuple[int, ...]]:
        joined = _joined(x, in_dims[0], info.batch_size)
        parts = _Normal.apply(joined, groups, eps)  # type: ignore[no-untyped-call]
        return tuple(part.unflatten(0, (info.batch_size, -1)) for part in parts), (0, 0, 0)


class _NormalBack(torch.autograd.Function):
    """The slope for the input of `_Normal` from that for its output."""

    @staticmethod
    def forward(
        slope: torch.Tensor,
        x: torch.Tensor,
        mean: torch.Tensor,
        scale: torch.Tensor,
        groups: int,
    ) -> torch.Tensor:
        given = (slope.contiguous(), x.contiguous(), mean.contiguous(), scale.contiguous())
        found: torch.Tensor = torch.ops.aten.native_group_norm_backward(
            *given, None, *_sizes(x), groups, [True, False, False]
        )[0]
        return found

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: torch.Tensor) -> None:
        """Nothing is kept: nobody differentiates twice."""

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, ...], *given: Any) -> tuple[torch.Tensor, int]:
        *tensors, groups = given
        joined = [_joined(t, d, info.batch_size) for t, d in zip(tensors, in_dims, strict=False)]
        return _NormalBack.apply(*joined, groups).unflatten(0, (info.batch_size, -1)), 0  # type: ignore[no-untyped-call]


def _joined(x: torch.Tensor, clients: int | None, n_clients: int) -> torch.Tensor:
    """Return all clients' examples as one batch."""
    if clients is None:
        return x.expand(n_clients, *x.shape).flatten(0, 1)
    return x.movedim(clients, 0).flatten(0, 1)


@dataclass(frozen=True, eq=False)
class Moved:
    """Changes of tensors, each times a weight, summed; a tensor nobody trained has none.

    `had` is the weight of every number, where clients have parts of tensors only.
    """

    names: tuple[str, ...]
    changes: tuple[NDArray[np.floating], ...]  # float32 as they came, float64 once added
    weights: Annotated[NDArray[np.float64], WEIGHT]
    told: NDArray[np.float64]  # (3,) what they say of their progress
    had: tuple[NDArray[np.float64], ...] = ()

    def __add__(self, other: Moved) -> Moved:
        if self.names != other.names:
            raise UploadError("shape", "the clients train networks of different tensors")
        pairs = zip(self.changes, other.changes, strict=True)
        return Moved(
            self.names,
            tuple(np.add(a, b, dtype=np.float64) for a, b in pairs),
            self.weights + other.weights,
            self.told + other.told,
            tuple(a + b for a, b in zip(self.had, other.had, strict=True)),
        )

    def mean(self) -> Arrays:
        if not (self.weights > 0).any():
            raise FederationError("no client trained anything")
        return tuple(
            np.divide(change, np.where(weight > 0, weight, 1.0), dtype=np.float64)
            for change, weight in zip(self.changes, self.had or self.weights, strict=True)
        )


@dataclass(frozen=True, eq=False)
class Change(Structure):
    """What one client sends: how far its tensors moved times its weight, in float32.

    A sum of such messages, number by number, is one of all clients: it can be masked and noised
    like any other weighted sum. `names` is None if the client trains all that the plan trains.
    """

    KIND: ClassVar[Kind] = Kind(
        "change",
        "how far the parameters that the client trained on its own data moved, multiplied by their "
        "weight, the weight, and, unless changes are clipped, the mean loss and the share right of "
        "these steps",
        (
            "how many examples the client has, if it is weighed by them",
            "which classes the client has: the parameters of a class it never saw do not move",
            "the gradient of this one client's data, from which examples may be rebuilt",
            "how well the shared network fits this one client's data, where the loss is sent",
        ),
    )

    changes: Annotated[tuple[NDArray[np.float32], ...], ANY_FLOAT]
    weight: Annotated[float, WEIGHT]
    telling: Annotated[float, NOT_NEGATIVE, REMARK] = 0.0
    loss: Annotated[float, NOT_NEGATIVE, REMARK] = 0.0
    right: Annotated[float, NOT_NEGATIVE, REMARK] = 0.0
    names: tuple[str, ...] | None = None


@dataclass(frozen=True, eq=False)
class Trained:
    """Trainable values so far, what the server's optimizer remembers, and how clients did last."""

    values: Arrays
    memory: Arrays = ()
    progress: Progress = UNKNOWN


STEPS = LocalSteps()


@dataclass(frozen=True, kw_only=True, eq=False)
class FederatedTraining(Algorithm[Trained, Moved, torch.nn.Module]):
    """FedPT: local steps on the trainable part, averaged.

    Parameters
    ----------
    network
        The architecture, what is frozen, and the seed.
    steps
        What a client does in a round.
    optimizer
        What the server does with the mean change, or with the sum of clipped changes.
    schedule
        How the clients' learning rate goes from round to round.
    weak
        Clients that freeze more than the others, and what; a tensor's mean is over those who
        trained it. Their messages are shorter, so that secure aggregation does not take them.
    dropout
        Which units each client trains, if not all; only these travel up, and a number's mean is
        over those who had it. Neither secure aggregation nor noise on it can be had then.
    clip
        Longest change a client may send, all tensors together; a longer one is shortened, and every
        client then weighs alike. This bounds what one client can do to the sum, as privacy needs;
        the loss, which is not bounded so, is then not sent. A longer change that comes in the
        clear is refused.
    at_once
        Clients of one machine that are trained at once; if not given, 100 on a GPU (fewer if their
        messages are long, so that some are packed while others are trained) and 1 on a CPU, where
        a convolution per client has no advantage.
    record
        Whether steps are recorded on a GPU and replayed; turn it off for a network whose forward
        pass depends on values, such as one that branches on them.
    device
        "cpu", "cuda", or "auto" for a GPU if there is one.
    """

    network: PartialNetwork
    steps: LocalSteps = STEPS
    optimizer: ServerOptimizer | FollowTheLeader = MEAN
    schedule: Schedule = CONSTANT
    weak: Mapping[str, Freeze] = field(default_factory=dict)
    dropout: Dropout | None = field(default=None, metadata={"later": True})
    clip: float | None = None
    at_once: int | None = None
    record: bool = True
    device: str = "auto"

    def __post_init__(self) -> None:
        rule = self.optimizer
        if isinstance(rule, FollowTheLeader) and not (self.clip and self.clip <= rule.clip):
            raise ValueError(
                f"clip is {self.clip}, and FollowTheLeader counts on changes of length {rule.clip} "
                f"at most; pass clip={rule.clip}"
            )
        if self.dropout is not None:
            if isinstance(rule, FollowTheLeader):
                raise ValueError(
                    "FollowTheLeader divides by a fixed number of clients, and with dropout each "
                    "number has its own; use another optimizer, or no dropout"
                )
            links(self.network.skeleton(), self.dropout.chains)

    @property
    def requirements(self) -> Requirements:
        apart = "with dropout clients train different parts of the network; leave one of them out"
        return Requirements(longest=self.clip, each_client=apart if self.dropout else "")

    def group_size(self, n_clients: int, n_threads: int) -> int:
        if self.at_once or self.torch_device().type == "cpu":
            return self.at_once or 1
        if self.network.share().bytes_each_way < LONG_MESSAGE:
            return 100
        # Packing and reading long messages takes longer than training: let it overlap.
        return max(5, -(-n_clients // n_threads))

    def start(self) -> Trained:
        module = self.network.build()
        values = tuple(
            p.detach().numpy().astype(np.float64) for p in module.parameters() if p.requires_grad
        )
        return Trained(values, self.optimizer.start(values))

    def broadcast(self, state: Trained, context: RoundContext) -> Message:
        if isinstance(self.optimizer, FollowTheLeader):
            self.optimizer.check_cohort(len(context.cohort))
        values = tuple(value.astype(np.float32) for value in state.values)
        return Message("trainable", {"seed": self.network.seed}, values)

    def client_update(self, received: Message, data: Data, context: RoundContext) -> Change:
        return self.client_updates(received, [(data, context)])[0]

    def client_updates(
        self, received: Message, clients: Sequence[tuple[Data, RoundContext]]
    ) -> Sequence[Change]:
        if received.facts.get("seed") != self.network.seed:
            raise IntegrityError("the server froze another seed than this client agreed to")
        device = self.torch_device()
        module, names, frozen = self.network.skeleton(), *frozen_part(self.network, device)
        start = {
            name: torch.from_numpy(value).to(device)
            for name, value in zip(
                names, received.expect("trainable", len(names)).arrays, strict=True
            )
        }
        examples = [one_set(data) for data, _ in clients]
        schedules = [
            self.steps.schedule(len(e.x), context.rng())
            for e, (_, context) in zip(examples, clients, strict=True)
        ]
        trained = [self._trained(module, names, context.client) for _, context in clients]
        kept = [self._kept(context) for _, context in clients]
        group = train_group(
            module,
            start,
            frozen,
            examples,
            schedules,
            self.steps,
            learning_rate=self.steps.learning_rate * self.schedule.factor(clients[0][1].round),
            trained=trained,
            masks=masks_of(kept, start) if self.dropout else None,
            recordings=recordings_of(self.network, self.steps, device) if self.record else None,
        )
        moved = {name: group.values[name] - start[name] for name in names}
        pairs = zip(group.loss.tolist(), group.accuracy.tolist(), strict=True)
        progress = [Progress(*pair) if self.clip is None else UNKNOWN for pair in pairs]
        return self._packed(moved, [len(e.x) for e in examples], trained, kept, progress)

    def _packed(
        self,
        moved: Tensors,
        n_examples: Sequence[int],
        trained: Sequence[set[str]],
        kept: Sequence[Mapping[str, Kept]],
        progress: Sequence[Progress],
    ) -> list[Change]:
        """Return every client's message from the changes (clients, ...) of all."""
        weights, factors = self._weights(moved, n_examples)
        along = {n: factors.reshape(-1, *([1] * (m.ndim - 1))) for n, m in moved.items()}
        sent = {n: (m * along[n]).cpu().numpy() for n, m in moved.items()}
        changes = []
        for k, weight in enumerate(weights):
            own = tuple(name for name in moved if name in trained[k])
            arrays = tuple(kept[k].get(name, WHOLE).of(sent[name][k]) for name in own)
            told, named = progress[k].weighted(weight), None if len(own) == len(moved) else own
            changes.append(Change(arrays, weight, *told, named))
        return changes

    def _weights(
        self, moved: Tensors, n_examples: Sequence[int]
    ) -> tuple[list[float], torch.Tensor]:
        """Return each client's weight, and what its change is multiplied by before it leaves."""
        device = next(iter(moved.values())).device
        if self.clip is None:
            weights = [float(n) for n in n_examples]
            return weights, torch.tensor(weights, device=device)
        squares = sum(m.double().flatten(1).square().sum(dim=1) for m in moved.values())
        length = torch.as_tensor(squares).sqrt().clamp(min=1e-300)
        # Rounding to float32 must not lengthen a clipped change past its bound.
        factors = (self.clip * (1 - 1e-6) / length).clamp(max=1.0)
        return [1.0] * len(n_examples), factors.float()

    def read_update(self, parts: Message, context: RoundContext) -> Moved:
        if self.dropout and not context.client:
            raise FederationError("with dropout clients send different numbers, which do not add")
        names, shapes = layout(self.network)
        came, kept = Change.from_message(parts), self._kept(context)
        sent = names if came.names is None else came.names
        if not set(sent) <= set(names) or len(sent) != len(came.changes):
            raise UploadError("shape", "the change names tensors that are not trained")
        arrived = dict(zip(sent, came.changes, strict=True))
        parted = {name: kept.get(name, WHOLE) for name in names}
        if any(arrived[name].shape != parted[name].shape(shapes[name]) for name in arrived):
            raise UploadError("shape", "a change has another shape than its tensor")
        if self.clip is not None and context.client:
            self._check_clipped(came, self.clip)
        full, had = [], []
        for name in names:
            here = name in arrived
            change = arrived[name] if here else np.zeros(shapes[name], np.float32)
            if self.dropout:
                change = parted[name].back(change, shapes[name]) if here else change
                size = parted[name].shape(shapes[name])
                weight = np.full(size, came.weight if here else 0.0)
                had.append(parted[name].back(weight, shapes[name]))
            full.append(change)
        weights = [came.weight if name in arrived else 0.0 for name in names]
        told = np.array([came.telling, came.loss, came.right])
        return Moved(names, tuple(full), np.array(weights), told, tuple(had))

    def server_update(self, state: Trained, total: Moved, context: RoundContext) -> Trained:
        if isinstance(self.optimizer, FollowTheLeader):
            moved = self.optimizer.step_by_sum(state.values, total.changes, state.memory)
        else:
            moved = self.optimizer.step(state.values, total.mean(), state.memory)
        return Trained(*moved, Progress.mean(*total.told.tolist(), scored=True))

    @staticmethod
    def _check_clipped(came: Change, clip: float) -> None:
        """Raise UploadError if a client's change weighs more than one, or is longer than agreed."""
        if came.weight != 1:
            raise UploadError(
                "weight", f"the weight is {came.weight:g}; where changes are clipped it is 1"
            )
        length = sum(float(np.square(c, dtype=np.float64).sum()) for c in came.changes) ** 0.5
        if not length <= clip:
            raise UploadError(
                "bound",
                f"a change of length {length:.6g} is longer than the {clip:g} that were agreed on",
            )

    def result(self, state: Trained) -> torch.nn.Module:
        """Return the network with the state's values."""
        module = self.network.build(self.torch_device())
        with torch.no_grad():
            parameters = [p for p in module.parameters() if p.requires_grad]
            for parameter, value in zip(parameters, state.values, strict=True):
                parameter.copy_(torch.from_numpy(value))
        return module

    def figures(self, state: Trained) -> dict[str, float]:
        norm = float(np.sqrt(sum(float((v**2).sum()) for v in state.values)))
        return {**state.progress.figures, "weight norm": norm}

    def torch_device(self) -> torch.device:
        if self.device == "auto":
            return torch.device("cuda" if torch.cuda.is_available() else "cpu")
        return torch.device(self.device)

    def _kept(self, context: RoundContext) -> dict[str, Kept]:
        """Return which part of each tensor a client has in its round, where it is not the whole."""
        return self.dropout.kept(_skeleton(self.network), context) if self.dropout else {}

    def _trained(self, module: torch.nn.Module, names: Sequence[str], client: str) -> set[str]:
        more = self.weak.get(client)
        return set(names) - (set(more.frozen(module)) if more else set())


@lru_cache(maxsize=16)
def _skeleton(network: PartialNetwork) -> torch.nn.Module:
    return network.skeleton()


@lru_cache(maxsize=16)
def layout(network: PartialNetwork) -> tuple[tuple[str, ...], dict[str, tuple[int, ...]]]:
    """Return the names of the trainable parameters, and their shapes."""
    module = network.skeleton()
    frozen = set(network.freeze.frozen(module))
    shapes = {n: tuple(p.shape) for n, p in module.named_parameters() if n not in frozen}
    return tuple(shapes), shapes


@lru_cache(maxsize=2)
def recordings_of(network: PartialNetwork, steps: LocalSteps, device: torch.device) -> Recordings:
    """Return where the steps of a network's groups are recorded, for all rounds."""
    return Recordings()


def forget_recordings() -> None:
    """Free the memory that recorded steps and frozen values of earlier trainings hold."""
    recordings_of.cache_clear()
    frozen_part.cache_clear()


@lru_cache(maxsize=4)
def frozen_part(network: PartialNetwork, device: torch.device) -> tuple[tuple[str, ...], Tensors]:
    """Return the names of the trainable parameters, and all other values as the seed makes them."""
    module = network.build(device)
    named = [*module.named_parameters(), *module.named_buffers()]
    trained = tuple(name for name, value in named if value.requires_grad)
    return trained, {name: value.detach() for name, value in named if name not in trained}


def one_set(data: Data) -> Examples:
    """Return a client's examples, joined if they come in pieces."""
    pieces = cast(list[Examples], list(data()))
    if not pieces:
        raise ValueError("the client has no examples")
    if len(pieces) == 1:
        return pieces[0]
    return Examples(np.concatenate([p.x for p in pieces]), np.concatenate([p.y for p in pieces]))
