"""Real clients on a real Ray, and in Flower's simulation there, do as those of this process.

One program starts Ray once for both, because that takes long.
"""

from __future__ import annotations

import subprocess
import sys

import pytest


def assert_done(*words: str, seconds: float) -> None:
    command = [sys.executable, "-m", "tests.engine.simulated", *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=seconds)
    assert done.returncode == 0, done.stdout + done.stderr
    # Ray tells of workers that were killed, on the same lines of the terminal.
    said = [line for line in done.stdout.splitlines() if line.endswith(" done")]
    assert said == [f"{word} done" for word in words], done.stdout


@pytest.mark.slow
def test_a_plan_runs_on_a_real_ray() -> None:
    assert_done("command", seconds=600)


@pytest.mark.long
def test_killed_workers_on_ray_then_simulated_plans_and_faults() -> None:
    assert_done("killed", "quick", seconds=600)


@pytest.mark.long
def test_what_ray_gives_up_an_aggregation_and_a_cluster() -> None:
    assert_done("one_sentence", "aggregated", "by_address", "one_call", seconds=900)


@pytest.mark.long
def test_the_apps_of_a_plan_and_plan_files() -> None:
    assert_done("apps", "plan_files", seconds=600)


@pytest.mark.long
def test_every_algorithm_plain_and_hidden_and_many_clients() -> None:
    assert_done("every_algorithm", "many_clients", seconds=1500)
