"""What a feature map is: a frozen, fingerprinted map from recordings to feature rows.

Algorithms, protections, storage, plans and engines know a map by this protocol alone. Two kinds of
map stand behind it: those of this library, which say everything themselves, and a user's own class,
which needs no more than `n_features`, `bounds` and `rows` (see `catchment.features.own`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol, runtime_checkable

from numpy.typing import ArrayLike

from catchment.arrays import Array
from catchment.wire import Parts

# Rows that one thread works on: asked with a number of buffers it yields blocks, each the number of
# its rows and [Z; Y'; 1] (F + K + 1, n), columns being rows with their targets, or zeros. A block
# stays valid until so many more were taken. None: all blocks before are void, others replace them.
Part = Callable[[int], Iterator[tuple[int, Array] | None]]


@runtime_checkable
class FeatureMap(Protocol):
    """A fixed map from inputs (T, I) to feature rows (n, F), the same on every machine."""

    @property
    def n_inputs(self) -> int | None:
        """Channels that it takes; None if any number will do."""

    @property
    def n_features(self) -> int:
        """Columns F of its rows."""

    @property
    def per_step(self) -> bool:
        """Whether every step after the washout gives a row; else there is one per recording."""

    @property
    def washout(self) -> int:
        """Steps at the start of each recording that give no row."""

    @property
    def bounds(self) -> Array:
        """Largest absolute value (F,) of each feature, infinite where there is none."""

    @property
    def grid(self) -> int | None:
        """Bits b of its features, None if they are plain float64.

        With a grid feature j is a whole number, of absolute value up to 2^b, times 2^(r_j - b),
        where 2^r_j is its bound rounded up to a power of two.
        """

    @property
    def constant(self) -> bool:
        """Whether the first feature is one in every row."""

    @property
    def standardise(self) -> bool:
        """Whether a ridge should act on features divided by their spread over all clients."""

    @property
    def cost(self) -> float:
        """Multiplications and additions for one step of one recording, about."""

    @property
    def fingerprint(self) -> str:
        """SHA-256 of everything that could change a row, in hexadecimal."""

    def names(self) -> list[str]:
        """Return the name of every feature, in order."""

    def rows(self, inputs: Sequence[ArrayLike], *, threads: int | None = None) -> list[Array]:
        """Return the feature rows (n, F) of each recording's inputs."""

    def stacked(
        self,
        inputs: Sequence[ArrayLike],
        targets: Sequence[Array],
        roots: Array,
        *,
        threads: int | None = None,
        rounded: bool = True,
    ) -> list[Part]:
        """Return the rows of recordings beside their targets, a part of them at a time.

        Only of a map with a row per step.

        Parameters
        ----------
        targets
            (T, K) or (K,) of each recording, NaN where a row is to be left out.
        roots
            Of the recordings' weights; columns are multiplied by them.
        rounded
            Whether features lie on their grid; False if who takes them rounds them anyway.
        """

    def stacked_each(
        self, inputs: Sequence[ArrayLike], targets: Sequence[Array], roots: Array
    ) -> Iterator[tuple[int, Array]]:
        """Yield the number and all columns [Z; Y'; 1] of each recording that is short.

        They are the same whoever else is among them, and features may not be rounded yet.
        """

    def is_short(self, n_steps: int, n_targets: int) -> bool:
        """Whether a recording has so few steps that it is worth its while to wait for others."""

    def parts(self) -> Parts:
        """Return the recipe as it travels and is kept; `restored` rebuilds the map from it."""


@runtime_checkable
class MapDescription(Protocol):
    """A map before the data are known: `build` fills in what depends on them."""

    def build(self, n_inputs: int, *, per_step: bool, classes: bool = False) -> FeatureMap:
        """Return the map for inputs of this many channels.

        Parameters
        ----------
        per_step
            Whether every step has a target of its own, or a whole recording has one.
        classes
            Whether targets are classes, or numbers.
        """


@runtime_checkable
class Foreseeing(Protocol):
    """A description that knows the parts of its map before it is built."""

    def foresees(
        self,
        parts: Parts,
        n_inputs: int,
        *,
        per_step: bool,
        classes: bool = False,
        adapted: bool = False,
    ) -> bool:
        """Return whether parts may be those of the map described; nothing is built from them."""


@runtime_checkable
class Recognising(Protocol):
    """A description that knows its map without building it, where building is not exact."""

    def describes(
        self,
        built: FeatureMap,
        n_inputs: int,
        *,
        per_step: bool,
        classes: bool = False,
        adapted: bool = False,
    ) -> bool:
        """Return whether somebody else's map is the one described, whatever its exact scale.

        Parameters
        ----------
        adapted
            Whether plasticity may have changed it since.
        """
