"""Horizons, channels known ahead and calendars, against arithmetic written out plainly."""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
import pytest

import catchment as ct
from catchment import Array
from catchment.data import Preprocessing, Recording, check_continuable, from_frame
from catchment.federation import RoundContext
from catchment.federation.measure import Dummy
from catchment.readout import output_names

CHANNELS = ("load", "price", "wind")


def series(n_steps: int = 60, seed: int = 0) -> Recording:
    u = np.random.default_rng(seed).normal((5.0, 10.0, -3.0), size=(n_steps, 3))
    times = 3600.0 * np.arange(n_steps, dtype=np.float64)
    return Recording(u, times=times, channels=CHANNELS, epoch=1_467_331_200.0)  # 1 July 2016


def test_targets_are_the_predicted_channels_at_every_horizon_in_raw_units() -> None:
    raw = series()
    preprocessing = Preprocessing(horizon=(1, 3), predicted=("wind", "load"), scale="own")
    (ready,) = preprocessing.apply([raw])
    assert ready.y is not None
    for t in range(60):
        wanted = [raw.u[t + h, c] if t + h < 60 else np.nan for h in (1, 3) for c in (2, 0)]
        np.testing.assert_array_equal(ready.y[t], wanted)
    assert ready.u.shape == (60, 3)


def test_channels_by_number_need_no_names() -> None:
    preprocessing = Preprocessing(horizon=(1, 3), known=(1,), calendar=("hour",), scale="own")
    named = replace(preprocessing, known=("price",)).apply([series()])[0]
    (ready,) = preprocessing.apply([replace(series(), channels=None)])
    assert ready.channels is None
    np.testing.assert_array_equal(ready.u, named.u)
    np.testing.assert_array_equal(ready.y, named.y)


def test_one_horizon_of_all_channels_is_what_a_number_says() -> None:
    raw = series()
    number, several = (Preprocessing(horizon=h, scale="none").apply([raw])[0] for h in (4, (4,)))
    np.testing.assert_array_equal(number.u, several.u)
    np.testing.assert_array_equal(number.y, several.y)


def test_known_channels_are_looked_up_ahead_and_scaled_like_themselves() -> None:
    raw = series()
    preprocessing = Preprocessing(horizon=(1, 3), known=("price",), scale="federated")
    ready = preprocessing.fitted(preprocessing.moments([raw]))
    (made,) = ready.apply([raw])
    mean, spread = raw.u.mean(axis=0), raw.u.std(axis=0)
    scaled = (raw.u - mean) / spread
    for t in range(60):
        ahead = [scaled[min(t + h, 59), 1] for h in (1, 3)]
        np.testing.assert_allclose(made.u[t], [*scaled[t], *ahead], rtol=1e-12)
    assert made.channels == (*CHANNELS, "price +1", "price +3")
    assert made.y is not None
    assert made.y.shape == (60, 4)  # load and wind: what is known is not predicted


@pytest.mark.parametrize("gaps", ["hold", "interpolate", "restart"])
def test_rows_with_nothing_but_known_channels_are_the_future(gaps: str) -> None:
    raw = series()
    u = raw.u.copy()
    u[50:, [0, 2]] = np.nan
    future = replace(raw, u=u)
    preprocessing = Preprocessing(horizon=(1, 10), known=("price",), gaps=gaps, scale="none")  # type: ignore[arg-type]
    (piece,) = preprocessing.inputs([future])
    assert piece.recording.n_steps == 50
    np.testing.assert_array_equal(piece.u[-1], [*raw.u[49], raw.u[50, 1], raw.u[59, 1]])
    # The scale counts no row of the future.
    np.testing.assert_allclose(preprocessing.moments([future]).mean, raw.u[:50].mean(axis=0))


def test_calendar_columns_are_sines_of_the_clock() -> None:
    raw = series(24 * 400)
    (made,) = Preprocessing(horizon=1, calendar=("hour", "weekday", "season"), scale="none").apply(
        [raw]
    )
    assert made.u.shape[1] == 3 + 12
    start = datetime(2016, 7, 1)
    for t in (0, 5, 1000, 24 * 399):
        moment = start + timedelta(hours=t)
        hour = moment.hour / 24
        week = (moment.weekday() + hour) / 7
        year = (moment - datetime(1970, 1, 1)) / timedelta(days=365.2425)
        wanted = [
            wave(2 * math.pi * turns * part)
            for part in (hour, week, year)
            for turns in (1, 2)
            for wave in (math.sin, math.cos)
        ]
        np.testing.assert_allclose(made.u[t, 3:], wanted, atol=1e-9)


def test_dates_of_files_reach_the_calendar_whatever_their_form() -> None:
    text = ["2016-07-01T06:00:00", "2016-07-01T07:00:00"]
    forms = [text, np.array(text, dtype="M8[s]"), [1467352800, 1467356400]]
    forms.append([one + "+02:00" for one in text])  # by its own clock
    preprocessing = Preprocessing(calendar=("hour",), scale="none")
    made = []
    for times in forms:
        (recording,) = from_frame({"t": times, "x": [1.0, 2.0]}, inputs="x", time="t")["all"]
        made.append(preprocessing.inputs([recording.part(1, 2)])[0].u[0, 1:])
    for one in made:
        np.testing.assert_allclose(one, made[0], atol=1e-9)
    np.testing.assert_allclose(made[0][0], math.sin(2 * math.pi * 7 / 24))


def test_times_without_dates_are_refused() -> None:
    preprocessing = Preprocessing(calendar=("hour",), scale="none")
    with pytest.raises(ValueError, match="says no date"):
        preprocessing.apply([Recording(np.ones(1), times=np.zeros(1))])
    with pytest.raises(ValueError, match="has none"):
        preprocessing.apply([Recording(np.ones(1))])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"horizon": []}, "horizon is"),
        ({"horizon": (3, 3)}, "once, the least first"),
        ({"horizon": (0, 1)}, "1 or more"),
        ({"known": "price"}, "without a horizon"),
        ({"horizon": 1, "known": ("a",), "predicted": ("a",)}, "both"),
        ({"horizon": 1, "predicted": ("a", 1)}, "predicted is"),
        ({"calendar": ("moon",)}, "calendar is .'moon',.; give a list of 'hour', 'weekday' or"),
    ],
)
def test_settings_that_cannot_be_are_refused(settings: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Preprocessing(**settings)  # type: ignore[arg-type]


def test_channels_that_are_not_there_are_refused() -> None:
    with pytest.raises(ValueError, match="there are load, price, wind"):
        Preprocessing(horizon=1, predicted=("sun",), scale="none").apply([series()])
    with pytest.raises(ValueError, match="counted from 0"):
        Preprocessing(horizon=1, known=(3,), scale="none").apply([series()])


def test_settings_come_back_and_old_preparations_keep_their_fingerprints() -> None:
    full = Preprocessing(horizon=(1, 24), predicted=("load",), known=("price",), calendar=("hour",))
    assert Preprocessing.from_settings(full.settings()) == full
    assert "known" not in Preprocessing(horizon=3).settings()
    # As before there were several horizons.
    old = "cc7dffdf2c85246f"
    assert Preprocessing(horizon=3).fingerprint.startswith(old)
    changed = (
        Preprocessing(horizon=(1, 24), known=("price",), calendar=("hour",)),
        replace(full, known=()),
        replace(full, calendar=()),
        replace(full, horizon=(1, 12)),
    )
    assert len({one.fingerprint for one in (full, *changed)}) == 5


def test_a_saved_model_forecasts_alone_and_equals_ridge_over_stacked_rows(tmp_path: Path) -> None:
    clients = {name: [series(200, seed=k)] for k, name in enumerate("abc")}
    preprocessing = Preprocessing(
        horizon=(1, 6), predicted=("load",), known=("price",), calendar=("hour",)
    )
    pipeline = ct.Pipeline(preprocessing, ct.NVAR(delays=2, order=1, bits=None))
    result = ct.federate(pipeline, clients, ridge=1.0)
    model = ct.load(result.model.save(tmp_path / "model.safetensors"))
    assert output_names(model) == ("load+1", "load+6")
    raw = clients["b"][0]
    by_hand = _by_hand(clients, raw)
    np.testing.assert_allclose(model.predict(raw), by_hand, rtol=1e-9, atol=1e-9)
    errors = by_hand[:-6] - np.column_stack([raw.u[1:-5, 0], raw.u[6:, 0]])
    score = ct.evaluate(model, {"b": [raw]}).total
    assert score is not None
    np.testing.assert_allclose(score.errors.squared_error, (errors**2).sum(axis=0), rtol=1e-6)


def _by_hand(clients: dict[str, list[Recording]], new: Recording) -> Array:
    """Return forecasts (T, 2) of ridge regression on columns made without the library."""
    every = [one for held in clients.values() for one in held]
    u = np.concatenate([one.u for one in every])
    mean, spread = u.mean(axis=0), u.std(axis=0)

    def rows(one: Recording) -> Array:
        v, T = (one.u - mean) / spread, one.n_steps
        hour = 2 * np.pi * np.arange(T) / 24
        ahead = [v[np.minimum(np.arange(T) + h, T - 1), 1] for h in (1, 6)]
        waves = [np.sin(hour), np.cos(hour), np.sin(2 * hour), np.cos(2 * hour)]
        now = np.round(np.column_stack([v, *ahead, *waves]) * 2**22) / 2**22  # as NVAR says
        before = np.vstack([np.zeros(now.shape[1]), now[:-1]])
        return np.hstack([now, before])

    z = np.vstack([rows(one)[:-6] for one in every])
    y = np.vstack([np.column_stack([one.u[1:-5, 0], one.u[6:, 0]]) for one in every])
    center, scale = z.mean(axis=0), z.std(axis=0)
    a = (z - center) / scale
    weights = np.linalg.solve(a.T @ a + np.eye(a.shape[1]), a.T @ (y - y.mean(axis=0)))
    return np.asarray((rows(new) - center) / scale @ weights + y.mean(axis=0))


def test_persistence_repeats_the_present_value_at_every_horizon() -> None:
    (made,) = Preprocessing(horizon=(1, 3), predicted=("load",), scale="none").apply([series()])
    score = Dummy(how="persistence", horizon=(1, 3)).client_update({}, lambda: [made], _turn())  # type: ignore[arg-type]
    load = series().u[:, 0]
    wanted = sum((load[t + h] - load[t]) ** 2 for t in range(3, 57) for h in (1, 3))
    np.testing.assert_allclose(score.errors.squared_error.sum(), wanted)


def _turn() -> RoundContext:
    return RoundContext(0, cohort=("a",), client="a")


def test_segments_and_closed_loops_say_what_they_cannot() -> None:
    with pytest.raises(ValueError, match="whole recordings"):
        check_continuable(Preprocessing(calendar=("hour",)))
    recording = series()
    model = ct.fit(
        ct.Pipeline(Preprocessing(horizon=1, predicted=(0,)), ct.EchoState(10)), [recording]
    )
    with pytest.raises(ValueError, match="forecast directly"):
        model.forecast(recording, 3)
