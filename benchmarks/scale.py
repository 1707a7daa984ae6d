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
from contextlib import suppress
from functools import partial, reduce
from operator import add

import numpy as np

from benchmarks.record import write
from catchment import Array, Recording, Reservoir, ordered_map, single_blas_thread
from catchment.engine import run_locally
from catchment.features import EchoState
from catchment.federation import BLOCK, Plan, Tally
from catchment.federation.learn import FederatedRidge, RidgeState
from catchment.readout import Model, RidgeStatistics

UNITS, STEPS, WASHOUT, LEAK, RADIUS, RIDGE = 100, 200, 20, 0.3, 0.9, 1e-6
SIZES = (1_000, 10_000, 100_000)
PEER_CLIENTS = 1_000


def series(k: int) -> tuple[Array, Array]:
    """Return inputs (200, 1) and the next values (200, 1) of client k."""
    wave = np.sin(np.arange(STEPS + 1) * (0.05 + k % 97 / 300) + k)
    return wave[:-1, None], wave[1:, None]


class Clients(Mapping[str, Callable[[], list[Recording]]]):
    """So many clients, by name; their data is made when it is asked for."""

    def __init__(self, size: int) -> None:
        self.size = size

    def __len__(self) -> int:
        return self.size

    def __iter__(self) -> Iterator[str]:
        return (f"client-{k:06d}" for k in range(self.size))

    def __getitem__(self, name: str) -> Callable[[], list[Recording]]:
        return partial(client_data, int(name.removeprefix("client-")))


def client_data(k: int) -> list[Recording]:
    return [Recording(*series(k))]


def features() -> EchoState:
    recipe = Reservoir(
        units=UNITS, inputs=1, spectral_radius=RADIUS, leak_rate=LEAK, connections=10, seed=1
    )
    return EchoState.of(recipe, washout=WASHOUT)


def plan() -> Plan[RidgeState, Tally[RidgeStatistics], Model]:
    return Plan(algorithm=FederatedRidge(features=features(), ridge=RIDGE, store_per_client=False))


def run(size: int, threads: int) -> tuple[float, RidgeStatistics]:
    """Return the seconds of one run and its sum."""
    agreed = plan()
    run_locally(agreed, Clients(2), threads=1)
    begin = time.perf_counter()
    result = run_locally(agreed, Clients(size), threads=threads)
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
        total = run_locally(agreed, block).state.total
        assert total is not None
        sums.append(total)
    return digest(reduce(add, sums))


Work = Callable[[int | None], object]


def peers() -> dict[str, Work]:
    """Return the same thousand clients' federated ridge in each library; data included.

    The argument is the number of threads, all cores if None.
    """
    layer = features().reservoir.layers[0]
    W, W_in = layer.W.to_dense(), layer.W_in.to_dense()
    agreed = plan()
    found: dict[str, Work] = {
        "catchment": lambda threads: run_locally(agreed, Clients(PEER_CLIENTS), threads=threads)
    }
    with suppress(ImportError):
        found["esnfed"] = esnfed_work(W, W_in, layer.bias)
    with suppress(ImportError):
        found["reservoirpy, pooled"] = reservoirpy_work(W, W_in, layer.bias)
    return found


def esnfed_work(W: Array, W_in: Array, bias: Array) -> Work:
    import esnfed
    from esnfed.federated import Client, federated_ridge

    esn = esnfed.EchoStateNetwork(
        n_inputs=1,
        n_outputs=1,
        reservoir=W,
        spectral_radius=RADIUS,
        leaking_rate=LEAK,
        ridge=RIDGE,
        washout=WASHOUT,
        input_weights=np.column_stack([bias, W_in]),
    )

    def work(threads: int | None) -> object:
        return federated_ridge([Client(esn, *series(k)) for k in range(PEER_CLIENTS)], esn)

    return work


def reservoirpy_work(W: Array, W_in: Array, bias: Array) -> Work:
    from reservoirpy.nodes import Reservoir as Node
    from reservoirpy.nodes import Ridge

    node = Node(units=UNITS, lr=LEAK, W=W, Win=W_in, bias=bias)
    node.initialize(series(0)[0])

    def work(threads: int | None) -> object:
        workers = threads or -1
        node.reset()
        us, ys = zip(*(series(k) for k in range(PEER_CLIENTS)), strict=True)
        states = node.run(list(us), workers=workers)
        rows = [np.hstack([u, x]) for u, x in zip(us, states, strict=True)]
        return Ridge(ridge=RIDGE).fit(rows, list(ys), warmup=WASHOUT, workers=workers)

    return work


def compare(repeats: int) -> dict[str, dict[str, float]]:
    """Return for each library the CPU seconds of one thread and the wall seconds of all cores.

    Runs are taken in turns and the least of each is kept: whatever else the machine does can only
    add to it. On one thread linear algebra is, too.
    """
    works = peers()
    seconds = {name: {"one thread, CPU": np.inf, "all cores, wall": np.inf} for name in works}
    for turn in range(1 + repeats):
        for name, work in works.items():
            with single_blas_thread():
                alone = timed(partial(work, 1), time.process_time)
            wide = timed(partial(work, None), time.perf_counter)
            if turn > 0:  # the first compiles
                best = seconds[name]
                best["one thread, CPU"] = min(best["one thread, CPU"], alone)
                best["all cores, wall"] = min(best["all cores, wall"], wide)
    return seconds


def cores_at_hand(seconds: float = 1.0) -> float:
    """Return how many cores two threads really get: other work on the machine takes its share."""
    data = bytes(1 << 20)

    def burn(_: int) -> None:
        end = time.perf_counter() + seconds
        while time.perf_counter() < end:
            hashlib.sha256(data)

    wall, cpu = time.perf_counter(), time.process_time()
    list(ordered_map(burn, range(2), threads=2))
    return (time.process_time() - cpu) / (time.perf_counter() - wall)


def timed(work: Callable[[], object], clock: Callable[[], float]) -> float:
    begin = clock()
    work()
    return clock() - begin


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
    free = [cores_at_hand()]
    seconds = compare(options.repeats)
    free.append(cores_at_hand())
    print(f"two threads had {min(free):.2f} cores")
    ours = seconds["catchment"]
    ratios = {
        name: {key: round(value / ours[key], 2) for key, value in row.items()}
        for name, row in seconds.items()
    }
    for name, times in seconds.items():
        print(name, {key: round(value, 3) for key, value in times.items()}, "times", ratios[name])
    peak = {row["clients"]: float(row["peak MiB"]) for row in runs if row["threads"] == 2}
    path = write(
        "scale",
        {
            "task": f"{UNITS} units, {STEPS} steps per client, washout {WASHOUT}",
            "cores that two threads had, before and after the peers": [
                round(cores, 2) for cores in free
            ],
            "runs": runs,
            "peak memory, largest over smallest size": round(peak[max(peak)] / peak[min(peak)], 3),
            "two levels of servers": {"clients": middle, "block": BLOCK, "same bytes": same},
            "peers": {
                "clients": PEER_CLIENTS,
                "seconds": {
                    name: {key: round(value, 4) for key, value in row.items()}
                    for name, row in seconds.items()
                },
                "times ours": ratios,
            },
        },
    )
    print(f"results: {path}")


if __name__ == "__main__":
    main()
