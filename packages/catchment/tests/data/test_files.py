from __future__ import annotations

import gzip
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from catchment.data import Clients, Recording, find_files, read

AX = "t,ax,ay,activity,person\n"


def write(folder: Path, **files: str) -> str:
    for name, text in files.items():
        (folder / f"{name}.csv").write_text(text)
    return str(folder / "*.csv")


def target(recording: Recording) -> Any:
    assert recording.y is not None
    return recording.y.tolist()


def test_a_folder_of_files_becomes_people_with_classes_and_channels(tmp_path: Path) -> None:
    pattern = write(
        tmp_path,
        one=AX + "0,1,2,walk,ann\n1,3,4,walk,ann\n0,5,6,sit,bob\n",
        two=AX + "5,7,8,run,ann\n",
    )
    people = read(pattern, label="activity", client="person", time="t")
    assert isinstance(people, Clients)
    assert people.classes == ("run", "sit", "walk")
    assert people.channels == ("ax", "ay")
    assert list(people) == ["ann", "bob"]
    first, second = people["ann"]
    np.testing.assert_array_equal(first.u, [[1, 2], [3, 4]])
    assert first.channels == ("ax", "ay")
    assert first.times is not None
    assert first.times.tolist() == [0.0, 1.0]
    assert (target(first), target(second)) == ([0, 0, 1], [1, 0, 0])
    assert repr(people) == (
        "Clients(2 clients, 3 recordings, channels=('ax', 'ay'), classes=('run', 'sit', 'walk'))"
    )


def test_without_a_client_column_each_file_is_a_client(tmp_path: Path) -> None:
    write(tmp_path, ann="x\n1\n", bob="x\n2\n")
    (tmp_path / "cy.v2.csv.gz").write_bytes(gzip.compress(b"x\n3\n"))
    (tmp_path / "notes.txt").write_text("nothing")
    people = read(tmp_path)
    assert {name: held[0].u[0, 0] for name, held in people.items()} == {
        "ann": 1.0,
        "bob": 2.0,
        "cy.v2": 3.0,
    }
    assert people.classes is None
    assert list(read([tmp_path / "bob.csv", tmp_path / "ann.csv"])) == ["ann", "bob"]
    assert list(read(str(tmp_path / "bob.csv"))) == ["bob"]


def test_a_label_that_changes_in_any_recording_is_per_step_in_all(tmp_path: Path) -> None:
    pattern = write(tmp_path, ann="x,a\n1,sit\n2,walk\n", bob="x,a\n1,sit\n2,sit\n")
    people = read(pattern, label="a")
    assert people["ann"][0].per_step is people["bob"][0].per_step is True
    assert target(people["bob"][0]) == [[1, 0], [1, 0]]
    with pytest.raises(ValueError, match=r"ann\.csv: the target changes .*per_step=True"):
        read(pattern, label="a", per_step=False)


def test_a_label_missing_in_some_rows_is_still_one_label(tmp_path: Path) -> None:
    pattern = write(tmp_path, ann="x,a\n1,\n2,walk\n", bob="x,a\n1,sit\n2,\n", cy="x,a\n1,\n")
    people = read(pattern, label="a")
    assert target(people["ann"][0]) == [0.0, 1.0]
    assert np.isnan(target(people["cy"][0])).all()


def test_a_recording_column_cuts_a_file(tmp_path: Path) -> None:
    pattern = write(tmp_path, ann="x,r,a\n1,7,sit\n2,8,walk\n3,7,sit\n")
    first, second = read(pattern, label="a", recording="r")["ann"]
    assert first.u[:, 0].tolist() == [1, 3]
    assert (target(first), target(second)) == ([1, 0], [0, 1])


def test_numbers_to_predict(tmp_path: Path) -> None:
    pattern = write(tmp_path, ann="x,z,load\n1,5,0.5\n2,6,0.7\n", bob="x,z,load\n3,7,\n")
    people = read(pattern, target="load", inputs="x")
    assert people.channels == ("x",)
    assert people.classes is None
    assert target(people["ann"][0]) == [[0.5], [0.7]]
    constant = read(write(tmp_path, ann="x,s\n1,5\n2,5\n", bob="x,s\n3,6\n"), target="s")
    assert target(constant["ann"][0]) == [5.0]


def test_labels_may_be_numbers_and_mixed_files_agree_on_text(tmp_path: Path) -> None:
    people = read(write(tmp_path, a="x,k\n1,3\n2,\n", b="x,k\n1,7\n"), label="k")
    assert people.classes == (3, 7)
    people = read(write(tmp_path, a="x,k\n1,3\n", b="x,k\n1,sit\n"), label="k")
    assert people.classes == ("3", "sit")
    people = read(tmp_path, label="k", classes=["sit", "3", "run"])
    assert people.classes == ("sit", "3", "run")
    with pytest.raises(ValueError, match=r"a\.csv: there is no class '3'"):
        read(tmp_path, label="k", classes=["sit"])


def test_an_input_that_is_empty_in_one_file_is_a_gap_and_an_index_is_no_input(
    tmp_path: Path,
) -> None:
    pattern = write(tmp_path, ann=",x,z,word\n0,1,2,u\n", bob=",x,z,word\n0,1,,v\n")
    people = read(pattern)
    assert people.channels == ("x", "z")
    assert np.isnan(people["bob"][0].u[0, 1])


def test_errors_name_the_file_the_value_and_the_remedy(tmp_path: Path) -> None:
    pattern = write(tmp_path, ann="x,z\n1,2\n", bob="x\n1\n")
    with pytest.raises(ValueError, match=r"which ann\.csv has; mend it, or pass inputs=\['x'\]"):
        read(pattern)
    with pytest.raises(ValueError, match=r"bob\.csv: there is no column 'z'"):
        read(pattern, inputs=["x", "z"])
    with pytest.raises(ValueError, match=r"ann\.csv has no column 'who'; it has x, z"):
        read(pattern, inputs="x", label="who")
    write(tmp_path, bob="x,z\n1,oops\n")
    with pytest.raises(ValueError, match=r"bob\.csv has 'oops' in row 1 of column 'z', where ann"):
        read(pattern)
    with pytest.raises(ValueError, match="not both"):
        read(pattern, label="x", target="z")
    with pytest.raises(FileNotFoundError, match=r"no file .*nothing.* pass a folder of"):
        read(tmp_path / "nothing")
    with pytest.raises(ValueError, match=r"has no column of numbers besides those named"):
        read(write(tmp_path, ann="word\nu\n", bob="word\nu\n"))
    with pytest.raises(ValueError, match=r"no value in column 'k'"):
        read(write(tmp_path, ann="x,k\n1,\n", bob="x,k\n1,\n"), label="k")
    (tmp_path / "more").mkdir()
    write(tmp_path / "more", ann="x,k\n1,\n")
    with pytest.raises(ValueError, match=r"gives client 'ann', and so does a file in another"):
        read(str(tmp_path / "**" / "*.csv"), inputs="x")


def test_find_files_takes_each_once(tmp_path: Path) -> None:
    write(tmp_path, b="x\n1\n", a="x\n1\n")
    found = find_files([tmp_path, tmp_path / "a.csv", str(tmp_path / "b*")])
    assert [path.name for path in found] == ["a.csv", "b.csv"]


def test_reading_needs_neither_pandas_nor_polars(tmp_path: Path) -> None:
    stamps = pd.to_datetime(["2024-01-01 10:00", "2024-01-01 10:01"], utc=True)
    frame = pd.DataFrame({"t": stamps, "x": [1.0, 2.0], "who": pd.Categorical(["ann", "ann"])})
    frame.to_parquet(tmp_path / "a.parquet")
    frame.to_csv(tmp_path / "b.csv", index=False)
    code = f"""
import sys
sys.modules["pandas"] = sys.modules["polars"] = None
from catchment.data import read
for name in ("a.parquet", "b.csv"):
    people = read({str(tmp_path)!r} + "/" + name, client="who", time="t")
    print(list(people), people["ann"][0].times.tolist(), people.channels)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stderr == ""
    assert done.stdout == "['ann'] [0.0, 60.0] ('x',)\n" * 2
