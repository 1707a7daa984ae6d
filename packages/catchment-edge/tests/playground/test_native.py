"""The page's C as this machine compiles it: its parts against numpy, and no undefined behavior."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from catchment import EchoState
from tools.playground.build import STRICT, gather

pytestmark = pytest.mark.skipif(shutil.which("gcc") is None, reason="there is no gcc here")

UNDEFINED = ("-fsanitize=undefined", "-fno-sanitize-recover=all")
TOPOLOGIES = ("random", "ring", "delay_line", "permutation", "orthogonal")


@pytest.fixture(scope="module")
def c(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    folder = tmp_path_factory.mktemp("play")
    names = gather(folder)
    command = ["gcc", *STRICT, "-Wconversion", "-Wno-sign-conversion", "-O1", *UNDEFINED]
    command += ["-ffp-contract=off", "-shared", "-fPIC", "-o", "play.so", *names, "-lm"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    library = ctypes.CDLL(str(folder / "play.so"))
    doubles = ("play_tanh", "play_memory", "play_difference", "linear_spectral_radius")
    for name in doubles:
        getattr(library, name).restype = ctypes.c_double
    for name in ("play_at", "play_starts", "play_columns"):
        getattr(library, name).restype = ctypes.c_void_p
    return library


def pointer(array: NDArray[np.generic]) -> ctypes.c_void_p:
    return array.ctypes.data_as(ctypes.c_void_p)  # which keeps the array


def at(address: int, length: int, kind: type[np.generic] = np.float64) -> NDArray[Any]:
    """Return a copy of numbers in the C's own memory."""
    raw = ctypes.string_at(address, length * np.dtype(kind).itemsize)
    return np.frombuffer(raw, dtype=kind)


def test_tanh_is_numpys_to_the_last_digits(c: ctypes.CDLL) -> None:
    near = np.concatenate([10.0 ** np.linspace(-300, 0, 2000), np.linspace(0, 25, 20001), [1e9]])
    x = np.concatenate([-near, near])
    found = np.array([c.play_tanh(ctypes.c_double(value)) for value in x])
    np.testing.assert_allclose(found, np.tanh(x), rtol=1e-15, atol=1e-300)
    assert np.abs(found).max() == 1.0


matrices = st.tuples(st.integers(1, 60), st.integers(0, 2**32 - 1), st.floats(0.1, 1.0))


@settings(max_examples=60, deadline=None)
@given(matrices)
def test_the_spectral_radius_is_that_of_numpy(
    c: ctypes.CDLL, shape: tuple[int, int, float]
) -> None:
    n, seed, density = shape
    rng = np.random.default_rng(seed)
    A = rng.uniform(-1, 1, (n, n)) * (rng.random((n, n)) < density)
    expected = np.abs(np.linalg.eigvals(A)).max()
    assume(expected > 0.05)  # of a matrix without a cycle only rounding is left
    found = c.linear_spectral_radius(pointer(A.copy()), n)
    assert found == pytest.approx(expected, rel=1e-9)


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 40), st.integers(0, 2**32 - 1))
def test_cholesky_solves_what_numpy_solves(c: ctypes.CDLL, n: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(n + 5, n))
    A, b = z.T @ z + 0.1 * np.eye(n), rng.normal(size=n)
    x = b.copy()
    assert c.linear_cholesky(pointer(np.triu(A)), pointer(x), n) == 1
    np.testing.assert_allclose(x, np.linalg.solve(A, b), rtol=1e-9, atol=1e-9)
    assert c.linear_cholesky(pointer(-A), pointer(x), n) == 0


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 30), st.integers(1, 6), st.booleans(), st.integers(0, 2**32 - 1))
def test_least_squares_predict_what_numpy_predicts(
    c: ctypes.CDLL, n: int, k: int, repeated: bool, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    m = 2 * n + 5
    z, y = rng.normal(size=(m, n)), rng.normal(size=(m, k))
    if repeated:
        z[:, -1] = z[:, 0]
    weights, both = np.empty((n, k)), np.hstack([z, y])
    order, norms, row = np.empty(n, dtype=np.int32), np.empty(n), np.empty(n + k)
    work = [pointer(array) for array in (weights, order, norms, row)]
    c.linear_least_squares(pointer(both), m, n, k, *work)
    expected = z @ np.linalg.lstsq(z, y, rcond=None)[0]
    np.testing.assert_allclose(z @ weights, expected, rtol=0, atol=1e-9)


@pytest.mark.parametrize("topology", TOPOLOGIES)
@pytest.mark.parametrize(("units", "seed"), [(5, 0), (10, 3), (11, 1), (41, 77), (200, 4294967295)])
def test_weights_have_the_bits_that_the_library_draws(
    c: ctypes.CDLL, topology: str, units: int, seed: int
) -> None:
    real = ctypes.c_double
    assert c.play_draw(ctypes.c_uint32(seed), units, TOPOLOGIES.index(topology)) == 1
    c.play_scale(ctypes.c_uint32(seed), real(0.8), real(0.5), real(0.3), real(0.2))
    described = EchoState(
        units,
        seed=seed,
        topology=topology,
        spectral_radius=0.8,
        leak_rate=0.5,
        input_scaling=0.3,
        bias_scaling=0.2,
        bits=None,
    )
    (layer,) = described.build(1, per_step=True).reservoir.layers
    W = layer.W
    starts = at(c.play_starts(), units + 1, np.uint32)
    assert (starts == W.starts).all()
    assert (at(c.play_columns(), W.n_nonzero, np.uint16) == W.columns).all()
    assert (at(c.play_at(5), W.n_nonzero) == W.values).all()
    assert (at(c.play_at(6), units) == layer.W_in.values).all()
    assert (at(c.play_at(7), units) == layer.bias).all()
