"""What a plan will cost before anything of it runs: seconds, memory, bytes, and the model's size.

The plan is run on a few synthetic clients of its shape, twice, with two numbers of them. What grows
with the clients and what does not is told apart by the difference, stage by stage. Numbers of bytes
are those of the messages that were made. Nothing is read but a few of the plan's clients, if they
are here.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from catchment.arrays import Array
from catchment.data import Recording
from catchment.engine import data_of
from catchment.errors import CatchmentError
from catchment.federation import DELIVERY, EVALUATION, TRAINING
from catchment.federation.learn import MANY
from catchment.federation.runs import MODEL, Run
from catchment.plans import About, Files, Origin, PlanData, PlanFile, Recordings, run_plan

LOOKED_AT = 9  # clients whose recordings are counted
RATE = 50.0  # steps a second, where nobody says


@dataclass(frozen=True)
class Shape:
    """What the recordings of a usual client are like.

    Parameters
    ----------
    about
        What clients share.
    recordings, steps
        How many recordings a client has, and of how many steps each.
    n_targets
        Columns of targets; 0 if there are none.
    rate
        Steps a second, where recordings have times.
    """

    about: About
    recordings: int
    steps: int
    n_targets: int
    rate: float | None = None

    @property
    def n_bytes(self) -> int:
        """Of a client's recordings in memory."""
        return 8 * self.recordings * self.steps * (len(self.about.channels) + self.n_targets)


def shape_of(held: PlanData) -> Shape:
    """Return the shape of a usual client, from a few that are read."""
    names = sorted(held.train)
    some = [held.train[name] for name in names[:: max(1, len(names) // LOOKED_AT)]]
    every = [list(data_of(source)()) for source in some]
    first = next(one for own in every for one in own)
    steps = [one.n_steps for own in every for one in own]
    times = first.times
    return Shape(
        held.about,
        max(round(len(steps) / len(every)), 1),
        max(round(float(np.mean(steps))), 1),
        0 if first.y is None else int(first.y.shape[-1]),
        None if times is None or len(times) < 2 else 1 / float(np.median(np.diff(times))),
    )


@dataclass(frozen=True)
class Synthetic(Origin):
    """So many synthetic clients of one shape, as the data of a plan."""

    clients: int
    shape: Shape

    @property
    def has_targets(self) -> bool:
        return self.shape.n_targets > 0

    def load(self, seed: int, data: Path | None, base: Path) -> Recordings:
        clients: Mapping[str, Any] = {
            f"client-{k:05d}": OneSynthetic(seed, k, self.shape) for k in range(self.clients)
        }
        return Recordings(clients, self.shape.about)


@dataclass(frozen=True)
class OneSynthetic:
    """One synthetic client: noise with a level of its own, and targets that follow it."""

    seed: int
    client: int
    shape: Shape

    def __call__(self) -> list[Recording]:
        rng = np.random.default_rng([self.seed, self.client])
        return [self._one(rng, k) for k in range(self.shape.recordings)]

    def _one(self, rng: np.random.Generator, number: int) -> Recording:
        shape, about = self.shape, self.shape.about
        T, K = shape.steps, shape.n_targets
        label = (self.client + number) % max(K, 1)
        u = rng.normal(size=(T, len(about.channels))) + label
        y: Array | None = None
        if about.classes is not None:
            y = np.eye(K)[rng.integers(0, K, T)] if about.per_step else np.eye(K)[label]
        elif K:
            y = rng.normal(size=(T, K)) if about.per_step else rng.normal(size=K)
        times = None if shape.rate is None else np.arange(T) / shape.rate
        per_step = about.per_step if y is not None else None
        return Recording(
            u, y, per_step=per_step, times=times, channels=about.channels, classes=about.classes
        )


NOT_TRIED = ("secure_aggregation", "gaussian_noise")
FEW = 12  # clients of the smaller trial
SECONDS = 1.0  # that the larger one is to take
MOST = 400  # clients of it
MANY_ROUNDS = 4  # rounds of a trial, of trainings that take more
NAME_BYTES = 700  # that this process keeps of a client that trains, whatever the algorithm
SCORE_BYTES = 2500  # and of one that is tested
KEPT_BYTES = 500  # that the state grows by with each client, if it keeps more than a digest
HELD_BYTES = 1 << 28  # of row groups of Parquet files, or of other files' recordings
START, BESIDE = "start", "files, comparison"


@dataclass(frozen=True)
class StageCost:
    """What a stage takes: its clients, seconds, and bytes of all its messages."""

    name: str
    clients: int
    seconds: float
    bytes_up: int
    bytes_down: int


@dataclass(frozen=True)
class Estimate:
    """What a plan will cost.

    Parameters
    ----------
    stages
        In their order; what is not messages comes last.
    upload
        Bytes that one client sends in the training.
    server_bytes, worker_bytes
        Memory at its peak, of the process that runs the plan and of each worker beside it.
    model_bytes
        Of the model's file.
    notes
        What is not in the numbers, in a sentence each.
    """

    clients: int
    steps: int
    workers: int
    stages: tuple[StageCost, ...]
    upload: int
    server_bytes: int
    worker_bytes: int
    model_bytes: int
    notes: tuple[str, ...] = ()

    @property
    def seconds(self) -> float:
        return sum(stage.seconds for stage in self.stages)

    def to_dict(self) -> dict[str, object]:
        """Return everything as JSON has it."""
        return {
            "clients": self.clients,
            "steps": self.steps,
            "workers": self.workers,
            "seconds": self.seconds,
            "bytes_up": sum(stage.bytes_up for stage in self.stages),
            "bytes_down": sum(stage.bytes_down for stage in self.stages),
            "upload": self.upload,
            "server_bytes": self.server_bytes,
            "worker_bytes": self.worker_bytes,
            "model_bytes": self.model_bytes,
            "stages": [vars(stage) for stage in self.stages],
            "notes": list(self.notes),
        }


@dataclass(frozen=True, eq=False)
class Trial:
    """What a run on synthetic clients took: seconds and bytes by stage, clients, kept bytes.

    `whole` are seconds of everything, `tried` of `rounds` rounds of the training were run, and
    `peak` is the most memory that the process has had until then.
    """

    clients: int
    seconds: Mapping[str, float]
    asked: Mapping[str, int]
    up: Mapping[str, int]
    down: Mapping[str, int]
    kept: int
    model: int
    whole: float
    tried: int
    rounds: int
    peak: int

    def per_client(self, stage: str, what: Mapping[str, int]) -> int:
        """Return the bytes of a client's messages in a stage."""
        return round(what[stage] / max(self.asked[stage], 1))


def estimate(
    file: PlanFile,
    *,
    clients: int | None = None,
    steps: int | None = None,
    workers: int = 1,
    data: Path | None = None,
) -> Estimate:
    """Return what a plan will cost, from a trial of about a second on synthetic recordings.

    ValueError, before anything is built, if its statistics cannot be in this machine's memory.

    Parameters
    ----------
    file
        The plan.
    clients
        How many there will be; as many as its data have, if not given.
    steps
        Of each client's recordings; as those of its data, if not given.
    workers
        Processes on cores of their own that serve clients beside the one that runs the plan.
    data
        Directory of public data sets; the usual ones if not given.
    """
    for name, value in (("clients", clients), ("steps", steps), ("workers", workers)):
        if value is not None and value < 1:
            raise ValueError(f"{name} is {value}; pass 1 or more")
    shape, found = _shape(file, clients, steps, data)
    n_clients = clients or found
    file.workflow(shape.about, n_clients=n_clients)  # refused from sizes, or as a run would be
    small = _as_tried(file, n_clients)
    threads = 1 if workers > 1 else None
    since_start = time.process_time()  # imports, nearly all of it
    rounds = file.run.rounds
    first = _tried(small, Synthetic(FEW, shape), threads, rounds)
    few = _tried(small, Synthetic(FEW, shape), threads, rounds)
    more = _tried(small, Synthetic(_more(few), shape), threads, rounds)
    # What is imported and compiled when it is first needed is so in a run, too.
    start = since_start + max(first.whole - few.whole, 0.0)
    return _of(file, small, shape, n_clients, workers, few, more, start)


def _more(few: Trial) -> int:
    """Return how many clients the larger trial has."""
    slowest = max(few.seconds[TRAINING], 1e-3) / FEW / max(few.rounds / few.tried, 1)
    return FEW + min(max(int(SECONDS / slowest), FEW), MOST)


def _shape(
    file: PlanFile, clients: int | None, steps: int | None, data: Path | None
) -> tuple[Shape, int]:
    """Return the shape of a client, and how many there are; nothing is read if all is given."""
    origin = file.origin
    if clients and steps and isinstance(origin, Files) and origin.is_settled:
        about = origin.about()
        timed = origin.time is not None or file.preprocessing.rate is not None
        rate = (file.preprocessing.rate or RATE) if timed else None
        return Shape(about, 1, steps, _n_targets(about, origin), rate), clients
    held = file.load_data(data)
    shape = shape_of(held)
    if steps:
        shape = replace(shape, steps=steps)
    return shape, len(held.names)


def _n_targets(about: About, origin: Files) -> int:
    if about.classes is not None:
        return len(about.classes)
    target = origin.target
    return 0 if target is None else 1 if isinstance(target, str) else len(target)


def _as_tried(file: PlanFile, n_clients: int) -> PlanFile:
    """Return the plan as it is tried: in the clear, few rounds, on clients dealt as they are."""
    learn = dict(file.learn)
    if file.algorithm == "ridge" and learn.get("ridge", "auto") == "auto":
        # As all of the clients would have it, and not as few.
        if file.is_secret:
            learn |= {"ridge": "gcv", "store_per_client": False}
        elif n_clients > MANY and "store_per_client" not in learn:
            learn |= {"ridge": "leave-one-group-out"}
    test = file.sharing.test if isinstance(file.sharing.test, float) else None
    return replace(
        file,
        learn=learn,
        sharing=replace(file.sharing, split=None, test=test, folds=None),
        protections=tuple(one for one in file.protections if one.get("name") not in NOT_TRIED),
        run=replace(file.run, rounds=_fewer(file.run.rounds), client_fraction=1.0, min_clients=1),
    )


def _fewer(rounds: int | None) -> int | None:
    return rounds if rounds is None else min(rounds, MANY_ROUNDS)


def _tried(file: PlanFile, origin: Synthetic, threads: int | None, rounds: int | None) -> Trial:
    """Return what a run on synthetic clients took."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "run"
        began = time.perf_counter()
        try:
            done = run_plan(replace(file, origin=origin), folder, threads=threads)
        except (CatchmentError, ValueError) as error:
            raise ValueError(
                f"what {file.algorithm} takes cannot be said: on synthetic recordings of the "
                f"plan's shape it stops ({error}); run it on a few of its clients instead"
            ) from error
        whole = time.perf_counter() - began
        kept = sum(path.stat().st_size for path in (folder / "states").rglob(f"{TRAINING}*"))
        size = (folder / MODEL).stat().st_size
        return _trial(origin.clients, done.run, whole, kept, size, rounds)


def _trial(
    clients: int, run: Run, whole: float, kept: int, model: int, rounds: int | None
) -> Trial:
    """Return a trial; the rounds of the training that were not tried are as the last that was."""
    tried = len(run.rounds[TRAINING])
    left = max((rounds or tried) - tried, 0)
    every = {
        name: (*own, *([own[-1]] * left if name == TRAINING else ()))
        for name, own in run.rounds.items()
    }
    spent = sum(one.seconds for own in run.rounds.values() for one in own)
    seconds = {name: sum(one.seconds for one in own) for name, own in every.items()}
    return Trial(
        clients,
        {**seconds, BESIDE: max(whole - spent, 0.0)},
        {name: own[0].n_asked for name, own in every.items()},
        {name: sum(one.bytes_up for one in own) for name, own in every.items()},
        {name: sum(one.bytes_down for one in own) for name, own in every.items()},
        kept,
        model,
        whole,
        tried,
        tried + left,
        _peak_bytes(),
    )


def _of(
    file: PlanFile,
    tried: PlanFile,
    shape: Shape,
    n_clients: int,
    workers: int,
    few: Trial,
    more: Trial,
    start: float,
) -> Estimate:
    """Return the estimate that two trials give."""
    n_train, n_test = _dealt(file, shape, n_clients)
    # Of very many clients those that are tested are given the model.
    n_given = n_test if n_train > MANY and n_test else n_clients
    counts = {EVALUATION: n_test, DELIVERY: n_given, BESIDE: n_clients}
    stages = [StageCost(START, 0, start, 0, 0)]
    for name in (*more.asked, BESIDE):
        n = counts.get(name, n_train)
        n_asked = max(round(n * file.run.client_fraction), 1) if name == TRAINING else n
        up, down = (
            n_asked * more.per_client(name, what) if name in more.asked else 0
            for what in (more.up, more.down)
        )
        seconds = _seconds(name, n_asked, workers, few, more)
        stages.append(StageCost(name, n_asked, seconds, up, down))
    server, worker = _memory(tried, shape, (n_train, n_test), workers, few, more)
    return Estimate(
        n_clients,
        shape.recordings * shape.steps,
        workers,
        tuple(stages),
        more.per_client(TRAINING, more.up),
        server,
        worker,
        more.model,
        tuple(_notes(file, more.rounds, more.tried)),
    )


def _memory(
    tried: PlanFile, shape: Shape, counts: tuple[int, int], workers: int, few: Trial, more: Trial
) -> tuple[int, int]:
    """Return the peak memory of the process that runs the plan, and of each worker beside it."""
    n_train, n_test = counts
    kept = max(more.kept - few.kept, 0) / (more.asked[TRAINING] - few.asked[TRAINING])
    if tried.learn.get("ridge") == "leave-one-group-out":
        kept = 0.0  # the trials have had them all
    elif kept > KEPT_BYTES:
        # Files are packed: what the server holds of each client is larger in memory.
        kept = max(kept, (more.peak - few.peak) / (more.clients - few.clients))
    base = _peak_bytes()
    held = min(HELD_BYTES, (n_train + n_test) * shape.n_bytes)
    server = base + round(n_train * (kept + NAME_BYTES)) + n_test * SCORE_BYTES
    return (server + held, 0) if workers == 1 else (server, base + held)


def _seconds(stage: str, n: int, workers: int, few: Trial, more: Trial) -> float:
    """Return what a stage takes with n clients, of whom each worker has its share."""
    small = few.asked.get(stage, few.clients)
    large = more.asked.get(stage, more.clients)
    each = max(more.seconds[stage] - few.seconds[stage], 0.0) / max(large - small, 1)
    fixed = max(more.seconds[stage] - large * each, 0.0)
    return fixed + n * each / (1 if stage == BESIDE else workers)


def _dealt(file: PlanFile, shape: Shape, n_clients: int) -> tuple[int, int]:
    """Return how many clients train, and how many are tested."""
    sharing = file.sharing
    if sharing.test == "folds":
        return n_clients, 0
    if sharing.tests_of(shape.about) != "clients":
        return n_clients, n_clients
    share = sharing.test if isinstance(sharing.test, float) else 0.25
    n_test = max(round(share * n_clients), 1)
    return max(n_clients - n_test, 1), n_test


def _notes(file: PlanFile, rounds: int, tried: int) -> list[str]:
    notes = []
    names = [str(one.get("name")) for one in file.protections if one.get("name") in NOT_TRIED]
    if names:
        notes.append(
            f"{' and '.join(names)}: tried without; secure aggregation takes further messages, "
            "and time that grows with its clients (docs/guides/secure-aggregation)"
        )
    if file.sharing.test == "folds":
        notes.append("the test by folds trains once more for each fold, which is not counted")
    if file.algorithm == "conjugate_gradients" or file.learn.get("upload") == "gradients":
        notes.append(f"how many rounds gradients take depends on the data: {rounds} in the trial")
    elif rounds != tried:
        notes.append(f"tried {tried} of {rounds} rounds")
    return notes


def _peak_bytes() -> int:
    """Return the most memory that this process has had."""
    try:
        import resource
    except ModuleNotFoundError:  # on Windows: about what the library takes
        return 200_000_000
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
