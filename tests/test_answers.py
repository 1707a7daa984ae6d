"""The scripts of docs/answers, each at a tiny size."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.answers import many_files, ridge_by_averaging, simulation_memory


def written(folder: Path, name: str) -> Any:
    return json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))


@pytest.mark.filterwarnings("ignore")
def test_sums_beyond_the_range_are_exact_or_refused(tmp_path: Path) -> None:
    pytest.importorskip("flwr")
    from benchmarks.answers import secure_aggregation

    secure_aggregation.main(["--many", "12", "--out", str(tmp_path)])
    found = written(tmp_path, "answers_secagg")
    cases = {row["case"]: row for row in found["cases"]}
    assert all(row["sum exact to the bit"] for row in cases.values())
    np.testing.assert_allclose(cases["all within the range"]["flower"], [0.1, 2.0, 7.9], atol=1e-4)
    assert cases["numbers above 8"]["flower"][2] == 8.0
    assert not cases["numbers above 8"]["flower warns"]
    assert cases["clipping_range=-8"]["flower"] == [-8.0, -8.0, -8.0]
    assert cases["3 000 examples a client"]["flower warns"]
    assert "nothing was released" in found["refused"]


def test_sums_give_the_pooled_ridge_and_means_do_not(tmp_path: Path) -> None:
    ridge_by_averaging.main(["--rounds", "1", "3", "--out", str(tmp_path)])
    found = written(tmp_path, "answers_ridge")
    for problem in ("digits", "diabetes"):
        far = {(r["method"], r["rounds"]): r["distance"] for r in found[problem]["methods"]}
        assert far["sums, catchment", 1] < 1e-10
        assert far["averaged coefficients", 1] > 0.1
        assert far["FedAvg", 3] > 0.1


@pytest.mark.parametrize(
    "runners",
    [["catchment", "loop"], pytest.param(["catchment", "flower"], marks=pytest.mark.long)],
)
def test_simulations_are_measured_and_agree(tmp_path: Path, runners: Sequence[str]) -> None:
    if "flower" in runners:
        pytest.importorskip("flwr")
        pytest.importorskip("ray")
    arguments = ["--clients", "6", "--runners", *runners, "--out", str(tmp_path)]
    simulation_memory.main(arguments)
    first, second = written(tmp_path, "answers_memory")["runs"]
    assert first["finished"]
    assert second["finished"]
    assert first["peak MiB"] > 20
    assert first["processes"] == 1
    np.testing.assert_allclose(first["gram"], second["gram"], rtol=1e-9)


def test_a_folder_is_learnt_file_by_file(tmp_path: Path) -> None:
    many_files.main(["--files", "2", "--windows", "40", "--out", str(tmp_path)])
    (row,) = written(tmp_path, "answers_files")["runs"]
    assert row["finished"]
    assert (row["files"], row["windows"]) == (2, 80)
    assert row["accuracy"] > 0.4  # four classes
