"""The study of forecasts from autocovariances: what it shows, in the guide and on its page."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from reproductions.lags_study import (
    AHEAD,
    CONTENDERS,
    LONG_SETS,
    Series,
    cells_of,
    few_origins,
    floor,
    gram_rows,
    load,
    wave,
)
from reproductions.lags_tables import markdown, mean, of, read, sets_of

ROOT = Path(__file__).parents[4]
RESULT = read(ROOT / "results" / "lags.json")
CELLS = RESULT["cells"]
GUIDE = (ROOT / "docs" / "guides" / "forecasting.md").read_text()


def error(name: str, contender: str) -> float:
    return mean(of(CELLS, name, contender), "mse")


def test_the_page_is_that_of_the_result() -> None:
    assert markdown(RESULT) == (ROOT / "results" / "lags.md").read_text()


def test_the_guide_has_the_figures() -> None:
    for contender in CONTENDERS:
        shown = []
        for name in sets_of(CELLS):
            own = of(CELLS, name, contender)
            shown.append(f"{mean(own, 'mse'):.3f}" if own else "")
        assert f"| {contender} | {' | '.join(shown)} |" in GUIDE
    for n in (100, 1_000):
        found = {one["epsilon"]: one for one in CELLS if one.get("n_clients") == n}
        ratios = " | ".join(f"{found[epsilon]['ratio']:.2f}" for epsilon in (None, 8.0, 4.0, 1.0))
        assert f"| {n:,} clients | {ratios} |" in GUIDE


def test_eight_kilobytes_are_enough() -> None:
    station = of(CELLS, "ETTh1", "autocovariances")
    assert mean(station, "mse") <= 0.410
    assert station[0]["bytes"] <= 8_192
    assert error("exchange rates", "autocovariances") <= 0.36
    # Nothing linear beats the last value there.
    assert error("exchange rates", "last value") <= error("exchange rates", "autocovariances")


def test_long_series_have_the_error_of_the_exact_gram_within_two_percent() -> None:
    assert len(LONG_SETS) == 5
    for name in LONG_SETS:
        assert error(name, "autocovariances") <= 1.02 * error(name, "exact Gram")


def test_a_forecast_of_quick_series_is_near_its_floor() -> None:
    held = load("synthetic", None)
    for one in cells_of(held, "autocovariances"):
        least = np.mean([floor(h) for h in range(1, one["horizon"] + 1)])
        spread = np.var(np.concatenate([wave(1_400, k) for k in range(8)]))
        assert one["mse"] < 1.15 * least / spread
        assert 0.85 < one["inside"] < 0.95
    assert floor(AHEAD) > floor(1) == 1.0


def test_no_test_step_is_learned_from() -> None:
    held = load("synthetic", None)
    late = {name: np.where(np.arange(len(x)) < held.n_train, x, 1e3) for name, x in
            held.series.items()}  # fmt: skip
    changed = Series("late", late, held.n_train, held.n_test, held.lookback, held.horizons)
    assert all((changed.train[name] == x).all() for name, x in held.train.items())
    origins = held.origins(max(held.horizons))
    assert origins[0] - held.lookback + 1 > held.n_train - 1
    assert set(few_origins(held)) <= set(origins)
    z, y = gram_rows(np.arange(9.0), 3, 2)
    assert z[0].tolist() == [2.0, 1.0, 0.0]
    assert y[0].tolist() == [3.0, 4.0]
