"""What annoyed a newcomer, each by a test that is named after it.

Others are where their subject is: progress in tests of the command line, reasons in those of
`diagnose`, the live page in those of the browser.
"""

from __future__ import annotations

import csv
import importlib.util
import io
import json
import re
import shlex
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import catchment as ct
from catchment.cli import size
from catchment.data.survey import summary_lines, survey
from catchment.errors import IntegrityError, MissingExtraError, TooFewClientsError
from catchment.federation import Limits, Plan, read_run
from catchment.federation.runs import lasting, say_bytes
from catchment.plans import read_plan, run_plan
from catchment.report import render
from catchment.sklearn import AnomalyDetector, TimeSeriesClassifier, YuleWalkerForecaster
from examples.own.federated_pca import FederatedPCA
from tests.commands import typed
from tests.journeys.people import good_people, rows_of, write

QUICK = ("--label", "activity", "--map", "window_statistics")


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def in_milliseconds(person: int) -> list[list[str]]:
    """Return a person's rows with times in milliseconds since 1970."""
    start = 1_700_000_000_000
    return [[f"{start + round(1000 * float(t))}", *rest] for t, *rest in rows_of(person)]


def predicted(run: str, file: str) -> list[str]:
    rows = list(csv.DictReader(io.StringIO(typed("predict", run, file).stdout)))
    return [row["prediction"] for row in rows]


def test_one_file_in_epoch_milliseconds_is_read_like_the_others() -> None:
    good_people(Path("people"), 5)
    good_people(Path("mixed"), 5)
    write(Path("mixed/p2.csv"), in_milliseconds(2))
    found = survey("mixed", label="activity", guess=True)
    assert found.rate == pytest.approx(20)
    assert found.other_rates == {}
    for name in ("people", "mixed"):
        typed("fit", name, *QUICK, "--plan", f"{name}.toml")
    models = [Path("runs", name, "model.safetensors").read_bytes() for name in ("people", "mixed")]
    assert models[0] == models[1]
    write(Path("new.csv"), rows_of(9))
    write(Path("new_ms.csv"), in_milliseconds(9))
    answers = predicted("runs/people", "new.csv")
    assert predicted("runs/mixed", "new_ms.csv") == answers
    assert len(answers) == 12


def test_elapsed_milliseconds_in_one_file_are_asked_about() -> None:
    good_people(Path("people"), 5)
    write(Path("people/p2.csv"), [[f"{1000 * float(t):.0f}", *rest] for t, *rest in rows_of(2)])
    lines = summary_lines(survey("people", label="activity", guess=True))
    assert any(
        "p2.csv has a row every 50 s, the others 20 Hz: are its times mill" in x for x in lines
    )


def test_elapsed_milliseconds_are_not_filled_up_to_the_rate_of_the_others() -> None:
    good_people(Path("people"), 5)
    write(Path("new.csv"), [[f"{1000 * float(t):.0f}", *rest] for t, *rest in rows_of(9)])
    Path("people/p2.csv").write_text(Path("new.csv").read_text())
    said = typed("fit", "people", *QUICK).stdout
    assert "trained on 4 of 5 people" in said
    assert "p2: a recording of 480 steps" in said
    refused = typed("predict", "runs/people", "new.csv", code=2).stderr
    assert "new.csv: a recording of 480 steps over 23950 s would have 479001 steps" in refused
    assert "check that its times are seconds" in refused


def test_a_file_without_a_value_has_no_prediction_and_a_pause_none() -> None:
    good_people(Path("people"), 3)
    typed("fit", "people", *QUICK)
    write(Path("silent.csv"), [[t, "", "", label] for t, *_, label in rows_of(9)])
    said = typed("predict", "runs/people", "silent.csv", code=2).stderr
    assert "silent.csv: every step of 1 recordings lacks an input" in said
    assert "restart" not in said  # another policy would not help
    rows = rows_of(9)
    write(Path("new.csv"), rows)
    whole = predicted("runs/people", "new.csv")
    for row in rows[240:]:
        row[0] = f"{float(row[0]) + 3600:.3f}"
    write(Path("paused.csv"), rows)
    assert predicted("runs/people", "paused.csv") == whole


def test_a_fit_that_was_killed_says_how_to_go_on_and_does() -> None:
    good_people(Path("people"), 3)
    program = "from catchment.cli import main; main()"
    words = [sys.executable, "-c", program, "fit", "people", *QUICK]
    with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as killed:
        while killed.poll() is None and not Path("runs/people/model.safetensors").exists():
            time.sleep(0.01)
        killed.kill()
    said = typed("fit", "people", *QUICK, code=2).stderr
    (command,) = re.findall(r"if it was cut short: catchment (run .*--resume), or", said)
    typed(*command.split())
    typed("fit", "people", *QUICK, "--out", "again", "--plan", "again.toml")
    models = [Path(one, "model.safetensors").read_bytes() for one in ("runs/people", "again")]
    assert models[0] == models[1]


@pytest.mark.long
def test_a_very_wide_map_of_few_series_ends() -> None:
    rng = np.random.default_rng(3)

    def held(n: int) -> list[ct.Recording]:
        return [
            ct.Recording.labeled(
                np.sin(np.arange(128) / (3 + k % 3)) + 0.5 * rng.normal(size=128), k % 3, "abc"
            )
            for k in range(n)
        ]

    clients, new = {f"p{k}": held(25) for k in range(4)}, held(60)
    begun = time.process_time()
    run = ct.federate(ct.MiniRocket(9996), clients, upload="auto")
    assert time.process_time() - begun < 300, "it was ten minutes, and takes a minute and a half"
    whole = 8 * 9996 * 9997 / 2
    assert sum(one.bytes_up for one in run.records) < 0.02 * whole * len(clients)
    said = run.model.predict([one.u for one in new])
    assert np.mean([a == "abc"[k % 3] for k, a in enumerate(said)]) > 0.95


def frames(n: int = 20) -> tuple[list[Any], list[str]]:
    pandas = pytest.importorskip("pandas")
    rng, t = np.random.default_rng(0), np.arange(60)
    made = [{"a": np.sin(t / (3 + k % 2)), "b": rng.normal(size=60)} for k in range(n)]
    return [pandas.DataFrame(one) for one in made], ["fast", "slow"] * (n // 2)


def test_reordered_columns_raise_as_in_scikit_learn() -> None:
    X, y = frames()
    classifier = TimeSeriesClassifier("window_statistics").fit(X, y)
    assert classifier.score(X, y) == 1.0
    assert list(classifier.feature_names_in_) == ["a", "b"]
    with pytest.raises(ValueError, match="must be in the same order as they were in fit"):
        classifier.predict([one[["b", "a"]] for one in X])
    with pytest.raises(ValueError, match="Feature names unseen at fit time"):
        classifier.predict([one.rename(columns={"a": "c"}) for one in X])
    with pytest.raises(ValueError, match="recording 19 has the columns b, a, recording 0 has a, b"):
        classifier.fit([*X[:-1], X[-1][["b", "a"]]], y)


def test_reordered_frames_are_refused_by_a_federated_model_too() -> None:
    X, y = frames()
    held = [
        ct.Recording.labeled(one, label, ("fast", "slow")) for one, label in zip(X, y, strict=True)
    ]
    run = ct.federate("window_statistics", {"p": held[::2], "q": held[1::2]})
    assert list(run.model.predict(X)) == y
    assert run.model.predict(X[1]) == y[1], "one frame is one recording"
    with pytest.raises(ValueError, match="has the channels b, a, the model was trained on a, b"):
        run.model.predict(X[1][["b", "a"]])
    with pytest.raises(ValueError, match="has the channels b, a, the model was trained on a, b"):
        run.model.predict([one[["b", "a"]] for one in X])
    assert ct.Recording(X[0].set_axis([0, 1], axis=1)).channels is None


def test_two_columns_of_one_name_are_refused() -> None:
    X, y = frames()
    with pytest.raises(ValueError, match="two columns called 'a'"):
        TimeSeriesClassifier().fit([one.set_axis(["a", "a"], axis=1) for one in X], y)


@pytest.mark.skipif(importlib.util.find_spec("catchment_edge") is None, reason="no catchment-edge")
def test_a_plan_that_names_no_inputs_says_which_columns_hardly_are_any() -> None:
    good_people(Path("people"), 5)
    plan = '[data]\nfiles = "people/*.csv"\nlabel = "activity"\n[preprocessing]\nwindow = 40\n'
    plan += '[features]\nmap = "window_statistics"\n'
    asked = "column 't' does not look like a channel, and is read as one: name what it is in [data]"
    Path("plan.toml").write_text(plan)
    said = typed("plan", "plan.toml").stdout
    assert f'! {asked}, or write inputs = ["ax", "ay"]' in said
    assert asked in " ".join(typed("run", "plan.toml").stderr.split())
    assert ct.load("runs/plan/model.safetensors").channels == ("t", "ax", "ay")
    for more in ('time = "t"', 'inputs = ["ax", "ay"]'):
        Path("plan.toml").write_text(plan.replace("[preproc", f"{more}\n[preproc"))
        assert "does not look like" not in typed("plan", "plan.toml").stdout


def test_fit_writes_the_rate_and_export_uses_it() -> None:
    good_people(Path("people"), 3)
    typed("fit", "people", *QUICK)
    assert read_plan("plan.toml").preprocessing.rate == 20.0
    typed("export", "runs/people", "--to", "c", "-o", "device")
    assert "20 Hz" in Path("device/model.h").read_text()


def test_a_recording_that_pauses_is_not_filled_with_rows() -> None:
    good_people(Path("people"), 3)
    rows = rows_of(1)
    for row in rows[240:]:
        row[0] = f"{float(row[0]) + 3600:.3f}"
    write(Path("people/p1.csv"), rows)
    typed("fit", "people", *QUICK)
    assert read_plan("plan.toml").preprocessing.rate is None


def uneven() -> dict[str, list[ct.Recording]]:
    """Return people of whom one has more than half of all recordings."""
    rng = np.random.default_rng(0)
    sizes = {f"p{k}": 4 for k in range(8)} | {"big": 60}
    names = ("fast", "slow")
    return {
        name: [
            ct.Recording(
                np.sin(np.arange(50) / (3 + k % 2)) + 0.1 * rng.normal(size=50),
                y=np.eye(2)[k % 2],
                classes=names,
            )
            for k in range(n)
        ]
        for name, n in sizes.items()
    }


PLAN = """
[data]
files = "people/*.csv"
label = "activity"
time = "t"
test = "folds"
[preprocessing]
window = "2s"
label = "majority"
[features]
map = "window_statistics"
"""


def test_the_person_with_half_of_all_data_is_kept_in_every_way_in() -> None:
    run = ct.federate("window_statistics", uneven())
    assert run.refused == ()
    assert run.statistics.n_rows == 92
    lazily = {name: (lambda held=held: held) for name, held in uneven().items()}
    assert ct.federate("window_statistics", lazily).refused == ()
    # Who names a limit has it.
    with pytest.warns(UserWarning, match="big: big claims"):
        strict = ct.federate("window_statistics", uneven(), limits=Limits())
    assert {one.client for one in strict.refused} == {"big"}

    good_people(Path("people"), 6)
    write(Path("people/big.csv"), rows_of(50, rounds=30))
    said = typed("fit", "people", *QUICK, "--plan", "fit.toml").stdout
    assert "big has 71 % of all rows" in said
    assert "trained on 7 of 7 people" in said
    for more, n in (("", 7), ("[run]\nover_median = 10\n", 6)):
        Path("plan.toml").write_text(PLAN + more)
        done = run_plan(read_plan("plan.toml"), f"by_hand_{n}").run
        assert done.rounds["training"][0].n_used == n


def test_fit_uses_the_default_map_unless_asked() -> None:
    good_people(Path("people"), 3)
    assert "(map: default, " in typed("fit", "people", "--label", "activity").stdout
    assert read_run("runs/people").facts["map"] == "default"


def test_the_default_forecast_is_lags_in_every_way_in_and_says_where_the_last_value_is_better() -> (
    None
):
    rng, hours, known = np.random.default_rng(0), np.arange(400), ct.NVAR(48, order=1)
    season = {
        f"house{k}": 5 * np.sin((hours + k) * np.pi / 12) + rng.normal(size=400) for k in range(4)
    }
    walks = {name: np.cumsum(rng.normal(size=400)) for name in season}
    for ahead in (1, (1, 6)):
        as_default, as_lags = (
            ct.Pipeline(ct.Preprocessing(horizon=ahead), one) for one in ("default", known)
        )
        for data, loses in ((season, False), (walks, True)):
            train = {name: [ct.Recording(u[:300])] for name, u in data.items()}
            test = {name: [ct.Recording(u[300:])] for name, u in data.items()}
            model = ct.federate(as_default, train).model
            lags = ct.federate(as_lags, train).model
            assert np.array_equal(model.readout.weights, lags.readout.weights)
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                ct.evaluate(model, test)
            said = [str(one.message) for one in caught]
            assert any("no better than the last value" in one for one in said) is loses
        alone = ct.fit(as_default, train["house0"])
        assert alone.features.fingerprint == model.features.fingerprint
    wide = ct.Recording(rng.normal(size=(200, 20)))
    assert ct.fit(as_default, [wide]).features.n_features == 501
    assert ct.fit("default", [ct.Recording(wide.u[:-1], wide.u[1:])]).features.reservoir is not None
    best = ct.federate(
        ct.Pipeline(ct.Preprocessing(horizon=6), "auto"),
        {name: [ct.Recording(u)] for name, u in season.items()},
    )
    assert "nvar, 49 features" in best.maps_tried

    Path("houses").mkdir()
    for name, u in season.items():
        Path("houses", f"{name}.csv").write_text("load\n" + "".join(f"{x}\n" for x in u))
    plan = '[data]\nfiles = "houses/*.csv"\ninputs = ["load"]\ntest = 0.25\ntest_of = "steps"\n'
    Path("plan.toml").write_text(plan + '[preprocessing]\nhorizon = [1, 6]\nscale = "federated"\n')
    kept = run_plan(read_plan("plan.toml"), "run").model
    assert kept.features.fingerprint == model.features.fingerprint


def series(n: int = 40) -> None:
    """Write one file per series: unequal lengths and levels, classes in the shape alone."""
    rng = np.random.default_rng(1)
    Path("series").mkdir()
    for k in range(n):
        T = int(rng.integers(60, 120))
        wave = np.sin(np.arange(T) / (2 + 0.6 * (k % 2))) + 0.5 * rng.normal(size=T)
        x = rng.normal(0, 200) + rng.uniform(0.2, 5) * wave
        rows = [f"p{k % 8},{t},{v:.5f},{'ab'[k % 2]}\n" for t, v in enumerate(x)]
        Path("series", f"s{k:02}.csv").write_text("who,t,x,kind\n" + "".join(rows))


def test_a_scale_for_each_recording_is_offered_where_lengths_and_levels_differ() -> None:
    series()
    words = ("fit", "series", "--label", "kind", "--client", "who", "--map", "echo_state")
    said = typed(*words).stdout
    (command,) = re.findall(r"to scale each alone: (catchment fit .*)", said)
    assert command.endswith("--scale recording --force")
    again = typed(*command.split()[1:]).stdout
    assert "each recording scaled alone" in again
    assert "to scale each alone" not in again
    before, after = (float(re.findall(r"accuracy (\d\.\d+)", text)[0]) for text in (said, again))
    assert after > before + 0.1


def test_the_anomaly_detector_alarms_about_as_often_as_it_says() -> None:
    rates = []
    for seed in range(4):
        rng = np.random.default_rng(seed)
        wave = np.sin(np.arange(3000) / 5) + 0.1 * rng.normal(size=3000)
        X = np.stack([wave, rng.normal(size=3000)], axis=1)
        detector = AnomalyDetector(50, false_positive_rate=0.05).fit(X[:1500])
        rates.append((detector.predict(X[1500:]) == -1).mean())
        assert (detector.predict(X[1500:])[: detector.washout_] == 1).all()
    assert 0.02 < np.mean(rates) < 0.08
    assert detector.washout_ == 50
    assert AnomalyDetector(10).fit(X[:100]).washout_ == 10


def test_one_hot_targets_without_names_are_remarked_on() -> None:
    bare = [ct.Recording(one.u, y=one.y) for held in uneven().values() for one in held]
    with pytest.warns(UserWarning, match="look like classes, one of 2 each, and are learned as"):
        assert ct.fit("window_statistics", bare).classes is None
    with pytest.warns(UserWarning, match="name them: classes="):
        ct.federate("window_statistics", {"a": bare[:20], "b": bare[20:]})
    assert ct.fit("window_statistics", bare, classes=("fast", "slow")).classes is not None


def test_recordings_of_one_step_are_remarked_on() -> None:
    short = [
        ct.Recording(np.array([[float(k), 1.0]]), y=np.eye(2)[k % 2], classes=("a", "b"))
        for k in range(9)
    ]
    with pytest.warns(UserWarning, match="every recording has one step"):
        ct.fit("window_statistics", short)


def test_install_hints_fit_a_clone() -> None:
    said = str(MissingExtraError("lab", needed_for="plots"))
    assert said.startswith('plots need an extra; pip install "catchment[lab]"')
    (place,) = re.findall(r"in your clone: pip install (\S+)$", said)
    assert Path(place, "pyproject.toml").is_file()
    said = str(MissingExtraError("sklearn", needed_for="estimators"))
    (place, extra) = re.findall(r'pip install "(/\S+)\[(\w+)\]"$', said)[0]
    assert f"\n{extra} = [" in Path(place, "pyproject.toml").read_text()


def test_verify_after_a_plain_fit_checks_everything_and_times_agree() -> None:
    good_people(Path("people"), 3)
    said = typed("fit", "people", *QUICK).stdout
    checked = typed("verify", "runs/people").stdout
    assert "cannot be checked" not in checked
    assert re.search(r"^all \d+ checks agree$", checked, re.MULTILINE)
    run = read_run("runs/people")
    assert run.seconds is not None
    took = lasting(run.seconds)
    assert f"trained on 3 of 3 people in {took}\n" in said
    assert f"<b>{took}</b><span>in total; " in render([run])


def test_units_are_those_that_people_write() -> None:
    Path("fast").mkdir()
    for k in range(3):
        rows = [f"{t / 40000:.6f},{(t * k) % 7},{'ab'[t // 500 % 2]}\n" for t in range(2000)]
        Path("fast", f"p{k}.csv").write_text("t,x,what\n" + "".join(rows))
    (first, *_) = summary_lines(survey("fast", label="what", guess=True))
    assert "40,000 Hz" in first
    for n in range(1, 10**10, 999_331):
        assert "e+" not in say_bytes(n) + size(n)


def test_programming_errors_in_an_own_algorithm_appear_as_themselves() -> None:
    class Mine(FederatedPCA):
        def client_update(self, *given: Any) -> Any:
            return self.not_written_yet(*given)  # type: ignore[attr-defined]

    rng = np.random.default_rng(0)
    clients = {f"p{k}": [ct.Recording(rng.normal(size=(30, 4)))] for k in range(5)}
    with pytest.raises(AttributeError, match="not_written_yet") as caught:
        ct.federate(Plan(algorithm=Mine()), clients)
    assert caught.traceback[-1].name == "client_update"
    # What is wrong with data is still said of the clients that have them.
    with pytest.raises(TooFewClientsError, match="p0: "):
        ct.federate(Plan(algorithm=FederatedPCA()), dict.fromkeys(clients, ()))


def test_a_plan_of_ones_own_is_kept_in_a_folder() -> None:
    rng = np.random.default_rng(0)
    clients = {f"p{k}": [ct.Recording(rng.normal(size=(30, 4)))] for k in range(5)}
    done = ct.federate(Plan(algorithm=FederatedPCA()), clients, out="runs/pca")
    run = read_run("runs/pca")
    assert (run.facts["title"], run.facts["finished"]) == ("5 clients, FederatedPCA", "yes")
    assert [one.n_used for one in run.rounds["training"]] == [5]
    assert done.records[0].bytes_up == run.rounds["training"][0].bytes_up
    assert "training: products" in typed("ledger", "runs/pca").stdout
    assert "PCA" in render([run])


def unlabeled() -> dict[str, list[ct.Recording]]:
    """Return a person whose only label is missing."""
    (first, *_) = uneven()["p0"]
    return {"p0": [ct.Recording(first.u, y=np.full(2, np.nan), classes=first.classes)]}


def _x(*shape: int) -> Any:
    return np.random.default_rng(0).normal(size=shape)


MISTAKES: dict[str, tuple[Callable[[], object], type[Exception], str]] = {
    "4-d X": (
        lambda: TimeSeriesClassifier().fit(_x(2, 6, 20, 2), [0, 1] * 3),
        ValueError,
        r"X has 4 axes, of shape \(2, 6, 20, 2\); pass an array \(n, time, channels\)",
    ),
    "zero samples": (
        lambda: TimeSeriesClassifier().fit(_x(0, 20, 2), []),
        ValueError,
        "X holds no recordings",
    ),
    "no samples at all": (
        lambda: TimeSeriesClassifier().fit([], []),
        ValueError,
        "X holds no recordings",
    ),
    "NaN in y": (
        lambda: TimeSeriesClassifier().fit(_x(6, 20), [0, 1, np.nan, 1, 0, 1]),
        ValueError,
        "1 of 6 samples have no label, the first is number 2; leave them out",
    ),
    "None in y": (
        lambda: TimeSeriesClassifier().fit(_x(4, 20), ["a", "b", None, "a"]),  # type: ignore[arg-type]
        ValueError,
        "1 of 4 samples have no label",
    ),
    "a map's class": (
        lambda: TimeSeriesClassifier(ct.MiniRocket).fit(_x(6, 20), [0, 1] * 3),
        TypeError,
        r"the map is the class MiniRocket; pass MiniRocket\(...\)",
    ),
    "a map's class in federate": (
        lambda: ct.federate(ct.MiniRocket, uneven()),  # type: ignore[call-overload]
        TypeError,
        r"pass MiniRocket\(...\)",
    ),
    "a list of clients": (
        lambda: ct.federate("default", [*uneven().values()]),  # type: ignore[call-overload]
        TypeError,
        "clients is a list; pass a dict of recordings by the client's name",
    ),
    "a list of clients in evaluate": (
        lambda: ct.evaluate(ct.fit("window_statistics", uneven()["big"]), uneven()["p0"]),  # type: ignore[arg-type]
        TypeError,
        "clients is a list; pass a dict of recordings by the client's name",
    ),
    "nothing to compare with": (
        lambda: ct.evaluate(ct.fit("window_statistics", uneven()["big"]), unlabeled()),
        ValueError,
        "no row of these clients has a known target; pass some to compare with",
    ),
    "a text for a model": (
        lambda: ct.load("text.txt"),
        IntegrityError,
        "text.txt is not a model file, because it does not begin as safetensors files do",
    ),
    "a forecaster of 3 points": (
        lambda: YuleWalkerForecaster().fit(np.arange(3.0)),
        ValueError,
        "y has 3 steps with a value; a forecast needs at least 4",
    ),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_errors_that_help(name: str) -> None:
    Path("text.txt").write_text("Dear reader,\nthis is no model.\n")
    call, kind, said = MISTAKES[name]
    with pytest.raises(kind, match=said):
        call()


def test_json_of_fit_has_the_time_of_the_folder() -> None:
    good_people(Path("people"), 3)
    found = json.loads(typed("fit", "people", *QUICK, "--json").stdout)
    assert found["seconds"] == read_run("runs/people").seconds


def test_a_recording_without_a_value_has_no_class_beside_others() -> None:
    rng = np.random.default_rng(0)
    good, silent = rng.normal(size=(30, 50, 2)), np.full((50, 2), np.nan)
    good[::2] += 1
    labels = ["a", "b"] * 15
    held = [ct.Recording.labeled(u, name, "ab") for u, name in zip(good, labels, strict=True)]
    model = ct.fit("window_statistics", held)
    for answer in (model.predict_proba, model.classify):
        assert len(answer([*good])) == 30
        with pytest.raises(ValueError, match="recording 1 gives no row: no channel has a value"):
            answer([good[0], silent])
    before, after = model.predict([good[0], good[1]])
    with pytest.warns(UserWarning, match="^recording 1 gives no row: no channel has a value, or"):
        assert model.predict([good[0], silent, good[1]]) == [before, [], after]
    mixed = np.array([good[0], silent])
    sure = TimeSeriesClassifier("window_statistics", layout="time_first").fit(good, labels)
    for use in (sure.predict, lambda X: sure.fit(X, ["a", "b"])):
        with pytest.raises(ValueError, match="recording 1 of X has no value in any channel; leave"):
            use(mixed)
    with pytest.raises(ValueError, match="y has 0 steps with a value; a forecast needs at least 4"):
        YuleWalkerForecaster().fit(np.full(50, np.nan))


def test_a_series_without_a_value_is_left_out_with_the_reason_and_no_word_of_numpy() -> None:
    for k in range(5):
        values = [f"{np.sin(i / 4 + k):.4f}" if k < 4 else "" for i in range(200)]
        rows = "".join(f"{3600 * i},{value}\n" for i, value in enumerate(values))
        path = Path(f"meters/m{k}.csv")
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"t,load\n{rows}")
    said = typed("fit", "meters", "--inputs", "load", "--horizon", "3")
    assert "trained on 4 of 5 people" in said.stdout
    assert "! 4 of 5 clients; m4: the client has no value of what is predicted" in said.stdout
    assert "slice" not in said.stdout + said.stderr
    refused = typed("predict", "runs/meters", "meters/m4.csv", "--ahead", code=2).stderr
    assert "meters/m4.csv: every step of 1 recordings lacks an input" in refused


def test_a_place_that_cannot_be_written_is_said_without_the_draft() -> None:
    good_people(Path("people"), 3)
    typed("fit", "people", *QUICK)
    write(Path("new.csv"), rows_of(9))
    model = ct.load("runs/people/model.safetensors")
    before = sorted(Path().rglob("*"))
    remedies = {
        Path("no/such/x"): "{} cannot be written: there is no folder {.parent}; make it first",
        Path("new.csv/x"): "{} cannot be written: there is no folder {.parent}; make it first",
        Path("people"): "{} is a folder; name a file in it",
    }
    for place, remedy in remedies.items():
        told = remedy.format(place, place)
        with pytest.raises(OSError) as caught:
            model.save(place)
        assert str(caught.value) == told
        assert typed("report", "runs/people", "-o", place, code=2).stderr == f"error: {told}\n"
    said = typed("predict", "runs/people", "new.csv", "--out", "no/such/x", code=2).stderr
    assert said.splitlines()[-1].endswith("there is no folder no/such; make it first")
    assert sorted(Path().rglob("*")) == before


def test_the_commands_that_are_printed_can_be_pasted() -> None:
    good_people(Path("my people"), 4)
    typed("fit", "my people", *QUICK, "--out", "a run", "--plan", "my plan.toml")
    said = typed("unlearn", "a run", "p1").stdout
    (advice,) = re.findall(r"anyone can check it: catchment (.*)", said)
    assert "checks agree" in typed(*shlex.split(advice)).stdout
    again = ("fit", "my people", *QUICK, "--out", "a run", "--plan", "my plan.toml")
    refused = typed(*again, code=2).stderr
    (resumed,) = re.findall(r"cut short: catchment (.*?), or replace it", refused)
    assert "run: a run\n" in typed(*shlex.split(resumed)).stdout
    for place in ("my people", "my people/p1.csv"):
        refused = typed("run", place, code=2).stderr
        assert "`catchment fit 'my people' --label COLUMN`" in refused
    typed("fit", "my people", *QUICK, "--out", "another", "--plan", "my own plan.toml")
    with Path("my own plan.toml").open("a") as plan:
        plan.write("# mine\n")
    refused = typed(*again[:-1], "my own plan.toml", code=2).stderr
    assert "run it (catchment run 'my own plan.toml'), write another" in refused
