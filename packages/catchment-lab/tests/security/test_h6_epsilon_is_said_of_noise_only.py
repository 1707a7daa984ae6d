"""An epsilon is said of what has noise in it, with its delta, and of nothing else.

Messages to a server that adds the noise itself are exact: they were entered as "epsilon 1", and
`explain` called them differentially private. A plan with noise was tested on later steps of the
clients that trained, so that its folder held their exact scores and raw targets.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from catchment.cli import app
from catchment.errors import RuleError
from catchment.federation import RoundContext, explain, read_run
from catchment.federation.runs import Entry, in_words
from catchment.plans import parse_plan, run_plan
from catchment.privacy import Clip, GaussianNoise, PrivacyLedger
from catchment.privacy.dp import Clipped
from catchment.readout import RidgeStatistics
from catchment.report import write_report
from catchment_lab.audit import TRIALS

PLAN = """
[data]
source = "narma"
steps = 1600
split = "contiguous"
clients = 16
test_of = "clients"

[preprocessing]
scale = "own"

[features]
units = 8
washout = 10

[learn]
algorithm = "ridge"
ridge = 0.0
store_per_client = false

[[protections]]
name = "gaussian_noise"
epsilon = 1.0
delta = 1e-5
clip = { bound = 8.0 }
min_clients = 12
small_cohort = true
"""
DISTRIBUTED = """distributed = true

[[protections]]
name = "secure_aggregation"
min_clients = 12
rows_per_feature = 2.0
"""


def noise(**settings: Any) -> GaussianNoise:
    usual: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-5, "clip": Clip(bound=2.0)}
    return GaussianNoise(**{**usual, "min_clients": 10, "small_cohort": True, **settings})


def statistics() -> RidgeStatistics:
    rng = np.random.default_rng(5)
    return RidgeStatistics.from_states(rng.normal(size=(200, 3)), rng.normal(size=(200, 1)))


def entered(protection: GaussianNoise) -> tuple[Clipped, Entry]:
    """Return what one client sends, and what the run's ledger says of it."""
    sent = protection.on_client(statistics(), RoundContext(0, ("a",), client="a"))
    assert isinstance(sent, Clipped)
    parts = sent.parts()
    return sent, Entry.of(0, "a", "up", parts, parts.to_bytes())


def test_a_message_without_noise_has_no_epsilon() -> None:
    central = noise()
    sent, entry = entered(central)
    exact = central.clip.clipped(statistics(), central.amount(whole=False).step)
    assert np.array_equal(sent.vector, exact.vector)  # whoever reads it reads it all
    assert sent.epsilon is None
    assert "epsilon" not in {k for k, v in sent.parts().facts.items() if v is not None}
    assert entry.epsilon is None


def test_a_message_with_noise_in_it_has_an_epsilon_and_a_delta() -> None:
    shared = noise(distributed=True)
    sent, entry = entered(shared)
    exact = shared.clip.clipped(statistics(), shared.amount(whole=False).step)
    added = sent.vector - exact.vector
    assert np.abs(added).max() > 0.1 * shared.share
    assert (sent.epsilon, sent.delta) == (1.0, 1e-5)
    assert entry.epsilon == 1.0


def test_a_fifth_of_the_clients_may_tell_their_noise_unless_said_otherwise() -> None:
    """The noise of the others alone is what epsilon needs."""
    usual, trusting = noise(distributed=True), noise(distributed=True, colluding=0)
    assert usual.n_colluding == 2
    assert usual.share * np.sqrt(10 - 2) == pytest.approx(usual.spread)
    assert trusting.share * np.sqrt(10) == pytest.approx(trusting.spread)
    assert usual.spread == trusting.spread


def test_a_run_with_noise_of_the_server_says_for_whom_it_is(tmp_path: Path) -> None:
    file = parse_plan(PLAN, base=tmp_path)
    run_plan(file, tmp_path / "run", threads=1)
    run = read_run(tmp_path / "run")
    with closing(sqlite3.connect(tmp_path / "run" / "run.sqlite")) as database:
        costs = database.execute("SELECT epsilon FROM messages WHERE direction = 'up'").fetchall()
        trained = {
            name
            for (name,) in database.execute(
                "SELECT DISTINCT client FROM messages WHERE stage = 'training' AND direction = 'up'"
            )
        }
    assert set(costs) == {(None,)}

    text = in_words(run, [])
    assert "to whoever sees the model, epsilon 1 at delta 1e-05 for each of 12 clients" in text
    assert "To the server, no bound: what it is sent is exact, but for being clipped" in text
    assert "at most per client" not in text
    page = write_report([tmp_path / "run"], tmp_path / "report.html").read_text()
    assert "epsilon 1 at delta 1e-05 for each of 12 clients" in page

    # Nobody who trained is scored, nobody is drawn, and what is kept of the others is said.
    tested = {name for name in run.scores if name}
    assert len(trained) == 12
    assert len(tested) == 4
    assert not trained & tested
    assert "drawn" not in run.facts
    assert not run.served
    kept = " ".join(explain(run).kept)
    assert "the exact score of each of 4 test clients" in kept
    assert "outside the federation" in kept
    assert run.comparison is not None
    for row in run.comparison:
        own = row.name == run.facts["own_row"]
        assert ("outside the federation and its protections" in row.note) is not own


def test_the_command_says_it_too(tmp_path: Path) -> None:
    (tmp_path / "plan.toml").write_text(PLAN + DISTRIBUTED)
    arguments = ["run", str(tmp_path / "plan.toml"), "--out", str(tmp_path / "run")]
    said = " ".join(CliRunner().invoke(app, arguments).output.split())
    assert (
        "privacy of the training: to the server and to whoever sees the model, epsilon 1 at delta "
        "1e-05 for each of 12 clients"
    ) in said
    assert "outside the federation's protections" in said


@pytest.mark.parametrize(
    "line", ['test_of = "steps"', 'test_of = "recordings"', 'test = "folds"', ""]
)
def test_clients_that_train_under_noise_are_not_tested(line: str, tmp_path: Path) -> None:
    (tmp_path / "plan.toml").write_text(PLAN.replace('test_of = "clients"', line))
    arguments = ["run", str(tmp_path / "plan.toml"), "--out", str(tmp_path / "run")]
    with pytest.raises(ValueError, match="exact scores on other data of the same client"):
        CliRunner().invoke(app, arguments, catch_exceptions=False)
    assert not (tmp_path / "run").exists()


def test_what_the_audit_calls_refused_is_refused() -> None:
    """By a client's own ledger: changed data, and other clients."""
    (difference,) = (trial for trial in TRIALS if trial.attack == "difference")
    assert difference.ruled is not None
    assert "data that have changed, or in a sum with other clients" in difference.ruled.text
    memory: dict[str, bytes] = {}

    def release(session: str, rows: int, names: list[str]) -> None:
        ledger = PrivacyLedger(memory)
        data = [np.arange(8.0).reshape(8, 1) + 10 * k for k in range(rows)]
        list(ledger.reading(lambda: iter(data))())
        ledger.upload("plan", 0, "ridge-statistics", session, names)

    release("1", 3, ["ann", "ben", "cat"])
    release("2", 3, ["ann", "ben", "cat"])
    with pytest.raises(RuleError, match="over another set of 3 clients"):
        release("3", 3, ["ann", "ben", "dan"])
    with pytest.raises(RuleError, match="have changed since"):
        release("4", 4, ["ann", "ben", "cat"])
