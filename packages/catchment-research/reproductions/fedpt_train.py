"""One federated training of `fedpt`, from its plan to its row."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray

from catchment import Integers
from catchment.engine import run_locally
from catchment.errors import FederationError
from catchment.federation import Limits, Plan, Result
from catchment_research.learn import ServerOptimizer
from catchment_research.partial import (
    IGNORED,
    EmnistCnn,
    Examples,
    FederatedTraining,
    FollowTheLeader,
    Freeze,
    PartialNetwork,
    Trained,
    forget_recordings,
    schedule_epsilon,
)
from reproductions.fedpt_data import Augmented
from reproductions.fedpt_keep import PAUSE, Keeping, taken_part
from reproductions.fedpt_simulate import simulate
from reproductions.fedpt_tasks import Task
from reproductions.fedpt_values import FedptSettings, PrivateSettings, Row
from reproductions.map_values import counted

UNEVEN = Limits(over_median=1e9)  # authors differ by far more than ten, and all of them are honest
SIMULATED = (
    "cifar_many",
    "cifar_long",
    "fashion",
    "long",
    "digits",
    "words",
)  # parts whose messages are counted, not sent


def run(
    part: str,
    task: Task,
    freeze: Freeze,
    seed: int,
    *,
    settings: FedptSettings,
    noise: float | None = None,
    rate: float | None = None,
    every: int = 0,
    keep: Path | None = None,
    pause: float = PAUSE,
) -> Row:
    """Return the outcome of one federated training; with a noise, private by DP-FTRL.

    Parameters
    ----------
    rate
        Of the server's learning with a noise, if not that of the settings.
    every
        Rounds between two points of the curve; none if 0.
    keep
        A folder for a file from which the training goes on if it is killed; private ones begin
        anew, since their noise is nobody's to repeat.
    pause
        Seconds between two such files.
    """
    plan = plan_of(part, task, freeze, seed, settings=settings, noise=noise, rate=rate)
    algorithm = cast(FederatedTraining, plan.algorithm)
    rule = algorithm.optimizer if isinstance(algorithm.optimizer, FollowTheLeader) else None
    cohorts = [plan.cohort(list(task.clients), k) for k in range(plan.rounds)]

    def measure(state: Trained) -> float:
        return float(answers(algorithm.result(state), task.test).mean())

    def restore(rounds: int) -> None:
        before = taken_part(plan, task.clients, rounds)
        for client, source in task.clients.items():
            if isinstance(source, Augmented):
                source.drawn = before[client]

    path = None
    if keep is not None and noise is None:
        path = keep / f"{part}-{plan.fingerprint()[:24]}.npz"
    keeper = Keeping(measure, every, path, pause=pause, restore=restore)
    result, peak = _fitted(plan, task, keeper, simulated=part in SIMULATED)
    if rule is not None and any(record.n_used != rule.clients for record in result.records):
        raise FederationError(f"epsilon is for {rule.clients} answers a round; some had fewer")
    label, said = guesses(algorithm.result(result.state), task.test)
    right = said == label
    made = _row(plan, task, result, rule, cohorts, settings.noisy(part))
    if path is not None:
        path.unlink(missing_ok=True)
    return replace(
        made,
        part=part,
        accuracy=float(right.mean()),
        right="".join("01"[int(one)] for one in right) if task.test.y.ndim == 1 else "",
        classes=counted(label, said) if task.test.y.ndim == 1 else (),
        by_client=by_client(task, right),
        peak_mebibytes=peak,
        noise=noise,
        rate=rate,
        curve=tuple(keeper.points),
    )


def plan_of(
    part: str,
    task: Task,
    freeze: Freeze,
    seed: int,
    *,
    settings: FedptSettings,
    noise: float | None = None,
    rate: float | None = None,
) -> Plan[Trained, Any, torch.nn.Module]:
    """Return the plan of one training."""
    private = settings.noisy(part) if noise is not None else None
    rule = None
    if private is not None:
        rule = FollowTheLeader(
            noise_multiplier=noise or 0.0,
            clip=private.clip,
            clients=task.clients_per_round,
            rounds=task.rounds,
            learning_rate=rate or private.rates[bool(freeze.names)],
        )
    return Plan(
        algorithm=training(task, freeze, seed, settings=settings, rule=rule),
        rounds=task.rounds,
        client_fraction=task.clients_per_round / len(task.clients),
        seed=seed,
        limits=UNEVEN,
    )


def _row(
    plan: Plan[Trained, Any, torch.nn.Module],
    task: Task,
    result: Result[Any, Any],
    rule: FollowTheLeader | None,
    cohorts: Sequence[tuple[str, ...]],
    private: PrivateSettings | None,
) -> Row:
    """Return what a training cost and kept secret; how well it does is left open."""
    share = cast(FederatedTraining, plan.algorithm).network.share()
    # The first round sets up libraries and records steps.
    seconds = [record.seconds for record in result.records[1:] or result.records]
    epsilon = strict = None
    if private is not None and rule is not None and rule.noise_multiplier:
        epsilon = schedule_epsilon(rule, cohorts, private.delta)
        strict = schedule_epsilon(rule, cohorts, private.strict_delta)
    return Row(
        part="",
        data=task.name,
        percent=share.percent,
        reduction=share.reduction,
        accuracy=0.0,
        seconds_per_round=float(np.median(seconds)),
        bytes_up_per_client=result.records[-1].bytes_up // result.records[-1].n_used,
        peak_mebibytes=None,
        seed=plan.seed,
        epsilon=epsilon,
        strict_epsilon=strict,
        participations=max(Counter(chain(*cohorts)).values()),
        n_clients=len(task.clients),
        rounds=task.rounds,
    )


def _fitted(
    plan: Plan[Any, Any, Any], task: Task, keeper: Keeping, *, simulated: bool
) -> tuple[Result[Any, Any], float | None]:
    """Return the outcome of a plan, and the mebibytes of a GPU that it took at most."""
    on_gpu = torch.cuda.is_available()
    peaks = [0]
    if on_gpu:
        forget_recordings()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()  # libraries keep workspaces from run to run
        keeper.measure = _aside(keeper.measure, peaks)
    if simulated:
        result = simulate(plan, task.clients, keeper=keeper)
    else:
        result = run_locally(plan, task.clients, threads=4 if on_gpu else 1, keeper=keeper)
    if not on_gpu:
        return result, None
    return result, (max(*peaks, torch.cuda.max_memory_allocated()) - before) / 2**20


def _aside(measure: Callable[[Any], float], peaks: list[int]) -> Callable[[Any], float]:
    """Return a measurement that notes the peak so far and whose own memory does not count."""

    def measured(state: Any) -> float:
        peaks.append(torch.cuda.max_memory_allocated())
        value = measure(state)
        torch.cuda.reset_peak_memory_stats()
        return value

    return measured


def training(
    task: Task,
    freeze: Freeze,
    seed: int,
    *,
    settings: FedptSettings,
    rule: FollowTheLeader | None = None,
) -> FederatedTraining:
    """Return the algorithm of one run, private with a rule."""
    optimizer: ServerOptimizer | FollowTheLeader = task.optimizer if rule is None else rule
    at_once = None
    if torch.cuda.is_available():
        at_once = settings.at_once if task.make is EmnistCnn else task.clients_per_round
    return FederatedTraining(
        network=PartialNetwork(make=task.make, freeze=freeze, seed=seed),
        steps=task.steps,
        schedule=task.schedule,
        optimizer=optimizer,
        clip=None if rule is None else rule.clip,
        at_once=at_once,
    )


def answers(module: torch.nn.Module, test: Examples) -> NDArray[np.bool_]:
    """Return for all targets that count, one after the other, whether their output is largest."""
    label, said = guesses(module, test)
    right: NDArray[np.bool_] = label == said
    return right


def guesses(module: torch.nn.Module, test: Examples) -> tuple[Integers, Integers]:
    """Return all targets that count, one after the other, and what the network says they are."""
    device = next(module.parameters()).device
    found = []
    with torch.no_grad():
        for x, y in batches(test, 250):
            guess = module(torch.from_numpy(x).to(device)).argmax(-1).cpu().numpy()
            found.append((y[y != IGNORED], guess[y != IGNORED]))
    labels, said = zip(*found, strict=True)
    return np.concatenate(labels), np.concatenate(said)


def by_client(task: Task, right: NDArray[np.bool_]) -> tuple[tuple[str, float, float], ...]:
    """Return each client's right answers and examples; nothing where neither is known.

    Where test examples are nobody's, a client's are the test part in the proportions of its own
    classes: the accuracy of each class, times the client's images of it.
    """
    if task.owners:
        names, member = np.unique(np.array(task.owners), return_inverse=True)
        counted = zip(np.bincount(member, right), np.bincount(member), strict=True)
        pairs = zip(names.tolist(), counted, strict=True)
        return tuple((name, float(hits), float(n)) for name, (hits, n) in pairs)
    if not task.classes:
        return ()
    n_classes = len(next(iter(task.classes.values())))
    n = np.bincount(task.test.y, minlength=n_classes)
    rates = np.bincount(task.test.y, right, n_classes) / np.maximum(n, 1)
    return tuple(
        (name, round(float(own @ rates), 4), float(own.sum())) for name, own in task.classes.items()
    )


def batches(examples: Examples, size: int) -> Iterator[tuple[NDArray[Any], NDArray[np.int64]]]:
    for k in range(0, len(examples.x), size):
        yield examples.x[k : k + size], examples.y[k : k + size]


def device_name() -> str:
    """Return what the networks were trained on."""
    return torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu"
