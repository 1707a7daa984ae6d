"""`catchment verify` as a user types it: exit codes, one client, one's own files, JSON."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from catchment.federation import read_run
from tests.cli.test_predict import person
from tests.commands import typed

PLAN = """
[data]
files = "people/*.csv"
label = "activity"
recording = "rec"
time = "t"
test = 0.25
[preprocessing]
scale = "own"
[features]
units = 12
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A plan beside a folder of people, and a run of it."""
    folder = tmp_path_factory.mktemp("verify")
    (folder / "people").mkdir()
    for k in range(4):
        (folder / "people" / f"p{k}.csv").write_text(person(k))
    (folder / "plan.toml").write_text(PLAN)
    typed("run", folder / "plan.toml", "--out", folder / "runs" / "plan")
    return folder


@pytest.fixture
def run(place: Path, tmp_path: Path) -> Path:
    """A copy of everything, to be changed."""
    return Path(shutil.copytree(place, tmp_path / "copy")) / "runs" / "plan"


def outcomes(text: str) -> dict[str, str]:
    return {check["what"]: check["outcome"] for check in json.loads(text)["checks"]}


def test_a_run_that_agrees_says_so_line_by_line_wherever_it_was_moved(run: Path) -> None:
    said = typed("verify", run).stdout.splitlines()
    clients = sorted(read_run(run).rows_by_client)
    assert len(clients) == 3
    for name in clients:
        assert any(line.startswith(f"ok                 {name} from recordings") for line in said)
    assert said[-1] == f"all {len(said) - 1} checks agree"


def test_what_differs_is_exit_code_1_and_named(run: Path) -> None:
    name = min(read_run(run).rows_by_client)
    path = run.parents[1] / "people" / f"{name}.csv"
    path.write_text(re.sub(r",\d\.\d{6},", ",3.000000,", path.read_text(), count=1))
    done = typed("verify", run, code=1)
    assert f"differs            {name} from recordings" in done.stdout
    assert "1 of " in done.stdout.splitlines()[-1]
    typed("verify", run, "--kept")
    told = json.loads(typed("verify", run, "--json", code=1).stdout)
    assert told["agrees"] is False
    others = {k: v for k, v in outcomes(json.dumps(told)).items() if k != f"{name} from recordings"}
    assert set(others.values()) == {"ok"}


def test_a_client_verifies_its_own_file_without_the_others(run: Path, tmp_path: Path) -> None:
    name = max(read_run(run).rows_by_client)
    shutil.move(run.parents[1] / "people" / f"{name}.csv", tmp_path / "mine.csv")
    shutil.rmtree(run.parents[1] / "people")
    found = outcomes(typed("verify", run, tmp_path / "mine.csv", "--client", name, "--json").stdout)
    assert found[f"{name} from recordings"] == "ok"
    assert sum("as kept" in what for what in found) == 1
    lost = typed("verify", run).stdout
    assert "cannot be checked  statistics from recordings" in lost
    assert "the recordings are not here" in lost
    (tmp_path / "mine.csv").write_text(person(9))
    typed("verify", run, tmp_path / "mine.csv", "--client", name, code=1)


def test_the_plan_may_be_named_where_its_files_are(run: Path, place: Path, tmp_path: Path) -> None:
    moved = shutil.move(run, tmp_path / "elsewhere")
    found = outcomes(typed("verify", moved, "--plan", place / "plan.toml", "--json").stdout)
    assert sum(outcome == "ok" and "recordings" in what for what, outcome in found.items()) == 3


def test_mistakes_are_one_line(place: Path) -> None:
    run = place / "runs" / "plan"
    assert "holds no run" in typed("verify", place, code=2).stderr
    assert "there is no client 'zoe'" in typed("verify", run, "--client", "zoe", code=2).stderr
    assert "no-such.csv" in typed("verify", run, "no-such.csv", code=2).stderr
