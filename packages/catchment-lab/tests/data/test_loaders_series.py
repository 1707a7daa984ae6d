"""Scalar series: tiny files as published."""

from __future__ import annotations

from pathlib import Path

import pytest

from catchment.errors import IntegrityError
from catchment_lab.datasets import load


def put(root: Path, name: str, text: str) -> Path:
    root.mkdir(parents=True, exist_ok=True)
    (root / name).write_text(text)
    return root / name


def test_laser_with_its_continuation(tmp_path: Path) -> None:
    put(tmp_path / "santafe_laser", "A.dat", "86\n141\n 95\n41\n")
    (sequence,) = load("santafe_laser", directory=tmp_path).clients["santafe_laser"]
    assert sequence.u.ravel().tolist() == [86, 141, 95]
    assert sequence.y is not None
    assert sequence.y.ravel().tolist() == [141, 95, 41]
    put(tmp_path / "santafe_laser", "A.cont", "22\n21\n")
    data = load("santafe_laser", directory=tmp_path, horizon=2)
    (sequence,) = data.clients["santafe_laser"]
    assert sequence.u.ravel().tolist() == [86, 141, 95, 41]
    assert sequence.y is not None
    assert sequence.y.ravel().tolist() == [95, 41, 22, 21]
    assert data.notes == ("from A.dat and A.cont",)
    (bare,) = load("santafe_laser", directory=tmp_path, horizon=0).clients["santafe_laser"]
    assert bare.y is None
    assert bare.n_steps == 6
    for horizon in (-1, 6):
        with pytest.raises(ValueError, match=f"horizon is {horizon}; pass 0 to 5"):
            load("santafe_laser", directory=tmp_path, horizon=horizon)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("SN_y_tot_V2.0.csv", "1700.5;   8.3; -1.0;    -1;1\n1701.5;  18.3; -1.0;    -1;1\n"),
        ("sunspots.csv", "YEAR,SUNACTIVITY\n1700,8.3\n1701,18.3\n"),
        ("sunspots.csv", '"YEAR","SUNACTIVITY"\r\n1700,8.3\r\n1701,18.3\r\n'),
    ],
)
def test_sunspots_as_published(tmp_path: Path, name: str, text: str) -> None:
    put(tmp_path / "sunspots", name, text)
    data = load("sunspots", directory=tmp_path)
    (sequence,) = data.clients["sunspots"]
    assert sequence.u.tolist() == [[8.3]]
    assert sequence.y is not None
    assert sequence.y.tolist() == [[18.3]]
    assert "1700 to 1701" in data.notes[0]


def test_odd_series(tmp_path: Path) -> None:
    put(tmp_path / "sunspots", "sunspots.csv", "YEAR,SUNACTIVITY\n1700,5\n1702,6\n")
    with pytest.raises(IntegrityError, match="skips or repeats a year"):
        load("sunspots", directory=tmp_path)
    put(tmp_path / "sunspots", "sunspots.csv", "YEAR,SUNACTIVITY\n")
    with pytest.raises(IntegrityError, match=r"sunspots\.csv is empty"):
        load("sunspots", directory=tmp_path)
    put(tmp_path / "santafe_laser", "a.dat", "1\ntwo\n")
    with pytest.raises(IntegrityError, match=r"a\.dat is not a table of numbers"):
        load("santafe_laser", directory=tmp_path)
