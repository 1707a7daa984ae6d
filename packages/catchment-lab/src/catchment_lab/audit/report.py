"""An audit: our own attacks on generated data of your configuration, under each protection.

They look for what was recorded (whole sequences, single windows, what is new), and who and what
somebody is (class counts, and whether data were used at all). Every attack is run against what the
server would see of generated clients: one client's upload in the clear, the same with the rule on
rows, the exact sum of a secure round without and with that rule, and the sum with noise. An attack
that finds nothing proves nothing; one that finds something proves a leak.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property, reduce
from operator import add
from statistics import NormalDist
from typing import Any, Literal, get_args

import numpy as np

from catchment import Array
from catchment.data import Recording
from catchment.features import FeatureMap, Reservoir, name_of
from catchment.features.echo_state import ACTIVATIONS
from catchment.plugins import installed, plugin
from catchment.privacy import Clip, GaussianNoise
from catchment.privacy.dp import Clipped, rounded_normal
from catchment.readout import RidgeStatistics, accumulate
from catchment_lab.audit.attacks import (
    Drive,
    Walk,
    added_row,
    area_under_curve,
    class_counts,
    class_means,
    first_input,
    input_between,
    leverage,
    membership_score,
    place_of,
    solvable,
    window_of,
)

View = Literal[
    "plain", "plain + row rule", "secure aggregation", "secure + row rule", "secure + noise"
]
VIEWS: tuple[View, ...] = get_args(View)
MOST_CLIENTS = 50
MOST_STEPS = 200_000
PLAIN_ROWS = 20.0
# Of the standard configuration: 100 units on three channels.
STANDARD = Reservoir(units=100, inputs=3, leak_rate=0.3, seed=1)
CLOSE = 0.05  # of the inputs' size: a step counts as recovered below this error
MOST_UNKNOWNS = 60
LONGEST = 100  # steps walked


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


def _walked(world: World, statistics: RidgeStatistics, guesses: int = 16) -> list[Array]:
    """Return the segments of inputs that can be found behind statistics."""
    walk = Walk(world.drive, statistics, guesses=guesses)
    longest = min(world.setting.steps, LONGEST)
    whole = walk.sequences(longest) if world.setting.features.washout == 0 else []
    return whole + (walk.fragments(longest) if len(whole) < 2 or walk.exact else [])


def _recovered(found: list[Array], u: Array) -> tuple[int, float]:
    """Return how many steps of a sequence (T, I) are among what was found, and the worst error."""
    scale = float(np.sqrt(np.mean(u**2)))
    known, worst = np.zeros(len(u), dtype=bool), 0.0
    for segment in found:
        place, error = place_of(segment, u)
        if error < CLOSE * scale:
            known[place : place + len(segment)] = True
            worst = max(worst, error / scale)
    return int(known.sum()), worst


def sequences_of_upload(world: World) -> Outcome:
    truths = [s.u for s in world.clients[0]]
    found = _walked(world, world.statistics[0])
    judged = [_recovered(found, u) for u in truths]
    n_known, n_steps = sum(n for n, _ in judged), sum(map(len, truths))
    if n_known > 0:
        share, error = n_known / n_steps, max(error for _, error in judged)
        text = f"{n_known} of {n_steps} steps, to {error:.0e} of their size"
        return Outcome(share, f"{share:.0%}", text)
    fits = [
        correlation(segment, data[0].u)
        for data, statistics in list(zip(world.clients, world.statistics, strict=True))[:3]
        for segment in _walked(world, statistics)[:1]
        if world.setting.sequences == 1 and world.setting.features.washout == 0
    ]
    return _fitted(fits, "no step exactly; correlation {:.2f}")


def sequences_of_sum(world: World) -> Outcome:
    total, n = world.total, world.setting.n_clients
    if total.n_rows >= total.n_features:
        return Outcome(0.0, f"0 of {n}", f"none of {n} clients: more rows than features")
    found = _walked(world, total, guesses=6 * n)
    hit = sum(any(_recovered(found, s.u)[0] > 0 for s in data) for data in world.clients)
    return Outcome(hit / n, f"{hit} of {n}", f"inputs of {hit} of {n} clients, without their names")


def sequences_of_noise(world: World) -> Outcome:
    # Noise fills every direction, so there is no null space left, whatever the rows.
    full = replace(world.noisy_total, n_rows=world.noisy_total.n_features + 1)
    found = _walked(world, full)[:1]
    fits = [correlation(f, data[0].u) for f in found for data in world.clients]
    return _fitted(fits, "correlation {:.2f} with the clients' inputs")


def _fitted(fits: list[float], text: str) -> Outcome:
    """Return the outcome of a mean correlation; its square is the share that is explained."""
    fit = float(np.mean(fits)) if fits else 0.0
    return Outcome(max(fit, 0.0) ** 2, f"corr {fit:.2f}", text.format(fit))


def tried(attempt: Attempt) -> Attempt:
    """Return the attempt, or a word on why there is none where the window is too long for it."""

    def guarded(world: World) -> Outcome:
        n = world.setting.steps * world.setting.channels
        if n <= MOST_UNKNOWNS and solvable(world.drive, world.setting.steps):
            return attempt(world)
        return Outcome(0.0, "not tried", f"{n} unknowns are too many here; that proves nothing")

    return guarded


def window_of_upload(world: World) -> Outcome:
    """The window of a class that has one; else the one that a later upload adds."""
    statistics, data = world.statistics[0], world.clients[0]
    counts = class_counts(statistics)
    if world.setting.n_classes and (counts == 1).any():
        label = int(np.argmax(counts == 1))
        pooled, how = class_means(statistics)[label], "a class with one window"
        truth = next(s.u for s in data if s.y is not None and s.y[label] == 1)
    else:
        truth, how = data[-1].u, "the difference of two uploads"
        pooled = world.rows(truth)[0]
    found, _ = window_of(pooled, world.drive, world.setting.steps)
    return _fitted([correlation(found, truth)], "correlation {:.2f}, from " + how)


def window_of_sum(world: World) -> Outcome:
    if world.setting.n_classes and (class_counts(world.total) == 1).any():
        return Outcome(1.0, "one", "a class of the cohort has one window: its mean is that window")
    return Outcome(0.0, "no", "no class of the cohort has a single window")


def window_of_noise(world: World) -> Outcome:
    total = world.noisy_total
    pooled = (
        class_means(total)[0]
        if world.setting.n_classes
        else total.floats.feature_sum / total.weight
    )
    found, _ = window_of(pooled, world.drive, world.setting.steps, guesses=1)
    fits = [correlation(found, s.u) for s in world.clients[0]]
    return _fitted(fits, "correlation {:.2f} with a client's windows")


def difference(world: World) -> Outcome:
    """Two uploads one row apart, then a third: the inputs of the last row in closed form."""
    features, sequence = world.setting.features, world.clients[0][-1]
    base, z = world.statistics[-1], world.rows(world.clients[0][-1].u)
    if not features.per_step:
        y = np.atleast_2d(np.asarray(sequence.y))
        row, _ = added_row(base, base + _rows(z, y, base))
        error = relative_error(row, z[0])
        return Outcome(float(error < 1e-6), "exact", f"the new window's features, to {error:.0e}")
    K = base.n_targets
    uploads = [base]
    for t in (-2, -1):
        new = _rows(z[t:][:1], np.zeros((1, K)), base)
        uploads.append(uploads[-1] + new)
    first, _ = added_row(uploads[0], uploads[1])
    second, _ = added_row(uploads[1], uploads[2])
    invertible = len(z) > 1 and features.reservoir is not None
    u = input_between(first, second, world.drive) if invertible else None
    if u is None:
        error = relative_error(second, z[-1])
        return Outcome(float(error < 1e-6), "exact", f"the new row's features, to {error:.0e}")
    error = relative_error(u, sequence.u[-1])
    return Outcome(float(error < 1e-6), "exact", f"the new inputs, to {error:.0e}")


def _rows(z: Array, y: Array, like: RidgeStatistics) -> RidgeStatistics:
    return RidgeStatistics.from_states(z, y, fingerprint=like.fingerprint, fixed=like.fixed)


def difference_of_sums(world: World) -> Outcome:
    found = difference(world)
    return Outcome(found.score, found.word, f"{found.text}, if only one client changed")


def difference_of_noise(world: World) -> Outcome:
    n = world.setting.n_clients
    before, after = world.with_noise(n - 1), world.with_noise(n)
    truth = world.clipped[-1].vector
    fit = correlation(after.vector - before.vector, truth)
    return _fitted([fit], "correlation {:.2f} with what one client added; each release costs")


def _plasticity_changes(world: World) -> list[tuple[Array, Array]]:
    reservoir = world.drive.features.reservoir
    rule = replace(plugin("plasticity", "fedip").rule, learning_rate=1e-3)
    gain, shift = _gains_and_shifts(reservoir)
    adapted = (rule.adapt(reservoir, [data[0].u[:1]]) for data in world.clients)
    after = [_gains_and_shifts(one) for one in adapted]
    return [(g - gain, s - shift) for g, s in after]


def _gains_and_shifts(reservoir: Reservoir) -> tuple[Array, Array]:
    layers = reservoir.layers
    return (
        np.concatenate([layer.gain for layer in layers]),
        np.concatenate([layer.shift for layer in layers]),
    )


def _plasticity(world: World, change: tuple[Array, Array]) -> Outcome:
    found = first_input(*change, world.drive, learning_rate=1e-3)
    error = relative_error(found, world.clients[0][0].u[0])
    exact = error < CLOSE
    text = f"found with an error of {error:.0e}"
    return Outcome(float(exact), "exact" if exact else "no", text)


def plasticity_of_upload(world: World) -> Outcome:
    return _plasticity(world, _plasticity_changes(world)[0])


def plasticity_of_sum(world: World) -> Outcome:
    changes = _plasticity_changes(world)
    gain, shift = (np.mean([change[k] for change in changes], axis=0) for k in (0, 1))
    return _plasticity(world, (gain, shift))


def plasticity_of_noise(world: World) -> Outcome:
    found = plasticity_of_sum(world)
    return Outcome(found.score, found.word, f"{found.text}, before any noise")


def labels_of_upload(world: World) -> Outcome:
    if world.setting.n_classes == 0:
        return Outcome(1.0, "exact", "the mean and spread of the client's targets, exactly")
    targets = [np.atleast_2d(s.y) for s in world.clients[0] if s.y is not None]
    truth = np.concatenate(targets).sum(axis=0)
    exact = bool(np.allclose(class_counts(world.statistics[0]), truth, atol=1e-6))
    counts = ", ".join(f"{count:.0f}" for count in truth)
    return Outcome(float(exact), "exact", f"the client's class counts, {counts}, exactly")


def labels_of_sum(world: World) -> Outcome:
    return Outcome(0.0, "cohort's", "the class counts and means of the whole cohort only")


def labels_of_noise(world: World) -> Outcome:
    noise = world.noise
    if world.setting.n_classes == 0:
        return Outcome(0.0, "noisy", "the cohort's mean target, with noise")
    spread = noise.spread / (math.sqrt(2) * noise.clip.target_scale)
    text = f"shares of the cohort's classes, to about {spread / world.setting.n_clients:.2g}"
    return Outcome(0.0, "noisy", text)


def membership_of_upload(world: World) -> Outcome:
    """Whether a row was among a client's: its leverage is at most one if it was."""
    statistics = world.statistics[0]
    inside = np.concatenate([world.rows(s.u) for s in world.clients[0][:40]])[:200]
    outside = np.concatenate([world.rows(s.u) for data in world.clients[1:3] for s in data[:40]])
    area = area_under_curve(leverage(statistics, inside), leverage(statistics, outside[:200]))
    return Outcome(area, f"AUC {area:.2f}", f"of a row in a client's upload: AUC {area:.2f}")


def membership_of_sum(world: World) -> Outcome:
    n = 20 if world.total.n_features <= 300 else 6
    members = np.array([membership_score(world.total, s) for s in world.statistics[:n]])
    others = np.array([membership_score(world.total, s) for s in world.strangers[:n]])
    area = area_under_curve(members, others)
    absent = float((others > 1 + 1e-9).mean())
    text = (
        f"of a client in the sum: AUC {area:.2f}, {absent:.0%} of outsiders proved absent; "
        "1.00 for one who knows all other clients"
    )
    return Outcome(area, f"AUC {area:.2f}", text)


def membership_of_noise(world: World) -> Outcome:
    """The strongest test there is, by one who knows all other clients, on repeated releases."""
    noise = world.noise
    v = max((clipped.vector for clipped in world.clipped), key=np.linalg.norm)
    draws = max(40, min(1000, 4_000_000 // len(v)))
    unit = v / np.linalg.norm(v)
    scores = []
    for present in (1.0, 0.0):
        released = np.empty(draws)
        for k in range(draws):
            z = rounded_normal(noise.spread / noise.step, len(v)) * noise.step
            released[k] = -(unit @ (present * v + z))
        scores.append(released)
    area = area_under_curve(*scores)
    bound = NormalDist().cdf(1 / (math.sqrt(2) * noise.multiplier))
    text = (
        f"AUC {area:.2f} in {draws} trials for one who knows all other clients; at most "
        f"{bound:.2f} in theory, for anybody (epsilon {noise.epsilon:g} at delta {noise.delta:g})"
    )
    return Outcome(area, f"AUC {area:.2f}", text)


def _adaptive(world: World) -> bool:
    if not world.setting.plasticity or "fedip" not in installed("plasticity"):
        return False
    layer = world.drive.features.reservoir.layers[0]
    known = {ACTIVATIONS.index("tanh"), ACTIVATIONS.index("sigmoid")}
    return set(np.unique(layer.activation).tolist()) <= known


TRIALS = (
    Trial(
        "sequences",
        "the inputs that a client recorded",
        0.1,
        (sequences_of_upload, sequences_of_sum, sequences_of_noise),
        lambda world: world.setting.features.per_step and world.drive.features.state,
        of_reservoirs=True,
    ),
    Trial(
        "windows",
        "one raw window, from its pooled features",
        0.5,
        (tried(window_of_upload), tried(window_of_sum), tried(window_of_noise)),
        lambda world: not world.setting.features.per_step,
        of_reservoirs=True,
    ),
    Trial(
        "labels",
        "what a client's targets are",
        0.5,
        (labels_of_upload, labels_of_sum, labels_of_noise),
    ),
    Trial(
        "difference",
        "what is new, from two releases",
        0.5,
        (difference, difference_of_sums, difference_of_noise),
        ruled=Outcome(
            0.0,
            "refused",
            "a client's own ledger refuses a second exact release of data that have changed, or "
            "in a sum with other clients",
        ),
    ),
    Trial(
        "membership",
        "whether somebody's data were used",
        0.8,
        (membership_of_upload, membership_of_sum, membership_of_noise),
    ),
    Trial(
        "plasticity",
        "the input behind one step of plasticity",
        0.5,
        (plasticity_of_upload, plasticity_of_sum, plasticity_of_noise),
        _adaptive,
        has_rows=False,
        of_reservoirs=True,
    ),
)


@dataclass(frozen=True)
class Report:
    """Everything an audit found."""

    configured: View
    configuration: Mapping[str, object]
    findings: tuple[Finding, ...]
    seconds: float
    not_applicable: tuple[str, ...] = ()  # attacks on reservoirs, where the map is another

    @property
    def leaks(self) -> tuple[Finding, ...]:
        """What is recovered under the configured protections."""
        return tuple(finding for finding in self.findings if finding.leaks(self.configured))

    @property
    def left_out(self) -> str:
        """Which attacks are not applicable to the map, in a sentence; empty if all are."""
        if not self.not_applicable:
            return ""
        return (
            f"Not applicable to this map: {', '.join(self.not_applicable)}; they run a reservoir "
            "backwards, so nothing is known of what such an attack on this map would find."
        )

    def to_json(self) -> dict[str, object]:
        """Return the report as plain JSON."""
        return {
            "configured": self.configured,
            "configuration": dict(self.configuration),
            "leaks": [finding.attack for finding in self.leaks],
            "findings": [
                {"views" if name == "outcomes" else name: one for name, one in asdict(f).items()}
                for f in self.findings
            ],
            "not_applicable": list(self.not_applicable),
            "seconds": round(self.seconds, 1),
        }


def audit(setting: Setting | None = None, *, watch: Callable[[str], None] | None = None) -> Report:
    """Return what our attacks recover from generated data of a setting, under each protection.

    Parameters
    ----------
    setting
        The standard configuration if not given: 20 clients of 30 steps, 100 units.
    watch
        Called with the name of each attack as it begins.
    """
    started = time.perf_counter()
    chosen = (setting or Setting()).capped()
    world = World(chosen)
    findings = []
    for trial in TRIALS:
        if watch:
            watch(trial.attack)
        finding = trial.run(world)
        if finding is not None:
            findings.append(finding)
    left_out = tuple(trial.attack for trial in TRIALS if not trial.suits(world))
    features: Any = chosen.features
    about = {"map": name_of(features)}
    if features.reservoir is not None:
        about = {"units": features.reservoir.n_units, "pool": features.pool}
    configuration = {
        **about,
        "features": chosen.features.n_features,
        "clients": chosen.n_clients,
        "rows per client": chosen.rows,
        "classes": chosen.n_classes,
        "epsilon": world.noise.epsilon,
        "delta": world.noise.delta,
    }
    seconds = time.perf_counter() - started
    return Report(chosen.configured, configuration, tuple(findings), seconds, left_out)
