"""Checks on a real Ray: workers killed, the command, an aggregation.

Run by `tests.engine.simulated`, in a process of its own. Workers import this module, many of them,
so it is light: what only the checks need is imported in them.
"""

from __future__ import annotations

import hashlib
import os
import signal
import socket
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from catchment import Array, Integers
from catchment.data import Recording
from catchment.engine import run_locally
from catchment.errors import FederationError
from catchment.federation import BLOCK, Algorithm, Data, Plan, RoundContext
from catchment.wire import Message, Summable
from catchment_fleet.ray import RayWorkers

N_BLOCKS = 18
Source = Any


@dataclass(frozen=True, eq=False)
class Counts(Summable):
    """Integers, whose sum has no order."""

    n: int
    counts: Integers


@dataclass(frozen=True, eq=False)
class Numbers(Summable):
    """Numbers that are not whole: the order of their sum is part of the result."""

    n: int
    numbers: Array


@dataclass(frozen=True)
class Counting(Algorithm[Counts, Counts, Counts]):
    """Adds what clients count."""

    def start(self) -> Counts:
        return Counts(0, np.zeros(3, np.int64))

    def client_update(self, received: Message, data: Data, context: RoundContext) -> Counts:
        return Counts(1, np.array(list(data()), np.int64))

    def server_update(self, state: Counts, total: Counts, context: RoundContext) -> Counts:
        return total

    def result(self, state: Counts) -> Counts:
        return state


@dataclass(frozen=True)
class Adding(Algorithm[Numbers, Numbers, Numbers]):
    """Adds what clients measure."""

    def start(self) -> Numbers:
        return Numbers(0, np.zeros(3))

    def client_update(self, received: Message, data: Data, context: RoundContext) -> Numbers:
        return Numbers(1, np.array(list(data())) * np.pi)

    def server_update(self, state: Numbers, total: Numbers, context: RoundContext) -> Numbers:
        return total

    def result(self, state: Numbers) -> Numbers:
        return state


def wave(k: int) -> list[Recording]:
    if k % BLOCK == 0:
        time.sleep(0.05)  # so that a worker is at work when it is killed
    series = np.sin(np.arange(31) * (0.05 + k % 97 / 300) + k)
    return [Recording(series[:-1], series[1:])]


def ridge() -> Plan[Any, Any, Any]:
    from catchment import NVAR, FederatedRidge

    features = NVAR(delays=3).build(1, per_step=True)
    return Plan(algorithm=FederatedRidge(features=features, ridge=1e-3, store_per_client=False))


def sha256(model: Any) -> str:
    from catchment.readout import to_bytes

    return hashlib.sha256(to_bytes(model)).hexdigest()


def busy_workers(doing: bytes = b"add_blocks") -> Iterator[int]:
    """Yield the processes of this program's Ray that add a block right now."""
    parents = {}
    for place in Path("/proc").glob("[0-9]*"):
        try:
            words = (place / "stat").read_text().rpartition(")")[2].split()
            title = (place / "cmdline").read_bytes()
        except OSError:  # it has ended meanwhile
            continue
        parents[int(place.name)] = int(words[1]), title
    for pid, (parent, title) in parents.items():
        if title.startswith(b"ray::" + doing) and parents.get(parent, (0,))[0] == os.getpid():
            yield pid


@dataclass
class Killer:
    """Kills a worker that is at work, three times in a run."""

    victims: list[int] = field(default_factory=list)

    def __call__(self, round_: int, done: int, asked: int) -> None:
        worker = next(busy_workers(), None)
        if worker and worker not in self.victims and len(self.victims) < 3:
            os.kill(worker, signal.SIGKILL)
            self.victims.append(worker)


def killed(_: Path) -> None:
    clients: dict[str, Source] = {f"c{k:05d}": partial(wave, k) for k in range(N_BLOCKS * BLOCK)}
    here, killer = run_locally(ridge(), clients, threads=1), Killer()
    there = run_locally(ridge(), clients, workers=RayWorkers(2), watch=killer)
    assert len(set(killer.victims)) == 3
    assert sha256(there.model) == sha256(here.model)
    counts = [(r.n_used, r.bytes_up, r.bytes_down, r.refused) for r in there.records]
    assert counts == [(r.n_used, r.bytes_up, r.bytes_down, r.refused) for r in here.records]


def deadly() -> list[Recording]:
    os.kill(os.getpid(), signal.SIGKILL)
    return []


def one_sentence(_: Path) -> None:
    """A block that ends every worker, and a source that cannot be read where the worker is."""
    import pytest

    clients: dict[str, Source] = {f"c{k:05d}": partial(tuple, (k, 1, 2)) for k in range(2 * BLOCK)}
    with pytest.raises(FederationError, match="begun 4 times"):
        run_locally(Plan(algorithm=Counting()), clients | {"c": deadly}, workers=RayWorkers(2))
    done = run_locally(Plan(algorithm=Counting()), clients | {"c": int}, workers=RayWorkers(2))
    assert [refusal.client for refusal in done.refused] == ["c"]


def by_address(folder: Path) -> None:
    """A cluster of one machine, from this program and from one that is not on the cluster."""
    import subprocess
    import sys

    import ray

    ports = free_port(), free_port()
    start = f"start --head --block --num-cpus 2 --include-dashboard false --port {ports[0]}"
    client = f"--ray-client-server-port {ports[1]} --disable-usage-stats --temp-dir {folder}"
    words = [sys.executable, "-m", "ray.scripts.scripts", *start.split(), *client.split()]
    clients: dict[str, Source] = {f"c{k:05d}": (k, 1, 2) for k in range(3 * BLOCK)}
    plan: Plan[Any, Any, Any] = Plan(algorithm=Counting())
    here = run_locally(plan, clients, threads=1).state
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    ray.shutdown()
    with subprocess.Popen(words, env=environment, stdout=subprocess.DEVNULL) as head:
        try:
            for address in (f"127.0.0.1:{ports[0]}", f"ray://127.0.0.1:{ports[1]}"):
                wait_for(int(address.rpartition(":")[2]))
                workers = RayWorkers(address=address)
                assert run_locally(plan, clients, workers=workers).state == here
                ray.shutdown()
        finally:
            head.terminate()


def free_port() -> int:
    """Return a port that nobody has, outside of those of Ray's workers."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def wait_for(port: int) -> None:
    """Wait until somebody listens."""
    for _ in range(600):
        with socket.socket() as one:
            if one.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.2)
    raise AssertionError(f"nobody listens on {port}")


def command(folder: Path) -> None:
    """`catchment run --engine ray` over a lake of Parquet files has the model of one process."""
    import pyarrow as pa
    from pyarrow.parquet import write_table
    from typer.testing import CliRunner

    from catchment.cli import app
    from catchment.federation import read_run
    from catchment.federation.runs import MODEL

    rng = np.random.default_rng(0)
    names = [f"c{k:04d}" for k in range(300) for _ in range(30)]
    columns = {"client": names, "x": rng.normal(size=9000), "y": rng.normal(size=9000)}
    (folder / "lake").mkdir()
    write_table(pa.table(columns), folder / "lake" / "part-0.parquet", row_group_size=3000)
    (folder / "plan.toml").write_text(PLAN)
    for name, words in {"here": [], "ray": ["--engine", "ray"]}.items():
        out = ["--out", str(folder / name)]
        done = CliRunner().invoke(app, ["run", str(folder / "plan.toml"), *out, *words])
        assert done.exit_code == 0, (done.output, done.exception)
    assert (folder / "here" / MODEL).read_bytes() == (folder / "ray" / MODEL).read_bytes()
    runs = [read_run(folder / name) for name in ("here", "ray")]
    assert [run.facts["engine"] for run in runs] == ["local", "ray"]
    assert runs[0].scores == runs[1].scores


PLAN = """
[data]
files = "lake/*.parquet"
client = "client"
inputs = ["x"]
target = "y"
test = 0.1

[features]
map = "nvar"

[learn]
algorithm = "ridge"
ridge = 0.1
"""


def aggregated(_: Path) -> None:
    """The statistics of rows of a data set, as `accumulate` makes them in one process."""
    import ray.data

    from catchment import NVAR
    from catchment.readout import accumulate
    from catchment_fleet.ray import ridge_statistics

    features = NVAR(delays=3).build(1, per_step=True)
    waves = [one for k in range(1, 10) for one in wave(k)]
    rows = [{"x": one.u[:, 0], "y": np.asarray(one.y)[:, 0]} for one in waves]
    dataset = ray.data.from_items(rows, override_num_blocks=3)

    def recording(row: Any) -> Recording:
        return Recording(row["x"], row["y"])

    found = ridge_statistics(dataset, features, recording)
    assert found.digest() == accumulate(features, [recording(row) for row in rows]).digest()
