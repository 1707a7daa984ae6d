"""Peak memory of a simulation of many clients: ours, a loop that keeps all updates, and Flower's.

    python -m benchmarks.answers.simulation_memory        # results/answers_memory.json, ten minutes
    python -m benchmarks.answers.simulation_memory --clients 20 --runners catchment loop --out /tmp

The clients are those of `benchmarks.scale`: 200 steps each, a reservoir of 100 units, one message
of ridge statistics. Each runner has a process of its own; see `benchmarks.answers.watched`.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from functools import cache, reduce
from importlib.metadata import version
from itertools import product
from operator import add
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.answers.watched import watched
from benchmarks.record import RESULTS, write
from benchmarks.scale import client_data, features, run
from catchment import RidgeStatistics
from catchment.features import EchoState
from catchment.readout import accumulate

SIZES, LIMIT = (1_000, 10_000), 470.0


def ours(n_clients: int) -> RidgeStatistics:
    return run(n_clients, 1)[1]


@cache
def reservoir() -> EchoState:
    return features()


def update(k: int) -> RidgeStatistics:
    """Return what client k sends."""
    return accumulate(reservoir(), client_data(k))


def loop(n_clients: int) -> RidgeStatistics:
    """Keep everybody's update, then add them."""
    return reduce(add, [update(k) for k in range(n_clients)])


def flower(n_clients: int) -> tuple[Any, Any]:
    """Run Flower's simulation with its own FedAvg; the mean update times the clients is the sum."""
    from flwr.app import ArrayRecord, ConfigRecord, Context, Message, MetricRecord, RecordDict
    from flwr.clientapp import ClientApp
    from flwr.serverapp import Grid, ServerApp
    from flwr.serverapp.strategy import FedAvg
    from flwr.simulation import run_simulation

    # By its module's name, so that Flower's workers import it and keep their reservoir.
    from benchmarks.answers.simulation_memory import update as update_of

    client, server, found = ClientApp(), ServerApp(), []

    @client.train()
    def train(message: Message, context: Context) -> Message:
        sent = update_of(int(context.node_config["partition-id"]))
        content = RecordDict()
        content["arrays"] = ArrayRecord([sent.gram, sent.cross])
        content["metrics"] = MetricRecord({"num-examples": sent.n_rows})
        return Message(content=content, reply_to=message)

    @server.main()
    def main(grid: Grid, context: Context) -> None:
        # The fraction alone is taken of the nodes that happen to be connected at the start.
        strategy = FedAvg(
            fraction_evaluate=0.0, min_train_nodes=n_clients, min_available_nodes=n_clients
        )
        start = ArrayRecord([np.zeros(1), np.zeros(1)])
        result = strategy.start(grid, start, num_rounds=1, train_config=ConfigRecord({}))
        found.append(result.arrays.to_numpy_ndarrays())

    run_simulation(server, client, n_clients)
    gram, cross = found[0]
    return gram * n_clients, cross * n_clients


RUNNERS: dict[str, Callable[[int], Any]] = {"catchment": ours, "loop": loop, "flower": flower}


def one(runner: str, n_clients: int) -> None:
    """Do one run and print a few entries of its sum, so that runs can be compared."""
    found = RUNNERS[runner](n_clients)
    gram = found[0] if isinstance(found, tuple) else found.gram
    print(json.dumps({"gram": [float(x) for x in np.ravel(gram)[:3]]}))


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clients", type=int, nargs="+", default=SIZES)
    parser.add_argument("--runners", nargs="+", choices=RUNNERS, default=list(RUNNERS))
    parser.add_argument("--limit", type=float, default=LIMIT, help="seconds that a run may take")
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--one", choices=RUNNERS, help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    if given.one:
        one(given.one, given.clients[0])
        return
    rows = []
    for n_clients, runner in product(given.clients, given.runners):
        command = [sys.executable, "-m", "benchmarks.answers.simulation_memory", "--one", runner]
        found = watched([*command, "--clients", str(n_clients)], limit=given.limit)
        rows.append({"runner": runner, "clients": n_clients, **found})
    versions = {name: version(name) for name in ("flwr", "ray")}
    write("answers_memory", versions | {"runs": rows}, folder=given.out)


if __name__ == "__main__":
    main()
