"""From CSV files to what comes next, in processes of their own; and naive forecasts beside it."""

from __future__ import annotations

import csv
import json
import shutil
import subprocess
import sys
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
import pytest

from catchment import Model, calibrate, load, save
from catchment.cli import main
from catchment.data import Recording
from catchment.federation import read_run
from catchment.federation.learn import FederatedYuleWalker
from catchment.federation.measure import Dummy, season_of
from catchment.federation.runs import last_state
from catchment.plans import parse_plan, verify_run
from catchment.report import render

DAY = 24


def write(folder: Path, n_steps: int, people: int = 4) -> Path:
    """Write hourly loads with a day and noise that lasts for some hours, a file for each house."""
    folder.mkdir()
    for k in range(people):
        rng = np.random.default_rng(k)
        e = rng.normal(size=n_steps)
        for t in range(1, n_steps):
            e[t] += 0.8 * e[t - 1]
        load = 100 + 20 * np.sin(2 * np.pi * (np.arange(n_steps) + k) / DAY) + 3 * e
        with (folder / f"house{k}.csv").open("w", newline="") as file:
            out = csv.writer(file)
            out.writerow(("time", "load"))
            for t, value in enumerate(load):
                out.writerow((datetime(2024, 1, 1) + timedelta(hours=t), f"{value:.4f}"))
    return folder


def catchment(*words: str, folder: Path) -> str:
    command = [sys.executable, "-m", "catchment.cli", *words]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def walked(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    folder = tmp_path_factory.mktemp("walk")
    write(folder / "loads", 1_500)
    return folder, catchment("fit", "loads", "--horizon", "12", folder=folder)


def test_fit_takes_autocovariances_and_says_why(walked: tuple[Path, str]) -> None:
    folder, said = walked
    assert "from autocovariances: recordings have 1500 rows" in said
    assert 'algorithm = "yule_walker"' in (folder / "plan.toml").read_text()
    assert "beside it: last value" in said
    assert "seasonal naive" in said


def test_a_new_process_says_what_comes_next(walked: tuple[Path, str]) -> None:
    folder, _ = walked
    told = catchment("predict", "runs/loads", "loads/house1.csv", "--ahead", folder=folder)
    (row,) = csv.DictReader(told.splitlines())
    with (folder / "loads" / "house1.csv").open() as file:
        values = np.array([[float(one["load"])] for one in csv.DictReader(file)])
    model = load(folder / "runs" / "loads" / "model.safetensors")
    last = model.predict(Recording(values))[-1, 0]
    assert float(row["load"]) == pytest.approx(last, rel=1e-5)
    assert float(row["load_low"]) < last < float(row["load_high"])
    assert row["time"].startswith("2024-03-03T23")  # 12 hours after the last of 1500


def test_evaluate_shows_what_naive_forecasts_have(walked: tuple[Path, str]) -> None:
    folder, _ = walked
    told = json.loads(
        catchment("evaluate", "runs/loads", "loads/house0.csv", "--json", folder=folder)
    )
    assert set(told["naive"]) == {"last value", f"seasonal naive ({DAY})"}
    own = told["total"]["NRMSE"]
    assert all(own < one["NRMSE"] for one in told["naive"].values())


def test_fit_says_that_a_forecast_is_no_better_than_the_last_value_and_that_errors_drift(
    tmp_path: Path,
) -> None:
    rng, path = np.random.default_rng(5), tmp_path / "loads"
    path.mkdir()
    for k in range(3):  # nothing foretells a random walk, and its last quarter takes longer steps
        values = np.cumsum(rng.normal(size=400) * np.repeat([1.0, 3.0], [300, 100]))
        rows = "".join(f"{t},{value:.4f}\n" for t, value in enumerate(values))
        (path / f"house{k}.csv").write_text("time,load\n" + rows)
    said = catchment("fit", "loads", "--horizon", "6", folder=tmp_path)
    command = [sys.executable, "-m", "catchment.cli", "evaluate", "runs/loads", "loads"]
    again = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert again.stderr.startswith("warning: the forecast (NRMSE ")
    assert "is no better than the last value (" in again.stderr
    assert "! the forecast is no better than the best of these; try longer recordings" in said
    assert "they drift; widen them by recordings of that time, catchment.calibrate(" in said
    model = load(tmp_path / "runs" / "loads" / "model.safetensors")
    late = {}
    for one in path.iterdir():
        values = np.loadtxt(one, delimiter=",", skiprows=1, usecols=1)[300:, None]
        late[one.stem] = [Recording(values)]
    wider = calibrate(model, late)
    widths = [np.ptp(one.interval(np.zeros((1, 1)), coverage=0.9)) for one in (model, wider)]
    assert widths[1] > 1.3 * widths[0]


def typed(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """Return what `catchment fit` says, in this process."""
    with pytest.raises(SystemExit):
        main(["fit", *words])
    said = capsys.readouterr()
    return said.out + said.err


def test_one_owners_file_is_one_client_and_is_not_cut_into_several(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(write(tmp_path / "loads", 1_500, people=1))
    said = typed(capsys, "house0.csv", "--horizon", "12")
    assert "trained on 1 of 1 people" in said
    assert "worst house0" in said
    assert said.endswith("next: catchment predict runs/house0 new.csv --ahead\n")
    assert verify_run("runs/house0").having("ok") == verify_run("runs/house0").checks


def test_fit_says_that_a_trend_has_made_intervals_too_wide(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for k in range(3):
        values = 0.2 * np.arange(1_500) + np.random.default_rng(k).normal(size=1_500)
        rows = "".join(f"{t},{value:.4f}\n" for t, value in enumerate(values))
        (tmp_path / f"house{k}.csv").write_text("time,load\n" + rows)
    assert "a trend widens those from autocov" in typed(capsys, ".", "--horizon", "12")
    again = typed(capsys, ".", "--horizon", "12", "--map", "default", "--force")
    assert "times those that intervals expect" not in again


def test_horizons_that_recordings_cannot_have_are_refused_or_not_tested(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(write(tmp_path / "loads", 60, people=3))
    for horizon, wrong in ((0, "horizon in [preprocessing] is 0"), (45, "60 rows, of which 45")):
        assert wrong in typed(capsys, ".", "--horizon", str(horizon))
    said = typed(capsys, ".", "--horizon", "20")
    assert "! no recording's last quarter is longer than the horizon\nnot tested" in said
    assert "nan" not in said


def test_series_that_never_change_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for k in range(3):
        (tmp_path / f"house{k}.csv").write_text("time,load\n2024-01-01,5\n2024-01-02,5\n")
    said = typed(capsys, ".", "--horizon", "1")
    assert "to learn from (load: it never changes); name some" in said


def test_a_run_is_unlearned_and_verified(walked: tuple[Path, str]) -> None:
    folder, _ = walked
    said = catchment("unlearn", "runs/loads", "house2", folder=folder)
    assert "to the last bit" in said
    told = json.loads(catchment("verify", "runs/loads", "--json", folder=folder))
    found = {one["what"]: one["outcome"] for one in told["checks"]}
    assert set(found.values()) == {"ok"}
    wanted = {f"house{k} {how}" for k in range(4) for how in ("as kept", "from recordings")}
    wanted |= {f"certificate: {one}" for one in ("before", "removed", "after", "features")}
    wanted |= {"sum of all clients", "4 clients added up", "readout"}
    assert wanted | {"model-without-house2.safetensors"} <= set(found)


def test_the_report_draws_the_path_of_lookbacks_means_and_ridges(
    walked: tuple[Path, str],
) -> None:
    run = read_run(walked[0] / "runs" / "loads")
    model = load(run.folder / "model.safetensors")
    learn = FederatedYuleWalker(features=model.features, preprocessing=model.preprocessing)
    state = learn.load_state(last_state(run.folder, "training"))
    assert state.choice is not None
    assert state.total is not None
    assert run.path is not None
    choice, best = state.choice, state.choice.best
    here = (choice.lookbacks == best.lookback) & (choice.means == best.mean)
    np.testing.assert_array_equal(run.path.ridges, choice.ridges[here])
    np.testing.assert_allclose(run.path.errors[:, 0], choice.errors[here])
    assert run.path.chosen == (best.ridge,)
    tried = json.loads(run.facts["map_scores"])
    assert len(tried) == len(set(zip(choice.lookbacks, choice.means, strict=True)))
    named = f"{best.lookback} lags, less the mean of {best.mean}"
    assert run.facts["map_chosen"] == named == min(tried, key=lambda one: tried[one])
    variance = state.total.moments[0, 0]
    assert tried[named] ** 2 * variance == pytest.approx(choice.errors.min())
    page = render([run])
    assert "Choosing the ridge" in page
    assert f"chosen: {best.ridge:.3g}" in page
    assert all(f">{name}</th>" in page for name in tried)


def test_a_changed_recording_or_readout_of_a_forecast_is_found(
    walked: tuple[Path, str], tmp_path: Path
) -> None:
    folder = tmp_path / "walk"
    shutil.copytree(walked[0], folder)
    path = folder / "loads" / "house1.csv"
    path.write_text(path.read_text().replace("2024-01-01 05:00:00,1", "2024-01-01 05:00:00,2"))
    model = load(folder / "runs" / "loads" / "model.safetensors")
    assert isinstance(model, Model)
    weights = model.readout.weights.copy()
    weights[1] += 0.01
    save(
        replace(model, readout=replace(model.readout, weights=weights)),
        folder / "runs" / "loads" / "model.safetensors",
    )
    told = verify_run(folder / "runs" / "loads")
    bad = {one.what for one in told.having("differs")}
    assert bad == {"model file", "readout", "house1 from recordings"}


@pytest.mark.parametrize(
    ("n_steps", "map_", "algorithm", "why"),
    [
        (250, "default", "ridge", "exact Gram matrix of lags: recordings have 250 rows"),
        (60, "default", "ridge", "60 rows, under 10 times the 12 + 12"),
    ],
)
def test_shorter_recordings_have_the_exact_gram_of_the_default_lags(
    tmp_path: Path, n_steps: int, map_: str, algorithm: str, why: str
) -> None:
    from catchment.cli import Asked, look
    from catchment.plans.propose import propose

    folder = write(tmp_path / "loads", n_steps)
    options = dict.fromkeys(("label", "client", "recording", "time", "target", "inputs"))
    asked = Asked((str(folder),), {**options, "horizon": 12})
    file, said = propose(look(asked), [str(folder)], tmp_path / "plan.toml", "x", horizon=12)
    assert (file.map_name, file.algorithm) == (map_, algorithm)
    assert why in said


def test_a_plan_of_autocovariances_has_lags_for_a_map() -> None:
    text = '[data]\nfiles = "*.csv"\n[preprocessing]\nhorizon = [1, 6]\n[features]\ndelays = 48\n'
    plan = parse_plan(f'{text}[learn]\nalgorithm = "yule_walker"\ntrailing_mean = 1\n')
    (lags,) = plan.maps
    assert (lags.delays, lags.order) == (48, 1)  # type: ignore[attr-defined]


def test_a_season_is_found_in_changes_whatever_the_level_does() -> None:
    rng = np.random.default_rng(0)
    hours = np.arange(600)
    drifting = np.cumsum(rng.normal(size=600)) + 5 * np.sin(2 * np.pi * hours / DAY)
    assert season_of([drifting[:, None]]) == DAY
    assert season_of([np.cumsum(rng.normal(size=600))[:, None]]) is None
    assert season_of([np.ones((600, 1))]) is None


def test_a_seasonal_guess_is_the_value_whole_seasons_before() -> None:
    from catchment.engine import run_locally
    from catchment.federation import Plan
    from catchment.federation.measure import Score

    x = np.arange(40.0) % 7 + np.repeat([0.0, 1.0], 20)
    ahead = np.stack([np.append(x[h:], [np.nan] * h) for h in (2, 9)], axis=1)
    guess = Dummy(how="seasonal", season=7, horizon=(2, 9))
    score = run_locally(Plan(algorithm=guess), {"a": [Recording(x, ahead)]}).state.total
    assert isinstance(score, Score)
    # From t = 14 on, 2 ahead of a week before, 9 ahead of two weeks before.
    wanted = [
        sum((x[t + h] - x[t + h - back]) ** 2 for t in range(14, 31))
        for h, back in ((2, 7), (9, 14))
    ]
    np.testing.assert_allclose(score.errors.squared_error, wanted)
