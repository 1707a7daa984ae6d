"""Go on with a recording from the states that its steps so far have left.

On a grid a recording is cut at L, 2L, ... and each part starts from rest M steps before
(`catchment.features.echo_state.segments`), so towards the end of a part the next is under way, too:
the states of all parts under way are carried, and rows are those of the recording in one piece.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from catchment.arrays import Array
from catchment.features.echo_state.advance import Block, Rows, advance
from catchment.features.echo_state.pooling import Fold
from catchment.features.echo_state.state_map import EchoStateMap
from catchment.features.echo_state.whole_pooling import Sums, Totals

Arrays = tuple[Array, ...]


@dataclass(frozen=True)
class _Part:
    """Steps `begin` to `end` (None: the last there is) of a recording, of which those from `first`
    on give rows."""

    begin: int
    first: int
    end: int | None

    def under_way(self, step: int) -> bool:
        """Whether it has run before a step and goes on at it."""
        return self.begin < step and (self.end is None or step < self.end)


@dataclass(frozen=True, eq=False)
class EchoStateContinuation:
    """An echo state map that carries states (parts, N), and behind them the sums of its pool."""

    features: EchoStateMap

    def rows(self, u: Array, steps: int, carried: Arrays) -> tuple[Array, Arrays]:
        """Return the rows of the next steps and what to carry; see `Continuation`."""
        features = self.features
        inputs = features.reservoir.checked(u)
        stop = steps + len(inputs)
        waiting = iter(carried[0] if carried else ())
        fold = None if features.pool is None else _Pool(features, carried[1:])
        n_rows = max(0, stop - max(steps, features.washout)) if fold is None else 0
        out = np.empty((n_rows, features.n_features))
        kept = []
        for part in self._parts(steps, stop):
            x = next(waiting) if part.under_way(steps) else None
            for at, block, after in self._blocks(part, inputs, steps, x):
                state = after
                if block is None:
                    continue
                if fold is None:
                    first = at - max(steps, features.washout)
                    z = features.selected(block.rows)[:, :, 0].T
                    out[first : first + len(z)] = z
                else:
                    fold.add(features.select(block.rows))
            if part.under_way(stop):
                kept.append(state)
        states = np.array(kept).reshape(len(kept), features.reservoir.n_units)
        return out, (states, *(() if fold is None else fold.arrays))

    def end(self, steps: int, carried: Arrays) -> Array:
        """Return the row of a pool, if there is one; see `Continuation`."""
        n = steps - self.features.washout
        if self.features.pool is None or n < 1:
            return np.empty((0, self.features.n_features))
        return _Pool(self.features, carried[1:]).row(n)

    def _parts(self, start: int, stop: int) -> Iterator[_Part]:
        """Yield the parts that run at some of the steps from start to stop."""
        washout = self.features.washout
        L, M = self.features.reservoir.cut
        if L == 0:
            yield _Part(0, washout, None)
            return
        for k in range(start // L, (stop - 1 + M) // L + 1):
            if (k + 1) * L > washout:
                yield _Part(max(0, k * L - M), max(k * L, washout), (k + 1) * L)

    def _blocks(
        self, part: _Part, inputs: Array, steps: int, x: Array | None
    ) -> Iterator[tuple[int, Block | None, Array]]:
        """Yield a part's blocks with their first step and the state after them.

        Steps that give no row have no block. `inputs` begin at step `steps`, x (N,) is the state
        before.
        """
        stop = steps + len(inputs)
        begin, end = max(part.begin, steps), stop if part.end is None else min(part.end, stop)
        reservoir, skip = self.features.reservoir, part.first - begin
        for block in advance(
            self.features.programs,
            [inputs[begin - steps : end - steps]],
            cuts=[skip],
            x0=None if x is None else x[:, None],
        ):
            last = 1 + reservoir.n_inputs + reservoir.n_units
            # Features may be rounded where they lie, so the state is taken first.
            state = block.rows[1 + reservoir.n_inputs : last, -1, 0].astype(np.float64)
            yield begin + block.start, block if block.start >= skip else None, state


class _Pool:
    """The sums of a pool over a recording's steps so far."""

    def __init__(self, features: EchoStateMap, arrays: Arrays) -> None:
        self.features, self.arrays = features, arrays

    def add(self, Z: Rows) -> None:
        """Add steps (n, T, 1)."""
        if self.features.pool == "last":
            self.arrays = (Z[:, -1, 0].astype(np.float64),)
        elif self.features.reservoir.grid is None:
            self._add_moments(Z)
        else:
            totals = self._totals(1)
            sums = Sums(totals, 1)
            sums.begin([0])
            sums.add(Z)
            totals.add(0, 0, sums.of(0, Z), True)
            self.arrays = (totals.sums[0, 0],)

    def row(self, n_steps: int) -> Array:
        """Return the row (1, F) of so many steps."""
        features = self.features
        if features.reservoir.grid is not None:
            return features.rounded(self._totals(n_steps).rows())
        if features.pool == "last":
            return self.arrays[0][None]
        fold, one = self._fold(), np.zeros(1, dtype=np.int64)
        fold.finish(one, one, one + n_steps, np.empty((features.n_base, 1, 1)))
        return fold.rows.reshape(1, -1)

    def _totals(self, n_steps: int) -> Totals:
        features = self.features
        assert features.pool is not None
        assert features.reservoir.grid is not None
        totals = Totals(
            features.pool, features.step_bounds, [[0, n_steps]], features.reservoir.grid
        )
        if n_steps > totals.most_steps:
            raise ValueError(
                f"a recording has {n_steps} steps to pool, and sums on its grid are exact up to "
                f"{totals.most_steps}; cut it into windows, or use a coarser grid"
            )
        if self.arrays:
            totals.sums[0, 0] = self.arrays[0]
        return totals

    def _fold(self) -> Fold:
        features = self.features
        assert features.pool is not None
        fold = Fold(features.pool, features.n_base, 1, 1)
        if self.arrays:
            fold.reference[:, 0], fold.first[:, 0], fold.second[:, 0] = self.arrays[0]
        return fold

    def _add_moments(self, Z: Rows) -> None:
        fold = self._fold()
        if not self.arrays:
            fold.begin(Z, [0])
        fold.add(Z)
        self.arrays = (np.stack([fold.reference[:, 0], fold.first[:, 0], fold.second[:, 0]]),)
