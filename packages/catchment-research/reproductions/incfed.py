"""Tables III to VI of Bacciu et al., "Federated Reservoir Computing Neural Networks", IJCNN 2021.

Ways to train a readout on a share of the subjects, tested on subjects nobody trained on: guessing,
the largest class, the pooled rows in one place, the average of readouts that subjects solve alone
(FedAvg), and the exact sum of statistics (IncFed). One random search serves FedAvg and IncFed, each
of which takes its own best recipe; the ridge is chosen on the validation subjects without another
pass. With all subjects, averaging is also run as it usually is, by rounds of gradient steps.

Eq. 5 prints weights that favor small clients; FedAvg is therefore run with three weightings. How
the tables' connectivity is read is said in `reproductions.connectivity`. The paper names as an
alternative that hyper-parameters be chosen on the smallest share: `choose_at`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from itertools import product
from typing import Any

import numpy as np

from catchment import Array
from catchment.engine import run_locally
from catchment.features import EchoState
from catchment.features.echo_state import Pool
from catchment.federation import Plan
from catchment.federation.learn import FederatedRidge, ReadoutAveraging
from catchment.federation.measure import Dummy
from catchment.readout import Readout
from catchment_lab.search import Space, ridges_of
from reproductions.cells import (
    WEIGHTINGS,
    Cell,
    Chosen,
    Subjects,
    accuracy,
    averaged_path,
    averaged_paths,
    best_of,
    cell,
    exact,
    pooled_readout,
    read_subjects,
    summed,
)
from reproductions.connectivity import Connectivity, Wired, draw
from reproductions.iterative import Averaging, best_curve
from reproductions.people import DESCRIBED, People
from reproductions.sent_back import sent_back
from reproductions.spaces import INCFED_HAR, INCFED_WESAD, Random
from reproductions.study import Began, Measure, Selected, SetResult, Traffic

FEDAVG = {weighting: f"fedavg-{weighting}" for weighting in WEIGHTINGS}
SEARCHED = ("incfed", "fedavg")


@dataclass(frozen=True, kw_only=True)
class IncFedSettings:
    """How far to go.

    Parameters
    ----------
    trials
        Recipes tried.
    repetitions
        Reservoirs, and draws of subjects, over which a cell is averaged.
    shares
        Of the training subjects.
    pool
        How a sequence's states become one row. The mean of W x(t) over a sequence is W times the
        mean state, so "mean" is a vote of the readout at every step.
    steps, search_steps
        Of all subjects together, at most: in the table, and in the search.
    folds
        Groups of people, each of which is tested once (`people.rotations`).
    connectivity
        How the tables' connectivity is read (`reproductions.connectivity`).
    choose_at
        Shares of the training subjects with which recipes are judged: the table's, and others to
        see what a choice from fewer subjects changes.
    rounds
        After which averaging by gradient steps is looked at; none leaves it out.
    local_steps, rates
        What validation chooses from for it.
    """

    trials: int = 30
    repetitions: int = 3
    shares: tuple[float, ...] = (0.25, 0.5, 0.75, 1.0)
    pool: Pool = "mean"
    steps: int = 2_000_000
    search_steps: int = 500_000
    seed: int = 0
    folds: int = 5
    connectivity: Connectivity = "fan_out"
    choose_at: tuple[float, ...] = (1.0, 0.25)
    rounds: tuple[int, ...] = (1, 3, 10, 30, 100, 300, 1000, 3000, 10_000, 30_000)
    local_steps: tuple[int, ...] = (1, 10, 100)
    rates: tuple[float, ...] = (0.3, 1.0, 1.9)


QUICK = IncFedSettings(
    trials=3, repetitions=2, steps=100_000, search_steps=50_000, folds=3, rounds=(1, 10, 100)
)
# The paper has three repetitions and all samples, and does not say how many recipes it tried; the
# same group's FedIP tried 30.
PAPER = IncFedSettings(trials=30, repetitions=3, steps=10**10, search_steps=10**10)


@dataclass(frozen=True)
class Choice:
    """A recipe that was chosen for a method, and its accuracies on training and validation."""

    wired: Wired
    validation: float
    train: float


Choices = Mapping[tuple[str, float], Choice]


def incfed(people: People, settings: IncFedSettings, began: Began | None = None) -> SetResult:
    """Return one split's cells, with the recipes that were selected and what they cost.

    Parameters
    ----------
    began
        Called with a line of text as the parts begin.
    """
    start = time.perf_counter()
    say = began or (lambda text: None)
    people = people.within(settings.steps)
    chosen = select(people.within(settings.search_steps), settings, say)
    cells: list[Cell] = []
    measures: tuple[Measure, ...] = ()
    traffic: tuple[Traffic, ...] = ()
    for repetition in range(settings.repetitions):
        say(f"{people.name}: repetition {repetition + 1} of {settings.repetitions}")
        read = _everyone_read(people, settings, chosen, repetition)
        for share in settings.shares:
            cells += _share_cells(people, settings, read, share, repetition)
        if repetition == 0:
            found, measures = by_rounds(people, settings, read["incfed", settings.choose_at[0]])
            cells += found
            traffic = measured(people, settings, chosen, read) if people.fold == 0 else ()
    selected = tuple(
        Selected(
            named(method, at, settings),
            choice.wired.recipe.to_json(),
            choice.validation,
            settings.pool,
            fold=people.fold,
            train=choice.train,
            wiring=choice.wired.wiring,
        )
        for (method, at), choice in chosen.items()
    )
    return replace(
        SetResult.about(people, cells),
        selected=selected,
        traffic=traffic,
        measures=measures,
        seconds=time.perf_counter() - start,
    )


def space_of(name: str) -> Space:
    """Return the paper's ranges for a data set: those of its HAR for HHAR, of WESAD for others.

    >>> space_of("hhar").units
    (100, 500)
    """
    return INCFED_HAR if name in ("hhar", DESCRIBED) else INCFED_WESAD


def named(method: str, at: float, settings: IncFedSettings) -> str:
    """Return a method's name in the tables, with the share it was chosen at unless it is the first.

    >>> named("incfed", 0.25, IncFedSettings())
    'incfed, chosen at 25%'
    """
    return method if at == settings.choose_at[0] else f"{method}, chosen at {at:.0%}"


def select(people: People, settings: IncFedSettings, say: Began) -> dict[tuple[str, float], Choice]:
    """Return the recipe with the best validation accuracy for each method and share to choose at.

    All are judged in one pass: a share of the subjects is a part of what is read already.
    """
    chooser = Random(np.random.default_rng([settings.seed, 1]))
    best: dict[tuple[str, float], Choice] = {}
    for trial in range(settings.trials):
        say(f"{people.name}: trial {trial + 1} of {settings.trials}")
        space, inputs = space_of(people.name), len(people.channels)
        wired = draw(space, chooser, inputs=inputs, reading=settings.connectivity)
        wired = wired.seeded(settings.seed + trial)
        features = features_of(wired, settings)
        everyone = read_subjects(features, people.train)
        validation = read_subjects(features, people.validation)
        for at, method in product(settings.choose_at, SEARCHED):
            train = {name: everyone[name] for name in people.share(at, settings.seed)}
            judged = TRAINED[method](train, validation)
            if (method, at) not in best or judged.accuracy > best[method, at].validation:
                known = accuracy(judged.readout, train)
                best[method, at] = Choice(wired, judged.accuracy, known)
    return best


def averaged(train: Subjects, validation: Subjects) -> Chosen:
    """Return the average by samples of what subjects solve alone, its ridge by validation."""
    ridges = ridges_of(summed(train))
    return best_of(averaged_path(train, ridges), ridges, validation)


TRAINED: dict[str, Callable[[Subjects, Subjects], Chosen]] = {"incfed": exact, "fedavg": averaged}


def features_of(wired: Wired, settings: IncFedSettings) -> EchoState:
    return EchoState.of(wired.reservoir(), input=False, pool=settings.pool)


def _everyone_read(
    people: People, settings: IncFedSettings, chosen: Choices, repetition: int
) -> dict[tuple[str, float], Subjects]:
    """Return what all subjects are read as in one repetition, by method and share chosen at."""
    fresh = {key: choice.wired.seeded(1000 + repetition) for key, choice in chosen.items()}
    once = {
        wired: read_subjects(features_of(wired, settings), people.everyone)
        for wired in dict.fromkeys(fresh.values())
    }
    return {key: once[wired] for key, wired in fresh.items()}


def _share_cells(
    people: People,
    settings: IncFedSettings,
    read: Mapping[tuple[str, float], Subjects],
    share: float,
    repetition: int,
) -> list[Cell]:
    names = people.share(share, repetition)
    where: dict[str, Any] = {"share": share, "repetition": repetition, "fold": people.fold}
    first, *others = settings.choose_at
    train, validation, test = _parts(people, read["incfed", first], names)
    federated = exact(train, validation)
    pooled = pooled_readout(train, federated.ridge)
    at_one_place = Chosen(pooled, federated.ridge, federated.accuracy)
    cells = [
        _guessed(people, names, share, repetition),
        _largest_class(train, validation, test, where),
        cell("centralized", at_one_place, train=train, test=test, **where),
        cell("incfed", federated, train=train, test=test, pooled=pooled, **where),
    ]
    train, validation, test = _parts(people, read["fedavg", first], names)
    ridges = ridges_of(summed(train))
    for weighting, path in averaged_paths(train, ridges).items():
        best = best_of(path, ridges, validation)
        cells.append(cell(FEDAVG[weighting], best, train=train, test=test, **where))
    for at, method in product(others, SEARCHED):
        train, validation, test = _parts(people, read[method, at], names)
        found = TRAINED[method](train, validation)
        cells.append(cell(named(method, at, settings), found, train=train, test=test, **where))
    return cells


def _parts(
    people: People, read: Subjects, names: tuple[str, ...]
) -> tuple[Subjects, Subjects, Subjects]:
    return (
        {name: read[name] for name in names},
        {name: read[name] for name in people.validation},
        {name: read[name] for name in people.test},
    )


def _guessed(people: People, names: tuple[str, ...], share: float, repetition: int) -> Cell:
    plan = Plan(algorithm=Dummy(how="uniform", classes=people.classes), seed=repetition)
    scores = run_locally(plan, people.test).state
    known = run_locally(plan, {name: people.train[name] for name in names}).state
    assert scores.total is not None
    assert known.total is not None
    by_subject = {name: score.value for name, score in scores.by_client.items()}
    counts = {
        name: score.counts.confusion.tolist()
        for name, score in scores.by_client.items()
        if score.counts is not None
    }
    return Cell(
        "random",
        share,
        repetition,
        scores.total.value,
        known.total.value,
        float("nan"),
        by_subject,
        float("nan"),
        confusions=counts,
        fold=people.fold,
    )


def _largest_class(
    train: Subjects, validation: Subjects, test: Subjects, where: dict[str, Any]
) -> Cell:
    """Return the cell of always saying the class that the training subjects have most of."""
    counts: Array = sum((s.y.sum(axis=0) for s in train.values()), np.zeros(()))
    F = next(iter(train.values())).z.shape[1]
    readout = Readout(np.zeros((F, len(counts))), np.eye(len(counts))[int(counts.argmax())])
    always = Chosen(readout, float("nan"), accuracy(readout, validation))
    return cell("majority", always, train=train, test=test, **where)


def by_rounds(
    people: People, settings: IncFedSettings, read: Subjects
) -> tuple[list[Cell], tuple[Measure, ...]]:
    """Return cells of averaging by gradient steps with all subjects, and how it was trained."""
    if not settings.rounds:
        return [], ()
    train, validation, test = _parts(people, read, tuple(people.train))
    curve = best_curve(
        train,
        validation,
        ridge=exact(train, validation).ridge,
        rounds=settings.rounds,
        tried=[
            Averaging(local_steps=n, learning_rate=rate)
            for n, rate in product(settings.local_steps, settings.rates)
        ],
    )
    where: dict[str, Any] = {"share": 1.0, "repetition": 0, "fold": people.fold}
    cells = [
        cell(f"rounds-{n}", chosen, train=train, test=test, **where)
        for n, chosen in curve.after.items()
    ]
    chosen = asdict(curve.averaging)
    return cells, tuple(
        Measure(name.replace("_", " "), "rounds", float(value), fold=people.fold)
        for name, value in chosen.items()
    )


def measured(
    people: People,
    settings: IncFedSettings,
    chosen: Choices,
    read: Mapping[tuple[str, float], Subjects],
) -> tuple[Traffic, ...]:
    """Return what the plans cost when they are run whole, and check that they give the same.

    The readouts of the table are solved from statistics kept in memory; here the real protocol runs
    on all training subjects, through its codec, and must give the same readouts.
    """
    traffic = []
    at = settings.choose_at[0]
    for method in SEARCHED:
        features = features_of(chosen[method, at].wired.seeded(1000), settings)
        train = {name: read[method, at][name] for name in people.train}
        ridges = ridges_of(summed(train))
        ridge = float(ridges[len(ridges) // 2])
        algorithm: Any
        if method == "incfed":
            algorithm = FederatedRidge(features=features, ridge=ridge, classes=people.classes)
            ours = summed(train).solve(ridge)
        else:
            algorithm = ReadoutAveraging(features=features, ridge=ridge, classes=people.classes)
            ours = averaged_path(train, np.array([ridge]))[0]
        result = run_locally(Plan(algorithm=algorithm), people.train)
        assert result.model is not None
        refuse_difference(method, ours, result.model.readout)
        back = sent_back(result.model.readout, people.train)
        traffic.append(Traffic.of(method, result.records, back))
    return tuple(traffic)


def refuse_difference(method: str, ours: Readout, protocol: Readout) -> None:
    """Raise ArithmeticError if the protocol's readout is not the one solved from memory."""
    scale = float(np.abs(ours.weights).max())
    apart = float(np.abs(ours.weights - protocol.weights).max())
    if not apart <= 1e-8 * scale:
        raise ArithmeticError(
            f"the protocol of {method} gave weights {apart:g} away from those of the table; "
            "one of them is wrong"
        )


def described(settings: IncFedSettings) -> dict[str, Any]:
    """Return the settings, ready for JSON."""
    return {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in asdict(settings).items()
    }
