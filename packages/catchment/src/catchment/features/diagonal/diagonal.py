"""`DiagonalReservoir`: a linear recurrence of independent modes, and products or mixtures of them.

    x_i(t) = lambda_i x_i(t-1) + w_i u(t)                        complex, one number per mode
    q_j(t) = (1 - a_j) q_j(t-1) + a_j x_k(t) x_l(t)              a product, followed slowly
    q_j(t) = (1 - a_j) q_j(t-1) + a_j f(m_j x(t) + b_j)          or a mixture of three states

    f(x) = x (27 + x^2) / (27 + 9 x^2), |x| at most 3            which is nearly tanh

Linear recurrences with nonlinear readouts approximate any fading memory (Boyd and Chua 1985;
Grigoryeva and Ortega 2018). A step costs a few operations per feature and no matrix product.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import count
from typing import Any, Literal, get_args

import numpy as np

from catchment.arrays import Array, Booleans
from catchment.features.base import Continuation, FeatureMap, warn_of_clipping
from catchment.features.diagonal.wiring import Wiring, most_products, wire
from catchment.parallel import ordered_map

Nonlinearity = Literal["products", "mix", "both", "none"]
# What "auto" is, where every step has a target, and where a recording has one.
MEMORY = {"step": (1.0, 10.0), "recording": (1.0, 30.0)}
STATES = 0.15  # share of the units
CLASS_BITS = 16  # of features, where targets are classes: they are far below their bounds
BLOCK_STEPS = 4096  # steps whose rows are made together where rows are pooled
POOLS = (None, "mean_std")


@dataclass(frozen=True)
class DiagonalReservoir(FeatureMap):
    """A diagonal linear reservoir with products or mixtures of its states.

    Its arithmetic is in fixed point, the same bits on every machine: inputs beyond 8 in absolute
    value are cut off there, so pass inputs of standard deviation about 1.

    Parameters
    ----------
    units
        Features beside the inputs, as many as an `EchoState` of so many units has.
    seed
        Names the random draws.
    nonlinearity
        What those units are that are not states: "products" of two states or of a state and an
        input, which suit outputs that multiply inputs; "mix", nearly the tanh of a weighted sum of
        three states, which suits smooth series; "both", half of each; "none", all are states.
    states
        How many units are states, an even number: real and imaginary parts. "auto" is 15 in
        100, or more where so few have too few products.
    memory
        Mean age, in steps, of what the modes with the shortest and the longest memory remember.
        "auto" is 1 to 10 where every step has a target, and 1 to 30 where a recording has one.
    frequencies
        The fastest oscillation of a mode, as a share of half a turn per step. Take less than 1 for
        series that are smooth.
    leak_rate
        Least and largest of the leaks with which products and mixed units are followed.
    gain
        Length of a mixed unit's weights.
    pool
        "auto": mean and standard deviation over a recording that has one target, None for a row
        per step where every step has its own. None or "mean_std" to choose.
    washout
        Steps at the start of each recording that give no features.
    grid
        Bits of the features; "auto" is 16 for classes and 24 for numbers, None no rounding.

    >>> built = DiagonalReservoir(40).build(3, per_step=True)
    >>> built.n_features, built.rows([np.zeros((5, 3))])[0].shape
    (43, (5, 43))
    >>> DiagonalReservoir(40).build(3, per_step=False).n_features
    86
    """

    units: int = 200
    seed: int = 0
    nonlinearity: Nonlinearity = "both"
    states: int | Literal["auto"] = "auto"
    memory: tuple[float, float] | Literal["auto"] = "auto"
    frequencies: float = 1.0
    leak_rate: tuple[float, float] = (0.1, 1.0)
    gain: float = 2.0
    pool: Literal["auto", "mean_std"] | None = "auto"
    washout: int = 0
    grid: int | Literal["auto"] | None = "auto"
    n_inputs: int | None = None

    standardise = True

    def __post_init__(self) -> None:
        if self.nonlinearity not in get_args(Nonlinearity):
            raise ValueError(
                f"nonlinearity is {self.nonlinearity!r}; use one of {get_args(Nonlinearity)}"
            )
        if self.units < 2 or (self.nonlinearity == "none" and self.units % 2):
            raise ValueError(f"units is {self.units}; give 2 or more, an even number if all states")
        if self.states != "auto" and (
            self.states % 2 or not 2 <= self.states <= self.units or self.nonlinearity == "none"
        ):
            raise ValueError(
                f"states is {self.states} of {self.units} units with nonlinearity "
                f"{self.nonlinearity!r}; give an even number from 2 to the units, or 'auto'"
            )
        if self._products > most_products(self._states):
            raise ValueError(
                f"{self._states} states have {most_products(self._states)} products and "
                f"{self._products} are asked for; ask for more states"
            )
        self._check_numbers()

    def _check_numbers(self) -> None:
        pairs: list[tuple[str, Any, float, float]] = [("leak_rate", self.leak_rate, 2.0**-16, 1.0)]
        if self.memory != "auto":
            pairs.append(("memory", self.memory, 0.01, 10_000.0))
        for name, pair, least, most in pairs:
            if len(pair) != 2 or not least <= pair[0] <= pair[1] <= most:
                raise ValueError(
                    f"{name} is {pair}; give (low, high) between {least:g} and {most:g}"
                )
        for name, value, most in (("frequencies", self.frequencies, 1.0), ("gain", self.gain, 16)):
            if not 0 < value <= most:
                raise ValueError(f"{name} is {value}; give a number above 0, up to {most:g}")
        if self.washout < 0 or self.pool not in ("auto", *POOLS):
            raise ValueError(
                f"washout is {self.washout} and pool is {self.pool!r}; give a number from 0 on, "
                "and 'auto', 'mean_std' or None"
            )

    def settled(self, n_inputs: int, *, per_step: bool, classes: bool) -> dict[str, Any]:
        pool = (None if per_step else "mean_std") if self.pool == "auto" else self.pool
        memory = MEMORY["step" if pool is None else "recording"]
        return {"pool": pool, "memory": memory if self.memory == "auto" else self.memory}

    def auto_grid(self, classes: bool) -> int | None:
        return CLASS_BITS if classes else super().auto_grid(classes)

    @property
    def streams(self) -> bool:
        return self.per_step

    def continuation(self) -> Continuation:
        from catchment.features.diagonal.continued import DiagonalContinuation

        return DiagonalContinuation(self)

    @property
    def _states(self) -> int:
        if self.nonlinearity == "none":
            return self.units
        if self.states != "auto":
            return self.states
        few = max(2, 2 * round(STATES * self.units / 2))
        return next(n for n in count(few, 2) if n + most_products(n) >= self.units)

    @property
    def _products(self) -> int:
        rest = self.units - self._states
        return {"products": rest, "both": rest - rest // 2}.get(self.nonlinearity, 0)

    @property
    def _mixed(self) -> int:
        return self.units - self._states - self._products

    @property
    def _n_base(self) -> int:
        return self.known_inputs + self.units

    @property
    def per_step(self) -> bool:
        return self.pool is None

    @property
    def n_features(self) -> int:
        return self._n_base * (1 if self.pool is None else 2)

    @property
    def bounds(self) -> Array:
        """Largest absolute value (F,): inputs and states 8, products 64, mixtures 1."""
        from catchment.features.diagonal.kernels import LIMIT

        sizes = (self.known_inputs + self._states, self._products, self._mixed)
        largest = np.repeat([LIMIT, LIMIT**2, 1.0], sizes)
        return largest if self.pool is None else np.tile(largest, 2)

    @property
    def cost(self) -> float:
        """Operations per step, about: eight a mode, four a product, 16 a mixture."""
        modes = self._states // 2
        return 2.0 * modes * (self.known_inputs + 4) + 4.0 * self._products + 16.0 * self._mixed

    def names(self) -> list[str]:
        modes = self._states // 2
        base = [f"u{c}" for c in range(self.known_inputs)]
        base += [f"{part}{i}" for part in ("re", "im") for i in range(modes)]
        base += [f"product{j}" for j in range(self._products)]
        base += [f"mixed{j}" for j in range(self._mixed)]
        if self.pool is None:
            return base
        return [f"{kind}_{name}" for kind in ("mean", "std") for name in base]

    @cached_property
    def wiring(self) -> Wiring:
        """Everything that is drawn from the seed."""
        assert self.memory != "auto"
        return wire(
            self.known_inputs,
            modes=self._states // 2,
            products=self._products,
            mixed=self._mixed,
            seed=self.seed,
            memory=self.memory,
            frequencies=self.frequencies,
            leak_rate=self.leak_rate,
            gain=self.gain,
        )

    def compute_rows(self, inputs: Sequence[Array], threads: int | None) -> list[Array]:
        """Return the rows (n, F) of each recording's inputs (T, I)."""
        self.wiring  # noqa: B018  # drawn once, before threads ask for it
        work = self._step_rows if self.pool is None else self._pooled_row
        return list(ordered_map(work, inputs, threads=threads))

    def compute_blocks(self, u: Array, wanted: Booleans, n_rows: int) -> Iterator[Array]:
        """Yield the rows (n, F) of those steps of u (T, I) that are wanted (T,), a few at once.

        Every step is computed, but only these are written down.

        Parameters
        ----------
        n_rows
            The most that are yielded together.
        """
        yield from self.blocks_from(self.at_rest(), u, wanted, n_rows)

    def at_rest(self) -> tuple[Array, ...]:
        """Return the state before a recording's first step: modes, their ring, and other units."""
        drawn, k = self.wiring, self._states // 2
        modes = np.concatenate([drawn.eigenvalues, np.zeros((2, k))])
        return modes, np.zeros(4 * k), np.zeros(len(drawn.leak))

    def blocks_from(
        self, state: tuple[Array, ...], u: Array, wanted: Booleans, n_rows: int
    ) -> Iterator[Array]:
        """Yield what `compute_blocks` does from a state on, which moves to the last step wanted."""
        places = np.flatnonzero(wanted)
        start = 0
        for first in range(0, len(places), n_rows):
            stop = int(places[first : first + n_rows][-1]) + 1
            yield self.advance(state, u[start:stop], wanted[start:stop])
            start = stop

    def advance(self, state: tuple[Array, ...], u: Array, wanted: Booleans) -> Array:
        """Move a state over inputs u (T, I); return the rows (n, F) of the steps wanted (T,)."""
        from catchment.features.diagonal import kernels

        warn_of_clipping(u, kernels.LIMIT)
        drawn = self.wiring
        part = np.empty((len(u), self.known_inputs))
        kernels.round_inputs(np.ascontiguousarray(u, dtype=np.float64), part)
        rows = np.empty((int(np.count_nonzero(wanted)), self._n_base))
        weights = (drawn.W, drawn.shifts, drawn.turns, drawn.M, drawn.leak)
        kernels.run(part, wanted, *weights, *state, rows)
        return rows

    def _step_rows(self, u: Array) -> Array:
        (rows,) = self.compute_blocks(u, self.after_washout(u), len(u))
        return rows

    def _pooled_row(self, u: Array) -> Array:
        moments: Array | None = None
        for rows in self.compute_blocks(u, self.after_washout(u), BLOCK_STEPS):
            moments = self.with_moments(rows, moments)
        assert moments is not None
        return self.row_of(moments, len(u) - self.washout)

    def with_moments(self, rows: Array, moments: Array | None) -> Array:
        """Return the moments (3, n) of the steps so far and of more rows (T, n).

        They are the first row, and sums of differences to it and of their squares.
        """
        from catchment.features.diagonal.kernels import add_moments

        if moments is None:
            moments = np.zeros((3, self._n_base))
            moments[0] = rows[0]
        reference, first, second = moments.copy()
        add_moments(rows, reference, first, second)
        return np.stack([reference, first, second])

    def row_of(self, moments: Array, n_steps: int) -> Array:
        """Return the row (1, F) of a pool over so many steps."""
        reference, first, second = moments
        shift = first / n_steps
        spread = np.sqrt(np.maximum(second / n_steps - shift * shift, 0.0))
        return np.concatenate([reference + shift, spread])[None]
