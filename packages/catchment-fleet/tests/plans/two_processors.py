"""A plan's server and its nodes as two programs whose linear algebra is that of two processors.

    python -m tests.plans.two_processors serve FOLDER OUT
    python -m tests.plans.two_processors node FOLDER

OPENBLAS_CORETYPE chooses the server's kernels and NODE_CORETYPE those of the nodes, which are one
program that the server starts and talks to by pipes.
"""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
from pathlib import Path
from typing import IO, Any

from threadpoolctl import threadpool_info

from catchment.features import EchoState
from catchment.federation import REFUSED, refusal
from catchment.plans import read_plan
from catchment.privacy import FileMemory
from catchment_fleet.apps import PlanNode, serve_plan
from catchment_fleet.apps.agreement import agreement
from catchment_fleet.flower import HELLO, Hello, Order
from tests.engine.town import Inhabitant, Town


def kernels() -> str:
    return next(str(one["architecture"]) for one in threadpool_info() if "architecture" in one)


def own_scale(folder: Path) -> str:
    """Return the scale that this processor finds for the plan's reservoir by itself."""
    (described,) = read_plan(folder / "plan.toml").maps
    assert isinstance(described, EchoState)
    return repr(described.reservoir_for(6, per_step=False).prepared().scale)


def put(stream: IO[bytes], *parts: bytes) -> None:
    for part in parts:
        stream.write(struct.pack("<Q", len(part)) + part)
    stream.flush()


def take(stream: IO[bytes]) -> bytes | None:
    size = stream.read(8)
    return stream.read(struct.unpack("<Q", size)[0]) if len(size) == 8 else None


def node(folder: Path) -> None:
    configs: dict[str, Any] = json.loads((folder / "configs.json").read_text())
    about = {"node": kernels(), "node_scale": own_scale(folder)}
    put(sys.stdout.buffer, json.dumps(about).encode())
    while (name := take(sys.stdin.buffer)) is not None:
        stage, request = take(sys.stdin.buffer) or b"", take(sys.stdin.buffer) or b""
        known = PlanNode(configs[name.decode()], folder / "plan.toml")
        memory = FileMemory(folder / "memories" / name.decode())
        try:
            if stage.decode() == HELLO:
                reply = Hello(known.name, known.stages).to_bytes()
            else:
                reply = known.client(stage.decode(), request, memory).answer(request)
        except REFUSED as error:
            reply = refusal(error)
        put(sys.stdout.buffer, reply)


def serve(folder: Path, out: Path) -> None:
    configs: dict[str, Any] = json.loads((folder / "configs.json").read_text())
    environment = {**os.environ, "OPENBLAS_CORETYPE": os.environ["NODE_CORETYPE"]}
    command = [sys.executable, "-m", "tests.plans.two_processors", "node", str(folder)]
    with subprocess.Popen(
        command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as there:
        assert there.stdin is not None
        assert there.stdout is not None
        requests, replies = there.stdin, there.stdout
        told = json.loads(take(replies) or b"{}")

        def inhabitant(name: str) -> Inhabitant:
            def respond(order: Order) -> bytes:
                put(requests, name.encode(), order.stage.encode(), order.request)
                return take(replies) or b""

            return Inhabitant(respond)

        place = Town({number: inhabitant(name) for number, name in enumerate(configs)})
        agreed = agreement(read_plan(folder / "plan.toml"), identities=folder / "identities.json")
        serve_plan(agreed, place.engine(), out)
        requests.close()
    print(json.dumps({"server": kernels(), "server_scale": own_scale(folder), **told}))


if __name__ == "__main__":
    if sys.argv[1] == "node":
        node(Path(sys.argv[2]))
    else:
        serve(Path(sys.argv[2]), Path(sys.argv[3]))
