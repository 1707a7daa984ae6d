"""What an attack recovered, and an attack put to the test in every view of an audit."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from catchment import Array
from catchment_lab.audit.simulated_views import VIEWS, View, World


@dataclass(frozen=True)
class Outcome:
    """What one attack recovered in one view: a share from 0 to 1, in a word and in a sentence."""

    score: float
    word: str
    text: str


REFUSED = Outcome(0.0, "refused", "the client refuses to send it")
Attempt = Callable[[World], Outcome]


@dataclass(frozen=True)
class Finding:
    """One attack in every view; at or above the threshold a score counts as a leak."""

    attack: str
    asks: str
    threshold: float
    outcomes: Mapping[View, Outcome]

    def leaks(self, view: View) -> bool:
        return self.outcomes[view].score >= self.threshold


@dataclass(frozen=True)
class Trial:
    """An attack: what it asks, and how it fares on an upload, on a sum and on a noisy sum.

    `ruled` is what the rules on rows leave of it, for uploads and for sums, where they say more
    than that thin statistics are refused. An attack `of_reservoirs` runs one backwards, and so has
    nothing to say of another map.
    """

    attack: str
    asks: str
    threshold: float
    applies: Callable[[World], bool]
    on_upload: Attempt
    on_sum: Attempt
    on_noise: Attempt
    ruled: Outcome | None = None
    has_rows: bool = True
    of_reservoirs: bool = False

    def suits(self, world: World) -> bool:
        """Whether the attack can be tried on the map at all."""
        return not self.of_reservoirs or world.setting.features.reservoir is not None

    def run(self, world: World) -> Finding | None:
        """Return what the attack finds in every view, or None if it does not apply."""
        if not self.suits(world) or not self.applies(world):
            return None
        upload, total, noisy = self.on_upload(world), self.on_sum(world), self.on_noise(world)
        upload_ruled, total_ruled = upload, total
        if self.ruled is not None:
            upload_ruled = total_ruled = self.ruled
        elif self.has_rows:
            upload_ruled = REFUSED if world.thin_upload else upload
            total_ruled = REFUSED if world.thin_sum else total
        outcomes: list[Outcome] = [upload, upload_ruled, total, total_ruled, noisy]
        views: dict[View, Outcome] = dict(zip(VIEWS, outcomes, strict=True))
        return Finding(self.attack, self.asks, self.threshold, views)


def relative_error(found: Array, truth: Array) -> float:
    """Return the root mean square error, relative to the truth's own.

    >>> relative_error(np.array([2.0]), np.array([1.0]))
    1.0
    """
    return float(np.sqrt(np.mean((found - truth) ** 2) / np.mean(truth**2)))


def correlation(found: Array, truth: Array) -> float:
    """Return the correlation with the beginning of the truth; 0 where there is too little.

    >>> correlation(np.array([1.0, 2.0, 3.0]), np.array([2.0, 4.0, 6.0, 0.0]))
    1.0
    """
    a, b = found.ravel(), truth[: len(found)].ravel()
    if len(a) < 3 or a.std() == 0 or not np.isfinite(a).all():
        return 0.0
    return float(np.corrcoef(a, b)[0, 1])
