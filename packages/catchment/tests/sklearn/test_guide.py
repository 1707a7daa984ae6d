"""The guide's table of failed checks is what scikit-learn finds, with nothing set."""

from __future__ import annotations

import re
import warnings
from pathlib import Path

import pytest
from sklearn.utils.estimator_checks import check_estimator

import catchment.sklearn

GUIDE = Path(__file__).parents[4] / "docs" / "guides" / "scikit-learn.md"
ROW = re.compile(r"^\| `(\w+)` \| (none|`check.*`) \|$", re.MULTILINE)
TABLE = dict(ROW.findall(GUIDE.read_text(encoding="utf-8")))


def test_every_estimator_is_in_the_table() -> None:
    # A forecaster learns from y first, which scikit-learn has no checks for.
    assert {*TABLE, "YuleWalkerForecaster"} == set(catchment.sklearn.__all__)


@pytest.mark.long
@pytest.mark.parametrize("name", TABLE)
def test_the_table_of_failed_checks_is_right(name: str) -> None:
    estimator = getattr(catchment.sklearn, name)()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        results = check_estimator(estimator, on_skip=None, on_fail=None)
    failed = {one["check_name"] for one in results if one["status"] == "failed"}
    assert len(results) > 40
    assert failed == set(re.findall(r"`(check\w+)`", TABLE[name]))
