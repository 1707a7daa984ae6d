"""Stock Flower runs on nodes what the server sends; these nodes decide before anything is imported.

On real processes: tests/fleet/test_fleet_apps.py.
"""

from __future__ import annotations

import io
import json
import sys
import types
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("flwr", reason="no Flower here; pip install 'catchment[fleet]'")

from flwr.clientapp import ClientApp
from flwr.supercore.constant import TaskType
from flwr.supercore.superexec import run_superexec as superexec
from flwr.supercore.superexec.executor import ExecutionSpec, LaunchResultStatus
from flwr.supernode.runtime import run_clientapp as runtime

from catchment.errors import RuleError
from catchment_fleet.apps import PACKAGE, own_app, plan_in, refuse_code, write_app
from catchment_fleet.deploy import (
    Chosen,
    OwnExecutor,
    app_hash,
    exchange,
    node_command,
    refuse_unknown_flower,
)

HOSTILE = """
from pathlib import Path
Path({marker!r}).write_text("ran")
"""


@pytest.fixture
def sent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], tuple[bytes, Path]]:
    """Make an app whose client module writes a file when it is imported."""
    import warnings

    from flwr.cli.build import build_fab_from_disk

    monkeypatch.setattr(sys, "path", [*sys.path])

    def make(name: str) -> tuple[bytes, Path]:
        marker = tmp_path / f"{name}-ran"
        write_app(tmp_path / name)
        client = tmp_path / name / PACKAGE / "client.py"
        client.write_text(client.read_text() + HOSTILE.format(marker=str(marker)))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            return build_fab_from_disk(tmp_path / name), marker

    return make


def loaded(chosen: Chosen, content: bytes) -> Any:
    """Return the app that is loaded, as Flower's own code asks for it."""
    chosen.install(content, skip_prompt=True)
    load = chosen.loading(default_app_ref="", app_path=None, multi_app=True)
    return load("catchment/theirs", "1.0.0", "0" * 64)


def forget(package: str) -> None:
    for name in [name for name in sys.modules if name.split(".")[0] == package]:
        del sys.modules[name]


def test_an_app_with_another_hash_is_refused_and_nothing_of_it_ran(
    sent: Callable[[str], tuple[bytes, Path]], tmp_path: Path
) -> None:
    content, marker = sent("theirs")
    home = tmp_path / "home"
    for own in (None, own_app(home)):
        chosen = Chosen({"ab" * 32}, any_code=False, own=own, home=home)
        with pytest.raises(RuleError, match=r"is not in apps of this node's policy\.toml"):
            loaded(chosen, content)
        assert not marker.exists()
        assert not home.exists()  # nothing was unpacked either
        with pytest.raises(RuleError, match="never checked"):
            chosen.loading()


def test_an_app_that_is_listed_is_loaded_from_what_was_compared(
    sent: Callable[[str], tuple[bytes, Path]], tmp_path: Path
) -> None:
    content, marker = sent("theirs")
    chosen = Chosen({app_hash(tmp_path / "theirs")}, False, None, tmp_path / "home")
    try:
        assert isinstance(loaded(chosen, content), ClientApp)
    finally:
        forget(PACKAGE)
    assert marker.exists()
    # One changed byte is another app.
    with pytest.raises(RuleError):
        loaded(chosen, content + b"\0")


def test_by_default_the_plan_is_carried_out_by_the_library_of_this_node(
    sent: Callable[[str], tuple[bytes, Path]], tmp_path: Path
) -> None:
    content, marker = sent("theirs")
    home = tmp_path / "home"
    app = loaded(Chosen((), False, own_app(home), home), content)
    assert isinstance(app, ClientApp)
    assert not marker.exists()
    assert PACKAGE not in sys.modules
    assert [path.name for path in home.rglob("*") if path.is_file()] == ["plan.toml"]


def archive(**files: str) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as zipped:
        for name, text in files.items():
            zipped.writestr(name.replace("__", "/"), text)
    return made.getvalue()


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "is no app"),
        (b"PK\x03\x04" + bytes(40), "is no app"),
        (archive(a="x"), "not one plan.toml"),
        (archive(**{"a__plan.toml": "", "b__plan.toml": ""}), "not one plan.toml"),
        (archive(**{"a__plan.toml": " " * (1 << 21)}), "more than"),
    ],
)
def test_what_is_no_app_is_refused(content: bytes, said: str) -> None:
    with pytest.raises(RuleError, match=said):
        plan_in(content)


@pytest.mark.parametrize(
    "plan",
    [
        '[features]\nmap = "os:system"',
        '[learn]\nalgorithm = "subprocess:Popen"',
        '[learn]\nx = { deep = ["a:b"] }',
        '[[candidates]]\nmap = "a:b"',
        '[[protections]]\nname = "a:b"',
        '[data]\nsource = "a:b"',
        "not TOML =",
    ],
)
def test_a_plan_cannot_name_code(plan: str) -> None:
    with pytest.raises(RuleError):
        refuse_code(plan.encode())


def test_a_title_and_columns_may_be_called_anything() -> None:
    refuse_code(b'title = "a: b"\n[data]\nfiles = "*.csv"\ninputs = ["u:v"]')


def test_only_client_apps_are_run_and_the_token_is_on_no_command_line(tmp_path: Path) -> None:
    out = tmp_path / "out"
    code = f"import json, sys; json.dump((sys.argv, sys.stdin.read()), open({str(out)!r}, 'w'))"
    executor = OwnExecutor([sys.executable, "-c", code])
    assert executor.get_eligible_capacity(set(TaskType)) == ({TaskType.CLIENT_APP}, set())

    def spec(kind: TaskType) -> ExecutionSpec:
        return ExecutionSpec(
            task_type=kind,
            runtime_api_address="127.0.0.1:1",
            token="secret",
            insecure=True,
            root_certificates_path=None,
            runtime_dependency_install=False,
            parent_pid=None,
            suppress_output=False,
            task_id=1,
        )

    for kind in set(TaskType) - {TaskType.CLIENT_APP}:
        assert executor.launch(spec(kind)).status == LaunchResultStatus.FAILED
    assert executor.launch(spec(TaskType.CLIENT_APP)).status == LaunchResultStatus.ACCEPTED
    (started,) = executor._running
    assert started.wait(60) == 0
    words, token = json.loads(out.read_text())
    assert token == "secret"
    assert "secret" not in words
    executor.reconcile()
    assert executor._running == []


def test_flower_is_the_one_whose_functions_are_exchanged() -> None:
    """If a release decides elsewhere what is run, the node does not start."""
    for user, name, module in (
        ("run_clientapp", "install_from_fab", runtime),
        ("run_clientapp", "get_load_client_app_fn", runtime),
        ("run_superexec", "get_executor", superexec),
    ):
        assert name in getattr(module, user).__code__.co_names
    other = types.SimpleNamespace(run_clientapp=lambda: None, install_from_fab=print)
    with pytest.raises(RuleError, match="uses no install_from_fab"):
        exchange(other, "run_clientapp", "install_from_fab", print)
    with pytest.raises(RuleError, match=r"Flower 2\.0\.0"):
        refuse_unknown_flower("2.0.0")


def test_a_node_is_started_so_that_flower_runs_nothing_itself(tmp_path: Path) -> None:
    command = node_command(tmp_path, "localhost:1", {}, apps=["ab" * 32])
    at = command.index("--isolation")
    assert command[at + 1] == "process"
    own = command[: command.index("--")]
    assert own[own.index("--app") + 1] == "ab" * 32
    assert own[own.index("--policy") + 1] == str(tmp_path / "policy.toml")
