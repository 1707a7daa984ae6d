"""L3, L4, L5 and names: what is read is strict, what is printed is JSON."""

from __future__ import annotations

import json
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
from catchment.federation.runs import DATABASE
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
