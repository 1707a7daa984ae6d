"""Feature maps on unseen people, and on problems of the UCR archive: accuracy and bytes.

Every client's statistics are made once; a fold is the sum of those who train in it. The ridge, and
the map where there are several, is the one with the least error on training clients left out, as
`federate` chooses it; test clients are looked at once, at the end.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import lru_cache, partial, reduce
from operator import add
from pathlib import Path
from typing import Any

import numpy as np

from catchment import Array, Integers, Model, federate, single_blas_thread
from catchment.data import Preprocessing, Recording
from catchment.features import DefaultMap, FeatureMap, Pipeline
from catchment.federation import LowRankUpload, RoundContext
from catchment.federation.learn import clearly_less, nrmse_of
from catchment.readout import (
    RidgeChoice,
    RidgeStatistics,
    accumulate,
    choose_by_blocks,
    scale_of,
    solve_readout,
)
from catchment.wire import Message
from catchment_research.learn import ConjugateGradients
from reproductions.map_methods import AUTO, LARGE, MAJORITY, METHODS, NOTHING_SET, OVER_ROUNDS
from reproductions.map_sets import FoldedSet, available, folded, label_of
from reproductions.map_values import (
    Key,
    MapCell,
    MapsResult,
    MapsSettings,
    cell_of,
    class_counts,
    network_cells,
)
from reproductions.people import SYNTHETIC
from reproductions.pool import Pool
from reproductions.study import Began, environment

MANY_COLUMNS = 1100  # above, training clients are left out in groups
GROUPS = 8
AUTO_MARGIN = 1.0  # as `federate` has it
AUTO_RULE = "the default stays unless another map is more accurate by a standard error over clients"


@dataclass(frozen=True, eq=False)
class ClientRows:
    """A client's statistics of one map, its feature rows (n, F), and the classes (n,) of them."""

    statistics: RidgeStatistics
    z: Array
    label: Integers


@dataclass(frozen=True)
class Job:
    """One cell to be computed."""

    set: str
    method: str
    seed: int


def maps(
    settings: MapsSettings,
    *,
    sets: Sequence[str] | None = None,
    directory: Path | None = None,
    earlier: MapsResult | None = None,
    beside: Sequence[MapCell] = (),
    workers: int = 1,
    began: Began | None = None,
    kept: Callable[[MapsResult], object] | None = None,
    quick: bool = False,
) -> MapsResult:
    """Return the cells of every set, method and seed.

    Parameters
    ----------
    sets
        Names of `reproductions.map_sets`; all that are on this machine if not given.
    earlier
        A result whose cells need not be computed again, where their maps are the same; sets that
        are not asked for keep theirs.
    beside
        Cells that were computed elsewhere: networks, and other libraries.
    workers
        Processes that cells are dealt to.
    began
        Called with a line of text as cells end.
    kept
        Called with what there is so far, whenever a cell ends.
    """
    say, start = began or (lambda text: None), time.perf_counter()
    names = tuple(sets) if sets else available(directory) or (SYNTHETIC,)
    held = {name: folded(name, directory=directory).within(settings.windows) for name in names}
    before = earlier or MapsResult(settings={}, cells=(), folds={})
    elsewhere = [
        cell for cell in beside if cell.set in held and _same_windows(cell, held[cell.set])
    ]
    result = MapsResult(
        settings={**asdict(settings), "methods": list(chosen_methods(settings))},
        cells=(),
        folds={**before.folds, **{name: data.folds for name, data in held.items()}},
        notes={**before.notes, **{name: data.notes for name, data in held.items()}},
        environment=environment(),
        quick=quick,
    )
    jobs = [job for data in held.values() for job in jobs_of(data, settings)]
    done = {cell.key: cell for cell in before.cells}

    def so_far(found: Mapping[Job, MapCell]) -> MapsResult:
        computed = [found[job] for job in jobs if job in found]
        others = [cell for cell in done.values() if cell.set not in held]
        cells = (*others, *computed, *elsewhere)
        return replace(result, cells=cells, seconds=time.perf_counter() - start)

    found: dict[Job, MapCell] = {}
    work = partial(outcome_of, directory, settings.windows, done)
    with Pool(work, workers) as pool:
        for job, outcome in pool.run(jobs):
            if isinstance(outcome, Exception):
                raise outcome
            found[job] = outcome
            if outcome != done.get(outcome.key):
                say(f"{job.set}, {job.method}, seed {job.seed}: {outcome.accuracy:.4f}")
                if kept:
                    kept(so_far(found))
    return so_far(found)


def jobs_of(data: FoldedSet, settings: MapsSettings) -> Iterator[Job]:
    """Yield the cells of a set; those of large maps where there is one fold, or few rows."""
    for method in chosen_methods(settings):
        if method in LARGE and len(data.folds) > 1:
            continue
        if method == OVER_ROUNDS and data.scale == "own":
            continue
        if method == NOTHING_SET and data.scale != "own":  # dealt cases are scaled by all anyway
            continue
        describe = METHODS[method]
        for seed in range(settings.seeds):
            if describe(seed, data.n_inputs) if describe else seed == 0:
                yield Job(data.name, method, seed)


def outcome_of(
    directory: Path | None, windows: int, done: Mapping[Key, MapCell], job: Job
) -> MapCell:
    """Return a job's cell: the one that is done already, where its maps are the same."""
    prepared = _prepared(job.set, directory, windows)
    describe = METHODS[job.method]
    if describe is None:
        return majority(prepared)
    built = [
        one.build(prepared.n_inputs, per_step=False, classes=True)
        for one in describe(job.seed, prepared.n_inputs)
    ]
    known = done.get((job.set, job.method, job.seed))
    if job.method == AUTO and known is not None and AUTO_RULE not in known.remark:
        known = None
    if known is not None and known.classes and known.fingerprint == fingerprint(built, prepared):
        return known
    work = {OVER_ROUNDS: rounds_cell, NOTHING_SET: nothing_set_cell}.get(job.method, map_cell)
    return work(prepared, job.method, job.seed, built)


@lru_cache(maxsize=1)
def _prepared(name: str, directory: Path | None, windows: int) -> Prepared:
    return Prepared.of(folded(name, directory=directory).within(windows))


def _same_windows(cell: MapCell, data: FoldedSet) -> bool:
    """Whether a cell from elsewhere was tested on the same windows of the same people."""
    return dict(cell.windows) == {name: len(data.clients[name]) for name in data.tested}


def chosen_methods(settings: MapsSettings) -> tuple[str, ...]:
    """Return the methods that the settings name; all if they name none."""
    for name in settings.methods:
        if name not in METHODS:
            raise ValueError(f"no method is called {name!r}; use {', '.join(METHODS)}")
    return settings.methods or tuple(METHODS)


@dataclass(frozen=True, eq=False)
class Prepared:
    """A set whose recordings are scaled."""

    data: FoldedSet
    clients: Mapping[str, list[Recording]]

    @classmethod
    def of(cls, data: FoldedSet) -> Prepared:
        """Return a set scaled as it says: each client alone, or by all that train.

        One scale for all is fitted on the training clients of the only fold.
        """
        preprocessing = Preprocessing(scale=data.scale)
        if not preprocessing.is_fitted:
            if len(data.folds) != 1:
                raise ValueError("one scale for all training clients needs one fold; scale by own")
            moments = (preprocessing.moments(data.clients[name]) for name in data.training(0))
            preprocessing = preprocessing.fitted(reduce(add, moments))
        return cls(data, {name: preprocessing.apply(own) for name, own in data.clients.items()})

    @property
    def n_inputs(self) -> int:
        return self.data.n_inputs

    def labels(self, name: str) -> Integers:
        """Return the classes (n,) of a client's recordings."""
        return np.array([label_of(recording) for recording in self.clients[name]])

    @property
    def windows(self) -> dict[str, int]:
        return {name: len(self.clients[name]) for name in self.data.tested}

    def outcome(self, said: Mapping[str, Integers]) -> dict[str, Any]:
        """Return what a cell has of the classes (n,) that were said of every test client."""
        own = {name: self.labels(name) for name in self.data.tested}
        n = len(self.data.classes)
        counts = sum(class_counts(label, said[name], n) for name, label in own.items())
        return {
            "windows": self.windows,
            "correct": {name: int((said[name] == label).sum()) for name, label in own.items()},
            "classes": tuple(map(tuple, np.asarray(counts).tolist())),
        }


def fingerprint(built: Sequence[FeatureMap], prepared: Prepared) -> str:
    """Return a hash of the maps and of whose windows they saw."""
    said = {
        "maps": [one.fingerprint for one in built],
        "folds": prepared.data.folds,
        "windows": {name: len(own) for name, own in prepared.clients.items()},
        "scale": prepared.data.scale,
    }
    return hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()[:16]


def majority(prepared: Prepared) -> MapCell:
    """Return the cell of whoever always says the class that training clients have most."""
    said: dict[str, Integers] = {}
    for fold, tested in enumerate(prepared.data.folds):
        known = np.concatenate([prepared.labels(name) for name in prepared.data.training(fold)])
        most = np.bincount(known).argmax()
        said |= {name: np.full(len(prepared.clients[name]), most) for name in tested}
    up = 8.0 * len(prepared.data.classes)
    return MapCell(
        set=prepared.data.name,
        method=MAJORITY,
        seed=0,
        **prepared.outcome(said),
        largest_up=up,
        mean_up=up,
        least_up=up,
        client_seconds=0.0,
        server_seconds=0.0,
    )


def map_cell(prepared: Prepared, method: str, seed: int, built: Sequence[FeatureMap]) -> MapCell:
    """Return what the best of some maps does, chosen in every fold by clients left out."""
    data, auto = prepared.data, method == AUTO
    for one in built:  # compiled code is loaded, so that it is not timed
        accumulate(one, next(iter(prepared.clients.values()))[:2], classes=True)
    begun = time.process_time()
    held = [rows_of(one, prepared) for one in built]
    clients = time.process_time() - begun
    said: dict[str, Integers] = {}
    chosen, server = [], 0.0
    for fold, tested in enumerate(data.folds):
        begun = time.process_time()
        training = data.training(fold)
        best, choice = selected(built, held, training, margin=AUTO_MARGIN if auto else 0.0)
        total = reduce(add, (held[best][name].statistics for name in training))
        scale = scale_of(total, built[best].standardize)
        with single_blas_thread():
            readout = solve_readout(total, choice.best, scale=scale)
        server += time.process_time() - begun
        said |= {name: readout(held[best][name].z).argmax(1) for name in tested}
        chosen.append(f"map {best}, ridge {float(np.mean(choice.best)):.3g}")
    sizes, least = uploads(
        held, sorted({n for k in range(len(data.folds)) for n in data.training(k)})
    )
    return MapCell(
        set=data.name,
        method=method,
        seed=seed,
        **prepared.outcome(said),
        columns=sum(one.n_features for one in built),
        largest_up=float(max(sizes)),
        mean_up=float(np.mean(sizes)),
        least_up=float(least),
        client_seconds=clients,
        server_seconds=server / len(data.folds),
        fingerprint=fingerprint(built, prepared),
        chosen=tuple(chosen),
        remark=AUTO_RULE if auto else "",
    )


def nothing_set_cell(
    prepared: Prepared, method: str, seed: int, built: Sequence[FeatureMap]
) -> MapCell:
    """Return what `federate` makes of raw recordings and the default map, with nothing set.

    In every fold, scaling and all. CPU seconds are of all clients and the server together.
    """
    data = prepared.data
    said: dict[str, Integers] = {}
    sent: dict[str, float] = {}
    rounds = 0
    begun = time.process_time()
    for fold, tested in enumerate(data.folds):
        training = {name: list(data.clients[name]) for name in data.training(fold)}
        run = federate(DefaultMap(seed=seed), training, classes=data.classes, threads=1)
        rounds = sum(len(records) for records in run.stages.values())
        for _, notes in run.held.values():
            for entry in notes.entries:
                if entry.direction == "up":
                    sent[entry.client] = sent.get(entry.client, 0) + entry.n_bytes
        said |= {name: classified(run.model, data, name) for name in tested}
    times = [sum(name not in fold for fold in data.folds) for name in sent]
    up = [total / n for total, n in zip(sent.values(), times, strict=True)]
    return MapCell(
        set=data.name,
        method=method,
        seed=seed,
        **prepared.outcome(said),
        columns=built[0].n_features,
        largest_up=max(up),
        mean_up=float(np.mean(up)),
        least_up=max(up),
        rounds=float(rounds),
        client_seconds=(time.process_time() - begun) / len(data.folds),
        fingerprint=fingerprint(built, prepared),
    )


def classified(model: Model, data: FoldedSet, name: str) -> Integers:
    """Return the classes (n,) that a model says of a client's raw recordings."""
    said = model.predict([one.u for one in data.clients[name]])
    return np.array([data.classes.index(one) for one in said])


def rounds_cell(prepared: Prepared, method: str, seed: int, built: Sequence[FeatureMap]) -> MapCell:
    """Return the cell of a map with too many columns for a Gram matrix, solved over rounds.

    Clients send products with the Gram matrix, which is formed nowhere. CPU seconds are of all
    clients and the server together.
    """
    data, (features,) = prepared.data, built
    accumulate(features, next(iter(prepared.clients.values()))[:1], classes=True)
    training = {name: list(data.clients[name]) for name in data.training(0)}
    begun = time.process_time()
    pipeline = Pipeline(Preprocessing(scale=data.scale), features)
    run = federate(pipeline, training, classes=data.classes, upload=ConjugateGradients, threads=1)
    seconds = time.process_time() - begun
    said = {name: classified(run.model, data, name) for name in data.tested}
    up = sum(record.bytes_up for record in run.records) / len(training)
    return MapCell(
        set=data.name,
        method=method,
        seed=seed,
        **prepared.outcome(said),
        columns=features.n_features,
        largest_up=up,
        mean_up=up,
        least_up=up,
        rounds=float(len(run.records)),
        client_seconds=seconds,
        fingerprint=fingerprint(built, prepared),
        chosen=(f"ridge {run.records[-1].figures['ridge']:.3g}",),
    )


def rows_of(features: FeatureMap, prepared: Prepared) -> dict[str, ClientRows]:
    """Return every client's statistics and rows."""
    found = {}
    for name, own in prepared.clients.items():
        rows = list[Array]()
        statistics = accumulate(features, own, threads=1, classes=True, rows=rows)
        found[name] = ClientRows(statistics, np.concatenate(rows), prepared.labels(name))
    return found


def selected(
    built: Sequence[FeatureMap],
    held: Sequence[Mapping[str, ClientRows]],
    training: Sequence[str],
    margin: float = 0.0,
) -> tuple[int, RidgeChoice]:
    """Return the map with the least error on training clients left out, and its ridge.

    Maps of many columns leave clients out in groups, which costs less and chooses much the same.
    With a margin maps are compared by the rows that clients left out get right, and the first
    stays that the best is not better than by so many standard errors, as `Candidates` does it.
    """
    choices, errors, wrong = [], [], []
    for one, rows in zip(built, held, strict=True):
        blocks = [rows[name].statistics for name in training]
        if one.n_features > MANY_COLUMNS and len(blocks) > GROUPS:
            blocks = [reduce(add, blocks[g::GROUPS]) for g in range(GROUPS)]
        with single_blas_thread():
            choices.append(choose_by_blocks(blocks, standardize=one.standardize, threads=1))
        total = reduce(add, blocks)
        errors.append(nrmse_of(choices[-1], total) if len(built) > 1 else 0.0)
        if margin:
            wrong.append(_wrong(rows, training, total, choices[-1].best, one.standardize))
    best = min(range(len(built)), key=lambda k: (wrong[k].sum() if margin else 0, errors[k], k))
    if margin:
        others = (k for k in range(best) if not clearly_less(wrong[best], wrong[k], margin))
        best = next(others, best)
    return best, choices[best]


def _wrong(
    rows: Mapping[str, ClientRows],
    training: Sequence[str],
    total: RidgeStatistics,
    ridge: float,
    standardize: bool,
) -> Array:
    """Return how many rows of every client a readout of the others gets wrong."""
    scale, found = scale_of(total, standardize), []
    for name in training:
        own = rows[name]
        with single_blas_thread():
            readout = solve_readout(total - own.statistics, ridge, scale=scale)
        found.append(float((readout(own.z).argmax(1) != own.label).sum()))
    return np.array(found)


def uploads(
    held: Sequence[Mapping[str, ClientRows]], training: Sequence[str]
) -> tuple[list[int], int]:
    """Return the bytes of each training client's statistics, and the least for the largest one.

    The second is what `upload="auto"` sends of the client with most rows; to look for the rank of
    everybody's takes longer than all the rest. Of several maps both are sums: every candidate is
    in one message.
    """
    sizes = [
        sum(len(rows[name].statistics.parts().to_bytes()) for rows in held) for name in training
    ]
    most = max(training, key=lambda name: held[0][name].statistics.n_rows)
    smallest, context = LowRankUpload(), RoundContext(0, ())
    own = [smallest.on_client(rows[most].statistics, context) for rows in held]
    sent = [one if isinstance(one, Message) else one.parts() for one in own]
    return sizes, sum(len(one.to_bytes()) for one in sent)


def cells_beside(folder: Path) -> list[MapCell]:
    """Return the cells that other programs left in a folder: networks, aeon's, pooled readouts."""
    cells: list[MapCell] = []
    networks = folder / "maps_networks.json"
    if networks.is_file():
        cells += network_cells(json.loads(networks.read_text()))
    for path in (folder / "maps_aeon.json", folder / "maps_pooled.json"):
        if path.is_file():
            cells += [cell_of(one) for one in json.loads(path.read_text())]
    return cells
