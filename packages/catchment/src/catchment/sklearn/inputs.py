"""From scikit-learn's X, y and sample_weight to sequences and flat samples, and back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import issparse
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_array, validate_data

from catchment.arrays import (
    LARGEST,
    Array,
    Booleans,
    as_matrix,
    as_numbers,
    refuse_conversions,
    refuse_mask,
)
from catchment.data.recording import Recording

Inputs = ArrayLike | Sequence[ArrayLike]
Targets = ArrayLike | Sequence[ArrayLike]
Form = Literal["matrix", "stack", "list"]


@dataclass(frozen=True, eq=False)
class Given:
    """X as it was read: one array (T, I) per sequence, and how samples are arranged."""

    inputs: list[Array]
    form: Form
    pooled: bool
    channels: tuple[str, ...] | None = None
    turned: bool = False  # whether X had channels before time

    @property
    def lengths(self) -> list[int]:
        """Samples of each sequence."""
        return [1 if self.pooled else len(u) for u in self.inputs]

    @property
    def n_samples(self) -> int:
        return sum(self.lengths)

    @property
    def n_inputs(self) -> int:
        return int(self.inputs[0].shape[1])

    @property
    def nested(self) -> bool:
        """Whether y has one array per sequence, because samples are steps of several."""
        return not self.pooled and self.form != "matrix"

    def flat(self, values: Targets, name: str) -> NDArray[Any]:
        """Return one row per sample, (n,) or (n, K), from values that are arranged like X."""
        refuse_mask(values, name)
        if not self.nested:
            rows: NDArray[Any] = check_array(
                values, ensure_2d=False, dtype=None, ensure_all_finite=False, input_name=name
            )
        else:
            parts = [np.asarray(part) for part in _listed(values, name)]
            if [len(part) if part.ndim else 0 for part in parts] != self.lengths:
                raise ValueError(
                    f"{name} does not fit the steps of the {len(self.inputs)} sequences of X; pass "
                    "one row per step of each, or set pool for one target per sequence"
                )
            rows = np.concatenate(parts)
        if len(rows) != self.n_samples:
            raise ValueError(
                f"{name} has {len(rows)} samples, X has {self.n_samples}; pass one for each, or "
                "for a target per step one row per step of each sequence"
            )
        return rows

    def recordings(
        self, targets: Array | None = None, weight: Array | None = None
    ) -> list[Recording]:
        """Return the sequences as recordings, with targets (n, K) and weights (n,) of samples.

        Only samples that are whole sequences have weights here.
        """
        if targets is None:
            return [Recording(u, channels=self.channels) for u in self.inputs]
        weights = np.ones(len(self.inputs)) if weight is None or not self.pooled else weight
        rows = targets if self.pooled else np.split(targets, np.cumsum(self.lengths)[:-1])
        return [
            Recording(u, y, float(w), per_step=not self.pooled, channels=self.channels)
            for u, y, w in zip(self.inputs, rows, weights, strict=True)
        ]

    def arranged(self, rows: NDArray[Any]) -> NDArray[Any]:
        """Return rows (n, ...) in the arrangement of X; for a list, an array (B,) of arrays."""
        if not self.nested:
            return rows
        if self.form == "stack":
            return rows.reshape(len(self.inputs), -1, *rows.shape[1:])
        parts = np.empty(len(self.inputs), dtype=object)
        parts[:] = np.split(rows, np.cumsum(self.lengths)[:-1])
        return parts

    def laid(self, rows: NDArray[Any]) -> NDArray[Any]:
        """Return rows (n, F) of features arranged as X, with time where X has it."""
        arranged = self.arranged(rows)
        if not (self.nested and self.turned):
            return arranged
        if self.form == "stack":
            return arranged.transpose(0, 2, 1)
        turned = np.empty(len(arranged), dtype=object)
        turned[:] = [part.T for part in arranged]
        return turned

    def after(self, washout: int) -> Booleans:
        """Return a mask (n,) of the samples that a washout leaves; all of them if pooled."""
        if self.pooled:
            return np.ones(self.n_samples, dtype=np.bool_)
        return np.concatenate([np.arange(length) >= washout for length in self.lengths])

    def weights(self, sample_weight: Targets | None) -> Array | None:
        """Return one weight (n,) per sample, or None if there are none."""
        if sample_weight is None:
            return None
        weight = as_numbers(self.flat(sample_weight, "sample_weight"), "sample_weight")
        if weight.ndim != 1:
            raise ValueError(
                f"sample_weight has shape {weight.shape}; pass one number for each sample"
            )
        if not (weight <= LARGEST).all() or (weight < 0).any():
            raise ValueError("sample_weight must be finite and not negative")
        if not weight.any():
            raise ValueError("sample_weight is zero for every sample; nothing is left to learn")
        return weight


def read_inputs(
    estimator: BaseEstimator, X: Inputs, *, pooled: bool, reset: bool, allow_nan: bool = False
) -> Given:
    """Return X as sequences; with `reset`, note its features on the estimator, else compare them.

    >>> from sklearn.base import BaseEstimator
    >>> [u.shape for u in read_inputs(BaseEstimator(), np.eye(3), pooled=False, reset=True).inputs]
    [(3, 3)]
    >>> [u.shape for u in read_inputs(BaseEstimator(), np.eye(3), pooled=True, reset=True).inputs]
    [(3, 1), (3, 1), (3, 1)]
    """
    if not several(X, pooled=pooled):
        _refuse_conversions(X)
        finite = "allow-nan" if allow_nan else True
        matrix = validate_data(
            estimator, X, reset=reset, dtype=np.float64, ensure_all_finite=finite
        )
        inputs = [one[:, None] for one in matrix] if pooled else [matrix]
        named = getattr(estimator, "feature_names_in_", None)
        channels = None if named is None or pooled else tuple(map(str, named))
        return Given(inputs, "matrix", pooled, channels)
    parts = [as_matrix(u, f"sequence {k}") for k, u in enumerate(_listed(X, "X"))]
    widths = {u.shape[1] for u in parts}
    if len(widths) != 1:
        raise ValueError(f"the sequences of X have {sorted(widths)} columns; pass equally many")
    if reset:
        estimator.n_features_in_ = parts[0].shape[1]
        if hasattr(estimator, "feature_names_in_"):
            del estimator.feature_names_in_
    stacked = isinstance(X, np.ndarray) and X.ndim == 3
    return Given(parts, "stack" if stacked else "list", pooled)


def _refuse_conversions(X: Inputs) -> None:
    """Raise ValueError for what scikit-learn would make numbers of: masks, dates, text."""
    if issparse(X):
        return  # refused by scikit-learn, as complex numbers are
    refuse_mask(X, "X")
    if not isinstance(X, np.ndarray) or X.dtype.kind not in "fiubc":
        array = np.asarray(X)
        if array.dtype.kind != "c":
            refuse_conversions(array, "X")


def several(X: Inputs, *, pooled: bool) -> bool:
    """Whether X holds several sequences as arrays of their own.

    >>> several(np.zeros((2, 5, 1)), pooled=False), several(np.eye(3), pooled=True)
    (True, False)
    """
    if isinstance(X, np.ndarray) and X.dtype != object:
        return X.ndim == 3
    if not isinstance(X, list | tuple | np.ndarray) or len(X) == 0:
        return False
    if np.ndim(X[0]) == 1:
        # Rows of unequal lengths are no matrix, but they are sequences of one input.
        return pooled and len({np.size(one) for one in X}) > 1
    return np.ndim(X[0]) == 2


def _listed(values: Targets, name: str) -> list[Any]:
    if values is None or np.isscalar(values):
        raise ValueError(f"{name} is {values!r}; pass one array for each sequence")
    return list(values)  # type: ignore[arg-type]  # any iterable will do
