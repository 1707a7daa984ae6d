"""`python -m tools.fleet up`: what it refuses before anything is started."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from catchment.plans import example_plan
from tools.fleet.__main__ import app


def test_up_wants_as_many_nodes_as_the_plan_has_clients(tmp_path: Path) -> None:
    plan = tmp_path / "plan.toml"
    plan.write_text(example_plan("wearables_secure"))
    words = ["up", "--dir", str(tmp_path / "fleet"), "--nodes"]
    for more, message in (
        (["5", "--plan", str(plan)], "nodes is 5, the plan has 4 clients"),
        (["2"], "nodes is 2; secure aggregation needs at least 3"),
    ):
        with pytest.raises(ValueError, match=message):
            CliRunner().invoke(app, [*words, *more], catch_exceptions=False)
