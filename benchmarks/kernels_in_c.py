"""Three hot kernels in C++ with nanobind beside the same in numba: is numba still needed?

    pip install nanobind
    python -m benchmarks.kernels_in_c

Compiles `kernels_in_c.cpp` with g++ for this processor and for what a wheel could count on
(x86-64-v3), runs both and numba's on the same numbers in turns, compares every bit, and writes
benchmarks/results/kernels_in_c.json. Times are the quickest of each, in CPU seconds of one thread.
"""

from __future__ import annotations

import importlib.util
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.record import write
from catchment.features.echo_state import kernels
from catchment.readout import exact_kernels

SOURCE = Path(__file__).with_suffix(".cpp")
TARGETS = {"C++, this processor": "native", "C++, x86-64-v3": "x86-64-v3"}
REPEATS = 15
LEAK, GRID = 0.25, (kernels.rounder(15), 1.0 - 2.0**-15)
Call = Callable[[], Any]


def built(march: str, folder: Path) -> Any:
    """Return the module, compiled for a processor."""
    import nanobind  # type: ignore[import-not-found]  # only here

    home = Path(nanobind.__file__).parent
    includes = [nanobind.include_dir(), str(home / "ext/robin_map/include")]
    python = subprocess.run(
        ["python3-config", "--includes"], check=True, capture_output=True, text=True
    ).stdout.split()
    place = folder / march / "kernels_in_c.so"
    place.parent.mkdir()
    flags = ["-O3", f"-march={march}", "-ffp-contract=fast", "-std=c++17", "-fPIC", "-shared"]
    flags += ["-fno-math-errno", "-fno-trapping-math", "-fno-strict-aliasing", "-DNDEBUG"]
    words = ["g++", *flags, *python, *(f"-I{one}" for one in includes), str(SOURCE)]
    subprocess.run([*words, str(home / "src/nb_combined.cpp"), "-o", place], check=True)
    about = importlib.util.spec_from_file_location("kernels_in_c", place)
    assert about is not None
    assert about.loader is not None
    module = importlib.util.module_from_spec(about)
    about.loader.exec_module(module)
    return module


def lockstep(modules: Mapping[str, Any]) -> tuple[dict[str, Call], Callable[[str], Any]]:
    """Return job B1's kernel: 300 units, a tenth of the weights, 16 windows of 128 steps."""
    rng, N, I, B, T = np.random.default_rng(0), 300, 9, 16, 128
    mask = rng.random((N, N + I + 1)) < 0.1
    mask[:, -1] = True
    W = np.where(mask, np.rint(rng.uniform(-0.2, 0.2, mask.shape) * 2**14) / 2**14, 0.0)
    at, columns = np.nonzero(W)
    starts = np.searchsorted(at, np.arange(N + 1)).astype(np.int64)
    values, columns = W[at, columns], columns.astype(np.uint32)
    U = np.rint(rng.normal(size=(I, T, B)) * 2**15) / 2**15
    made: dict[str, Any] = {}

    def memory(name: str) -> tuple[Any, Any, Any]:
        X, P, S = np.zeros((N + I + 1, B)), np.zeros((N, B)), np.zeros((N, T, B))
        X[-1], made[name] = 1.0, S
        return X, P, S

    def compiled() -> None:
        X, P, S = memory("numba")
        flat, units = (X.reshape(-1), P.reshape(-1)), (np.full(N, LEAK), np.zeros(N, np.int64))
        kernels.lockstep(
            starts, columns, values, *units, True, U, X, flat, P, S, False, (0,) * 4, GRID
        )

    def in_c(name: str) -> Call:
        return lambda: modules[name].lockstep(
            starts, columns, values, LEAK, U, *memory(name), *GRID
        )

    return {"numba": compiled, **{name: in_c(name) for name in modules}}, made.__getitem__


def dense(modules: Mapping[str, Any]) -> tuple[dict[str, Call], Callable[[str], Any]]:
    """Return job A5's kernel: one sequence through 1000 units, all weights."""
    rng, N, I, T = np.random.default_rng(1), 1000, 3, 200
    W = np.rint(rng.uniform(-0.03, 0.03, (N, N + I + 1)) * 2**14) / 2**14
    U = np.rint(rng.normal(size=(T, I)) * 2**15) / 2**15
    made: dict[str, Any] = {}

    def memory(name: str) -> tuple[Any, Any, Any]:
        X, P, S = np.zeros((1, N + I + 1)), np.zeros((1, N)), np.zeros((T, 1, N))
        X[0, -1], made[name] = 1.0, S
        return X, P, S

    def compiled() -> None:
        X, P, S = memory("numba")
        units = np.full(N, LEAK), np.zeros(N, np.int64)
        kernels.serial_dense(W, *units, True, U[:, None], X, P, S, False, GRID)

    def in_c(name: str) -> Call:
        def call() -> None:
            X, P, S = memory(name)
            modules[name].serial_dense(W, LEAK, U, X, P, S, *GRID)

        return call

    return {"numba": compiled, **{name: in_c(name) for name in modules}}, made.__getitem__


def product(modules: Mapping[str, Any]) -> tuple[dict[str, Call], Callable[[str], Any]]:
    """Return the exact product of 312 features over 128 laid out columns."""
    width, n, count = exact_kernels.WIDTH, 312, 128
    height = -(-n // width) * width
    K = np.random.default_rng(2).integers(-(2**14), 2**14, (height, count)).astype(np.float64)
    packed = np.ascontiguousarray(K.reshape(-1, width, count).transpose(0, 2, 1)).reshape(-1)
    n_pieces = count // exact_kernels.PIECE
    peaks = [np.zeros((n_pieces + 1, height // one)) for one in (exact_kernels.HEIGHT, width)]
    made: dict[str, Any] = {}

    def memory(name: str) -> Any:
        made[name] = np.zeros(height * height, np.int64)
        return made[name]

    def compiled() -> None:
        total = memory("numba")
        exact_kernels.add_panels(packed, count, width, total, height, *peaks, n_pieces, 2.0**106, n)

    def in_c(name: str) -> Call:
        return lambda: modules[name].add_panels(packed, count, memory(name), height, n)

    able = [name for name in modules if modules[name].LANES == exact_kernels.LANES]
    return {"numba": compiled, **{name: in_c(name) for name in able}}, made.__getitem__


def main() -> None:
    """Time all three and write the record."""
    kinds = {"lockstep": lockstep, "serial_dense": dense, "add_panels": product}
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        modules = {name: built(march, Path(folder)) for name, march in TARGETS.items()}
        for kind, make in kinds.items():
            calls, made = make(modules)
            seconds = {name: float("inf") for name in calls}
            for call in calls.values():
                call()
            for _ in range(REPEATS):
                for name, call in calls.items():
                    begin = time.process_time()
                    call()
                    seconds[name] = min(seconds[name], time.process_time() - begin)
            same = all(np.array_equal(made(name), made("numba")) for name in calls)
            rows = {name: round(1e6 * each, 1) for name, each in seconds.items()}
            found[kind] = {"microseconds": rows, "same bits": same}
            print(kind, found[kind])
    write("kernels_in_c", {"repeats": REPEATS, "kernels": found})


if __name__ == "__main__":
    main()
