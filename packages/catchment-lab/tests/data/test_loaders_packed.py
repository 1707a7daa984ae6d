"""Packed sets: the same recordings from one file, and what a damaged one says."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from catchment.errors import IntegrityError
from catchment_lab.datasets import Dataset, load, load_whole, pack, packed_path, unpack
from tests.data import test_loaders_har as har
from tests.data import test_loaders_hhar as phones


def same(ours: Dataset, theirs: Dataset) -> None:
    assert list(ours.clients) == list(theirs.clients)
    for name, held in ours.clients.items():
        for one, other in zip(held, theirs.clients[name], strict=True):
            np.testing.assert_array_equal(one.u, other.u)
            np.testing.assert_array_equal(one.y, other.y)
    for field in ("channels", "classes", "rate_hz", "test_clients", "test_positions", "usual"):
        assert getattr(ours, field) == getattr(theirs, field)


def test_a_packed_set_loads_as_the_publishers_files_do(tmp_path: Path) -> None:
    root = tmp_path / "uci_har" / "UCI HAR Dataset"
    har.write(root, "train", har.TRAIN)
    har.write(root, "test", har.TEST)
    out = tmp_path / "packed"
    path = pack(load_whole("uci_har", directory=tmp_path), out)
    assert path == packed_path(out, "uci_har")
    assert list(out.rglob("*.part")) == []
    same(load("uci_har", directory=out), load("uci_har", directory=tmp_path))
    same(
        load("uci_har", directory=out, window=100, step=7),
        load("uci_har", directory=tmp_path, window=100, step=7),
    )


def test_a_series_and_its_targets(tmp_path: Path) -> None:
    (tmp_path / "sunspots").mkdir()
    (tmp_path / "sunspots" / "sunspots.csv").write_text("YEAR,SUNACTIVITY\n1700,5.1\n1701,11\n")
    plain = load("sunspots", directory=tmp_path)
    pack(load_whole("sunspots", directory=tmp_path), tmp_path)
    assert packed_path(tmp_path, "sunspots").is_file()
    same(load("sunspots", directory=tmp_path), plain)


def test_options_that_were_not_packed_need_the_publishers_files(tmp_path: Path) -> None:
    phones.write(tmp_path, phones.readings(500) + phones.readings(7, device="s3mini_2"))
    whole = load("hhar", directory=tmp_path, gyroscope=False, window="whole")
    out = tmp_path / "packed"
    pack(whole, out)
    same(load("hhar", directory=out, model="nexus4", window="whole"), whole)
    with pytest.raises(ValueError, match=r"packed with model='nexus4'.*not with model='s3mini'"):
        load("hhar", directory=out, model="s3mini")
    pack(whole, tmp_path)
    other = load("hhar", directory=tmp_path, model="s3mini", gyroscope=False, window="whole")
    assert [s.n_steps for s in other.clients["a"]] == [7]


def test_damaged_packed_files(tmp_path: Path) -> None:
    path = tmp_path / "x.packed.npz"
    for content in (b"", b"PK", b"no archive"):
        path.write_bytes(content)
        with pytest.raises(IntegrityError, match=r"x\.packed\.npz is damaged .*; pack"):
            unpack(path)
    np.savez(path, header=np.array("{}"))
    with pytest.raises(IntegrityError, match="is damaged"):
        unpack(path)


def test_what_cannot_be_packed(tmp_path: Path) -> None:
    (tmp_path / "sunspots").mkdir()
    (tmp_path / "sunspots" / "sunspots.csv").write_text("YEAR,SUNACTIVITY\n1700,5.1\n1701,11\n")
    with pytest.raises(ValueError, match="only whole recordings with one class each"):
        pack(load("sunspots", directory=tmp_path), tmp_path / "out")
