"""FedPT's tables: what freezing most of a network costs in accuracy and saves in everything else.

Sidahmed et al., "Efficient and Private Federated Learning with Partially Trainable Networks",
2021. `fedpt_tasks` has the data, `fedpt_tables` the tables.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import lru_cache, partial
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from catchment.engine.local import run_locally
from catchment.errors import FederationError
from catchment.federation.learn.optimisers import ServerOptimiser
from catchment.federation.limits import Limits
from catchment.federation.loop import Result
from catchment.federation.plan import Plan
from catchment.partial.freeze import Freeze, PartialNetwork
from catchment.partial.ftrl import FollowTheLeader, schedule_epsilon
from catchment.partial.local import IGNORED, Examples
from catchment.partial.training import FederatedTraining, Trained, forget_recordings
from reproductions.fedpt_search import (
    Curve,
    chosen,
    failure,
    finished,
    freezes_of,
    key_of,
    rated,
    runs_of,
    searches_of,
)
from reproductions.fedpt_tasks import Task, task_of
from reproductions.fedpt_values import FedptResult, FedptSettings, Row, Run
from reproductions.networks import EmnistCnn
from reproductions.pool import Pool
from reproductions.study import Began, Value, environment

PACED = 5  # rounds that are timed alone, the first not counted
UNEVEN = Limits(over_median=1e9)  # authors differ by far more than ten, and all of them are honest
PARTS = ("writers", "cifar", "text", "speeches", "private", "hundred", "addresses")


def fedpt(
    settings: FedptSettings,
    *,
    parts: Sequence[str] = PARTS,
    directory: Path | None = None,
    workers: int = 1,
    began: Began | None = None,
    kept: Callable[[FedptResult], object] | None = None,
    earlier: FedptResult | None = None,
    quick: bool = False,
) -> FedptResult:
    """Return the rows of FedPT's tables on the data at hand; invented data where there are none.

    Parameters
    ----------
    parts
        Which of writers (Table 1), cifar (Tables 2 and 4), text and speeches (Table 3, of authors
        and of roles in plays), private, hundred and addresses (Table 5, of digits with few and with
        100 clients a round, and of texts).
    workers
        Processes that trainings are dealt to, each in one of its own. Round times are then measured
        before, a few rounds of every share alone.
    began
        Called with a line of text as runs end.
    kept
        Called with what there is so far, whenever a run ends.
    earlier
        A result whose trainings need not be run again, where its settings are these.
    """
    for part in parts:
        if part not in PARTS:
            raise ValueError(f"fedpt has no part {part!r}; use {', '.join(PARTS)}")
    say, start = began or (lambda text: None), time.perf_counter()
    result = FedptResult(
        settings=_plain(asdict(settings)),
        rows=(),
        environment={**environment(), "torch": torch.__version__, "device": device_name()},
        notes=tuple(_note(part, settings, directory, workers) for part in parts),
        quick=quick,
    )
    work = _Work(settings, directory, workers, finished(earlier, result.settings), say)
    for kind in ("search", "rows"):
        runs = [one for part in parts for one in runs_of(part, settings)]
        if kind == "search":
            runs = [one for part in parts for one in searches_of(part, settings)]
        runs = rated(runs, chosen(result.search)) if kind == "rows" else runs
        found = work.done(runs)
        result = _with(result, kind, [found[one] for one in runs if one in found])
        for one, outcome in work.outcomes([one for one in runs if one not in found]):
            if isinstance(outcome, Exception):
                failure = f"{one.part}: {one} failed: {outcome!r:.300}"
                result = replace(result, notes=(*result.notes, failure))
                say(failure)
                continue
            found[one] = outcome
            result = _with(result, kind, [found[done] for done in runs if done in found])
            result = replace(result, seconds=time.perf_counter() - start)
            if kept:
                kept(result)
    return result


def _with(result: FedptResult, kind: str, rows: Sequence[Row]) -> FedptResult:
    if kind == "search":
        return replace(result, search=tuple(rows))
    return replace(result, rows=tuple(rows))


@dataclass(frozen=True)
class _Work:
    """What trainings need, and those that need not be run again."""

    settings: FedptSettings
    directory: Path | None
    workers: int
    finished: Mapping[Any, Row]
    say: Began

    def done(self, runs: Sequence[Run]) -> dict[Run, Row]:
        """Return those of the trainings that were there before."""
        keys = {one: key_of(one, self.settings) for one in runs}
        return {one: self.finished[key] for one, key in keys.items() if key in self.finished}

    def outcomes(self, runs: Sequence[Run]) -> Iterator[tuple[Run, Row | Exception]]:
        """Yield trainings with what came of them, as they end."""
        alone = {}
        if self.workers > 1 and any(not one.search for one in runs):
            self.say("round times first, one share after another")
            alone = paces(self.settings, self.directory, runs)
        work = partial(outcome_of, self.settings, self.directory)
        with Pool(work, self.workers, fresh=True) as pool:
            for one, outcome in pool.run(runs):
                if isinstance(outcome, Row):
                    seconds = alone.get((one.part, one.percent), outcome.seconds_per_round)
                    outcome = replace(outcome, seconds_per_round=seconds)
                    self.say(described(outcome))
                yield one, outcome


def outcome_of(settings: FedptSettings, directory: Path | None, one: Run) -> Row:
    """Return what came of one training."""
    task, freeze = _task(settings, directory, one), freezes_of(one.part)[one.percent]
    every = settings.cifar_every if one.part == "cifar" and not one.search else 0
    try:
        return run(
            one.part,
            task,
            freeze,
            one.seed,
            settings=settings,
            noise=one.noise,
            rate=one.rate,
            every=every,
        )
    except FederationError as error:
        if not one.search:
            raise
        return failure(one, task, freeze, str(error))


def paces(
    settings: FedptSettings, directory: Path | None, runs: Sequence[Run]
) -> dict[tuple[str, float], float]:
    """Return the seconds of a round by part and share, measured with nothing else going on."""
    found: dict[tuple[str, float], float] = {}
    for one in runs:
        if one.noise is None and (one.part, one.percent) not in found:
            short = replace(_task(settings, directory, one), rounds=PACED)
            freeze = freezes_of(one.part)[one.percent]
            row = run(one.part, short, freeze, one.seed, settings=settings)
            found[one.part, one.percent] = row.seconds_per_round
    return found


def _task(settings: FedptSettings, directory: Path | None, one: Run) -> Task:
    if one.part == "cifar":
        # Images are cut anew whenever a client is asked: every run begins at the first cut.
        return task_of(
            one.part,
            settings,
            directory,
            whole=one.percent == 100.0,
            rate=one.rate,
            search=one.search,
        )
    return _kept_task(one.part, settings, directory, search=one.search)


@lru_cache(maxsize=1)
def _kept_task(part: str, settings: FedptSettings, directory: Path | None, *, search: bool) -> Task:
    """Return the same as `task_of`, read once for the runs that follow each other."""
    return task_of(part, settings, directory, search=search)


def described(row: Row) -> str:
    """Return one line about a row."""
    noise = "" if row.noise is None else f", noise {row.noise:g}"
    rate = "" if row.rate is None else f", rate {row.rate:g}"
    if row.failed:
        return f"{row.part}: {row.percent:.4g} % trained, seed {row.seed}{noise}{rate}: failed"
    return (
        f"{row.part}: {row.percent:.4g} % trained, seed {row.seed}{noise}{rate}: "
        f"{100 * row.accuracy:.2f} % right, {row.seconds_per_round:.2f} s a round"
    )


def _note(part: str, settings: FedptSettings, directory: Path | None, workers: int) -> str:
    task = task_of(part, settings, directory)
    many = "" if workers == 1 else f"; {workers} trainings at once, round times measured alone"
    private = settings.noisy(part)
    if private is None:
        return f"{part}: {task.name}, {task.notes}{many}"
    choice = (
        f"; the server's rates were chosen on {private.held_out} clients whom nobody trained on, "
        f"seeds {', '.join(map(str, private.search_seeds))}"
        if private.candidates
        else ""
    )
    return (
        f"{part}: {task.name}, {task.notes}, {task.clients_per_round} of them in each of "
        f"{task.rounds} rounds; epsilon is for leaving out the client who was drawn most{choice}"
        f"{many}"
    )


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
) -> Row:
    """Return the outcome of one federated training; with a noise, private by DP-FTRL.

    Parameters
    ----------
    rate
        Of the server's learning with a noise, if not that of the settings.
    every
        Rounds between two points of the curve; none if 0.
    """
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
    algorithm = training(task, freeze, seed, settings=settings, rule=rule)
    plan = Plan(
        algorithm=algorithm,
        rounds=task.rounds,
        share=task.clients_per_round / len(task.clients),
        seed=seed,
        limits=UNEVEN,
    )
    share = algorithm.network.share()
    cohorts = [plan.cohort(list(task.clients), k) for k in range(plan.rounds)]
    epsilon = strict = None
    if private is not None and rule is not None and noise:
        epsilon = schedule_epsilon(rule, cohorts, private.delta)
        strict = schedule_epsilon(rule, cohorts, private.strict_delta)

    def measure(state: Trained) -> float:
        return accuracy(algorithm.result(state), task.test)

    curve = Curve(measure, every) if every else None
    result, peak = _fitted(plan, task, curve)
    if rule is not None and any(record.n_used != rule.clients for record in result.records):
        raise FederationError(f"epsilon is for {rule.clients} answers a round; some had fewer")
    # The first round sets up libraries and records steps.
    seconds = [record.seconds for record in result.records[1:] or result.records]
    return Row(
        part=part,
        data=task.name,
        percent=share.percent,
        reduction=share.reduction,
        accuracy=measure(result.state),
        seconds_per_round=float(np.median(seconds)),
        bytes_up_per_client=result.records[-1].bytes_up // result.records[-1].n_used,
        peak_mebibytes=peak,
        seed=seed,
        noise=noise,
        epsilon=epsilon,
        strict_epsilon=strict,
        participations=max(Counter(chain(*cohorts)).values()),
        n_clients=len(task.clients),
        rate=rate,
        rounds=task.rounds,
        curve=tuple(curve.points) if curve else (),
    )


def _fitted(
    plan: Plan[Any, Any, Any], task: Task, curve: Curve | None
) -> tuple[Result[Any, Any], float | None]:
    """Return the outcome of a plan, and the mebibytes of a GPU that it took at most."""
    if not torch.cuda.is_available():
        return run_locally(plan, task.clients, threads=1, keeper=curve), None
    forget_recordings()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()  # libraries keep workspaces from run to run
    peaks: list[int] = []
    if curve is not None:
        curve.measure = _aside(curve.measure, peaks)
    result = run_locally(plan, task.clients, threads=4, keeper=curve)
    return result, (max(*peaks, torch.cuda.max_memory_allocated(), 0) - before) / 2**20


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
    optimiser: ServerOptimiser | FollowTheLeader = task.optimiser if rule is None else rule
    at_once = None
    if torch.cuda.is_available():
        at_once = settings.at_once if task.make is EmnistCnn else task.clients_per_round
    return FederatedTraining(
        network=PartialNetwork(make=task.make, freeze=freeze, seed=seed),
        steps=task.steps,
        schedule=task.schedule,
        optimiser=optimiser,
        clip=None if rule is None else rule.clip,
        at_once=at_once,
    )


def accuracy(module: torch.nn.Module, test: Examples) -> float:
    """Return the share of targets that count whose own output is the largest."""
    device = next(module.parameters()).device
    right = counted = 0
    with torch.no_grad():
        for x, y in batches(test, 250):
            guess = module(torch.from_numpy(x).to(device)).argmax(-1).cpu().numpy()
            right += int(((guess == y) & (y != IGNORED)).sum())
            counted += int((y != IGNORED).sum())
    return right / max(counted, 1)


def batches(examples: Examples, size: int) -> Iterator[tuple[NDArray[Any], NDArray[np.int64]]]:
    for k in range(0, len(examples.x), size):
        yield examples.x[k : k + size], examples.y[k : k + size]


def device_name() -> str:
    """Return what the networks were trained on."""
    return torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu"


def _plain(settings: dict[str, Any]) -> dict[str, Value]:
    plain: dict[str, Value] = json.loads(json.dumps(settings))
    return plain
