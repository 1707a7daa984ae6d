"""Go on with a recording whose earlier steps are gone: what a map carries from stretch to stretch.

A map with a memory needs no old inputs, only what it remembers: the state of a reservoir, the last
inputs of an autoregression, the sums of a pool. Rows of a recording in stretches are those of the
recording in one piece: the same bits on a grid, and to rounding without one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from catchment.arrays import Array
from catchment.errors import IntegrityError
from catchment.features.diagonal.continued import DiagonalContinuation
from catchment.features.diagonal.diagonal import DiagonalReservoir
from catchment.features.echo_state.echo_state import EchoStateContinuation, EchoStateMap
from catchment.features.feature_map import FeatureMap
from catchment.features.nvar import NVAR, NVARContinuation
from catchment.features.own import Adapted, name_of
from catchment.wire import Parts

KIND = "carried"
Arrays = tuple[Array, ...]


class Continuation(Protocol):
    """A map that goes on with a recording from what it carried."""

    def rows(self, u: Array, steps: int, carried: Arrays) -> tuple[Array, Arrays]:
        """Return the rows (n, F) of the next steps u (T, I), and what to carry after them.

        Parameters
        ----------
        steps
            How many steps of the recording came before.
        carried
            What was carried after them; nothing at a recording's first step.
        """

    def end(self, steps: int, carried: Arrays) -> Array:
        """Return the rows (0 or 1, F) that a recording of so many steps gives at its end."""


@dataclass(frozen=True, eq=False)
class Carried:
    """What is known of a recording that goes on: its steps so far, and what the map remembers.

    >>> import numpy as np
    >>> Carried.from_parts(Carried(3, (np.ones(2),)).parts()).arrays
    (array([1., 1.]),)
    """

    steps: int = 0
    arrays: Arrays = ()

    def parts(self) -> Parts:
        return Parts(KIND, {"steps": self.steps}, self.arrays)

    @classmethod
    def from_parts(cls, parts: Parts) -> Carried:
        steps = parts.facts.get("steps")
        if parts.kind != KIND or type(steps) is not int:
            raise IntegrityError(f"what was carried is of kind {parts.kind!r} and lacks its steps")
        return cls(steps, parts.arrays)


def continuation(features: FeatureMap) -> Continuation:
    """Return what goes on with recordings for a map; ValueError if it needs them whole.

    >>> import numpy as np
    >>> from catchment import EchoState
    >>> goes_on = continuation(EchoState(20).build(1, per_step=True))
    >>> first, carried = goes_on.rows(np.ones((5, 1)), 0, ())
    >>> second, _ = goes_on.rows(np.ones((3, 1)), 5, carried)
    >>> whole = EchoState(20).build(1, per_step=True).rows([np.ones((8, 1))])[0]
    >>> bool((np.concatenate([first, second]) == whole).all())
    True
    """
    if isinstance(features, EchoStateMap):
        if features.segments == 1:
            return EchoStateContinuation(features)
        raise ValueError(
            f"segments is {features.segments}, equal parts of a recording whose end is not known "
            "while it goes on; use segments=1, or cut recordings into windows"
        )
    if isinstance(features, Adapted) and isinstance(features.inner, DiagonalReservoir):
        return _Checked(features, DiagonalContinuation(features.inner))
    if isinstance(features, Adapted) and isinstance(features.inner, NVAR):
        return _Checked(features, NVARContinuation(features.inner))
    raise ValueError(
        f"{name_of(features)} needs a recording whole, so that none can go on in a later round; "
        "cut recordings into windows, or use EchoState, DiagonalReservoir or NVAR"
    )


@dataclass(frozen=True, eq=False)
class _Checked:
    """A continuation whose rows are checked and rounded as the map's own are."""

    features: Adapted
    inner: Continuation

    def rows(self, u: Array, steps: int, carried: Arrays) -> tuple[Array, Arrays]:
        z, after = self.inner.rows(self.features.checked_inputs(u), steps, carried)
        return self.features.checked_rows(z), after

    def end(self, steps: int, carried: Arrays) -> Array:
        return self.features.checked_rows(self.inner.end(steps, carried))
