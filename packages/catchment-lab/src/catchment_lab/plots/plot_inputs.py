"""What both kinds of pictures need from the values they are given: checked, and in one shape."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from catchment import Array, Integers, as_matrix, refuse_nonfinite
from catchment.features.echo_state import LayerWeights

MOST_EIGENVALUES = 3000
MOST_PANELS = 6


def eigenvalues(layer: LayerWeights, *, leaky: bool) -> tuple[Array, Array]:
    """Return real and imaginary parts (N,) of the eigenvalues of W, or of (1 - a) I + a W.

    >>> from catchment.features.echo_state import SparseRows
    >>> W = SparseRows.from_dense(np.array([[0.0, -0.5], [0.5, 0.0]]))
    >>> one, zero = np.ones(2), np.zeros(2)
    >>> layer = LayerWeights(W, W, zero, one, one, zero, zero.astype(np.uint8))
    >>> np.sort(eigenvalues(layer, leaky=False)[1])
    array([-0.5,  0.5])
    """
    if layer.n_units > MOST_EIGENVALUES:
        raise ValueError(
            f"the spectrum of {layer.n_units} units would take minutes; "
            f"draw a layer of at most {MOST_EIGENVALUES} units"
        )
    W = layer.W.to_dense()
    if leaky:
        W = np.diag(1 - layer.leak) + layer.leak[:, None] * W
    values = np.linalg.eigvals(W)
    return np.real(values), np.imag(values)


@dataclass(frozen=True, eq=False)
class Forecast:
    """A forecast (H, K) with what is known before (T, K), during (H, K), and its interval."""

    mean: Array
    history: Array  # (T, K), T may be 0
    truth: Array | None
    lower: Array | None
    upper: Array | None

    def times(self, step: float) -> tuple[Array, Array]:
        """Return the times of history (T,), which end at 0, and of the forecast (H,)."""
        T, H = len(self.history), len(self.mean)
        return step * np.arange(1.0 - T, 1.0), step * np.arange(1.0, H + 1.0)


def forecast_values(
    mean: ArrayLike,
    history: ArrayLike | None,
    truth: ArrayLike | None,
    lower: ArrayLike | None,
    upper: ArrayLike | None,
) -> Forecast:
    """Return the forecast with every part as a matrix of K columns.

    >>> forecast_values([1.0, 2.0], None, None, None, None).mean.shape
    (2, 1)
    """
    middle = as_matrix(mean, "the forecast")
    H, K = middle.shape
    if H == 0 or not 1 <= K <= MOST_PANELS:
        raise ValueError(
            f"the forecast has shape {middle.shape}; pass (H, K) with at least one step and "
            f"1 to {MOST_PANELS} outputs"
        )
    if (lower is None) != (upper is None):
        raise ValueError("an interval needs both lower and upper; pass both or neither")
    before = np.empty((0, K)) if history is None else as_matrix(history, "history")
    if before.shape[1] != K:
        raise ValueError(f"history has {before.shape[1]} columns, the forecast {K}; pass (T, {K})")
    parts = {"truth": truth, "lower": lower, "upper": upper}
    checked: dict[str, Array | None] = {}
    for name, value in parts.items():
        checked[name] = None if value is None else as_matrix(value, name)
        if value is not None and as_matrix(value, name).shape != middle.shape:
            raise ValueError(
                f"{name} has shape {as_matrix(value, name).shape}, the forecast {middle.shape}; "
                "pass equal shapes"
            )
    return Forecast(middle, before, checked["truth"], checked["lower"], checked["upper"])


def output_names(names: Sequence[str] | None, n_outputs: int) -> tuple[str, ...]:
    """Return a name for each output.

    >>> output_names(None, 2)
    ('output 0', 'output 1')
    """
    if names is None:
        return ("value",) if n_outputs == 1 else tuple(f"output {k}" for k in range(n_outputs))
    if len(names) != n_outputs:
        raise ValueError(f"{len(names)} names for {n_outputs} outputs; pass one name each")
    return tuple(names)


def confusion_values(
    counts: ArrayLike, classes: Sequence[str] | None
) -> tuple[Integers, Array, tuple[str, ...]]:
    """Return counts (K, K), their shares of each row, and the names of the classes.

    >>> confusion_values([[3, 1], [0, 0]], None)[1]
    array([[0.75, 0.25],
           [0.  , 0.  ]])
    """
    table = np.asarray(counts)
    if table.ndim != 2 or table.shape[0] != table.shape[1] or len(table) == 0:
        raise ValueError(
            f"the confusion matrix has shape {table.shape}; pass (K, K) counts, true by predicted"
        )
    if not np.isfinite(table).all() or (table < 0).any() or (table != np.round(table)).any():
        raise ValueError("the confusion matrix must hold counts; pass whole, non-negative numbers")
    if classes is not None and len(classes) != len(table):
        raise ValueError(f"{len(classes)} class names for {len(table)} classes; pass one name each")
    names = tuple(str(k) for k in (range(len(table)) if classes is None else classes))
    totals = table.sum(axis=1, keepdims=True)
    shares = table / np.where(totals == 0, 1, totals)
    return table.astype(np.int64), shares, names


@dataclass(frozen=True, eq=False)
class RidgePath:
    """Ridges (R,) ascending, an error (R, S) per ridge and series, their mean, and the choice."""

    ridges: Array
    errors: Array
    mean: Array
    chosen: float

    @property
    def spans_decades(self) -> bool:
        """Whether the errors differ so much that only a logarithmic axis shows them all."""
        low, high = np.nanmin(self.errors), np.nanmax(self.errors)
        return bool(low > 0 and high > 30 * low)


def path_values(ridges: ArrayLike, errors: ArrayLike, chosen: float | None) -> RidgePath:
    """Return the path in ascending order; without a choice, the ridge of the smallest mean error.

    >>> path_values([1.0, 0.1, 0.01], [3.0, 1.0, 2.0], None).chosen
    0.1
    """
    ridge, error = np.asarray(ridges, dtype=np.float64), as_matrix(errors, "errors")
    if ridge.ndim != 1 or len(ridge) != len(error) or len(ridge) == 0 or error.shape[1] == 0:
        raise ValueError(
            f"ridges {ridge.shape} and errors {error.shape} do not fit; "
            "pass (R,) ridges and (R,) or (R, S) errors"
        )
    if not (np.isfinite(ridge).all() and (ridge > 0).all()):
        raise ValueError(
            f"ridges reach down to {ridge.min()}; a logarithmic axis needs positive finite ridges"
        )
    error = np.where(np.isfinite(error), error, np.nan)
    order = np.argsort(ridge, kind="stable")
    ridge, error = ridge[order], error[order]
    mean = error.mean(axis=1)
    if np.isnan(mean).all():
        raise ValueError("no ridge has a finite error in every series; there is no path to draw")
    best = float(ridge[np.nanargmin(mean)]) if chosen is None else float(chosen)
    if not ridge[0] <= best <= ridge[-1]:
        raise ValueError(f"the chosen ridge {best} is outside {ridge[0]}..{ridge[-1]}")
    return RidgePath(ridge, error, mean, best)


def shown_units(n_units: int, units: int | Sequence[int]) -> list[int]:
    """Return the units to draw as lines: those named, or this many spread over all.

    >>> shown_units(100, 4)
    [0, 33, 66, 99]
    """
    if isinstance(units, int):
        if units < 1:
            raise ValueError(f"units is {units}; pass how many to draw, or which")
        return sorted({int(k) for k in np.linspace(0, n_units - 1, min(units, n_units))})
    outside = [k for k in units if not 0 <= k < n_units]
    if outside or len(units) == 0:
        raise ValueError(f"units {list(units)} are not all within 0..{n_units - 1}")
    return list(units)


def state_values(x: ArrayLike, inputs: ArrayLike | None) -> tuple[Array, Array | None]:
    """Return states (T, N) and inputs (T, I) or None, with equally many steps."""
    states = as_matrix(x, "states")
    if states.size == 0:
        raise ValueError(f"states have shape {states.shape}; pass at least one step and one unit")
    refuse_nonfinite(states, "states")
    if inputs is None:
        return states, None
    u = as_matrix(inputs, "inputs")
    if len(u) != len(states):
        raise ValueError(f"{len(u)} steps of input and {len(states)} of states; pass equally many")
    return states, u
