"""A real deployment with a device among its nodes: exported C behind one, Python in the others."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

pytest.importorskip("flwr", reason="no Flower here; pip install 'catchment[fleet]'")

from catchment.federation import read_run
from catchment.plans import read_plan, run_plan
from catchment_edge.client import EdgeClient
from tests.engine.test_device_plans import PLAN, SECURE, built, running
from tools.fleet.deployment import find_nginx
from tools.fleet.up import run_on, sha256, up

try:
    find_nginx()
except FileNotFoundError as error:
    pytest.skip(str(error), allow_module_level=True)
pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(not shutil.which("gcc"), reason="no gcc here; install build tools"),
]


def test_the_model_is_that_of_python_alone_to_the_byte(tmp_path: Path) -> None:
    program = built(tmp_path, PLAN + SECURE)
    plan = tmp_path / "plan.toml"
    file = read_plan(plan)
    run_plan(file, tmp_path / "alone")
    first = sorted(file.load_data().train)[0]
    with (
        running(program, tmp_path, first) as (address,),
        up(tmp_path / "fleet", plan, devices={first: address}) as deployment,
    ):
        model = run_on(deployment)
        assert EdgeClient(address).hello().has_readout
    assert sha256(model) == sha256(tmp_path / "alone" / "model.safetensors")
    run = read_run(model.parent)
    assert run.rounds["training"][0].n_used == 4
    assert run.rounds["delivery"][0].n_used == 5
