"""What is compared on streams: maps with a few settings each, of which training people choose.

A map with a row per step runs along the stream. Others see the last steps again for every label.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from catchment import Array
from catchment.data import Recording
from catchment.features import (
    NVAR,
    DiagonalReservoir,
    EchoState,
    FeatureMap,
    FeatureUnion,
    MiniRocket,
    WindowStatistics,
)
from catchment.features.echo_state import LogUniform, Uniform
from catchment.readout import RidgeStatistics, accumulate
from reproductions.streams_data import Stream
from reproductions.streams_maps import ExponentialMeans, Lags, StreamingMiniRocket

NUMBER = 4  # bytes of a number that is kept from step to step


@dataclass(frozen=True)
class Option:
    """One setting of a contender: a map, and the steps it sees again where it has no state."""

    label: str
    describe: Callable[[int], FeatureMap]  # of a seed
    window: int | None = None
    standardize: bool | None = None  # whether columns are divided by their spread; None: as usual

    def build(self, n_inputs: int, seed: int) -> FeatureMap:
        per_step = self.window is None
        return self.describe(seed).build(n_inputs, per_step=per_step, classes=True)

    def rows(self, built: FeatureMap, streams: Sequence[Stream]) -> Array:
        """Return the rows (n, F) of all judged steps of some streams."""
        if self.window is None:
            found = built.rows([s.u for s in streams], threads=1)
            return np.concatenate([z[s.judged] for z, s in zip(found, streams, strict=True)])
        return np.concatenate(built.rows(self.windows(streams), threads=1))

    def windows(self, streams: Sequence[Stream]) -> list[Array]:
        """Return the steps that are seen again for each judged step."""
        k = self.window or 1
        return [s.u[t + 1 - k : t + 1] for s in streams for t in s.judged]

    def statistics(
        self, built: FeatureMap, streams: Sequence[Stream], n_classes: int
    ) -> RidgeStatistics:
        """Return one person's upload, as the library makes it."""
        if self.window is not None:
            labels = np.concatenate([s.label[s.judged] for s in streams]).tolist()
            data = [
                Recording.labeled(u, label, n_classes)
                for u, label in zip(self.windows(streams), labels, strict=True)
            ]
        else:
            data = []
            for s in streams:
                y = np.full((len(s.u), n_classes), np.nan)
                y[s.judged] = np.eye(n_classes)[s.label[s.judged]]
                data.append(Recording(s.u, y))
        return accumulate(built, data, threads=1, classes=True)

    def microseconds(self, built: FeatureMap, stream: Stream) -> float:
        """Return the time of one label, if every step has one: of a step, or of a window."""
        inputs = [stream.u] if self.window is None else self.windows([stream])
        built.rows(inputs[:1], threads=1)
        taken = []
        for _ in range(3):
            start = time.process_time()
            built.rows(inputs, threads=1)
            taken.append(time.process_time() - start)
        return 1e6 * min(taken) / (len(stream.u) if self.window is None else len(inputs))

    def work(self, built: FeatureMap) -> float:
        """Return the multiplications and additions of one label, if every step has one."""
        return built.cost * (self.window or 1)

    def state_bytes(self, built: FeatureMap, n_inputs: int) -> int:
        """Return the bytes of what is kept from one step to the next."""
        if self.window is not None:
            return NUMBER * n_inputs * (self.window - 1)
        return _state_bytes(built, n_inputs)


def _state_bytes(inner: FeatureMap, n_inputs: int) -> int:
    match inner:
        case Lags() | ExponentialMeans() | StreamingMiniRocket():
            return inner.state_bytes
        case NVAR():
            return NUMBER * n_inputs * (inner.delays - 1) * inner.stride
        case FeatureUnion():
            return sum(_state_bytes(part, n_inputs) for part in inner.maps)
        case EchoState():
            return NUMBER * inner.reservoir.n_units
        case DiagonalReservoir():
            return NUMBER * inner.units
    raise TypeError(f"what a {type(inner).__name__} keeps from step to step is not known here")


SLOW_AND_FAST = LogUniform(0.02, 0.5)


def _reservoirs(
    units: int | tuple[int, ...], leaks: Sequence[float | Uniform], scalings: Sequence[float]
) -> tuple[Option, ...]:
    """Return options of leak and input scaling, with columns as they are and standardized."""

    def option(leak: float | Uniform, scaling: float, standardize: bool) -> Option:
        shown = f"{leak:g}" if isinstance(leak, float) else f"{leak.low:g} to {leak.high:g}"
        return Option(
            f"leak {shown}, scaling {scaling:g}" + ", standardized" * standardize,
            lambda seed: EchoState(units, seed=seed, leak_rate=leak, input_scaling=scaling),
            standardize=standardize,
        )

    return tuple(
        option(leak, scaling, standardize)
        for leak in leaks
        for scaling in scalings
        for standardize in (False, True)
    )


def _means(rates: tuple[float, ...], logarithms: bool) -> Option:
    label = f"rates 1/{1 / rates[0]:g} to 1/{1 / rates[-1]:g}" + ", logarithms" * logarithms
    return Option(label, lambda seed: ExponentialMeans(rates, logarithms))


def _beside(leak: float | Uniform, scaling: float) -> Option:
    shown = f"{leak:g}" if isinstance(leak, float) else f"{leak.low:g} to {leak.high:g}"
    return Option(
        f"leak {shown}, scaling {scaling:g}",
        lambda seed: FeatureUnion(
            ExponentialMeans(_rates(3)),
            EchoState(100, seed=seed, leak_rate=leak, input_scaling=scaling, input=False),
        ),
    )


def _streaming(features: int, rate: int) -> Option:
    return Option(
        f"rate 1/{2**rate}", lambda seed: StreamingMiniRocket(features, seed=seed, rate=rate)
    )


def _rates(first: int, n: int = 4) -> tuple[float, ...]:
    return tuple(2.0**-k for k in range(first, first + n))


CONTENDERS: dict[str, tuple[Option, ...]] = {
    "present sample": (Option("linear", lambda seed: Lags(1)),),
    "lags": tuple(Option(f"stride {k}", lambda seed, k=k: Lags(24, k)) for k in (1, 2, 4)),  # type: ignore[misc]
    "quadratic lags (NG-RC)": tuple(
        Option(f"stride {k}", lambda seed, k=k: NVAR(delays=2, stride=k))  # type: ignore[misc]
        for k in (2, 5, 10)
    ),
    "exponential means": tuple(_means(_rates(k), b) for k in (3, 4) for b in (False, True)),
    "exponential means at eight rates": tuple(_means(_rates(1, 8), b) for b in (False, True)),
    "exponential means beside a reservoir 100": (_beside(0.1, 0.3), _beside(SLOW_AND_FAST, 1.0)),
    "window statistics": tuple(
        Option(f"{k} steps", lambda seed: WindowStatistics(), k) for k in (64, 128)
    ),
    "reservoir 200": _reservoirs(200, (0.05, 0.1, SLOW_AND_FAST), (0.3, 1.0)),
    "reservoir 500": _reservoirs(500, (SLOW_AND_FAST,), (0.3, 1.0)),
    "reservoirs 200 + 200": _reservoirs((200, 200), (0.1, SLOW_AND_FAST), (0.3,)),
    "diagonal reservoir 200": tuple(
        Option(
            f"memory {low} to {high}, leaks {leak[0]} to {leak[1]}",
            lambda seed, m=(low, high), leak=leak: DiagonalReservoir(  # type: ignore[misc]
                200, seed=seed, memory=m, leak_rate=leak
            ),
        )
        for low, high in ((1.0, 20.0), (4.0, 60.0))
        for leak in ((0.02, 0.1), (0.1, 1.0))
    ),
    "MiniRocket": tuple(
        Option(f"{k} steps", lambda seed: MiniRocket(504, seed=seed), k) for k in (64, 128)
    ),
    "streaming MiniRocket 168": tuple(_streaming(168, k) for k in (4, 5, 6)),
    "streaming MiniRocket": tuple(_streaming(504, k) for k in (4, 5)),
}
