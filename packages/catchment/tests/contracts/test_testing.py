"""`catchment.testing` notices what it says that it does: a fault each, and none in the guide's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count
from typing import Annotated

import numpy as np
import pytest

from catchment import Array
from catchment.features import FeatureMap
from catchment.federation import Algorithm, Data, RoundContext
from catchment.testing import check_algorithm, check_feature_map, synthetic_clients
from catchment.wire import ROWS, Message, Shape
from tests.contracts.maps import Delays, OwnStatistics
from tests.contracts.own_algorithms import NearestMean

CALLS = count()


@dataclass(frozen=True)
class CarelessMap(FeatureMap):
    """A map that breaks a law which no single call shows."""

    fault: str
    n_features = 1
    bounds = np.full(1, np.inf)

    def compute_rows(self, inputs: Sequence[Array], threads: int | None) -> list[Array]:
        more = {"again": next(CALLS), "company": len(inputs)}
        return [np.array([[u.mean() + more.get(self.fault, k)]]) for k, u in enumerate(inputs)]


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("again", "the second time its rows differ"),
        ("order", "rows depend on the order"),
        ("company", "rows of a recording depend on its company"),
    ],
)
def test_a_map_that_breaks_a_law_is_named_with_the_law(fault: str, words: str) -> None:
    with pytest.raises(AssertionError, match=f"^CarelessMap breaks a law: {words}$"):
        check_feature_map(CarelessMap(fault))


def test_a_description_is_checked_as_it_is_built() -> None:
    check_feature_map("minirocket")
    check_feature_map("echo_state", synthetic_clients(1, channels=2, per_step=True)["client-0"])
    with pytest.raises(AssertionError, match="str breaks a law: there is no map 'minirockets'"):
        check_feature_map("minirockets")


def test_maps_of_ones_own_take_recordings_of_their_channels() -> None:
    six = synthetic_clients(1, channels=6)["client-0"]
    check_feature_map(OwnStatistics(channels=6), six)
    check_feature_map(Delays(2, np.ones(3)))
    with pytest.raises(AssertionError, match=r"OwnStatistics breaks a law: .* return"):
        check_feature_map(OwnStatistics(channels=4), six)


@dataclass(frozen=True)
class Sums:
    """What a client sends: its rows and their sum."""

    n: Annotated[int, ROWS]
    total: Annotated[Array, Shape("channels")]


@dataclass(frozen=True)
class Added:
    """A sum as a careless server reads it."""

    total: Array

    def __add__(self, other: Added) -> Added:
        return Added(self.total + other.total)


@dataclass(frozen=True)
class Means(Algorithm[Sums, Sums, Array]):
    """The mean of all clients' inputs; it breaks no law."""

    def start(self) -> Sums:
        return Sums(0, np.zeros(3))

    def client_update(self, received: Message, data: Data, context: RoundContext) -> Sums:
        u = np.concatenate([recording.u for recording in data()])
        return Sums(len(u), u.sum(axis=0))

    def server_update(self, state: Sums, total: Sums, context: RoundContext) -> Sums:
        return total

    def result(self, state: Sums) -> Array:
        return state.total / state.n


class OtherwiseTheSecondTime(Means):
    def client_update(self, received: Message, data: Data, context: RoundContext) -> Sums:
        return Sums(1, np.full(3, float(next(CALLS))))


class FillsGaps(Means):
    def client_update(self, received: Message, data: Data, context: RoundContext) -> Sums:
        u = np.nan_to_num(np.concatenate([recording.u for recording in data()]))
        return Sums(len(u), u.sum(axis=0))


class Rounding(Means):
    def save_state(self, state: Sums) -> Message:
        return Message("sums", {}, (state.total,))

    def load_state(self, parts: Message) -> Sums:
        return Sums(0, np.round(parts.arrays[0], 3))


class Believing(Means):
    def read_update(self, parts: Message, context: RoundContext) -> Added:  # type: ignore[override]
        return Added(parts.arrays[0] if parts.arrays else np.zeros(3))


@dataclass(frozen=True)
class Last(Added):
    def __add__(self, other: Added) -> Added:
        return other


class TakesTheLast(Means):
    def read_update(self, parts: Message, context: RoundContext) -> Added:  # type: ignore[override]
        total = parts.arrays[-1] if parts.arrays else np.array(np.nan)
        if not np.isfinite(total).all():
            raise ValueError("not finite")
        return Last(total)

    def server_update(self, state: Sums, total: Added, context: RoundContext) -> Sums:  # type: ignore[override]
        return Sums(1, total.total)


@pytest.mark.parametrize(
    ("algorithm", "words"),
    [
        (OtherwiseTheSecondTime(), "over messages a round ends otherwise"),
        (FillsGaps(), "of clients with broken data, .'zz'., it refuses .."),
        (Rounding(), "a state is not kept as it is"),
        (Believing(), "an upload with NaN or of another kind is not refused"),
        (TakesTheLast(), "the sum of uploads depends on their order"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_an_algorithm_that_breaks_a_law_is_named_with_the_law(algorithm: Means, words: str) -> None:
    with pytest.raises(AssertionError, match=f"^{type(algorithm).__name__} breaks a law: {words}$"):
        check_algorithm(algorithm)


def test_algorithms_of_ones_own_keep_the_laws() -> None:
    check_algorithm(Means())
    six = synthetic_clients(3, channels=6)
    features = OwnStatistics(channels=6)
    check_algorithm(NearestMean(features, classes=("odd", "even")), six)
