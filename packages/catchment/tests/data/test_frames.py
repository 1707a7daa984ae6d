from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any, cast

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from catchment import Array
from catchment.data import Recording, class_labels, from_frame, one_hot

Make = Callable[[dict[str, Any]], Any]
makes = pytest.mark.parametrize("make", [dict, pd.DataFrame, pl.DataFrame])


def recordings() -> dict[str, Any]:
    """Return two people's recordings, rows shuffled together."""
    return {
        "who": ["bob", "ann", "ann", "bob", "ann", "ann"],
        "walk": [1, 1, 2, 1, 1, 2],
        "t": [20, 11, 10, 10, 10, 20],
        "x": [1.0, 2.0, 3.0, 4.0, 5.0, 6.0],
        "z": [-1.0, None, -3.0, -4.0, -5.0, -6.0],
        "load": [0.1, 0.2, None, 0.4, 0.5, 0.6],
        "activity": ["sit", "walk", "sit", "sit", "walk", "sit"],
    }


def target(sequence: Recording) -> Array:
    assert sequence.y is not None
    return sequence.y


@makes
def test_named_columns_become_clients_and_sequences(make: Make) -> None:
    clients = from_frame(
        make(recordings()),
        inputs=["x", "z"],
        target="load",
        recording="walk",
        client="who",
        time="t",
    )
    assert list(clients) == ["bob", "ann"]
    (bob,) = clients["bob"]
    np.testing.assert_array_equal(bob.u, [[4.0, -4.0], [1.0, -1.0]])
    np.testing.assert_array_equal(target(bob), [[0.4], [0.1]])
    first, second = clients["ann"]
    np.testing.assert_array_equal(first.u, [[5.0, -5.0], [2.0, np.nan]])
    np.testing.assert_array_equal(second.u, [[3.0, -3.0], [6.0, -6.0]])
    np.testing.assert_array_equal(target(second), [[np.nan], [0.6]])


@makes
def test_labels_are_per_sequence_unless_asked(make: Make) -> None:
    frame, classes = make(recordings()), ("sit", "walk")
    clients = from_frame(
        frame, inputs="x", target="activity", recording="walk", client="who", classes=classes
    )
    np.testing.assert_array_equal(target(clients["ann"][0]), [0.0, 1.0])
    np.testing.assert_array_equal(target(clients["ann"][1]), [1.0, 0.0])
    steps = from_frame(frame, inputs="x", target="activity", classes=classes, per_step=True)
    assert target(steps["all"][0])[:, 1].tolist() == [0, 1, 0, 0, 1, 0]
    with pytest.raises(ValueError, match="client 'ann': the target changes from row to row"):
        from_frame(frame, inputs="x", target="activity", client="who", classes=classes)


@makes
def test_without_columns_for_them_there_is_one_client_and_one_sequence(make: Make) -> None:
    clients = from_frame(make(recordings()), inputs="x")
    ((only,),) = clients.values()
    assert list(clients) == ["all"]
    assert only.u[:, 0].tolist() == [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]
    assert only.y is None


@makes
def test_text_needs_classes_and_the_error_names_them(make: Make) -> None:
    frame = make(recordings())
    with pytest.raises(ValueError, match=r"holds text; pass classes=\('sit', 'walk'\)"):
        from_frame(frame, inputs="x", target="activity")
    assert class_labels(frame, "activity") == ("sit", "walk")
    with pytest.raises(ValueError, match="no class 'sit'; choose from run, walk"):
        from_frame(frame, inputs="x", target="activity", classes=["run", "walk"])


@makes
def test_integer_labels(make: Make) -> None:
    frame = make({"x": [0.0, 1.0, 2.0], "digit": [7, 3, 7]})
    made = from_frame(frame, inputs="x", target="digit", classes=(3, 7), per_step=True)
    np.testing.assert_array_equal(target(made["all"][0]), [[0, 1], [1, 0], [0, 1]])
    numeric = from_frame(frame, inputs="x", target="digit")
    assert target(numeric["all"][0])[:, 0].tolist() == [7.0, 3.0, 7.0]


@makes
def test_missing_labels_become_nan_rows(make: Make) -> None:
    frame = make({"x": [0.0, 1.0], "label": ["a", None]})
    made = from_frame(frame, inputs="x", target="label", classes=("a", "b"), per_step=True)
    np.testing.assert_array_equal(target(made["all"][0]), [[1.0, 0.0], [np.nan, np.nan]])


@makes
def test_an_unknown_column_names_the_nearest(make: Make) -> None:
    frame = make(recordings())
    with pytest.raises(ValueError, match="no column 'activty'; did you mean 'activity'"):
        from_frame(frame, inputs="x", target="activty", classes=["sit", "walk"])
    with pytest.raises(ValueError, match="no column 'qqqq'; choose from who, walk, t, x"):
        from_frame(frame, inputs=["x", "qqqq"])


@makes
def test_a_time_that_occurs_twice_is_refused(make: Make) -> None:
    with pytest.raises(ValueError, match="client 'ann': time 10 occurs twice"):
        from_frame(make(recordings()), inputs="x", client="who", time="t")


@makes
@pytest.mark.parametrize("as_text", [False, True])
def test_times_may_be_timestamps(make: Make, as_text: bool) -> None:
    start = datetime(2024, 1, 30)
    days: list[Any] = [start + timedelta(days=d) for d in (9, 0, 3)]
    days = [str(day) for day in days] if as_text else days
    clients = from_frame(make({"day": days, "x": [9.0, 0.0, 3.0]}), inputs="x", time="day")
    assert clients["all"][0].u[:, 0].tolist() == [0.0, 3.0, 9.0]


@makes
@pytest.mark.parametrize(
    ("column", "seconds"),
    [
        ([3, 1, 2], [1.0, 2.0, 3.0]),
        ([0.25, -1.0, 1e9], [-1.0, 0.25, 1e9]),
        ([datetime(2024, 1, 1, 0, 0, s, 500) for s in (2, 0, 1)], [0.0, 1.0, 2.0]),
        (["2024-01-01T10:00:01.250", "2024-01-01T10:00:00", "2024-01-02"], [0.0, 1.25, 50400.0]),
        (["10:00:02.5", "10:00:00", "10:00:01"], [0.0, 1.0, 2.5]),
    ],
)
def test_times_are_seconds_and_channels_names(
    make: Make, column: list[Any], seconds: list[float]
) -> None:
    made = from_frame(make({"t": column, "x": [1.0, 2.0, 3.0]}), inputs=["x"], time="t")["all"][0]
    assert made.times is not None
    np.testing.assert_array_equal(made.times, seconds)
    assert made.channels == ("x",)
    assert from_frame(make({"x": [1.0]}), inputs="x")["all"][0].times is None


def test_times_with_a_zone_and_nullable_columns_of_pandas() -> None:
    frame = pd.DataFrame(
        {
            "t": pd.to_datetime(["2024-01-02", "2024-01-01"], utc=True),
            "x": pd.array([1, None], dtype="Int64"),
            "b": pd.array([True, None], dtype="boolean"),
            "name": pd.array(["a", None], dtype="string"),
            "kind": pd.Categorical(["u", "v"]),
        }
    )
    made = from_frame(
        frame, inputs=["x", "b"], target="name", time="t", classes=["a"], per_step=True
    )
    np.testing.assert_array_equal(made["all"][0].u, [[np.nan, np.nan], [1.0, 1.0]])
    np.testing.assert_array_equal(cast(Array, made["all"][0].times), [0.0, 86400.0])
    np.testing.assert_array_equal(target(made["all"][0]), [[np.nan], [1.0]])
    assert class_labels(frame, "kind") == ("u", "v")


def test_frames_of_polars_with_categories() -> None:
    frame = pl.DataFrame({"x": [1, None], "c": ["u", "v"]}).with_columns(
        pl.col("c").cast(pl.Categorical)
    )
    clients = from_frame(frame, inputs="x", client="c")
    assert list(clients) == ["u", "v"]
    assert np.isnan(clients["v"][0].u[0, 0])


def test_dates_with_the_year_first_are_times_though_digits_are_left_out() -> None:
    (one,) = from_frame(
        {"t": ["1990/1/2 7:00", "1990/1/10", "1990.2.1 23:30:15"], "x": [1.0, 2.0, 3.0]},
        inputs="x",
        time="t",
    )["all"]
    assert one.times is not None
    assert np.diff(one.times).tolist() == [7 * 86400 + 17 * 3600, 22 * 86400 + 84615]
    assert one.epoch == 631263600.0


def test_times_that_cannot_be_sorted_are_refused() -> None:
    with pytest.raises(ValueError, match="not ISO 8601"):
        from_frame({"t": ["noon", "one"], "x": [1.0, 2.0]}, inputs="x", time="t")
    with pytest.raises(ValueError, match="times cannot be compared"):
        from_frame(
            {"t": ["2024-01-01", "2024-01-02T00:00:00+00:00"], "x": [1.0, 2.0]},
            inputs="x",
            time="t",
        )


@pytest.mark.parametrize("name", ["who", "t"])
@pytest.mark.parametrize("empty", [None, np.nan])
def test_rows_without_a_name_or_time_are_refused(name: str, empty: Any) -> None:
    frame: dict[str, Any] = {"who": ["a", "b"], "t": [1.0, 2.0], "x": [0.0, 1.0]}
    frame[name] = [frame[name][0], empty]
    with pytest.raises(ValueError, match=f"column '{name}' is empty in row 1"):
        from_frame(frame, inputs="x", client="who", time="t")


def test_values_that_are_no_numbers_are_refused() -> None:
    frame = {"x": [1.0, 2.0], "s": ["a", "b"], "d": np.array(["2024-01-01"] * 2, dtype="M8[D]")}
    for name in ("s", "d"):
        with pytest.raises(ValueError, match=f"column '{name}' is not numeric"):
            from_frame(frame, inputs=["x", name])
    with pytest.raises(ValueError, match=r"^column 'x' is infinite at row 1"):
        from_frame({"x": [0.0, np.inf]}, inputs="x")


def test_frames_that_hold_nothing_are_refused() -> None:
    with pytest.raises(ValueError, match="no rows"):
        from_frame(pd.DataFrame({"x": []}), inputs="x")
    with pytest.raises(ValueError, match="inputs names no column"):
        from_frame({"x": [1.0]}, inputs=[])
    with pytest.raises(ValueError, match="target names no column"):
        from_frame({"x": [1.0]}, inputs="x", target=[])
    with pytest.raises(ValueError, match="one target column, not to 2"):
        from_frame({"x": [1.0], "y": [1.0]}, inputs="x", target=["x", "y"], classes=[1.0])
    with pytest.raises(ValueError, match="differ in length"):
        from_frame({"x": [1.0], "y": [1.0, 2.0]}, inputs=["x", "y"])
    twice = pd.DataFrame([[1.0, 2.0]], columns=["x", "x"])
    with pytest.raises(ValueError, match="column 'x' has 2 dimensions"):
        from_frame(twice, inputs="x")


def test_an_all_missing_input_is_kept_for_the_gap_policy() -> None:
    clients = from_frame(pl.DataFrame({"x": [None, None]}), inputs="x")
    assert np.isnan(clients["all"][0].u).all()


def test_several_targets_and_one_per_sequence() -> None:
    frame = {"s": [0, 0, 1], "x": [1.0, 2.0, 3.0], "a": [5.0, 5.0, 6.0], "b": [7.0, 7.0, 8.0]}
    made = from_frame(frame, inputs="x", target=["a", "b"], recording="s", per_step=False)["all"]
    np.testing.assert_array_equal([target(sequence) for sequence in made], [[5.0, 7.0], [6.0, 8.0]])
    assert [sequence.per_step for sequence in made] == [False, False]


@given(rows=st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2)), min_size=1, max_size=40))
def test_every_row_lands_in_one_sequence_as_pandas_groups_them(rows: list[tuple[int, int]]) -> None:
    frame = pd.DataFrame(rows, columns=["client", "sequence"])
    frame["x"] = np.arange(float(len(rows)))
    clients = from_frame(frame, inputs="x", client="client", recording="sequence")
    ours = [s.u[:, 0].tolist() for sequences in clients.values() for s in sequences]
    grouped = frame.groupby(["client", "sequence"], sort=False)["x"]
    assert sorted(ours) == sorted(group.tolist() for _, group in grouped)
    assert set(clients) == {str(client) for client, _ in rows}


def test_one_hot_refuses_unknown_and_repeated_classes() -> None:
    with pytest.raises(ValueError, match="no class 'wlk'; did you mean 'walk'"):
        one_hot(["wlk"], ["sit", "walk"])
    with pytest.raises(ValueError, match="occurs twice"):
        one_hot(["a"], ["a", "a"])
    assert one_hot(cast(list[object], []), ["a", "b"]).shape == (0, 2)
