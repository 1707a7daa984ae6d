"""A server that is killed at every step of its journal, while its clients live on.

Run as a script with a folder, how many steps lie between two kills, and how many runs to kill three
times at random: the server is forked, talks to its clients through a pair of sockets, kills itself
at one step, and is started again. What happened is printed as JSON.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sqlite3
import struct
import sys
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from inspect import getmodule
from pathlib import Path
from typing import Any

import numpy as np

from catchment.data import Recording
from catchment.features import EchoState, Reservoir
from catchment.federation import Engine, Memory, Node, Plan, Reply, Request, RunFolder, run
from catchment.federation.learn import FederatedRidge
from catchment.privacy import Journal, SecureAggregation, generate_keys

NAMES = tuple(f"c{k}" for k in range(4))
ROUNDS = 2


def receive(line: socket.socket) -> bytes:
    head = line.recv(4, socket.MSG_WAITALL)
    if len(head) < 4:
        return b""
    return line.recv(struct.unpack("<I", head)[0], socket.MSG_WAITALL)


def send(line: socket.socket, message: bytes) -> None:
    line.sendall(struct.pack("<I", len(message)) + message)


@dataclass(frozen=True, eq=False)
class Wire(Engine):
    """An engine whose clients are in another process."""

    line: socket.socket

    def clients(self) -> Sequence[str]:
        return NAMES

    def ask(self, requests: Mapping[str, bytes]) -> Iterator[Reply]:
        for client, raw_request in requests.items():
            send(self.line, client.encode())
            send(self.line, raw_request)
            yield Reply(client, receive(self.line))


@dataclass(eq=False)
class Clients:
    """The clients' process: it answers until the server is gone, and remembers what was asked."""

    plan: Plan[Any, Any, Any]
    data: Mapping[str, list[Recording]]
    memories: dict[str, Memory]
    asked: list[tuple[str, str, int]] = field(default_factory=list)

    def serve(self, line: socket.socket) -> None:
        while name := receive(line).decode():
            raw_request = receive(line)
            request = Request.from_bytes(raw_request, name)
            self.asked.append((request.stage, name, request.context.round))
            node = Node(name, self.plan, lambda name=name: self.data[name], self.memories[name])  # type: ignore[misc]
            try:
                send(line, node.answer(raw_request))
            except BrokenPipeError:
                return


def federation() -> Clients:
    rng = np.random.default_rng(0)
    u = {name: rng.normal(size=(40, 1)) for name in NAMES}
    data = {name: [Recording(x, np.roll(x, 1, axis=0))] for name, x in u.items()}
    identities = generate_keys(NAMES)
    memories = identities.memories
    features = EchoState.of(Reservoir(units=5, inputs=1, seed=1))
    plan = Plan(
        algorithm=FederatedRidge(
            features=features, ridge=1e-3, store_per_client=False, increments=ROUNDS
        ),
        rounds=ROUNDS,
        protections=(SecureAggregation(identities=identities, min_clients=3, rows_per_feature=2),),
    )
    return Clients(plan, data, memories)


class Steps:
    """Counts the moments around every write, and kills the process at one of them."""

    def __init__(self, last: int) -> None:
        self.count, self.last = 0, last

    def step(self) -> None:
        self.count += 1
        if self.count == self.last:
            os.kill(os.getpid(), signal.SIGKILL)

    def install(self) -> None:
        """Put a step before and after every transaction and every file of the server's stores."""
        for owner, name in ((Journal, "_transaction"), (RunFolder, "transaction")):
            inner = getattr(owner, name)

            def around(self_: Any, inner: Any = inner) -> Any:
                @contextmanager
                def transaction() -> Iterator[None]:
                    self.step()
                    with inner(self_):
                        yield
                        self.step()
                    self.step()

                return transaction()

            setattr(owner, name, around)
        for module in map(getmodule, (Journal, RunFolder)):
            write = module.replace_file  # type: ignore[union-attr]

            def file(path: Path, content: bytes, write: Any = write, *, mode: int = 0o666) -> None:
                self.step()
                write(path, content, mode=mode)
                self.step()

            module.replace_file = file  # type: ignore[union-attr]


def serve_plan(plan: Plan[Any, Any, Any], folder: Path, line: socket.socket, last: int) -> None:
    """The server's process: run the plan, going on with whatever the folder holds."""
    steps = Steps(last)
    steps.install()
    with (
        Journal(folder / "sums") as journal,
        RunFolder(folder / "run", fingerprint=plan.fingerprint(), resume=True) as store,
    ):
        result = run(plan, Wire(line), keeper=store.keeper("train", plan), journal=journal)
        store.save_model(result.model)
    (folder / "steps").write_text(str(steps.count))


def attempt(clients: Clients, folder: Path, last: int) -> int:
    """Fork a server, serve it until it ends, and return how it ended."""
    ours, theirs = socket.socketpair()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            ours.close()
            serve_plan(clients.plan, folder, theirs, last)
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)
    theirs.close()
    clients.serve(ours)
    ours.close()
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def kept(folder: Path) -> set[tuple[str, int]]:
    """Return whose uploads an unfinished attempt holds, as the disk has it."""
    path = folder / "sums" / "journal.sqlite"
    if not path.is_file():
        return set()
    database = sqlite3.connect(path)
    try:
        rows = database.execute(
            "SELECT client, round FROM uploads JOIN attempts USING (attempt) "
            "WHERE state NOT IN ('PUBLISHED', 'ABORTED')"
        ).fetchall()
    except sqlite3.OperationalError:
        rows = []
    database.close()
    return set(rows)


def killed_at(folder: Path, points: Sequence[int]) -> dict[str, Any]:
    """Return what became of a run that was killed at these steps, one after the other."""
    clients = federation()
    ends, lost = [], []
    for last in (*points, 0):
        known = kept(folder)
        before = len(clients.asked)
        ends.append(attempt(clients, folder, last))
        again = {(name, at) for stage, name, at in clients.asked[before:] if stage == "update"}
        lost += sorted(known & again)
    database = sqlite3.connect(folder / "sums" / "journal.sqlite")
    states = database.execute("SELECT round, state FROM attempts ORDER BY attempt").fetchall()
    database.close()
    model = (folder / "run" / "model.safetensors").read_bytes()
    return {"ends": ends, "asked_again": lost, "states": states, "model": model.hex()}


def main(place: Path, stride: int, n_random: int) -> None:
    folder = place / "whole"
    folder.mkdir()
    report = {"whole": killed_at(folder, [])}
    n_steps = int((folder / "steps").read_text())
    report["n_steps"] = n_steps  # type: ignore[assignment]
    rng = np.random.default_rng(1)
    cases = [[k] for k in range(1, n_steps + 1, stride)]
    cases += [rng.integers(1, n_steps, 3).tolist() for _ in range(n_random)]
    results = []
    for n, points in enumerate(cases):
        folder = place / str(n)
        folder.mkdir()
        results.append({"points": points, **killed_at(folder, points)})
    print(json.dumps({**report, "killed": results}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
