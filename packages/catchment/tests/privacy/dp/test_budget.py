"""The ledger of releases."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import textwrap
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from dp_accounting import GaussianDpEvent, ZCDpEvent
from dp_accounting.pld import PLDAccountant
from dp_accounting.rdp import RdpAccountant

import catchment
from catchment.data import Recording
from catchment.errors import BudgetError, IntegrityError
from catchment.federation import Cost
from catchment.privacy import Budget, epsilon_spent
from catchment.privacy.dp import (
    concentrated_epsilon,
    concentrated_multiplier,
    data_keys,
    gaussian_epsilon,
    gaussian_multiplier,
)

ONE = Cost.of_gaussian(gaussian_multiplier(1.0, 1e-5))


@pytest.fixture
def budget(tmp_path: Path) -> Budget:
    return Budget(path=tmp_path / "deep" / "ledger.db", epsilon=2.0, delta=1e-5)


def by_dp_accounting(cost: Cost, delta: float) -> float:
    """Return what Google's dp-accounting says of all releases together."""
    if cost.concentrated == 0:
        losses = PLDAccountant()
        losses.compose(GaussianDpEvent(cost.gaussian**-0.5))
        return float(losses.get_epsilon(delta))
    divergences = RdpAccountant(orders=1 + np.geomspace(1e-2, 1e4, 3000))
    divergences.compose(ZCDpEvent(cost.concentrated + cost.gaussian / 2))
    return float(divergences.get_epsilon(delta))


def test_costs_add_as_theory_has_it() -> None:
    three = Cost.of_gaussian(2.0) + Cost.of_gaussian(3.0) + Cost.of_gaussian(6.0)
    together = (1 / 4 + 1 / 9 + 1 / 36) ** -0.5
    assert epsilon_spent(three, 1e-6) == pytest.approx(gaussian_epsilon(together, 1e-6), abs=1e-4)
    mixed = Cost.of_gaussian(2.0) + Cost.of_discrete(2.0)
    assert epsilon_spent(mixed, 1e-6) == pytest.approx(concentrated_epsilon(0.25, 1e-6), abs=1e-4)
    assert epsilon_spent(Cost(), 1e-6) == 0.0
    for cost in (three, mixed, Cost.of_discrete(4.0)):
        assert epsilon_spent(cost, 1e-6) == pytest.approx(by_dp_accounting(cost, 1e-6), rel=1e-4)


def test_discrete_releases_cost_what_they_say() -> None:
    cost = Cost.of_discrete(concentrated_multiplier(3.0, 1e-5))
    assert epsilon_spent(cost, 1e-5) == pytest.approx(3.0, abs=1e-4)


def test_a_release_of_the_whole_budget_fits(tmp_path: Path) -> None:
    for epsilon in (0.3, 1.0, 6.0):
        whole = Budget(path=tmp_path / f"{epsilon}.db", epsilon=epsilon, delta=1e-5)
        cost = Cost.of_gaussian(gaussian_multiplier(epsilon, 1e-5))
        assert whole.charge(["a"], cost, purpose="all") == pytest.approx(epsilon, abs=1e-3)
        with pytest.raises(BudgetError):
            whole.charge(["a"], Cost.of_gaussian(20.0), purpose="a little more")


def test_clients_have_accounts_of_their_own(budget: Budget) -> None:
    for _ in range(3):
        budget.charge(["a", "b"], ONE, purpose="round")
    assert budget.spent("a") == pytest.approx(1.83, abs=0.02)
    assert budget.spent("c") == 0.0
    with pytest.raises(BudgetError, match="above its budget of 2"):
        budget.charge(["a", "c"], ONE, purpose="round")
    assert budget.spent("c") == 0.0
    budget.charge(["c"], ONE, purpose="round")
    assert [r.n_clients for r in budget.releases()] == [2, 2, 2, 1]


def test_federations_do_not_share(budget: Budget) -> None:
    budget.charge(["a"], ONE, purpose="round")
    other = Budget(path=budget.path, epsilon=1.0, delta=1e-6, federation="other")
    assert other.spent() == 0.0
    assert budget.spent() == pytest.approx(1.0, abs=1e-3)


def test_terms_are_fixed_by_the_first_release(budget: Budget) -> None:
    budget.charge(["a"], ONE, purpose="round")
    with pytest.raises(BudgetError, match="cannot be changed"):
        replace(budget, delta=1e-3).charge(["a"], ONE, purpose="round")
    with pytest.raises(BudgetError, match="per sequence"):
        budget.charge(["a"], ONE, purpose="round", unit="sequence")


def test_a_budget_may_be_raised_and_says_so(tmp_path: Path) -> None:
    small = Budget(path=tmp_path / "b.sqlite", epsilon=1.0, delta=1e-5)
    small.charge(["a"], ONE, purpose="round 0")
    with pytest.raises(BudgetError, match="raise the budget's epsilon"):
        small.charge(["a"], ONE, purpose="round 0")
    replace(small, epsilon=2.0).charge(["a"], ONE, purpose="round 0")
    with sqlite3.connect(small.path) as database:
        assert database.execute("SELECT budget FROM releases").fetchall() == [(1.0,), (2.0,)]
    database.close()


def test_a_round_of_a_run_is_charged_once(tmp_path: Path) -> None:
    mine = Budget(path=tmp_path / "b.sqlite", epsilon=1.0, delta=1e-5, run="run 1")
    for _ in range(3):
        assert mine.charge(["a"], ONE, purpose="round 0") == pytest.approx(1.0, abs=1e-3)
    assert len(mine.releases()) == 1
    with pytest.raises(BudgetError):
        mine.charge(["a"], ONE, purpose="round 1")
    with pytest.raises(BudgetError):
        replace(mine, run="run 2").charge(["a"], ONE, purpose="round 0")


def test_a_ledger_that_is_gone_is_none_the_richer(tmp_path: Path) -> None:
    known = {"a": ["7f"], "b": ["80"]}
    one = Budget(path=tmp_path / "b.sqlite", epsilon=1.0, delta=1e-5, known=known)
    one.charge(["a", "b"], ONE, purpose="round 0")
    one.path.unlink()
    with pytest.raises(BudgetError, match=r"it was deleted or replaced"):
        one.charge(["a"], ONE, purpose="round 0")
    other = {
        "place": replace(one, path=tmp_path / "other.sqlite"),
        "federation": replace(one, federation="other"),
        "client": replace(one, known={"c": ["81", "7f"]}),
    }
    for name, budget in other.items():
        with pytest.raises(BudgetError, match="above its budget of 1"):
            budget.charge(["c" if name == "client" else "a"], ONE, purpose="round 0")
    named = Budget(path=tmp_path / "names.sqlite", epsilon=1.0, delta=1e-5)
    named.charge(["a"], ONE, purpose="round 0")
    named.path.unlink()
    with pytest.raises(BudgetError, match="deleted or replaced"):
        named.charge(["a"], ONE, purpose="round 0")


@pytest.mark.parametrize(
    "change",
    [
        "DELETE FROM releases WHERE id = 1",
        "DELETE FROM releases WHERE id = 2",
        "DELETE FROM releases",
        "DELETE FROM accounts WHERE release = 1",
        "DELETE FROM head",
        "UPDATE releases SET gaussian = 0",
        "UPDATE accounts SET key = 'other'",
        "INSERT INTO accounts VALUES (9, 'other')",
    ],
)
def test_a_line_that_is_missing_or_changed_is_noticed(budget: Budget, change: str) -> None:
    for _ in range(2):
        budget.charge(["a"], ONE, purpose="round")
    with sqlite3.connect(budget.path) as database:
        database.execute(change)
    database.close()
    with pytest.raises(IntegrityError, match="a line is missing or changed"):
        budget.charge(["a"], ONE, purpose="round")


def test_nobody_else_reads_a_ledger(budget: Budget) -> None:
    budget.charge(["a"], ONE, purpose="round")
    copy = Path(os.environ["XDG_STATE_HOME"]) / "catchment" / "budget.sqlite"
    assert {path.stat().st_mode & 0o777 for path in (budget.path, copy)} == {0o600}


def test_data_are_known_by_much_of_them() -> None:
    rng = np.random.default_rng(0)
    u = rng.normal(size=(3000, 2))
    whole = set(data_keys([Recording(u)]))
    assert len(whole) == 64
    assert len(whole & set(data_keys([Recording(u[7:2990])]))) > 30
    assert len(whole & set(data_keys([Recording(u[:1500]), Recording(u[1500:, :1])]))) > 10
    assert not whole & set(data_keys([Recording(rng.normal(size=(3000, 2)))]))


def test_a_killed_process_has_paid(budget: Budget) -> None:
    code = f"""
        import os, sys
        sys.path.insert(0, {str(Path(catchment.__file__).parents[1])!r})
        from pathlib import Path
        from catchment.privacy import Budget
        from catchment.federation import Cost
        budget = Budget(path=Path({str(budget.path)!r}), epsilon=2.0, delta=1e-5)
        budget.charge(["a"], Cost.of_gaussian(4.0), purpose="round")
        os.kill(os.getpid(), 9)
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], check=False)
    assert done.returncode == -9
    assert len(budget.releases()) == 1
    assert budget.spent("a") == pytest.approx(gaussian_epsilon(4.0, 1e-5), abs=1e-3)


def test_nothing_is_charged_for_nobody(budget: Budget) -> None:
    with pytest.raises(ValueError, match="no clients"):
        budget.charge([], ONE, purpose="round")


def test_another_file_is_not_a_ledger(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("not a database, but long enough to look at " * 40)
    with pytest.raises(IntegrityError, match="not a privacy ledger"):
        Budget(path=path, epsilon=1.0, delta=1e-5).spent()


def test_a_foreign_database_is_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "other.db"
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE releases (something TEXT)")
    database.close()
    with pytest.raises(IntegrityError, match="not a privacy ledger"):
        Budget(path=path, epsilon=1.0, delta=1e-5).charge(["a"], ONE, purpose="round")
