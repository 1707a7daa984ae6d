"""The programs of a node: `python -m catchment_fleet.apps.launch node | executor | app`.

`catchment flower node` starts the first. By default a node runs none of the Python that a server
sends: it takes the plan out of the app, a text, and carries it out with the library that is
installed on the node. A plan that names classes of somebody's own code, as module:Name, is refused
then. With apps = ["sha256"] in policy.toml, apps with these hashes and no others are run as they
are, and with code = "any" whatever comes.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import os
import subprocess
import sys
import tomllib
import zipfile
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from catchment.errors import CatchmentError, RuleError
from catchment.privacy import Policy, read_policy
from catchment.wire import replace_file
from catchment_fleet.apps.scaffold import PLAN, signature_path

if TYPE_CHECKING:
    from flwr.clientapp import ClientApp

LARGEST = 1 << 20  # bytes of a plan


def plan_in(app: bytes) -> dict[str, bytes]:
    """Return the plan in an app, and its signature if there is one, by the names of their files.

    >>> made = io.BytesIO()
    >>> with zipfile.ZipFile(made, "w") as archive:
    ...     archive.writestr("catchment_app/plan.toml", '[data]\\nsource = "wearables"\\n')
    >>> plan_in(made.getvalue())
    {'plan.toml': b'[data]\\nsource = "wearables"\\n'}
    """
    wanted = (PLAN, signature_path(Path(PLAN)).name)
    try:
        with zipfile.ZipFile(io.BytesIO(app)) as archive:
            entries = [e for e in archive.infolist() if PurePosixPath(e.filename).name in wanted]
            found = {PurePosixPath(e.filename).name: _unpacked(archive, e) for e in entries}
    except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError, OSError) as error:
        raise RuleError("policy", f"the app that came is no app: {error}") from error
    if PLAN not in found or len(found) != len(entries):
        raise RuleError(
            "policy",
            f"the app has not one {PLAN} that this node could carry out by itself, and its code is "
            "not run; list the app's hash in apps of policy.toml if you trust it",
        )
    return found


def _unpacked(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> bytes:
    """Return a file of an archive; RuleError if it is large, whatever the archive says it is."""
    # Of other methods Python unpacks all before it counts.
    if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise RuleError("policy", "the app's plan is packed in another way than Flower packs apps")
    with archive.open(entry) as file:
        content = file.read(LARGEST + 1)
    if max(len(content), entry.file_size) > LARGEST:
        raise RuleError("policy", f"the app's plan has more than {LARGEST} bytes")
    return content


def refuse_code(plan: bytes) -> None:
    """Raise RuleError if a plan names classes or functions outside this library.

    >>> refuse_code(b'[features]\\nmap = "theirs:Map"')
    Traceback (most recent call last):
    catchment.errors.RuleError: the plan names 'theirs:Map', code that this node does not run ...
    """
    try:
        tables = tomllib.loads(plan.decode())
    except (ValueError, UnicodeDecodeError) as error:
        raise RuleError("policy", f"the app's plan is not valid TOML: {error}") from error
    data = tables.pop("data", None)  # columns may be called anything
    if isinstance(data, dict) and "source" in data:
        tables["source"] = data["source"]
    tables.pop("title", None)
    for text in _texts(tables):
        if ":" in text:
            raise RuleError(
                "policy",
                f'the plan names {text[:80]!r}, code that this node does not run (code = "mine" '
                "in policy.toml); list the app's hash in apps if you trust it",
            )


def _texts(value: object) -> list[str]:
    match value:
        case str():
            return [value]
        case dict():
            return [text for one in value.values() for text in _texts(one)]
        case list():
            return [text for one in value for text in _texts(one)]
    return []


def own_app(home: Path) -> Callable[[bytes], ClientApp]:
    """Return what makes this library's own app for the plan of an app that was sent."""

    def make(app: bytes) -> ClientApp:
        from catchment_fleet.apps.app import client_of

        files = plan_in(app)
        refuse_code(files[PLAN])
        folder = home / hashlib.sha256(app).hexdigest()
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        for name, content in files.items():
            replace_file(folder / name, content)
        return client_of(folder / PLAN)

    return make


def main(words: Sequence[str] | None = None) -> None:
    """Run one of the programs."""
    given = list(sys.argv[1:] if words is None else words)
    at = given.index("--") if "--" in given else len(given)
    parser = argparse.ArgumentParser(prog="python -m catchment_fleet.apps.launch")
    parser.add_argument("program", choices=("node", "executor", "app"))
    parser.add_argument("--policy", type=Path)
    parser.add_argument("--app", action="append", default=[], metavar="SHA256")
    parser.add_argument("--address", required=True)
    parser.add_argument("--parent", type=int)
    asked = parser.parse_args(given[:at])
    try:
        _run(asked, given[at + 1 :])
    except CatchmentError as error:
        sys.exit(f"error: {error}")


def _run(asked: argparse.Namespace, supernode: list[str]) -> None:
    # Beside the keys of a node: one that has none there has the default policy.
    policy = read_policy(asked.policy) if asked.policy and asked.policy.is_file() else Policy()
    same = [word for one in asked.app for word in ("--app", one)]
    same += ["--policy", str(asked.policy)] if asked.policy else []
    itself = [sys.executable, "-m", "catchment_fleet.apps.launch"]
    if asked.program == "node":
        # Beside the SuperNode, which this process becomes, an executor that ends when it does.
        executor = [*itself, "executor", *same, "--address", asked.address]
        parent = ["--parent", str(os.getpid())]
        subprocess.Popen([*executor, *parent], stdin=subprocess.DEVNULL)
        os.execve(supernode[0], supernode, os.environ)
    from catchment_fleet.deploy import launcher

    if asked.program == "executor":
        launcher.run_executor(asked.address, [*itself, "app", *same], parent=asked.parent)
    allowed = {launcher.checked_hash(text) for text in (*policy.apps, *asked.app)}
    home = Path(os.environ.get("FLWR_HOME", Path.home() / ".flwr")) / "catchment-apps"
    anything = policy.code == "any" and not allowed
    chosen = launcher.Chosen(allowed, anything, own_app(home), home)
    launcher.run_app(asked.address, sys.stdin.read().strip(), chosen, parent=asked.parent)


if __name__ == "__main__":
    main()
