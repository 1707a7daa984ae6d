"""The commands of a deployment that start nothing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from catchment.cli import app


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


def test_the_proxy_names_the_servers_own_files(tmp_path: Path) -> None:
    text = run("flower", "proxy", tmp_path, "--listen", "0.0.0.0:9443", "--superlink", "8001")
    assert f"ssl_certificate     {tmp_path.resolve()}/server/server.crt;" in text
    assert "listen 0.0.0.0:9443 ssl;" in text
    assert "server 127.0.0.1:8001;" in text
    assert "ssl_verify_client" not in text
    asked = run("flower", "proxy", tmp_path, "--clients", tmp_path / "ca.crt", "--whole")
    assert "ssl_verify_client on;" in asked
    assert "daemon off;" in asked
