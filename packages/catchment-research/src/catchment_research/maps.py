"""Reservoirs that the kernels of `EchoState` do not have: dense ones in float64, and spiking ones.

    dense     y = (1 - a) x(t-1) + a f(W x(t-1) + W_in u(t) + bias), x(t) = b y + (1 - b) O x(t-1)
    spiking   v <- (1 - a) v, s = [v > threshold], v <- v (1 - s) + W s + W_in u(t)

b below 1 is the edge of stability echo state network (ES2N; Ceni and Gallicchio, IEEE TNNLS 2024),
O being orthogonal. The second is a leaky integrate-and-fire network, whose features are its spikes
s, followed slowly: r(t) = (1 - trace) r(t-1) + trace s(t).

`with_feedback` puts the outputs of the step before among the inputs. In training these are the true
targets (teacher forcing), which keeps the regression in closed form and federated like any other;
in prediction the model's own outputs stand there.

A reservoir's connections can be taken from esnfed, measured as a graph, and adapted by local rules,
which change the weight w from unit j to unit i at every step, by what both units say, x_j
before and y_i after it (Oja 1982; Babinec and Pospíchal 2007; Morales, Mirasso and Soriano 2021):

    hebbian  w += r y_i x_j          oja  w += r y_i (x_j - y_i w)          anti-: with -r
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated, Any, Literal
from zlib import crc32

import numpy as np
from annotated_types import Ge, Gt, Le
from numpy.typing import ArrayLike
from scipy.sparse import csr_array
from scipy.sparse.csgraph import shortest_path
from scipy.special import expit

from catchment import Array, as_matrix
from catchment.data import RAW, Recording, seeded_generator
from catchment.features import FeatureMap, Pipeline, Reservoir
from catchment.features.echo_state import ACTIVATIONS as NAMES
from catchment.features.echo_state import SparseRows
from catchment.readout import Model

Pool = Literal["auto", "mean", "mean_std", "last"] | None
Rule = Literal["hebbian", "anti-hebbian", "oja", "anti-oja"]
Share = Annotated[float, Gt(0), Le(1)]
Size = Annotated[float, Ge(0)]
# Functions of arrays that a `DenseReservoir` may name; put your own in, in every process.
ACTIVATIONS: dict[str, Callable[[Array], Array]] = {
    "tanh": np.tanh,
    "sin": np.sin,
    "sigmoid": expit,
    "identity": np.positive,
    "relu": lambda v: np.maximum(v, 0.0),
    "softplus": lambda v: np.logaddexp(v, 0.0),
}
AT_MOST_ONE = ("tanh", "sin", "sigmoid")
WEIGHTS, POTENTIALS = 2.0**10, 2.0**30  # steps of a spiking reservoir's numbers in one
LIMIT = 8.0  # largest input of a spiking reservoir


class Units(FeatureMap):
    """What both maps read of their units: a row per step, or one of a recording."""

    units: int
    pool: Pool

    def settled(self, n_inputs: int, *, per_step: bool, classes: bool) -> dict[str, Any]:
        return {"pool": (None if per_step else "mean_std") if self.pool == "auto" else self.pool}

    @property
    def n_features(self) -> int:
        return self.units * (2 if self.pool == "mean_std" else 1)

    @property
    def per_step(self) -> bool:
        return self.pool is None


@dataclass(frozen=True)
class DenseReservoir(Units):
    """A reservoir in plain float64, with any activation, and edge of stability by `proximity`.

    Parameters
    ----------
    weights
        "uniform" or "normal" recurrent weights, or normal ones in "clusters": blocks of units that
        are joined among themselves and, ten times more rarely, to others.
    clusters
        How many blocks.
    connectivity
        Share of connections that there are, within a block if there are blocks.
    leak_rate, spectral_radius, input_scaling, bias_scaling
        As of an `EchoState`.
    activation
        A name of `ACTIVATIONS`, into which functions of one's own can be put.
    proximity
        How near it is to a leaky echo state (1); the rest is an orthogonal turn of the last state.
    noise
        Standard deviation of what is added to every state, for training; `noiseless` ends it.
    pool
        One row of a recording, "mean", "mean_std" or "last"; None for a row per step. "auto" is
        "mean_std" where a recording has one target, and None where every step has one.

    >>> DenseReservoir(50, proximity=0.2).build(3, per_step=True).rows([np.zeros((4, 3))])[0].shape
    (4, 50)
    """

    units: Annotated[int, Ge(1)] = 100
    seed: int = 0
    weights: Literal["uniform", "normal", "clusters"] = "uniform"
    clusters: Annotated[int, Ge(1)] = 4
    connectivity: Share = 0.1
    spectral_radius: Size = 0.9
    input_scaling: Size = 0.5
    bias_scaling: Size = 0.2
    leak_rate: Share = 1.0
    activation: str = "tanh"
    proximity: Share = 1.0
    noise: Size = 0.0
    pool: Pool = "auto"
    washout: Annotated[int, Ge(0)] = 0
    n_inputs: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.activation not in ACTIVATIONS:
            raise ValueError(
                f"no activation is called {self.activation!r}; use {', '.join(ACTIVATIONS)}, or "
                "put your own into catchment_research.ACTIVATIONS"
            )

    @property
    def bounds(self) -> Array:
        if self.activation not in AT_MOST_ONE or self.noise:
            return np.full(self.n_features, np.inf)
        # A turn keeps the length of all states together, not each state's own.
        return np.full(self.n_features, 1.0 if self.proximity == 1 else np.sqrt(self.units))

    @cached_property
    def matrices(self) -> tuple[Array, Array, Array, Array]:
        """W (N, N), W_in (N, I), bias (N,) and the orthogonal O (N, N)."""
        rng, N = seeded_generator(self.seed), self.units
        W = rng.uniform(-1, 1, (N, N)) if self.weights == "uniform" else rng.normal(size=(N, N))
        joined = np.full((N, N), self.connectivity)
        if self.weights == "clusters":
            block = np.arange(N) * self.clusters // N
            joined[block[:, None] != block] /= 10
        W[rng.uniform(size=(N, N)) >= joined] = 0
        radius = np.abs(np.linalg.eigvals(W)).max()
        W *= self.spectral_radius / radius if radius > 0 else 0
        W_in = self.input_scaling * rng.uniform(-1, 1, (N, self.known_inputs))
        bias = self.bias_scaling * rng.uniform(-1, 1, N)
        O, R = np.linalg.qr(rng.normal(size=(N, N)))
        return W, W_in, bias, O * np.sign(np.diag(R))

    def states(self, u: Array, x: Array) -> Array:
        """Return the states (B, T, N) of recordings (B, T, I) from states (B, N) on."""
        (W, W_in, bias, O), f = self.matrices, ACTIVATIONS[self.activation]
        a, b = self.leak_rate, self.proximity
        drive = u @ W_in.T + bias
        added = np.zeros((len(u), u.shape[1], 1))
        if self.noise:
            # The same recording has the same noise, wherever it is and whatever comes beside it.
            draws = (np.random.default_rng([self.seed, crc32(one.tobytes())]) for one in u)
            added = np.stack([rng.normal(0, self.noise, drive.shape[1:]) for rng in draws])
        xs = np.empty(drive.shape)
        for t in range(u.shape[1]):
            new = (1 - a) * x + a * f(drive[:, t] + x @ W.T)
            x = (new if b == 1 else b * new + (1 - b) * (x @ O.T)) + added[:, t]
            xs[:, t] = x
        return xs

    def compute_rows(self, inputs: Sequence[Array], threads: int | None) -> list[Array]:
        """Return the rows (n, F) of each recording's inputs (T, I)."""
        rest = np.zeros(self.units)
        states = by_length(inputs, lambda u: self.states(u, np.tile(rest, (len(u), 1))))
        return [pooled(x, self.pool, self.washout) for x in states]

    def go_on(
        self, u: Array, steps: int, carried: tuple[Array, ...]
    ) -> tuple[Array, tuple[Array, ...]]:
        """Return the rows of the next steps; the state is carried."""
        if self.pool is not None:
            return super().go_on(u, steps, carried)
        x = carried[0] if carried else np.zeros((1, self.units))
        xs = self.states(self.checked_inputs(u)[None], x)
        return xs[0, max(0, self.washout - steps) :], (xs[:, -1],)


def noiseless(model: Model) -> Model:
    """Return a model trained on noisy states as it predicts: without noise.

    >>> from catchment import Recording, fit
    >>> u = np.sin(np.arange(300) / 5)
    >>> noisy = fit(DenseReservoir(30, noise=1e-3, washout=20), [Recording(u[:-1], u[1:])])
    >>> noiseless(noisy).features.noise
    0.0
    """
    if not isinstance(model.features, DenseReservoir):
        raise TypeError(f"the map is {type(model.features).__name__}, which has no noise")
    still = replace(model.features, noise=0.0)
    return replace(model, before=Pipeline(model.preprocessing, still), statistics=None)


@dataclass(frozen=True)
class SpikingReservoir(Units):
    """Leaky integrate-and-fire units; rows are rates of their spikes, the same bits everywhere.

    Weights and inputs have 10 binary digits after the point, potentials 30 and leaks 8, so that
    every sum and product is exact. Inputs are cut off at 8 in absolute value.

    Parameters
    ----------
    leak_rate
        Share of the potential that is lost in a step, in 256ths.
    threshold
        Potential above which a unit fires and starts again from zero.
    connectivity
        Share of connections that there are.
    recurrent_scaling
        Standard deviation of what a unit gets if all others fire; half of them inhibit.
    trace
        How fast features follow the spikes; 1 gives the spikes.
    pool
        As of a `DenseReservoir`; "mean" has the spikes' own rates.

    >>> SpikingReservoir(60).build(3, per_step=False).rows([np.ones((50, 3))])[0].shape
    (1, 120)
    """

    units: Annotated[int, Ge(1)] = 100
    seed: int = 0
    leak_rate: Share = 0.125
    threshold: Annotated[float, Gt(0)] = 1.0
    connectivity: Share = 0.1
    recurrent_scaling: Size = 1.0
    input_scaling: Size = 0.5
    trace: Share = 0.125
    pool: Pool = "auto"
    washout: Annotated[int, Ge(0)] = 0
    bits: int | Literal["auto"] | None = "auto"
    n_inputs: int | None = None

    standardize = True

    @property
    def bounds(self) -> Array:
        return np.ones(self.n_features)

    @cached_property
    def matrices(self) -> tuple[Array, Array]:
        """W (N, N) and W_in (N, I), multiples of 2^-10."""
        rng, N = seeded_generator(self.seed), self.units
        size = self.recurrent_scaling * np.sqrt(3 / max(1.0, N * self.connectivity))
        W = size * rng.uniform(-1, 1, (N, N))
        W[rng.uniform(size=(N, N)) >= self.connectivity] = 0
        W_in = self.input_scaling * rng.uniform(-1, 1, (N, self.known_inputs))
        return np.rint(W * WEIGHTS) / WEIGHTS, np.rint(W_in * WEIGHTS) / WEIGHTS

    def spikes(self, u: Array) -> Array:
        """Return the spikes (B, T, N), 0 or 1, of recordings (B, T, I)."""
        W, W_in = self.matrices
        keep = 1 - np.rint(self.leak_rate * 256) / 256
        drive = np.rint(np.clip(u, -LIMIT, LIMIT) * WEIGHTS) / WEIGHTS @ W_in.T
        v, found = np.zeros((len(u), self.units)), np.empty(drive.shape)
        for t in range(u.shape[1]):
            v = np.rint(v * keep * POTENTIALS) / POTENTIALS
            fired = v > self.threshold
            found[:, t] = fired
            v = np.where(fired, 0.0, v) + found[:, t] @ W.T + drive[:, t]
        return found

    def compute_rows(self, inputs: Sequence[Array], threads: int | None) -> list[Array]:
        """Return the rows (n, F) of each recording's inputs (T, I)."""
        rate, followed = np.rint(self.trace * 256) / 256, by_length(inputs, self.spikes)
        for rows in followed if self.pool != "mean" else ():
            for t in range(1, len(rows)):
                step = rate * rows[t] + (1 - rate) * rows[t - 1]
                rows[t] = np.rint(step * POTENTIALS) / POTENTIALS
        return [pooled(rows, self.pool, self.washout) for rows in followed]


def pooled(states: Array, pool: Pool, washout: int) -> Array:
    """Return the rows (n, F) of one recording's states (T, F)."""
    kept = states[washout:]
    if pool is None:
        return kept
    if pool == "last":
        return kept[-1:]
    return np.concatenate((kept.mean(0), kept.std(0))[: 1 if pool == "mean" else 2])[None]


def by_length(inputs: Sequence[Array], rows: Callable[[Array], Array]) -> list[Array]:
    """Return what rows (B, T, N) there are of recordings, those of one length side by side."""
    found: dict[int, Array] = {}
    for length in {len(u) for u in inputs}:
        places = [k for k, u in enumerate(inputs) if len(u) == length]
        found |= dict(zip(places, rows(np.stack([inputs[k] for k in places])), strict=True))
    return [found[k] for k in range(len(inputs))]


def with_feedback(recordings: Sequence[Recording]) -> list[Recording]:
    """Return recordings whose inputs have the targets (T, K) of the step before beside them.

    >>> with_feedback([Recording([1.0, 2.0], [[5.0], [6.0]])])[0].u.tolist()
    [[1.0, 0.0], [2.0, 5.0]]
    """
    made = []
    for k, one in enumerate(recordings):
        if one.y is None or one.y.shape[0] != one.n_steps or one.y.ndim != 2:
            raise ValueError(f"recording {k} has no target for every step, which would be fed back")
        before = np.vstack([np.zeros((1, one.y.shape[1])), one.y[:-1]])
        made.append(Recording(np.hstack([one.u, before]), one.y))
    return made


def predict_with_feedback(model: Model, u: ArrayLike, given: ArrayLike | None = None) -> Array:
    """Return the outputs (T, K) of a model that was trained `with_feedback`, fed its own.

    Parameters
    ----------
    model
        Trained on raw inputs (`Pipeline(RAW, map)`), with a map that gives a row per step and can
        go on with a recording.
    u
        (T, I) the inputs alone.
    given
        (n, K) outputs that are known for the first steps, such as the washout's; they are returned
        as they are.
    """
    if model.preprocessing != RAW:
        raise ValueError("the model changes its inputs; train it with Pipeline(RAW, map)")
    inputs, K = as_matrix(u, "u"), model.n_outputs
    known = np.empty((0, K)) if given is None else as_matrix(given, "given")
    found = np.zeros((len(inputs), K))
    last, carried = np.zeros(K), tuple[Array, ...]()
    for t, row in enumerate(inputs):
        z, carried = model.features.go_on(np.concatenate([row, last])[None], t, carried)
        if t < len(known):
            last = known[t]
        elif len(z):
            (last,) = model.readout(z)
            if model.target_range is not None:
                last = np.clip(last, *model.target_range)
        found[t] = last
    return found


def from_esnfed(network: Any) -> Reservoir:
    """Return the reservoir of an esnfed EchoStateNetwork, with equal states.

    Its `harvest` puts the bias constant and the inputs in front of the states.
    """
    if callable(network.activation):
        raise ValueError("a function as activation cannot be taken over; use DenseReservoir")
    given, leak = network.activation, network.leaking_rate
    W = network.W.toarray() if hasattr(network.W, "toarray") else network.W
    return Reservoir.from_matrices(
        W,
        network.W_in[:, 1:],
        bias=network.W_in[:, 0] * network.bias,
        leak_rate=np.ravel(leak) if np.ndim(leak) else leak,
        activation=given if isinstance(given, str) else [str(name) for name in given],
    )


def graph_metrics(reservoir: Reservoir | ArrayLike) -> dict[str, float]:
    """Return what the connections of a reservoir's first layer, or of a matrix (N, N), look like.

    The density counts directed connections between different units; the others take a connection
    in either direction. The path length is over all pairs, infinite if some are not joined.

    >>> graph_metrics(np.roll(np.eye(6), 1, axis=0))
    {'density': 0.2, 'mean degree': 2.0, 'largest degree': 2.0, 'clustering': 0.0, ...}
    """
    given = reservoir.layers[0].W.to_dense() if isinstance(reservoir, Reservoir) else reservoir
    joined = as_matrix(given, "W") != 0
    N = len(joined)
    if joined.shape != (N, N) or N < 2:
        raise ValueError(f"W has shape {joined.shape}; pass a square matrix of two units or more")
    np.fill_diagonal(joined, False)
    A = csr_array((joined | joined.T).astype(np.float64))
    degrees = A.sum(axis=1)
    triangles = (A @ A).multiply(A).sum(axis=1)
    pairs = degrees * (degrees - 1)
    clustering = np.divide(triangles, pairs, out=np.zeros(N), where=pairs > 0)
    return {
        "density": float(joined.sum() / (N * (N - 1))),
        "mean degree": float(degrees.mean()),
        "largest degree": float(degrees.max()),
        "clustering": float(clustering.mean()),
        "path length": float(shortest_path(A, unweighted=True).sum() / (N * (N - 1))),
    }


def adapt_weights(
    reservoir: Reservoir,
    recordings: Sequence[Recording],
    *,
    rule: Rule = "oja",
    rate: float = 1e-3,
    epochs: int = 1,
) -> Reservoir:
    """Return a reservoir of one layer whose recurrent weights a local rule changed, step by step.

    Only connections that are there change. Each recording starts from rest.

    >>> u = np.sin(np.arange(50.0))
    >>> before = Reservoir(units=20, seed=1)
    >>> after = adapt_weights(before, [Recording(u)], rule="anti-oja")
    >>> graph_metrics(after) == graph_metrics(before)
    True
    """
    if reservoir.n_layers != 1:
        raise ValueError(f"the reservoir has {reservoir.n_layers} layers; pass one of one layer")
    (layer,) = reservoir.layers
    rows, columns, w = layer.W.rows(), layer.W.columns, layer.W.values.copy()
    signed = -rate if rule.startswith("anti-") else rate
    N = layer.n_units
    for one in [*recordings] * epochs:
        x = np.zeros(N)
        for drive in reservoir.checked(one.u) @ layer.W_in.to_dense().T + layer.bias:
            v = layer.gain * (drive + np.bincount(rows, w * x[columns], N)) + layer.shift
            for kind in np.unique(layer.activation):
                of = layer.activation == kind
                v[of] = ACTIVATIONS[NAMES[kind]](v[of])
            y = (1 - layer.leak) * x + layer.leak * v
            after = y[rows]
            w += signed * after * (x[columns] - (after * w if rule.endswith("oja") else 0.0))
            x = y
    if not np.isfinite(w).all():
        raise ValueError(f"the weights grew without bound at a rate of {rate}; pass a smaller one")
    W = SparseRows.from_coordinates(rows, columns, w, N, N)
    return Reservoir.of_layers([replace(layer, W=W)])
