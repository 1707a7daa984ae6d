"""A15: names that lead elsewhere are refused, and nothing is written outside its folder."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from catchment.cli import main
from catchment.errors import FederationError, IntegrityError
from catchment.federation import Plan, RunFolder
from catchment.privacy import FileMemory, Journal, SecureAggregation, generate_keys
from tests.security.fleet import Adding, Fleet

HOSTILE = [
    "../x",
    "/etc/x",
    "a/../../b",
    "a/b",
    "..",
    ".",
    "",
    "a\0b",
    "a\nb",
    "a b",
    'a"b',
    "x" * 10_000,
    "ä",
    "C:\\x",
    "~root",
]
IDENTITY = "ab" * 32


def everything(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


@pytest.mark.parametrize("name", HOSTILE)
def test_clients_and_federations_cannot_be_called_so(name: str) -> None:
    with pytest.raises(ValueError, match="letters"):
        SecureAggregation(identities={name: IDENTITY})
    with pytest.raises(ValueError, match="letters"):
        SecureAggregation(identities={"ann": IDENTITY}, federation=name)


@pytest.mark.parametrize("key", ["", "ab", "AB" * 32, "zz" * 32, "ab" * 33, "../x"])
def test_keys_that_are_none_are_refused(key: str) -> None:
    with pytest.raises(ValueError, match="pass 64 hexadecimal digits"):
        SecureAggregation(identities={"ann": key})


def test_one_key_for_two_names_is_refused() -> None:
    with pytest.raises(ValueError, match="two clients have one identity"):
        SecureAggregation(identities={"ann": IDENTITY, "ben": IDENTITY})


@pytest.mark.parametrize("name", [name for name in HOSTILE if "\0" not in name])
def test_a_hostile_name_stays_inside_a_memory(name: str, tmp_path: Path) -> None:
    memory = FileMemory(tmp_path / "memory")
    memory[name] = b"kept"
    assert memory[name] == b"kept"
    assert list(memory) == [name]
    assert all(entry.startswith("memory") for entry in everything(tmp_path))
    del memory[name]
    assert everything(tmp_path) == {"memory"}
    with pytest.raises(KeyError):
        memory[name]
    with pytest.raises(KeyError):
        del memory[name]


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_client_stays_inside_a_journal(name: str, tmp_path: Path) -> None:
    with Journal(tmp_path / "sums") as journal:
        number, _ = journal.begin(name, 0, [name])
        journal.keep(number, name, b"masked")
        assert list(journal.replies(number, "update")) == [(name, b"masked")]
        files = everything(tmp_path)
    payloads = [f for f in files if f.startswith("sums/payloads/")]
    assert len(payloads) == 1
    assert all(f.startswith("sums") for f in files)


@pytest.mark.parametrize("name", HOSTILE)
def test_stages_of_a_run_cannot_be_called_so(name: str, tmp_path: Path) -> None:
    with (
        RunFolder(tmp_path / "run") as store,
        pytest.raises(ValueError, match="lower-case letters"),
    ):
        store.keeper(name, Plan(algorithm=Adding()))
    assert all(entry.startswith("run") for entry in everything(tmp_path))


def test_links_are_not_followed(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    for inside in ("link", "folder/payloads", "other/journal.sqlite"):
        link = tmp_path / inside
        link.parent.mkdir(exist_ok=True)
        link.symlink_to(outside / "x" if inside.endswith("sqlite") else outside)
        folder = tmp_path / inside.split("/")[0]
        with pytest.raises(FederationError, match="is a link"):
            Journal(folder)
    with pytest.raises(IntegrityError, match="is a link"):
        FileMemory(tmp_path / "link")
    assert everything(outside) == set()


def test_two_servers_cannot_share_a_journal(tmp_path: Path) -> None:
    with Journal(tmp_path), pytest.raises(FederationError, match="another process writes"):
        Journal(tmp_path)


@pytest.mark.parametrize("name", [name for name in HOSTILE if "\0" not in name])
@pytest.mark.parametrize("command", [["data", "path"], ["plan", "--example"]])
def test_the_command_line_refuses_them(
    name: str,
    command: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    root = tmp_path / "root"
    root.mkdir()
    monkeypatch.chdir(root)
    with pytest.raises(SystemExit) as ended:
        main([*command, name])
    assert ended.value.code not in (0, None)
    assert "Traceback" not in capsys.readouterr().err
    assert everything(tmp_path) == {"root"}


def test_a_reply_from_a_name_that_was_not_asked_is_not_opened() -> None:
    fleet = Fleet.drawn(3)
    exchange = fleet.until("update")
    assert exchange.asked("update") == tuple(sorted(fleet.vectors))
    assert generate_keys(["../x"]).keys() == {"../x"}
    with pytest.raises(ValueError, match="letters"):
        Fleet.of({"../x": np.ones(1)})


def test_a_clients_memory_is_for_nobody_else(tmp_path: Path) -> None:
    memory = FileMemory(tmp_path / "ann")
    memory["identity"] = b"secret"
    (entry,) = memory.folder.iterdir()
    assert (memory.folder.stat().st_mode & 0o077, entry.stat().st_mode & 0o077) == (0, 0)
