"""HHAR: tiny files as published."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from catchment.data import Recording
from catchment.errors import IntegrityError
from catchment_lab.datasets import load

HEADER = "Index,Arrival_Time,Creation_Time,x,y,z,User,Model,Device,gt\n"
START = 1_424_696_631_913_248_572
STEP = 5_000_000


def readings(
    n: int,
    *,
    user: str = "a",
    device: str = "nexus4_1",
    gt: str = "walk",
    start: int = START,
    slope: float = 1.0,
) -> list[str]:
    """Readings every 5 ms whose x, y, z are straight lines over time, in seconds from START."""
    model = device.partition("_")[0]
    lines = []
    for k in range(n):
        time = start + k * STEP
        x = slope * (time - START) / 1e9
        lines.append(
            f"{k},{time // 1_000_000},{time},{x},{2 * x},{-x},{user},{model},{device},{gt}\n"
        )
    return lines


def labels(sequences: list[Recording]) -> list[int]:
    return [int(s.y.argmax()) for s in sequences if s.y is not None]


def write(root: Path, acc: list[str], gyro: list[str] | None = None) -> None:
    place = root / "hhar" / "Activity recognition exp"
    place.mkdir(parents=True, exist_ok=True)
    (place / "Phones_accelerometer.csv").write_text(HEADER + "".join(acc))
    if gyro is not None:
        (place / "Phones_gyroscope.csv").write_text(HEADER + "".join(gyro))


def test_nexus_4_with_six_channels(tmp_path: Path) -> None:
    acc = readings(810) + readings(450, user="b", gt="sit") + readings(500, device="s3_1")
    # The gyroscope samples 2 ms later, starts earlier and ends later.
    gyro = [
        line
        for user in "ab"
        for line in readings(820, user=user, start=START - 5 * STEP + 2_000_000, slope=10.0)
    ]
    write(tmp_path, acc, gyro)
    data = load("hhar", directory=tmp_path)
    assert data.channels == ("acc_x", "acc_y", "acc_z", "gyro_x", "gyro_y", "gyro_z")
    assert data.rate_hz == 200
    assert {name: len(part) for name, part in data.clients.items()} == {"a": 2, "b": 1}
    u = data.clients["a"][1].u
    assert u.shape == (400, 6)
    seconds = 0.005 * np.arange(400, 800)
    lines = np.outer(seconds, [1, 2, -1, 10, 20, -10])
    np.testing.assert_allclose(u, lines, rtol=0, atol=1e-9)
    assert labels(data.clients["b"]) == [data.classes.index("sit")]


def test_recordings_end_at_activities_pauses_and_unknown_labels(tmp_path: Path) -> None:
    acc = [
        *readings(30, gt="walk"),
        *readings(20, gt="null", start=START + 30 * STEP),
        *readings(10, gt="bike", start=START + 50 * STEP),
        *readings(40, gt="bike", start=START + 1000 * STEP),
        *readings(15, device="nexus4_2", gt="bike"),
    ]
    write(tmp_path, acc)
    data = load("hhar", directory=tmp_path, gyroscope=False, window="whole")
    assert data.channels == ("acc_x", "acc_y", "acc_z")
    assert [s.n_steps for s in data.clients["a"]] == [30, 10, 40, 15]
    assert labels(data.clients["a"]) == [5, 0, 0, 0]


def test_where_the_gyroscope_pauses_nothing_is_made_up(tmp_path: Path) -> None:
    gyro = readings(50) + readings(50, start=START + 150 * STEP)
    write(tmp_path, readings(300), gyro)
    data = load("hhar", directory=tmp_path, window="whole")
    assert [s.n_steps for s in data.clients["a"]] == [50, 50]
    assert [s.u[0, 3] for s in data.clients["a"]] == [0.0, 0.75]


def test_readings_out_of_order_are_sorted_by_the_sensors_clock(tmp_path: Path) -> None:
    lines = readings(20)
    write(tmp_path, lines[10:] + lines[:10])
    (sequence,) = load("hhar", directory=tmp_path, gyroscope=False, window="whole").clients["a"]
    np.testing.assert_allclose(sequence.u[:, 0], 0.005 * np.arange(20))


def test_another_model(tmp_path: Path) -> None:
    write(tmp_path, readings(5) + readings(7, device="s3mini_2"), readings(5))
    data = load("hhar", directory=tmp_path, model="s3mini", gyroscope=False, window="whole")
    assert [s.n_steps for s in data.clients["a"]] == [7]
    assert data.rate_hz == 100
    with pytest.raises(IntegrityError, match=r"gyroscope\.csv has no readings of s3mini"):
        load("hhar", directory=tmp_path, model="s3mini")
    with pytest.raises(ValueError, match="model is 'iphone'; choose from nexus4"):
        load("hhar", directory=tmp_path, model="iphone")


def test_odd_files(tmp_path: Path) -> None:
    write(tmp_path, readings(3))
    with pytest.raises(IntegrityError, match=r"has no Phones_gyroscope\.csv"):
        load("hhar", directory=tmp_path)
    for bad in ("0,1,2,x,1,1,a,nexus4,nexus4_1,walk\n", "0,nexus4,1\n", readings(1, gt="fly")[0]):
        write(tmp_path, [*readings(3), bad])
        with pytest.raises(IntegrityError, match=r"accelerometer\.csv, line 5, is not a reading"):
            load("hhar", directory=tmp_path, gyroscope=False)
    (tmp_path / "hhar" / "Activity recognition exp" / "Phones_accelerometer.csv").write_text(
        "x,y\n"
    )
    with pytest.raises(IntegrityError, match="does not begin with Index,Arrival_Time"):
        load("hhar", directory=tmp_path, gyroscope=False)
