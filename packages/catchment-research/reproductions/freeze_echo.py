"""The echo state network as the limit case of a partially trainable network.

Its recurrent part is frozen whole, so that training the rest is a linear problem: rounds of
gradient steps (FedPT) go where one round of sums, solved exactly, already is. Both see the very
same states, those of `reproductions.networks.EchoState` with the values of one seed.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial, reduce
from operator import add
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from catchment import Array, Integers
from catchment.engine import run_locally
from catchment.errors import FederationError
from catchment.federation import Plan, Record
from catchment.federation.runs import Keeper
from catchment.readout import RidgeStatistics, solve_readout
from catchment_research.partial import (
    Examples,
    FederatedTraining,
    Freeze,
    LocalSteps,
    PartialNetwork,
    examples_of,
)
from reproductions.freeze_values import ECHO, RIDGE, FreezeSettings, Job, Row, scored
from reproductions.networks import ECHO_FREEZE, EchoState
from reproductions.people import SYNTHETIC, recorded, split, synthetic_people
from reproductions.places import find

FREEZES = {
    ECHO[0]: Freeze(names=(*ECHO_FREEZE.names, "gain", "shift")),
    ECHO[1]: Freeze(),
}


@dataclass(frozen=True, eq=False)
class Movements:
    """Windows of people who train, validate and test."""

    name: str
    train: Mapping[str, Examples]
    validation: Examples
    test: Examples
    n_classes: int

    @property
    def n_channels(self) -> int:
        return int(self.test.x.shape[-1])


@lru_cache(maxsize=2)
def movements(name: str, directory: Path | None) -> Movements:
    """Return a set of people with the publisher's test subjects; synthetic ones if none."""
    here = name != SYNTHETIC and find(name, directory=directory) is not None
    if here:
        people = split(recorded(name, directory=directory), official=True)
    else:
        people = synthetic_people(n_users=5, windows=6)
    K = len(people.classes)
    parts = [
        {who: examples_of(own, K) for who, own in part.items()}
        for part in (people.train, people.validation, people.test)
    ]
    return Movements(people.name, parts[0], _joined(parts[1]), _joined(parts[2]), K)


def network_of(job: Job, settings: FreezeSettings, data: Movements) -> PartialNetwork:
    """Return the echo state network of one seed, with its part frozen."""
    make = partial(EchoState, data.n_channels, settings.echo_units, data.n_classes)
    return PartialNetwork(make=make, freeze=FREEZES[job.trained], seed=job.seed, gain=1.0)


def echo_row(settings: FreezeSettings, directory: Path | None, job: Job) -> Row:
    """Return what came of one training, or of the exact solution."""
    data, started = movements(settings.echo_set, directory), time.perf_counter()
    labels = np.bincount((data.validation if job.search else data.test).y)
    largest = float(labels.max() / labels.sum())
    made = ridge(settings, data, job) if job.trained == RIDGE else trained(settings, data, job)
    return Row(
        job=job,
        data=data.name,
        n_clients=len(data.train),
        largest_class=largest,
        seconds=time.perf_counter() - started,
        **made,
    )


def trained(settings: FreezeSettings, data: Movements, job: Job) -> dict[str, Any]:
    """Return the figures of federated training, with the accuracy after every round."""
    network = network_of(job, settings, data)
    share = network.share()
    if job.trained == ECHO[0]:
        network, data = on_states(network, data)
    steps = LocalSteps(optimizer=job.optimizer, learning_rate=job.rate, batch_size=32)
    algorithm = FederatedTraining(network=network, steps=steps)
    held = data.validation if job.search else data.test
    curve = _Curve(lambda state: float((said(algorithm.result(state), held) == held.y).mean()))
    plan = Plan(algorithm=algorithm, rounds=job.rounds, seed=job.seed)
    clients = {name: [own] for name, own in data.train.items()}
    found: dict[str, Any] = {"total": share.total, "numbers": share.trainable}
    try:
        result = run_locally(plan, clients, threads=1, keeper=curve)
    except FederationError as error:
        if not job.search:
            raise
        return found | {"bytes_up": 0.0, "bytes_down": 0.0, "accuracy": 0.0, "failed": str(error)}
    answers = sum(record.n_used for record in result.records)
    return found | {
        "bytes_up": sum(record.bytes_up for record in result.records) / answers,
        "bytes_down": sum(record.bytes_down for record in result.records) / answers,
        "curve": tuple(curve.points),
        **scored(held.y, said(algorithm.result(result.state), held)),
    }


class Readout(torch.nn.Module):
    """The readout of an echo state network by itself, under the name that it has there."""

    def __init__(self, units: int, outputs: int) -> None:
        super().__init__()
        self.out = torch.nn.Linear(units, outputs)

    def forward(self, z: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self.out(z)
        return y


def on_states(network: PartialNetwork, data: Movements) -> tuple[PartialNetwork, Movements]:
    """Return the readout alone, and the states that it reads in the place of the windows.

    The frozen part gives the same states in every round: training is the same, and far quicker.
    """
    module = network.build(_device())

    def read(own: Examples) -> Examples:
        return Examples(mean_states(module, own.x).astype(np.float32), own.y)

    train = {name: read(own) for name, own in data.train.items()}
    states = replace(data, train=train, validation=read(data.validation), test=read(data.test))
    make = partial(Readout, states.test.x.shape[1], data.n_classes)
    return PartialNetwork(make=make, seed=network.seed, gain=network.gain), states


def ridge(settings: FreezeSettings, data: Movements, job: Job) -> dict[str, Any]:
    """Return the figures of the readout solved exactly from the sums of all people.

    The ridge, relative to the number of windows, is the best of the settings' on the validation
    people.
    """
    network = network_of(replace(job, trained=ECHO[0]), settings, data)
    module, K = network.build(_device()), data.n_classes
    sums = [
        RidgeStatistics.from_states(mean_states(module, own.x), np.eye(K)[own.y])
        for own in data.train.values()
    ]
    total = reduce(add, sums)
    readouts = [solve_readout(total, r * total.weight) for r in settings.echo_ridges]
    z = mean_states(module, data.validation.x)
    scores = [np.mean(readout(z).argmax(1) == data.validation.y) for readout in readouts]
    best = readouts[int(np.argmax(scores))]
    found = scored(data.test.y, best(mean_states(module, data.test.x)).argmax(1))
    share = network.share()
    return {
        "total": share.total,
        "numbers": share.trainable,
        "bytes_up": float(np.mean([len(one.parts().to_bytes()) for one in sums])),
        "bytes_down": 0.0,
        "curve": (found["accuracy"],),
        **found,
    }


def mean_states(module: torch.nn.Module, x: NDArray[Any], *, at_once: int = 4000) -> Array:
    """Return the states (n, N) averaged over time, which the network's readout reads."""
    found: list[NDArray[Any]] = []

    def keep(_: torch.nn.Module, inputs: Sequence[torch.Tensor]) -> None:
        found.append(inputs[0].detach().cpu().numpy())

    out = module.get_submodule("out")
    handle = out.register_forward_pre_hook(keep)
    device = next(module.parameters()).device
    with torch.no_grad():
        for k in range(0, len(x), at_once):
            module(torch.from_numpy(x[k : k + at_once]).to(device))
    handle.remove()
    return np.concatenate(found).astype(np.float64)


def said(module: torch.nn.Module, test: Examples) -> Integers:
    """Return the class of each window whose output is the largest."""
    device = next(module.parameters()).device
    with torch.no_grad():
        found: Integers = module(torch.from_numpy(test.x).to(device)).argmax(-1).cpu().numpy()
    return found


@dataclass(eq=False)
class _Curve(Keeper[Any]):
    """Keeps nothing of a run but its accuracy after every round."""

    measure: Any
    points: list[float] = field(default_factory=list)

    def close_round(self, state: Any, record: Record) -> None:
        self.points.append(self.measure(state))


def _joined(parts: Mapping[str, Examples]) -> Examples:
    own = list(parts.values())
    return Examples(np.concatenate([e.x for e in own]), np.concatenate([e.y for e in own]))


def _device() -> str:
    return "cuda" if torch.cuda.is_available() else "cpu"
