"""The source of a diagonal reservoir's CUDA kernel, compiled for the CPU: a thread for each."""

from __future__ import annotations

import ctypes
import hashlib
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
from catchment_gpu.diagonal import Lanes, Units, cuda_steps
from catchment_gpu.diagonal import steps as torch_steps

COMPILER = shutil.which("g++") or shutil.which("clang++")
pytestmark = pytest.mark.skipif(
    COMPILER is None or sys.platform != "linux", reason="needs a C++ compiler and POSIX barriers"
)

HEAD = """
#include <math.h>
#include <pthread.h>
static int min(int a, int b) { return a < b ? a : b; }
#define __global__
#define __device__
#define __forceinline__ inline
#define __restrict__
#define __launch_bounds__(n)
struct Place { int x; };
static thread_local Place threadIdx, blockIdx, blockDim, gridDim;
static double memory[1 << 13];
static pthread_barrier_t whole, warps[16];
static void __syncthreads() { pthread_barrier_wait(&whole); }
static void __syncwarp() { pthread_barrier_wait(&warps[threadIdx.x / 32]); }
static bool differs;
static bool __syncthreads_and(bool same) {
  __syncthreads();
  differs = false;
  __syncthreads();
  if (!same) differs = true;
  __syncthreads();
  return !differs;
}
static double __dadd_rn(double a, double b) { return a + b; }
static double __dsub_rn(double a, double b) { return a - b; }
static double __dmul_rn(double a, double b) { return a * b; }
"""

TAIL = """
static struct {
  const double *u;
  const long long *begin, *length, *column;
  const double *W, *values;
  const int *factors, *mixed;
  const double *M, *leaks;
  double *state, *out;
  int sizes[8], blocks, threads, block;
} g;

static void* one_thread(void* number) {
  threadIdx.x = (int)(long long)number;
  blockIdx.x = g.block;
  blockDim.x = g.threads;
  gridDim.x = g.blocks;
  int* n = g.sizes;
  run_lanes(g.u, g.begin, g.length, g.column, g.W, g.values, g.factors, g.mixed, g.M, g.leaks,
            g.state, g.out, n[0], n[1], n[2], n[3], n[4], n[5], n[6], n[7]);
  return 0;
}

extern "C" void all_blocks(int blocks, int threads, void** given, const int* sizes) {
  for (int n = 0; n < 12; n++) ((void**)&g)[n] = given[n];
  for (int n = 0; n < 8; n++) g.sizes[n] = sizes[n];
  g.blocks = blocks;
  g.threads = threads;
  for (g.block = 0; g.block < blocks; g.block++) {
    pthread_t all[512];
    pthread_barrier_init(&whole, 0, threads);
    for (int w = 0; w < threads / 32; w++) pthread_barrier_init(&warps[w], 0, 32);
    for (long long t = 0; t < threads; t++) pthread_create(&all[t], 0, one_thread, (void*)t);
    for (int t = 0; t < threads; t++) pthread_join(all[t], 0);
  }
}
"""


def on_the_cpu(folder: Path) -> Callable[..., Any]:
    """Return what stands for a compiled kernel: the same source, run by threads."""

    def kernel(source: str, name: str, device: int) -> Any:
        called = hashlib.sha256(source.encode()).hexdigest()
        text, library = (folder / f"{called}{end}" for end in (".cpp", ".so"))
        if not library.exists():
            source = source.replace("extern __shared__ double memory[];", "")
            text.write_text(HEAD + source + TAIL)
            flags = ["-std=c++17", "-O0", "-ffp-contract=off", "-shared", "-fPIC", "-pthread"]
            assert COMPILER is not None
            subprocess.run([COMPILER, *flags, "-w", "-o", library, text], check=True)
        made = ctypes.CDLL(str(library))

        def launch(grid: Any, block: Any, given: list[Any], shared: int) -> None:
            assert shared <= 8 << 13
            tensors = [one for one in given if isinstance(one, torch.Tensor)]
            places = (ctypes.c_void_p * len(tensors))(*(one.data_ptr() for one in tensors))
            sizes = (ctypes.c_int * 8)(*given[len(tensors) :])
            made.all_blocks(grid[0], block[0], places, sizes)

        return launch

    return kernel


def inputs(n_steps: int, channels: int) -> torch.Tensor:
    """Return inputs on their grid, within its limits."""
    drawn = np.random.default_rng(1).normal(size=(n_steps, channels)).clip(-2.5, 2.5) * 3
    return torch.from_numpy(np.rint(drawn * 2**24) / 2**24)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("kernels")


@pytest.fixture
def kernels(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda_steps, "kernel", on_the_cpu(folder))
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
    units = Units.of(made.wiring, torch.device("cpu"))  # type: ignore[attr-defined]
    u = inputs(90, channels)
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


@pytest.mark.parametrize("most", [512, 64])
def test_it_walks_on_until_states_meet(
    kernels: None, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cuda_steps, "MOST_THREADS", most)
    made = DiagonalReservoir(40, memory=(0.1, 0.5), leak_rate=(0.9, 1.0)).build(1, per_step=True)
    units = Units.of(made.wiring, torch.device("cpu"))  # type: ignore[attr-defined]
    u = inputs(99, 1)
    lanes = Lanes(np.arange(0, 99, 11), np.full(9, 11))
    right = u.new_zeros((units.n_state, 9))
    torch_steps.walk(
        units, u, lanes, (np.array([0]), np.array([9])), right, torch.zeros_like(right)
    )
    known = right.clone()
    known[:, [1, 2, 3, 6]] += 1.0  # wrong, and after them is a right one, or the stop
    found = []
    for steps in (torch_steps, cuda_steps):
        state, after = known.clone(), torch.full_like(known, 9.0)
        steps.walk(units, u, lanes, (np.array([0, 5]), np.array([5, 7])), state, after)
        found.append((state, after))
    assert torch.equal(found[0][0], right)
    assert (found[0][1] == 9.0).all(0).nonzero().flatten().tolist() == [4, 7, 8]
    for mine, theirs in zip(*found, strict=True):
        assert torch.equal(mine, theirs)


def test_reservoirs_that_are_too_large_are_left_to_torch() -> None:
    def units(channels: int, n_units: int) -> Units:
        made = DiagonalReservoir(n_units).build(channels, per_step=True)
        return Units.of(made.wiring, torch.device("cpu"))  # type: ignore[attr-defined]

    assert cuda_steps.shape_of_block(units(1, 200)) == (32, 224, 1)
    assert cuda_steps.fits(units(1, 3000))
    assert not cuda_steps.fits(units(1, 5000))
    assert not cuda_steps.fits(units(300, 200))
