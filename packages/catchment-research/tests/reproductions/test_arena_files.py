"""Sets in the form in which the package of WHAR Arena keeps them: read, and tested on."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest

from catchment.data import ACTIVITIES, Recording, synthetic_wearables
from catchment.errors import MissingDataError
from reproductions.arena import arena, markdown
from reproductions.arena_files import prepared_people, prepared_sets

PEOPLE = synthetic_wearables(6, seed=1, windows_per_user=30)


def answer(recording: Recording) -> int:
    """Return the number of a window's class."""
    assert recording.y is not None
    return int(np.argmax(recording.y))


def written(folder: Path) -> Path:
    """Write the people as that package does, rows of a window in any order, with time stamps."""
    metadata, sessions, windows = folder / "metadata", list[str](), list[str]()
    columns = list[np.ndarray]()
    metadata.mkdir(parents=True)
    (folder / "windows").mkdir()
    rng, names, times = np.random.default_rng(0), [], []
    for subject, own in enumerate(PEOPLE.values()):
        for recording in own:
            number = len(sessions)
            sessions.append(f"{number},{number},{subject},{answer(recording)}")
            windows.append(f"{number},w{number},{number}")
            mixed = rng.permutation(len(recording.u))
            columns.append(recording.u[mixed])
            names += [f"w{number}"] * len(mixed)
            times.append(mixed)
    activities = [f"{k},{k},{name}" for k, name in enumerate(ACTIVITIES)]
    for name, header, lines in (
        ("activity_df", ",activity_id,activity_name", activities),
        ("session_df", ",session_id,subject_id,activity_id", sessions),
        ("window_df", ",window_id,session_id", windows),
    ):
        (metadata / f"{name}.csv").write_text("\n".join([header, *lines]) + "\n")
    u = np.concatenate(columns)
    table = {f"c{k}": u[:, k] for k in range(u.shape[1])}
    table |= {"timestamp": np.concatenate(times), "window_id": np.array(names)}
    pyarrow.parquet.write_table(pyarrow.table(table), folder / "windows" / "windows.parquet")
    return folder


def test_people_windows_and_classes_are_those_that_were_written(tmp_path: Path) -> None:
    people, classes = prepared_people(written(tmp_path / "some_set"))
    assert set(classes) <= set(ACTIVITIES)
    assert len(people) == len(PEOPLE)
    for subject, own in enumerate(PEOPLE.values()):
        expected = {hash(one.u.tobytes()): ACTIVITIES[answer(one)] for one in own}
        mine = people[f"subject {subject}"]
        found = {hash(one.u.tobytes()): classes[answer(one)] for one in mine}
        assert found == expected


def test_the_protocol_runs_on_them_with_an_interval(tmp_path: Path) -> None:
    written(tmp_path / "some_set")
    result = arena(prepared=tmp_path, seeds=1)
    assert {cell.set for cell in result.cells} == {"some_set"}
    assert len(result.cells[0].groups) == 6
    assert all(cell.windows == 180 for cell in result.cells)
    (line,) = [one for one in markdown(result).splitlines() if "default, nothing set" in one]
    assert "as its package has it" in line
    assert " to " in line


def test_a_folder_without_sets_is_named(tmp_path: Path) -> None:
    with pytest.raises(MissingDataError, match="whar-datasets"):
        prepared_sets(tmp_path)
