from __future__ import annotations

import gzip
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from catchment.data import class_labels, from_frame, read_columns

TEXT = """who,t,x,label
ann,2024-01-02,0.2,sit
bob,2024-01-01,,
ann,2024-01-01,0.1,walk
"""


@pytest.mark.parametrize("name", ["log.csv", "log.tsv", "log.csv.gz", "log.parquet"])
def test_every_format_gives_the_same_sequences(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    if name.endswith("parquet"):
        frame = pd.DataFrame(
            {
                "who": ["ann", "bob", "ann"],
                "t": pd.to_datetime(["2024-01-02", "2024-01-01", "2024-01-01"]),
                "x": [0.2, None, 0.1],
                "label": ["sit", None, "walk"],
            }
        )
        frame.to_parquet(path)
    elif name.endswith("gz"):
        path.write_bytes(gzip.compress(TEXT.encode()))
    else:
        path.write_text(TEXT.replace(",", "\t") if name.endswith("tsv") else TEXT)
    clients = from_frame(
        read_columns(path),
        inputs="x",
        target="label",
        client="who",
        time="t",
        classes=class_labels(read_columns(path), "label"),
        per_step=True,
    )
    assert list(clients) == ["ann", "bob"]
    day = clients["ann"][0].times
    assert day is not None
    assert day.tolist() == [0.0, 86400.0]
    ann, bob = clients["ann"][0], clients["bob"][0]
    np.testing.assert_array_equal(ann.u, [[0.1], [0.2]])
    assert ann.y is not None
    np.testing.assert_array_equal(ann.y, [[0.0, 1.0], [1.0, 0.0]])
    assert np.isnan(bob.u).all()
    assert bob.y is not None
    assert np.isnan(bob.y).all()


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
@pytest.mark.parametrize("decimal", [".", ","])
def test_delimiters_and_decimal_commas_are_guessed_as_pandas_reads_them(
    tmp_path: Path, delimiter: str, decimal: str
) -> None:
    frame = pd.DataFrame(
        {
            "n": [1, 2, 3],
            " x ": [0.5, -1e-3, 2.25],
            "who": ["ann, b", "bob", " ann"],
            "y": [1.5] * 3,
        }
    )
    path = tmp_path / "log.csv"
    frame.to_csv(path, index=False, sep=delimiter, decimal=decimal)
    columns = read_columns(path)
    assert list(columns) == ["n", "x", "who", "y"]
    theirs = pd.read_csv(path, sep=delimiter, decimal=decimal)
    np.testing.assert_array_equal(columns["x"], theirs[" x "])
    np.testing.assert_array_equal(columns["n"], theirs["n"])
    assert columns["who"].tolist() == ["ann, b", "bob", "ann"]


def test_a_column_that_turns_into_decimals_late_is_one_of_decimals(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text("x\n" + "1\n" * 700_000 + "0.5\n")
    assert read_columns(path)["x"][-1] == 0.5


def test_a_column_of_commas_is_no_column_of_decimals(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text("x;place\n0.5;A, north\n0.7;B, south\n")
    columns = read_columns(path)
    assert columns["x"].tolist() == [0.5, 0.7]
    assert columns["place"].tolist() == ["A, north", "B, south"]


def test_types_that_only_parquet_has_become_plain_columns(tmp_path: Path) -> None:
    path = tmp_path / "log.parquet"
    frame = pd.DataFrame(
        {
            "kind": pd.Categorical(["u", None, "u"]),
            "price": [Decimal("1.50"), Decimal("2.25"), None],
            "on": pd.array([True, None, False], dtype="boolean"),
        }
    )
    frame.to_parquet(path)
    columns = read_columns(path)
    assert columns["kind"].tolist() == ["u", None, "u"]
    np.testing.assert_array_equal(columns["price"], [1.5, 2.25, np.nan])
    np.testing.assert_array_equal(columns["on"], [1.0, np.nan, 0.0])


def test_a_missing_file_and_a_strange_one_are_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"no file .*nothing\.csv; check the path"):
        read_columns(tmp_path / "nothing.csv")
    strange = tmp_path / "log.xlsx"
    strange.write_text("x")
    with pytest.raises(ValueError, match=r"log\.xlsx is not a \.csv"):
        read_columns(strange)


@pytest.mark.parametrize("name", ["log.csv", "log.parquet"])
def test_a_damaged_file_is_refused(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_text("x,y\n1,2\n3\n")
    with pytest.raises(ValueError, match=f"{name} cannot be read"):
        read_columns(path)


def test_empty_files_and_repeated_columns_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text("")
    with pytest.raises(ValueError, match="cannot be read"):
        from_frame(read_columns(path), inputs="x")
    path.write_text("x\n")
    with pytest.raises(ValueError, match="no rows"):
        from_frame(read_columns(path), inputs="x")
    path.write_text("x,x\n1,2\n")
    with pytest.raises(ValueError, match="two columns of one name"):
        from_frame(read_columns(path), inputs="x")


def test_npz_files_hold_columns_as_vectors_and_as_matrices(tmp_path: Path) -> None:
    path = tmp_path / "log.npz"
    x, both = np.arange(3.0), np.arange(6.0).reshape(3, 2)
    np.savez(path, x=x, both=both, word=np.array(["a", "b", "a"]))
    columns = read_columns(path)
    assert sorted(columns) == ["both_0", "both_1", "word", "x"]
    np.testing.assert_array_equal(columns["both_1"], both[:, 1])
    held = from_frame(read_columns(path), inputs=["x", "both_0"], target="both_1", client="word")
    assert {name: one.u.tolist() for name, (one,) in held.items()} == {
        "a": [[0.0, 0.0], [2.0, 4.0]],
        "b": [[1.0, 2.0]],
    }


@pytest.mark.parametrize(
    ("arrays", "reason"),
    [
        ({"x": np.zeros((2, 2, 2))}, r"x in log\.npz has shape \(2, 2, 2\)"),
        ({"x": np.zeros(())}, "has shape"),
        ({"x": np.zeros(2), "y": np.zeros(3)}, "differ in length"),
        ({"x": np.zeros((2, 1)), "x_0": np.zeros(2)}, "two columns of one name"),
        ({"x": np.array([{}], dtype=object)}, "cannot be read"),
    ],
)
def test_npz_files_that_hold_no_table_are_refused(
    tmp_path: Path, arrays: dict[str, Any], reason: str
) -> None:
    path = tmp_path / "log.npz"
    np.savez(path, allow_pickle=True, **arrays)
    with pytest.raises(ValueError, match=reason):
        read_columns(path)


def test_a_damaged_npz_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "log.npz"
    np.savez(path, x=np.arange(100.0))
    path.write_bytes(path.read_bytes()[:200])
    with pytest.raises(ValueError, match=r"log\.npz cannot be read"):
        read_columns(path)
