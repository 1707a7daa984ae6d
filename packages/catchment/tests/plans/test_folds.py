"""Folds over clients, as plans have them; and one client taken out of a run that chose its map."""

from __future__ import annotations

from functools import reduce
from operator import add
from pathlib import Path

import numpy as np
import pytest

from catchment.data import read
from catchment.federation.runs import folds_of_run, folds_sentence, unlearn_from_run
from catchment.plans import parse_plan, run_plan, verify_run
from catchment.readout import Model, accumulate
from tests.journeys.people import good_people, rows_of, write
from tests.plans.test_every_algorithm import DATA, LEARN, MODULES, person

PLAN = """
[data]
files = "people/*.csv"
time = "t"
label = "activity"
test = "folds"
{data}
[preprocessing]
window = "2s"
label = "majority"
[features]
{features}
"""


def plan(data: str = "", features: str = 'map = "window_statistics"') -> str:
    return PLAN.format(data=data, features=features)


@pytest.mark.slow
def test_a_run_keeps_its_folds_and_names_who_could_not_be_tested(tmp_path: Path) -> None:
    good_people(tmp_path / "people", 4)
    write(tmp_path / "people" / "short.csv", rows_of(9)[:5])
    unlabeled = [[*row[:3], ""] for row in rows_of(8)]
    write(tmp_path / "people" / "silent.csv", unlabeled)
    seen = set()
    done = run_plan(
        parse_plan(plan("folds = 3"), base=tmp_path),
        tmp_path / "run",
        watch=lambda stage, *_: seen.add(stage),
    ).run
    folds = folds_of_run(done.facts)
    assert len(folds) == 3
    assert sorted(name for one in folds for name in one.clients) == ["p0", "p1", "p2", "p3"]
    assert [name for one in folds for name in one.untested] == ["short"]
    assert sum(one.rows for one in folds) == 4 * 12
    right = sum(one.rows * one.score for one in folds if one.score is not None)
    assert right / 48 == pytest.approx(done.scores[""]["accuracy"])
    said = folds_sentence(done.facts, done.scores, done.metric)
    assert said.startswith("3 folds over clients: accuracy ")
    assert {"fold 1 of 3, training", "fold 3 of 3, test"} <= seen


def test_the_seed_of_a_plan_deals_its_clients_to_folds(tmp_path: Path) -> None:
    good_people(tmp_path / "people", 6)
    dealt = []
    for k, seed in enumerate((1, 3, 1)):
        text = plan(f"folds = 3\nseed = {seed}")
        done = run_plan(parse_plan(text, base=tmp_path), tmp_path / f"run{k}").run
        dealt.append([one.clients for one in folds_of_run(done.facts)])
    assert dealt[0] == dealt[2]
    assert dealt[0] != dealt[1]


@pytest.mark.parametrize(
    ("data", "said"),
    [("folds = 1", "give 2 or more"), ("folds = 0", "give 2 or more")],
)
def test_a_wrong_number_of_folds_is_refused(data: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        parse_plan(plan(data))


def test_folds_without_a_test_by_folds_are_refused() -> None:
    with pytest.raises(ValueError, match='write test = "folds" too'):
        parse_plan(plan("folds = 4").replace('test = "folds"', "test = 0.25"))


@pytest.mark.slow
def test_a_client_leaves_a_run_that_chose_among_maps(tmp_path: Path) -> None:
    good_people(tmp_path / "people", 4)
    features = '[learn]\nalgorithm = "candidates"\n[[candidates]]\nmap = "window_statistics"\n'
    text = plan(features=features + '[[candidates]]\nmap = "echo_state"\nunits = 10\n')
    done = run_plan(parse_plan(text.replace("[features]\n", ""), base=tmp_path), tmp_path / "run")
    model = done.model
    assert isinstance(model, Model)
    found = unlearn_from_run(tmp_path / "run", "p1", model)
    # By hand: the sums of everybody else's windows, by the map and the scale of the run.
    people = read(tmp_path / "people", label="activity", time="t", per_step=True)
    rest = [
        accumulate(model.features, model.preprocessing.apply(people[name]), classes=True)
        for name in ("p0", "p2", "p3")
    ]
    assert found.certificate.after == reduce(add, rest).digest()
    assert found.certificate.n_rows == 12
    assert "the choice among the feature maps" in found.certificate.remains
    assert isinstance(found.model, Model)
    assert not np.array_equal(found.model.readout.weights, model.readout.weights)
    found.model.save(tmp_path / "run" / "model-without-p1.safetensors")
    (tmp_path / "run" / "certificate.json").write_text(found.certificate.to_json())
    checks = {one.what: one.outcome for one in verify_run(tmp_path / "run").checks}
    for what in ("readout", "p1 from recordings", "certificate: after"):
        assert checks[what] == "ok"
    assert "differs" not in checks.values()


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", sorted(set(LEARN) - {"partial"}))
def test_every_algorithm_is_tested_by_folds(
    algorithm: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "people").mkdir()
    for k in range(4):
        (tmp_path / "people" / f"p{k}.csv").write_text(person(k), encoding="utf-8")
    for module, text in MODULES.items():
        (tmp_path / f"{module}.py").write_text(text, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    kept = 'test = 0.34\ntest_of = "recordings"'
    assert kept in DATA
    data = DATA.replace(kept, 'test = "folds"\nfolds = 2')
    text = f'{data}[learn]\nalgorithm = "{algorithm}"\n{LEARN[algorithm]}\n'
    done = run_plan(parse_plan(text, base=tmp_path), tmp_path / "run").run
    folds = folds_of_run(done.facts)
    assert [len(one.clients) for one in folds] == [2, 2]
    assert sum(one.rows for one in folds) == 24
    assert folds_sentence(done.facts, done.scores, done.metric).startswith("2 folds over clients")
