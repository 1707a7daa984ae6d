from __future__ import annotations

from dataclasses import dataclass
from inspect import getmodule

import numpy as np
import pytest

from catchment import Array, aligned
from catchment.features import Reservoir
from catchment.features.echo_state import (
    ACTIVATIONS,
    Program,
    Rows,
    SideBySide,
    advance,
    padded_lanes,
    preferred_lanes,
)
from tests.features.echo_state import oracle

pytestmark = pytest.mark.slow


def gathered(
    reservoir: Reservoir,
    lanes: list[Array],
    dtype: type[np.floating] = np.float64,
    cuts: tuple[int, ...] = (),
    x0: Array | None = None,
    block_columns: int = 512,
) -> list[Rows]:
    """Return [1, u, x] (T_b, 1 + I + N) of each lane, put together from its blocks."""
    programs = reservoir.programs(dtype)
    blocks = [
        block.rows.copy()
        for block in advance(programs, lanes, cuts=cuts, x0=x0, block_columns=block_columns)
    ]
    whole = np.concatenate(blocks, axis=1)
    return [whole[:, : len(u), b].T for b, u in enumerate(lanes)]


@dataclass(frozen=True)
class Case:
    """A reservoir that takes one of the paths through the kernels."""

    name: str
    n_units: int = 24
    density: float = 0.2
    leak: float | str = 0.4
    activations: tuple[str, ...] = ("tanh",)
    plastic: bool = False
    depth: int = 1

    def reservoir(self) -> Reservoir:
        rng = np.random.default_rng(3)
        layers = []
        for k in range(self.depth):
            leak = rng.uniform(0.05, 1, self.n_units) if self.leak == "each" else float(self.leak)
            layers.append(
                oracle.random_layer(
                    rng,
                    self.n_units,
                    2 if k == 0 else self.n_units,
                    density=self.density,
                    leak=leak,
                    activations=self.activations,
                    plastic=self.plastic,
                )
            )
        return Reservoir.of_layers(layers)


CASES = [
    Case("sparse"),
    Case("dense", density=1.0),
    Case("no connections", density=0.0),
    Case("full leak", leak=1.0),
    Case("a leak per unit", leak="each"),
    Case("sigmoid", activations=("sigmoid",)),
    Case("all activations", activations=ACTIVATIONS, leak="each"),
    Case("plastic", plastic=True),
    Case("three layers", depth=3, plastic=True, activations=("tanh", "relu")),
    Case("large dense", n_units=300, density=1.0),
]


@pytest.mark.parametrize("n_lanes", [1, 3, 8, 11, 32, 40])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_every_path_agrees_with_numpy(case: Case, n_lanes: int) -> None:
    reservoir = case.reservoir()
    lanes = oracle.sequences([30 - k % 7 for k in range(n_lanes)])
    every = 1 if case.n_units < 100 else 9
    pairs = list(zip(lanes, gathered(reservoir, lanes), strict=True))
    for u, rows in pairs[::every]:
        np.testing.assert_allclose(rows, oracle.extended(reservoir, u), rtol=0, atol=1e-12)


@pytest.mark.parametrize("n_lanes", [1, 3])
def test_one_unit_is_enough(n_lanes: int) -> None:
    reservoir = Case("one unit", n_units=1, density=1.0).reservoir()
    lanes = oracle.sequences([9] * n_lanes)
    for u, rows in zip(lanes, gathered(reservoir, lanes), strict=True):
        np.testing.assert_allclose(rows, oracle.extended(reservoir, u), rtol=0, atol=1e-12)


@pytest.mark.parametrize("n_lanes", [1, 5, 12])
@pytest.mark.parametrize("case", CASES[:7], ids=lambda case: case.name)
def test_single_precision_agrees_to_its_digits(case: Case, n_lanes: int) -> None:
    reservoir = case.reservoir()
    lanes = oracle.sequences([40] * n_lanes)
    for u, rows in zip(lanes, gathered(reservoir, lanes, np.float32), strict=True):
        assert rows.dtype == np.float32
        np.testing.assert_allclose(rows, oracle.extended(reservoir, u), rtol=0, atol=1e-5)


@pytest.mark.parametrize("n_lanes", [1, 8])
def test_any_cut_gives_the_same_bits(n_lanes: int) -> None:
    reservoir = oracle.random_reservoir()
    lanes = oracle.sequences([50] * n_lanes)
    plain = gathered(reservoir, lanes)
    for cuts, columns in (((1, 7, 49, 50, 99), 512), ((), 16), ((13,), 1)):
        cut = gathered(reservoir, lanes, cuts=cuts, block_columns=columns)
        for a, b in zip(plain, cut, strict=True):
            np.testing.assert_array_equal(a, b)


def test_blocks_are_in_order_and_end_at_the_cuts() -> None:
    reservoir = oracle.random_reservoir()
    lanes = oracle.sequences([20, 33])
    blocks = advance(reservoir.programs(), lanes, cuts=[5, 5, 21], block_columns=20)
    edges = [(block.start, block.stop) for block in blocks]
    assert edges == [(0, 5), (5, 10), (10, 20), (20, 21), (21, 30), (30, 33)]


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("n_lanes", [1, 3, 20])
@pytest.mark.parametrize("case", [CASES[k] for k in (0, 4, 9)], ids=lambda case: case.name)
def test_sums_are_those_of_the_steps(case: Case, n_lanes: int, dtype: type[np.floating]) -> None:
    reservoir = case.reservoir()
    lanes = oracle.sequences([50] * n_lanes)
    blocks = advance(
        reservoir.programs(dtype), lanes, cuts=[21], block_columns=9 * n_lanes, sums=True
    )
    total = np.sum([block.rows[:, 0, :n_lanes].copy() for block in blocks], axis=0)
    for b, u in enumerate(lanes):
        rows = oracle.extended(reservoir, u)
        tolerance = 1e-11 if dtype is np.float64 else 1e-3
        np.testing.assert_allclose(total[:, b], rows.sum(axis=0), rtol=0, atol=tolerance)


@pytest.mark.parametrize("n_lanes", [1, 2, 9])
def test_a_run_continues_from_any_state(n_lanes: int) -> None:
    reservoir = Case("deep", depth=2).reservoir()
    lanes = oracle.sequences([15] * n_lanes)
    x0 = np.random.default_rng(5).uniform(-1, 1, (reservoir.n_units, n_lanes))
    for b, rows in enumerate(gathered(reservoir, lanes, x0=x0)):
        expected = oracle.states(reservoir, lanes[b], x0[:, b])
        np.testing.assert_allclose(rows[:, 3:], expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("n_lanes", [1, 8])
def test_spare_rows_follow_the_states_and_belong_to_the_caller(n_lanes: int) -> None:
    reservoir = oracle.random_reservoir()
    lanes = oracle.sequences([100] * n_lanes)
    plain = gathered(reservoir, lanes, block_columns=64)
    parts = []
    for block in advance(reservoir.programs(), lanes, block_columns=64, spare_rows=2):
        block.rows[-2:] = np.nan
        parts.append(block.rows[:-2].copy())
    whole = np.concatenate(parts, axis=1)
    np.testing.assert_array_equal(whole[:, :, 0].T, plain[0])


@pytest.mark.parametrize("n_lanes", [1, 8])
def test_so_many_blocks_stay_valid(n_lanes: int) -> None:
    reservoir = oracle.random_reservoir()
    lanes = oracle.sequences([64] * n_lanes)
    held, copies = [], []
    for block in advance(reservoir.programs(), lanes, block_columns=16 * n_lanes, n_buffers=4):
        held.append(block.rows)
        copies.append(block.rows.copy())
    assert len(held) == 4
    for block_rows, copied in zip(held, copies, strict=True):
        np.testing.assert_array_equal(block_rows, copied)


def test_a_step_of_ones_own_gets_each_layer_in_turn() -> None:
    reservoir = Case("deep", depth=2).reservoir()
    seen = []

    def step(layer: int, start: int, X: Rows, U: Rows, S: Rows) -> None:
        seen.append((layer, start, X.shape, U.shape, S.shape))
        S[:] = layer + 1

    (block,) = advance(reservoir.programs(), oracle.sequences([10]), step=step)
    assert seen == [
        (0, 0, (24 + 2 + 1, 8), (2, 10, 8), (24, 10, 8)),
        (1, 0, (24 + 24 + 1, 8), (24, 10, 8), (24, 10, 8)),
    ]
    assert (block.rows[3:27] == 1).all()
    assert (block.rows[27:] == 2).all()


def test_program_folds_gain_and_shift_into_its_rows() -> None:
    layer = oracle.random_layer(np.random.default_rng(0), 6, 2, density=1.0, plastic=True)
    program = Program.of(layer)
    assert program.dense is not None
    x, u = np.random.default_rng(1).normal(size=(2, 6)), np.array([0.3, -0.2])
    drive = layer.W.to_dense() @ x[0] + layer.W_in.to_dense() @ u + layer.bias
    expected = layer.gain * drive + layer.shift
    np.testing.assert_allclose(program.dense @ np.concatenate([x[0], u, [1.0]]), expected)


def test_lanes_fit_their_kernels() -> None:
    assert [padded_lanes(n) for n in (1, 2, 3, 8, 9, 16, 17, 33)] == [1, 2, 8, 8, 16, 16, 32, 64]
    sparse, dense = oracle.random_reservoir(), Case("", n_units=300, density=1.0).reservoir()
    assert preferred_lanes(sparse.programs(), 20) == 16
    assert preferred_lanes(sparse.programs(), 1000) == 32
    assert preferred_lanes(dense.programs(), 20) == 64


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_aligned_memory_starts_on_a_cache_line(dtype: type[np.floating]) -> None:
    for shape in ((1,), (3, 5), (7, 8, 9)):
        array = aligned(shape, dtype)
        assert array.shape == shape
        assert array.dtype == dtype
        assert array.ctypes.data % 64 == 0


def test_side_by_side_serves_any_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(getmodule(advance), "WINDOW", 96)
    lanes = oracle.sequences([20, 5, 13])
    side = SideBySide(lanes, 8, 4, np.float64, fill=-9.0)
    for start, stop in ((0, 4), (4, 5), (5, 8), (8, 12), (12, 13), (17, 20), (0, 4)):
        piece = side.block(start, stop)
        assert piece.shape == (2, stop - start, 8)
        for b in range(8):
            expected = np.full((stop - start, 2), -9.0)
            if b < 3:
                part = lanes[b][start:stop]
                expected[: len(part)] = part
            np.testing.assert_array_equal(piece[:, :, b].T, expected)
