"""MotionSense and WISDM: tiny files as published."""

from __future__ import annotations

from pathlib import Path

import pytest

from catchment.data import Recording
from catchment.errors import IntegrityError
from catchment_lab.datasets import load

HEADER = (
    ',"attitude.roll","attitude.pitch","attitude.yaw","gravity.x","gravity.y","gravity.z",'
    '"rotationRate.x","rotationRate.y","rotationRate.z",'
    '"userAcceleration.x","userAcceleration.y","userAcceleration.z"'
)


def labels(sequences: list[Recording]) -> list[int]:
    return [int(s.y.argmax()) for s in sequences if s.y is not None]


def motion_file(root: Path, name: str, n_steps: int, *, header: str = HEADER) -> None:
    """Write a recording whose columns count 0, 100, 200, ... plus the step."""
    path = root / "motionsense" / "A_DeviceMotion_data" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = [f"{t}," + ",".join(f"{100 * k + t}.5" for k in range(12)) for t in range(n_steps)]
    path.write_text("\n".join([header, *rows, ""]))


def test_motionsense_as_published(tmp_path: Path) -> None:
    for name, n_steps in (
        ("wlk_7/sub_10.csv", 300),
        ("wlk_7/sub_2.csv", 130),
        ("dws_11/sub_2.csv", 256),
        ("jog_9/sub_2.csv", 127),
    ):
        motion_file(tmp_path, name, n_steps)
    data = load("motionsense", directory=tmp_path)
    assert {name: len(part) for name, part in data.clients.items()} == {
        "subject-02": 3,
        "subject-10": 2,
    }
    labels = [
        data.classes[int(s.y.argmax())] for s in data.clients["subject-02"] if s.y is not None
    ]
    assert labels == ["downstairs", "downstairs", "walking"]
    assert data.test_positions == {"subject-02": (0, 1)}
    # Acceleration, rotation, gravity: the file has them the other way round.
    first = data.clients["subject-10"][1].u[0]
    assert first.tolist() == [128.5 + 100 * k for k in (9, 10, 11, 6, 7, 8, 3, 4, 5)]


def test_motionsense_windows(tmp_path: Path) -> None:
    motion_file(tmp_path, "std_6/sub_1.csv", 50)
    whole = load("motionsense", directory=tmp_path, window="whole").clients["subject-01"]
    assert [s.n_steps for s in whole] == [50]
    cut = load("motionsense", directory=tmp_path, window=20, step=15).clients["subject-01"]
    assert [s.u[0, 0] for s in cut] == [900.5, 915.5, 930.5]


def test_motionsense_odd_files(tmp_path: Path) -> None:
    motion_file(tmp_path, "std_6/sub_1.csv", 5, header=HEADER.replace("gravity.y", "gravity"))
    with pytest.raises(IntegrityError, match=r"sub_1\.csv has no column gravity\.y"):
        load("motionsense", directory=tmp_path)
    motion_file(tmp_path, "std_6/sub_1.csv", 0)
    with pytest.raises(IntegrityError, match=r"sub_1\.csv is empty"):
        load("motionsense", directory=tmp_path)
    motion_file(tmp_path, "fly_6/sub_1.csv", 5)
    with pytest.raises(IntegrityError, match=r"fly_6/sub_1\.csv is not named like"):
        load("motionsense", directory=tmp_path)


def wisdm_file(root: Path, subject: int, codes: str, *, each: int, end: str = ";\n") -> Path:
    path = root / "wisdm_watch" / "wisdm-dataset" / "raw" / "watch" / "accel"
    path.mkdir(parents=True, exist_ok=True)
    lines = [
        f"{subject},{code},{90426708196641 + 50 * t},{k}.25,{t},-{t}.5{end}"
        for k, code in enumerate(codes)
        for t in range(each)
    ]
    path = path / f"data_{subject}_accel_watch.txt"
    path.write_text("".join(lines))
    return path


def test_wisdm_as_published(tmp_path: Path) -> None:
    wisdm_file(tmp_path, 1600, "ABGM", each=5)
    wisdm_file(tmp_path, 1629, "AAC", each=5, end=";\r\n\n")
    data = load("wisdm_watch", directory=tmp_path, window="whole")
    found = {
        name: [(s.n_steps, data.classes[k]) for s, k in zip(part, labels(part), strict=True)]
        for name, part in data.clients.items()
    }
    assert found == {
        "1600": [(5, "walking"), (5, "jogging"), (5, "kicking_soccer_ball")],
        "1629": [(10, "walking"), (5, "climbing_stairs")],
    }
    assert data.clients["1600"][2].u[4].tolist() == [3.25, 4.0, -4.5]
    assert load("wisdm_watch", directory=tmp_path, window=2).n_sequences == 3 * 2 + 5 + 2
    typed = load("wisdm_watch", directory=tmp_path, window="whole", activities="GA")
    assert typed.classes == ("brushing_teeth", "walking")
    assert labels(typed.clients["1600"]) == [1, 0]


def test_wisdm_odd_input(tmp_path: Path) -> None:
    path = wisdm_file(tmp_path, 1600, "A", each=3)
    for activities in ("", "AA", "AZ", "N"):
        with pytest.raises(ValueError, match="activities are"):
            load("wisdm_watch", directory=tmp_path, activities=activities)
    path.write_text(path.read_text() + "1600,A\n")
    with pytest.raises(IntegrityError, match="not subject,code,timestamp,x,y,z;"):
        load("wisdm_watch", directory=tmp_path)
    path.write_text("1600,A,1,2.0,3.0;\n")
    with pytest.raises(IntegrityError, match="lines 1 to 1, is not a table of numbers"):
        load("wisdm_watch", directory=tmp_path)
