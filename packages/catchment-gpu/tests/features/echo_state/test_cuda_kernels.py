"""The source of the CUDA kernels, compiled for the CPU with one thread per block."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch", reason="needs torch")

import torch

from catchment.features import Reservoir
from catchment.features.echo_state import MixedActivation, Program, advance
from catchment_gpu import lanes_of_a_block, source
from catchment_gpu.echo_state import activate

COMPILER = shutil.which("g++") or shutil.which("clang++")
pytestmark = pytest.mark.skipif(COMPILER is None, reason="needs a C++ compiler")
DIGITS = 20
HEAD = """
#include <cmath>
#include <cstring>
using std::copysign; using std::fabs; using std::fmax; using std::fmin;
#define __global__
#define __device__
#define __shared__
#define __forceinline__ inline
#define __syncthreads()
struct Place { int x, y; };
static Place threadIdx = {0, 0}, blockIdx = {0, 0}, blockDim = {1, 1};
static long long __double_as_longlong(double x) { long long k; memcpy(&k, &x, 8); return k; }
static double __longlong_as_double(long long k) { double x; memcpy(&x, &k, 8); return x; }
double memory[1 << 16];
"""
TAIL = """
extern "C" void run_lanes(const long long* starts, const int* columns, const double* values,
    const double* leak, const unsigned char* code, const double* U, double* X, double* S, int N,
    int I, int T, int B) {
  for (blockIdx.x = 0; blockIdx.x < B; blockIdx.x++)
    run_sparse(starts, columns, values, leak, code, U, X, S, N, I, T, B, 1);
  blockIdx.x = 0;
}
extern "C" void step_lanes(const double* X, double* S, const double* bias, const double* leak,
    const unsigned char* code, int N, int B, int ldx, int lds) {
  for (blockIdx.y = 0; blockIdx.y < N; blockIdx.y++)
    for (blockIdx.x = 0; blockIdx.x < B; blockIdx.x++)
      step_into(X, S, bias, leak, code, N, B, ldx, lds);
  blockIdx.x = blockIdx.y = 0;
}
"""


@pytest.fixture(scope="module")
def kernels(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    folder = tmp_path_factory.mktemp("kernels")
    text, library = folder / "kernels.cpp", folder / "kernels.so"
    text.write_text(HEAD + source(DIGITS) + TAIL)
    assert COMPILER is not None
    subprocess.run(
        [COMPILER, "-std=c++17", "-O2", "-shared", "-fPIC", "-o", library, text], check=True
    )
    return ctypes.CDLL(str(Path(library)))


def pointers(*arrays: np.ndarray) -> list[ctypes.c_void_p]:
    return [ctypes.c_void_p(array.ctypes.data) for array in arrays]


@pytest.mark.parametrize("code", range(5))
def test_the_kernel_s_activations_are_the_definition(kernels: ctypes.CDLL, code: int) -> None:
    rng = np.random.default_rng(code)
    scales = np.repeat([0.01, 0.5, 3.0, 30.0], 2000)
    P = np.rint(rng.normal(size=8000) * scales * 2**36) / 2**36
    X, S = np.zeros((1, 8000)), P[None].copy()
    units = pointers(np.zeros(1), np.ones(1), np.array([code], dtype=np.uint8))
    kernels.step_lanes(*pointers(X, S), *units, 1, 8000, 8000, 8000)
    np.testing.assert_array_equal(S[0], activate(code, torch.from_numpy(P), DIGITS).numpy())


def test_a_step_adds_the_bias_and_leaks(kernels: ctypes.CDLL) -> None:
    rng = np.random.default_rng(1)
    X, S, bias = (
        np.rint(rng.normal(size=shape) * 2**18) / 2**DIGITS for shape in ((3, 5), (3, 4, 5), (3,))
    )
    a, code = np.array([0.25, 0.5, 1.0]), np.array([0, 3, 1], dtype=np.uint8)
    p = torch.from_numpy(S[:, 0] + bias[:, None])
    y = np.stack([activate(int(c), p[i], DIGITS).numpy() for i, c in enumerate(code)])
    wanted = np.rint(((1 - a[:, None]) * X + a[:, None] * y) * 2**DIGITS) / 2**DIGITS
    other = S[:, 1:].copy()
    kernels.step_lanes(*pointers(X, S, bias, a, code), 3, 5, 5, 20)
    np.testing.assert_array_equal(S[:, 0], wanted)
    np.testing.assert_array_equal(S[:, 1:], other)


def test_a_sparse_layer_runs_as_on_the_cpu(kernels: ctypes.CDLL) -> None:
    mixed = MixedActivation(tanh=0.4, sin=0.3, sigmoid=0.2, relu=0.1)
    recipe = Reservoir(units=40, inputs=2, leak_rate=0.3, activation=mixed, seed=3, bits=DIGITS)
    (program,) = recipe.programs()
    assert isinstance(program, Program)
    T, B = 30, 8
    u = np.rint(np.random.default_rng(0).normal(size=(2, T, B)) * 2**DIGITS) / 2**DIGITS
    X, S = np.zeros((40, B)), np.empty((40, T, B))
    arrays = (
        program.starts,
        program.columns.astype(np.int32),
        program.values,
        program.leak,
        program.activation,
        u,
        X,
        S,
    )
    kernels.run_lanes(*pointers(*arrays), 40, 2, T, B)
    lanes = [np.ascontiguousarray(u[:, :, b].T) for b in range(B)]
    rows = np.concatenate([block.rows.copy() for block in advance([program], lanes)], axis=1)
    np.testing.assert_array_equal(S, rows[3:])
    np.testing.assert_array_equal(X, rows[3:, -1])


@pytest.mark.parametrize(("n_rows", "n_lanes"), [(10, 5), (200, 300), (2000, 10**6), (10**6, 4)])
def test_a_block_s_lanes_fit(n_rows: int, n_lanes: int) -> None:
    lanes = lanes_of_a_block(n_rows, n_lanes, 100_000)
    assert 2 * n_rows * lanes * 8 <= 100_000
