"""Reservoir prompts beside everything they must be compared with, on real weights.

Four tasks (`catchment.prompt.tasks`), the same clients for every method:

    zero-shot   the language model as it is
    subspace    one prompt p0 + P b for everybody, P from a seed, b trained
    reservoir   b = W z from a reservoir's features z, P from a seed, W trained
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

import json
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass, field, replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from catchment.experiments.study import Began, Value, environment
from catchment.prompt.weights import SMOLLM2

TASKS = ("routing", "sst2", "uci_har", "motionsense")
METHODS = ("zero-shot", "ridge", "subspace", "reservoir", "prompt", "lora")
STORIES = "stories260k"


@dataclass(frozen=True, kw_only=True)
class Variant:
    """One way to solve a task.

    Parameters
    ----------
    rate
        Learning rate; of a plain prompt in units of the embeddings' spread.
    units, bottleneck
        Of the controller; no units make it constant.
    rank
        Of the adapters.
    noise
        Multiplier of the noise on each bottleneck that leaves a client.
    """

    method: str
    rate: float = 0.0
    units: int = 0
    bottleneck: int = 0
    rank: int = 0
    noise: float = 0.0


def variants(method: str, *numbers: tuple[float, int, int, int]) -> tuple[Variant, ...]:
    """Return variants of a method from (rate, units, bottleneck, rank)."""
    return tuple(
        Variant(method=method, rate=a, units=b, bottleneck=c, rank=d) for a, b, c, d in numbers
    )


SENTENCES = (
    *variants("subspace", (0.01, 0, 256, 0), (0.03, 0, 256, 0)),
    *variants("reservoir", (0.003, 16, 256, 0), (0.01, 16, 256, 0)),
    *variants("reservoir", (0.001, 200, 64, 0), (0.003, 200, 64, 0)),
    *variants("prompt", (0.03, 0, 0, 0), (0.1, 0, 0, 0)),
    *variants("lora", *((rate, 0, 0, rank) for rank in (4, 8, 16) for rate in (1e-3, 3e-3))),
)
SENSORS = (
    *variants("subspace", (0.01, 0, 16, 0)),
    *variants("reservoir", (3e-4, 200, 16, 0), (1e-3, 200, 16, 0), (3e-3, 200, 16, 0)),
)
ROUTES = (*variants("subspace", (0.01, 0, 8, 0)), *variants("reservoir", (0.01, 40, 8, 0)))


@dataclass(frozen=True, kw_only=True)
class PromptSettings:
    """How far to go.

    Parameters
    ----------
    model
        A folder with a language model, or the name of one.
    seeds
        Of the clients' cut, the random matrices and the reservoir.
    length
        Vectors in a prompt.
    rounds, search_rounds
        Of sentences, at the end and in the search; one step per client each.
    sensor_rounds, sensor_steps, sensor_batch
        Of sensors: rounds, local steps in each, and examples of a step.
    sentences, sensors, routes
        Variants that are searched.
    noises
        Multipliers of noise on sensors' prompts in training and use.
    most
        Examples per client and set, at most.
    points
        How often accuracy is looked at on the way.
    """

    model: str = SMOLLM2
    seeds: tuple[int, ...] = (0, 1, 2)
    length: int = 10
    batch_size: int = 32
    rounds: int = 400
    search_rounds: int = 100
    sensor_rounds: int = 16
    sensor_steps: int = 12
    sensor_batch: int = 16
    sentences: tuple[Variant, ...] = SENTENCES
    sensors: tuple[Variant, ...] = SENSORS
    routes: tuple[Variant, ...] = ROUTES
    noises: tuple[float, ...] = (0.02, 0.05, 0.1)
    most: int | None = None
    points: int = 10
    device: str = "auto"
    directory: str | None = None


QUICK = PromptSettings(
    model=STORIES,
    seeds=(0,),
    length=4,
    rounds=16,
    search_rounds=4,
    sensor_rounds=3,
    sensor_steps=6,
    sentences=(
        *variants("subspace", (0.03, 0, 64, 0)),
        *variants("reservoir", (0.01, 16, 64, 0)),
        *variants("prompt", (0.1, 0, 0, 0)),
        *variants("lora", (1e-3, 0, 0, 4), (3e-3, 0, 0, 8)),
    ),
    sensors=variants("reservoir", (1e-3, 60, 16, 0)),
    noises=(0.05,),
    most=60,
    points=4,
)


@dataclass(frozen=True, kw_only=True)
class Job:
    """A variant on a task with a seed; `search` ones only choose the settings of the others."""

    task: str
    variant: Variant
    seed: int
    search: bool = False


@dataclass(frozen=True, kw_only=True)
class Cell:
    """What came of a job, and every byte it took.

    Parameters
    ----------
    trained
        Numbers that travel in every round.
    bytes_up, bytes_down
        Between all clients and the federation's server.
    asked_up, asked_down
        Between all clients and the language model's server while training, where it is not on the
        clients.
    curve
        Rounds, bytes between clients and the federation's server so far, development accuracy.
    extra
        Further figures, such as the ridge that was chosen.
    """

    job: Job
    development: float
    test: float
    trained: int = 0
    rounds: int = 0
    bytes_up: int = 0
    bytes_down: int = 0
    asked_up: int = 0
    asked_down: int = 0
    seconds: float = 0.0
    curve: tuple[tuple[int, int, float], ...] = ()
    extra: dict[str, float] = field(default_factory=dict)

    @property
    def bytes_federated(self) -> int:
        return self.bytes_up + self.bytes_down

    @property
    def bytes_asked(self) -> int:
        return self.asked_up + self.asked_down


@dataclass(frozen=True, kw_only=True)
class PromptResult:
    """All cells, with all that is needed to run them again."""

    settings: PromptSettings
    cells: tuple[Cell, ...]
    quick: bool = False
    seconds: float = 0.0
    environment: dict[str, Value] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def of(self, task: str, method: str, *, noise: float = 0.0) -> tuple[Cell, ...]:
        """Return the final cells of one method on one task, by seed."""
        found = [
            cell
            for cell in self.cells
            if not cell.job.search
            and (cell.job.task, cell.job.variant.method) == (task, method)
            and cell.job.variant.noise == noise
        ]
        return tuple(sorted(found, key=lambda cell: cell.job.seed))

    @property
    def tasks(self) -> tuple[str, ...]:
        return tuple(task for task in TASKS if any(c.job.task == task for c in self.cells))

    def save(self, path: Path) -> None:
        """Write the result as JSON."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({"name": "fedresprompt", **asdict(self)}, indent=1) + "\n")


def load_prompts(path: Path) -> PromptResult:
    """Return a result that was saved."""
    content = json.loads(path.read_text())
    settings: dict[str, Any] = {
        name: tuple(Variant(**v) if isinstance(v, dict) else v for v in value)
        if isinstance(value, list)
        else value
        for name, value in content["settings"].items()
    }
    return PromptResult(
        settings=PromptSettings(**settings),
        cells=tuple(_cell(one) for one in content["cells"]),
        quick=content["quick"],
        seconds=content["seconds"],
        environment=content["environment"],
        notes=tuple(content["notes"]),
    )


def _cell(content: dict[str, Any]) -> Cell:
    job = content["job"]
    curve = tuple((int(a), int(b), float(c)) for a, b, c in content["curve"])
    variant = Variant(**job["variant"])
    return Cell(**{**content, "job": Job(**{**job, "variant": variant}), "curve": curve})


def fedresprompt(
    settings: PromptSettings,
    tasks: Sequence[str] = TASKS,
    *,
    workers: int = 1,
    quick: bool = False,
    began: Began | None = None,
    kept: Callable[[PromptResult], None] | None = None,
) -> PromptResult:
    """Return the result of all methods on the tasks.

    Parameters
    ----------
    workers
        Processes that jobs are dealt to; a small language model leaves most of a GPU idle.
    began
        Called with a line of text as jobs end.
    kept
        Called with what there is so far, whenever a job ends.
    """
    unknown = set(tasks) - set(TASKS)
    if unknown:
        raise ValueError(f"no task is called {min(unknown)!r}; use {', '.join(TASKS)}")
    say = began or (lambda text: None)
    start = time.perf_counter()
    result = PromptResult(settings=settings, cells=(), quick=quick, environment=environment())

    def note(cell: Cell) -> None:
        nonlocal result
        seconds = time.perf_counter() - start
        result = replace(result, cells=(*result.cells, cell), seconds=seconds)
        say(described(cell))
        if kept:
            kept(result)

    with _Pool(settings, workers) as pool:
        for cell in pool.run(searches(settings, tasks)):
            note(cell)
        for cell in pool.run(finals(settings, tasks, result.cells)):
            note(cell)
    return result


def searches(settings: PromptSettings, tasks: Sequence[str]) -> list[Job]:
    """Return the jobs that choose between variants; where there is one, there is no choice."""
    jobs = []
    for task in tasks:
        for method in METHODS:
            options = [v for v in options_of(settings, task) if v.method == method]
            if len(options) > 1:
                jobs += [
                    Job(task=task, variant=v, seed=settings.seeds[0], search=True) for v in options
                ]
    return _longest_first(jobs)


def finals(settings: PromptSettings, tasks: Sequence[str], found: Sequence[Cell]) -> list[Job]:
    """Return the jobs with the chosen variants, for all seeds."""
    jobs = []
    for task in tasks:
        chosen = [Variant(method="zero-shot")]
        for method in METHODS:
            options = [v for v in options_of(settings, task) if v.method == method]
            if options:
                chosen.append(best(task, options, found))
        reservoir = next(v for v in chosen if v.method == "reservoir")
        chosen.append(Variant(method="ridge", units=reservoir.units))
        if task == "uci_har":
            chosen += [replace(reservoir, noise=noise) for noise in settings.noises]
        jobs += [Job(task=task, variant=v, seed=seed) for v in chosen for seed in settings.seeds]
    return _longest_first(jobs)


def options_of(settings: PromptSettings, task: str) -> tuple[Variant, ...]:
    """Return the variants that a task is tried with."""
    return {"sst2": settings.sentences, "routing": settings.routes}.get(task, settings.sensors)


def best(task: str, options: Sequence[Variant], found: Sequence[Cell]) -> Variant:
    """Return the variant with the best development accuracy; the first if none was tried."""
    tried = {c.job.variant: c.development for c in found if c.job.task == task and c.job.search}
    return max(options, key=lambda variant: tried.get(variant, -1.0))


def _longest_first(jobs: Iterable[Job]) -> list[Job]:
    order = ("lora", "prompt", "reservoir", "subspace", "ridge", "zero-shot")
    return sorted(jobs, key=lambda job: (order.index(job.variant.method), TASKS.index(job.task)))


class _Pool:
    """Runs jobs here, or on several processes that each hold a copy of the language model."""

    def __init__(self, settings: PromptSettings, workers: int) -> None:
        self.settings = settings
        self.executor = (
            ProcessPoolExecutor(workers, mp_context=get_context("spawn")) if workers > 1 else None
        )

    def __enter__(self) -> _Pool:
        return self

    def __exit__(self, *_: object) -> None:
        if self.executor:
            self.executor.shutdown(cancel_futures=True)

    def run(self, jobs: Sequence[Job]) -> Iterator[Cell]:
        if self.executor is None:
            for job in jobs:
                yield _run(self.settings, job)
            return
        waiting = [self.executor.submit(_run, self.settings, job) for job in jobs]
        for future in as_completed(waiting):
            yield future.result()


def _run(settings: PromptSettings, job: Job) -> Cell:
    # Torch and transformers load in the processes that use them.
    from catchment.experiments.fedresprompt_jobs import run

    return run(settings, job)


def described(cell: Cell) -> str:
    """Return one line about a cell."""
    job, v = cell.job, cell.job.variant
    numbers = {
        "rate": v.rate,
        "units": v.units,
        "k": v.bottleneck,
        "rank": v.rank,
        "noise": v.noise,
    }
    shown = ", ".join(f"{name} {value:g}" for name, value in numbers.items() if value)
    kind = "search" if job.search else f"seed {job.seed}"
    return (
        f"{job.task} {v.method} ({shown}) {kind}: development {cell.development:.4f}, "
        f"test {cell.test:.4f}, {cell.bytes_federated:,} bytes, {cell.seconds:.0f} s"
    )
