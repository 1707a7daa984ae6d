"""How a node runs apps: only those that its owner chose, decided before anything of them is loaded.

Stock Flower runs on a node whatever Python the server sends. Its own remedy, `--trusted-entities`,
wants signatures and a license from the SuperLink, which come from Flower's hub: a run that was
started with `flwr run FOLDER` has neither, and every such app would be refused. So a node is
started with `--isolation process`, which leaves running the app to somebody else, and these are
the two programs that do it:

    executor    asks the SuperNode for tasks and starts one process for each; tasks of other kinds
                than client apps are never taken, and the task's token is on no command line
    app         fetches the message and the app, compares the app's SHA-256, and only then loads it

Flower's own code fetches, answers and reports; what is exchanged in it is what installs an app and
what loads it. That is tied to the releases named in `KNOWN`, and others are refused.
"""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import warnings
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any, NoReturn

from flwr.cli.install import install_from_fab
from flwr.clientapp import ClientApp
from flwr.clientapp.utils import get_load_client_app_fn
from flwr.supercore.constant import TaskType
from flwr.supercore.superexec import run_superexec as superexec
from flwr.supercore.superexec.executor import ExecutionSpec, LaunchResult
from flwr.supernode.runtime import run_clientapp as runtime

from catchment.errors import RuleError

KNOWN = ("1.41.", "1.42.")  # releases of Flower in which the two functions are exchanged
INSTALLS, LOADS = "install_from_fab", "get_load_client_app_fn"

MakeApp = Callable[[bytes], ClientApp]


@dataclass(eq=False)
class Chosen:
    """The app that a node runs for a message: one that its owner allowed, or one of its own.

    Parameters
    ----------
    allowed
        SHA-256 of apps whose code may be run.
    any_code
        Whether whatever the server sends is run.
    own
        Makes an app of this machine's own code from the app that was sent, reading it as data; None
        if an app that is not allowed is refused.
    home
        Folder in which allowed apps are unpacked.
    """

    allowed: Collection[str]
    any_code: bool
    own: MakeApp | None
    home: Path
    _load: Callable[[str, str, str], ClientApp] | None = None

    def install(self, content: bytes, *_: object, **__: object) -> None:
        """Decide about an app; RuleError if its code may not be run."""
        found = hashlib.sha256(content).hexdigest()
        if self.any_code or found in self.allowed:
            # Below the whole hash: Flower's own folders are named by its first eight digits.
            folder = install_from_fab(content, self.home / found, skip_prompt=True)
            self._load = get_load_client_app_fn(
                default_app_ref="", app_path=str(folder), multi_app=True
            )
        elif self.own is not None and not self.allowed:
            app = self.own(content)
            self._load = lambda *_: app
        else:
            raise RuleError(
                "policy",
                f"the server sent the app {found}, which is not in apps of this node's policy.toml",
            )

    def loading(self, *_: object, **__: object) -> Callable[[str, str, str], ClientApp]:
        """Return what loads the app, in place of Flower's own."""
        if self._load is None:
            raise RuleError("policy", "an app is loaded that was never checked")
        return self._load


def run_app(address: str, token: str, chosen: Chosen, *, parent: int | None = None) -> NoReturn:
    """Answer one message of a SuperNode with the app that was chosen, and exit."""
    refuse_unknown_flower(version("flwr"))
    exchange(runtime, "run_clientapp", INSTALLS, chosen.install)
    exchange(runtime, "run_clientapp", LOADS, chosen.loading)
    runtime.run_clientapp(address, token, insecure=True, parent_pid=parent)
    raise SystemExit(0)


def refuse_unknown_flower(release: str) -> None:
    """Raise RuleError if it is not known that this release of Flower asks `Chosen`.

    >>> refuse_unknown_flower("1.41.0")
    >>> refuse_unknown_flower("1.50.0")
    Traceback (most recent call last):
    catchment.errors.RuleError: Flower 1.50.0 may load apps in another way than this node checks...
    """
    if not release.startswith(KNOWN):
        raise RuleError(
            "policy",
            f"Flower {release} may load apps in another way than this node checks; install "
            f"{' or '.join(f'{known}*' for known in KNOWN)}",
        )


def exchange(module: Any, user: str, name: str, by: Callable[..., object]) -> None:
    """Put a function into the place of one that a function of a module calls by its name.

    RuleError if it does not: then something else decides what is run.
    """
    code = getattr(getattr(module, user, None), "__code__", None)
    if code is None or name not in code.co_names or not callable(getattr(module, name, None)):
        raise RuleError("policy", f"{user} of this release of Flower uses no {name}; use another")
    setattr(module, name, by)


@dataclass(eq=False)
class OwnExecutor:
    """Flower's executor, for client apps only and with a command of one's own.

    Parameters
    ----------
    command
        Starts the program `app`; it gets the address of the SuperNode, the number of the process
        that it ends with, and the token on its standard input.
    """

    command: Sequence[str]
    _running: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def get_eligible_capacity(
        self, supported_task_types: set[TaskType], **_: object
    ) -> tuple[set[TaskType], set[str]]:
        return supported_task_types & {TaskType.CLIENT_APP}, set()

    def wait_for_capacity(self, *_: object, **__: object) -> None:
        pass

    def launch(self, spec: ExecutionSpec) -> LaunchResult:
        if spec.task_type != TaskType.CLIENT_APP:
            return LaunchResult.failed(f"this node runs no {spec.task_type}")
        words = ["--address", spec.runtime_api_address, "--parent", str(os.getpid())]
        started = subprocess.Popen([*self.command, *words], stdin=subprocess.PIPE)
        assert started.stdin is not None
        with started.stdin as line:
            line.write(spec.token.encode())
        self._running.append(started)
        return LaunchResult.accepted()

    def reconcile(self) -> None:
        """Forget the processes that have ended."""
        self._running[:] = [one for one in self._running if one.poll() is None]

    def close(self) -> None:
        pass


def run_executor(address: str, command: Sequence[str], *, parent: int) -> NoReturn:
    """Start an app for every message of a SuperNode, as long as another process lives."""
    refuse_unknown_flower(version("flwr"))
    exchange(superexec, "run_superexec", "get_executor", lambda *_, **__: OwnExecutor(command))
    superexec.run_superexec(address, insecure=True, parent_pid=parent)
    raise SystemExit(0)


def checked_hash(text: str) -> str:
    """Return a SHA-256 in small letters; ValueError if a text is none.

    >>> checked_hash("AB" * 32) == "ab" * 32
    True
    >>> checked_hash("ab")
    Traceback (most recent call last):
    ValueError: 'ab' is no SHA-256; give its 64 hexadecimal digits
    """
    if not re.fullmatch(r"[0-9a-fA-F]{64}", text):
        raise ValueError(f"{text[:80]!r} is no SHA-256; give its 64 hexadecimal digits")
    return text.lower()


def app_hash(app: Path) -> str:
    """Return the SHA-256 of an app as nodes see it: of a folder, or of a file that was built."""
    from flwr.cli.build import build_fab_from_disk

    if not app.is_dir():
        return hashlib.sha256(app.read_bytes()).hexdigest()
    with warnings.catch_warnings():
        # Flower's own use of another package's old names.
        warnings.simplefilter("ignore", DeprecationWarning)
        return hashlib.sha256(build_fab_from_disk(app)).hexdigest()
