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
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Annotated, ClassVar, cast

import numpy as np
import torch
from numpy.typing import NDArray

from catchment.errors import FederationError, IntegrityError, UploadError
from catchment.federation import Algorithm, Data, Requirements, RoundContext
from catchment.wire import ANY_FLOAT, NOT_NEGATIVE, REMARK, WEIGHT, Kind, Message, Structure
from catchment_research.learn.optimizers import Arrays, Mean, Schedule, ServerOptimizer
from catchment_research.learn.progress import UNKNOWN, Progress
from catchment_research.partial.dropout import WHOLE, Dropout, Kept, links, masks_of
from catchment_research.partial.freeze import Freeze, PartialNetwork
from catchment_research.partial.ftrl import FollowTheLeader
from catchment_research.partial.local import Examples, LocalSteps, Recordings, Tensors, train_group

STEPS = LocalSteps()
MEAN = Mean()
CONSTANT = Schedule()
LONG_MESSAGE = 1 << 21  # bytes


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
        sent = {n: (m * _along(factors, m)).cpu().numpy() for n, m in moved.items()}
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
        progress = Progress.mean(*total.told.tolist(), scored=True)
        return Trained(*moved, progress)

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


def _along(factors: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    """Return factors (clients,) in a shape that multiplies values (clients, ...)."""
    return factors.reshape(-1, *([1] * (values.ndim - 1)))
