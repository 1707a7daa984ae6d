"""Score a recording as it comes in: what the map remembers is carried from stretch to stretch.

The scores are those of the recording in one piece, to rounding (to the bit for maps on a grid).
Windows are scored when they are whole. Preparation that needs all of a recording, such as
resampling, is refused.
"""

from __future__ import annotations

from dataclasses import replace
from typing import final

import numpy as np

from catchment.arrays import Array, Booleans
from catchment.data.prepare import Waiting, check_continuable, prepared_stretch
from catchment.data.recording import Recording
from catchment.features.base import Carried
from catchment.readout.detector import Detector
from catchment.readout.scoring import averaged


@final
class DetectorStream:
    """Scores of one recording whose steps come in bit by bit; `Detector.stream` makes one.

    >>> import catchment as ct
    >>> from catchment.federation.learn import FederatedNormal
    >>> rng = np.random.default_rng(0)
    >>> clients = {name: [Recording(rng.normal(size=(400, 1)))] for name in ("a", "b")}
    >>> features = ct.NVAR(delays=2, order=1).build(1, per_step=True)
    >>> plan = ct.Plan(algorithm=FederatedNormal(features=features), rounds=2)
    >>> stream = ct.federate(plan, clients).result.stream()
    >>> stream.update(np.array([0.1, 0.3])).shape, stream.alarms(np.array([0.2, 7.0, 0.1]))
    ((2,), array([False,  True,  True]))
    """

    def __init__(self, detector: Detector) -> None:
        check_continuable(detector.prepare)
        self.detector = detector
        # A horizon of the preparation is for targets, which a stream does not need.
        self._prepare = replace(detector.prepare, horizon=None)
        self._windows = detector.prepare.window is not None
        if not self._windows:
            self._goes_on = detector.features.continuation()
            if not detector.per_step:
                raise ValueError(
                    "the map gives one row for a whole recording; cut recordings into windows, or "
                    "use a map with a row per step"
                )
        self._waiting: Waiting | None = None
        self._carried = Carried()
        self._forecasts: list[Array] = []  # of steps that have not come yet
        self._before = np.empty(0)  # scores that the next ones are averaged with

    def update(self, u: Array) -> Array:
        """Return the scores (n,) that the next steps (T, I) of the recording give.

        There are fewer than steps while the washout lasts, a forecast is to come true, or a channel
        waits for its first value.
        """
        new = Recording(u)
        waiting = Waiting.at_first(new) if self._waiting is None else self._waiting
        pieces, self._waiting = prepared_stretch(self._prepare, new, waiting, ends=False)
        detector = self.detector
        if self._windows:
            found = detector.scoring.scores(detector.features, pieces)
        else:
            found = [self._scores(piece.u) for piece in pieces]
        return np.concatenate([np.empty(0), *found])

    def alarms(self, u: Array) -> Booleans:
        """Return which of the rows (n,) that the next steps (T, I) give are alarms."""
        return np.asarray(self.update(u) > self.detector.threshold)

    def _scores(self, u: Array) -> Array:
        scoring = self.detector.scoring
        z, arrays = self._goes_on.rows(u, self._carried.steps, self._carried.arrays)
        self._carried = Carried(self._carried.steps + len(u), arrays)
        together = np.concatenate([self._before, scoring.normal.scores(self._deviations(z, u))])
        found = averaged(together, scoring.average)[len(self._before) :]
        self._before = together[max(len(together) - scoring.average + 1, 0) :]
        return found

    def _deviations(self, z: Array, u: Array) -> Array:
        scoring = self.detector.scoring
        if scoring.readout is None:
            return z
        waiting = [*self._forecasts, *scoring.readout(z)]
        # The latest forecasts, one horizon of them, have nothing yet to be compared with.
        due = max(len(waiting) - scoring.horizon, 0)
        self._forecasts = waiting[due:]
        forecast = np.array(waiting[:due]).reshape(due, u.shape[1])
        return np.asarray(u[len(u) - due :] - forecast)
