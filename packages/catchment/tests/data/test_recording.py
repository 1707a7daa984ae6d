from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import numpy as np
import pytest

from catchment.data import Recording


def test_a_vector_becomes_one_column_with_a_target_per_step() -> None:
    sequence = Recording(np.arange(4.0), np.arange(4.0))
    assert sequence.u.shape == (4, 1)
    assert sequence.y is not None
    assert sequence.y.shape == (4, 1)
    assert sequence.per_step is True
    assert (sequence.n_steps, sequence.n_inputs) == (4, 1)


def test_a_short_target_vector_belongs_to_the_sequence() -> None:
    sequence = Recording(np.zeros((5, 2)), np.array([1.0, 0.0, 0.0]))
    assert sequence.per_step is False
    assert sequence.y is not None
    assert sequence.y.shape == (3,)


def test_a_class_row_as_long_as_the_sequence_stays_a_class_row() -> None:
    sequence = Recording.labeled(np.zeros((3, 2)), label=1, classes=3)
    for same in (sequence, replace(sequence, u=np.ones((3, 2))), replace(sequence, weight=2.0)):
        assert same.per_step is False
        assert same.y is not None
        np.testing.assert_array_equal(same.y, [0.0, 1.0, 0.0])


def test_a_target_can_be_given_later() -> None:
    bare = Recording(np.zeros((3, 2)))
    assert bare.per_step is None
    assert replace(bare, y=np.zeros((3, 4))).per_step is True


def test_labels_per_step() -> None:
    sequence = Recording.labeled(np.zeros((3, 2)), label=0, classes=2, per_step=True)
    assert sequence.y is not None
    np.testing.assert_array_equal(sequence.y, [[1.0, 0.0]] * 3)


@pytest.mark.parametrize("label", [-1, 3])
def test_a_label_outside_the_classes_is_refused(label: int) -> None:
    with pytest.raises(ValueError, match=r"outside 0\.\.2"):
        Recording.labeled([0.0], label=label, classes=3)


def test_nan_is_kept_and_infinity_refused() -> None:
    assert np.isnan(Recording(np.array([np.nan, 1.0]), np.array([1.0, np.nan])).u[0, 0])
    with pytest.raises(ValueError, match="inputs is infinite at row 1"):
        Recording(np.array([0.0, np.inf]))
    with pytest.raises(ValueError, match="targets is infinite at row 0"):
        Recording(np.array([0.0, 1.0]), np.array([-np.inf, 0.0]))


def test_shapes_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ValueError, match="no steps"):
        Recording(np.zeros((0, 2)))
    with pytest.raises(ValueError, match="3 dimensions"):
        Recording(np.zeros((2, 2, 2)))
    with pytest.raises(ValueError, match="targets have shape"):
        Recording(np.zeros((3, 1)), np.zeros((2, 1)))
    with pytest.raises(ValueError, match="targets have shape"):
        Recording(np.zeros((3, 1)), np.zeros((3, 1)), per_step=False)
    with pytest.raises(ValueError, match="targets have shape"):
        Recording(np.zeros((3, 1)), np.zeros(2), per_step=True)


@pytest.mark.parametrize("weight", [-1.0, np.nan, np.inf])
def test_a_weight_must_be_finite_and_not_negative(weight: float) -> None:
    with pytest.raises(ValueError, match="weight is"):
        Recording(np.zeros(1), weight=weight)


def test_arrays_cannot_be_written() -> None:
    sequence = Recording(np.array([0.0, 1.0]), np.array([1.0, 2.0]))
    with pytest.raises(ValueError, match="read-only"):
        sequence.u[0] = 5.0


def test_times_and_names_stay_when_something_else_changes() -> None:
    recording = Recording(
        np.zeros((3, 2)), times=np.array([0.0, 0.5, 2.0]), channels=cast(Any, ["ax", "ay"])
    )
    for same in (
        recording,
        replace(recording, u=np.ones((3, 2))),
        replace(recording, y=np.ones(1)),
    ):
        assert same.times is not None
        assert same.times.tolist() == [0.0, 0.5, 2.0]
        assert same.channels == ("ax", "ay")
    assert Recording(np.zeros(2), channels=cast(Any, "load")).channels == ("load",)


@pytest.mark.parametrize(
    ("times", "reason"),
    [
        ([0.0, 1.0], r"times have shape \(2,\) for 3 steps"),
        ([[0.0], [1.0], [2.0]], r"times have shape \(3, 1\)"),
        ([0.0, np.nan, 2.0], "time of step 1 is nan"),
        ([0.0, 1.0, np.inf], "time of step 2 is inf"),
        ([0.0, 1.0, 1.0], r"do not increase at step 2, from 1\.0 to 1\.0; sort"),
        ([3.0, 1.0, 4.0], "do not increase at step 1"),
    ],
)
def test_times_that_are_no_times_are_refused(times: Any, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        Recording(np.zeros(3), times=times)


@pytest.mark.parametrize("channels", [("ax",), ("ax", "ay", "az"), ("ax", 2), ()])
def test_there_is_one_name_for_each_channel(channels: Any) -> None:
    with pytest.raises(ValueError, match="for 2 inputs; pass one name for each"):
        Recording(np.zeros((3, 2)), channels=channels)
    with pytest.raises(ValueError, match="two of them have one name"):
        Recording(np.zeros((3, 2)), channels=("ax", "ax"))


@pytest.mark.parametrize("per_step", [True, False])
def test_a_part_has_what_belongs_to_its_steps(per_step: bool) -> None:
    y = np.arange(8.0).reshape(4, 2) if per_step else np.array([1.0, 0.0])
    whole = Recording(
        np.arange(4.0), y, 2.0, times=np.arange(4.0) * 3, channels=("x",), per_step=per_step
    )
    part = whole.part(1, 3)
    checked = Recording(
        np.array([1.0, 2.0]), y[1:3] if per_step else y, 2.0, per_step, np.array([3.0, 6.0]), ("x",)
    )
    for name in ("u", "y", "times"):
        np.testing.assert_array_equal(vars(part)[name], vars(checked)[name])
        assert not vars(part)[name].flags.writeable
    for name in ("weight", "per_step", "channels"):
        assert vars(part)[name] == vars(checked)[name]
    assert np.shares_memory(part.u, whole.u)
    assert Recording(np.zeros(3)).part(0, 1).per_step is None


@pytest.mark.parametrize(("start", "stop"), [(-1, 2), (2, 2), (0, 4), (3, 1)])
def test_a_part_outside_the_recording_is_refused(start: int, stop: int) -> None:
    with pytest.raises(ValueError, match="there are no steps"):
        Recording(np.zeros(3)).part(start, stop)
