"""WESAD: tiny pickles as published, and forged ones."""

from __future__ import annotations

import os
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from catchment.data import Recording
from catchment.errors import IntegrityError
from reproductions.places import load

WIDTHS = {"ACC": 3, "ECG": 1, "EMG": 1, "EDA": 1, "Temp": 1, "Resp": 1}


def subject(name: str, label: list[int], seed: int = 0) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    chest = {key: rng.normal(size=(len(label), width)) for key, width in WIDTHS.items()}
    chest["Temp"] = chest["Temp"].astype(np.float32)
    wrist = {"BVP": rng.normal(size=(3, 1))}
    return {
        "signal": {"chest": chest, "wrist": wrist},
        "label": np.array(label, dtype=np.int32),
        "subject": name,
    }


def write(root: Path, name: str, content: object, protocol: int = 2) -> None:
    place = root / "wesad" / "WESAD" / name
    place.mkdir(parents=True, exist_ok=True)
    (place / f"{name}.pkl").write_bytes(pickle.dumps(content, protocol=protocol))


def columns(content: dict[str, Any]) -> np.ndarray[Any, Any]:
    return np.hstack([content["signal"]["chest"][key] for key in WIDTHS])


def labels(sequences: list[Recording]) -> list[int]:
    return [int(s.y.argmax()) for s in sequences if s.y is not None]


LABEL = [0] * 5 + [1] * 1500 + [0] * 3 + [2] * 800 + [5] * 900 + [4] * 700 + [3] * 699


@pytest.mark.parametrize("protocol", [2, 4])
def test_subjects_as_published(tmp_path: Path, protocol: int) -> None:
    ten, two = subject("S10", LABEL), subject("S2", [1] * 700, seed=1)
    write(tmp_path, "S10", ten, protocol)
    write(tmp_path, "S2", two, protocol)
    data = load("wesad", directory=tmp_path)
    assert list(data.clients) == ["S2", "S10"]
    assert data.classes == ("baseline", "stress", "amusement", "meditation")
    assert data.channels[:4] == ("chest_acc_x", "chest_acc_y", "chest_acc_z", "chest_ecg")
    assert data.rate_hz == 700
    assert labels(data.clients["S10"]) == [0, 0, 1, 3]
    np.testing.assert_array_equal(data.clients["S10"][1].u, columns(ten)[705:1405])
    np.testing.assert_array_equal(data.clients["S2"][0].u, columns(two))


def test_whole(tmp_path: Path) -> None:
    write(tmp_path, "S3", subject("S3", LABEL))
    data = load("wesad", directory=tmp_path, window="whole")
    assert [s.n_steps for s in data.clients["S3"]] == [1500, 800, 700, 699]
    assert labels(data.clients["S3"]) == [0, 1, 3, 2]
    assert load("wesad", directory=tmp_path, window=1000, step=500).n_sequences == 2


class Attack:
    def __init__(self, target: Path) -> None:
        self.target = target

    def __reduce__(self) -> Any:
        return os.system, (f"touch {self.target}",)


def test_a_forged_pickle_is_not_run(tmp_path: Path) -> None:
    content = subject("S2", [1] * 10)
    content["signal"]["chest"]["ECG"] = Attack(tmp_path / "made")
    write(tmp_path, "S2", content)
    with pytest.raises(IntegrityError, match=r"S2\.pkl asks for \S+\.system"):
        load("wesad", directory=tmp_path)
    assert not (tmp_path / "made").exists()


def without(content: dict[str, Any], *path: str) -> dict[str, Any]:
    inner = content
    for key in path[:-1]:
        inner = inner[key]
    del inner[path[-1]]
    return content


def test_odd_subjects(tmp_path: Path) -> None:
    good = [1] * 10
    longer = subject("S2", good)
    longer["signal"]["chest"]["EDA"] = np.zeros((11, 1))
    table = subject("S2", good)
    table["label"] = np.zeros((10, 2))
    for content, message in (
        ([1, 2], "has no 'signal'"),
        (without(subject("S2", good), "signal"), "has no 'signal'"),
        (without(subject("S2", good), "signal", "chest", "Resp"), "has no 'resp'"),
        (without(subject("S2", good), "label"), "has no 'label'"),
        (longer, r"chest eda is not an array of shape \(10, 1\)"),
        (table, "labels are not one column"),
    ):
        write(tmp_path, "S2", content)
        with pytest.raises(IntegrityError, match=message):
            load("wesad", directory=tmp_path)
