"""A run that takes as long as a test wants: each round waits until it is let on.

As a program it runs until it is killed: `python -m tests.watch.runs FOLDER`.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from catchment.engine import LocalEngine
from catchment.federation import TRAINING, AnyPlan, Engine, Engines, Reply, RunFolder
from catchment.federation.runs import reported
from catchment.plans import PlanData, PlanRun, parse_plan

PLAN = """
title = "Steps <b>averaged</b>"

[data]
source = "wearables"
users = 6
windows_per_user = 12
steps = 32

[preprocessing]
scale = "none"

[features]
units = 10

[learn]
algorithm = "gradient"
epochs = 1
optimizer = { name = "adam", learning_rate = 0.02 }

[run]
rounds = ROUNDS
"""
NOISY = """
[[protections]]
name = "gaussian_noise"
epsilon = 2.0
delta = 1e-5
clip = { bound = 4.0 }
min_clients = 3
small_cohort = true
releases = ROUNDS
budget = "LEDGER"
"""
RUDE = "<img src=x onerror=alert(1)>"


@dataclass(eq=False)
class Gate:
    """Lets so many rounds of the training pass."""

    allowed: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))

    def open(self, rounds: int = 1) -> None:
        for _ in range(rounds):
            self.allowed.release()


@dataclass(frozen=True, eq=False)
class Gated(Engine):
    """An engine in which the last client of a training round answers only once it is let on."""

    inner: Engine
    wait: Callable[[], object]
    rude: str = ""

    def clients(self) -> list[str]:
        return [*self.inner.clients(), *([self.rude] if self.rude else [])]

    def ask(self, requests: Mapping[str, bytes]) -> Iterator[Reply]:
        known = {name: request for name, request in requests.items() if name != self.rude}
        for k, reply in enumerate(self.inner.ask(known)):
            if k == len(known) - 1:
                self.wait()
            yield reply
        if self.rude in requests and self.rude:
            yield Reply(self.rude, None, f"no battery {RUDE}")


@dataclass(frozen=True, eq=False)
class Elsewhere(Engines):
    """Clients behind gates, and one more that only refuses, if it has a name."""

    data: PlanData
    wait: Callable[[], object]
    rude: str = ""
    name: str = "elsewhere"

    def allowed(self, stage: str, plan: AnyPlan) -> AnyPlan:
        return plan if stage == TRAINING else replace(plan, protections=())

    def engine(self, stage: str, plan: AnyPlan) -> Engine:
        local = LocalEngine(plan, self.data.at(stage), 1)
        return Gated(local, self.wait, self.rude) if stage == TRAINING else local


def run_in(
    folder: Path,
    wait: Callable[[], object],
    *,
    rounds: int = 4,
    rude: str = "",
    noisy: bool = False,
) -> None:
    """Run a small plan into a folder, as an engine that is not of this library would."""
    ledger = json.dumps(str(folder.with_suffix(".ledger")))
    text = (PLAN + (NOISY if noisy else "")).replace("ROUNDS", str(rounds))
    file = parse_plan(text.replace('"LEDGER"', ledger))
    held = file.load_data()
    workflow = file.workflow(held.about, n_clients=len(held.train))
    with (
        RunFolder(folder, fingerprint=file.fingerprint, plan=file.text, resume=True) as store,
        reported(folder) as tell,
    ):
        plan_run = PlanRun(
            file, workflow, held.about, Elsewhere(held, wait, rude, watch=tell), store
        )
        plan_run.finish(plan_run.run())


@contextmanager
def running(folder: Path, *, rounds: int = 4, rude: str = "") -> Iterator[Gate]:
    """Run it in a thread; at the end of the block all its rounds are let pass."""
    gate, failed = Gate(), []

    def work() -> None:
        try:
            run_in(folder, gate.allowed.acquire, rounds=rounds, rude=rude)
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    try:
        yield gate
    finally:
        gate.open(rounds)
        thread.join(120)
    assert not failed, failed


def wait_until(so: Callable[[], object], seconds: float = 90.0) -> None:
    """Wait until something is so."""
    end = time.monotonic() + seconds
    while not so():
        assert time.monotonic() < end, "it never was so"
        time.sleep(0.05)


if __name__ == "__main__":
    run_in(Path(sys.argv[1]), lambda: time.sleep(0.2), rounds=1000)
