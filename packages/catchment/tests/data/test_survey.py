"""A look at files: what columns are, who is there, what is wrong and what to do about it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from catchment.data import read
from catchment.data.survey import Survey, facts_of, summary_lines, survey
from tests.journeys.people import FAULTS, UNUSABLE, faulty_people, good_people, rows_of, write


@pytest.fixture(scope="module")
def faulty(tmp_path_factory: pytest.TempPathFactory) -> Survey:
    folder = tmp_path_factory.mktemp("faulty")
    faulty_people(folder)
    return survey(folder, label="activity", guess=True)


def test_every_bad_file_is_named_with_its_reason_and_no_other(faulty: Survey) -> None:
    said = {problem.file.stem: str(problem) for problem in faulty.problems}
    assert sorted(said) == sorted(UNUSABLE)
    for name, reason in UNUSABLE.items():
        assert reason in said[name]
        assert "; " in said[name]


@pytest.mark.parametrize(
    "warning",
    [
        "three has 3 rows, the others about 480",
        "40 rows of unlabeled have no activity (",
        "sits and three have one class only",
        "only slip has the class 'wlaking' (40 rows); a slip for 'walking'?",
        "slow.csv has 10 Hz, the others 20 Hz",
        "shuffled.csv has times out of order, which are sorted",
        "ay is empty for hollow",
        "ax and ay of units vary ",
        "copy.csv and p1.csv have the same content: delete all but one",
    ],
)
def test_whatever_may_spoil_the_result_is_said(faulty: Survey, warning: str) -> None:
    assert [one for one in faulty.warnings if one.startswith(warning)]


def test_a_signal_called_t_is_no_time_though_it_rises_as_often_as_it_falls(tmp_path: Path) -> None:
    wave = 10 + 5 * np.sin(np.arange(18, 400) * np.pi / 12)
    assert np.mean(np.diff(wave) > 0) > 0.5
    days = np.datetime64("2024-01-01") + np.arange(len(wave))
    rows = "".join(f"{day},{value:.4f}\n" for day, value in zip(days, wave, strict=True))
    (tmp_path / "a.csv").write_text("time,t\n" + rows)
    found = survey(tmp_path, guess=True).roles
    assert (found.time, found.inputs) == ("time", ("t",))


@pytest.mark.parametrize("every", [1, 10])
def test_clock_times_are_times_and_no_classes(tmp_path: Path, every: int) -> None:
    rows = "".join(f"10:{k // every:02}:00,{k % 7}.5,{k % 2}\n" for k in range(60))
    (tmp_path / "a.csv").write_text("when,x,y\n" + rows)
    found = survey(tmp_path, label="y", guess=True)
    assert (found.roles.time, found.roles.inputs) == ("when", ("x",))
    if every == 1:
        assert found.rate == pytest.approx(1 / 60)
    else:
        assert ["occurs twice" in problem.reason for problem in found.problems] == [True]


def test_a_summary_has_figures_then_warnings_then_files(faulty: Survey) -> None:
    first, *rest = summary_lines(faulty, most=3)
    people = 5 + len(FAULTS) - len(UNUSABLE)
    assert first.startswith(
        f"{5 + len(FAULTS)} files, {people} people (one per file), 2 channels (ax, ay), 20 Hz, "
        "4 classes; "
    )
    assert first.endswith(f"; {len(UNUSABLE)} files left out")
    assert [line[:3] for line in rest[:4]] == ["  !"] * 4
    assert rest[3] == f"  ! and {len(faulty.warnings) - 3} more warnings"
    assert [line[:3] for line in rest[4:]] == ["  x"] * len(UNUSABLE)


def test_figures_are_those_of_the_recordings(tmp_path: Path) -> None:
    good_people(tmp_path, 3)
    rows = rows_of(9)
    for row in rows[:48]:
        row[1] = ""
    write(tmp_path / "p3.csv", rows)
    found = survey(tmp_path, label="activity", guess=True)
    people = read(tmp_path, label="activity", time="t")
    assert [client.name for client in found.clients] == list(people)
    for client in found.clients:
        (one,) = people[client.name]
        assert client.steps == one.n_steps
        np.testing.assert_allclose(client.deviation, np.nanstd(one.u, axis=0), rtol=1e-9)
    missing = np.concatenate([np.isnan(p[0].u).ravel() for p in people.values()])
    assert found.gaps == pytest.approx(missing.mean())
    assert found.rate == pytest.approx(20)
    assert found.per_step
    assert found.roles.time == "t"
    assert found.problems == ()
    assert [n for one in found.recordings for n in one.segments] == [80] * 24


def test_columns_that_are_no_signals_are_left_out_and_said(tmp_path: Path) -> None:
    for person in range(4):
        rows = [
            [str(k), *row[:3], f"{60 + person}", "9.81", "", row[3]]
            for k, row in enumerate(rows_of(person, rounds=1))
        ]
        write(tmp_path / f"p{person}.csv", rows, header="index,t,ax,ay,weight,g,broken,activity")
    found = survey(tmp_path, label="activity", guess=True)
    assert found.roles.inputs == ("ax", "ay")
    said = "\n".join(found.warnings)
    assert "column 'index' is not used: it counts rows" in said
    assert "column 'weight' is not used: it never changes within a file" in said
    assert "column 'g' is not used: it never changes (" in said
    assert "column 'broken' is not used: it is empty" in said
    named = survey(tmp_path, label="activity", inputs=["ax", "weight"], guess=True)
    assert named.roles.inputs == ("ax", "weight")
    assert "weight is constant within every client" in "\n".join(named.warnings)


def test_people_are_told_apart_by_a_column_or_a_folder(tmp_path: Path) -> None:
    rows = [[f"p{k}", *row] for k in range(3) for row in rows_of(k)]
    write(tmp_path / "all.csv", rows, header="person,t,ax,ay,activity")
    found = survey(tmp_path / "all.csv", label="activity", guess=True)
    assert (found.roles.client, found.roles.client_by) == ("person", "column")
    assert [client.name for client in found.clients] == ["p0", "p1", "p2"]
    assert "3 people (by 'person')" in summary_lines(found)[0]
    for k in range(3):
        for day in ("monday", "friday"):
            write(tmp_path / "days" / f"p{k}" / f"{day}.csv", rows_of(k))
    nested = survey(
        sorted((tmp_path / "days").rglob("*.csv")), label="activity", client_by="folder", guess=True
    )
    assert {client.name: len(client.recordings) for client in nested.clients} == dict.fromkeys(
        ("p0", "p1", "p2"), 2
    )
    both = read(str(tmp_path / "days" / "*" / "*.csv"), label="activity", client_by="folder")
    assert {name: len(held) for name, held in both.items()} == dict.fromkeys(("p0", "p1", "p2"), 2)
    assert both.columns["client_by"] == "folder"
    with pytest.raises(ValueError, match="client_by='folder'"):
        read(str(tmp_path / "days" / "*" / "*.csv"), label="activity")


@pytest.mark.parametrize(
    ("name", "first", "step", "rate"),
    [("t", 0.0, 0.02, 50), ("timestamp", 1.6e12, 20, 50), ("time_ms", 0, 10, 100)],
)
def test_times_tell_their_unit_by_name_and_size(
    tmp_path: Path, name: str, first: float, step: float, rate: float
) -> None:
    for k in range(3):
        lines = [f"{first + n * step:.15g},{n % 7 + k},{'ab'[n // 50 % 2]}" for n in range(200)]
        (tmp_path / f"p{k}.csv").write_text(f"{name},x,what\n" + "\n".join(lines) + "\n")
    found = survey(tmp_path, label="what", guess=True)
    assert found.roles.time == name
    assert found.rate == pytest.approx(rate)


@given(st.lists(st.floats(-1e6, 1e6) | st.just(float("nan")), min_size=1, max_size=30))
def test_facts_of_numbers_agree_with_numpy(values: list[float]) -> None:
    column = np.array(values)
    facts = facts_of(column)
    known = column[~np.isnan(column)]
    assert facts.n_missing == len(column) - len(known)
    assert facts.kind == ("numbers" if len(known) else "empty")
    if len(known):
        assert facts.constant == (len(np.unique(known)) == 1)
        assert facts.whole == bool((known % 1 == 0).all())
        # Written as text they are the same numbers, with nothing odd among them.
        text = facts_of(np.array([None if np.isnan(v) else repr(v) for v in values], dtype=object))
        assert (text.kind, text.n_missing) == ("numbers", facts.n_missing)
