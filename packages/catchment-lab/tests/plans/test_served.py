"""How a person is served: planted faults are named, numbers are an oracle's, models are honest."""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from catchment import load
from catchment.errors import FederationError
from catchment.federation import read_run
from catchment.federation.runs import unlearn_from_run
from catchment.plans import parse_plan, read_plan, run_plan
from catchment.readout import Model
from catchment_lab.diagnose import (
    ChannelShift,
    Quantity,
    Served,
    as_the_server_knows,
    class_shifts,
    how_served,
    read_confusions,
    read_served,
    score_lines,
    served_in_words,
    standing_out,
    trained_without,
    without,
)
from tests.plans.people import CLASSES, person, write_people, write_plan

N_PEOPLE = 8
ODD = 3
WHO = f"p{ODD:02d}"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Return the folder of a run over folds in which one person has a fault."""
    made: dict[str, Path] = {}

    def run(fault: str) -> Path:
        if fault not in made:
            folder = write_people(tmp_path_factory.mktemp("people"), {ODD: fault}, N_PEOPLE)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # a person in other units is cut off
                run_plan(read_plan(write_plan(folder)), folder / "run")
            made[fault] = folder / "run"
        return made[fault]

    return run


@pytest.fixture(scope="module")
def found(place: Callable[[str], Path]) -> Callable[[str], Served]:
    """Return how the person with a fault is served."""
    return cache(lambda fault: how_served(place(fault), WHO))


SAID = {
    "turned": ["az has", "between-person deviations"],
    "unit": ["another unit? m/s² for g"],
    "rate": ["steps per second: 50 where the others have 25; write rate = 25"],
    "swapped": ["walk predicted as lie", "lie predicted as walk"],
    "few": ["rows are right: the true accuracy may be"],
}


@pytest.mark.parametrize(("right", "rows"), [(0, 1), (0, 30), (4, 9), (24, 49)])
def test_the_range_of_few_rows_is_scipys(
    found: Callable[[str], Served], right: int, rows: int
) -> None:
    one = replace(found("few"), value=right / rows, rows=rows)
    ends = stats.binomtest(right, rows).proportion_ci(0.95, method="wilson")
    (told,) = (line for line in standing_out(one) if "may be" in line)
    low, high = re.findall(r"([\d.]+) %", told)
    assert (float(low), float(high)) == pytest.approx((100 * ends.low, 100 * ends.high), abs=0.051)


@pytest.mark.parametrize("fault", SAID)
def test_what_was_planted_stands_out(found: Callable[[str], Served], fault: str) -> None:
    one = found(fault)
    assert one.is_badly_served
    said = " ".join(standing_out(one))
    assert all(words in said for words in SAID[fault])
    assert "".join(said.split()) in "".join(served_in_words(one).split())


def test_a_class_that_nobody_else_has_is_in_the_table(found: Callable[[str], Served]) -> None:
    one = found("class")
    assert one.is_badly_served
    assert any(c.rows and not c.others for c in one.classes)


def test_nothing_stands_out_where_nothing_was_planted(place: Callable[[str], Path]) -> None:
    every = [how_served(place(""), f"p{k:02d}") for k in range(0, N_PEOPLE, 2)]
    said = ["as well as the others" in served_in_words(one) for one in every]
    assert sum(said) >= len(every) - 1


def test_the_run_keeps_the_worst_client_and_the_report_says_why(
    place: Callable[[str], Path],
) -> None:
    from catchment.report import render
    from catchment_lab.diagnose import write_served_page

    run = read_run(place("turned"))
    kept = read_served(run.folder)
    assert kept is not None
    assert kept.client == run.served == WHO
    assert kept.value == pytest.approx(run.scores[WHO]["accuracy"], abs=1e-5)
    assert len(kept.drawn) == 3
    page = render([run])
    assert f"Why is {WHO} served worse than the others?" in page
    assert "times the others&#x27; spread" in page
    own = write_served_page(kept, run.folder / "page.html").read_text(encoding="utf-8")
    assert own.count('class="chart"') == 4
    assert "<script" not in own


def test_diagnose_answers_with_what_its_tables_show() -> None:
    others = {f"p{k}": value for k, value in enumerate([0.95, 0.6, 0.8, 0.7, 0.9, 0.85])}
    usual = np.array([[90, 5, 5], [5, 90, 5], [5, 5, 90]])
    taken = np.array([[2, 18, 0], [0, 20, 0], [0, 0, 20]])
    names = ("walk", "stairs", "sit")
    one = Served("p9", "accuracy", 0.7, 60, "", others, names, taken, usual)
    assert not one.is_badly_served  # people differ by more than that
    (found,) = standing_out(one)
    assert found == "walk predicted as stairs: 18 of 20 (90 %; others 5 %)"
    shifts = class_shifts([20, 0, 0], [100, 100, 100], names)
    alone = replace(one, value=0.5, rows=60, confusion=np.diag([20, 0, 0]), classes=shifts)
    assert standing_out(alone) == ["all their rows are walk: one class alone decides their score"]


def test_units_gaps_and_rates_are_said_only_of_somebody_badly_served() -> None:
    others = {f"p{k}": value for k, value in enumerate([0.9, 0.92, 0.91, 0.88, 0.93])}
    ordinary = ChannelShift("x", 0.0, 0.0, 0.1, 1.0, 1.0, 0.1, 0.0, 0.0)
    large = replace(ordinary, spread_ratio=1010.0, spread_shift=40.0)
    dead = replace(ordinary, name="y", spread_ratio=0.001, spread_shift=-40.0)
    gappy = replace(ordinary, name="z", missing=0.4)
    one = Served("dan", "accuracy", 0.6, 200, "by a model", others, channels=(ordinary,))
    assert "nothing among what is compared here" in standing_out(one)[0]
    rate = (Quantity("steps per second", 50, 25),)
    odd = replace(one, channels=(large, dead, gappy), quantities=rate)
    said = standing_out(odd)
    assert len(said) == 4
    assert "x has 1,010 times the others' spread (another unit? thousandths" in said[1]
    assert "y has 0.001 times the others' spread" in said[2]
    assert "40 % missing (theirs 0.0 %)" in said[3]
    assert "as well as the others" in standing_out(replace(odd, value=0.9))[0]


def test_places_are_said_as_people_say_them() -> None:
    others = {"a": 0.5, "b": 0.6, "c": 0.7}
    lines = {
        value: score_lines(Served("d", "accuracy", value, 9, "", others))[0]
        for value in (0.9, 0.65, 0.4)
    }
    assert "the best of 4" in lines[0.9]
    assert "the 3rd worst of 4" in lines[0.65]
    assert "the worst of 4" in lines[0.4]
    alike = Served("d", "accuracy", 1.0, 9, "", dict.fromkeys("abc", 1.0))
    assert "the same for all 4" in score_lines(alike)[0]


def test_what_is_kept_is_what_was_found(found: Callable[[str], Served]) -> None:
    plain = json.loads(json.dumps(found("turned").to_dict(), allow_nan=False))
    again = Served.from_dict(plain)
    assert again.to_dict() == plain
    assert served_in_words(again) == served_in_words(found("turned"))


def _raw(fault: str, k: int) -> tuple[np.ndarray, list[str]]:
    made, _ = person(0, k, fault)
    return np.concatenate([u for _, u in made]).round(5), [name for name, _ in made]


def test_channels_and_classes_are_those_of_an_oracle(found: Callable[[str], Served]) -> None:
    one_person = found("unit")
    own, labels = _raw("unit", ODD)
    others = [_raw("", k)[0] for k in range(N_PEOPLE) if k != ODD]
    means = np.array([u.mean(axis=0) for u in others])
    spreads = np.array([u.std(axis=0) for u in others])
    unit = np.maximum(
        stats.median_abs_deviation(means, axis=0, scale="normal"), 0.05 * np.median(spreads, axis=0)
    )
    for k, one in enumerate(one_person.channels):
        shift = (own[:, k].mean() - np.median(means[:, k])) / unit[k]
        assert one.mean_shift == pytest.approx(shift, rel=1e-3)
        assert one.spread_ratio == pytest.approx(own[:, k].std() / np.median(spreads[:, k]))
    assert [(c.rows, c.share) for c in one_person.classes] == [
        (labels.count(c.name), labels.count(c.name) / len(labels)) for c in one_person.classes
    ]
    assert one_person.quantities[0].own == 32
    assert {c.name for c in one_person.classes} == set(CLASSES)


def test_scores_and_confusions_are_those_of_the_run(
    place: Callable[[str], Path], found: Callable[[str], Served]
) -> None:
    folder = place("swapped")
    run, one = read_run(folder), found("swapped")
    assert one.value == pytest.approx(run.scores[WHO]["accuracy"])
    assert one.place == 1
    counts = read_confusions(folder, len(run.classes))
    assert run.confusion is not None
    np.testing.assert_array_equal(sum(counts.values()), run.confusion)
    assert one.confusion is not None
    assert one.others_confusion is not None
    np.testing.assert_array_equal(one.confusion, counts[WHO])
    np.testing.assert_array_equal(one.confusion + one.others_confusion, run.confusion)


def test_leaving_out_by_subtraction_is_training_without_the_client(tmp_path: Path) -> None:
    folder = write_people(tmp_path, {ODD: "turned"}, N_PEOPLE)
    plan = read_plan(write_plan(folder, scale="own", test="0.25"))
    run_plan(plan, folder / "run")
    model, held = load(folder / "run" / "model.safetensors"), plan.load_data()
    name = sorted(held.train)[0]
    less = without(folder / "run", name, model)
    again = trained_without(plan, held, name)
    assert less is not None
    assert isinstance(less[0], Model)
    assert isinstance(again[0], Model)
    np.testing.assert_allclose(
        less[0].readout.weights, again[0].readout.weights, rtol=1e-9, atol=1e-12
    )
    found = how_served(folder / "run", name)
    assert "left out by subtraction" in found.how
    assert "an equality in integers" in found.how


def test_a_scale_fitted_with_the_client_is_no_judge(
    place: Callable[[str], Path], found: Callable[[str], Served]
) -> None:
    folder = place("turned")
    assert without(folder, WHO, load(folder / "model.safetensors")) is None
    assert "by the model of the other folds" in found("turned").how


def test_a_test_client_is_judged_by_the_saved_model(tmp_path: Path) -> None:
    folder = write_people(tmp_path, {}, N_PEOPLE)
    done = run_plan(read_plan(write_plan(folder, test="0.4")), folder / "run")
    name = next(iter(done.scores.by_client))
    found = how_served(folder / "run", name)
    assert "by the run's model, which has never seen" in found.how
    assert found.value == done.scores.by_client[name].value
    other = next(k for k in done.run.rows_by_client if k not in done.scores.by_client)
    assert "trained again on the other 4 clients" in how_served(folder / "run", other).how


def test_somebody_new_with_files_and_a_server_without_data(
    place: Callable[[str], Path], tmp_path: Path
) -> None:
    folder = place("")
    new = write_people(tmp_path / "new", {0: "unit"}, 1, seed=7)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = how_served(folder, "zoe", files=[new / "p00.csv"])
    assert "another unit? m/s² for g" in standing_out(found)[0]
    assert "trained without zoe" in found.how
    told = as_the_server_knows(read_run(folder), WHO, "no such folder")
    text = " ".join(served_in_words(told).split())
    assert "--client p03 --files FILES" in text
    assert "does not know their signals" in text
    assert not told.channels
    with pytest.raises(ValueError, match="'zoe' is not a client of this run, which has p00"):
        how_served(folder, "zoe")


FORECAST = """
[data]
files = "h*.csv"
inputs = ["x"]
target = "y"
time = "t"
test = "folds"
[features]
units = 20
washout = 5
[run]
baselines = []
"""


def test_numbers_have_errors_in_place_of_confusions(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    for k in range(7):
        x = np.convolve(rng.normal(size=240), np.ones(4) / 4, "same")
        y = np.roll(x, 1) + 0.5 * x + 0.05 * rng.normal(size=240)
        y *= -1 if k == ODD else 1
        rows = "".join(f"{t},{a:.5f},{b:.5f}\n" for t, (a, b) in enumerate(zip(x, y, strict=True)))
        (tmp_path / f"h{k}.csv").write_text(f"t,x,y\n{rows}")
    run_plan(parse_plan(FORECAST, base=tmp_path), tmp_path / "run")
    (tmp_path / "run" / "plan.toml").write_text(FORECAST)
    found = how_served(tmp_path / "run", f"h{ODD}")
    assert found.metric == "NRMSE"
    assert found.confusion is None
    assert found.is_badly_served
    assert found.drawn[0].segments
    assert "root mean squared error" in served_in_words(found)
    assert "as well as the others" in standing_out(how_served(tmp_path / "run", "h0"))[0]


@pytest.mark.slow
def test_a_plan_that_hides_its_clients_keeps_nothing(tmp_path: Path) -> None:
    folder = write_people(tmp_path, {ODD: "turned"}, N_PEOPLE)
    path = write_plan(folder, scale="own")
    small = 'map = "echo_state"\nunits = 3\npool = "mean"\ninput = false'
    hidden = path.read_text().replace('map = "window_statistics"', small)
    path.write_text(hidden + '\n[[protections]]\nname = "secure_aggregation"\nmin_clients = 3\n')
    run_plan(read_plan(path), folder / "run")
    assert read_served(folder / "run") is None
    assert read_run(folder / "run").served == ""
    with pytest.raises(FederationError, match="saw nothing but sums"):
        unlearn_from_run(folder / "run", WHO, load(folder / "run" / "model.safetensors"))
    assert "by the model of the other folds" in how_served(folder / "run", WHO).how


def test_badly_served_is_who_lacks_more_than_is_usual(found: Callable[[str], Served]) -> None:
    one = found("turned")
    assert not replace(one, value=one.median).is_badly_served
    assert replace(one, value=one.median - 0.5).is_badly_served
