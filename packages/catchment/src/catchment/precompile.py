"""Everything that needs a compiled kernel, run once on tiny data, so that the cache has it.

For images and build machines: `python -m catchment.precompile` fills the cache that every later
process reads.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from catchment import verbs
from catchment.compiling import compilations
from catchment.data.recording import Recording
from catchment.data.tables import read_columns
from catchment.features import AppendNorm, DiagonalReservoir, EchoState, Hydra, WindowStatistics
from catchment.features.recipes import FeatureMap, known_map
from catchment.federation.checks import check_statistics
from catchment.readout.fixed_point import FixedPoint
from catchment.readout.statistics import RidgeStatistics
from catchment.wire.bits import packed, unpacked

# Sequences side by side are padded to 1, 2, 8, 16, 32 or 64; each width is a kernel of its own.
WIDTHS = (1, 2, 3, 12, 24, 48)


def compile_kernels() -> int:
    """Compile what the maps, the readout and closed loops need, unless the cache has it.

    Return how many kernels that were.

    >>> compile_kernels() >= 0  # doctest: +SKIP
    True
    """
    before = compilations.count
    for described, width in _cases():
        _learn(described, width)
    unpacked(memoryview(packed(np.arange(600))), 600)  # as messages are
    with TemporaryDirectory() as folder:
        log = Path(folder) / "log.csv"
        log.write_text("x,word\n1,a\n", encoding="utf-8", newline="\n")
        read_columns(log)
    # The statistics of a client in fixed point, as a server reads and adds them.
    rows, targets = np.ones((2, 3)), np.eye(2)
    statistics = RidgeStatistics.from_states(rows, targets, fixed=FixedPoint(8, ((3, 8),)))
    check_statistics(statistics, fingerprint="", state_bound=np.ones(3))
    statistics + statistics
    return compilations.count - before


def _cases() -> Iterator[tuple[FeatureMap, int]]:
    for width in WIDTHS:
        yield EchoState(20), width
        yield EchoState((8, 8)), width
        yield EchoState(8, topology="ring", leak_rate=0.5), width
        yield EchoState(20, bits=None, feature_bits=None), width
        yield EchoState(20, precision="float32"), width
    yield EchoState(300, density=0.5), 12  # dense enough for a product of matrices
    windows = known_map("minirocket"), Hydra(8), WindowStatistics(), AppendNorm(WindowStatistics())
    for described in (*windows, DiagonalReservoir(16)):
        yield described, 3
        yield described, 48


def _learn(described: FeatureMap, width: int) -> None:
    """Fit classes and numbers of whole recordings and, with a reservoir, of steps; predict all."""
    rng = np.random.default_rng(0)
    length = 1200 if width == 1 else 40  # long ones have sums of their own
    raw = [rng.normal(size=(length + k % 3, 2)) for k in range(width)]
    labels = ["a", "b"]
    if width > 2:  # of two recordings no ridge is chosen
        named = [Recording.labeled(u, labels[k % 2], labels) for k, u in enumerate(raw)]
        model = verbs.fit(described, named)
        model.classify(raw)
        verbs.fit(
            described, [Recording(u, np.array([1.0 * k])) for k, u in enumerate(raw)]
        ).predict(raw)
    if isinstance(described, EchoState | DiagonalReservoir):
        steps = [Recording(u[:-1], u[1:]) for u in raw]
        ahead = verbs.fit(described, steps)
        ahead.predict(raw)
        if ahead.features.reservoir is not None:
            ahead.forecast(raw[0], 3)


def main() -> None:
    """Compile all kernels for this processor, and say how many."""
    start = time.perf_counter()
    n_kernels = compile_kernels()
    if not compilations.kept:
        sys.exit("no folder can be written to keep kernels; set NUMBA_CACHE_DIR to one")
    print(f"compiled {n_kernels} kernels in {time.perf_counter() - start:.0f} s")


if __name__ == "__main__":
    main()
