"""The study of cycles left: its score, its protocol, and what its pages say."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest

from reproductions.life import (
    ALONE,
    MAIN,
    MEAN,
    RANDOM,
    LifeCell,
    LifeResult,
    load_life,
    phm_score,
    rmse,
)
from reproductions.life_data import CAP, fd001, generated
from reproductions.life_pooled import BOOSTED, PRODUCTS
from reproductions.life_tables import markdown
from reproductions.places import find

ROOT = Path(__file__).parents[4]
IN_THE_GUIDE = {
    MEAN: MEAN,
    "single rows, linear": "single rows, linear",
    "lags, linear": "30 lags, linear",
    "windows of 30, MiniRocket": "windows of 30, MiniRocket",
    "diagonal reservoir": "diagonal reservoir, 600 units",
    MAIN: "echo state, 600 units, slow leaks",
    PRODUCTS: "pooled rows: trailing means and age, products of components",
    BOOSTED: "pooled rows: trailing means and age, gradient boosting",
}


def test_the_score_is_that_of_the_challenge() -> None:
    said, true = [90.0, 120.0, 50.0], [100.0, 100.0, 50.0]
    plain = 0.0
    for d in (-10.0, 20.0, 0.0):
        plain += math.exp(-d / 13) - 1 if d < 0 else math.exp(d / 10) - 1
    assert phm_score(said, true) == pytest.approx(plain, rel=1e-12)


def test_engines_are_cut_off_and_capped() -> None:
    engines = generated(5, seed=3)
    for (train,), (test,), left in zip(
        engines.train.values(), engines.test.values(), engines.cycles_left, strict=True
    ):
        assert train.y is not None
        assert test.y is not None
        assert train.y[-1, 0] == 0.0
        assert train.y.max() == CAP
        assert test.y[-1, 0] == min(left, CAP)


@pytest.mark.skipif(find("cmapss_fd001") is None, reason="the files are not here")
def test_fd001_is_what_its_publisher_says() -> None:
    engines = fd001()
    assert len(engines.train) == len(engines.test) == len(engines.cycles_left) == 100
    assert sum(one.n_steps for [one] in engines.train.values()) == 20631
    assert sum(one.n_steps for [one] in engines.test.values()) == 13096
    last = [one.y[-1, 0] for [one] in engines.test.values() if one.y is not None]
    np.testing.assert_array_equal(last, np.minimum(engines.cycles_left, CAP))


def test_a_page_says_what_was_measured() -> None:
    cell = LifeCell(contender="a", seed=0, predicted=[100.0, 20.0], columns=3, pooled=2e-14)
    page = markdown(LifeResult([130.0, 20.0], 1, (cell,)))
    assert f"| a | {rmse([100, 20], [125, 20]):.2f} (" in page
    assert "at most 2.0e-14" in page


def test_the_results_and_the_guide_say_the_same() -> None:
    result = load_life(ROOT / "results" / "life.json")
    assert (ROOT / "results" / "life.md").read_text("utf-8") == markdown(result) + "\n"
    assert max(cell.pooled for cell in result.cells if cell.pooled is not None) <= 1e-9
    assert all(len(result.of(name)) == result.seeds for name in RANDOM)
    true = np.minimum(result.cycles_left, CAP)
    errors = {
        name: float(np.mean([rmse(cell.predicted, true) for cell in result.of(name)]))
        for name in {cell.contender for cell in result.cells}
    }
    guide = " ".join((ROOT / "docs/guides/remaining-life.md").read_text("utf-8").split())
    for name, shown in IN_THE_GUIDE.items():
        score = np.mean([phm_score(cell.predicted, true) for cell in result.of(name)])
        assert f"| {shown} | {errors[name]:.1f} | {score:.0f} |" in guide, name
    left_out = [
        float(np.mean([cell.left_out for cell in result.of(name) if cell.left_out is not None]))
        for name in (BOOSTED, MAIN)
    ]
    assert "too ({:.1f} against {:.1f} cycles)".format(*left_out) in guide
    assert f"trained locally has an RMSE of {errors[ALONE]:.0f}, no better than the mean" in guide
    cells = [json.loads(json.dumps(cell.intervals)) for cell in result.of(MAIN)]
    share = np.mean([one["bands"]["0.9"][0] for one in cells])
    assert f"{100 * share:.0f} % of the test engines" in guide
