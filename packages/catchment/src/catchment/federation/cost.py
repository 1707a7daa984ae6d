"""The privacy cost of releases, in the two currencies in which costs add."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Cost:
    """Costs of releases about the same clients; they add.

    `gaussian` is the sum of 1 / multiplier^2 over releases of Gaussian noise, which is all there
    is to know about them; `concentrated` is the sum of rho over releases of discrete noise.

    >>> Cost.of_gaussian(2.0) + Cost.of_gaussian(2.0)
    Cost(gaussian=0.5, concentrated=0.0)
    """

    gaussian: float = 0.0
    concentrated: float = 0.0

    @classmethod
    def of_gaussian(cls, multiplier: float) -> Cost:
        """Return the cost of Gaussian noise of `multiplier` times the sensitivity."""
        return cls(gaussian=multiplier**-2)

    @classmethod
    def of_discrete(cls, multiplier: float) -> Cost:
        """Return the cost of discrete Gaussian noise of `multiplier` times the sensitivity."""
        return cls(concentrated=0.5 * multiplier**-2)

    def __add__(self, other: Cost) -> Cost:
        return Cost(self.gaussian + other.gaussian, self.concentrated + other.concentrated)
