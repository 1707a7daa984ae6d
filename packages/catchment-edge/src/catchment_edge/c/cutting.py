"""How a stream of samples is cut into pieces on a device: windows, recordings, steps."""

from __future__ import annotations

from dataclasses import dataclass

from catchment.data import Preprocessing, count_steps


@dataclass(frozen=True)
class Cutting:
    """Windows of `window` steps that start `step` apart; 0 for recordings as they are.

    >>> Cutting(128, 64).overlaps
    True
    """

    window: int = 0
    step: int = 0

    @property
    def overlaps(self) -> bool:
        return self.step < self.window

    @classmethod
    def of(cls, preprocessing: Preprocessing, rate: float | None = None) -> Cutting:
        """Return how a preparation cuts, counted in steps of a device.

        Parameters
        ----------
        rate
            Samples a second, where windows are in seconds and the preparation has no rate.
        """
        if preprocessing.looks_around:
            raise ValueError(
                "the model has inputs beside its channels (known, calendar), which a device does "
                "not make; train without them, or predict with the model itself"
            )
        hertz = rate if preprocessing.rate is None else preprocessing.rate

        def in_steps(name: str, length: int | str | None) -> int:
            if not isinstance(length, str):
                return length or 0
            if hertz is None:
                raise ValueError(
                    f"the {name} is {length!r} and the model knows no rate; pass --rate with the "
                    "samples a second of the device"
                )
            return count_steps(name, length, 1 / hertz)

        window = in_steps("window", preprocessing.window)
        return cls(window, in_steps("step", preprocessing.step) or window)
