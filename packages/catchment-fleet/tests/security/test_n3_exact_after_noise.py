"""N3: another plan of the server's undoes neither noise nor the limit on scores."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from catchment.data import Recording
from catchment.errors import RuleError
from catchment.federation import Cost
from catchment.federation.measure import Score
from catchment.privacy import Policy, PrivacyLedger
from tests.security.test_h4_evaluation_is_no_oracle import PLAN, N, victim

pytestmark = pytest.mark.filterwarnings("ignore:statistics are not anonymous")

NAMES = ["ann", "ben", "cat"]


def read(ledger: PrivacyLedger) -> None:
    list(ledger.reading(lambda: [Recording(np.sin(np.arange(300.0)))])())


@pytest.mark.parametrize("kind", ["ridge-statistics", "score"])
def test_nothing_exact_follows_noise(kind: str) -> None:
    ledger = PrivacyLedger({}, Policy())
    read(ledger)
    ledger.charge(Cost(concentrated=0.01), epsilon=1.0, delta=1e-5)
    ledger.upload("with noise", 0, "clipped", "1", NAMES)
    read(ledger)
    with pytest.raises(RuleError, match="released with noise"):
        ledger.upload("without", 0, kind, "2", NAMES)


def test_a_plan_for_each_washout_reads_no_values(tmp_path: Path) -> None:
    """The attack of H4 with plans that differ by a step, each with a model of its own."""
    sums, reasons = [], []
    for washout in range(19, N - 11):
        text = PLAN.format(of="clients").replace("washout = 5", f"washout = {washout}")
        client = victim(tmp_path, text)
        answer = client.scored(client.own_model())
        if answer.kind == "refusal":
            reasons.append(str(answer.facts["reason"]))
        else:
            sums.append(Score.from_message(answer).errors.target_sum[0])
    assert len(sums) == 1  # two differ by a raw value
    assert len(reasons) > 5
    assert all("evaluations" in reason for reason in reasons), reasons[0]
