"""A device that the environment names, together with workers: many small clients, the same bits."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")
CODE = """
import hashlib, sys
from pathlib import Path
from catchment.plans import parse_plan, run_plan

plan = parse_plan(Path("plan.toml").read_text(), base=Path())
done = run_plan(plan, Path(sys.argv[1]), workers=int(sys.argv[2]))
assert done.run.rounds["training"][0].n_used == 540
print(hashlib.sha256(Path(sys.argv[1], "model.safetensors").read_bytes()).hexdigest())
print("torch" in sys.modules)
"""
PLAN = """
[data]
source = "wearables"
users = 600
windows_per_user = 10
test = 0.1
test_of = "clients"

[features]
units = 12

[run]
baselines = []
"""


def ended(folder: Path, name: str, workers: int, device: str) -> list[str]:
    """Return the model's SHA-256, and whether the process that asks has loaded torch."""
    env = {**os.environ, "CATCHMENT_DEVICE": device}
    command = [sys.executable, "-c", CODE, name, str(workers)]
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()[-2:]


@pytest.mark.long
def test_workers_compute_on_the_device_that_the_environment_names(tmp_path: Path) -> None:
    (tmp_path / "plan.toml").write_text(PLAN)
    alone, loaded = ended(tmp_path, "alone", 1, "")
    assert loaded == "False"
    on_device, loaded = ended(tmp_path, "device", 1, "cpu")
    assert loaded == "True"
    assert on_device == ended(tmp_path, "both", 2, "cpu")[0] == alone
