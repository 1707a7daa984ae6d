"""The ledger of releases."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import catchment
from catchment.errors import BudgetError, IntegrityError, MissingExtraError
from catchment.federation.cost import Cost
from catchment.privacy.dp.accounting import epsilon_spent
from catchment.privacy.dp.budget import Budget
from catchment.privacy.dp.gaussian import (
    concentrated_epsilon,
    concentrated_multiplier,
    gaussian_epsilon,
    gaussian_multiplier,
)

ONE = Cost.of_gaussian(gaussian_multiplier(1.0, 1e-5))


@pytest.fixture
def budget(tmp_path: Path) -> Budget:
    return Budget(path=tmp_path / "deep" / "ledger.db", epsilon=2.0, delta=1e-5)


def test_costs_add_as_theory_has_it() -> None:
    three = Cost.of_gaussian(2.0) + Cost.of_gaussian(3.0) + Cost.of_gaussian(6.0)
    together = (1 / 4 + 1 / 9 + 1 / 36) ** -0.5
    assert epsilon_spent(three, 1e-6) == pytest.approx(gaussian_epsilon(together, 1e-6), abs=1e-4)
    mixed = Cost.of_gaussian(2.0) + Cost.of_discrete(2.0)
    assert epsilon_spent(mixed, 1e-6) == pytest.approx(concentrated_epsilon(0.25, 1e-6), abs=1e-4)
    assert epsilon_spent(Cost(), 1e-6) == 0.0


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
    richer = Budget(path=budget.path, epsilon=100.0, delta=1e-5)
    with pytest.raises(BudgetError, match="cannot be changed"):
        richer.charge(["a"], ONE, purpose="round")
    with pytest.raises(BudgetError, match="per sequence"):
        budget.charge(["a"], ONE, purpose="round", unit="sequence")


def test_a_killed_process_has_paid(budget: Budget) -> None:
    code = f"""
        import os, sys
        sys.path.insert(0, {str(Path(catchment.__file__).parents[1])!r})
        from pathlib import Path
        from catchment.privacy.dp.budget import Budget
        from catchment.federation.cost import Cost
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


def test_a_missing_extra_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "dp_accounting", None)
    monkeypatch.delitem(sys.modules, "catchment.privacy.dp.accounting")
    with pytest.raises(MissingExtraError, match=r"catchment\[dp\]"):
        import catchment.privacy.dp.accounting  # noqa: F401
