"""The [run] of a plan."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from catchment.federation.limits import LIMITS, Limits

Baseline = Literal[
    "random",
    "majority",
    "mean",
    "persistence",
    "autoregression",
    "local",
    "averaging",
    "ensemble",
    "centralised",
    "personalised",
]


@dataclass(frozen=True, kw_only=True)
class RunSettings:
    """How often and with whom the algorithm is run, and what it is compared with.

    Parameters
    ----------
    rounds
        How many rounds; if not given, as many as the algorithm needs.
    share
        Fraction of the clients asked in each round.
    min_clients
        Fewest answers with which a round may end.
    min_usable
        Least share of the clients asked whose answers must be usable, else the run ends.
    max_rows
        Most rows that one client may claim to have in a round.
    max_weight
        Most weight per row that one may claim.
    over_median
        How many times the median of the round's clients one of them may claim; whoever claims more
        is refused and named.
    seed
        Names the draws of clients and the algorithm's own.
    baselines
        What to measure beside it; if not given, guesses: of classes random and majority, of
        forecasts persistence and a linear autoregression. "personalised" needs test_after in
        [data].
    lags
        How many inputs back the autoregression sees.
    intervals
        Whether those who trained count the errors of readouts without them, one more round, so that
        the model knows how wide an interval has to be; where numbers are predicted.
    bands
        Outputs, in their order, at which one width of intervals ends and another begins.
    """

    rounds: int | None = None
    share: float = 1.0
    min_clients: int = 1
    min_usable: float = LIMITS.min_usable
    max_rows: int = LIMITS.max_rows
    max_weight: float = LIMITS.max_weight
    over_median: float = LIMITS.over_median
    seed: int = 0
    baselines: tuple[Baseline, ...] | None = None
    lags: int = 10
    intervals: bool = False
    bands: tuple[float, ...] = ()

    @property
    def limits(self) -> Limits:
        """The limits of a round."""
        return Limits(
            min_usable=self.min_usable,
            max_rows=self.max_rows,
            max_weight=self.max_weight,
            over_median=self.over_median,
        )
