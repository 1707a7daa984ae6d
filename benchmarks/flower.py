"""One plan in process, simulated by Flower and on a real deployment: rounds per second and bytes.

Every client has a reservoir of 500 units and as many steps as it needs to send its statistics in
the clear (20 rows per feature): a megabyte per client and round. The deployment is the one of
`python -m tools.fleet up`, SuperLink, nginx with TLS and a process for every node on this machine,
and its bytes are counted by a relay between nodes and proxy: all that TCP carries, with TLS, HTTP,
polls, heartbeats and the app itself.

    python -m benchmarks.flower --runners process simulation --clients 4 10 100
    python -m benchmarks.flower --runners deployment --clients 4

Rows of runners and sizes that are not asked for stay in results/flower.json as they are.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.record import RESULTS, write
from benchmarks.scale import cores_at_hand
from catchment import Recording, Reservoir, save
from catchment.engine import run_locally
from catchment.features import EchoState
from catchment.federation import Plan, Record, read_run
from catchment.federation.learn import FederatedRidge
from catchment.readout import Model
from tools.fleet.deployment import Deployment
from tools.fleet.up import sha256

UNITS, STEPS, WASHOUT, RIDGE = 500, 10_200, 100, 1e-6
RUNNERS = ("process", "simulation", "deployment")
ROOT = Path(__file__).resolve().parent.parent

_PROJECT = """\
[project]
name = "bench"
version = "1.0.0"
description = "The plan of a benchmark"
license = "Apache-2.0"
[tool.flwr.app]
publisher = "catchment"
[tool.flwr.app.components]
serverapp = "bench_app.server:app"
clientapp = "bench_app.client:app"
[tool.flwr.app.config]
expect = 0
wait = 600.0
timeout = 600.0
allow-plain-statistics = true
"""
_SERVER = """\
from benchmarks.flower import plan
from catchment_fleet.flower import server_app

app = server_app(plan({rounds}), {folder!r})
"""
_CLIENT = """\
from benchmarks.flower import load, plan
from catchment_fleet.flower import client_app

app = client_app(plan({rounds}), load, allow_plain_statistics=True)
"""


def plan(rounds: int) -> Plan[Any, Any, Any]:
    recipe = Reservoir(units=UNITS, inputs=1, leak_rate=0.3, connections=10, seed=1)
    features = EchoState.of(recipe, washout=WASHOUT)
    algorithm = FederatedRidge(features=features, ridge=RIDGE, store_per_client=False)
    return Plan(algorithm=algorithm, rounds=rounds)


def client(k: int) -> list[Recording]:
    wave = np.sin(np.arange(STEPS + 1) * (0.05 + k % 97 / 300) + k)
    return [Recording(wave[:-1, None], wave[1:, None])]


def load(config: Mapping[str, bool | float | int | str]) -> list[Recording]:
    """Return the data of the node with this node config."""
    return client(int(str(config["name"]).removeprefix("client-")))


def names(n_clients: int) -> list[str]:
    return [f"client-{k:04d}" for k in range(n_clients)]


def in_process(n_clients: int, rounds: int) -> dict[str, object]:
    clients = {name: partial(client, k) for k, name in enumerate(names(n_clients))}
    run_locally(plan(1), dict(list(clients.items())[:1]))  # compiles
    result = run_locally(plan(rounds), clients)
    return row(result.records, result.model)


def simulated(n_clients: int, rounds: int) -> dict[str, object]:
    from catchment_fleet.flower import fit_simulated

    clients = {name: partial(client, k) for k, name in enumerate(names(n_clients))}
    begin = time.perf_counter()
    result = fit_simulated(plan(rounds), clients)
    whole = time.perf_counter() - begin
    return row(result.records, result.model) | {"seconds in all": round(whole, 1)}


def deployed(n_clients: int, rounds: int) -> dict[str, object]:
    from catchment_fleet.deploy import make_keys

    os.environ["PYTHONPATH"] = str(ROOT)
    called = names(n_clients)
    with tempfile.TemporaryDirectory(prefix="catchment-") as place:
        folder = Path(place)
        write_app(folder / "app", folder / "run", rounds)
        make_keys(folder, (), called)
        with Deployment(folder) as deployment, Relay(deployment.proxy_port) as relay:
            deployment.start_superlink()
            deployment.start_proxy()
            deployment.register()
            deployment.entrance = relay.port
            for name in called:
                deployment.start_node(name, {"name": name})
            deployment.wait_for_nodes(seconds=600)
            idle = at_rest(deployment, relay)
            before, busy = (relay.up, relay.down), superlink_seconds(deployment)
            polls = in_vain(deployment)
            begin = time.perf_counter()
            ended = deployment.run(folder / "app", {"expect": n_clients})
            whole = time.perf_counter() - begin
            carried = (relay.up - before[0], relay.down - before[1])
            busy = superlink_seconds(deployment) - busy
            polls = in_vain(deployment) - polls
            memory = resident(str(deployment.processes.folder))
        if not ended.ok:
            raise RuntimeError(f"{ended.status} {ended.details}: {ended.log[-2000:]}")
        records = read_run(folder / "run").rounds["training"]
        model = folder / "run" / "model.safetensors"
        found = row(records, None) | {"sha256 of the model": sha256(model)}
    up, down = sum(r.bytes_up for r in records), sum(r.bytes_down for r in records)
    waiting = polls * idle["at rest, TCP bytes per call"]
    messages = n_clients * len(records)
    return found | {
        "seconds in all": round(whole, 1),
        "TCP bytes up": carried[0],
        "TCP bytes down": carried[1],
        "of these for asking in vain": round(waiting),
        "overhead over payload": round(sum(carried) / (up + down) - 1, 4),
        "overhead without asking in vain": round((sum(carried) - waiting) / (up + down) - 1, 4),
        "TCP bytes beyond payload up, per message": round((carried[0] - up) / messages),
        "TCP bytes beyond payload down, per message": round((carried[1] - down) / messages),
        "SuperLink CPU seconds per message": round(busy / messages, 4),
        "MiB of all processes": round(memory),
        **idle,
    }


def in_vain(deployment: Deployment) -> int:
    """Return how often nodes have asked for work, or said that they live, for a short answer."""
    lines = (deployment.processes.folder / "nginx-access.log").read_text().splitlines()
    calls = [line.split() for line in lines]
    short = [call for call in calls if call[3].endswith(("pull-messages", "heartbeat"))]
    return sum(1 for call in short if int(call[5]) < 250)


def at_rest(deployment: Deployment, relay: Relay, seconds: float = 30.0) -> dict[str, float]:
    """Return what nodes cost that only ask whether there is something to do."""
    log = deployment.processes.folder / "nginx-access.log"
    calls, carried = log.read_text().count("\n"), relay.up + relay.down
    busy = superlink_seconds(deployment)
    time.sleep(seconds)
    calls, carried = log.read_text().count("\n") - calls, relay.up + relay.down - carried
    busy = superlink_seconds(deployment) - busy
    return {
        "at rest, calls per node and second": round(calls / len(deployment.nodes) / seconds, 3),
        "at rest, TCP bytes per call": round(carried / calls),
        "at rest, SuperLink CPU seconds per call": round(busy / calls, 5),
    }


def superlink_seconds(deployment: Deployment) -> float:
    """Return the CPU seconds that the SuperLink has used, its helpers left out."""
    pid = deployment.processes.pid("superlink")
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(") ", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def write_app(app: Path, run: Path, rounds: int) -> None:
    (app / "bench_app").mkdir(parents=True)
    (app / "pyproject.toml").write_text(_PROJECT)
    (app / "bench_app" / "__init__.py").write_text("")
    (app / "bench_app" / "server.py").write_text(_SERVER.format(rounds=rounds, folder=str(run)))
    (app / "bench_app" / "client.py").write_text(_CLIENT.format(rounds=rounds))


def row(records: tuple[Record, ...] | list[Record], model: Model | None) -> dict[str, object]:
    """Return what the rounds took; the first one apart, because much happens in it only once."""
    assert all(r.n_used == r.n_asked for r in records)
    later = [r.seconds for r in records[1:]] or [records[0].seconds]
    found: dict[str, object] = {
        "first round, seconds": round(records[0].seconds, 3),
        "later rounds, seconds": [round(r.seconds, 3) for r in records[1:]],
        "rounds per second": round(1 / statistics.median(later), 4),
        "payload bytes up per client and round": records[-1].bytes_up // records[-1].n_used,
        "payload bytes down per client and round": records[-1].bytes_down // records[-1].n_used,
    }
    if model is not None:
        with tempfile.TemporaryDirectory() as place:
            path = Path(place) / "model.safetensors"
            save(model, path)
            found["sha256 of the model"] = sha256(path)
    return found


def resident(deployment: str) -> float:
    """Return the MiB that all processes of a deployment have in memory, shared pages included."""
    from tools.fleet.processes import marked

    total = 0
    for pid in marked(deployment, None):
        status = Path(f"/proc/{pid}/status")
        lines = status.read_text().splitlines() if status.is_file() else []
        total += sum(int(line.split()[1]) for line in lines if line.startswith("VmRSS"))
    return total / 1024


@dataclass(eq=False)
class Relay:
    """Passes connections on to a port of this machine, and counts the bytes either way."""

    target: int
    up: int = 0
    down: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _server: socket.socket = field(init=False)

    def __enter__(self) -> Relay:
        self._server = socket.create_server(("127.0.0.1", 0))
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    @property
    def port(self) -> int:
        return int(self._server.getsockname()[1])

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._server.accept()
                far = socket.create_connection(("127.0.0.1", self.target))
            except OSError:
                return
            for source, sink, way in ((near, far, "up"), (far, near, "down")):
                threading.Thread(target=self._pass, args=(source, sink, way), daemon=True).start()

    def _pass(self, source: socket.socket, sink: socket.socket, way: str) -> None:
        try:
            while content := source.recv(1 << 16):
                sink.sendall(content)
                with self._lock:
                    setattr(self, way, getattr(self, way) + len(content))
            sink.shutdown(socket.SHUT_WR)
        except OSError:
            source.close()
            sink.close()

    def __exit__(self, *reason: object) -> None:
        self._server.close()


def table(rows: list[dict[str, Any]]) -> str:
    """Return the rows as the documentation shows them."""
    called = {"process": "in process", "simulation": "simulated", "deployment": "deployed"}
    lines = [
        "| engine | clients | first round, s | a later round, s | TCP bytes beyond payload |",
        "|---|---|---|---|---|",
    ]
    for each in rows:
        overhead = each.get("overhead over payload")
        cells = (
            called[each["runner"]],
            f"{each['clients']}",
            f"{each['first round, seconds']:.1f}",
            f"{statistics.median(later):.1f}" if (later := each["later rounds, seconds"]) else "-",
            "none" if overhead is None else f"{100 * overhead:.1f} %",
        )
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


WORK = {"process": in_process, "simulation": simulated, "deployment": deployed}


def in_fresh_process(runner: str, n_clients: int, rounds: int) -> dict[str, object]:
    command = [sys.executable, "-m", "benchmarks.flower", "--one", runner, str(n_clients)]
    done = subprocess.run(
        [*command, "--rounds", str(rounds)], stdout=subprocess.PIPE, text=True, check=True, cwd=ROOT
    )
    found: dict[str, object] = json.loads(done.stdout.splitlines()[-1])
    return found


def measured(runner: str, n_clients: int, rounds: int) -> dict[str, object]:
    """Return one row, with how busy the machine was."""
    before = cores_at_hand()
    found = in_fresh_process(runner, n_clients, rounds)
    return {
        "runner": runner,
        "clients": n_clients,
        **found,
        "cores that two threads had, before and after": [
            round(before, 2),
            round(cores_at_hand(), 2),
        ],
        "load average after": round(os.getloadavg()[1], 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runners", nargs="+", choices=RUNNERS, default=list(RUNNERS))
    parser.add_argument("--clients", type=int, nargs="+", default=[4, 10])
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        runner, n_clients = options.one
        print(json.dumps(WORK[runner](int(n_clients), options.rounds)))
        return
    path = RESULTS / "flower.json"
    kept = json.loads(path.read_text())["rows"] if path.is_file() else []
    rows = {(r["runner"], r["clients"]): r for r in kept}
    for n_clients in options.clients:
        for runner in options.runners:
            found = measured(runner, n_clients, options.rounds)
            print(found, flush=True)
            rows[runner, n_clients] = found
            order = sorted(rows, key=lambda key: (key[1], RUNNERS.index(key[0])))
            task = f"{UNITS} units, {STEPS - WASHOUT} rows per client, all of them in every round"
            write("flower", {"task": task, "rows": [rows[key] for key in order]})
    by_size: dict[int, set[str]] = {}
    for (_, n_clients), found in rows.items():
        by_size.setdefault(n_clients, set()).add(str(found["sha256 of the model"]))
    same = all(len(found) == 1 for found in by_size.values())
    print(f"runners of the same size made the same model file: {same}")


if __name__ == "__main__":
    main()
