"""The benchmark of very many clients: the same values everywhere, and a run of a small lake."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("pyarrow")

from benchmarks import million, million_data


def test_values_are_those_of_every_machine() -> None:
    held = million_data.values(np.arange(40), seed=0)
    assert million_data.digest(held)[:16] == "0f3d911442fdf3f6"
    assert set(np.unique(held["label"])) == {0, 1, 2, 3}
    assert np.abs(held["x"]).max() < 2


def test_a_client_is_the_same_whoever_is_made_with_it() -> None:
    every = million_data.values(np.arange(300), seed=0)
    alone = million_data.values(np.array([123]), seed=0)
    for name in ("x", "y", "label"):
        np.testing.assert_array_equal(every[name][every["client"] == 123], alone[name])


def test_a_small_lake_runs_from_end_to_end(tmp_path: Path) -> None:
    about = million_data.make(tmp_path / "lake", 40, workers=1)
    assert about["rows"] == million_data.lengths(np.arange(40), 0).sum()
    assert million_data.make(tmp_path / "lake", 40) == about  # nothing is made twice
    found = million.run_one(tmp_path / "lake", 40, 1, tmp_path, "processes")
    again = million.run_one(tmp_path / "lake", 40, 1, tmp_path / "again", "processes")
    assert found["sha256 of the sum"] == again["sha256 of the sum"]
    assert found["sha256 of the model"] == again["sha256 of the model"]
    path = tmp_path / "million.json"
    for seconds in (3.0, 2.0):
        row = {"engine": "processes", "workers": 1, "seconds": seconds}
        million.merged(path, 40, about, [row])
    (kept,) = json.loads(path.read_text())["runs"]
    assert kept["seconds"] == 2.0
