"""Checks on real clients in a real Ray simulation, to be run as a program: their names are words.

Ray leaves warnings behind that a test session counts as failures, so it has a process of its own;
and starting it takes long, so a check starts it once and looks at many things.
"""

from __future__ import annotations

import hashlib
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flwr.simulation import run_simulation

from catchment.data import Recording
from catchment.engine import Source, data_of, run_locally
from catchment.errors import FederationError, TooFewClientsError
from catchment.federation import ByRound, Memory, Node, Plan, RunFolder, read_run, run
from catchment.federation.learn import FederatedRidge
from catchment.federation.runs import MODEL
from catchment.plans import example_plan, parse_plan, run_plan
from catchment.privacy import PlainStatisticsWarning, SecureAggregation, generate_keys, networked
from catchment.readout import load_model
from catchment_fleet.apps import simulate_plan
from catchment_fleet.flower import (
    Config,
    FlowerEngine,
    Order,
    Terms,
    client_app,
    fit_simulated,
    remind,
    server_app,
    share,
    simulated,
)
from tests.contracts.cases import Case, cases, series, step_features
from tests.engine.on_ray import (
    aggregated,
    by_address,
    command,
    killed,
    one_sentence,
)
from tests.privacy.test_every_algorithm import REFUSED, hideable

# One of each kind of exchange: one round and several, with and without a model sent, by vectors and
# by whole values, compressed, evaluated.
QUICK = (
    "ridge",
    "ridge-increments",
    "gradient-batches",
    "ensemble-classes",
    "plasticity",
    "moments",
    "compressed",
    "evaluation",
)
QUICK_SECURE = ("ridge-gcv", "plasticity")
NAMES = sorted(series())


@dataclass(frozen=True, eq=False)
class Job:
    """A plan, what each client holds, and what each knows before."""

    plan: Plan[Any, Any, Any]
    clients: Mapping[str, Source]
    memories: Mapping[str, dict[str, bytes]] = field(default_factory=dict)


@contextmanager
def world(jobs: Mapping[str, Job]) -> Iterator[FlowerEngine]:
    """Simulate clients that serve every job; a job is a stage."""
    kept = {
        stage: share((job.plan, dict(job.clients), dict(job.memories)))
        for stage, job in jobs.items()
    }

    def serve(order: Order, name: str, memory: Memory) -> Node[Any, Any, Any]:
        plan, clients, memories = kept[order.stage].get()
        # Jobs know nothing of each other: a second evaluation of the same data would be refused.
        if memory.get("job") != order.stage.encode():
            memory.clear()
            memory["job"] = order.stage.encode()
        remind(memory, memories.get(name, {}))
        return Node(name, plan, data_of(clients[name]), memory)

    with simulated(serve, NAMES) as engine:
        yield engine


PUBLIC = generate_keys(NAMES)
MEMORIES = PUBLIC.memories


def secured(case: Case) -> Job | None:
    plan = hideable(case)
    if plan is None:
        return None
    masking = SecureAggregation(
        identities=PUBLIC, federation=case.name, min_clients=3, rows_per_feature=2
    )
    hidden = replace(plan, protections=(*plan.protections, masking))
    return Job(hidden, case.clients, {name: dict(known) for name, known in MEMORIES.items()})


def state_bytes(plan: Plan[Any, Any, Any], state: Any) -> bytes:
    return plan.algorithm.save_state(state).to_bytes()


def check_same(engine: FlowerEngine, stage: str, job: Job) -> None:
    there = run(job.plan, engine.at(stage))
    memories: dict[str, Memory] = {name: dict(known) for name, known in job.memories.items()}
    here = run_locally(job.plan, job.clients, memories=memories)
    assert state_bytes(job.plan, there.state) == state_bytes(job.plan, here.state), stage
    counts = [(r.n_asked, r.n_used, r.refused) for r in there.records]
    assert counts == [(r.n_asked, r.n_used, r.refused) for r in here.records], stage


def jobs_of(plain: tuple[str, ...], secure: tuple[str, ...]) -> dict[str, Job]:
    jobs = {case.name: Job(case.plan, case.clients) for case in cases() if case.name in plain}
    for case in cases():
        job = secured(case) if case.name in secure else None
        if job is not None:
            jobs[f"{case.name}-secure"] = job
    return jobs


def ridge(**settings: Any) -> Plan[Any, Any, Any]:
    algorithm = FederatedRidge(features=step_features(), ridge=0.1, store_per_client=False)
    return Plan(algorithm=algorithm, **settings)


def bad_data() -> Any:
    raise ValueError("the sensor's file is cut off")


def broken() -> Any:
    raise RuntimeError("a mistake in the program")


def asleep() -> Any:
    time.sleep(20)


def quick(_: Path) -> None:
    jobs = jobs_of(QUICK, QUICK_SECURE)
    spoilt = {
        "bad": _with(NAMES[0], bad_data),
        "mistake": _with(NAMES[1], broken),
        "slow": _with(NAMES[2], asleep),
    }
    jobs["carried"] = carried()
    faults = {stage: Job(ridge(seed=k), who) for k, (stage, who) in enumerate(spoilt.items())}
    with world({**jobs, **faults, "agreed": Job(ridge(seed=9), series())}) as engine:
        assert engine.clients() == NAMES
        for stage, job in jobs.items():
            check_same(engine, stage, job)
        check_faults(engine, faults)
        with pytest.raises(TooFewClientsError, match="another plan than this client agreed to"):
            run(ridge(seed=8), engine.at("agreed"))


def carried() -> Job:
    """Return a job whose clients hold what is new in a round and carry the rest."""
    clients = {}
    for name, (whole,) in series().items():
        named = replace(whole, name="series")
        clients[name] = ByRound([named.part(0, 20)], [named.part(20, whole.n_steps)])
    algorithm = FederatedRidge(features=step_features(), ridge=0.1, increments="new")
    return Job(Plan(algorithm=algorithm, rounds=2), clients)


def check_faults(engine: FlowerEngine, faults: Mapping[str, Job]) -> None:
    reasons = {
        "bad": (NAMES[0], "refused", "the sensor's file is cut off"),
        "mistake": (NAMES[1], "refused", "RuntimeError: a mistake in the program"),
        "slow": (NAMES[2], "no-answer", "it did not answer within 10 s"),
    }
    for stage, (client, code, reason) in reasons.items():
        plan = faults[stage].plan
        done = run(plan, replace(engine.at(stage), timeout=10.0))
        (record,) = done.records
        (refused,) = record.refused
        assert (refused.client, refused.code, record.n_used) == (client, code, 3)
        assert reason in refused.reason, refused
        others = {name: held for name, held in series().items() if name != client}
        assert state_bytes(plan, done.state) == state_bytes(plan, run_locally(plan, others).state)


def _with(name: str, source: Source) -> dict[str, Source]:
    return {**series(), name: source}


def one_call(folder: Path) -> None:
    masking = SecureAggregation(identities=PUBLIC, min_clients=3, rows_per_feature=2)
    plan = ridge(protections=(masking,), rounds=2)
    digests = []
    for name, how in (("here", run_locally), ("there", fit_simulated)):
        with RunFolder(folder / name, fingerprint=plan.fingerprint()) as store:
            keeper = store.keeper("training", plan)
            known: dict[str, Memory] = {client: dict(held) for client, held in MEMORIES.items()}
            result: Any = how(plan, series(), keeper=keeper, memories=known)
            store.save_model(result.model)
        digests.append(hashlib.sha256((folder / name / MODEL).read_bytes()).hexdigest())
    assert digests[0] == digests[1]
    with pytest.raises(ValueError, match="there are no clients"):
        fit_simulated(plan, {})


def apps(folder: Path) -> None:
    """A plan in Python as a server app and a client app, run twice on one folder."""
    held = {f"node-{k}": [_wave(np.random.default_rng(k), 400)] for k in range(3)}
    plan = ridge(rounds=2)

    def load(config: Config) -> Any:
        return held[f"node-{config['partition-id']}"]

    results: list[Any] = []
    terms = Terms(expect=3, wait=300.0, allow_plain_statistics=True)
    server = server_app(plan, folder / "run", terms=terms, done=results.append)
    client = client_app(plan, load, allow_plain_statistics=True)
    for _ in range(2):
        run_simulation(server, client, 3)
    first, second = results
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PlainStatisticsWarning)
        agreed = networked(plan, allow_plain_statistics=True)
    here = run_locally(agreed, held)
    for there in results:
        assert state_bytes(plan, there.state) == state_bytes(plan, here.state)
    # The second run took the first one's rounds, times included.
    assert first.records == second.records
    assert load_model(folder / "run" / MODEL) is not None


def plan_files(folder: Path) -> None:
    """A plan file with secure aggregation, and one in several stages with other test clients."""
    for name in ("wearables_secure", "wearables"):
        file = parse_plan(example_plan(name))
        there = simulate_plan(file, folder / f"{name}-there").read_bytes()
        run_plan(file, folder / f"{name}-here")
        assert there == (folder / f"{name}-here" / MODEL).read_bytes()
        scores = [read_run(folder / f"{name}-{where}").scores[""] for where in ("here", "there")]
        assert scores[0] == scores[1]


def every_algorithm(_: Path) -> None:
    names = tuple(case.name for case in cases() if sorted(case.clients) == NAMES)
    assert len(names) > 30
    jobs = jobs_of(names, names)
    with world(jobs) as engine:
        for stage, job in jobs.items():
            if stage.removesuffix("-secure") in REFUSED and stage.endswith("-secure"):
                with pytest.raises(FederationError):
                    run(job.plan, engine.at(stage))
                continue
            check_same(engine, stage, job)


def many_clients(_: Path) -> None:
    rng = np.random.default_rng(0)
    held = {f"c{k:03d}": [_wave(rng)] for k in range(40)}
    plan = ridge()
    few = fit_simulated(plan, held, terms=Terms(in_flight=3, wait=600.0))
    assert state_bytes(plan, few.state) == state_bytes(plan, run_locally(plan, held).state)


def _wave(rng: np.random.Generator, n: int = 30) -> Any:
    return Recording(rng.normal(size=n), rng.normal(size=n))


CHECKS = {
    check.__name__: check
    for check in (
        *(killed, one_sentence, command, aggregated, by_address),
        *(quick, one_call, apps, plan_files, every_algorithm, many_clients),
    )
}

if __name__ == "__main__":
    for word in sys.argv[1:]:
        with tempfile.TemporaryDirectory() as place:
            CHECKS[word](Path(place))
        print(word, "done", flush=True)
