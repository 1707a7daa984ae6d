"""Reservoir prompts beside everything they must be compared with, on real weights.

Five tasks (`reproductions.prompt_tasks`, `reproductions.instructed`), the same clients for every
method:

    zero-shot   the language model as it is
    subspace    one prompt p0 + P b for everybody, P from a seed, b trained
    reservoir   b = W z from a reservoir's features z, P from a seed, W trained
    closed-form the same with W from one round of ridge regression, nothing trained on clients
    published   the same with P trained too, as the page has it: all of P travels in every round,
                and with every example its prompt and the gradient of that
    prompt      plain federated prompt tuning: every number of the prompt is trained
    lora        low-rank adapters inside the language model
    ridge       the exact federated readout on the same reservoir features, no language model

On sentences every method takes one gradient step per client and round, averaged at once and applied
by Adam at the server: clients whose classes hardly overlap pull apart with every further step of
their own. Learning rates, LoRA's rank and the controller's size are searched on the development set
with the first seed, by the same rule for all. Sensors begin at the closed-form start and take
several local steps per round.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from reproductions.fedresprompt_values import (
    METHODS,
    TASKS,
    Cell,
    Job,
    PromptResult,
    PromptSettings,
    Variant,
)
from reproductions.places import find
from reproductions.pool import Pool
from reproductions.study import Began, environment


def available(directory: Path | None = None) -> tuple[str, ...]:
    """Return the tasks whose data are on this machine; routing needs none.

    >>> available(Path("no/such/place"))
    ('routing',)
    """
    where = {"instructed": "uci_har"}
    return tuple(
        t for t in TASKS if t == "routing" or find(where.get(t, t), directory=directory) is not None
    )


def fedresprompt(
    settings: PromptSettings,
    tasks: Sequence[str] = TASKS,
    *,
    workers: int = 1,
    quick: bool = False,
    earlier: PromptResult | None = None,
    began: Began | None = None,
    kept: Callable[[PromptResult], None] | None = None,
) -> PromptResult:
    """Return the result of all methods on the tasks.

    Parameters
    ----------
    workers
        Processes that jobs are dealt to; a small language model leaves much of a GPU idle.
    earlier
        A result of the same settings, but for which variants are tried, to go on from: its jobs are
        not run again.
    began
        Called with a line of text as jobs end.
    kept
        Called with what there is so far, whenever a job ends.
    """
    unknown = set(tasks) - set(TASKS)
    if unknown:
        raise ValueError(f"no task is called {min(unknown)!r}; use {', '.join(TASKS)}")
    if earlier is not None and alike(earlier.settings) != alike(settings):
        raise ValueError("the earlier result has other settings; write to another folder")
    say = began or (lambda text: None)
    start = time.perf_counter()
    result = earlier or PromptResult(settings=settings, cells=(), quick=quick)
    before = result.seconds
    result = replace(
        result, settings=settings, environment={**environment(), "device": _device(settings)}
    )

    def note(job: Job, outcome: Cell | Exception) -> None:
        nonlocal result
        if isinstance(outcome, Exception):
            line = f"{job} failed: {outcome!r:.300}"
            result = replace(result, notes=(*result.notes, line))
        else:
            line = described(outcome)
            result = replace(result, cells=(*result.cells, outcome))
        result = replace(result, seconds=before + time.perf_counter() - start)
        say(line)
        if kept:
            kept(result)

    with Pool(partial(_run, settings), workers) as pool:
        for stage in (searches, finals):
            done = {cell.job for cell in result.cells}
            jobs = [j for j in stage(settings, tasks, result.cells) if j not in done]
            for job, outcome in pool.run(jobs):
                note(job, outcome)
    return result


def alike(settings: PromptSettings) -> PromptSettings:
    """Return what a job's outcome depends on besides the job: settings without their variants.

    >>> alike(PromptSettings(seeds=(0,))) == alike(PromptSettings(seeds=(0, 1)))
    True
    """
    return replace(
        settings, seeds=(), sentences=(), sensors=(), routes=(), noises=(), also=(), instructed=()
    )


def _device(settings: PromptSettings) -> str:
    import torch

    if settings.device == "cpu" or not torch.cuda.is_available():
        return "cpu"
    return torch.cuda.get_device_name()


def searches(settings: PromptSettings, tasks: Sequence[str], found: Sequence[Cell]) -> list[Job]:
    """Return the jobs that choose between variants; where there is one, there is no choice."""
    jobs = []
    for task in tasks:
        for method in METHODS:
            options = [v for v in options_of(settings, task) if v.method == method]
            if len(options) > 1:
                jobs += [
                    Job(task=task, variant=v, seed=settings.seeds[0], search=True) for v in options
                ]
    return _in_order(jobs)


def finals(settings: PromptSettings, tasks: Sequence[str], found: Sequence[Cell]) -> list[Job]:
    """Return the jobs with the chosen variants, for all seeds."""
    jobs = []
    for task in tasks:
        chosen = [Variant(method="zero-shot")]
        for method in METHODS:
            options = [v for v in options_of(settings, task) if v.method == method]
            if task == "sst2" and method == "reservoir":
                options = [v for v in options if (v.units + 1) * v.bottleneck <= settings.budget]
            if options:
                chosen.append(best(task, options, found))
        reservoir = next(v for v in chosen if v.method == "reservoir")
        chosen.append(Variant(method="ridge", units=reservoir.units))
        if task == "sst2":
            chosen += settings.also
        if task == "uci_har":
            start = next(v for v in chosen if v.method == "closed-form")
            chosen += [replace(start, noise=noise) for noise in settings.noises]
        jobs += [Job(task=task, variant=v, seed=seed) for v in chosen for seed in settings.seeds]
    return _in_order(jobs)


def options_of(settings: PromptSettings, task: str) -> tuple[Variant, ...]:
    """Return the variants that a task is tried with."""
    of = {
        "sst2": settings.sentences,
        "routing": settings.routes,
        "instructed": settings.instructed,
    }
    return of.get(task, settings.sensors)


def best(task: str, options: Sequence[Variant], found: Sequence[Cell]) -> Variant:
    """Return the variant with the best development accuracy; the first if none was tried."""
    tried = {c.job.variant: c.development for c in found if c.job.task == task and c.job.search}
    return max(options, key=lambda variant: tried.get(variant, -1.0))


def _in_order(jobs: Iterable[Job]) -> list[Job]:
    """Return the jobs that take seconds first, then those that take longest."""
    order = (
        *("largest", "zero-shot", "signal", "ridge", "words", "closed-form", "published"),
        *("reservoir", "scratch", "prompt", "subspace", "lora"),
    )
    return sorted(jobs, key=lambda job: (order.index(job.variant.method), TASKS.index(job.task)))


def _run(settings: PromptSettings, job: Job) -> Cell:
    # Torch and transformers load in the processes that use them.
    from reproductions.fedresprompt_jobs import run

    return run(settings, job)


def described(cell: Cell) -> str:
    """Return one line about a cell."""
    job, v = cell.job, cell.job.variant
    numbers = {
        "rate": v.rate,
        "units": v.units,
        "k": v.bottleneck,
        "rank": v.rank,
        "rounds": v.rounds,
        "noise": v.noise,
    }
    shown = ", ".join(f"{name} {value:g}" for name, value in numbers.items() if value)
    kind = "search" if job.search else f"seed {job.seed}"
    return (
        f"{job.task} {v.method} ({shown}) {kind}: development {cell.development:.4f}, "
        f"test {cell.test:.4f}, {cell.bytes_federated:,} bytes, {cell.seconds:.0f} s"
    )
