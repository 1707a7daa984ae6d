"""The commands of a deployment that start nothing."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from catchment.cli import app
from catchment.errors import IntegrityError, RuleError
from catchment.plans import read_plan
from catchment.privacy import FileMemory, PrivacyLedger
from catchment.privacy.secure_aggregation import Notebook, Session
from catchment_fleet.apps import is_signed
from catchment_fleet.deploy import app_hash


def run(*words: str | Path) -> str:
    done = CliRunner().invoke(app, [str(word) for word in words], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.output


def test_a_server_and_nodes_make_keys_apart(tmp_path: Path) -> None:
    server = tmp_path / "server-side"
    told: list[str | Path] = []
    run("flower", "keys", server, "--host", "fleet.example.org")
    for name in ("ann", "ben", "cy"):
        place = tmp_path / name
        assert "public.json" in run("flower", "keys", place, "--node", name)
        told += ["--admit", place / "nodes" / name / "public.json"]
    assert "3 nodes are known" in run("flower", "keys", server, *told)
    identities = json.loads((server / "server" / "identities.json").read_text())
    assert sorted(identities) == ["ann", "ben", "cy"]
    assert not (server / "nodes").exists()
    assert not (tmp_path / "ann" / "ca").exists()


def test_all_keys_of_a_trial(tmp_path: Path) -> None:
    run("flower", "keys", tmp_path, "--host", "localhost", "--node", "ann", "--node", "ben")
    for name in ("ann", "ben"):
        there = {path.name for path in (tmp_path / "nodes" / name).iterdir()}
        assert {"node.key", "node.pub", "ca.crt", "identities.json", "memory"} <= there


def test_keys_of_nobody(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="name what to make"):
        run("flower", "keys", tmp_path)


def node_memory(tmp_path: Path) -> tuple[Path, FileMemory]:
    run("flower", "keys", tmp_path, "--node", "ann")
    keys = tmp_path / "nodes" / "ann"
    return keys, FileMemory(keys / "memory")


def test_a_nodes_owner_sees_what_was_released(tmp_path: Path) -> None:
    keys, memory = node_memory(tmp_path)
    assert run("flower", "ledger", keys) == "nothing was released\n"
    ledger = PrivacyLedger(memory)
    ledger.upload("ab" * 32, 3, "ridge-statistics", session="7", clients=["ann", "ben", "cy"])
    ledger.release("7", ["ann", "ben", "cy"])
    said = run("flower", "ledger", keys)
    assert "ridge-statistics  plan abababababab  round 3" in said
    assert "sum of 3 clients, exact\n1 release\n" in said


def test_a_node_that_was_locked_out_forgets_rounds_and_nothing_else(tmp_path: Path) -> None:
    """M2: a server whose clock is a year ahead."""
    keys, memory = node_memory(tmp_path)
    book = Notebook(memory, Session("town", "p", 10**6))
    book.enter("keys", b"letter")
    with pytest.raises(RuleError, match="not the latest"):
        Notebook(memory, Session("town", "p", 7)).enter("keys", b"letter")
    PrivacyLedger(memory).upload("p", 0, "ridge-statistics")
    before = {name: memory[name] for name in memory if not name.startswith("secure-sum/town")}
    said = run("flower", "ledger", keys, "--forget-rounds")
    assert said.startswith("rounds of town are forgotten\n")
    assert said.endswith("in the clear, exact\n1 release\n")
    assert dict(memory) == before
    Notebook(memory, Session("town", "p", 7)).enter("keys", b"letter")


def test_a_ledger_that_was_changed_is_not_shown(tmp_path: Path) -> None:
    keys, memory = node_memory(tmp_path)
    for round_ in range(2):
        PrivacyLedger(memory).upload("p", round_, "ridge-statistics")
    page = next(name for name in memory if name.startswith("releases/0") or "page" in name)
    memory[page] = memory[page].replace(b"ridge", b"rigde")
    with pytest.raises(IntegrityError, match="an entry is missing or changed"):
        run("flower", "ledger", keys)
    with pytest.raises(FileNotFoundError, match="holds no node's memory"):
        run("flower", "ledger", tmp_path)


def test_fingerprints_and_signatures_for_a_policy(tmp_path: Path) -> None:
    run("flower", "init", tmp_path / "app")
    plan = tmp_path / "app" / "catchment_app" / "plan.toml"
    lines = dict(
        line.split() for line in run("flower", "fingerprint", tmp_path / "app").splitlines()
    )
    assert lines["plan"] == read_plan(plan).fingerprint
    assert run("flower", "fingerprint", plan) == f"plan  {lines['plan']}\n"
    built = tmp_path / "built.fab"
    built.write_bytes(b"app")
    assert run("flower", "fingerprint", built) == f"app   {hashlib.sha256(b'app').hexdigest()}\n"
    said = run("flower", "sign", plan, "--key", tmp_path / "signer.key")
    signer = said.split('"')[1]
    assert is_signed(plan, lines["plan"], signer)
    assert dict(
        line.split() for line in run("flower", "fingerprint", tmp_path / "app").splitlines()
    ) == {"plan": lines["plan"], "app": app_hash(tmp_path / "app")}
