"""Input sequences from ridge statistics: walk the recurrence inside the space of the rows.

Every row (1, z) behind the statistics lies in the range of A = [[n, s'], [s, G]]. With fewer rows
than features A has null directions Q, and from a known state only the true next input leads to a
row with Q'(1, z) = 0. A sequence starts from the state zero, so its inputs are found one after the
other, each a small system with as many unknowns as inputs. Statistics of several sequences hold
them all: different starting guesses lead to different first inputs.

Nor need the start be known, as after a washout: a state somewhere in the middle is a point of the
rows' space too, and together with the next few inputs it has to fulfil more equations than there
are unknowns. Every guess ends at some true row, from which the walk goes on.

With more rows than features there are no null directions, but the weakest directions still say
where rows are not; the walk then follows the input that fits them best, and may drift.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.linalg import eigh

from catchment import Array
from catchment.federation import moment_matrix
from catchment.readout import RidgeStatistics
from catchment_lab.audit.differentiable_reservoir import Drive
from catchment_lab.audit.least_squares import minimise

LONGEST_CHAIN = 16


@dataclass(frozen=True, eq=False)
class Walk:
    """The search for sequences behind statistics.

    Parameters
    ----------
    drive
        The public features.
    statistics
        What the server was sent, or summed up.
    input_scale
        Guess at the size of inputs; starting points are drawn from it.
    guesses
        Starting points for a first input.
    fit
        Of a row's length: how far outside the rows' space a true row may seem to lie.
    """

    drive: Drive
    statistics: RidgeStatistics
    input_scale: float = 1.0
    guesses: int = 24
    fit: float = 1e-6
    seed: int = 0

    @cached_property
    def spectrum(self) -> tuple[Array, Array]:
        n = 1 + self.statistics.n_features
        values, vectors = eigh(moment_matrix(self.statistics)[:n, :n])
        return values, vectors

    @cached_property
    def exact(self) -> bool:
        """Whether there are null directions enough to tell the true input from others."""
        return self.n_null > self.drive.features.reservoir.n_inputs

    @property
    def n_null(self) -> int:
        return max(0, 1 + self.statistics.n_features - self.statistics.n_rows)

    @cached_property
    def test(self) -> Array:
        """Directions (m, 1 + F) in which true rows are zero, or as small as rows have been."""
        values, vectors = self.spectrum
        if self.exact:
            return np.asarray(vectors[:, : self.n_null].T)
        floor = 1e-14 * values[-1]
        return np.asarray((vectors / np.sqrt(np.maximum(values, floor))).T)

    def sequences(self, longest: int) -> list[Array]:
        """Return the input sequences (T, I) found, each of at most this many steps."""
        rng = np.random.default_rng(self.seed)
        I = self.drive.features.reservoir.n_inputs
        zero = np.zeros(self.drive.features.reservoir.n_units)
        firsts: list[Array] = []
        for guess in range(self.guesses if self.exact else 1):
            start = self.input_scale * rng.normal(size=I) * (guess > 0)
            u, misfit = self.solve(zero, start)
            known = any(np.abs(u - other).max() < 1e-5 * self.input_scale for other in firsts)
            if not known and (misfit < self.fit or not self.exact):
                firsts.append(u)
        return [self.follow(first, longest, rng) for first in firsts]

    def fragments(self, longest: int) -> list[Array]:
        """Return stretches (T, I) of input sequences, found without knowing where they start."""
        rng = np.random.default_rng(self.seed)
        chain = Chain.of(self)
        if chain is None:
            return []
        found: list[Array] = []
        for _ in range(self.guesses):
            stretch = chain.find(rng)
            if stretch is None:
                continue
            x, inputs = stretch
            if all(place_of(inputs, other)[1] > 1e-5 * self.input_scale for other in found):
                found.append(self.follow(inputs, longest, rng, x))
        return found

    def follow(
        self, first: Array, longest: int, rng: np.random.Generator, x: Array | None = None
    ) -> Array:
        """Return the sequence (T, I) that begins with some inputs, as far as it can be followed."""
        x = np.zeros(self.drive.features.reservoir.n_units) if x is None else x
        found = list(np.atleast_2d(first))
        for u in found:
            _, _, x, _ = self.drive.step(x, u)
        while len(found) < longest:
            starts = [found[-1], np.zeros_like(found[-1])]
            if self.exact:
                jumps = self.input_scale * rng.normal(size=(16, len(found[-1])))
                starts += [*(found[-1] + jumps[:8]), *jumps[8:]]
            u, misfit = self.solve(x, *starts)
            if misfit >= self.fit and self.exact:
                break
            found.append(u)
            _, _, x, _ = self.drive.step(x, u)
        return np.array(found)

    def solve(self, x: Array, *starts: Array) -> tuple[Array, float]:
        """Return the input (I,) whose row fits best from a state, and how badly it fits."""

        def residual(u: Array) -> tuple[Array, Array]:
            row, by_input, _, _ = self.drive.step(x, u)
            return self.test @ row, self.test @ by_input

        best, least = starts[0], np.inf
        for start in starts:
            u, cost = minimise(residual, start, steps=60 if self.exact else 15)
            row, _, _, _ = self.drive.step(x, u)
            misfit = float(np.sqrt(cost / (row @ row)))
            if misfit < least:
                best, least = u, misfit
            if self.exact and least < 1e-2 * min(self.fit, 1.0):
                break
        return best, least


def place_of(stretch: Array, sequence: Array) -> tuple[int, float]:
    """Return where in a sequence (T, I) a stretch of it fits best, and the largest error there.

    >>> place_of(np.array([[2.0], [3.0]]), np.array([[1.0], [2.0], [3.0]]))
    (1, 0.0)
    """
    if len(stretch) > len(sequence):
        return 0, math.inf
    windows = np.lib.stride_tricks.sliding_window_view(sequence, len(stretch), axis=0)
    errors = np.abs(windows - stretch.T).max(axis=(1, 2))
    place = int(errors.argmin())
    return place, float(errors[place])


@dataclass(frozen=True, eq=False)
class Chain:
    """The search for a state somewhere in a sequence, and for the inputs after it."""

    walk: Walk
    basis: Array  # (1 + F, r) the rows' space, each direction as long as rows are in it
    n_inputs: int
    length: int  # of the chain of inputs that is solved for at once

    @classmethod
    def of(cls, walk: Walk) -> Chain | None:
        """Return the search, or None if there are too few equations or no states to see."""
        features = walk.drive.features
        I = features.reservoir.n_inputs
        if not (walk.exact and features.state and features.per_step):
            return None
        values, vectors = (part[..., walk.n_null :] for part in walk.spectrum)
        rank = len(values)
        length = max(2, math.ceil(1.2 * rank / (walk.n_null - I)))
        if length > LONGEST_CHAIN:
            return None
        basis = vectors * np.sqrt(np.maximum(values, 0.0) / walk.statistics.n_rows)
        return cls(walk, basis, I, length)

    def find(self, rng: np.random.Generator) -> tuple[Array, Array] | None:
        """Return a state (N,) of the sequence and the inputs (m, I) after it, from one guess."""
        r, I = self.basis.shape[1], self.n_inputs
        guess = np.concatenate(
            [rng.normal(size=r), self.walk.input_scale * rng.normal(size=self.length * I)]
        )
        found, cost = minimise(self.residual, guess, steps=100)
        row = self.basis @ found[:r]
        if np.sqrt(cost / (row @ row)) > self.walk.fit:
            return None
        return row[-self.walk.drive.features.reservoir.n_units :], found[r:].reshape(-1, I)

    def residual(self, unknown: Array) -> tuple[Array, Array]:
        r, I = self.basis.shape[1], self.n_inputs
        n = len(unknown)
        N = self.walk.drive.features.reservoir.n_units
        row, by = self.basis @ unknown[:r], np.zeros((len(self.basis), n))
        by[:, :r] = self.basis
        x, dx = row[-N:], by[-N:]
        # A row begins with one.
        misfit, slope = [10 * (row[:1] - 1)], [10 * by[:1]]
        for k in range(self.length):
            place = slice(r + k * I, r + (k + 1) * I)
            du = np.zeros((I, n))
            du[:, place] = np.eye(I)
            row, by, x, dx = self.walk.drive.step(x, unknown[place], dx, du)
            misfit.append(self.walk.test @ row)
            slope.append(self.walk.test @ by)
        return np.concatenate(misfit), np.vstack(slope)


def targets_of(inputs: Array, drive: Drive, statistics: RidgeStatistics) -> Array:
    """Return the targets (T, K) that go with a client's only sequence, once its inputs are known.

    C = Z'Y, and Z is what the inputs drive the reservoir to.
    """
    z = drive.features(inputs)
    Z = np.column_stack([np.ones(len(z)), z])
    known = statistics.floats
    C = np.vstack([known.target_sum, known.cross])
    return np.asarray(np.linalg.lstsq(Z.T, C, rcond=None)[0])
