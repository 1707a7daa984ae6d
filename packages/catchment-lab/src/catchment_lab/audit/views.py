"""Generated clients of a configuration, all that a server could see of them, and what it found."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, reduce
from operator import add
from typing import Any, Literal, get_args

import numpy as np

from catchment import Array
from catchment.data import Recording
from catchment.features import FeatureMap, Reservoir
from catchment.privacy import Clip, GaussianNoise
from catchment.privacy.dp import Clipped, rounded_normal
from catchment.readout import RidgeStatistics, accumulate
from catchment_lab.audit.attacks import Drive

View = Literal[
    "plain", "plain + row rule", "secure aggregation", "secure + row rule", "secure + noise"
]
VIEWS: tuple[View, ...] = get_args(View)
MOST_CLIENTS = 50
MOST_STEPS = 200_000
PLAIN_ROWS = 20.0
# Of the standard configuration: 100 units on three channels.
STANDARD = Reservoir(units=100, inputs=3, leak_rate=0.3, seed=1)


@dataclass(frozen=True, kw_only=True)
class Setting:
    """What is audited: features, sizes, and the protections that are in place.

    Parameters
    ----------
    features
        The plan's map; the attacker knows it.
    n_inputs
        Channels of a recording; the map's own if not given.
    n_clients
        Clients in a round.
    sequences, steps
        Sequences of a client, and steps of a sequence.
    n_classes
        Classes of the targets; 0 for a forecast of the next step.
    secure
        Whether uploads are summed securely.
    min_clients, rows_per_feature
        The rules of secure aggregation.
    noise
        The plan's noise. If None, what noise of epsilon 4 would do is shown.
    plasticity
        Whether clients also adapt the reservoir by intrinsic plasticity.
    """

    features: FeatureMap = field(default_factory=STANDARD.features)
    n_inputs: int | None = None
    n_clients: int = 20
    sequences: int = 1
    steps: int = 30
    n_classes: int = 0
    secure: bool = False
    min_clients: int = 10
    rows_per_feature: float = 20.0
    noise: GaussianNoise | None = None
    plasticity: bool = True
    seed: int = 0

    def __post_init__(self) -> None:
        if self.n_clients < 2 or self.sequences < 1:
            raise ValueError(
                f"{self.n_clients} clients of {self.sequences} recordings; audit at least 2 of 1"
            )
        if self.channels < 1:
            raise ValueError(f"n_inputs is {self.n_inputs}; pass the channels of a recording")
        if self.steps <= self.features.washout:
            raise ValueError(f"{self.steps} steps end within the washout; audit longer recordings")
        if self.n_classes == 1:
            raise ValueError("n_classes is 1; pass 2 or more, or 0 for a forecast")

    @property
    def channels(self) -> int:
        """Channels of a recording; 0 if neither the map nor the setting says."""
        return self.n_inputs or self.features.n_inputs or 0

    @property
    def configured(self) -> View:
        """What the server sees. Noise that it adds itself hides nothing from it."""
        if not self.secure:
            return "plain"
        if self.noise is None:
            return "secure + row rule"
        return "secure + noise" if self.noise.distributed else "secure aggregation"

    @property
    def rows(self) -> int:
        """Rows of one client."""
        steps = self.steps - self.features.washout
        return self.sequences * (steps if self.features.per_step else 1)

    def capped(self) -> Setting:
        """Return the setting cut to the clients and sequences that can be audited in a minute."""
        clients = min(self.n_clients, MOST_CLIENTS)
        most = max(1, MOST_STEPS // (clients * self.steps))
        return replace(self, n_clients=clients, sequences=min(self.sequences, most))


@dataclass(frozen=True, eq=False)
class World:
    """Generated clients of a setting, and everything that is summed of them."""

    setting: Setting

    @cached_property
    def drive(self) -> Drive:
        """The reservoir, differentiable; only attacks that need one ask for it."""
        features: Any = self.setting.features
        return Drive(features)

    def rows(self, u: Array) -> Array:
        """Return the feature rows (n, F) of one recording."""
        return self.setting.features.rows([u])[0]

    @cached_property
    def clients(self) -> list[list[Recording]]:
        return [generated(self.setting, k) for k in range(self.setting.n_clients)]

    @cached_property
    def statistics(self) -> list[RidgeStatistics]:
        return [accumulate(self.setting.features, data) for data in self.clients]

    @cached_property
    def strangers(self) -> list[RidgeStatistics]:
        """Statistics of clients that took no part."""
        return [
            accumulate(self.setting.features, generated(self.setting, k + 1_000_000))
            for k in range(min(20, self.setting.n_clients))
        ]

    @cached_property
    def total(self) -> RidgeStatistics:
        return reduce(add, self.statistics)

    @cached_property
    def noise(self) -> GaussianNoise:
        if self.setting.noise is not None:
            return self.setting.noise
        clip = Clip.from_public(self.strangers)
        return GaussianNoise(epsilon=4.0, delta=1e-5, clip=clip, min_clients=1, small_cohort=True)

    @cached_property
    def clipped(self) -> list[Clipped]:
        """Every client's vector, clipped."""
        return [self.noise.clip.clipped(s, self.noise.step) for s in self.statistics]

    def with_noise(self, n_clients: int) -> Clipped:
        """Return the noisy sum of the first clients, as a release has it."""
        total = reduce(add, self.clipped[:n_clients])
        steps = rounded_normal(self.noise.spread / self.noise.step, len(total.vector))
        return Clipped(total.vector + steps * self.noise.step, total.n_clients, total.about)

    @cached_property
    def noisy_total(self) -> RidgeStatistics:
        total = self.with_noise(self.setting.n_clients)
        return RidgeStatistics.from_message(self.noise.clip.upload(total))

    @property
    def thin_upload(self) -> bool:
        """Whether a client refuses to send its statistics in the clear."""
        return self.setting.rows < PLAIN_ROWS * self.setting.features.n_features

    @property
    def thin_sum(self) -> bool:
        """Whether clients refuse to take part under secure aggregation."""
        setting = self.setting
        least = setting.rows_per_feature * setting.features.n_features / setting.min_clients
        return setting.rows < least or setting.n_clients < setting.min_clients


def generated(setting: Setting, client: int) -> list[Recording]:
    """Return a generated client: sensor-like channels, each a slow wander and a wave.

    >>> [s.u.shape for s in generated(Setting(sequences=2), 0)]
    [(30, 3), (30, 3)]
    """
    rng = np.random.default_rng([setting.seed, client])
    T, I, K = setting.steps, setting.channels, setting.n_classes
    balance = rng.dirichlet(np.ones(max(K, 1)))
    sequences = []
    for _ in range(setting.sequences):
        label = int(rng.choice(len(balance), p=balance))
        u = _channels(T + 1, I, 0.15 + 0.2 * label, rng)
        per_step = setting.features.per_step
        if K == 0:
            y = u[1:, :1] if per_step else u[-1, :1]
            sequences.append(Recording(u[:-1], y, per_step=per_step))
        else:
            sequences.append(Recording.labeled(u[:-1], label, K, per_step=per_step))
    return sequences


def _channels(T: int, I: int, frequency: float, rng: np.random.Generator) -> Array:
    wander = np.zeros((T, I))
    for t in range(T):
        wander[t] = (0.9 * wander[t - 1] if t else 0.0) + 0.3 * rng.normal(size=I)
    phase = rng.uniform(0, 2 * math.pi, size=I)
    return wander + 0.5 * np.sin(frequency * np.arange(T)[:, None] + phase)


@dataclass(frozen=True)
class Outcome:
    """What one attack recovered in one view: a share from 0 to 1, in a word and in a sentence."""

    score: float
    word: str
    text: str


REFUSED = Outcome(0.0, "refused", "the client refuses to send it")
Attempt = Callable[[World], Outcome]


@dataclass(frozen=True)
class Finding:
    """One attack in every view; at or above the threshold a score counts as a leak."""

    attack: str
    asks: str
    threshold: float
    outcomes: Mapping[View, Outcome]

    def leaks(self, view: View) -> bool:
        return self.outcomes[view].score >= self.threshold


@dataclass(frozen=True)
class Trial:
    """An attack: what it asks, and its attempts on an upload, on a sum and on a noisy sum.

    `ruled` is what the rules on rows leave of it, for uploads and for sums, where they say more
    than that thin statistics are refused. An attack `of_reservoirs` runs one backwards, and so has
    nothing to say of another map.
    """

    attack: str
    asks: str
    threshold: float
    attempts: tuple[Attempt, Attempt, Attempt]
    applies: Callable[[World], bool] = lambda world: True
    ruled: Outcome | None = None
    has_rows: bool = True
    of_reservoirs: bool = False

    def suits(self, world: World) -> bool:
        """Whether the attack can be tried on the map at all."""
        return not self.of_reservoirs or world.setting.features.reservoir is not None

    def run(self, world: World) -> Finding | None:
        """Return what the attack finds in every view, or None if it does not apply."""
        if not self.suits(world) or not self.applies(world):
            return None
        upload, total, noisy = (attempt(world) for attempt in self.attempts)
        upload_ruled, total_ruled = upload, total
        if self.ruled is not None:
            upload_ruled = total_ruled = self.ruled
        elif self.has_rows:
            upload_ruled = REFUSED if world.thin_upload else upload
            total_ruled = REFUSED if world.thin_sum else total
        outcomes: list[Outcome] = [upload, upload_ruled, total, total_ruled, noisy]
        views: dict[View, Outcome] = dict(zip(VIEWS, outcomes, strict=True))
        return Finding(self.attack, self.asks, self.threshold, views)


def relative_error(found: Array, truth: Array) -> float:
    """Return the root mean square error, relative to the truth's own.

    >>> relative_error(np.array([2.0]), np.array([1.0]))
    1.0
    """
    return float(np.sqrt(np.mean((found - truth) ** 2) / np.mean(truth**2)))


def correlation(found: Array, truth: Array) -> float:
    """Return the correlation with the beginning of the truth; 0 where there is too little.

    >>> correlation(np.array([1.0, 2.0, 3.0]), np.array([2.0, 4.0, 6.0, 0.0]))
    1.0
    """
    a, b = found.ravel(), truth[: len(found)].ravel()
    if len(a) < 3 or a.std() == 0 or not np.isfinite(a).all():
        return 0.0
    return float(np.corrcoef(a, b)[0, 1])
