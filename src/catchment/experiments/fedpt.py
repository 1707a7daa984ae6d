"""FedPT's tables: what freezing most of a network costs in accuracy and saves in everything else.

Stand-ins for the paper's data, all federated: MNIST digits by writer for EMNIST (Table 1 and the
private runs of Table 5), a fifth of CIFAR-10 cut by Dirichlet(1) for CIFAR-10 (Tables 2 and 4).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from catchment.data.clients import client_name
from catchment.data.loaders import load_images
from catchment.engine.local import fit
from catchment.federation.optimisers import Mean, ServerOptimiser
from catchment.federation.plan import Plan
from catchment.partial.freeze import Freeze, PartialNetwork
from catchment.partial.ftrl import FollowTheLeader
from catchment.partial.local import Examples, LocalSteps
from catchment.partial.models import EMNIST_FREEZE, RESNET_FREEZES, EmnistCnn, ResNet18
from catchment.partial.training import FederatedTraining

Clients = Mapping[str, list[Examples]]
PAPER_EMNIST = {100.0: 85.47, 4.97: 83.75}
PAPER_CIFAR = {100.0: 83.65, 26.25: 83.57, 8.07: 82.82, 3.47: 80.76, 2.16: 79.49}


@dataclass(frozen=True, kw_only=True)
class Task:
    """A network's data, and the settings that every share of trainable parameters is run with."""

    make: Callable[[], torch.nn.Module]
    clients: Clients
    test: Examples
    steps: LocalSteps
    clients_per_round: int
    rounds: int
    optimiser: ServerOptimiser = field(default_factory=Mean)


@dataclass(frozen=True, kw_only=True)
class Row:
    """One run: what was trained, how well it does, and what it cost."""

    percent: float
    reduction: float
    accuracy: float
    seconds_per_round: float
    bytes_up_per_client: int
    peak_mebibytes: float | None
    seed: int
    noise: float = 0.0


def run(
    task: Task,
    freeze: Freeze,
    seed: int,
    *,
    noise: float | None = None,
    clip: float | None = None,
    learning_rate: float = 1.0,
) -> Row:
    """Return the outcome of one federated training.

    Parameters
    ----------
    noise
        Multiplier of DP-FTRL by tree aggregation; None trains without privacy. Clients are drawn
        anew each round and may come up several times, so no epsilon is stated: `tree_epsilon` is
        for clients that take part once per tree.
    clip
        Bound of a client's change; needed with noise.
    learning_rate
        Of the private server.
    """
    optimiser: ServerOptimiser = task.optimiser
    if noise is not None and clip is not None:
        optimiser = FollowTheLeader(
            noise_multiplier=noise,
            clip=clip,
            clients=task.clients_per_round,
            rounds=task.rounds,
            learning_rate=learning_rate,
        )
    algorithm = FederatedTraining(
        network=PartialNetwork(make=task.make, freeze=freeze, seed=seed),
        steps=task.steps,
        optimiser=optimiser,
        clip=clip,
        at_once=task.clients_per_round if torch.cuda.is_available() else None,
    )
    share = algorithm.network.share()
    plan = Plan(
        algorithm=algorithm,
        rounds=task.rounds,
        share=task.clients_per_round / len(task.clients),
        seed=seed,
    )
    if torch.cuda.is_available():
        torch.cuda.reset_peak_memory_stats()
    began = time.perf_counter()
    result = fit(plan, task.clients, threads=1)
    seconds = time.perf_counter() - began
    peak = torch.cuda.max_memory_allocated() / 2**20 if torch.cuda.is_available() else None
    return Row(
        percent=share.percent,
        reduction=share.reduction,
        accuracy=accuracy(algorithm.trained_module(result.state), task.test),
        seconds_per_round=seconds / task.rounds,
        bytes_up_per_client=result.records[-1].bytes_up // result.records[-1].n_used,
        peak_mebibytes=peak,
        seed=seed,
        noise=noise or 0.0,
    )


def accuracy(module: torch.nn.Module, test: Examples) -> float:
    """Return the share of examples whose largest output is their class."""
    device = next(module.parameters()).device
    right = 0
    with torch.no_grad():
        for x, y in batches(test, 500):
            guess = module(torch.from_numpy(x).to(device)).argmax(-1)
            right += int((guess.cpu().numpy() == y).sum())
    return right / len(test.y)


def batches(examples: Examples, size: int) -> Iterator[tuple[NDArray[Any], NDArray[np.int64]]]:
    for k in range(0, len(examples.x), size):
        yield examples.x[k : k + size], examples.y[k : k + size]


def writers_task(
    directory: str | None = None,
    *,
    n_writers: int | None = None,
    rounds: int = 60,
    cohort: int = 40,
) -> Task:
    """Return MNIST by writer with the EMNIST network (62 outputs, ten of them used)."""
    images = load_images("mnist_writers", directory=directory)
    chosen = dict(list(images.positions.items())[:n_writers])
    return Task(
        make=EmnistCnn,
        clients={
            name: [_examples(images.train[where], images.train_labels[where])]
            for name, where in chosen.items()
        },
        test=_examples(images.test, images.test_labels),
        steps=LocalSteps(learning_rate=0.05, batch_size=16),
        clients_per_round=cohort,
        rounds=rounds,
    )


def cifar_task(
    directory: str | None = None, *, n_clients: int = 50, rounds: int = 60, cohort: int = 10
) -> Task:
    """Return CIFAR-10 cut by Dirichlet(1) with ResNet-18 (100 outputs, ten of them used)."""
    images = load_images("cifar10", directory=directory)
    middle = slice(4, 28)  # the paper crops to 24 x 24
    train = _examples(images.train[:, middle, middle], images.train_labels)
    owners = dirichlet_owners(train.y, n_clients, alpha=1.0, seed=0)
    return Task(
        make=ResNet18,
        clients={
            client_name(k): [Examples(train.x[owners == k], train.y[owners == k])]
            for k in range(n_clients)
            if (owners == k).any()
        },
        test=_examples(images.test[:, middle, middle], images.test_labels),
        steps=LocalSteps(learning_rate=0.05, batch_size=20),
        clients_per_round=cohort,
        rounds=rounds,
    )


def dirichlet_owners(
    labels: NDArray[np.int64], n_clients: int, *, alpha: float, seed: int
) -> NDArray[np.int64]:
    """Return the client (n,) of each example; a client's classes follow a Dirichlet draw.

    Clients get equally many examples, drawn by their class shares while the classes last.

    >>> owners = dirichlet_owners(np.arange(100) % 10, 5, alpha=1.0, seed=0)
    >>> np.bincount(owners)
    array([20, 20, 20, 20, 20])
    """
    rng = np.random.default_rng(seed)
    n_classes = int(labels.max()) + 1
    left = [list(rng.permutation(np.flatnonzero(labels == c))) for c in range(n_classes)]
    owners = np.empty(len(labels), dtype=np.int64)
    for k in range(n_clients):
        share = rng.dirichlet(np.full(n_classes, alpha))
        size = len(labels) * (k + 1) // n_clients - len(labels) * k // n_clients
        for _ in range(size):
            weights = share * [bool(pool) for pool in left]
            if weights.sum() == 0:
                weights = np.array([float(len(pool)) for pool in left])
            c = int(rng.choice(n_classes, p=weights / weights.sum()))
            owners[left[c].pop()] = k
    return owners


def table1(task: Task, seeds: Sequence[int]) -> list[Row]:
    """Return the EMNIST network with everything trained and with its large layer frozen."""
    return [run(task, freeze, seed) for seed in seeds for freeze in (Freeze(), EMNIST_FREEZE)]


def table2(task: Task, seeds: Sequence[int], percents: Sequence[float]) -> list[Row]:
    """Return ResNet-18 with everything trained (100) and with stages frozen."""
    freezes = {100.0: Freeze(), **RESNET_FREEZES}
    return [run(task, freezes[percent], seed) for seed in seeds for percent in percents]


def table5(
    task: Task, seeds: Sequence[int], noises: Sequence[float], *, clip: float, learning_rate: float
) -> list[Row]:
    """Return private training of all and of part of the EMNIST network at several noises."""
    return [
        run(task, freeze, seed, noise=noise, clip=clip, learning_rate=learning_rate)
        for noise in noises
        for seed in seeds
        for freeze in (Freeze(), EMNIST_FREEZE)
    ]


def _examples(pixels: NDArray[np.uint8], labels: NDArray[Any]) -> Examples:
    """Return grey or colour images as (n, channels, height, width) around zero."""
    x = pixels[:, None] if pixels.ndim == 3 else pixels.transpose(0, 3, 1, 2)
    scaled = (x / np.float32(255) - np.float32(0.5)) * np.float32(2)
    return Examples(np.ascontiguousarray(scaled), labels.astype(np.int64))
