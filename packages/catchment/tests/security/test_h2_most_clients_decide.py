"""H2: what most clients send is the message of a round, not what the first of them sends."""

from __future__ import annotations

import json
import re
import tracemalloc
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import catchment as ct
from catchment.cli import app
from catchment.engine import LocalEngine, run_locally
from catchment.errors import RefusedClientsWarning, TooFewClientsError
from catchment.federation import BLOCK, MOST_GROUPS, Engine, Limits, Plan, Reply, Sums, run
from catchment.federation.learn import FederatedRidge
from catchment.readout import RidgeStatistics
from tests.security.test_h1_one_reply_refuses_one_client import FEATURES, PLAN, waves

U = np.sin(np.arange(51.0) / 3)


def honest(n: int = 20) -> dict[str, list[ct.Recording]]:
    return {f"c{k:02d}": [ct.Recording((1 + k / 9) * U[:-1], U[1:])] for k in range(n)}


def test_three_targets_cost_one_client_and_not_the_others() -> None:
    three = np.stack([U[1:]] * 3, axis=1)
    clients = {"a": [ct.Recording(U[:-1], three)], **honest()}
    pipeline = ct.Pipeline(ct.Preprocessing(scale="none"), ct.EchoState(15, washout=3))
    with pytest.warns(RefusedClientsWarning, match="20 of 21 clients; a"):
        done = ct.federate(pipeline, clients)
    assert done.records[0].n_used == 20
    assert done.model.readout.weights.shape[1] == 1
    alone = ct.federate(pipeline, honest())
    np.testing.assert_array_equal(done.model.readout.weights, alone.model.readout.weights)


@pytest.mark.parametrize("name", ["a", "m", "z"])
def test_the_place_of_the_name_does_not_matter(name: str) -> None:
    three = [ct.Recording(U[:-1], np.stack([U[1:]] * 3, axis=1))]
    done = run_locally(PLAN, {name: three, **honest(5)})
    (refused,) = done.refused
    assert (refused.client, refused.reason) == (name, "3 targets came, most clients sent 1")
    honestly = run_locally(PLAN, honest(5)).model.readout.weights
    np.testing.assert_array_equal(done.model.readout.weights, honestly)


def test_a_number_of_targets_that_the_plan_knows_needs_no_majority() -> None:
    plan = Plan(
        algorithm=FederatedRidge(features=FEATURES, ridge=0.1),
        n_targets=1,
        limits=Limits(min_usable=0.1),
    )
    wide = {f"a{k}": [ct.Recording(U[:-1], np.stack([U[1:]] * 3, axis=1))] for k in range(5)}
    done = run_locally(plan, {**wide, **honest(2)})
    assert done.records[0].n_used == 2
    assert {one.reason for one in done.refused} == {"3 targets came, 1 are planned"}


def test_fewer_than_half_usable_is_an_error_with_the_reasons() -> None:
    bad = {f"a{k}": [ct.Recording(U[:-1])] for k in range(4)}
    with pytest.raises(TooFewClientsError, match=r"3 clients .* 4 of the 7 asked \(a0: .*target"):
        run_locally(PLAN, {**bad, **honest(3)})
    assert run_locally(PLAN, {**bad, **honest(4)}).records[0].n_used == 4


def test_ties_do_not_go_to_the_first() -> None:
    """Of two equal halves the same one is kept, whoever is called what."""
    one, three = U[1:], np.stack([U[1:]] * 3, axis=1)
    kept = []
    for first, second in ((one, three), (three, one)):
        clients = {
            **{f"a{k}": [ct.Recording(U[:-1], first)] for k in range(2)},
            **{f"b{k}": [ct.Recording(U[:-1], second)] for k in range(2)},
        }
        kept.append(run_locally(PLAN, clients).model.readout.weights.shape[1])
    assert kept[0] == kept[1]


@dataclass(frozen=True)
class Different:
    """A number that adds only to its like."""

    unit: str
    held: bytes

    def __add__(self, other: Different) -> Different:
        if self.unit != other.unit:
            raise ValueError(f"{self.unit} and {other.unit} do not add")
        return self


def test_many_different_messages_cost_no_memory_without_end() -> None:
    names = [f"c{k:04d}" for k in range(400)]
    sums = Sums(names)
    size = 100_000
    tracemalloc.start()
    try:
        for k, name in enumerate(names):
            unit = f"unit {k}" if k % 2 else "metre"
            sums.add(name, Different(unit, bytes(size)))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < (MOST_GROUPS + 10) * size
    assert isinstance(sums.total(1), Different)
    assert len(sums.groups[0].clients) == 200
    assert len(sums.left_out) == 200
    assert {one.client for one in sums.left_out} == set(names[1::2])


@pytest.mark.parametrize("bad", [(), (0,), (0, BLOCK), (BLOCK - 1, 2 * BLOCK)])
def test_bits_are_those_of_the_others_alone(bad: tuple[int, ...]) -> None:
    rng = np.random.default_rng(0)
    n = 2 * BLOCK + 5
    names = [f"c{k:04d}" for k in range(n)]
    values = [
        RidgeStatistics.from_states(rng.normal(size=(3, 2)), rng.normal(size=(3, 1)))
        for _ in range(n)
    ]
    other = RidgeStatistics.from_states(np.ones((3, 2)), np.ones((3, 4)))
    sums = Sums(names)
    for k, name in enumerate(names):
        sums.add(name, other if k in bad else values[k])
    blocks = [
        [values[k] for k in range(start, min(n, start + BLOCK)) if k not in bad]
        for start in range(0, n, BLOCK)
    ]
    assert sums.total(1) == reduce(add, (reduce(add, block) for block in blocks))
    assert [one.client for one in sums.left_out] == [names[k] for k in bad]


def test_a_sum_that_overflows_refuses_the_one_that_makes_it() -> None:
    from catchment.federation import WeightedSum

    names = [f"c{k}" for k in range(4)]
    sums = Sums(names)
    for name, value in zip(names, (1.0, 1e308, 1.5e308, 2.0), strict=True):
        sums.add(name, WeightedSum((np.array([value]),), 1.0))
    sums.total(1)
    assert [one.client for one in sums.left_out] == ["c2"]


def write_csv(folder: Path) -> Path:
    for k in range(7):
        header = "u" if k == 1 else "u,y"
        rows = [f"{np.sin(t / 3 + k):.6f}" + ("" if k == 1 else f",{t % 5}") for t in range(60)]
        (folder / f"{'abcdefg'[k]}.csv").write_text("\n".join([header, *rows]) + "\n")
    plan = folder / "plan.toml"
    plan.write_text(
        '[data]\nfiles = "*.csv"\ninputs = ["u"]\ntarget = "y"\nper_step = true\ntest = 0.2\n'
        "[features]\nunits = 70\n"
    )
    return plan


def test_the_command_line_says_who_was_left_out(tmp_path: Path) -> None:
    plan = write_csv(tmp_path)
    said = CliRunner().invoke(app, ["run", str(plan), "--out", str(tmp_path / "run")])
    assert said.exit_code == 0, said.output
    first, second = said.stdout.splitlines()[:2]
    assert first.endswith("6 of 7 clients trained, 6 of 7 were tested")
    (line,) = [one for one in said.stderr.splitlines() if "left out" in one]
    assert line.startswith("warning: b was left out of the scaling, training and evaluation: b.csv")
    assert "has no column 'y'" in line
    assert "clients have fewer rows than features: anyone who reads their uploads" in second
    again = ["run", str(plan), "--out", str(tmp_path / "run"), "--resume", "--json"]
    told = CliRunner().invoke(app, again)
    content = json.loads(told.stdout, parse_constant=lambda text: pytest.fail(f"{text} in JSON"))
    assert {"client", "stage", "code", "reason"} == set(content["refused"][0])
    assert {one["client"] for one in content["refused"]} == {"b"}
    assert "fewer rows than features" in content["notes"][0]
    explained = CliRunner().invoke(app, ["ledger", str(tmp_path / "run")])
    assert "clients; b: b.csv has no column 'y'" in explained.stdout
    report = CliRunner().invoke(app, ["report", str(tmp_path / "run")])
    page = Path(report.stdout.strip()).read_text()
    lead = page[page.index('class="lead"') : page.index('class="tiles"')]
    words = re.sub("<[^>]+>", "", lead)
    assert "b was left out: b.csv has no column &#39;y&#39;" in words


@dataclass(frozen=True)
class Silent(Engine):
    """Clients of whom one never answers."""

    inner: LocalEngine[Any, Any, Any]

    def clients(self) -> Sequence[str]:
        return self.inner.clients()

    def ask(self, requests: Mapping[str, bytes]) -> Iterator[Reply]:
        return (reply for reply in self.inner.ask(requests) if reply.client != "c3")


def test_who_never_answers_is_counted() -> None:
    from catchment.federation import headline

    done = run(PLAN, Silent(LocalEngine(PLAN, waves(), threads=1)))
    assert headline({"training": done.records}) == "7 of 8 clients; 1 did not answer to the end"
