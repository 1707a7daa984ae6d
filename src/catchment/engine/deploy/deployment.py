"""SuperLink, proxy and SuperNodes as real processes of this machine.

    server/flwr, server/superlink.sqlite    what the SuperLink keeps
    nodes/NAME/flwr                         what a node keeps
    logs/                                   one file for each process

The SuperLink and the control interface are on the loopback address; nodes know only the proxy.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType

from catchment.engine.deploy.processes import Processes
from catchment.engine.deploy.proxy import site, whole
from catchment.errors import FederationError, MissingExtraError

QUIET = {
    "FLWR_TELEMETRY_ENABLED": "0",
    "FLWR_DISABLE_UPDATE_CHECK": "1",
    "PYTHONUNBUFFERED": "1",
}
CONNECTION = "here"
SUPERLINK, PROXY = "superlink", "proxy"
START_SECONDS = 120.0  # a busy machine takes its time


@dataclass(frozen=True)
class Finished:
    """How a run ended, as the SuperLink tells it, and what it said on the way."""

    run_id: int
    status: str
    details: str
    log: str
    bytes_up: int
    bytes_down: int

    @property
    def ok(self) -> bool:
        return self.status == "finished:completed"


@dataclass(eq=False)
class Deployment:
    """A deployment in a folder that has its keys; leaving the `with` block stops all of it.

    Parameters
    ----------
    folder
        Where `make_keys` made the keys.
    host
        By which nodes reach the proxy, one of the names of the server's certificate.
    """

    folder: Path
    host: str = "127.0.0.1"
    superlink_port: int = field(default_factory=lambda: free_port())
    proxy_port: int = field(default_factory=lambda: free_port())
    processes: Processes = field(init=False)
    nodes: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.folder = self.folder.resolve()
        # Flower starts its helpers by name, so that they must be on the path.
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
        self.processes = Processes(self.folder / "logs", {**QUIET, "PATH": path})

    @property
    def server(self) -> Path:
        return self.folder / "server"

    def start_superlink(self) -> None:
        """Start the SuperLink, or start it again with what it had kept."""
        home = self.server / "flwr"
        home.mkdir(parents=True, exist_ok=True)
        (home / "config.toml").write_text(
            f"[superlink]\ndefault = {json.dumps(CONNECTION)}\n\n"
            f'[superlink.{CONNECTION}]\naddress = "127.0.0.1:{self.superlink_port}"\n'
            f"root-certificates = {json.dumps(str(self.server / 'ca.crt'))}\n"
        )
        command = superlink_command(self.server, self.superlink_port)
        self.processes.start(SUPERLINK, command, {"FLWR_HOME": str(home)})
        self.processes.wait_until(
            SUPERLINK, lambda: _listens(self.superlink_port), seconds=START_SECONDS
        )

    def start_proxy(self) -> None:
        """Start nginx before the SuperLink."""
        nginx = find_nginx()
        logs = self.processes.folder
        logs.mkdir(parents=True, exist_ok=True)
        text = site(
            self.server, superlink=self.superlink_port, listen=f"{self.host}:{self.proxy_port}"
        )
        configuration = self.server / "nginx.conf"
        configuration.write_text(whole(text, logs))
        self.processes.start(
            PROXY, [nginx, "-p", str(logs), "-c", str(configuration), "-e", f"{logs}/nginx.log"]
        )
        self.processes.wait_until(PROXY, lambda: _listens(self.proxy_port), seconds=20)

    def register(self, names: Iterable[str]) -> None:
        """Make the SuperLink know nodes by the keys that the server's keeper admitted."""
        for name in names:
            self.flwr("supernode", "register", str(self.server / "nodes" / f"{name}.pub"))

    def start_node(
        self,
        name: str,
        settings: Mapping[str, str | int | float | bool],
        *,
        key: Path | None = None,
    ) -> None:
        """Start a node that reaches the SuperLink through the proxy only.

        Parameters
        ----------
        settings
            The node's own configuration, which its app reads.
        key
            Private key by which Flower knows it, if not its own.
        """
        here = self.folder / "nodes" / name
        command = node_command(
            here, f"{self.host}:{self.proxy_port}", settings, port=free_port(), key=key
        )
        self.nodes[name] = _process(name)
        self.processes.start(_process(name), command, {"FLWR_HOME": str(here / "flwr")})

    def wait_for_nodes(self, n_nodes: int, *, seconds: float = START_SECONDS) -> None:
        """Wait until so many nodes are online; FederationError names those that have ended."""
        end = time.monotonic() + seconds
        while (online := self.online()) < n_nodes:
            ended = [n for n, process in self.nodes.items() if not self.processes.alive(process)]
            if ended or time.monotonic() > end:
                why = f"{', '.join(ended)} ended" if ended else f"{seconds:g} seconds are over"
                raise FederationError(
                    f"{online} of {n_nodes} nodes are online and {why}; "
                    f"see the logs in {self.processes.folder}"
                )
            time.sleep(0.5)

    def online(self) -> int:
        """Return how many nodes the SuperLink counts as online."""
        listed = json.loads(self.flwr("supernode", "list", "--format", "json"))
        return sum(1 for node in listed["nodes"] if node["status"] == "online")

    def run(
        self, app: Path, settings: Mapping[str, str | int | float | bool], *, seconds: float = 3600
    ) -> Finished:
        """Run an app on the nodes, wait for its end, and return how it ended."""
        config = ("--run-config", pairs(settings)) if settings else ()
        said = self.flwr("run", str(app), CONNECTION, "--stream", *config, seconds=seconds)
        found = re.search(r"started run (\d+)", said)
        if found is None:
            raise FederationError(f"the SuperLink started no run; it said: {said[-600:]}")
        return self.finished(int(found[1]), said)

    def finished(self, run_id: int, said: str = "") -> Finished:
        """Return how a run stands."""
        listed = self.flwr("list", CONNECTION, "--run-id", str(run_id), "--format", "json")
        (known,) = json.loads(listed)["runs"]
        traffic = known["network-traffic"]
        return Finished(
            run_id,
            known["status"],
            known["status-details"],
            said,
            traffic["inbound-bytes"],
            traffic["outbound-bytes"],
        )

    def flwr(self, *words: str, seconds: float = 120) -> str:
        """Return what one command of Flower's own command line says to this SuperLink."""
        arguments = words if CONNECTION in words or words[0] == "run" else (*words, CONNECTION)
        done = self.try_flwr(*arguments, seconds=seconds)
        if done.returncode != 0:
            said = " ".join((done.stdout + done.stderr).split())
            raise FederationError(f"flwr {' '.join(words[:2])} failed: {said[-600:]}")
        return done.stdout

    def try_flwr(
        self, *words: str, home: Path | None = None, seconds: float = 120
    ) -> subprocess.CompletedProcess[str]:
        """Return how a command of Flower's own command line ended, with a home of its own."""
        known = {"FLWR_HOME": str(home or self.server / "flwr"), "NO_COLOR": "1", "COLUMNS": "200"}
        return subprocess.run(
            [tool("flwr"), *words],
            env={**os.environ, **self.processes.environment, **known},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
        )

    def stop_node(self, name: str, *, grace: float = 5.0) -> None:
        """Stop a node and all it started; with no grace it is killed."""
        self.processes.stop(self.nodes.pop(name), grace=grace)

    def close(self) -> None:
        """Stop everything, nodes first, so that they can say goodbye."""
        try:
            self.processes.stop(*self.nodes.values())
        finally:
            self.nodes.clear()
            self.processes.stop(PROXY, SUPERLINK)

    def __enter__(self) -> Deployment:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def superlink_command(server: Path, port: int) -> list[str]:
    """Return how a SuperLink is started that only this machine can reach.

    >>> " ".join(superlink_command(Path("server"), 8000)[1:5])
    '--host 127.0.0.1 --port 8000'
    """
    words: dict[str, str | Path | int] = {
        "--host": "127.0.0.1",
        "--port": port,
        "--ssl-ca-certfile": server / "ca.crt",
        "--ssl-certfile": server / "server.crt",
        "--ssl-keyfile": server / "server.key",
        "--database": server / "superlink.sqlite",
    }
    pairs_ = [str(word) for pair in words.items() for word in pair]
    flags = ["--enable-supernode-auth", "--disable-runtime-dependency-installation"]
    return [tool("flower-superlink"), *pairs_, *flags]


def node_command(
    folder: Path,
    superlink: str,
    settings: Mapping[str, str | int | float | bool],
    *,
    port: int = 9094,
    key: Path | None = None,
) -> list[str]:
    """Return how a node is started in its folder of keys.

    Parameters
    ----------
    superlink
        Host and port of the proxy.
    port
        For the node's own processes, on its loopback address.

    >>> node_command(Path("ann"), "fleet.example.org:8443", {"name": "ann"})[-2:]
    ['--node-config', 'name="ann"']
    """
    words: dict[str, str | Path | int] = {
        "--superlink": superlink,
        "--root-certificates": folder / "ca.crt",
        "--auth-supernode-private-key": key or folder / "node.key",
        "--host": "127.0.0.1",
        "--port": port,
    }
    pairs_ = [str(word) for pair in words.items() for word in pair]
    config = ["--node-config", pairs(settings)] if settings else []
    return [tool("flower-supernode"), *pairs_, *config]


def pairs(settings: Mapping[str, str | int | float | bool]) -> str:
    """Return settings as Flower's command line takes them.

    >>> pairs({"name": "ann", "n": 3, "quick": True})
    'name="ann" n=3 quick=true'
    """
    return " ".join(f"{name}={json.dumps(value)}" for name, value in settings.items())


def tool(name: str) -> str:
    """Return the path of one of Flower's commands, the one of this environment first."""
    beside = Path(sys.executable).parent / name
    found = str(beside) if beside.is_file() else shutil.which(name)
    if found is None:
        raise MissingExtraError("flower", needed_for="deployments")
    return found


def find_nginx() -> str:
    """Return the path of nginx; FileNotFoundError says how to get it."""
    found = shutil.which("nginx", path=f"{os.environ.get('PATH', '')}{os.pathsep}/usr/sbin")
    if found is None:
        raise FileNotFoundError("there is no nginx on this machine; apt-get install nginx")
    return found


def free_port() -> int:
    """Return a port of the loopback address that nobody uses now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True


def _process(name: str) -> str:
    return f"node-{name}"
