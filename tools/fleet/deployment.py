"""SuperLink, proxy and SuperNodes as real processes of this machine.

    server/flwr, server/superlink.sqlite    what the SuperLink keeps
    nodes/NAME/flwr                         what a node keeps
    logs/                                   one file for each process

The SuperLink and the control of it are on the loopback address; nodes know only the proxy.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from catchment.errors import FederationError
from catchment_fleet.deploy import (
    CONNECTION,
    QUIET,
    Settings,
    flwr,
    node_command,
    pairs,
    register_nodes,
    search_path,
    superlink_command,
    superlink_home,
)
from tools.fleet.processes import GRACE, Processes

SUPERLINK, PROXY = "superlink", "proxy"
START_SECONDS = 120.0  # a busy machine takes its time


@dataclass(frozen=True)
class Ended:
    """How a run ended, by the SuperLink, and its output."""

    run_id: int
    status: str
    details: str
    log: str
    bytes_up: int
    bytes_down: int

    @property
    def ok(self) -> bool:
        return self.status == "finished:completed"


def free_port() -> int:
    """Return a port of the loopback address that nobody uses now.

    >>> free_port() > 1023
    True
    """
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def find_nginx() -> str:
    """Return the path of nginx; FileNotFoundError says how to get it."""
    # Debian keeps it where only root looks.
    found = shutil.which("nginx", path=f"{search_path()}{os.pathsep}/usr/sbin")
    if found is None:
        raise FileNotFoundError("there is no nginx on this machine; apt-get install nginx")
    return found


def proxy_configuration(
    keys: Path, logs: Path, superlink: int, listen: str, changed: Mapping[str, str] | None = None
) -> str:
    """Return deploy/nginx.conf with other folders, ports and whatever else is changed."""
    text = (Path(__file__).parents[2] / "deploy" / "nginx.conf").read_text(encoding="utf-8")
    for old, new in {
        "/run/catchment-proxy": str(logs),
        "/var/lib/catchment/server": str(keys),
        "error_log stderr": f"error_log {logs}/nginx-error.log",
        "access_log off": f"access_log {logs}/nginx-access.log counts",
        "127.0.0.1:8000": f"127.0.0.1:{superlink}",
        "listen 8443": f"listen {listen}",
        **(changed or {}),
    }.items():
        if old not in text:
            raise ValueError(f"deploy/nginx.conf has no {old!r}; say here what stands there now")
        text = text.replace(old, new)
    return text


@dataclass(eq=False)
class Deployment:
    """A deployment in a folder that has its keys; leaving the `with` block stops all of it.

    Parameters
    ----------
    folder
        Where `make_keys` made the keys.
    host
        Address of this machine by which nodes reach the proxy; the server's certificate has it.
    superlink_port, proxy_port
        Free ones if not given.
    entrance
        Port that nodes connect to, if something stands before the proxy.
    """

    folder: Path
    host: str = "127.0.0.1"
    superlink_port: int = field(default_factory=free_port)
    proxy_port: int = field(default_factory=free_port)
    entrance: int | None = None
    processes: Processes = field(init=False)
    nodes: dict[str, list[str]] = field(init=False, default_factory=dict)
    _log_start: dict[str, int] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self.folder = Path(self.folder).resolve()
        self.processes = Processes(self.folder / "logs", {**QUIET, "PATH": search_path()})

    @property
    def server(self) -> Path:
        return self.folder / "server"

    def node(self, name: str) -> Path:
        """Return a node's folder."""
        return self.folder / "nodes" / name

    @property
    def home(self) -> Path:
        """Flower's home for commands to this SuperLink."""
        return self.server / "flwr"

    def start_superlink(self) -> None:
        """Start the SuperLink, or start it again with what it had kept."""
        home = superlink_home(self.server, self.superlink_port)
        command = superlink_command(self.server, self.superlink_port)
        self.processes.start(SUPERLINK, command, {"FLWR_HOME": str(home)})
        self.processes.wait_until(
            SUPERLINK, lambda: listens(self.superlink_port), seconds=START_SECONDS
        )

    def start_proxy(
        self, *, requests: int = 200, burst: int = 1000, connections: int = 256
    ) -> None:
        """Start nginx before the SuperLink, with limits as deploy/nginx.conf has them."""
        logs, address = self.processes.folder, f"{self.host}:{self.proxy_port}"
        logs.mkdir(parents=True, exist_ok=True)
        configuration = self.server / "nginx.conf"
        changed = {
            "rate=200r/s": f"rate={requests}r/s",
            "burst=1000": f"burst={burst}",
            "catchment_connections 256": f"catchment_connections {connections}",
        }
        text = proxy_configuration(self.server, logs, self.superlink_port, address, changed)
        configuration.write_text(text)
        command = [find_nginx(), "-p", str(logs), "-c", str(configuration)]
        self.processes.start(PROXY, [*command, "-e", str(logs / "nginx.log")])
        self.processes.wait_until(
            PROXY, lambda: listens(self.proxy_port, self.host), seconds=START_SECONDS
        )

    def register(self) -> list[str]:
        """Make the SuperLink know the nodes that were admitted, and return the new ones."""
        return register_nodes(self.server)

    def start_node(
        self,
        name: str,
        settings: Settings,
        *,
        key: Path | None = None,
        apps: Iterable[str] = (),
    ) -> None:
        """Start a node that reaches the SuperLink through the proxy only.

        Parameters
        ----------
        settings
            The node's own configuration, which its app reads.
        key
            Private key by which Flower knows it, if not its own.
        apps
            SHA-256 of the apps that it runs; if there are none, its own for whatever plan is sent.
        """
        here, address = self.node(name), f"{self.host}:{self.entrance or self.proxy_port}"
        self.nodes[name] = node_command(
            here, address, settings, port=free_port(), key=key, apps=apps
        )
        self._start_node(name)

    def _start_node(self, name: str) -> None:
        home = {"FLWR_HOME": str(self.node(name) / "flwr")}
        self.processes.stop(_process(name), grace=0)
        log = self.processes.log(_process(name))
        self._log_start[name] = log.stat().st_size if log.is_file() else 0
        self.processes.start(_process(name), self.nodes[name], home)

    def wait_for_nodes(self, *, seconds: float = START_SECONDS) -> None:
        """Wait until all nodes that were started are let in, and start those again that were not.

        The SuperLink turns a node away that it believes to be here, for a minute after it was
        killed. FederationError names the nodes that still are not let in after some seconds.
        """
        end = time.monotonic() + seconds
        while missing := [name for name in self.nodes if not self.let_in(name)]:
            if time.monotonic() > end:
                raise FederationError(
                    f"{', '.join(missing)} did not come online within {seconds:g} seconds; "
                    f"see the logs in {self.processes.folder}"
                )
            for name in missing:
                if not self.processes.alive(_process(name)):
                    self._start_node(name)
            time.sleep(0.5)

    def let_in(self, name: str) -> bool:
        """Return whether a node runs and the SuperLink has let it in."""
        if not self.processes.alive(_process(name)):
            return False
        # What is in the log from before the last start does not count.
        output = self.processes.log(_process(name)).read_bytes()[self._log_start[name] :]
        return b"SuperNode ID:" in output

    def run(self, app: Path, settings: Settings, *, seconds: float = 3600) -> Ended:
        """Run an app on the nodes, wait for its end, and return how it ended."""
        config = ("--run-config", pairs(settings)) if settings else ()
        words = ("run", str(app), CONNECTION, "--stream", *config)
        output = flwr(self.home, *words, seconds=seconds)
        return self.ended(_run_id(output), output)

    def start_run(self, app: Path, settings: Settings) -> int:
        """Start an app on the nodes, and return the number of the run."""
        config = ("--run-config", pairs(settings)) if settings else ()
        return _run_id(flwr(self.home, "run", str(app), CONNECTION, *config))

    def ended(self, run_id: int, output: str = "") -> Ended:
        """Return how a run stands."""
        words = ("list", CONNECTION, "--run-id", str(run_id), "--format", "json")
        (known,) = json.loads(flwr(self.home, *words))["runs"]
        status, traffic = (known["status"], known["status-details"]), known["network-traffic"]
        return Ended(run_id, *status, output, traffic["inbound-bytes"], traffic["outbound-bytes"])

    def stop_node(self, name: str, *, grace: float = GRACE) -> None:
        """Stop a node and all it started; with no grace it is killed."""
        del self.nodes[name]
        self.processes.stop(_process(name), grace=grace)

    def close(self) -> None:
        """Stop everything, nodes first, so that they can say goodbye."""
        try:
            self.processes.stop(*(_process(name) for name in self.nodes))
        finally:
            self.nodes.clear()
            self.processes.stop(PROXY, SUPERLINK)

    def __enter__(self) -> Deployment:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def listens(port: int, host: str = "127.0.0.1") -> bool:
    """Return whether somebody answers at a port.

    >>> listens(free_port())
    False
    """
    try:
        socket.create_connection((host, port), timeout=1).close()
    except OSError:
        return False
    return True


def _process(node: str) -> str:
    return f"node-{node}"


def _run_id(output: str) -> int:
    found = re.search(r"started run (\d+)", output)
    if found is None:
        raise FederationError(f"the SuperLink started no run; it said: {output[-600:]}")
    return int(found[1])
