"""What a client costs a worker process: reading, features and sums, and all else, here and before.

    python -m benchmarks.worker ../before [--clients 20000] [--repeats 3]

The clients are those of `benchmarks.million`, in blocks of 256 as a worker gets them. What a block
takes beyond reading, features and sums is messages, checks, ledger and addition. The two working
trees take turns, on one thread and in one process each, and the least CPU time of the repeats
counts: a busy machine only ever adds to it. Writes results/worker.json.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.million_data import CLASSES, INPUTS, make
from benchmarks.million_naive import CONNECTIONS, LEAK, UNITS, WASHOUT
from benchmarks.record import write
from benchmarks.two_commits import HERE, asked, commit, started
from catchment import EchoState
from catchment.engine import sum_sources
from catchment.federation import BLOCK, Plan, Request, RoundContext
from catchment.federation.learn import FederatedRidge
from catchment.wire import NOTHING
from catchment_fleet import read_parquet

TRAINING, BLOCKS = "reading, features and sums", "all of a block"


def serve() -> None:
    """Answer each folder of clients on stdin with CPU microseconds a client."""
    echo = EchoState(UNITS, connections=CONNECTIONS, washout=WASHOUT, leak_rate=LEAK, seed=1)
    ridge: Any = FederatedRidge(
        features=echo.build(len(INPUTS), per_step=True),
        ridge="leave-one-group-out",
        store_per_client="groups",
        classes=CLASSES,
    )
    plan = Plan(algorithm=ridge, n_targets=len(CLASSES))
    columns: Any = {"client": "client", "inputs": INPUTS, "label": "label", "classes": CLASSES}
    for line in sys.stdin:
        clients = read_parquet(line.strip(), per_step=True, **columns)
        print(json.dumps(microseconds(plan, clients)), flush=True)


def microseconds(plan: Plan[Any, Any, Any], clients: Any) -> dict[str, float]:
    """Return CPU microseconds a client, and how many bytes one sends."""
    names = sorted(clients)
    blocks = [tuple(names[k : k + BLOCK]) for k in range(0, len(names), BLOCK)]
    context = RoundContext(0, (), plan.seed, plan=plan.fingerprint())
    message = Request(context.plan, context, "update", NOTHING, NOTHING).to_bytes()
    size = plan.algorithm.group_size(BLOCK, 1)

    def features(block: tuple[str, ...]) -> None:
        for k in range(0, len(block), size):
            turns = [(clients[name], replace(context, client=name)) for name in block[k : k + size]]
            plan.algorithm.client_updates(NOTHING, turns)

    def whole(block: tuple[str, ...]) -> int:
        (done,) = sum_sources(plan, message, {name: clients[name] for name in block}, [block])
        assert done is not None
        assert len(done.clients) == len(block)
        return done.bytes_up

    features(blocks[0])  # compiles
    whole(blocks[0])
    begin = time.process_time()
    for block in blocks:
        features(block)
    middle = time.process_time()
    sent = sum(map(whole, blocks))
    spent = {TRAINING: middle - begin, BLOCKS: time.process_time() - middle}
    found = {name: seconds / len(names) * 1e6 for name, seconds in spent.items()}
    return {**found, "bytes": sent / len(names)}


def main() -> None:
    """Measure, and write what was found."""
    parser = argparse.ArgumentParser(description="Microseconds of a worker for a client, twice.")
    parser.add_argument("other", type=Path, help="the tree to compare with")
    parser.add_argument("--clients", type=int, default=20_000)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    trees = {"before": options.other, "after": HERE}
    with tempfile.TemporaryDirectory(prefix="worker-") as folder:
        about = make(Path(folder), options.clients)
        served = {name: started(tree, __file__) for name, tree in trees.items()}
        turns = [{k: asked(p, folder) for k, p in served.items()} for _ in range(options.repeats)]
        for process in served.values():
            process.communicate()
    found = {}
    for name, tree in trees.items():
        least = {part: min(turn[name][part] for turn in turns) for part in turns[0][name]}
        rest = least[BLOCKS] - least[TRAINING]
        told = {part: round(value) for part, value in {**least, "all else": rest}.items()}
        found[name] = {"commit": commit(tree), **told}
        print(name, found[name])
    task = {"clients": options.clients, "sha256 of the values": about["sha256 of the values"]}
    write("worker", {**task, "CPU microseconds a client": found})


if __name__ == "__main__":
    main()
