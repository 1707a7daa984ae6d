"""What stands between Flower and the engine: messages, errors in words, memories, terms."""

from __future__ import annotations

import importlib
import importlib.util
import subprocess
import sys
import threading
import zipfile
from collections.abc import Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from flwr.app import ArrayRecord, ConfigRecord, Context, Error, RecordDict
from flwr.cli.supernode.register import try_load_public_key
from flwr.clientapp import ClientApp
from flwr.serverapp import ServerApp

from catchment.errors import IntegrityError, MissingExtraError
from catchment.privacy import FileMemory
from catchment_fleet.apps import PACKAGE, write_app
from catchment_fleet.deploy import make_keys
from catchment_fleet.flower import (
    WHOLE,
    GridLine,
    Order,
    Terms,
    name_of,
    one_at_a_time,
    packed,
    packed_order,
    read_keys,
    remembered,
    said,
    share,
    unpacked,
    unpacked_order,
)


def test_an_order_survives_the_journey() -> None:
    order = Order("training", bytes(range(256)) * 50)
    back = unpacked_order(packed_order(order))
    assert (back.stage, back.request) == (order.stage, order.request)
    assert unpacked_order(packed_order(Order("hello"))).request == b""


@pytest.mark.parametrize(
    "content",
    [
        RecordDict(),
        packed("letter", b"x"),
        RecordDict({"order": ConfigRecord({"stage": 3})}),
        RecordDict({"order": ConfigRecord({"stage": "training"})}),
        RecordDict({"order": ConfigRecord({"stage": "training"}), "letter": ConfigRecord()}),
    ],
)
def test_a_message_that_is_no_order_is_refused(content: RecordDict) -> None:
    with pytest.raises(IntegrityError, match="message came"):
        unpacked_order(content)


class Pigeons:
    """A grid that has these answers."""

    def __init__(self, *messages: Any) -> None:
        self.messages = messages

    def pull_messages(self, tickets: Iterable[str]) -> list[Any]:
        return list(self.messages)


def message(ticket: str, content: RecordDict | None = None, error: Error | None = None) -> Any:
    return SimpleNamespace(
        metadata=SimpleNamespace(reply_to_message_id=ticket),
        content=content,
        error=error,
        has_error=lambda: error is not None,
    )


def test_answers_are_told_apart_from_errors_strangers_and_repetitions() -> None:
    grid: Any = Pigeons(
        message("t1", packed("reply", b"one")),
        message("t9", packed("reply", b"not asked for")),
        message("t2", error=Error(2, "Traceback\n  File x\nValueError: broken\n")),
        message("t1", packed("reply", b"again")),
        message("t3", RecordDict()),
    )
    answers = list(GridLine(grid).collect(["t1", "t2", "t3"]))
    assert [(a.ticket, a.content, a.error) for a in answers] == [
        ("t1", b"one", ""),
        ("t2", None, "its app failed: ValueError: broken"),
        ("t3", None, "a message came without its reply"),
    ]
    assert list(GridLine(grid).collect([])) == []


def test_a_node_can_take_no_other_clients_name(tmp_path: Path) -> None:
    make_keys(tmp_path, ["localhost"], ["ann", "ben"])
    keys = read_keys(tmp_path / "server" / "nodes")
    # Flower's own reading of the file is what it would tell of a node.
    shown = try_load_public_key(tmp_path / "nodes" / "ann" / "node.pub")
    nodes = [
        SimpleNamespace(node_id=1, public_key=shown),
        SimpleNamespace(node_id=2, public_key=b""),
    ]
    grid: Any = SimpleNamespace(get_nodes=lambda: nodes)
    line = GridLine(grid, keys)
    line.vouch(1, "ann")
    for node, name in ((1, "ben"), (1, "cem"), (2, "ann"), (3, "ann")):
        with pytest.raises(IntegrityError, match=f"it calls itself '{name}', and its key is not"):
            line.vouch(node, name)
    GridLine(grid).vouch(1, "ben")


def test_keys_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    (tmp_path / "ann.pub").write_text("ssh-nothing AAAA")
    with pytest.raises(ValueError, match=r"ann\.pub is not a public key"):
        read_keys(tmp_path)
    with pytest.raises(FileNotFoundError, match="no folder of nodes' keys"):
        read_keys(tmp_path / "nothing")


def test_errors_of_flower_are_one_line() -> None:
    assert said(Error(5)) == "its node is gone"
    assert said(Error(99, "  \n")) == "it failed"
    assert len(said(Error(2, "x" * 5000))) < 400


def context(config: dict[str, Any]) -> Context:
    return Context(1, 2, config, RecordDict(), {})


def test_a_memory_is_a_folder_or_the_state_of_the_run(tmp_path: Path) -> None:
    run = context({})
    with remembered(run) as memory:
        memory["a"] = b"1"
    with remembered(run) as memory:
        assert dict(memory) == {"a": b"1"}
    for config in ({"memory": str(tmp_path / "k" / "memory")}, {"keys": str(tmp_path / "k")}):
        with remembered(context(config)) as memory:
            memory["b"] = memory.get("b", b"") + b"2"
    assert dict(FileMemory(tmp_path / "k" / "memory")) == {"b": b"22"}
    assert (tmp_path / "k" / "memory").stat().st_mode & 0o077 == 0


def test_a_memory_is_for_one_message_at_a_time(tmp_path: Path) -> None:
    inside, order = threading.Event(), []

    def second() -> None:
        with one_at_a_time(tmp_path / "lock"):
            order.append("second")

    thread = threading.Thread(target=second)
    with one_at_a_time(tmp_path / "lock"):
        thread.start()
        inside.wait(0.3)
        order.append("first")
    thread.join()
    assert order == ["first", "second"]


def test_terms_come_from_the_run_config() -> None:
    config: dict[str, Any] = {
        "expect": 4,
        "wait": 5.5,
        "in-flight": 3,
        "allow-plain-statistics": True,
        "out": "x",
    }
    assert Terms.of(config) == Terms(expect=4, wait=5.5, in_flight=3, allow_plain_statistics=True)
    assert Terms.of({}) == Terms()
    bad: list[dict[str, Any]] = [{"timeout": True}, {"timeout": "5"}, {"allow-plain-statistics": 1}]
    for wrong in bad:
        with pytest.raises(ValueError, match="in the run config is"):
            Terms.of(wrong)


def test_a_node_without_a_name_is_told_how_to_get_one() -> None:
    with pytest.raises(ValueError, match='name="ann"'):
        name_of({})


def test_flower_builds_the_app_and_its_modules_are_apps(tmp_path: Path) -> None:
    folder = tmp_path / "sensors"
    write_app(folder)
    flwr = Path(sys.executable).with_name("flwr")
    done = subprocess.run(
        [flwr, "build", "--app", folder], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (bundle,) = tmp_path.glob("*.fab")
    names = zipfile.ZipFile(bundle).namelist()
    assert {f"{PACKAGE}/plan.toml", f"{PACKAGE}/server.py", f"{PACKAGE}/client.py"} <= set(names)
    for name, kind in (("server", ServerApp), ("client", ClientApp)):
        path = folder / PACKAGE / f"{name}.py"
        found: dict[str, Any] = {"__file__": str(path)}
        exec(compile(path.read_text(), str(path), "exec"), found)
        assert isinstance(found["app"], kind)


@pytest.mark.parametrize(("size", "kind"), [(WHOLE, ConfigRecord), (WHOLE + 1, ArrayRecord)])
def test_only_long_letters_are_cut(size: int, kind: type) -> None:
    content = bytes(range(256)) * (size // 256) + bytes(size % 256)
    made = packed("letter", content)
    assert isinstance(made["letter"], kind)
    assert unpacked(made, "letter") == content


def test_bytes_under_another_name_are_missed() -> None:
    with pytest.raises(IntegrityError, match="without its reply"):
        unpacked(packed("letter", b"x"), "reply")


def test_without_ray_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match=r"catchment\[fleet\]"):
        share(1)
