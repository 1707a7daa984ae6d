"""Spin tries everything that the models of secure aggregation can do.

The claims hold with the rules, and with a rule taken out the attack that it is against is found:
else a model that can do nothing would pass.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.spin.checks import CHECKS, Check, missing, run

pytestmark = pytest.mark.skipif(bool(missing()), reason=missing())


@pytest.mark.parametrize(
    "check",
    [
        pytest.param(check, id=check.title, marks=[pytest.mark.long] if check.long else [])
        for check in CHECKS
    ],
)
def test_a_model_does_what_is_claimed_of_it(check: Check, tmp_path: Path) -> None:
    found = run(check, tmp_path)
    assert bool(found.failed) == check.finds, found
