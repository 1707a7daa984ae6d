"""Attacks on ridge statistics: what they say outright, who is in them, and the inputs behind them.

Outright they say class counts, class means, and single rows by difference. With fewer rows than
features, input sequences fall out by walking the recurrence inside the space of the rows: every row
(1, z) behind the statistics lies in the range of A = [[n, s'], [s, G]], which has null directions Q
then, and from a known state only the true next input leads to a row with Q'(1, z) = 0. A sequence
starts from the state zero, so its inputs are found one after the other, each a small system with as
many unknowns as inputs. Statistics of several sequences hold them all: different starting guesses
lead to different first inputs.

Nor need the start be known, as after a washout: a state somewhere in the middle is a point of the
rows' space too, and together with the next few inputs it has to fulfil more equations than there
are unknowns. Every guess ends at some true row, from which the walk goes on.

With more rows than features there are no null directions, but the weakest directions still say
where rows are not; the walk then follows the input that fits them best, and may drift.

One step of intrinsic plasticity moves the shift by ds and the gain by dg = eta / g + ds p, p being
the unit's drive. Both are sent, so p = (dg - eta / g) / ds for every unit, and p is linear in the
input.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np

from catchment import Array
from catchment.features import EchoState
from catchment.features.echo_state import ACTIVATIONS, LayerWeights
from catchment.federation import moment_matrix
from catchment.readout import RidgeStatistics

_VALUE: dict[str, Callable[[Array], Array]] = {
    "tanh": np.tanh,
    "sigmoid": lambda v: 0.5 * (1 + np.tanh(v / 2)),
    "relu": lambda v: np.maximum(v, 0.0),
    "sin": np.sin,
    "identity": lambda v: v,
}
_SLOPE: dict[str, Callable[[Array], Array]] = {
    "tanh": lambda v: 1 - np.tanh(v) ** 2,
    "sigmoid": lambda v: 0.25 * (1 - np.tanh(v / 2) ** 2),
    "relu": lambda v: (v > 0).astype(np.float64),
    "sin": np.cos,
    "identity": np.ones_like,
}
_INVERSE: dict[str, Callable[[Array], Array]] = {
    "tanh": np.arctanh,
    "sigmoid": lambda y: 2 * np.arctanh(2 * y - 1),
    "identity": lambda y: y,
}
LONGEST_CHAIN = 16
Residual = Callable[[Array], tuple[Array, Array]]


@dataclass(frozen=True, eq=False)
class _Layer:
    weights: LayerWeights
    W: Array  # (N, N)
    W_in: Array  # (N, I)

    def activate(self, table: dict[str, Callable[[Array], Array]], v: Array) -> Array:
        out = np.empty_like(v)
        for code in np.unique(self.weights.activation):
            of = self.weights.activation == code
            out[of] = table[ACTIVATIONS[code]](v[of])
        return out


@dataclass(frozen=True, eq=False)
class Drive:
    """Rows (1, z) of features from any state, and their derivatives by the inputs.

    >>> from catchment import Reservoir
    >>> features = EchoState.of(Reservoir(units=20, inputs=2, seed=1))
    >>> row, by_input, x, _ = Drive(features).step(np.zeros(20), np.array([0.5, -0.5]))
    >>> bool(np.allclose(row[1:], features(np.array([[0.5, -0.5]]))))
    True
    >>> by_input.shape
    (23, 2)
    """

    features: EchoState

    @cached_property
    def layers(self) -> list[_Layer]:
        return [
            _Layer(layer, layer.W.to_dense(), layer.W_in.to_dense())
            for layer in self.features.reservoir.layers
        ]

    def step(
        self, x: Array, u: Array, dx: Array | None = None, du: Array | None = None
    ) -> tuple[Array, Array, Array, Array]:
        """Return the row (1 + F,), its derivative, the next state (N,) and its derivative.

        Parameters
        ----------
        x, dx
            State (N,) before the step and its derivative (N, n) by n unknowns; zero if not given.
        u, du
            Input (I,) and its derivative (I, n); the input itself is the unknown if not given.
        """
        by = np.eye(len(u)) if du is None else du
        dx = np.zeros((len(x), by.shape[1])) if dx is None else dx
        drive, d_drive = u, by
        states, slopes, at = [], [], 0
        for layer in self.layers:
            w = layer.weights
            part = slice(at, at + w.n_units)
            at += w.n_units
            v = w.gain * (layer.W_in @ drive + layer.W @ x[part] + w.bias) + w.shift
            dv = w.gain[:, None] * (layer.W_in @ d_drive + layer.W @ dx[part])
            slope = layer.activate(_SLOPE, v)[:, None]
            drive = (1 - w.leak) * x[part] + w.leak * layer.activate(_VALUE, v)
            d_drive = (1 - w.leak)[:, None] * dx[part] + w.leak[:, None] * slope * dv
            states.append(drive)
            slopes.append(d_drive)
        state, d_state = np.concatenate(states), np.concatenate(slopes)
        row, d_row = [np.ones(1)], [np.zeros((1, by.shape[1]))]
        chosen = (
            (self.features.bias, np.ones(1), np.zeros((1, by.shape[1]))),
            (self.features.input, u, by),
            (self.features.state, state, d_state),
        )
        for kept, value, derivative in chosen:
            if kept:
                row.append(value)
                d_row.append(derivative)
        return np.concatenate(row), np.concatenate(d_row), state, d_state

    def window(self, u: Array) -> tuple[Array, Array]:
        """Return the pooled row (1 + F,) of a window (T, I) and its derivative (1 + F, T I)."""
        T, I = u.shape
        x, dx = np.zeros(self.features.reservoir.n_units), None
        rows, slopes = [], []
        for t in range(T):
            du = np.zeros((I, T * I))
            du[:, t * I : (t + 1) * I] = np.eye(I)
            row, d_row, x, dx = self.step(x, u[t], dx, du)
            rows.append(row[1:])
            slopes.append(d_row[1:])
        kept = np.array(rows[self.features.washout :])
        d_kept = np.array(slopes[self.features.washout :])
        segments = self.features.segments
        edges = [len(kept) * k // segments for k in range(segments + 1)]
        out, d_out = [np.ones(1)], [np.zeros((1, T * I))]
        for first, last in pairwise(edges):
            for value, slope in _pooled(self.features.pool, kept[first:last], d_kept[first:last]):
                out.append(value)
                d_out.append(slope)
        return np.concatenate(out), np.concatenate(d_out)


def _pooled(pool: str | None, rows: Array, slopes: Array) -> list[tuple[Array, Array]]:
    """Return the pooled parts of rows (T, F) and of their derivatives (T, F, n)."""
    if pool == "last":
        return [(rows[-1], slopes[-1])]
    if pool == "max":
        top = rows.argmax(axis=0)
        column = np.arange(rows.shape[1])
        return [(rows[top, column], slopes[top, column])]
    mean, d_mean = rows.mean(axis=0), slopes.mean(axis=0)
    if pool == "mean":
        return [(mean, d_mean)]
    centered = rows - mean
    std = np.sqrt(np.mean(centered**2, axis=0))
    d_std = np.einsum("tf,tfn->fn", centered, slopes) / len(rows)
    return [(mean, d_mean), (std, d_std / np.maximum(std, 1e-12)[:, None])]


def minimize(residual: Residual, start: Array, *, steps: int = 60) -> tuple[Array, float]:
    """Return where the sum of squares is locally least, and the sum there.

    Parameters
    ----------
    residual
        Returns residuals (m,) and their derivatives (m, n) at a point (n,).
    start
        (n,) where to begin.

    >>> point, least = minimize(lambda v: (v**2 - 2.0, np.diag(2 * v)), np.array([1.0]))
    >>> float(point[0].round(6)), least < 1e-20
    (1.414214, True)
    """
    at = start.astype(np.float64)
    r, J = residual(at)
    cost, damping = float(r @ r), 1e-3
    for _ in range(steps):
        A, g = J.T @ J, J.T @ r
        scale = np.diag(A).max(initial=0.0)
        if not np.isfinite(cost) or scale == 0 or np.abs(g).max() <= 1e-15 * np.sqrt(cost * scale):
            break
        for _ in range(8):
            move = np.linalg.solve(A + damping * scale * np.eye(len(at)), g)
            r_next, J_next = residual(at - move)
            cost_next = float(r_next @ r_next)
            if cost_next < cost:
                break
            damping *= 8
        else:
            break
        small = np.abs(move).max() <= 1e-14 * (1 + np.abs(at).max())
        at, r, J, cost, damping = at - move, r_next, J_next, cost_next, max(damping / 8, 1e-16)
        if small:
            break
    return at, cost


def class_counts(statistics: RidgeStatistics) -> Array:
    """Return how many rows of each class (K,) there are: the sums of one-hot targets.

    >>> y = np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    >>> class_counts(RidgeStatistics.from_states(np.ones((3, 1)), y))
    array([2., 1.])
    """
    return statistics.floats.target_sum.copy()


def class_means(statistics: RidgeStatistics) -> Array:
    """Return the mean features (K, F) of each class; of a class with one row, that row.

    >>> z, y = np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([[1.0, 0.0], [0.0, 1.0]])
    >>> class_means(RidgeStatistics.from_states(z, y))
    array([[1., 2.],
           [3., 4.]])
    """
    statistics = statistics.floats
    counts = statistics.target_sum[:, None]
    return np.divide(
        statistics.cross.T, counts, out=np.zeros_like(statistics.cross.T), where=counts > 0
    )


def added_row(before: RidgeStatistics, after: RidgeStatistics) -> tuple[Array, Array]:
    """Return the features (F,) and targets (K,) of the one row that two uploads differ by.

    >>> z, y = np.array([[1.0], [5.0]]), np.array([[2.0], [7.0]])
    >>> one, two = RidgeStatistics.from_states(z[:1], y[:1]), RidgeStatistics.from_states(z, y)
    >>> added_row(one, two)
    (array([5.]), array([7.]))
    """
    change = (after - before).floats
    return change.feature_sum, change.target_sum


def input_between(first: Array, second: Array, drive: Drive) -> Array | None:
    """Return the input (I,) that led from one feature row (F,) to the next, in closed form.

    None if the features do not say: no states and no inputs among them, pooled rows, or activations
    without an inverse.
    """
    features = drive.features
    if features.pool is not None:
        return None
    at = int(features.bias)
    if features.input:
        return second[at : at + features.reservoir.n_inputs].copy()
    layer = drive.layers[0]
    w = layer.weights
    known = {ACTIVATIONS.index(name): of for name, of in _INVERSE.items()}
    if not set(np.unique(w.activation)) <= set(known):
        return None
    x, x_next = first[at : at + w.n_units], second[at : at + w.n_units]
    y = (x_next - (1 - w.leak) * x) / w.leak
    v = np.empty_like(y)
    for code in np.unique(w.activation):
        of = w.activation == code
        v[of] = known[int(code)](y[of])
    net = (v - w.shift) / w.gain - layer.W @ x - w.bias
    return np.asarray(np.linalg.lstsq(layer.W_in, net, rcond=None)[0])


def membership_score(total: RidgeStatistics, candidate: RidgeStatistics) -> float:
    """Return how much of the total the candidate would take up in its strongest direction.

    The largest eigenvalue of A^-1 A_c for the moments A of the total and A_c of the candidate's
    rows. A member's is at most 1; above 1 it was certainly not there. Members score lower.
    """
    n = 1 + total.n_features
    A, A_c = moment_matrix(total)[:n, :n], moment_matrix(candidate)[:n, :n]
    floor = 1e-12 * np.trace(A) / n
    L = np.linalg.cholesky(A + floor * np.eye(n))
    return float(np.linalg.eigvalsh(np.linalg.solve(L, np.linalg.solve(L, A_c).T))[-1])


def leverage(statistics: RidgeStatistics, rows: Array) -> Array:
    """Return z' A^-1 z (n,) of feature rows (n, F); at most 1 for a row that is among the data.

    Directions that no row has, and with fewer rows than features there are some, count as such: a
    row that needs one is not among the data.

    >>> s = RidgeStatistics.from_states(np.array([[1.0], [2.0]]), np.zeros((2, 1)))
    >>> leverage(s, np.array([[1.0], [5.0]])) <= 1 + 1e-6
    array([ True, False])
    """
    n = 1 + statistics.n_features
    values, vectors = np.linalg.eigh(moment_matrix(statistics)[:n, :n])
    Z = np.column_stack([np.ones(len(rows)), rows]) @ vectors
    return np.asarray((Z**2 / np.maximum(values, 1e-12 * values[-1])).sum(axis=1))


def area_under_curve(members: Array, others: Array) -> float:
    """Return the chance that a member scores lower than another, ties counted half.

    >>> area_under_curve(np.array([1.0, 2.0]), np.array([2.0, 3.0]))
    0.875
    """
    below = (members[:, None] < others[None]).mean()
    equal = (members[:, None] == others[None]).mean()
    return float(below + equal / 2)


def first_input(
    gain_change: Array, shift_change: Array, drive: Drive, *, learning_rate: float
) -> Array:
    """Return the input (I,) behind one step of plasticity from the state zero.

    Parameters
    ----------
    gain_change, shift_change
        (N,) what a client sent, less what it was sent; only the first layer's units are used.
    """
    layer = drive.layers[0]
    w = layer.weights
    dg, ds = gain_change[: w.n_units], shift_change[: w.n_units]
    moved = np.abs(ds) > 1e-9 * np.abs(ds).max()
    p = (dg[moved] - learning_rate / w.gain[moved]) / ds[moved]
    return np.asarray(np.linalg.lstsq(layer.W_in[moved], p - w.bias[moved], rcond=None)[0])


def solvable(drive: Drive, steps: int) -> bool:
    """Return whether a window of this length has no more numbers than its pooled features."""
    return steps * drive.features.reservoir.n_inputs <= drive.features.n_features


def window_of(pooled: Array, drive: Drive, steps: int, *, guesses: int = 4) -> tuple[Array, float]:
    """Return a window (T, I) with these pooled features (F,), and how far its own are from them.

    Parameters
    ----------
    pooled
        (F,) for instance the mean of a class with one window.
    steps
        T, which a plan usually tells.
    guesses
        Starting points; the best end is returned.
    """
    rng = np.random.default_rng(0)
    I = drive.features.reservoir.n_inputs

    def residual(flat: Array) -> tuple[Array, Array]:
        row, by_input = drive.window(flat.reshape(steps, I))
        return row[1:] - pooled, by_input[1:]

    best, least = np.zeros(steps * I), np.inf
    for guess in range(guesses):
        start = rng.normal(size=steps * I) * (0.1 if guess == 0 else 1.0)
        found, cost = minimize(residual, start, steps=150)
        if cost < least:
            best, least = found, cost
        if least < 1e-20 * float(pooled @ pooled):
            break
    return best.reshape(steps, I), float(np.sqrt(least))


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
        values, vectors = np.linalg.eigh(moment_matrix(self.statistics)[:n, :n])
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
        """Return segments (T, I) of input sequences, found without knowing where they start."""
        rng = np.random.default_rng(self.seed)
        chain = Chain.of(self)
        if chain is None:
            return []
        found: list[Array] = []
        for _ in range(self.guesses):
            segment = chain.find(rng)
            if segment is None:
                continue
            x, inputs = segment
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
            u, cost = minimize(residual, start, steps=60 if self.exact else 15)
            row, _, _, _ = self.drive.step(x, u)
            misfit = float(np.sqrt(cost / (row @ row)))
            if misfit < least:
                best, least = u, misfit
            if self.exact and least < 1e-2 * min(self.fit, 1.0):
                break
        return best, least


def place_of(segment: Array, sequence: Array) -> tuple[int, float]:
    """Return where in a sequence (T, I) a segment of it fits best, and the largest error there.

    >>> place_of(np.array([[2.0], [3.0]]), np.array([[1.0], [2.0], [3.0]]))
    (1, 0.0)
    """
    if len(segment) > len(sequence):
        return 0, math.inf
    windows = np.lib.stride_tricks.sliding_window_view(sequence, len(segment), axis=0)
    errors = np.abs(windows - segment.T).max(axis=(1, 2))
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
        found, cost = minimize(self.residual, guess, steps=100)
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
