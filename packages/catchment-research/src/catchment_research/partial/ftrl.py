"""Private training by noise on prefix sums (DP-FTRL; Kairouz et al., ICML 2021).

The server's position is a function of the prefix sums S_t of the clipped changes, each divided by
the number of clients that was declared, never by that of those who answered: a client that is left
out, or drops out, takes its own change with it and moves nobody else's. Noise is added to these
sums, correlated over time so that each sum carries little of it:

    tree       the sum of the noise of the at most log2(T) + 1 nodes that cover steps 1..t
    Toeplitz   sum over k of c_{t-k} z_k with c_j = binom(2j, j) / 4^j, the square root of the
               prefix-sum matrix (Fichtenberger et al., ICML 2023), whose columns have norm |c|

A client that takes part once moves each of its nodes' sums, one per level, by at most clip over
clients, and the Toeplitz mechanism's input by |c| times that. Momentum and learning rate work on
differences of noisy sums and cost no privacy.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from catchment import Array
from catchment.arrays import NonNegativeFloat, PositiveFloat, PositiveInt, check_fields
from catchment.errors import FederationError, MissingExtraError
from catchment.privacy.dp import gaussian_epsilon, rounded_normal
from catchment_research.learn.optimizers import Arrays

FINE = 2.0**30  # steps of the noise in a standard deviation


@dataclass(frozen=True, kw_only=True)
class FollowTheLeader:
    """A rule of the server whose every position is private; for `FederatedTraining` with its clip.

    It takes sums and not means, so that it cannot stand where a mean of those who answered, or a
    mean of changes of any length, is handed over.

    Parameters
    ----------
    noise_multiplier
        Standard deviation of the noise per tree node, or of the Toeplitz mechanism's input noise
        before its columns' norm, in units of the clip. 0 adds none and is not private.
    clip
        The bound that the clients' changes are clipped to.
    clients
        Most clients in a round, declared beforehand: every sum of changes is divided by it, so that
        one client moves what is noised by clip / clients, whoever else answers.
    rounds
        Rounds in all, which the Toeplitz mechanism must know.
    mechanism
        "tree" or "toeplitz".
    restart_every
        Rounds after which a new tree begins, so that a client may take part once in each.
    """

    noise_multiplier: NonNegativeFloat
    clip: PositiveFloat
    clients: PositiveInt
    rounds: int
    learning_rate: float = 1.0
    momentum: float = 0.9
    mechanism: Literal["tree", "toeplitz"] = "tree"
    restart_every: int | None = None

    def __post_init__(self) -> None:
        check_fields(self)
        if self.mechanism == "toeplitz" and self.restart_every is not None:
            raise ValueError("the Toeplitz mechanism has no restarts; leave restart_every out")

    @property
    def spread(self) -> float:
        """Standard deviation of one drawn noise value."""
        unit = self.noise_multiplier * self.clip / self.clients
        return unit * (self.column_norm if self.mechanism == "toeplitz" else 1.0)

    @property
    def column_norm(self) -> float:
        return float(np.linalg.norm(toeplitz_root(self.rounds)))

    @property
    def levels(self) -> int:
        return math.ceil(math.log2((self.restart_every or self.rounds) + 1))

    def start(self, values: Arrays) -> Arrays:
        """Return zeros: a step counter, velocity, last noise, and the mechanism's noise."""
        slots = self.levels if self.mechanism == "tree" else self.rounds
        zeros = [tuple(np.zeros_like(x) for x in values) for _ in range(2 + slots)]
        return (np.zeros(1), *(array for group in zeros for array in group))

    def check_cohort(self, n_clients: int) -> None:
        """Raise FederationError if more clients are asked in a round than were declared."""
        if n_clients > self.clients:
            raise FederationError(
                f"{n_clients} clients are asked in a round, the noise was declared for "
                f"{self.clients}; pass clients={n_clients}, or a smaller share to the plan"
            )

    def step_by_sum(
        self, values: Arrays, total: Sequence[NDArray[np.floating]], memory: Arrays
    ) -> tuple[Arrays, Arrays]:
        """Return the values and the memory after a round, from the sum of the clipped changes."""
        change = tuple(np.divide(one, self.clients, dtype=np.float64) for one in total)
        n = len(values)
        t = int(memory[0][0]) + 1
        if t > self.rounds:
            raise ValueError(f"this mechanism was set up for {self.rounds} rounds")
        velocity, before = memory[1 : 1 + n], memory[1 + n : 1 + 2 * n]
        slots = [memory[1 + k * n : 1 + (k + 1) * n] for k in range(2, len(memory[1:]) // n)]
        slots, prefix = self._noise(t, values, before, slots)
        noisy = tuple(D + N - B for D, N, B in zip(change, prefix, before, strict=True))
        velocity = tuple(self.momentum * v + g for v, g in zip(velocity, noisy, strict=True))
        after = tuple(x + self.learning_rate * v for x, v in zip(values, velocity, strict=True))
        rest = (array for group in slots for array in group)
        return after, (np.array([float(t)]), *velocity, *prefix, *rest)

    def _noise(
        self, t: int, values: Arrays, before: Arrays, slots: list[Arrays]
    ) -> tuple[list[Arrays], Arrays]:
        """Return the slots, and the noise of this prefix sum."""
        if self.mechanism == "toeplitz":
            slots = [*slots[: t - 1], self._draw(values), *slots[t:]]
            c = toeplitz_root(t)
            return slots, _combined(values, [(c[t - 1 - k], slots[k]) for k in range(t)])
        place = t if self.restart_every is None else (t - 1) % self.restart_every + 1
        lowest = (place & -place).bit_length() - 1
        # The nodes below the new one end here, and only they: the bits of t - 1 below its own.
        closed = [(-1.0, slot) for slot in slots[:lowest]]
        drawn, zero = self._draw(values), tuple(np.zeros_like(x) for x in values)
        prefix = _combined(values, [(1.0, before), *closed, (1.0, drawn)])
        return [*([zero] * lowest), drawn, *slots[lowest + 1 :]], prefix

    def _draw(self, values: Arrays) -> Arrays:
        if self.noise_multiplier == 0:
            return tuple(np.zeros_like(x) for x in values)
        return tuple(
            np.asarray(rounded_normal(FINE, x.size) * (self.spread / FINE)).reshape(x.shape)
            for x in values
        )


def toeplitz_root(n: int) -> Array:
    """Return binom(2j, j) / 4^j for j below n: the first column of the root of the prefix sums.

    >>> toeplitz_root(4)
    array([1.    , 0.5   , 0.375 , 0.3125])
    """
    j = np.arange(1, n)
    return np.concatenate([[1.0], np.cumprod((2 * j - 1) / (2 * j))])


def tree_epsilon(
    noise_multiplier: float, rounds: int, delta: float, *, participations: int = 1
) -> float:
    """Return the epsilon of tree aggregation when a client takes part once per tree.

    Parameters
    ----------
    rounds
        Steps of one tree.
    delta
        Should be far below one over the number of all clients, and be stated beside the epsilon.
    participations
        Trees in which a client takes part.

    >>> round(tree_epsilon(2.33, 1600, 1e-6), 2)
    7.83
    """
    try:
        from dp_accounting import (
            NeighboringRelation,
            SelfComposedDpEvent,
            SingleEpochTreeAggregationDpEvent,
        )
        from dp_accounting.rdp import RdpAccountant
    except ImportError as error:
        raise MissingExtraError("dp", needed_for="privacy budgets") from error
    accountant = RdpAccountant(neighboring_relation=NeighboringRelation.REPLACE_SPECIAL)
    tree = SingleEpochTreeAggregationDpEvent(noise_multiplier, rounds)
    accountant.compose(SelfComposedDpEvent(tree, participations))
    return float(accountant.get_epsilon(delta))


def schedule_epsilon(
    rule: FollowTheLeader, cohorts: Sequence[Sequence[str]], delta: float
) -> float:
    """Return the epsilon for the client whom a known schedule of cohorts exposes most.

    Who takes part when must not depend on anyone's data, as draws from a plan's seed do not. The
    noise is one Gaussian on the vector of all nodes (or Toeplitz inputs), which a client of rounds
    R moves by at most |sum over R of its columns| clips, since no entry is negative: leaving the
    client out is then exactly as private as that Gaussian. Who is drawn and does not answer moves
    less, never more.

    Parameters
    ----------
    cohorts
        The clients of every round, such as `[plan.cohort(names, k) for k in range(rounds)]`.
    delta
        Should be far below one over the number of all clients, and be stated beside the epsilon.

    >>> rule = FollowTheLeader(noise_multiplier=2.33, clip=1.0, clients=1, rounds=1600)
    >>> round(schedule_epsilon(rule, [[str(k)] for k in range(1600)], 1e-6), 2)
    7.34
    """
    if len(cohorts) > rule.rounds:
        raise ValueError(f"there are {len(cohorts)} cohorts, the rule is for {rule.rounds} rounds")
    for cohort in cohorts:
        rule.check_cohort(len(cohort))
    if rule.noise_multiplier == 0:
        return math.inf
    columns = _columns(rule, len(cohorts))
    taking: dict[str, list[int]] = {}
    for round_, cohort in enumerate(cohorts):
        for client in cohort:
            taking.setdefault(client, []).append(round_)
    moved = max(float(np.linalg.norm(columns[:, R].sum(axis=1))) for R in taking.values())
    column_norm = rule.column_norm if rule.mechanism == "toeplitz" else 1.0
    return gaussian_epsilon(rule.noise_multiplier * column_norm / moved, delta)


def _columns(rule: FollowTheLeader, rounds: int) -> Array:
    """Return what each round (a column) adds to each noised sum (a row)."""
    if rule.mechanism == "toeplitz":
        c = toeplitz_root(rounds)
        late = np.subtract.outer(np.arange(rounds), np.arange(rounds))
        return np.where(late >= 0, c[np.maximum(late, 0)], 0.0)
    columns = np.zeros((rounds, rounds))
    for t in range(rounds):
        place = t % (rule.restart_every or rounds) + 1
        columns[t, t + 1 - (place & -place) : t + 1] = 1.0
    return columns


def _combined(like: Arrays, terms: list[tuple[float, Arrays]]) -> Arrays:
    sums = tuple(np.zeros_like(x) for x in like)
    for weight, group in terms:
        for total, array in zip(sums, group, strict=True):
            total += weight * array
    return sums
