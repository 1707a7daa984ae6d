"""One SHA-256 of states and features whatever the processor that code is made for."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import hashlib
import numpy as np
from catchment import Reservoir
from catchment.features import EchoState

def whole(shape, below):
    k = np.arange(np.prod(shape), dtype=np.int64) + 17
    return (k * k * 7919 % 100003 % (2 * below + 1) - below).reshape(shape)

us = [np.ldexp(whole((T, 2), 2048 + T), -10) for T in (300, 40, 41, 70, 42, 43, 50, 90, 44)]
sha = hashlib.sha256()
for N, names in ((320, "tanh"), (24, ["tanh", "sin", "sigmoid", "relu"] * 6)):
    W = np.ldexp(whole((N, N), 99), -11) * (whole((N, N), 1) == 0)
    W_in = np.ldexp(whole((N, 2), 9), -4)
    network = Reservoir.from_matrices(
        W, W_in, leak_rate=0.3, activation=names, bits=20, cut=(128, 64)
    )
    for settings in ({}, {"pool": "mean_std"}):
        features = EchoState.of(network, feature_bits=8, **settings)
        for z in [*features.rows(us), features(us[0]), *network.run(us)]:
            sha.update(z.tobytes())
print(sha.hexdigest())
"""

# Products of matrices, and nothing of ours: numpy 2.5 ends them, not always, by a segmentation
# fault where the variable asks for Haswell's kernels on a processor with AVX-512, and nothing can
# be tested then. An emulated Haswell, which takes these kernels by itself, multiplies.
PRODUCTS = """
import numpy as np
for columns in (8, 16):
    A, X = np.ones((320, 323)), np.ones((323, columns))
    for _ in range(3):
        A @ X
"""

# Found once on an x86 processor; no machine may find anything else.
EXPECTED = "2759e454ae7cf4ab94b81574e489a8d0b707441627727cd285a133a0d11cb863"


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"NUMBA_CPU_NAME": "generic", "NUMBA_CPU_FEATURES": "", "OPENBLAS_CORETYPE": "Prescott"},
        {"OPENBLAS_CORETYPE": "Haswell", "OPENBLAS_NUM_THREADS": "1"},
        {"OPENBLAS_CORETYPE": "Sandybridge", "OPENBLAS_NUM_THREADS": "4"},
        {"OPENBLAS_CORETYPE": "SkylakeX", "OPENBLAS_NUM_THREADS": "2"},
    ],
    ids=lambda settings: " ".join(settings.values()) or "as it is",
)
def test_states_and_features_have_one_hash(settings: dict[str, str]) -> None:
    if settings.get("OPENBLAS_CORETYPE") == "SkylakeX" and not _has_avx512():
        pytest.skip("this processor has no AVX-512")
    ran = _run(PROGRAM, settings)
    if ran.returncode < 0 and any(_run(PRODUCTS, settings).returncode < 0 for _ in range(20)):
        pytest.skip("numpy's own products of matrices end by a signal with these kernels")
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.strip() == EXPECTED


def _run(program: str, settings: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", program], env=os.environ | settings, capture_output=True, text=True
    )


def _has_avx512() -> bool:
    about = Path("/proc/cpuinfo")
    return about.exists() and "avx512f" in about.read_text("utf-8")
