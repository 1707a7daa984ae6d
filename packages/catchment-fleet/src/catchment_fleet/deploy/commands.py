"""Flower's own programs, started the way a deployment needs them.

They are quiet (no telemetry, no look for updates), install nothing while they run, and the
SuperLink and all control of it stay on the loopback address.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

from catchment.errors import FederationError, MissingExtraError
from catchment.privacy import NAME as POLICY

Settings = Mapping[str, str | int | float | bool]

QUIET = {
    "FLWR_TELEMETRY_ENABLED": "0",
    "FLWR_DISABLE_UPDATE_CHECK": "1",
    "PYTHONUNBUFFERED": "1",
}
LAUNCH = "catchment_fleet.apps.launch"  # runs a node, and decides which apps it runs
CONNECTION = "here"  # what Flower's command line calls the SuperLink of this machine


def superlink_command(server: Path, port: int) -> list[str]:
    """Return how a SuperLink is started that only this machine can reach.

    Parameters
    ----------
    server
        Folder of the server's keys, where the SuperLink's database will lie, too.

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
    flags = ["--enable-supernode-auth", "--disable-runtime-dependency-installation"]
    return [tool("flower-superlink"), *(str(w) for pair in words.items() for w in pair), *flags]


def superlink_home(server: Path, port: int) -> Path:
    """Make Flower's home for a SuperLink, from which its command line finds it, and return it."""
    home = server / "flwr"
    write_connection(home, f"127.0.0.1:{port}", server / "ca.crt")
    return home


def write_connection(home: Path, address: str, authority: Path) -> None:
    """Tell Flower's command line where the SuperLink is, and who vouches for it."""
    home.mkdir(parents=True, exist_ok=True)
    told = (
        f"[superlink]\ndefault = {json.dumps(CONNECTION)}\n\n[superlink.{CONNECTION}]\n"
        f"address = {json.dumps(address)}\nroot-certificates = {json.dumps(str(authority))}\n"
    )
    (home / "config.toml").write_bytes(told.encode())


def node_command(
    folder: Path,
    superlink: str,
    settings: Settings,
    *,
    port: int = 9094,
    key: Path | None = None,
    apps: Iterable[str] = (),
) -> list[str]:
    """Return how a node is started in its folder of keys.

    The SuperNode runs no app by itself (`--isolation process`): what runs is decided by
    `catchment_fleet.deploy.launcher`, from the node's policy.

    Parameters
    ----------
    superlink
        Host and port of the proxy.
    settings
        The node's own configuration, which its app reads.
    port
        For the node's own processes, on its loopback address.
    key
        Private key by which Flower knows it, if not its own.
    apps
        SHA-256 of the apps that it runs, besides those of its policy.

    >>> node_command(Path("ann"), "fleet.example.org:8443", {"name": "ann"})[-2:]
    ['--node-config', 'name="ann"']
    """
    words: dict[str, str | Path | int] = {
        "--superlink": superlink,
        "--root-certificates": folder / "ca.crt",
        "--auth-supernode-private-key": key or folder / "node.key",
        "--host": "127.0.0.1",
        "--port": port,
        "--isolation": "process",
    }
    config = ["--node-config", pairs(settings)] if settings else []
    supernode = [str(word) for pair in words.items() for word in pair]
    policy = str(settings.get("policy") or folder / POLICY)
    allowed = [word for app in apps for word in ("--app", app)]
    launch = [sys.executable, "-m", LAUNCH, "node", "--policy", policy, *allowed]
    address = ["--address", f"127.0.0.1:{port}", "--"]
    return [*launch, *address, tool("flower-supernode"), *supernode, *config]


def node_settings(folder: Path, data: str = "", device: str = "") -> Settings:
    """Return the node config of a node whose keys are in a folder.

    Parameters
    ----------
    data
        Path or pattern of its own files; if empty, it makes its part of the plan's own source.
    device
        Address of a device that has the data, in their place.

    >>> node_settings(Path("ann"), "*.csv")
    {'keys': 'ann', 'data': '*.csv'}
    """
    own = {"keys": str(folder), "data": data, "device": device}
    return {name: value for name, value in own.items() if value}


def pairs(settings: Settings) -> str:
    """Return settings as Flower's command line takes them.

    >>> pairs({"name": "ann", "n": 3, "quick": True})
    'name="ann" n=3 quick=true'
    """
    return " ".join(f"{name}={json.dumps(value)}" for name, value in settings.items())


def try_flwr(home: Path, *words: str, seconds: float = 120) -> subprocess.CompletedProcess[str]:
    """Return how a command of Flower's command line ended."""
    known = {"PATH": search_path(), "FLWR_HOME": str(home), "NO_COLOR": "1", "COLUMNS": "200"}
    return subprocess.run(
        [tool("flwr"), *words],
        env={**os.environ, **QUIET, **known},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
    )


def flwr(home: Path, *words: str, seconds: float = 120) -> str:
    """Return what a command of Flower's command line printed; FederationError if it failed."""
    done = try_flwr(home, *words, seconds=seconds)
    if done.returncode != 0:
        said = " ".join((done.stdout + done.stderr).split())
        raise FederationError(f"flwr {' '.join(words[:2])} failed: {said[-600:]}")
    return done.stdout


def register_nodes(server: Path) -> list[str]:
    """Make the running SuperLink know all nodes that were admitted, and return the new ones.

    Parameters
    ----------
    server
        Folder of the server's keys.
    """
    new = []
    for key in sorted((server / "nodes").glob("*.pub")):
        done = try_flwr(server / "flwr", "supernode", "register", str(key), CONNECTION)
        said = " ".join((done.stdout + done.stderr).split())
        if done.returncode == 0:
            new.append(key.stem)
        elif "already in use" not in said:
            raise FederationError(f"{key.stem} could not be registered: {said[-600:]}")
    return new


def search_path() -> str:
    """Return the search path on which Flower's programs find each other: this environment first."""
    return f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"


def tool(name: str) -> str:
    """Return the path of one of Flower's programs."""
    found = shutil.which(name, path=search_path())
    if found is None:
        raise MissingExtraError("fleet", needed_for="deployments")
    return found
