"""N5: targets of nearly as many values as there are steps are a mistake, not a wide target."""

from __future__ import annotations

import numpy as np
import pytest

from catchment import Recording

U = np.sin(np.arange(50.0))


@pytest.mark.parametrize("n", [45, 47, 49, 51, 53, 55])
def test_targets_that_are_a_few_steps_off_are_refused(n: int) -> None:
    with pytest.raises(ValueError, match=f"targets have {n} values for 50 steps; pass one for"):
        Recording(U, np.zeros(n))
    # Unless somebody says that this is what they are.
    assert Recording(U, np.zeros(n), per_step=False).per_step is False


@pytest.mark.parametrize("n", [1, 2, 10, 44, 50, 100])
def test_other_lengths_mean_what_they_meant(n: int) -> None:
    assert Recording(U, np.zeros(n)).per_step is (n == 50)


def test_a_short_recording_may_have_about_as_many_targets_as_steps() -> None:
    """A class of three in four steps."""
    assert Recording(U[:4], np.array([0.0, 1.0, 0.0])).per_step is False
    assert Recording.labeled(U, "7", [f"{k}" for k in range(48)]).per_step is False
