"""What the owner of a client allows, whatever a plan or a server asks for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

EXACT = ("same clients", "any clients", "never")


@dataclass(frozen=True, kw_only=True)
class Policy:
    """A client's own limits on what is released of its data.

    Parameters
    ----------
    exact
        Sums without noise: only ever with the one set of clients of the first ("same clients"),
        with any ("any clients"), or not at all ("never"). Sums over different sets can be
        subtracted, and three sets are enough to be left with one client; no comparison of pairs
        prevents it.
    exact_sums
        How many sums without noise the same data may go into, in all plans together.
    changed_data
        Whether data may go into a sum that were released before and have changed since: the
        difference of the two sums may be of the new rows alone.
    epsilon, delta
        What all releases with noise together may tell; if not given, what the first plan with
        noise said.

    >>> Policy(exact="never").exact
    'never'
    """

    exact: Literal["same clients", "any clients", "never"] = "same clients"
    exact_sums: int = 200
    changed_data: bool = False
    epsilon: float | None = None
    delta: float | None = None

    def __post_init__(self) -> None:
        if self.exact not in EXACT:
            raise ValueError(f"exact is {self.exact!r}; choose from {', '.join(EXACT)}")
        if self.exact_sums < 0:
            raise ValueError(f"exact_sums is {self.exact_sums}; pass 0 or more")
        if (self.epsilon is None) != (self.delta is None):
            raise ValueError(
                f"epsilon is {self.epsilon} and delta is {self.delta}; give both or neither"
            )
        if self.epsilon is not None and not self.epsilon >= 0:
            raise ValueError(f"epsilon is {self.epsilon}; pass a number that is not negative")
        if self.delta is not None and not 0 < self.delta < 1:
            raise ValueError(f"delta is {self.delta}; pass a number between 0 and 1")
