"""H6: a plan file with noise is charged to a ledger, and its second run is refused."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from catchment.cli import app, main
from catchment.errors import BudgetError
from catchment.federation import Cost
from catchment.plans import PlanFile, read_plan, run_plan
from catchment.privacy import Budget, GaussianNoise

PLAN = """
[data]
source = "wearables"
users = 8
test = 0.375
[preprocessing]
scale = "own"
[features]
units = 8
[learn]
ridge = 0.0
store_per_client = false
[run]
baselines = []
[[protections]]
name = "gaussian_noise"
epsilon = 1.0
delta = 1e-5
clip = {bound = 5.0}
min_clients = 4
small_cohort = true
"""


def written(folder: Path, text: str = PLAN, name: str = "plan.toml") -> PlanFile:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(text)
    return read_plan(folder / name)


def test_the_second_run_is_refused_in_one_sentence(tmp_path: Path) -> None:
    written(tmp_path)
    plan = str(tmp_path / "plan.toml")
    first = CliRunner().invoke(app, ["run", plan, "--out", str(tmp_path / "a")])
    assert first.exit_code == 0, first.output
    again = CliRunner().invoke(app, ["run", plan, "--out", str(tmp_path / "b")])
    assert again.exit_code != 0
    assert isinstance(again.exception, BudgetError)  # which the command prints as it is
    said = str(again.exception)
    assert "above its budget of 1; nothing was released" in said
    assert "budget_epsilon" in said
    assert not (tmp_path / "b" / "model.catchment").exists()
    (release,) = Budget(path=tmp_path / "budget.sqlite", epsilon=1.0, delta=1e-5).releases()
    assert release.n_clients == 5


def test_a_run_that_is_taken_up_again_is_no_second_release(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process dies after the release was written down and before the round was kept."""
    file = written(tmp_path)
    release = GaussianNoise.on_server

    def dying(*given: Any) -> Any:
        release(*given)
        raise StoppedError

    with monkeypatch.context() as patched:
        patched.setattr(GaussianNoise, "on_server", dying)
        with pytest.raises(StoppedError):
            run_plan(file, tmp_path / "a")
    shutil.copytree(tmp_path / "a", tmp_path / "copy")
    for _ in range(2):
        run_plan(file, tmp_path / "a", resume=True)
    assert len(Budget(path=tmp_path / "budget.sqlite", epsilon=1.0, delta=1e-5).releases()) == 1
    with pytest.raises(BudgetError, match="above its budget of 1"):
        run_plan(file, tmp_path / "copy", resume=True)


def test_a_run_that_fails_after_it_was_charged_is_kept_and_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    written(tmp_path)
    words = ["run", str(tmp_path / "plan.toml"), "--out", str(tmp_path / "a")]
    with monkeypatch.context() as patched:
        patched.setattr(GaussianNoise, "on_server", failing)
        with pytest.raises(SystemExit):
            main(words)
    said = capsys.readouterr().err
    assert "the disk is full; the run is kept in" in said
    assert "go on with it (--resume), which is not charged again" in said
    # Nor is it replaced by whoever forgets to say so.
    with pytest.raises(SystemExit):
        main(words)
    assert "already holds a run; resume it" in capsys.readouterr().err
    with pytest.raises(SystemExit, match="0"):
        main([*words, "--resume"])
    assert len(Budget(path=tmp_path / "budget.sqlite", epsilon=1.0, delta=1e-5).releases()) == 1
    # What was refused cost nothing, and leaves nothing.
    with pytest.raises(SystemExit):
        main([*words[:-1], str(tmp_path / "b")])
    assert "the run is kept" not in capsys.readouterr().err
    assert not (tmp_path / "b").exists()


def failing(*given: Any, release: Any = GaussianNoise.on_server) -> None:
    release(*given)
    raise OSError("the disk is full")


def test_a_run_that_goes_on_with_more_clients_is_charged_for_them(tmp_path: Path) -> None:
    budget = Budget(path=tmp_path / "b.sqlite", epsilon=9.0, delta=1e-5, run="r")
    cost = Cost.of_gaussian(4.0)
    for cohort, n_releases in ((["ann", "ben"], 1), (["ann"], 1), (["ann", "cat"], 2)):
        budget.charge(cohort, cost, purpose="round 0")
        assert len(budget.releases()) == n_releases
    assert budget.spent("cat") == pytest.approx(budget.spent("ben"))


class StoppedError(BaseException):
    """The process ends."""


def test_no_other_name_makes_the_budget_new(tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    run_plan(written(here), tmp_path / "a")
    (here / "budget.sqlite").unlink()
    others = {
        "ledger deleted": written(here),
        "another plan": written(here, PLAN.replace("units = 8", "units = 9")),
        "another name": written(here, name="other.toml"),
        "another ledger": written(here, PLAN + 'budget = "other.sqlite"\n'),
        "another split": written(here, PLAN.replace("test = 0.375", "test = 0.5")),
        "another folder": written(there),
    }
    for name, file in others.items():
        with pytest.raises(BudgetError, match="above its budget of 1"):
            run_plan(file, tmp_path / name)


def test_the_users_copy_can_be_lost_and_the_plans_own_holds(tmp_path: Path) -> None:
    file = written(tmp_path)
    run_plan(file, tmp_path / "a")
    (Path(os.environ["XDG_STATE_HOME"]) / "catchment" / "budget.sqlite").unlink()
    with pytest.raises(BudgetError, match="above its budget of 1"):
        run_plan(file, tmp_path / "b")


def test_the_owner_may_raise_it(tmp_path: Path) -> None:
    run_plan(written(tmp_path), tmp_path / "a")
    file = written(tmp_path, PLAN + "budget_epsilon = 1.6\n")
    run_plan(file, tmp_path / "b")  # two releases of epsilon 1 are one of 1.46
    with pytest.raises(BudgetError, match=r"above its budget of 1\.6"):
        run_plan(file, tmp_path / "c")


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("budget_epsilon = 0.5", "budget_epsilon in .* is 0.5; give the plan.s epsilon of 1"),
        ('budget_epsilon = "much"', "budget_epsilon in .* is 'much'"),
        ("budget = 3", "budget in .* is 3; give a text"),
    ],
)
def test_wrong_settings_are_refused(line: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=said):
        written(tmp_path, f"{PLAN}{line}\n")


def test_both_sides_agree_on_a_plan_wherever_its_ledger_is(tmp_path: Path) -> None:
    one, other = (written(tmp_path / name) for name in ("server", "node"))
    about = one.about()
    assert one.workflow(about).fingerprint == other.workflow(about).fingerprint
