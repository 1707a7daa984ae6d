"""An input from one step of intrinsic plasticity: gain and shift move in a telling proportion.

The rule moves the shift by ds and the gain by dg = eta / g + ds p, p being the unit's drive. Both
are sent, so p = (dg - eta / g) / ds for every unit, and p is linear in the input.
"""

from __future__ import annotations

import numpy as np

from catchment import Array
from catchment_lab.audit.differentiable_reservoir import Drive


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
