"""Real clients in a real Ray simulation do as those of this process, to the last bit."""

from __future__ import annotations

import subprocess
import sys

import pytest


def assert_done(*words: str, seconds: float) -> None:
    command = [sys.executable, "-m", "tests.engine.simulated", *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=seconds)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.split("\n")[:-1] == [f"{word} done" for word in words]


def test_plans_faults_and_one_call() -> None:
    assert_done("quick", "one_call", seconds=300)


@pytest.mark.long
def test_the_apps_of_a_plan_and_plan_files() -> None:
    assert_done("apps", "plan_files", seconds=600)


@pytest.mark.long
def test_every_algorithm_plain_and_hidden_and_many_clients() -> None:
    assert_done("every_algorithm", "many_clients", seconds=1500)
