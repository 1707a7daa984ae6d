"""Feature rows written down: in float64 they stay to 1e-12, in fixed point bit for bit.

Run as a program, this file writes the record anew; no test does.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from catchment import Array, EchoState, LogUniform, MixedActivation, Recording
from catchment.readout import accumulate

pytestmark = pytest.mark.processor

FILE = Path(__file__).with_name("recorded_rows.json")
RECORD: dict[str, dict[str, Any]] = json.loads(FILE.read_text("utf-8")) if FILE.exists() else {}
LENGTHS = (300, 41, 120)
POOLS = ("last", "mean", "mean_std", "max")

MAPS: dict[str, dict[str, Any]] = {
    "sparse": {"units": 40},
    "one leak": {"units": 30, "leak_rate": 0.3, "topology": "ring", "bias": True},
    "dense": {"units": 24, "density": 0.6, "spectral_radius": 0.8},
    "deep": {"units": (20, 15), "washout": 5, "activation": ("tanh", "sigmoid")},
    "mixed": {
        "units": 36,
        "activation": MixedActivation(tanh=0.4, relu=0.2, sin=0.2, identity=0.2),
        "leak_rate": LogUniform(0.05, 1.0),
        "spectral_radius": 0.6,
    },
}


def inputs(n: int, first: int) -> Array:
    """Return inputs (n, 2) in [-1, 1] from integers, the same on every machine."""
    t, k = np.arange(first, first + n)[:, None], np.arange(2)
    return ((t * t * 7 + t * (11 + 6 * k) + 29 * k) % 101) / 50.0 - 1.0


def found(name: str, *, bits: bool) -> dict[str, Any]:
    """Return some rows, and a part of the statistics, of one map in float64 or in fixed point."""
    us = [inputs(n, 100 * k) for k, n in enumerate(LENGTHS)]
    grid: dict[str, Any] = {} if bits else {"bits": None, "feature_bits": None}
    values: dict[str, Any] = {}
    pools: tuple[Any, ...] = (None, *POOLS)
    for pool in pools:
        built = EchoState(
            seed=3, pool=pool, segments=1 if pool is None else 2, **MAPS[name], **grid
        ).build(2, per_step=pool is None)
        every = 97 if pool is None else 1
        values[str(pool)] = [row for one in built.rows(us) for row in one[::every].tolist()]
    per_step = EchoState(seed=3, pool=None, **MAPS[name], **grid).build(2, per_step=True)
    sums = accumulate(per_step, [Recording(u, u[:, :1]) for u in us])
    values["gram"] = sums.gram[::97].tolist()
    values["cross"] = sums.cross.ravel().tolist()
    return values


@pytest.mark.parametrize("name", MAPS)
def test_float64_rows_stay_to_a_trillionth(name: str) -> None:
    rows, kept = found(name, bits=False), RECORD[name]["float64"]
    assert list(rows) == list(kept)
    for part, values in rows.items():
        expected = np.array(kept[part])
        atol = 1e-12 * np.abs(expected).max()
        np.testing.assert_allclose(values, expected, rtol=1e-12, atol=atol, err_msg=part)


@pytest.mark.parametrize("name", MAPS)
def test_fixed_point_rows_stay_bit_for_bit(name: str) -> None:
    assert digests(name) == RECORD[name]["fixed point"]


def digests(name: str) -> dict[str, str]:
    """Return the SHA-256 of each part in fixed point."""
    return {
        part: hashlib.sha256(json.dumps(values).encode()).hexdigest()
        for part, values in found(name, bits=True).items()
    }


if __name__ == "__main__":
    record = {
        name: {"float64": found(name, bits=False), "fixed point": digests(name)} for name in MAPS
    }
    FILE.write_text(json.dumps(record) + "\n", encoding="utf-8")
