"""How many clients: throughput and memory from a thousand to a hundred thousand, in process.

Every client has 200 steps of a wave, made when it is asked, and a reservoir of 100 units; it sends
its statistics through the codec, the server checks and adds them. Each size runs in a fresh process
so that its peak memory is its own. Then: the same sum by two levels of servers, byte for byte; and
a thousand clients with the peers' federated ridge, in the same run.

    python -m benchmarks.scale [--sizes 1000 10000 100000] [--repeats 3]
"""

from __future__ import annotations

import argparse
import hashlib
import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial, reduce
from operator import add

import numpy as np
from benchmarks.record import write

from catchment import Features, Recipe, Reservoir, Sequence
from catchment.arrays import Array
from catchment.engine.local import fit
from catchment.federation.loop import BLOCK
from catchment.federation.plan import Plan
from catchment.federation.ridge import FederatedRidge, RidgeState
from catchment.federation.values import Tally
from catchment.parallel import single_blas_thread
from catchment.readout.statistics import RidgeStatistics

UNITS, STEPS, WASHOUT, LEAK, RADIUS, RIDGE = 100, 200, 20, 0.3, 0.9, 1e-6
SIZES = (1_000, 10_000, 100_000)
PEER_CLIENTS = 1_000


def series(k: int) -> tuple[Array, Array]:
    """Return inputs (200, 1) and the next values (200, 1) of client k."""
    wave = np.sin(np.arange(STEPS + 1) * (0.05 + k % 97 / 300) + k)
    return wave[:-1, None], wave[1:, None]


class Clients(Mapping[str, Callable[[], list[Sequence]]]):
    """So many clients, by name; their data is made when it is asked for."""

    def __init__(self, size: int) -> None:
        self.size = size

    def __len__(self) -> int:
        return self.size

    def __iter__(self) -> Iterator[str]:
        return (f"client-{k:06d}" for k in range(self.size))

    def __getitem__(self, name: str) -> Callable[[], list[Sequence]]:
        return partial(client_data, int(name.removeprefix("client-")))


def client_data(k: int) -> list[Sequence]:
    return [Sequence(*series(k))]


def features() -> Features:
    recipe = Recipe(
        units=UNITS, inputs=1, spectral_radius=RADIUS, leak_rate=LEAK, connections=10, seed=1
    )
    return Features(Reservoir.from_recipe(recipe), washout=WASHOUT)


def plan() -> Plan[RidgeState, Tally[RidgeStatistics]]:
    return Plan(algorithm=FederatedRidge(features=features(), ridge=RIDGE, keep_clients=False))


def run(size: int, threads: int) -> tuple[float, RidgeStatistics]:
    """Return the seconds of one run and its sum."""
    agreed = plan()
    fit(agreed, Clients(2), threads=1)
    begin = time.perf_counter()
    result = fit(agreed, Clients(size), threads=threads)
    seconds = time.perf_counter() - begin
    assert result.records[0].n_used == size
    total = result.state.total
    assert total is not None
    return seconds, total


def report(size: int, threads: int) -> None:
    """Print one run's figures as JSON; called in a process of its own."""
    seconds, total = run(size, threads)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(
        json.dumps(
            {
                "clients": size,
                "threads": threads,
                "seconds": round(seconds, 3),
                "clients per second": round(size / seconds),
                "peak MiB": round(peak, 1),
                "sha256 of the sum": digest(total),
            }
        )
    )


def in_fresh_process(size: int, threads: int) -> dict[str, float | str]:
    command = [sys.executable, "-m", "benchmarks.scale", "--one", str(size), str(threads)]
    finished = subprocess.run(command, capture_output=True, text=True, check=True)
    found: dict[str, float | str] = json.loads(finished.stdout)
    return found


def digest(total: RidgeStatistics) -> str:
    return hashlib.sha256(total.parts().to_bytes()).hexdigest()


def two_levels(size: int) -> str:
    """Return the hash of the sum of sub-servers' sums, each over a block of clients.

    A sub-server is a run of its own over the clients of its block.
    """
    names, everyone = sorted(Clients(size)), Clients(size)
    agreed = plan()
    sums = []
    for first in range(0, size, BLOCK):
        block = {name: everyone[name] for name in names[first : first + BLOCK]}
        total = fit(agreed, block).state.total
        assert total is not None
        sums.append(total)
    return digest(reduce(add, sums))


def peers() -> dict[str, Callable[[], object]]:
    """Return the same thousand clients' federated ridge in each library; data included."""
    recurrent = features().reservoir.layers[0]
    W, W_in = recurrent.W.to_dense(), recurrent.W_in.to_dense()
    found: dict[str, Callable[[], object]] = {
        "catchment": lambda: run_plan(threads=None),
        "catchment, 1 thread": lambda: run_plan(threads=1),
    }
    try:
        import esnfed.federated
    except ImportError:
        pass
    else:
        esn = esnfed.EchoStateNetwork(
            n_inputs=1,
            n_outputs=1,
            reservoir=W,
            spectral_radius=RADIUS,
            leaking_rate=LEAK,
            ridge=RIDGE,
            washout=WASHOUT,
            input_weights=np.column_stack([recurrent.bias, W_in]),
        )

        def federated() -> object:
            clients = [esnfed.federated.Client(esn, *series(k)) for k in range(PEER_CLIENTS)]
            return esnfed.federated.federated_ridge(clients, esn)

        found["esnfed"] = federated
        found["esnfed, 1 BLAS thread"] = lambda: alone(federated)
    try:
        from reservoirpy.nodes import Reservoir as Node
        from reservoirpy.nodes import Ridge
    except ImportError:
        return found
    node = Node(units=UNITS, lr=LEAK, W=W, Win=W_in, bias=recurrent.bias)
    node.initialize(series(0)[0])

    def pooled() -> object:
        node.reset()
        us, ys = zip(*(series(k) for k in range(PEER_CLIENTS)), strict=True)
        states = node.run(list(us), workers=-1)
        rows = [np.hstack([u, x]) for u, x in zip(us, states, strict=True)]
        return Ridge(ridge=RIDGE).fit(rows, list(ys), warmup=WASHOUT, workers=-1)

    found["reservoirpy, pooled"] = pooled
    return found


def alone(work: Callable[[], object]) -> object:
    """Return what the work returns, its linear algebra kept on one thread."""
    with single_blas_thread():
        return work()


def run_plan(threads: int | None) -> object:
    return fit(plan(), Clients(PEER_CLIENTS), threads=threads)


def compare(repeats: int) -> dict[str, float]:
    """Return the least seconds of each library, their runs taken in turns.

    The least, because whatever else the machine does can only add to it.
    """
    works = peers()
    for work in works.values():
        work()
    seconds: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(repeats):
        for name, work in works.items():
            begin = time.perf_counter()
            work()
            seconds[name].append(time.perf_counter() - begin)
    return {name: min(values) for name, values in seconds.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="+", default=list(SIZES))
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--one", type=int, nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        report(*options.one)
        return
    runs = [in_fresh_process(size, threads) for size in options.sizes for threads in (1, 2)]
    for row in runs:
        print(row)
    hashes = {row["clients"]: row["sha256 of the sum"] for row in runs}
    middle = sorted(options.sizes)[len(options.sizes) // 2]
    same = two_levels(middle) == hashes[middle]
    print(f"two levels of servers over {middle} clients, byte for byte the same sum: {same}")
    seconds = compare(options.repeats)
    ratios = {name: value / seconds["catchment"] for name, value in seconds.items()}
    for name, value in seconds.items():
        rate = PEER_CLIENTS / value
        print(f"{name}: {value:.3f} s, {rate:.0f} clients/s, {ratios[name]:.1f}x ours")
    peak = {row["clients"]: float(row["peak MiB"]) for row in runs if row["threads"] == 2}
    path = write(
        "scale",
        {
            "task": f"{UNITS} units, {STEPS} steps per client, washout {WASHOUT}",
            "runs": runs,
            "peak memory, largest over smallest size": round(peak[max(peak)] / peak[min(peak)], 3),
            "two levels of servers": {"clients": middle, "block": BLOCK, "same bytes": same},
            "peers": {
                "clients": PEER_CLIENTS,
                "seconds": {name: round(value, 4) for name, value in seconds.items()},
                "times ours": {name: round(value, 2) for name, value in ratios.items()},
            },
        },
    )
    print(f"results: {path}")


if __name__ == "__main__":
    main()
