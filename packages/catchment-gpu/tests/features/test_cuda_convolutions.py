"""The source of the CUDA kernels of random convolutions, compiled for the CPU, one thread a block.

A warp of one thread adds nothing from its neighbors.
"""

from __future__ import annotations

import ctypes
import shutil
import subprocess

import numpy as np
import pytest

pytest.importorskip("torch", reason="needs torch")

import torch

from catchment import Hydra, MiniRocket
from catchment.features import hydra
from catchment.features.minirocket import _schedule
from catchment_gpu import competitions, counts_above, cuda_text, packed_features

COMPILER = shutil.which("g++") or shutil.which("clang++")
pytestmark = pytest.mark.skipif(COMPILER is None, reason="needs a C++ compiler")
HEAD = """
#define __global__
#define __device__
#define __shared__
#define __forceinline__ inline
#define __launch_bounds__(n)
#define __syncthreads()
#define __shfl_down_sync(mask, value, k) 0
struct Place { int x; };
static Place threadIdx = {0}, blockIdx = {0}, blockDim = {1}, gridDim = {1};
template <typename T> static void atomicAdd(T* at, T value) { *at += value; }
int memory[1 << 12];
"""


@pytest.fixture(scope="module")
def kernels(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    folder = tmp_path_factory.mktemp("kernels")
    text, library = folder / "kernels.cpp", folder / "kernels.so"
    text.write_text(HEAD + cuda_text("convolutions.cu"))
    assert COMPILER is not None
    flags = ["-std=c++17", "-O1", "-shared", "-fPIC", "-Wno-unknown-pragmas"]
    subprocess.run([COMPILER, *flags, "-o", library, text], check=True)
    return ctypes.CDLL(str(library))


def pointers(*arrays: np.ndarray) -> list[ctypes.c_void_p]:
    return [ctypes.c_void_p(array.ctypes.data) for array in arrays]


def whole(shape: tuple[int, ...], size: int) -> np.ndarray:
    return np.random.default_rng(3).integers(-size, size + 1, shape).astype(np.int32)


@pytest.mark.parametrize("in_shared", [0, 1])
@pytest.mark.parametrize(("T", "I"), [(1, 1), (9, 1), (70, 3), (33, 12)])
def test_minirocket_s_counts(kernels: ctypes.CDLL, T: int, I: int, in_shared: int) -> None:
    schedule = _schedule(MiniRocket(150, seed=2, bits=8, n_inputs=I), T, I)
    x, scratch = whole((5, I, T), 2**18), np.empty(T, dtype=np.int32)
    tables = [a.astype(np.int32) for a in (schedule.groups, schedule.channels)]
    tables.append(packed_features(schedule))
    out = np.zeros((5, 150), dtype=np.int32)
    arrays = pointers(x, scratch, *tables, out)
    kernels.count_above(*arrays, 5, I, T, len(tables[0]) - 1, 150, in_shared)
    np.testing.assert_array_equal(out, counts_above(torch.from_numpy(x), schedule).numpy())


@pytest.mark.parametrize("in_shared", [0, 1])
@pytest.mark.parametrize(("T", "I"), [(1, 1), (9, 1), (70, 3), (33, 12)])
def test_hydra_s_competitions(kernels: ctypes.CDLL, T: int, I: int, in_shared: int) -> None:
    settings = Hydra(100, seed=4)
    groups = hydra.group_list(settings.n_groups, T, T)
    channels = hydra.group_channels(settings.n_groups, 4, I)
    W = hydra.weights(settings.n_groups, 4)
    x, scratch = whole((5, I, T), 2**9), np.empty(T, dtype=np.int32)
    x[0] = 0  # all responses are equal
    tables = [a.astype(np.int32) for a in (groups, channels, W)]
    out = np.zeros((5, settings.n_groups, 2, 8), dtype=np.int64)
    arrays = pointers(x, scratch, *tables, out)
    kernels.compete(*arrays, 5, I, T, settings.n_groups, channels.shape[1], in_shared)
    expected = competitions(torch.from_numpy(x), groups, channels, W)
    np.testing.assert_array_equal(out, expected.numpy())
