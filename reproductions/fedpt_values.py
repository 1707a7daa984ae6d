"""What `fedpt` is set to do, and what comes of it: settings, trainings, rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from reproductions.study import Value


@dataclass(frozen=True, kw_only=True)
class FedptSettings:
    """How far to go.

    Parameters
    ----------
    noises
        Noise multipliers of the private runs; 0 clips and adds none.
    clip
        Bound of a client's change in the private runs.
    rates
        The private server's learning rate at each noise, with everything trained and in part.
    cifar_rates
        The clients' learning rate with everything trained, and in part.
    precision
        Of products in `cifar` and `text`.
    n_test
        Examples to test on, if not all.
    at_once
        Clients of a group in `writers` and `private` on a GPU; while a group is trained, the
        messages of those before it are packed and read.
    """

    seeds: tuple[int, ...] = (0, 1, 2)
    writers_rounds: int = 60
    writers_cohort: int = 40
    n_writers: int | None = None
    cifar_rounds: int = 50
    cifar_cohort: int = 5
    cifar_clients: int = 10
    cifar_shares: tuple[float, ...] = (100.0, 26.45, 8.07, 3.47, 2.16)
    cifar_rates: tuple[float, float] = (0.02, 0.05)
    text_rounds: int = 40
    text_cohort: int = 5
    text_steps: int = 64
    text_shares: tuple[float, ...] = (100.0, 91.28, 82.56, 73.84)
    private_rounds: int = 30
    private_cohort: int = 20
    noises: tuple[float, ...] = (0.0, 1.0, 4.0)
    rates: tuple[tuple[float, float], ...] = ((0.3, 0.3), (0.1, 0.3), (0.1, 0.3))
    clip: float = 0.3
    delta: float = 1e-3
    precision: Literal["float32", "bfloat16"] = "bfloat16"
    n_test: int | None = None
    at_once: int = 5


QUICK = FedptSettings(
    seeds=(0,),
    writers_rounds=2,
    writers_cohort=3,
    n_writers=8,
    cifar_rounds=1,
    cifar_cohort=2,
    cifar_clients=500,
    text_rounds=1,
    text_cohort=2,
    text_steps=2,
    private_rounds=2,
    private_cohort=3,
    noises=(0.0, 4.0),
    rates=((0.3, 0.3), (0.1, 0.3)),
    precision="float32",
    n_test=100,
)


@dataclass(frozen=True, kw_only=True)
class Row:
    """One run: what was trained, how well it does, and what it cost.

    `seconds_per_round` is the median of all rounds but the first; `epsilon` is for leaving out the
    client that took part most, at the settings' delta.
    """

    part: str
    data: str
    percent: float
    reduction: float
    accuracy: float
    seconds_per_round: float
    bytes_up_per_client: int
    peak_mebibytes: float | None
    seed: int
    noise: float | None = None
    epsilon: float | None = None


@dataclass(frozen=True, kw_only=True)
class FedptResult:
    """All rows, with what is needed to run them again."""

    settings: dict[str, Value]
    rows: tuple[Row, ...]
    environment: dict[str, Value]
    notes: tuple[str, ...] = ()
    quick: bool = False
    seconds: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Run:
    """One training that a table needs."""

    part: str
    percent: float
    seed: int
    noise: float | None = None
