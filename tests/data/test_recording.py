from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from catchment.data.recording import Recording


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
    sequence = Recording.labelled(np.zeros((3, 2)), label=1, n_classes=3)
    for same in (sequence, replace(sequence, u=np.ones((3, 2))), replace(sequence, weight=2.0)):
        assert same.per_step is False
        assert same.y is not None
        np.testing.assert_array_equal(same.y, [0.0, 1.0, 0.0])


def test_a_target_can_be_given_later() -> None:
    bare = Recording(np.zeros((3, 2)))
    assert bare.per_step is None
    assert replace(bare, y=np.zeros((3, 4))).per_step is True


def test_labels_per_step() -> None:
    sequence = Recording.labelled(np.zeros((3, 2)), label=0, n_classes=2, per_step=True)
    assert sequence.y is not None
    np.testing.assert_array_equal(sequence.y, [[1.0, 0.0]] * 3)


@pytest.mark.parametrize("label", [-1, 3])
def test_a_label_outside_the_classes_is_refused(label: int) -> None:
    with pytest.raises(ValueError, match=r"outside 0\.\.2"):
        Recording.labelled([0.0], label=label, n_classes=3)


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
