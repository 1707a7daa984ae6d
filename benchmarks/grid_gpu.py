"""Reservoirs and statistics on a grid, on the CPU and on a GPU: one digest each, and the time.

    PYTHONPATH=src python benchmarks/grid_gpu.py

Prints lines of JSON and ends with status 1 if a digest differs. Needs torch, numpy and scipy; where numba is
missing the reference is written in numpy below.
"""

from __future__ import annotations

import hashlib
import json
import platform
import sys
import time
import types
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

Array = np.ndarray[Any, np.dtype[np.float64]]


def _stand_in() -> types.ModuleType:
    """Return a module whose `njit` leaves functions as they are: constants can then be imported."""
    module = types.ModuleType("numba")
    module.njit = lambda *given, **_: given[0] if given else (lambda f: f)  # type: ignore[attr-defined]
    return module


try:
    import numba  # noqa: F401

    COMPILED = True
except ImportError:
    COMPILED, sys.modules["numba"] = False, _stand_in()

from catchment.data.recording import Recording
from catchment.features.echo_state import activations as grid
from catchment.features.echo_state.segments import cut_places
from catchment.features.echo_state.state_map import EchoStateMap
from catchment.features.echo_state.reservoir import Reservoir
from catchment.features.echo_state.torch_form import TorchForm
from catchment.features.grid import digits_after_point, on_grid
from catchment.readout.exact_gram import packed_whole, statistics_of, target_pieces
from catchment.readout.grid import Grid
from catchment.readout.statistics import RidgeStatistics
from catchment.readout.torch_gram import Products
from catchment.readout.torch_statistics import statistics_on

GPU = torch.cuda.is_available()
DEVICES = ["cpu", *(["cuda"] if GPU else [])]
SMALL = "small" in sys.argv  # shapes for a machine without a GPU


def growth(y: Array) -> Array:
    shifted = y * grid.LOG2E + grid.ROUND
    r = y - (shifted - grid.ROUND) * grid.LN2
    p = np.full_like(r, grid.C4)
    for c in (grid.C3, grid.C2, grid.C1, grid.C0, 0.0):
        p = (p * r + (c + grid.R27)) - grid.R27
    p = (p * r + (r + grid.R27)) - grid.R27
    scale = np.ldexp(1.0, (shifted - grid.ROUND).astype(np.int64))
    return scale * p + (scale - 1.0)


def sine(x: Array) -> Array:
    a = np.minimum(np.abs(x), grid.FARTHEST)
    k = np.rint(((a + grid.R26) - grid.R26) * grid.OVER_PI)
    r = ((a - k * grid.PI) + grid.R25) - grid.R25
    z = (r * r + grid.R24) - grid.R24
    p = np.full_like(z, grid.S4)
    steps = ((grid.S3, grid.R36), (grid.S2, grid.R30), (grid.S1, grid.R30), (grid.S0, grid.R29))
    for c, R in (*steps, (0.0, grid.R27)):
        p = (p * z + (c + R)) - R
    p = (p * r + (r + grid.R27)) - grid.R27
    return p * np.where(k % 2 == 1, -1.0, 1.0) * np.where(x < 0, -1.0, 1.0)


def activated(code: int, p: Array, digits: int) -> Array:
    """Return the activations of `catchment.features.echo_state.activations` in numpy."""
    G, top = grid.rounder(digits), 1.0 - 2.0**-digits
    if code == 0:
        e = growth(np.minimum((np.abs(p + p) + grid.R26) - grid.R26, grid.LARGEST))
        return np.copysign(np.minimum((e / (e + 2.0) + G) - G, top), p)
    if code == 1:
        e = growth(np.minimum((np.abs(p) + grid.R26) - grid.R26, grid.LARGEST))
        upper = np.minimum(((e + 1.0) / (e + 2.0) + G) - G, top)
        return np.where(p >= 0, upper, 1.0 - upper)
    if code == 3:
        return np.clip((sine(p) + G) - G, -top, top)
    linear = np.clip((p + G) - G, -grid.LINEAR_BOUND, grid.LINEAR_BOUND)
    return np.maximum(linear, 0.0) if code == 2 else linear


def numpy_states(features: EchoStateMap, u: Array) -> Array:
    """Return [1, u, states] (T, 1 + I + N) of one sequence, step by step."""
    out = np.ones((len(u), 1 + features.n_inputs + features.reservoir.n_units))
    out[:, 1 : 1 + features.n_inputs] = u
    for begin, first, end in cut_places(len(u), features.reservoir.cut, 0):
        xs = [np.zeros(program.n_units) for program in features.programs]
        for t in range(begin, end):
            below, found = u[t], []
            for k, program in enumerate(features.programs):
                extended = np.concatenate([xs[k], below, [1.0]])
                terms = program.values * extended[program.columns]
                p = np.add.reduceat(terms, program.starts[:-1])
                y = np.empty(program.n_units)
                for code in np.unique(program.activation):
                    units = program.activation == code
                    y[units] = activated(int(code), p[units], features.reservoir.grid or 0)
                G = grid.rounder(features.reservoir.grid or 0)
                xs[k] = ((1.0 - program.leak) * xs[k] + program.leak * y + G) - G
                below = xs[k]
                found.append(below)
            if t >= first:
                out[t, 1 + features.n_inputs :] = np.concatenate(found)
    return out


def numpy_rows(features: EchoStateMap, inputs: list[Array]) -> list[Array]:
    """Return the feature rows of sequences: of each step, or their mean and deviation."""
    assert features.grid is not None
    digits = digits_after_point(features.bounds, features.grid)
    chosen = np.repeat(
        [features.bias, features.input, features.state],
        [1, features.n_inputs, features.reservoir.n_units],
    )
    found = []
    for u in inputs:
        z = numpy_states(features, features.checked(u))[features.washout :, chosen]
        if not features.per_step:
            z = mean_and_deviation(z, features.reservoir.grid or 0)[None]
        found.append(on_grid(z, digits, features.grid))
    return found


def mean_and_deviation(z: Array, bits: int) -> Array:
    """Return one row, by Python's integers and then IEEE operations, as the grid defines it."""
    k, T = np.ldexp(z, bits).astype(np.int64).astype(object), len(z)
    total = k.sum(axis=0)
    near = total // T
    squares = ((k - near) ** 2).sum(axis=0).astype(np.float64) / T
    rest = (total - T * near).astype(np.float64) / T
    deviation = np.sqrt(squares - rest * rest)
    return np.ldexp(np.concatenate([total.astype(np.float64) / T, deviation]), -bits)


def numpy_statistics(features: EchoStateMap, data: list[Recording], units: Grid) -> RidgeStatistics:
    """Return the statistics by Python's integers."""
    z = np.concatenate(numpy_rows(features, [s.u for s in data]))
    known = [s.y for s in data if s.y is not None]
    y = np.concatenate([y[features.washout :] if y.ndim == 2 else y[None] for y in known])
    (pieces,), places = target_pieces([y], units)
    rows = np.concatenate([z * np.ldexp(1.0, units.digits), pieces, np.ones((len(z), 1))], axis=1)
    whole = rows.astype(np.int64).astype(object)
    total, F = np.triu(whole.T @ whole), units.n_features
    return statistics_of(
        packed_whole(total, F),
        total[:, F:],
        len(z),
        units,
        places,
        constant=False,
        fingerprint=features.fingerprint,
    )


def digest(rows: list[Array]) -> str:
    """Return the SHA-256 of rows, zeros without a sign."""
    sha = hashlib.sha256()
    for z in rows:
        sha.update((np.ascontiguousarray(z) + 0.0).astype("<f8").tobytes())
    return sha.hexdigest()


def reservoir(N: int, I: int, share: float, bits: int, **settings: Any) -> Reservoir:
    """Return a reservoir whose weights need no library's draws; radius about 0.9."""
    rng = np.random.default_rng(N)
    W = rng.uniform(-1, 1, (N, N)) * (rng.random((N, N)) < share)
    W *= 0.9 / np.sqrt(N * share / 3)
    W_in, bias = rng.uniform(-0.5, 0.5, (N, I)), rng.uniform(-0.1, 0.1, N)
    kept = {"cut": (0, 0)} | settings
    return Reservoir.from_matrices(W, W_in, bias=bias, grid=bits, **kept)


def small_cases() -> dict[str, tuple[EchoStateMap, bool]]:
    """Return maps to compare, and whether targets are classes."""
    cases: dict[str, tuple[EchoStateMap, bool]] = {}
    mixed = [("tanh", "sigmoid", "sin", "relu", "identity")[k % 5] for k in range(40)]
    for bits in (15, 20, 24):
        plain = reservoir(50, 3, 0.1, bits, leak_rate=0.3)
        cases[f"tanh, sparse, {bits} bits"] = EchoStateMap(plain, feature_grid=bits), False
        dense = reservoir(40, 3, 0.8, bits, activation=mixed, leak_rate=0.7)
        cases[f"mixed, dense, {bits} bits"] = (
            EchoStateMap(dense, feature_grid=bits, washout=5),
            False,
        )
        cut = reservoir(50, 3, 0.1, bits, cut=(64, 24))
        cases[f"cut, {bits} bits, classes"] = EchoStateMap(cut, feature_grid=8, washout=70), True
        pooled = EchoStateMap(cut, feature_grid=8, pool="mean_std", washout=5)
        cases[f"pooled, cut, {bits} bits, classes"] = pooled, True
    return cases


def recordings(
    n: int, T: int, I: int, K: int, *, classes: bool, per_step: bool = True
) -> list[Recording]:
    rng = np.random.default_rng(0)
    found = []
    for k in range(n):
        u = rng.normal(size=(T + k % 3, I))
        if classes:
            y = np.eye(K)[rng.integers(0, K, len(u))]
        else:
            y = rng.normal(size=(len(u), K)) * 3
        found.append(Recording(u, y if per_step else y[0], per_step=per_step))
    return found


def compare() -> tuple[list[dict[str, Any]], bool]:
    """Return digests of rows and statistics of every case on every device."""
    found, right = [], True
    for name, (features, classes) in small_cases().items():
        data = recordings(11, 150, 3, 3, classes=classes, per_step=features.per_step)
        us = [features.checked(s.u) for s in data]
        units = Grid.of(features, classes=classes)
        assert units is not None
        rows, total = numpy_rows(features, us), numpy_statistics(features, data, units)
        by = {"numpy": digest(rows)}
        sums = {"numpy": total.digest()}
        if COMPILED:
            from catchment.readout.accumulation import accumulate

            by["numba"] = digest(features.rows([s.u for s in data]))
            sums["numba"] = accumulate(features, data).digest()
        for device in DEVICES:
            for fused in (False, True) if device == "cuda" else (False,):
                form = TorchForm(features, device, fused=fused)
                by[f"torch {device}{' fused' * fused}"] = digest(form.rows(us))
            targets = [s.y for s in data if s.y is not None]
            made = statistics_on(device, features, data, targets, units)
            sums[f"torch {device}"] = made.digest()
        same = len(set(by.values())) == 1 and len(set(sums.values())) == 1
        right &= same
        told = {"rows": agreed(by), "statistics": agreed(sums)}
        found.append({"case": name, "same": same} | told)
    return found, right


def agreed(digests: dict[str, str]) -> str | dict[str, str]:
    """Return the one digest and whose it is, or all if they differ."""
    first = next(iter(digests.values()))
    if set(digests.values()) == {first}:
        return f"{first[:16]} ({', '.join(digests)})"
    return digests


def timed(work: Callable[[], object], repeats: int = 3) -> float:
    """Return the fastest of some runs in seconds, after one that is not counted."""
    best = float("inf")
    for k in range(repeats + 1):
        if GPU:
            torch.cuda.synchronize()
        start = time.perf_counter()
        work()
        if GPU:
            torch.cuda.synchronize()
        if k:
            best = min(best, time.perf_counter() - start)
    return best


def time_states() -> tuple[list[dict[str, Any]], bool]:
    """Return million client-steps a second of some shapes, plain and fused."""
    device, found, right = DEVICES[-1], [], True
    shapes = [
        (1000, 1.0, 4096, 50),
        (1000, 1.0, 256, 50),
        (1000, 0.01, 4096, 50),
        (200, 0.05, 16384, 64),
    ]
    for N, share, B, T in [(50, 1.0, 32, 10), (50, 0.1, 32, 10)] if SMALL else shapes:
        features = EchoStateMap(reservoir(N, 3, share, 20), feature_grid=20)
        u = torch.from_numpy(np.rint(np.random.default_rng(0).normal(size=(3, T, B)) * 2**20))
        u = (u * 2.0**-20).to(device)
        told: dict[str, Any] = {"units": N, "density": share, "lanes": B, "steps": T}
        seen = {}
        for fused in (False, True) if device == "cuda" else (False,):
            layer = TorchForm(features, device, fused=fused).layers[0]
            S = torch.empty((N, T, B), dtype=torch.float64, device=device)

            def work() -> None:
                X = torch.zeros((N, B), dtype=torch.float64, device=device)
                layer.run(u, X, S, fused=fused)  # noqa: B023

            name = "fused" if fused else "plain"
            told[f"{name}, million client-steps/s"] = round(B * T / timed(work) / 1e6, 2)
            seen[name] = hashlib.sha256((S + 0.0).cpu().numpy().tobytes()).hexdigest()
        told["float64 tanh, million client-steps/s"] = round(
            B * T / _plain_tanh(layer, u, T) / 1e6, 2
        )
        told["same"] = len(set(seen.values())) == 1
        right &= told["same"]
        found.append(told | {"digest": agreed(seen)})
    return found, right


def _plain_tanh(layer: Any, u: torch.Tensor, T: int) -> float:
    """Return the time of the same steps in float64 with torch's tanh, nothing rounded."""
    W, N, B = layer.recurrent, layer.n_units, u.shape[2]

    def work() -> None:
        D = torch.mm(layer.drive, u.reshape(len(u), -1)).view(N, T, B)
        X = torch.zeros((N, B), dtype=torch.float64, device=u.device)
        for t in range(T):
            X = torch.tanh(torch.addmm(D[:, t], W, X))

    return timed(work)


def time_gram() -> tuple[list[dict[str, Any]], bool]:
    """Return the time of integer Gram matrices; 8 bits in two ways that must agree."""
    device = torch.device(DEVICES[-1])
    n, F = (4096, 64) if SMALL else (1 << 20, 1008)
    maker = torch.Generator(device).manual_seed(1)
    z = torch.randn((F, n), dtype=torch.float32, device=device, generator=maker).mul_(0.3).tanh_()
    found, seen = [], {}
    for bits, kind in ((20, torch.float64), (8, torch.float64), (8, torch.float16)):
        k = (z.double() * 2.0**bits).round_().to(kind)
        products = Products(F, device)
        seconds = timed(lambda: products.add(k, largest=1 << bits))  # noqa: B023
        total = products.total() // 4  # one run and three repeats
        name = hashlib.sha256(total.tobytes()).hexdigest()
        seen.setdefault(bits, set()).add(name)
        told = {
            "rows": n,
            "columns": F,
            "bits": bits,
            "type": str(kind),
            "seconds": round(seconds, 5),
        }
        found.append(told | {"digest": name[:16]})
        del k
    few = (z[:50, :3000].double() * 2.0**20).round_()
    products = Products(len(few), device)
    products.add(few, largest=1 << 20)
    whole = few.cpu().numpy().astype(np.int64)
    right = bool((products.total() == whole @ whole.T).all())
    return found, right and all(len(names) == 1 for names in seen.values())


def time_statistics() -> tuple[list[dict[str, Any]], bool]:
    """Return the time from recordings to statistics, on the CPU and on the device."""
    n, T, N = (20, 40, 30) if SMALL else (8000, 128, 200)
    found, right = [], True
    for bits, pool in ((8, None), (20, None), (8, "mean_std")):
        network = reservoir(N, 6, min(1.0, 10 / N), 20)
        features = EchoStateMap(network, feature_grid=bits, washout=10, pool=pool)  # type: ignore[arg-type]
        data = recordings(n, T, 6, 6, classes=True, per_step=pool is None)
        told, seen = _timed_statistics(features, data)
        same = len(set(seen.values())) == 1
        right &= same
        shape = {"sequences": n, "steps": T, "units": N, "bits": bits, "pool": pool}
        found.append(shape | told | {"same": same, "digest": agreed(seen)})
    return found, right


def _timed_statistics(
    features: EchoStateMap, data: list[Recording]
) -> tuple[dict[str, float], dict[str, str]]:
    units = Grid.of(features, classes=True)
    assert units is not None
    targets = [s.y for s in data if s.y is not None]
    told, seen = {}, {}

    def on(device: str) -> None:
        seen[f"torch {device}"] = statistics_on(device, features, data, targets, units).digest()

    if GPU:
        told["torch cuda, s"] = round(timed(lambda: on("cuda"), 2), 3)
    if COMPILED:
        from catchment.readout.accumulation import accumulate

        def compiled() -> None:
            seen["numba"] = accumulate(features, data).digest()

        told["numba, s"] = round(timed(compiled, 1), 3)
    if not COMPILED or not GPU:
        told["torch cpu, s"] = round(timed(lambda: on("cpu"), 1), 3)
    return told, seen


def main() -> int:
    start, right = time.perf_counter(), True
    out: dict[str, Any] = {}
    out["machine"] = {
        "cpu": platform.processor() or platform.machine(),
        "gpu": torch.cuda.get_device_name() if GPU else None,
        "torch": torch.__version__,
        "numba": COMPILED,
    }
    parts: dict[str, Callable[[], tuple[Any, bool]]] = {
        "compare": compare,
        "states": time_states,
        "gram": time_gram,
        "statistics": time_statistics,
    }
    for name, part in parts.items():
        found, same = part()
        out[name], right = found, right and same
    out["seconds"], out["all the same"] = round(time.perf_counter() - start, 1), right
    for name, part in out.items():
        for line in part if isinstance(part, list) else [part]:
            print(json.dumps({name: line}))
    return 0 if right else 1


if __name__ == "__main__":
    raise SystemExit(main())
