"""The source of a diagonal reservoir's CUDA kernel, compiled for the CPU: a thread for each."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import sys
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch", reason="needs torch")

import torch

from catchment import DiagonalReservoir
from catchment.features.diagonal import cuda_steps, torch_steps
from catchment.features.diagonal.torch_steps import Lanes, Units

COMPILER = shutil.which("g++") or shutil.which("clang++")
pytestmark = pytest.mark.skipif(
    COMPILER is None or sys.platform != "linux", reason="needs a C++ compiler and POSIX barriers"
)

HEAD = """
#include <pthread.h>
#include <algorithm>
#include <cmath>
#include <thread>
#include <vector>
using std::fmax; using std::fmin; using std::min;
#define __global__
#define __device__
#define __forceinline__ inline
#define __restrict__
#define __launch_bounds__(n)
struct Place { int x; };
static thread_local Place threadIdx, blockIdx, blockDim;
static double memory[1 << 13];
static pthread_barrier_t whole, warps[16];
static void __syncthreads() { pthread_barrier_wait(&whole); }
static void __syncwarp() { pthread_barrier_wait(&warps[threadIdx.x / 32]); }
static double __dadd_rn(double a, double b) { return a + b; }
static double __dsub_rn(double a, double b) { return a - b; }
static double __dmul_rn(double a, double b) { return a * b; }
"""

TAIL = """
typedef double* D;
typedef const double* C;
typedef const long long* L;
typedef const int* N;
extern "C" void all_blocks(int blocks, int threads, C u, L begin, L length, L column, C W, C values,
                           N factors, N mixed, C M, C leaks, D state, D out, int I, int k, int P,
                           int Q, int B, int width, int stage, int mode_threads) {
  for (int block = 0; block < blocks; block++) {
    pthread_barrier_init(&whole, 0, threads);
    for (int w = 0; w < threads / 32; w++) pthread_barrier_init(&warps[w], 0, 32);
    std::vector<std::thread> all;
    for (int t = 0; t < threads; t++)
      all.emplace_back([=] {
        threadIdx.x = t;
        blockIdx.x = block;
        blockDim.x = threads;
        run_lanes(u, begin, length, column, W, values, factors, mixed, M, leaks, state, out, I, k,
                  P, Q, B, width, stage, mode_threads);
      });
    for (auto& one : all) one.join();
  }
}
"""


def on_the_cpu(folder: Path) -> Callable[..., Any]:
    """Return what stands for a compiled kernel: the same source, run by threads."""

    def kernel(keep: int, repeats: int, tile: int, device: int) -> Any:
        text, library = (folder / f"{keep}{repeats}{tile}{end}" for end in (".cpp", ".so"))
        if not library.exists():
            source = cuda_steps.source(keep, repeats, tile)
            source = source.replace("extern __shared__ double memory[];", "")
            text.write_text(HEAD + source + TAIL)
            flags = ["-std=c++17", "-O1", "-ffp-contract=off", "-shared", "-fPIC", "-pthread"]
            assert COMPILER is not None
            subprocess.run([COMPILER, *flags, "-w", "-o", library, text], check=True)
        made = ctypes.CDLL(str(library))

        def launch(grid: Any, block: Any, given: list[Any], shared: int) -> None:
            assert shared <= 8 << 13
            told = [
                ctypes.c_void_p(one.data_ptr()) if isinstance(one, torch.Tensor) else one
                for one in given
            ]
            made.all_blocks(grid[0], block[0], *told)

        return launch

    return kernel


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("kernels")


@pytest.fixture
def kernels(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda_steps, "_kernel", on_the_cpu(folder))
    monkeypatch.setattr(cuda_steps, "STAGED", 12)
    monkeypatch.setattr(torch.cuda, "device", lambda which: nullcontext())


@pytest.mark.parametrize("most", [512, 64])
@pytest.mark.parametrize(
    ("channels", "recipe"),
    [
        (1, {"units": 40}),
        (3, {"units": 30, "nonlinearity": "products"}),
        (2, {"units": 70, "nonlinearity": "none"}),
    ],
)
def test_it_does_what_the_torch_operations_do(
    kernels: None,
    channels: int,
    recipe: dict[str, Any],
    most: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With few threads each of them holds several units, and rows are written one by one."""
    monkeypatch.setattr(cuda_steps, "MOST_THREADS", most)
    made = DiagonalReservoir(**recipe).build(channels, per_step=True)
    units = Units.of(made.inner.wiring, torch.device("cpu"))  # type: ignore[attr-defined]
    u = torch.from_numpy(np.random.default_rng(1).normal(size=(90, channels)) * 3)
    u = torch_steps.rounded_inputs(u)
    lanes = Lanes(np.array([3, 40, 0]), np.array([30, 43, 0]))
    found = []
    for steps in (torch_steps, cuda_steps):
        state = u.new_zeros((units.n_state, 3))
        rows = u.new_zeros((units.n_base, 73))
        steps.run(units, u, lanes, state)
        steps.run(units, u, lanes, state, rows)
        moments = steps.run_moments(units, u, Lanes(lanes.begin, lanes.length + 1), state)
        found.append((state, rows, moments))
    for mine, theirs in zip(*found, strict=True):
        assert torch.equal(mine, theirs)


def test_reservoirs_that_are_too_large_are_left_to_torch() -> None:
    def units(channels: int, n_units: int) -> Units:
        made = DiagonalReservoir(n_units).build(channels, per_step=True)
        return Units.of(made.inner.wiring, torch.device("cpu"))  # type: ignore[attr-defined]

    assert cuda_steps.shape_of_block(units(1, 200)) == (32, 224, 1)
    assert cuda_steps.fits(units(1, 3000))
    assert not cuda_steps.fits(units(1, 5000))
    assert not cuda_steps.fits(units(300, 200))
