"""L3, L4, L5, L6 and names: what is read is strict, what is printed is JSON, damage is noticed."""

from __future__ import annotations

import json
import random
import sqlite3
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import catchment as ct
from catchment.cli import app, print_json
from catchment.engine import run_locally
from catchment.errors import IntegrityError
from catchment.federation import RunFolder, read_run
from catchment.federation.runs import DATABASE, in_words
from catchment.plans import verify_run
from catchment.report import render
from tests.security.test_h1_one_reply_refuses_one_client import PLAN, waves

HOSTILE: list[Any] = ["", "a\nb", "\ud800", "../../etc/x", "/etc/x", "..", "a\x1b[2J", "x" * 201, 7]
HOSTILE += [None, b"ann", " ann", "a\u202eb", "a//b", "..\\x"]


@pytest.mark.parametrize("name", HOSTILE, ids=ascii)
def test_names_that_cannot_be_kept_are_refused_in_one_sentence(name: Any, tmp_path: Path) -> None:
    clients = {**waves(), name: waves()["c0"]}
    for start in (
        lambda: ct.federate(ct.EchoState(5), clients),
        lambda: ct.federate(ct.EchoState(5), clients, out=tmp_path / "run"),
        lambda: ct.federate(PLAN, clients),
        lambda: run_locally(PLAN, clients),
    ):
        with pytest.raises(
            ValueError, match=r"^a client is called .* printable characters"
        ) as said:
            start()
        assert str(said.value).isascii()
        assert len(str(said.value)) < 250
    assert not (tmp_path / "run").exists()


def test_ordinary_names_of_any_language_are_kept(tmp_path: Path) -> None:
    names = ["Zoë", "ward 3/bed 2", "患者-7", "a.b_c"]
    held = dict(zip(names, waves().values(), strict=False))
    run = ct.federate(ct.EchoState(5), held, out=tmp_path / "run")
    assert run.refused == ()
    assert set(read_run(tmp_path / "run").rows_by_client) == set(names)


def test_json_has_no_nan(capsys: pytest.CaptureFixture[str]) -> None:
    print_json({"a": float("nan"), "b": [float("inf"), (-float("inf"), 1.5)]})
    assert json.loads(capsys.readouterr().out) == {"a": None, "b": [None, [None, 1.5]]}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    u = np.sin(np.arange(90.0) / 5)
    clients = {f"c{k}": [ct.Recording(u[:-1] * (1 + k), u[1:])] for k in range(40)}
    ct.federate(ct.EchoState(5), clients, out=tmp_path / "run")
    return tmp_path / "run"


CHANGES = [
    "UPDATE messages SET sha256 = replace(sha256, substr(sha256, 1, 8), '00000000')",
    "UPDATE messages SET bytes = bytes + 1 WHERE client = 'c3'",
    "UPDATE messages SET client = 'x' WHERE client = 'c3'",
    "DELETE FROM messages WHERE client = 'c3'",
    "UPDATE rounds SET used = 12 WHERE stage = 'training'",
    "DELETE FROM rounds WHERE stage = 'scaling'",
    "INSERT INTO refusals VALUES ('training', 0, 'c3', 'a', 'b')",
    "UPDATE clients SET rows = 1 WHERE client = 'c3'",
    "UPDATE facts SET value = 'another' WHERE name = 'title'",
]


@pytest.mark.parametrize("change", CHANGES)
def test_a_changed_ledger_is_noticed_by_all_who_read_it(folder: Path, change: str) -> None:
    assert read_run(folder).damage == ()
    database = sqlite3.connect(folder / DATABASE)
    database.execute(change)
    database.commit()
    database.close()
    run = read_run(folder)
    assert run.damage
    assert "DAMAGED" in in_words(run, [])
    assert "DAMAGED" in render([run])
    assert any(check.what == "ledger" for check in verify_run(folder).having("differs"))
    with pytest.raises(IntegrityError, match=r"is damaged: .*start the run again"):
        RunFolder(folder, resume=True)


def test_segments_of_zeros_are_noticed_wherever_rows_are(folder: Path) -> None:
    """Zeros over any 64 bytes of the file are found, refused, or were zeros of no row."""
    whole = (folder / DATABASE).read_bytes()
    before = in_words(read_run(folder), [])
    rng = random.Random(0)
    noticed = 0
    for _ in range(60):
        place = rng.randrange(100, len(whole) - 64)
        damaged = whole[:place] + bytes(64) + whole[place + 64 :]
        (folder / DATABASE).write_bytes(damaged)
        try:
            run = read_run(folder)
        except IntegrityError:
            noticed += 1
            continue
        noticed += bool(run.damage)
        assert run.damage or in_words(run, []) == before
    assert noticed > 10


def test_an_empty_database_beside_states_is_no_fresh_start(folder: Path) -> None:
    (folder / DATABASE).write_bytes(b"")
    with pytest.raises(IntegrityError, match="is empty although there are states of a run"):
        RunFolder(folder, resume=True)


def test_an_empty_database_alone_starts_anew_and_says_so(tmp_path: Path) -> None:
    plan = tmp_path / "plan.toml"
    plan.write_text(
        '[data]\nsource = "narma"\nsteps = 300\n[features]\nunits = 5\n[run]\nbaselines = []\n'
    )
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / DATABASE).touch()
    done = CliRunner().invoke(app, ["run", str(plan), "--out", str(tmp_path / "run"), "--resume"])
    assert done.exit_code == 0, done.output
    assert "holds no run to go on with: it starts anew" in done.stderr
    again = CliRunner().invoke(app, ["run", str(plan), "--out", str(tmp_path / "run"), "--resume"])
    assert "starts anew" not in again.stderr
