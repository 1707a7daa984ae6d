"""Settings, trainings and rows of the study of what to freeze and what to send."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from statistics import fmean
from typing import Any, Literal

from catchment import Integers
from catchment.wire import replace_file
from catchment_research.partial import Freeze
from reproductions.arena import macro_f1
from reproductions.map_values import counted
from reproductions.study import Value

LAYERS = ("conv1", "conv2", "hidden", "out")
ALL, PAPER, BIASES = "+".join(LAYERS), "conv1+conv2+out", "biases"
TRAINED = (
    ALL,
    PAPER,
    *LAYERS,
    "conv1+conv2",
    "conv1+out",
    "conv2+out",
    "hidden+out",
    BIASES,
)
CHAINS = (LAYERS,)
ECHO = ("readout", "everything")
RIDGE = "exact ridge"
Optimizer = Literal["sgd", "adam"]
PARTS = ("layers", "bits", "dropout", "echo")
WHOLE = (1.0,)


@dataclass(frozen=True, kw_only=True)
class FreezeSettings:
    """What is run.

    Parameters
    ----------
    rates, search_rounds, held_out
        Learning rates are chosen after this many rounds on this many writers whom nobody trains on,
        with a seed of their own.
    dealt_factors
        Where clients train a part of the units: rates to choose from, as multiples of the one that
        was chosen for all units.
    bits
        Of a number sent; the rate is that of integers.
    random, first
        Shares of the units that each client trains; of several it draws one.
    echo_units, readout_rounds, echo_rounds
        Of the echo state network on UCI HAR: rounds of its readout alone, and of more of it.
    readout_rates, echo_rates
        Optimizer and rate, chosen by the validation people after all rounds.
    """

    seeds: tuple[int, ...] = (0, 1, 2)
    search_seed: int = 100
    rounds: int = 60
    search_rounds: int = 30
    cohort: int = 20
    held_out: int = 100
    rates: tuple[float, ...] = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
    dealt_factors: tuple[float, ...] = (1.0, 2.0)
    n_writers: int | None = None
    n_test: int | None = None
    bits: tuple[int, ...] = (8, 4, 2, 1)
    random: tuple[tuple[float, ...], ...] = ((0.5,), (0.25,), (0.75,))
    first: tuple[tuple[float, ...], ...] = ((0.25, 0.5, 0.75, 1.0), (0.5, 1.0))
    echo_set: str = "uci_har"
    echo_units: int = 200
    readout_rounds: int = 500
    echo_rounds: int = 100
    readout_rates: tuple[tuple[Optimizer, float], ...] = (
        ("sgd", 0.1),
        ("sgd", 0.3),
        ("sgd", 1.0),
        ("sgd", 3.0),
        ("sgd", 10.0),
        ("adam", 0.001),
        ("adam", 0.003),
        ("adam", 0.01),
        ("adam", 0.03),
    )
    echo_rates: tuple[tuple[Optimizer, float], ...] = (
        ("sgd", 0.1),
        ("sgd", 0.3),
        ("sgd", 1.0),
        ("sgd", 3.0),
        ("adam", 0.001),
        ("adam", 0.003),
        ("adam", 0.01),
        ("adam", 0.03),
    )
    echo_ridges: tuple[float, ...] = (1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0)
    tolerance: float = 0.01


QUICK = FreezeSettings(
    seeds=(0, 1),
    rounds=2,
    search_rounds=1,
    cohort=2,
    held_out=2,
    rates=(0.1,),
    dealt_factors=(1.0,),
    n_writers=6,
    n_test=50,
    bits=(2,),
    random=((0.5,),),
    first=((0.5, 1.0),),
    echo_set="synthetic",
    echo_units=12,
    readout_rounds=4,
    echo_rounds=2,
    readout_rates=(("sgd", 0.3),),
    echo_rates=(("sgd", 0.3),),
    echo_ridges=(0.1,),
)


@dataclass(frozen=True, kw_only=True)
class Job:
    """One training.

    Parameters
    ----------
    trained
        Which layers; all others are frozen.
    bits
        Of a number sent; 32 is not rounded.
    shares, order
        Of the units that a client trains, and which.
    search
        Whether its rate is tried on writers or people who are held out.
    """

    part: str
    trained: str
    seed: int
    rounds: int
    bits: int = 32
    shares: tuple[float, ...] = WHOLE
    order: Literal["random", "first"] = "random"
    optimizer: Optimizer = "sgd"
    rate: float = 0.0
    search: bool = False

    @property
    def choice(self) -> tuple[Any, ...]:
        """What a rate is chosen for."""
        return self.part, self.trained, self.bits, self.shares, self.order

    @property
    def whole(self) -> tuple[Any, ...]:
        """The choice with the same layers whose changes are sent as they are."""
        return "layers", self.trained, 32, WHOLE, "random"


@dataclass(frozen=True, kw_only=True)
class Row:
    """What came of a training; of a search, the accuracy is on who was held out.

    `bytes_up` and `bytes_down` are of one client in one round, on average. `curve` is the accuracy
    after every round, where it was taken. `classes` counts the answers of a test by class, as
    `class_counts` has them; rows of earlier runs have none.
    """

    job: Job
    data: str
    n_clients: int
    total: int
    numbers: int
    bytes_up: float
    bytes_down: float
    accuracy: float
    largest_class: float
    seconds: float
    curve: tuple[float, ...] = ()
    failed: str = ""
    classes: tuple[tuple[int, ...], ...] = ()

    @property
    def macro_f1(self) -> float:
        """Mean over classes of F1 on the test examples, NaN if it was not counted."""
        return macro_f1(self.classes) if self.classes else float("nan")


def scored(label: Integers, said: Integers) -> dict[str, Any]:
    """Return the accuracy and the counts by class of what was said, as a row has them."""
    return {"accuracy": float((said == label).mean()), "classes": counted(label, said)}


@dataclass(frozen=True, kw_only=True)
class FreezeResult:
    """All rows, as `results/freeze.json` has them."""

    settings: dict[str, Value]
    rows: tuple[Row, ...]
    environment: dict[str, Value] = field(default_factory=dict)
    quick: bool = False

    def save(self, path: Path) -> None:
        """Write the result; a reader finds the old one or the new one, never half of one."""
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path, (json.dumps(asdict(self), indent=1) + "\n").encode())

    def found(self, *, search: bool = False) -> dict[tuple[Any, ...], list[Row]]:
        """Return the rows of the trainings, or of the search for their rates, by what was run."""
        by: dict[tuple[Any, ...], list[Row]] = {}
        for row in sorted(self.rows, key=lambda row: row.job.seed):
            if row.job.search == search and not row.failed:
                by.setdefault(row.job.choice, []).append(row)
        return by


def load_freeze(path: Path) -> FreezeResult:
    """Return a result that was saved."""
    content = json.loads(path.read_text())
    rows = []
    for one in content["rows"]:
        job = Job(**{**one["job"], "shares": tuple(one["job"]["shares"])})
        classes = tuple(map(tuple, one.get("classes", ())))
        rows.append(Row(**{**one, "job": job, "curve": tuple(one["curve"]), "classes": classes}))
    return FreezeResult(**{**content, "rows": tuple(rows)})


def chosen(rows: Iterable[Row]) -> dict[tuple[Any, ...], tuple[Optimizer, float]]:
    """Return the optimizer and rate with the best accuracy on who was held out, by choice.

    Of equal ones the smaller rate is taken, and one with which a training failed is none to choose.
    """
    best: dict[tuple[Any, ...], dict[tuple[Optimizer, float], list[float]]] = {}
    for row in sorted(rows, key=lambda row: row.job.rate):
        if row.job.search and not row.failed:
            rates = best.setdefault(row.job.choice, {})
            rates.setdefault((row.job.optimizer, row.job.rate), []).append(row.accuracy)
    return {
        choice: max(rates, key=lambda rate: fmean(rates[rate])) for choice, rates in best.items()
    }


def searches(settings: FreezeSettings, parts: Iterable[str], rows: Iterable[Row]) -> list[Job]:
    """Return the trainings by which rates are chosen; of sub-networks by what was chosen before."""
    s, found, known = settings, [], chosen(rows)
    for job in choices(settings, parts):
        pairs: tuple[tuple[Optimizer, float], ...] = ()
        if job.part == "layers":
            pairs = tuple(("sgd", rate) for rate in s.rates)
        elif job.part == "dropout" and job.whole in known:
            rate = known[job.whole][1]
            pairs = tuple(("sgd", round(factor * rate, 6)) for factor in s.dealt_factors)
        elif job.part == "echo" and job.trained != RIDGE:
            pairs = s.readout_rates if job.trained == ECHO[0] else s.echo_rates
        rounds = job.rounds if job.part == "echo" else s.search_rounds
        for optimizer, rate in pairs:
            asked = replace(job, seed=s.search_seed, rounds=rounds, search=True)
            found.append(replace(asked, optimizer=optimizer, rate=rate))
    return found


def choices(settings: FreezeSettings, parts: Iterable[str]) -> list[Job]:
    """Return what is compared, each once: neither seeded nor with a rate."""
    s, found = settings, []
    job = Job(part="layers", trained=ALL, seed=0, rounds=s.rounds)
    if "layers" in parts:
        found += [replace(job, trained=trained) for trained in TRAINED]
    for trained in (PAPER, ALL):
        here = replace(job, trained=trained)
        if "bits" in parts:
            found += [replace(here, part="bits", bits=bits) for bits in s.bits]
        if "dropout" in parts:
            dealt = replace(here, part="dropout")
            found += [replace(dealt, shares=shares) for shares in s.random]
            found += [replace(dealt, shares=shares, order="first") for shares in s.first]
    if "echo" in parts:
        lengths = (1, s.readout_rounds, s.echo_rounds)
        echo = replace(job, part="echo")
        for trained, rounds in zip((RIDGE, *ECHO), lengths, strict=True):
            found.append(replace(echo, trained=trained, rounds=rounds))
    return found


def freeze_of(trained: str) -> Freeze:
    """Return what is frozen where only the named layers are trained.

    >>> freeze_of("conv1+out").names
    ('conv2.*', 'hidden.*')
    """
    if trained == BIASES:
        return Freeze(names=("*.weight",))
    return Freeze(names=tuple(f"{name}.*" for name in LAYERS if name not in trained.split("+")))
