"""The study of forecasts: its figures in the guide, and its parts that no target is in twice."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from reproductions.forecast_data import WASHOUT, parts, synthetic
from reproductions.forecast_station import FORMS, HORIZONS, NAIVE
from reproductions.forecast_study import PUBLISHED, covered, of, root_mean
from reproductions.forecast_tables import largest_gap, markdown
from reproductions.forecast_weather import HORIZONS as HOURS
from reproductions.forecast_weather import naive_cell

ROOT = Path(__file__).parents[4]
RESULT = json.loads((ROOT / "results" / "forecast.json").read_text())
CELLS = RESULT["cells"]
GUIDE = (ROOT / "docs" / "guides" / "forecasts-for-many.md").read_text()


def test_the_guide_has_the_figures_of_the_weather() -> None:
    names = dict.fromkeys(cell["contender"] for cell in CELLS if cell["task"] == "weather")
    for name in names:
        shown = [f"{root_mean(of(CELLS, 'weather', name), h)[0]:.2f}" for h in HOURS]
        assert f"| {name} | {' | '.join(shown)} |" in GUIDE
    own = of(CELLS, "weather", "+ personal readouts")
    for coverage in ("0.8", "0.95"):
        inside = [100 * covered(own, coverage, h)[0] for h in HOURS]
        worst = min(100 * covered(own, coverage, h)[1] for h in HOURS)
        said = f"{min(inside):.1f} to {max(inside):.1f} % (worst region {worst:.1f} %)"
        assert said in " ".join(GUIDE.split())


def test_the_guide_has_the_figures_of_the_station() -> None:
    for name in (*NAIVE, *FORMS):
        found = {cell["horizon"]: cell["test"] for cell in of(CELLS, "station", name)}
        shown = [f"{found[h]['mse']:.3f} / {found[h]['mae']:.3f}" for h in HORIZONS]
        assert " | ".join(shown) in GUIDE
    for figures in PUBLISHED.values():
        assert " | ".join("{:.3f} / {:.3f}".format(*figures[h]) for h in HORIZONS) in GUIDE


def test_federated_and_pooled_forecasts_are_the_same() -> None:
    assert largest_gap(CELLS) <= 1e-9
    assert f"{largest_gap(CELLS):.0e}" in GUIDE
    assert markdown(RESULT) == (ROOT / "results" / "forecast.md").read_text()


def test_no_target_is_in_two_parts() -> None:
    year = synthetic(8760, 1)["region 01"]
    seen: list[float] = []
    for name, some in parts(year).items():
        for one in some:
            assert one.times is not None
            seen += one.times[0 if name == "train" else WASHOUT :].tolist()
    assert len(seen) == len(set(seen)) == 13 * 4 * 168


def test_naive_forecasts_repeat_the_value_of_the_hour() -> None:
    data = {"a": {"test": parts(synthetic(8760, 1)["region 01"])["test"][:1]}}
    (told,) = naive_cell("same hour yesterday", data)["by_client"].values()  # type: ignore[attr-defined]
    t = data["a"]["test"][0].u[:, 0]
    rows = range(WASHOUT, len(t) - 24)
    wanted = [np.mean([(t[k + h] - t[k + h - 24]) ** 2 for k in rows]) for h in HOURS]
    np.testing.assert_allclose(told["squares"], wanted)
