"""A readout of few rows is the one that is computed from sums."""

from __future__ import annotations

import numpy as np
import pytest

from catchment.federation import Rows
from catchment.federation.learn import own_path, personalise
from catchment.readout import Readout
from catchment_lab.diagnose import own_readout_of_rows


@pytest.mark.parametrize("standardise", [True, False])
@pytest.mark.parametrize("n", [12, 60])
def test_few_rows_and_sums_agree(n: int, standardise: bool) -> None:
    rng = np.random.default_rng(n)
    z = rng.normal(size=(n, 30)) * rng.uniform(0.1, 5, 30) + 1
    true = rng.normal(size=(30, 2))
    shared = Readout(true + 0.3 * rng.normal(size=true.shape), np.zeros(2))
    y = z @ true + 0.1 * rng.normal(size=(n, 2))
    blocks = Rows.of_arrays(z, y, rng.uniform(0.5, 2, n)).blocks()
    by_sums = personalise(
        shared, blocks, own_path(shared, blocks, standardise=standardise), classes=False
    )
    by_rows = own_readout_of_rows(shared, blocks, classes=False, standardise=standardise)
    assert by_rows.step == by_sums.step
    assert n < 30 or by_rows.step > 0
    np.testing.assert_allclose(by_rows.errors, by_sums.errors, rtol=1e-7)
    np.testing.assert_allclose(by_rows.readout.weights, by_sums.readout.weights, atol=1e-7)
    np.testing.assert_allclose(by_rows.readout.intercept, by_sums.readout.intercept, atol=1e-6)


def test_one_block_is_not_enough() -> None:
    shared = Readout(np.zeros((1, 1)), np.zeros(1))
    rows = [Rows.of_arrays(np.ones((2, 1)), np.ones((2, 1)))]
    with pytest.raises(ValueError, match="there are 1 blocks"):
        own_readout_of_rows(shared, rows, classes=False, standardise=False)
