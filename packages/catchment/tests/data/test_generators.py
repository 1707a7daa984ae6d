from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from scipy.integrate import solve_ivp

from catchment import Array
from catchment.data import mackey_glass, narma, seeded_generator

# The first inputs of this seed drive NARMA-10 out of its basin within 2000 steps.
DIVERGENT = 281


@pytest.mark.parametrize(
    ("order", "constants", "seed"),
    [(10, (0.3, 0.05, 0.1), 0), (30, (0.2, 0.04, 0.001), 1), (10, (0.3, 0.05, 0.1), DIVERGENT)],
)
def test_narma_obeys_its_law_at_every_step(
    order: int, constants: tuple[float, float, float], seed: int
) -> None:
    a, b, c = constants
    task = narma(2000, order=order, seed=seed)
    assert task.y is not None
    # Row t of the target is y(t+1), so y(t) is the row before.
    u, y_next = task.u[:, 0], task.y[:, 0]
    y = y_next[:-1]
    windows = np.lib.stride_tricks.sliding_window_view(y, order).sum(axis=1)
    recent = slice(order - 1, None)
    expected = (
        a * y[recent] + b * y[recent] * windows + 1.5 * u[order:] * u[1 : 1 + len(u) - order] + c
    )
    np.testing.assert_allclose(y_next[order:], expected, rtol=1e-12)
    assert y_next.max() < 2.0
    assert (u >= 0).all()
    assert (u < 0.5).all()


def test_narma_draws_again_where_it_would_diverge() -> None:
    first_draw = 0.5 * seeded_generator(DIVERGENT).random(2200)[200:]
    u = narma(2000, seed=DIVERGENT).u[:, 0]
    changed = np.flatnonzero(u != first_draw)
    assert 0 < len(changed) <= 41
    np.testing.assert_array_equal(narma(2000, seed=DIVERGENT).u[:, 0], u)


def test_narma_starts_from_rest_without_warm_up() -> None:
    task = narma(3, seed=5, warm_up=0)
    assert task.y is not None
    assert task.y[0, 0] == pytest.approx(0.1)
    assert task.y[1, 0] == pytest.approx(0.1 + 0.3 * 0.1 + 0.05 * 0.1**2)


def mackey_glass_by_steps(start: float, delay: float, n_pieces: int) -> Callable[[float], float]:
    """Integrate one delay at a time with scipy: within it the delayed value is known."""
    pieces: list[Callable[[float], float]] = [lambda t: start]
    x = start
    for k in range(n_pieces):

        def slope(t: float, x: Array, past: Callable[[float], float] = pieces[-1]) -> Array:
            delayed = past(t - delay)
            return 0.2 * delayed / (1 + delayed**10) - 0.1 * x

        span = (k * delay, (k + 1) * delay)
        solved = solve_ivp(slope, span, [x], rtol=1e-11, atol=1e-11, dense_output=True)
        x = float(solved.y[0, -1])
        pieces.append(lambda t, solved=solved: float(solved.sol(t)[0]))  # type: ignore[misc]
    return lambda t: pieces[1 + min(int(t / delay), n_pieces - 1)](t)


def test_mackey_glass_agrees_with_scipy() -> None:
    reference = mackey_glass_by_steps(1.2, 17.0, n_pieces=5)
    ours = mackey_glass(80, start=1.2, warm_up=0)[:, 0]
    np.testing.assert_allclose(ours, [reference(float(t)) for t in range(80)], atol=1e-7)


def test_a_seed_names_a_bounded_series() -> None:
    first, again, other = (mackey_glass(300, seed=seed) for seed in (4, 4, 5))
    np.testing.assert_array_equal(first, again)
    assert not np.allclose(first, other)
    assert np.abs(first).max() < 60
    assert (first.std(axis=0) > 0).all()


@pytest.mark.parametrize("series", [narma, mackey_glass])
@pytest.mark.parametrize("wrong", [{"n_steps": 0}, {"n_steps": 5, "warm_up": -1}])
def test_lengths_are_checked(series: Callable[..., object], wrong: dict[str, int]) -> None:
    with pytest.raises(ValueError, match=r"(n_steps|warm_up) is"):
        series(**wrong)


def test_settings_are_checked() -> None:
    with pytest.raises(ValueError, match="order is 11"):
        narma(10, order=11)
    with pytest.raises(ValueError, match="a positive multiple"):
        mackey_glass(10, delay=17.03)
    with pytest.raises(ValueError, match="seed is -1"):
        narma(10, seed=-1)
