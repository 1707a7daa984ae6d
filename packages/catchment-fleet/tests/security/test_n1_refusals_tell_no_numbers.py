"""N1: no plan makes a client say its numbers, or what is in its files, in a refusal."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from catchment.federation import TRAINING, refusal
from catchment.privacy.secure_aggregation import Ring, encode
from catchment.wire import NOTHING
from catchment_fleet.apps import PlanNode, data_at
from tests.security.fleet import Fleet, RefusedError


def test_a_bound_of_the_servers_choice_reads_no_number() -> None:
    rng = np.random.default_rng(0)
    vectors = {f"c{k}": rng.normal(size=3) * 1e3 for k in range(4)}
    fleet = Fleet.of(vectors, bits=64, bound=2.0)
    request = fleet.until("update").request("update", "c0", NOTHING)
    with pytest.raises(RefusedError, match="too large") as refused:
        fleet.ask("c0", "update", request)
    told = [float(text) for text in re.findall(r"-?\d+\.\d+", str(refused.value))]
    assert not any(np.isclose(vectors["c0"], number).any() for number in told)


def test_what_is_not_finite_is_still_said() -> None:
    with pytest.raises(ValueError, match="not finite"):
        encode(np.array([1.0, np.nan]), Ring())


def test_a_label_of_the_servers_choice_reads_no_cell(tmp_path: Path) -> None:
    """A text column as the label, and classes that are none of its values."""
    (tmp_path / "ann.csv").write_text("u,note\n1.0,a secret\n2.0,another\n")
    (tmp_path / "plan.toml").write_text(
        '[data]\nfiles = "*.csv"\ninputs = ["u"]\nlabel = "note"\nclasses = ["x", "y"]\n'
        "[features]\nunits = 5\n[learn]\nridge = 1.0\n"
    )
    config = {"name": "ann", "data": str(tmp_path / "ann.csv")}
    with pytest.raises(ValueError, match="do not fit the plan") as refused:
        data_at(TRAINING, "ann", PlanNode(config, tmp_path / "plan.toml")._held)
    assert b"secret" not in refusal(refused.value)
