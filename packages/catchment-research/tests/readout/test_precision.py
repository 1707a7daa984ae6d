"""The smallest ridge that sums can tell is measured against the rows, and warned of."""

from __future__ import annotations

import json
import warnings
from functools import cache

import numpy as np
import pytest

from benchmarks import precision, textbook
from benchmarks.record import RESULTS
from catchment import Array, EchoState, Recording
from catchment.data import mackey_glass
from catchment.errors import PrecisionWarning, SingularError
from catchment.readout import (
    Readout,
    RidgeStatistics,
    accumulate,
    choose_by_blocks,
    choose_by_gcv,
    ridge_grid,
    smallest_ridge,
    solve_readout,
    warn_of_edge,
)
from catchment_research import known_series

pytestmark = pytest.mark.processor

N = 1500


def of_the_rows(z: Array, y: Array, ridge: float) -> Readout:
    """Return the ridge readout of the rows themselves, by their singular values."""
    means = z.mean(axis=0), y.mean(axis=0)
    U, s, V = np.linalg.svd(z - means[0], full_matrices=False)
    W = V.T @ ((s / (s**2 + ridge))[:, None] * (U.T @ (y - means[1])))
    return Readout(W, means[1] - means[0] @ W, ridge)


@cache
def rows(series: str, *, scaled: bool = False) -> tuple[Array, Array]:
    """Return the states of a noise-free series, in float64, and what comes next."""
    x = mackey_glass(N + 6) if series == "mackey-glass" else known_series("lorenz", N + 6)
    u = (x - x.mean(axis=0)) / x.std(axis=0) if scaled else x
    features = EchoState(120, washout=100, bits=None).build(u.shape[1], per_step=True)
    return features.rows([u[:N]])[0], x[106 : N + 6, :1]


@pytest.mark.parametrize("series", ["mackey-glass", "lorenz"])
@pytest.mark.parametrize("offset", [0.0, 30.0])
def test_near_the_smallest_ridge_sums_predict_as_the_rows_do(series: str, offset: float) -> None:
    z, y = rows(series)
    z = z + offset  # what means cost, the limit knows
    statistics = RidgeStatistics.from_states(z, y)
    limit = 4 * smallest_ridge(statistics)  # kernels differ by a factor of two or three
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        from_sums = solve_readout(statistics, limit)
    of_rows = np.linalg.norm(of_the_rows(z, y, limit)(z) - y)
    assert np.linalg.norm(from_sums(z) - y) == pytest.approx(of_rows, rel=0.05)


def test_the_ridge_that_an_error_advises_is_enough_and_not_far_too_large() -> None:
    z, y = rows("mackey-glass")
    repeated = RidgeStatistics.from_states(np.hstack([z, z[:, 5:9]]), y)
    with pytest.raises(SingularError) as caught:
        repeated.solve(0.0)
    advised = float(str(caught.value).split("use a ridge of ")[1].split()[0])
    assert repeated.solve(advised).ridge == advised
    assert advised < 4 * smallest_ridge(repeated)


@pytest.mark.parametrize("share", [0.1, 0.3, 0.9])
def test_a_ridge_below_what_sums_can_tell_is_never_taken_in_silence(share: float) -> None:
    """Whether sums are just positive definite, or just not, is up to the processor's kernels."""
    z, y = rows("mackey-glass")
    statistics = RidgeStatistics.from_states(z, y)
    ridge = share * smallest_ridge(statistics)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        try:
            from_sums = statistics.solve(ridge)
        except SingularError:
            return
    assert [one.category for one in told] == [PrecisionWarning]
    assert "scale the inputs" in str(told[0].message)
    of_rows = of_the_rows(z, y, ridge)
    lost = np.linalg.norm(from_sums.weights - of_rows.weights) / np.linalg.norm(of_rows.weights)
    assert lost > 0.01 or share > 0.1


@pytest.mark.parametrize("ridge", [0.0, 1e-14])
def test_well_posed_rows_are_not_warned_of_whatever_their_units(ridge: float) -> None:
    rng = np.random.default_rng(0)
    z = rng.normal(size=(200, 6)) * np.array([1e-5, 1.0, 1e4, 1.0, 1.0, 1.0])
    y = rng.normal(size=(200, 1))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        RidgeStatistics.from_states(z, y).solve(ridge)
        RidgeStatistics.from_states(z, y).solve(ridge, intercept=False)
    constant = np.hstack([np.full((200, 1), 3.0), z])
    RidgeStatistics.from_states(constant, y).solve(1e-14)


def blocks(z: Array, y: Array) -> list[RidgeStatistics]:
    parts = np.array_split(np.arange(len(z)), 4)
    return [RidgeStatistics.from_states(z[p], y[p]) for p in parts]


def test_the_choice_goes_on_to_smaller_ridges_where_the_smallest_is_the_best() -> None:
    z, y = rows("mackey-glass")
    parts = blocks(z, y)
    total = parts[0] + parts[1] + parts[2] + parts[3]
    usual = ridge_grid(total)
    before, after = choose_by_blocks(parts, usual), choose_by_blocks(parts)
    assert before.best == usual[0]
    np.testing.assert_array_equal(after.ridges[-len(usual) :], usual)
    assert smallest_ridge(total) <= after.best < usual[0]
    assert after.errors.min() < 0.8 * before.errors.min()
    assert after.block_errors is not None
    assert after.block_errors.shape == (4, len(after.ridges), 1)
    choice = choose_by_gcv(total)
    assert choice.at_edge
    assert choice.best == pytest.approx(smallest_ridge(total))


@pytest.mark.parametrize(
    ("errors", "told"),
    [
        ([1.0, 1.4, 2.0], True),  # falls by 29 % for half a power of ten
        ([1.0, 1.1, 2.0], False),  # hardly falls
        ([1.0, 0.9, 2.0], False),  # the best lies within
        ([1e-7, 1.4e-7, 2e-7], False),  # nobody misses it
    ],
)
def test_who_would_gain_by_a_smaller_ridge_is_told_once(errors: list[float], told: bool) -> None:
    z, y = rows("mackey-glass")
    statistics = RidgeStatistics.from_states(z, y)
    ridges = smallest_ridge(statistics) * 10 ** (np.arange(3) / 2)
    scored = 1e-3 * float(y.var()) * np.array(errors)[:, None]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warn_of_edge(statistics, ridges, scored)
    assert len(caught) == told
    if told:
        said = str(caught[0].message)
        assert "the Gram matrix has" in said
        assert "falls there by 29%" in said
        assert said.endswith("; scale the inputs")


def test_a_choice_that_lies_within_is_as_it_was_and_nobody_is_warned() -> None:
    z, y = rows("mackey-glass", scaled=True)
    noisy = y + 0.05 * np.random.default_rng(1).normal(size=y.shape)
    parts = blocks(z, noisy)
    total = parts[0] + parts[1] + parts[2] + parts[3]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        choice = choose_by_blocks(parts)
        choose_by_gcv(total)
    np.testing.assert_array_equal(choice.ridges, ridge_grid(total))


def test_in_fixed_point_it_is_the_same_limit() -> None:
    x = mackey_glass(406)
    features = EchoState(20, washout=50).build(1, per_step=True)
    total = accumulate(features, [Recording(x[:400], x[6:])])
    assert total.fixed is not None
    assert smallest_ridge(total) == smallest_ridge(total.floats) > 0
    assert smallest_ridge(RidgeStatistics.zero(3, 1)) == 0


MEASURED = json.loads((RESULTS / "precision.json").read_text(encoding="utf-8"))["rows"]


def test_the_tables_of_the_docs_are_those_that_were_measured() -> None:
    page = precision.PAGE.read_text(encoding="utf-8")
    assert precision.with_tables(page, MEASURED) == page
    for name in precision.TABLES:
        assert f"<!-- table: {name} -->" in page
    written = (RESULTS / "precision.md").read_text(encoding="utf-8")
    assert written == precision.report(MEASURED)


def test_what_the_docs_say_of_sums_was_measured() -> None:
    def error(way: str, series: str, inputs: str, states: str) -> float:
        found = [
            row["ways"][way]["error"]
            for row in MEASURED
            if (row["series"], row["inputs"], row["states"]) == (series, inputs, states)
            and row["units"] == 300
        ]
        assert len(found) >= 5
        return float(np.mean(found))

    hard = ("Mackey-Glass", "as they are", "float64")
    assert error("sums, best", *hard) == pytest.approx(2.7 * error("rows, best", *hard), rel=0.02)
    # What the guide says to do, and what is not to be gained.
    scaled = ("Mackey-Glass", "standardized", "float64")
    assert error("sums, by clients", *scaled) < 0.5 * error("rows, best", *hard)
    assert error("sums, best", *scaled) < 1.05 * error("rows, best", *scaled)
    for inputs in ("as they are", "standardized"):
        lorenz_ = ("Lorenz", inputs, "float64")
        assert error("sums, best", *lorenz_) < 1.01 * error("rows, best", *lorenz_)
    for row in MEASURED:
        ways = row["ways"]
        could_gain = (row["series"], row["inputs"]) == ("Mackey-Glass", "as they are")
        assert could_gain or not any(one.get("warned") for one in ways.values())
        if (row["series"], row["inputs"], row["states"], row["units"]) == (*hard, 300):
            assert ways["sums, by clients"]["warned"]
        of_rows = ways["rows, best"]
        assert of_rows["by scipy"] == pytest.approx(of_rows["error"], rel=1e-6)


def test_what_the_docs_say_of_textbook_tasks_was_measured() -> None:
    rows = json.loads((RESULTS / "textbook.json").read_text(encoding="utf-8"))["rows"]
    page = textbook.PAGE.read_text(encoding="utf-8")
    assert "<!-- table: textbook -->" in page
    assert textbook.with_table(page, rows) == page
    assert (RESULTS / "textbook.md").read_text(encoding="utf-8") == textbook.report(rows)
    for task in textbook.TASKS:
        for scale in textbook.SCALES:
            mine = [row["ways"] for row in rows if (row["task"], row["inputs"]) == (task, scale)]
            ratios = [
                one["sums, default bits"]["error"] / one["sums, float64"]["error"] for one in mine
            ]
            assert len(mine) == 5
            left = np.median([one["sums, float64"]["error"] for one in mine]) > 1
            assert left or np.median(ratios) < 1.05
