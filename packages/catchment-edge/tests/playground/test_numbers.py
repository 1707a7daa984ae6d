"""The page's WebAssembly under node: all its numbers are those of catchment, to 1e-6."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from catchment.readout import ForecastLimitWarning
from tests.playground.compare import check, run_python
from tools.playground.run import missing, numbers

CASES = (
    "",
    "#signal=sine&units=30&seed=3&radius=0.8&leak=0.3&ridge=0.01&horizon=100",
    "#signal=narma&units=60&seed=7&radius=1.1&leak=1&input=0.3&topology=orthogonal&out=2",
    "#signal=square&units=50&seed=1&radius=0.9&ridge=0.5&washout=10&topology=ring&out=1,3,4",
    "#units=200&seed=12&radius=0.7&leak=0.2&ridge=0.001&washout=0",
    "#units=40&seed=9999&topology=permutation&radius=0.99&leak=0.9&ridge=0.1",
    "#units=25&seed=5&topology=delay_line&radius=0.8&leak=1&input=0.2&ridge=1",
    "#units=10&seed=0&radius=0.5&horizon=10&ridge=0.001",
)
LEAVES = "#units=23&seed=2&input=1.3&ridge=0.001&out=4"

pytestmark = pytest.mark.skipif(bool(missing()), reason=missing())


@pytest.fixture(scope="module")
def told() -> dict[str, dict[str, object]]:
    return dict(zip(CASES, numbers(CASES), strict=True))


@pytest.mark.parametrize("fragment", CASES)
def test_every_number_is_the_one_that_python_gives(
    fragment: str, told: dict[str, dict[str, object]]
) -> None:
    page = told[fragment]
    check(page, run_python(str(page["python"])))


def drawn(n: int) -> list[str]:
    """Return fragments with settings drawn over the range of every knob but the ends.

    With a small ridge a loop may multiply a difference by five at every step, and tiny inputs
    leave states without independent directions: both magnify the last digits of either side.
    """
    rng = np.random.default_rng(17)
    return [
        f"#signal={rng.choice(['sine', 'mackey_glass', 'narma', 'square'])}"
        f"&topology={rng.choice(['random', 'ring', 'delay_line', 'permutation', 'orthogonal'])}"
        f"&units={rng.integers(10, 120)}&seed={rng.integers(0, 10000)}"
        f"&radius={rng.uniform(0.2, 1.3):.2f}&leak={rng.uniform(0.2, 1):.2f}"
        f"&input={rng.uniform(0.2, 2):.2f}&ridge={10 ** rng.uniform(-2, 1):.3g}"
        f"&washout={rng.integers(0, 100)}&horizon=15&out={rng.choice(['', '1', '2,4'])}"
        for _ in range(n)
    ]


@pytest.mark.parametrize("n", [6, pytest.param(100, marks=pytest.mark.long)])
def test_settings_drawn_at_random_give_pythons_numbers(n: int) -> None:
    fragments = drawn(n)
    for fragment, page in zip(fragments, numbers(fragments), strict=True):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ForecastLimitWarning)
            names = run_python(page["python"])
        try:
            check(page, names)
        except AssertionError as error:
            raise AssertionError(f"{fragment}: {error}") from error


def test_a_loop_that_leaves_the_range_is_held_where_python_holds_it() -> None:
    (page,) = numbers([LEAVES])
    with pytest.warns(ForecastLimitWarning, match=f"at step {page['held']} of 200"):
        names = run_python(page["python"])
    check(page, names)


def test_a_fragment_that_makes_no_sense_is_the_page_as_it_comes() -> None:
    plain, odd, twice = numbers(["", "#units=many&signal=<b>&out=9,x&topology=&ridge=-1", ""])
    assert odd["fragment"] == "#ridge=0.000001"  # the nearest that can be set
    assert plain["fragment"] == ""
    assert plain == twice
    assert np.isfinite(odd["forecast"]).all()


def test_the_last_client_cannot_be_taken_out() -> None:
    (page,) = numbers(["#out=1,2,3,4"])
    assert page["fragment"] == "#out=1,2,3"
