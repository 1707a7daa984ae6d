"""The command line: what it prints, and how it fails."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

import catchment
from catchment.cli import app, main
from catchment_lab.datasets import CATALOGUE

RUNNER = CliRunner()


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A data directory with one good set and two broken ones."""
    (tmp_path / "sunspots").mkdir()
    (tmp_path / "sunspots" / "sunspots.csv").write_text("YEAR,SUNACTIVITY\n1700,5\n1701,11\n")
    (tmp_path / "uci_har").mkdir()
    (tmp_path / "uci_har" / "uci_har.packed.npz").write_bytes(b"damaged")
    (tmp_path / "hhar").mkdir()
    (tmp_path / "hhar" / "hhar.zip").write_bytes(b"no zip")
    return tmp_path


def failure(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    output = capsys.readouterr()
    assert output.out == ""
    assert isinstance(caught.value.code, int)
    return caught.value.code, output.err


def test_version() -> None:
    result = RUNNER.invoke(app, ["--version"])
    assert (result.exit_code, result.output) == (0, f"catchment {catchment.__version__}\n")


def test_help_names_the_commands() -> None:
    assert "data" in RUNNER.invoke(app, ["--help"]).output
    output = RUNNER.invoke(app, ["data", "--help"]).output
    assert all(name in output for name in ("list", "path", "pack", "check"))


def test_list_as_a_table(data: Path) -> None:
    result = RUNNER.invoke(app, ["data", "list", "--data", str(data)])
    assert result.exit_code == 0
    lines = {line.split()[0]: line for line in result.output.splitlines() if line[:1].strip()}
    assert set(CATALOGUE) <= set(lines)
    assert "original" in lines["sunspots"]
    assert "0 kB" in lines["sunspots"]
    assert "packed" in lines["uci_har"]
    assert "damaged" in lines["hhar"]
    assert lines["fsdd"].endswith(" -")


def test_list_as_json(data: Path) -> None:
    result = RUNNER.invoke(app, ["data", "list", "--json", "--data", str(data)])
    rows = {row["name"]: row for row in json.loads(result.output)}
    assert list(rows) == list(CATALOGUE)
    assert rows["sunspots"]["form"] == "original"
    assert rows["sunspots"]["bytes"] == (data / "sunspots" / "sunspots.csv").stat().st_size
    assert rows["sunspots"]["path"] == str(data / "sunspots")
    assert rows["fsdd"]["form"] is None
    assert rows["fsdd"]["license"] == "CC BY-SA 4.0"


def test_path(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    result = RUNNER.invoke(app, ["data", "path", "sunspots", "--data", str(data)])
    assert (result.exit_code, result.output) == (0, f"{data / 'sunspots'}\n")
    monkeypatch.setenv("CATCHMENT_DATA", str(data))
    assert RUNNER.invoke(app, ["data", "path"]).output.splitlines()[0] == str(data)
    assert json.loads(RUNNER.invoke(app, ["data", "path", "--json"]).output)[0] == str(data)
    named = RUNNER.invoke(app, ["data", "path", "sunspots", "--json"])
    assert json.loads(named.output) == str(data / "sunspots")


def test_check_of_one_good_set(data: Path) -> None:
    result = RUNNER.invoke(app, ["data", "check", "sunspots", "--data", str(data)])
    assert result.exit_code == 0
    assert "ok" in result.output


def test_check_of_everything(data: Path) -> None:
    result = RUNNER.invoke(app, ["data", "check", "--json", "--data", str(data)])
    assert result.exit_code == 1
    rows = {row["name"]: row for row in json.loads(result.output)}
    assert rows["sunspots"]["state"] == "ok"
    assert rows["sunspots"]["what"] == "1 recording"
    assert rows["uci_har"]["state"] == "failed"
    assert "uci_har.packed.npz is damaged" in rows["uci_har"]["what"]
    assert rows["hhar"]["state"] == "failed"
    assert "hhar.zip is damaged" in rows["hhar"]["what"]
    assert {row["state"] for name, row in rows.items() if not (data / name).exists()} == {"missing"}


def test_check_fails_for_a_missing_set_only_if_it_was_named(tmp_path: Path) -> None:
    assert RUNNER.invoke(app, ["data", "check", "--data", str(tmp_path)]).exit_code == 0
    result = RUNNER.invoke(app, ["data", "check", "fsdd", "--data", str(tmp_path)])
    assert result.exit_code == 1
    assert "missing" in result.output


def test_pack(data: Path, tmp_path: Path) -> None:
    words = ["data", "pack", "sunspots", "--data", str(data), "--out", str(tmp_path / "packed")]
    result = RUNNER.invoke(app, words)
    path = tmp_path / "packed" / "sunspots" / "sunspots.packed.npz"
    assert (result.exit_code, result.output) == (0, f"{path}\n")
    listed = RUNNER.invoke(app, ["data", "list", "--json", "--data", str(tmp_path / "packed")])
    rows = {row["name"]: row for row in json.loads(listed.output)}
    assert (rows["sunspots"]["form"], rows["sunspots"]["bytes"]) == ("packed", path.stat().st_size)


def test_mistakes_are_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, message = failure(["data", "path", "uci-har"], capsys)
    assert code == 2
    assert message == "error: no data set is called 'uci-har'; did you mean 'uci_har'?\n"
    code, message = failure(["data", "check", "sunspots", "laser"], capsys)
    assert code == 2
    assert "no data set is called 'laser'" in message
    code, message = failure(["data", "path", "fsdd", "--data", str(tmp_path)], capsys)
    assert code == 2
    assert message.startswith("error: fsdd (spoken English digits")
    assert str(tmp_path / "fsdd") in message
    assert message.count("\n") == 1


def test_what_a_search_prints_can_be_pasted_where_names_have_spaces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("my plan.toml").write_text(
        '[data]\nsource = "wearables"\nusers = 4\ntest = 0.25\n[features]\nmap = "echo_state"\n'
        "[search]\ntrials = 1\nunits = [5, 10]\n"
    )
    told = ["catchment", "search", "my plan.toml"]
    for remedy in ("the whole plan: ", "      next: "):
        done = CliRunner().invoke(app, told[1:])
        assert done.exit_code == 0, done.output
        (advice,) = (line for line in done.output.splitlines() if remedy in line)
        told = shlex.split(advice.partition(remedy)[2])
    assert told == ["catchment", "run", "my plan-tuned.toml"]
    assert Path(told[-1]).is_file()


def test_a_command_that_does_not_exist(capsys: pytest.CaptureFixture[str]) -> None:
    code, message = failure(["data", "lst"], capsys)
    assert code == 2
    assert "No such command 'lst'" in message
    assert message.count("Did you mean") == 1


def test_as_a_process(tmp_path: Path) -> None:
    environment = {**os.environ, "CATCHMENT_DATA": str(tmp_path)}
    command = [sys.executable, "-W", "error", "-m", "catchment.cli", "data"]
    run = subprocess.run(
        [*command, "path"], env=environment, capture_output=True, text=True, check=True
    )
    assert run.stdout.splitlines()[0] == str(tmp_path)
    run = subprocess.run(
        [*command, "check", "uci_hr"], env=environment, capture_output=True, text=True, check=False
    )
    assert run.returncode == 2
    assert run.stdout == ""
    assert run.stderr == "error: no data set is called 'uci_hr'; did you mean 'uci_har'?\n"


def test_help_needs_nothing_heavy() -> None:
    code = (
        "import sys, catchment.cli; heavy = ('numpy', 'numba', 'sklearn', 'matplotlib'); "
        "print([name for name in heavy if name in sys.modules])"
    )
    run = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
    )
    assert run.stdout == "[]\n"
