# mypy: disable-error-code="import-not-found,no-untyped-call,misc"
"""How many clients a second are trained on one GPU, against Flower's simulation and Apple's pfl?

MNIST digits by writer, the convolutional network of federated EMNIST, one epoch of SGD per client
(rate 0.05, batches of 16), a mean weighted by examples; whole network, and with its large layer
frozen. Everyone trains the same number of clients in a round, drawn from the same writers.

    catchment   `fit`: groups are trained at once, messages go through the real codec
    loop        the same in plain torch, one client after the other, no messages: what a
                simulation without any framework does
    pfl         `SimulatedBackend`, one process
    flower      `run_simulation`: Ray actors that share the GPU

The first round of each is not counted: libraries set themselves up, Ray's actors start. Peers are
run as their documentation shows; how many actors Flower gets is the best of those tried.

    python -m benchmarks.partial --runners "catchment,loop,pfl,flower 14 actors"
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from benchmarks.record import RESULTS, machine
from catchment.engine import run_locally
from catchment.federation import Plan
from catchment_research.partial import (
    EmnistCnn,
    Examples,
    FederatedTraining,
    Freeze,
    PartialNetwork,
)
from reproductions.fedpt_data import image_set
from reproductions.fedpt_tasks import Task, writers_task
from reproductions.fedpt_train import answers
from reproductions.networks import EMNIST_FREEZE

SETTINGS = ("cohort", "rounds", "writers")


@dataclass(frozen=True)
class Race:
    """What all runners do."""

    task: Task
    freeze: Freeze
    rounds: int

    @property
    def network(self) -> PartialNetwork:
        return PartialNetwork(make=self.task.make, freeze=self.freeze, seed=0)

    def cohorts(self) -> Iterator[list[str]]:
        names = sorted(self.task.clients)
        for round_ in range(self.rounds):
            rng = np.random.default_rng([0, round_])
            chosen = rng.choice(len(names), self.task.clients_per_round, replace=False)
            yield [names[k] for k in chosen]

    def data(self, name: str) -> Examples:
        source = self.task.clients[name]
        assert not callable(source)
        only: Examples = source[0]
        return only


@dataclass(frozen=True)
class Outcome:
    """Seconds of every round but the first, and the accuracy at the end."""

    seconds: tuple[float, ...]
    accuracy: float


@lru_cache(maxsize=1)
def shared_task(rounds: int, cohort: int, writers: int) -> Task:
    images = image_set("mnist_writers", None, synthetic=False)
    return writers_task(images, rounds=rounds, cohort=cohort, n_writers=writers)


@lru_cache(maxsize=1)
def built(network: PartialNetwork) -> nn.Module:
    """Return the network, made once by each process: it is its seed's in every round."""
    return network.build(device())


def device() -> torch.device:
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def catchment(race: Race) -> Outcome:
    task = race.task
    algorithm = FederatedTraining(network=race.network, steps=task.steps)
    share = task.clients_per_round / len(task.clients)
    result = run_locally(
        Plan(algorithm=algorithm, rounds=race.rounds, client_fraction=share), task.clients
    )
    seconds = tuple(record.seconds for record in result.records[1:])
    return Outcome(seconds, float(answers(result.result, task.test).mean()))


def train_one(module: nn.Module, data: Examples, rng: np.random.Generator, task: Task) -> None:
    """One client's epoch in plain torch."""
    x = torch.from_numpy(data.x).to(device())
    y = torch.from_numpy(data.y).to(device())
    trained = [p for p in module.parameters() if p.requires_grad]
    optimizer = torch.optim.SGD(trained, lr=task.steps.learning_rate)
    order = torch.from_numpy(rng.permutation(len(data.x))).to(device())
    for rows in torch.split(order, task.steps.batch_size):
        optimizer.zero_grad()
        functional.cross_entropy(module(x[rows]), y[rows]).backward()
        optimizer.step()


def loop(race: Race) -> Outcome:
    module = race.network.build(device())
    trained = [p for p in module.parameters() if p.requires_grad]
    rng, seconds = np.random.default_rng(0), []
    for cohort in race.cohorts():
        began = time.perf_counter()
        start = [p.detach().clone() for p in trained]
        sums, weight = [torch.zeros_like(p) for p in start], 0
        for name in cohort:
            data = race.data(name)
            with torch.no_grad():
                for p, s in zip(trained, start, strict=True):
                    p.copy_(s)
            train_one(module, data, rng, race.task)
            with torch.no_grad():
                for total, p in zip(sums, trained, strict=True):
                    total += len(data.x) * p
            weight += len(data.x)
        with torch.no_grad():
            for p, total in zip(trained, sums, strict=True):
                p.copy_(total / weight)
        float(trained[0].detach().flatten()[0])  # waits for the GPU
        seconds.append(time.perf_counter() - began)
    return Outcome(tuple(seconds[1:]), float(answers(module, race.task.test).mean()))


class PflNetwork(nn.Module):
    """The network with the two methods that pfl asks for."""

    def __init__(self, inside: nn.Module) -> None:
        super().__init__()
        self.inside = inside

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = self.inside(x)
        return logits

    def loss(self, x: torch.Tensor, y: torch.Tensor, eval: bool = False) -> torch.Tensor:
        return functional.cross_entropy(self(x), y)

    def metrics(self, x: torch.Tensor, y: torch.Tensor, eval: bool = False) -> dict[str, Any]:
        return {}


def pfl(race: Race) -> Outcome:
    from pfl.aggregate.simulate import SimulatedBackend
    from pfl.algorithm.base import NNAlgorithmParams
    from pfl.algorithm.federated_averaging import FederatedAveraging
    from pfl.callback.base import TrainingProcessCallback
    from pfl.data.federated_dataset import FederatedDataset
    from pfl.data.pytorch import PyTorchTensorDataset
    from pfl.hyperparam import NNTrainHyperParams
    from pfl.metrics import Metrics
    from pfl.model.pytorch import PyTorchModel

    task = race.task
    module = PflNetwork(race.network.build(device()))
    trained = [p for p in module.parameters() if p.requires_grad]
    order = iter([name for cohort in race.cohorts() for name in cohort])

    def tensors(name: str) -> Any:
        data = race.data(name)
        return PyTorchTensorDataset((torch.from_numpy(data.x), torch.from_numpy(data.y)))

    ends: list[float] = []

    class Clock(TrainingProcessCallback):
        def after_central_iteration(self, *args: Any, **kwargs: Any) -> tuple[bool, Any]:
            float(trained[0].detach().flatten()[0])
            ends.append(time.perf_counter())
            return False, Metrics()

    FederatedAveraging().run(
        NNAlgorithmParams(
            central_num_iterations=race.rounds,
            evaluation_frequency=race.rounds + 1,
            train_cohort_size=task.clients_per_round,
            val_cohort_size=0,
        ),
        SimulatedBackend(FederatedDataset(tensors, lambda: next(order)), None),
        PyTorchModel(
            module,
            local_optimizer_create=torch.optim.SGD,
            central_optimizer=torch.optim.SGD(trained, lr=1.0),
        ),
        NNTrainHyperParams(
            local_num_epochs=1,
            local_learning_rate=task.steps.learning_rate,
            local_batch_size=task.steps.batch_size,
        ),
        callbacks=[Clock()],
        send_metrics_to_platform=False,
    )
    return Outcome(tuple(np.diff(ends).tolist()), float(answers(module, task.test).mean()))


def flower(race: Race, actors: int) -> Outcome:
    from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
    from flwr.clientapp import ClientApp
    from flwr.serverapp import Grid, ServerApp
    from flwr.serverapp.strategy import FedAvg
    from flwr.simulation import run_simulation

    task, network = race.task, race.network
    app, last = ClientApp(), dict[str, Any]()
    ends: list[float] = []
    names, size = sorted(task.clients), (race.rounds, task.clients_per_round, len(task.clients))

    @app.train()
    def train(message: Message, context: Context) -> Message:
        from benchmarks.partial import built, shared_task  # kept by each of Ray's processes

        source = shared_task(*size).clients[names[int(context.node_config["partition-id"])]]
        mine: Examples = next(iter(source() if callable(source) else source))
        module = built(network)
        arrays: Any = message.content["arrays"]
        module.load_state_dict(arrays.to_torch_state_dict(), strict=False)
        train_one(module, mine, np.random.default_rng(), task)
        kept = {n: p.detach().cpu() for n, p in module.named_parameters() if p.requires_grad}
        told = MetricRecord({"num-examples": len(mine.x)})
        content = RecordDict({"arrays": ArrayRecord(kept), "metrics": told})
        return Message(content=content, reply_to=message)

    def main(grid: Grid, context: Context) -> None:
        module = network.build()
        start = {n: p.detach() for n, p in module.named_parameters() if p.requires_grad}
        strategy = FedAvg(fraction_train=task.clients_per_round / len(names), fraction_evaluate=0.0)

        def clock(round_: int, arrays: ArrayRecord) -> None:
            ends.append(time.perf_counter())
            last["arrays"] = arrays

        strategy.start(grid, ArrayRecord(start), num_rounds=race.rounds, evaluate_fn=clock)

    server = ServerApp()
    server.main()(main)
    gpus = 1 / actors if torch.cuda.is_available() else 0.0
    backend: Any = {"client_resources": {"num_cpus": 1, "num_gpus": gpus}}
    run_simulation(server, app, len(names), backend_config=backend)
    module = network.build(device())
    module.load_state_dict(last["arrays"].to_torch_state_dict(), strict=False)
    return Outcome(tuple(np.diff(ends[1:]).tolist()), float(answers(module, task.test).mean()))


RUNNERS: dict[str, Callable[[Race], Outcome]] = {
    "catchment": catchment,
    "loop": loop,
    "pfl": pfl,
    "flower 8 actors": lambda race: flower(race, 8),
    "flower 14 actors": lambda race: flower(race, 14),
}


def main() -> None:
    options = _options()
    task = shared_task(options.rounds, options.cohort, options.writers)
    for runner in options.runners.split(","):
        for freeze in (EMNIST_FREEZE, Freeze()):
            race = Race(task, freeze, options.rounds)
            outcome = RUNNERS[runner](race)
            rate = options.cohort / float(np.median(outcome.seconds))
            row = {
                "runner": runner,
                "day": time.strftime("%Y-%m-%d"),
                "trained_percent": race.network.share().percent,
                "clients_per_second": rate,
                "seconds_per_round": list(outcome.seconds),
                "accuracy": outcome.accuracy,
            }
            print(f"{runner:18} {row['trained_percent']:6.2f} %  {rate:8.1f} clients/s", flush=True)
            keep(row, options)


def keep(row: dict[str, Any], options: argparse.Namespace) -> None:
    """Write a row; those of other runners, of the same device and settings, stay as they are."""
    about = {"device": _name(), "settings": {n: getattr(options, n) for n in SETTINGS}}
    old = json.loads(options.out.read_text()) if options.out.exists() else {}
    if {name: old.get(name) for name in about} != about:
        old = {}
    rows = {(one["runner"], one["trained_percent"]): one for one in (*old.get("rows", ()), row)}
    built = {"build_seconds": build_seconds()}
    text = {"machine": machine(), **about, **built, "rows": list(rows.values())}
    options.out.write_text(json.dumps(text, indent=1) + "\n", encoding="utf-8")


@lru_cache(maxsize=1)
def build_seconds() -> float:
    """Return what drawing the network's values takes, which whoever does not keep them pays."""
    times = []
    for _ in range(3):
        began = time.perf_counter()
        module = PartialNetwork(make=EmnistCnn, freeze=EMNIST_FREEZE, seed=0).build(device())
        float(next(module.parameters()).detach().flatten()[0])
        times.append(time.perf_counter() - began)
    return min(times)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runners", default="catchment,loop")
    parser.add_argument("--cohort", type=int, default=40)
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--writers", type=int, default=200)
    parser.add_argument("--out", type=Path, default=RESULTS / "partial.json")
    return parser.parse_args()


def _name() -> str:
    return torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu"


if __name__ == "__main__":
    main()
