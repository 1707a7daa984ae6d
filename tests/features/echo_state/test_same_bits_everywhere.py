"""One SHA-256 of states and features whatever the processor that code is made for."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

PROGRAM = """
import hashlib
import numpy as np
from catchment import Reservoir
from catchment.features import EchoStateMap

rng = np.random.default_rng(0)
us = [np.ldexp(rng.integers(-2048, 2048, (T, 2)), -10) for T in (300, 40, 40, 70, 40, 40, 50, 90, 40)]
sha = hashlib.sha256()
for N, density, names in ((320, 0.5, "tanh"), (24, 0.4, ["tanh", "sin", "sigmoid", "relu"] * 6)):
    W = np.ldexp(rng.integers(-99, 99, (N, N)), -11) * (rng.random((N, N)) < density)
    network = Reservoir.from_matrices(
        W, np.ldexp(rng.integers(-9, 9, (N, 2)), -4), leak_rate=0.3, activation=names, grid=20,
        cut=(128, 64),
    )
    for settings in ({}, {"pool": "mean_std"}):
        features = EchoStateMap(network, feature_grid=8, **settings)
        for z in [*features.rows(us), features(us[0]), *network.run(us)]:
            sha.update(z.tobytes())
print(sha.hexdigest())
"""

# Found once on an x86 processor; no machine may find anything else.
EXPECTED = "to be recorded"


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
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env=os.environ | settings,
        capture_output=True,
        text=True,
        check=True,
    )
    assert ran.stdout.strip() == EXPECTED


def _has_avx512() -> bool:
    try:
        with open("/proc/cpuinfo", encoding="ascii") as file:
            return "avx512f" in file.read()
    except OSError:
        return False
