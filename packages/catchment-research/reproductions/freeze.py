"""What to freeze, and what to send of the rest: layers, bits, sub-networks, and the limit case.

    layers    the EMNIST network on digits by writer, each layer and some groups trained alone
    bits      changes rounded to few bits, of the whole network and of the paper's share of it
    dropout   every client trains a part of the hidden units, of the same two
    echo      an echo state network on people's movements: its readout trained by rounds of gradient
              steps (FedPT) beside its exact ridge in one round on the very same frozen states

Learning rates are chosen on writers and people who are neither trained on nor tested.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch

from catchment import Integers
from catchment.engine import run_locally
from catchment.errors import FederationError
from catchment.federation import Limits, Plan
from catchment_research import StochasticQuantization
from catchment_research.partial import (
    Dropout,
    Examples,
    FederatedTraining,
    PartialNetwork,
    forget_recordings,
)
from reproductions.fedpt_data import image_set
from reproductions.fedpt_tasks import Task, held_out_clients, writers_task
from reproductions.freeze_echo import echo_row
from reproductions.freeze_values import (
    CHAINS,
    PARTS,
    RIDGE,
    WHOLE,
    FreezeResult,
    FreezeSettings,
    Job,
    Row,
    choices,
    chosen,
    freeze_of,
    scored,
    searches,
)
from reproductions.places import find
from reproductions.pool import Pool
from reproductions.study import Began, environment

UNEVEN = Limits(over_median=1e9)  # writers differ, and all of them are honest
_STATED = (
    "seeds",
    "rates",
    "factors",
    "bits",
    "random",
    "first",
    "rounds",
    "tolerance",
)  # in rows, or rows


def freeze(
    settings: FreezeSettings,
    *,
    parts: Sequence[str] = PARTS,
    directory: Path | None = None,
    workers: int = 1,
    began: Began | None = None,
    kept: Callable[[FreezeResult], object] | None = None,
    earlier: FreezeResult | None = None,
    quick: bool = False,
) -> FreezeResult:
    """Return all rows of the study; synthetic digits or people where the public ones are missing.

    Parameters
    ----------
    workers
        Processes that trainings are dealt to.
    kept
        Called with what there is so far, whenever a training ends.
    earlier
        A result whose rows need not be run again, where its settings are these.
    """
    for part in parts:
        if part not in PARTS:
            raise ValueError(f"freeze has no part {part!r}; use {', '.join(PARTS)}")
    say = began or (lambda text: None)
    plain = json.loads(json.dumps(asdict(settings)))
    about = {**environment(), "torch": torch.__version__, "device": device_name()}
    result = FreezeResult(settings=plain, rows=(), environment=about, quick=quick)
    if earlier is not None and _relevant(earlier.settings) == _relevant(plain):
        result = replace(result, rows=earlier.rows)
    # Part by part, rates before what is tested: whatever stops, the parts before are whole.
    stages = [(part, search) for part in parts for search in (True, False)]
    with Pool(partial(outcome_of, settings, directory), workers) as pool:
        for part, search in stages:
            asked = searches if search else finals
            jobs = asked(settings, [part], result.rows)
            result = replace(result, rows=tuple(settled(result.rows)))
            done = {row.job for row in result.rows}
            for job, outcome in pool.run([job for job in jobs if job not in done]):
                if isinstance(outcome, Exception):
                    say(f"{job} failed: {outcome!r:.300}")
                    continue
                result = replace(result, rows=(*result.rows, outcome))
                say(described(outcome))
                if kept:
                    kept(result)
    return result


def finals(settings: FreezeSettings, parts: Iterable[str], rows: Iterable[Row]) -> list[Job]:
    """Return the trainings that are tested, with the rates that were chosen for them."""
    rates, found = chosen(rows), []
    for seed in settings.seeds:
        for job in choices(settings, parts):
            if job.trained == RIDGE:
                found.append(replace(job, seed=seed))
                continue
            asked = job.whole if job.part == "bits" else job.choice
            if asked in rates:
                optimizer, rate = rates[asked]
                found.append(replace(job, seed=seed, optimizer=optimizer, rate=rate))
    return found


def settled(rows: Iterable[Row]) -> list[Row]:
    """Return rows without those tested with a rate that is not the one chosen any more."""
    rows = tuple(rows)
    rates = chosen(rows)
    return [
        row
        for row in rows
        if row.job.search
        or rates.get(row.job.whole if row.job.part == "bits" else row.job.choice)
        in (None, (row.job.optimizer, row.job.rate))
    ]


def outcome_of(settings: FreezeSettings, directory: Path | None, job: Job) -> Row:
    """Return what came of one training."""
    forget_recordings()
    if job.part == "echo":
        return echo_row(settings, directory, job)
    return digits_row(settings, directory, job)


def digits_row(settings: FreezeSettings, directory: Path | None, job: Job) -> Row:
    """Return what came of training the EMNIST network on digits by writer."""
    task, started = digits(settings, directory, search=job.search), time.perf_counter()
    dropout = None
    if job.shares != WHOLE:
        dropout = Dropout(chains=CHAINS, share=job.shares, order=job.order)
    algorithm = FederatedTraining(
        network=PartialNetwork(make=task.make, freeze=freeze_of(job.trained), seed=job.seed),
        steps=replace(task.steps, learning_rate=job.rate),
        dropout=dropout,
    )
    plan = Plan(
        algorithm=algorithm,
        rounds=job.rounds,
        client_fraction=task.clients_per_round / len(task.clients),
        protections=() if job.bits == 32 else (StochasticQuantization(bits=cast(Any, job.bits)),),
        seed=job.seed,
        limits=UNEVEN,
    )
    share, labels = algorithm.network.share(), np.bincount(task.test.y)
    row = Row(
        job=job,
        data=task.name,
        n_clients=len(task.clients),
        total=share.total,
        numbers=share.trainable,
        bytes_up=0.0,
        bytes_down=0.0,
        accuracy=0.0,
        largest_class=float(labels.max() / labels.sum()),
        seconds=0.0,
    )
    try:
        result = run_locally(plan, task.clients, threads=2)
    except FederationError as error:
        if not job.search:
            raise
        return replace(row, failed=str(error))
    answers = sum(record.n_used for record in result.records)
    return replace(
        row,
        bytes_up=sum(record.bytes_up for record in result.records) / answers,
        bytes_down=sum(record.bytes_down for record in result.records) / answers,
        seconds=time.perf_counter() - started,
        **scored(task.test.y, said(algorithm.result(result.state), task.test)),
    )


@lru_cache(maxsize=2)
def digits(settings: FreezeSettings, directory: Path | None, *, search: bool) -> Task:
    """Return digits by writer; for a search, tested on writers who are not trained on."""
    synthetic = find("mnist_writers", directory=directory) is None
    images = image_set("mnist_writers", directory, synthetic=synthetic)
    task = writers_task(
        images, rounds=settings.rounds, cohort=settings.cohort, n_writers=settings.n_writers
    )
    return held_out_clients(task, settings.held_out) if search else task.tested_on(settings.n_test)


def said(module: torch.nn.Module, test: Examples, *, at_once: int = 1000) -> Integers:
    """Return the class of each example whose output is the largest."""
    device = next(module.parameters()).device
    with torch.no_grad():
        parts = (torch.from_numpy(test.x[k : k + at_once]) for k in range(0, len(test.x), at_once))
        return np.concatenate([module(x.to(device)).argmax(-1).cpu().numpy() for x in parts])


def described(row: Row) -> str:
    """Return one line about a row."""
    job = row.job
    kind = "held out" if job.search else "test"
    how = f"{job.bits} bits, shares {job.shares} {job.order}, {job.optimizer} {job.rate:g}"
    came = f"failed: {row.failed}" if row.failed else f"{100 * row.accuracy:.2f} % right ({kind})"
    return (
        f"{job.part}: {job.trained}, {how}, seed {job.seed}: {came}, {row.bytes_up:.0f} bytes up, "
        f"{row.seconds:.1f} s"
    )


def device_name() -> str:
    """Return what the networks were trained on."""
    return torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu"


def _relevant(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings that rows depend on and do not state themselves."""
    return {k: v for k, v in settings.items() if not k.endswith(_STATED)}
