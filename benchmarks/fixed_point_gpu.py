"""Reservoirs and statistics in fixed point, on the CPU and on a GPU: one digest each, and the time.

    PYTHONPATH=src python benchmarks/fixed_point_gpu.py

Prints lines of JSON and ends with status 1 if a digest differs. Needs torch and numpy;
where numba is missing the reference is the one in numpy below.
"""

# ruff: noqa: E402  # numba's stand-in must be there before the library is imported

from __future__ import annotations

import hashlib
import json
import platform
import sys
import time
import traceback
import types
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import torch

Array = np.ndarray[Any, np.dtype[np.float64]]
Results = Iterator[tuple[dict[str, Any], bool]]  # what was found, and whether digests agree


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

from catchment.data import Recording
from catchment.features import EchoState, Reservoir
from catchment.features.echo_state import LINEAR_BOUND, ROUND, cut_places, kernels
from catchment.readout import FixedPoint, RidgeStatistics, statistics_of, target_pieces
from catchment_gpu import Repeated, rows_on
from catchment_gpu.echo_state import EchoStateForm, TorchLayer
from catchment_gpu.readout import Products, statistics_on

GPU = torch.cuda.is_available()
DEVICES = ["cpu", *(["cuda"] if GPU else [])]
SMALL = "small" in sys.argv  # shapes for a machine without a GPU


def growth(y: Array) -> Array:
    shifted = y * kernels.LOG2E + ROUND
    r = y - (shifted - ROUND) * kernels.LN2
    p = np.full_like(r, kernels.C4)
    for c in (kernels.C3, kernels.C2, kernels.C1, kernels.C0, 0.0):
        p = (p * r + (c + kernels.R27)) - kernels.R27
    p = (p * r + (r + kernels.R27)) - kernels.R27
    scale = np.ldexp(1.0, (shifted - ROUND).astype(np.int64))
    return scale * p + (scale - 1.0)


def sine(x: Array) -> Array:
    a = np.minimum(np.abs(x), kernels.FARTHEST)
    k = np.rint(((a + kernels.R26) - kernels.R26) * kernels.OVER_PI)
    r = ((a - k * kernels.PI) + kernels.R25) - kernels.R25
    z = (r * r + kernels.R24) - kernels.R24
    p = np.full_like(z, kernels.S4)
    steps = (
        (kernels.S3, kernels.R36),
        (kernels.S2, kernels.R30),
        (kernels.S1, kernels.R30),
        (kernels.S0, kernels.R29),
    )
    for c, R in (*steps, (0.0, kernels.R27)):
        p = (p * z + (c + R)) - R
    p = (p * r + (r + kernels.R27)) - kernels.R27
    return p * np.where(k % 2 == 1, -1.0, 1.0) * np.where(x < 0, -1.0, 1.0)


def activated(code: int, p: Array, digits: int) -> Array:
    """Return the activations of `catchment.features.echo_state.kernels` in numpy."""
    G, top = kernels.rounder(digits), 1.0 - 2.0**-digits
    if code == 0:
        e = growth(np.minimum((np.abs(p + p) + kernels.R26) - kernels.R26, kernels.LARGEST))
        return np.copysign(np.minimum((e / (e + 2.0) + G) - G, top), p)
    if code == 1:
        e = growth(np.minimum((np.abs(p) + kernels.R26) - kernels.R26, kernels.LARGEST))
        upper = np.minimum(((e + 1.0) / (e + 2.0) + G) - G, top)
        return np.where(p >= 0, upper, 1.0 - upper)
    if code == 3:
        return np.clip((sine(p) + G) - G, -top, top)
    linear = np.clip((p + G) - G, -LINEAR_BOUND, LINEAR_BOUND)
    return np.maximum(linear, 0.0) if code == 2 else linear


def numpy_states(features: EchoState, u: Array) -> Array:
    """Return [1, u, states] (T, 1 + I + N) of one sequence, step by step."""
    out = np.ones((len(u), 1 + features.known_inputs + features.reservoir.n_units))
    out[:, 1 : 1 + features.known_inputs] = u
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
                    y[units] = activated(int(code), p[units], features.reservoir.bits or 0)
                G = kernels.rounder(features.reservoir.bits or 0)
                xs[k] = ((1.0 - program.leak) * xs[k] + program.leak * y + G) - G
                below = xs[k]
                found.append(below)
            if t >= first:
                out[t, 1 + features.known_inputs :] = np.concatenate(found)
    return out


def numpy_rows(features: EchoState, inputs: list[Array]) -> list[Array]:
    """Return the feature rows of sequences: of each step, or their mean and deviation."""
    chosen = np.repeat(
        [features.bias, features.input, features.state],
        [1, features.known_inputs, features.reservoir.n_units],
    )
    found = []
    for u in inputs:
        z = numpy_states(features, features.checked_all([u])[0])[features.washout :, chosen]
        if not features.per_step:
            z = mean_and_deviation(z, features.reservoir.bits or 0)[None]
        found.append(features.rounded(z))
    return found


def mean_and_deviation(z: Array, bits: int) -> Array:
    """Return one row, by Python's integers and then IEEE operations, as fixed point defines it."""
    k, T = np.ldexp(z, bits).astype(np.int64).astype(object), len(z)
    total = k.sum(axis=0)
    near = total // T
    squares = ((k - near) ** 2).sum(axis=0).astype(np.float64) / T
    rest = (total - T * near).astype(np.float64) / T
    deviation = np.sqrt(squares - rest * rest)
    found: Array = np.ldexp(np.concatenate([total.astype(np.float64) / T, deviation]), -bits)
    return found


def numpy_statistics(
    features: EchoState, z: Array, data: list[Recording], units: FixedPoint
) -> RidgeStatistics:
    """Return the statistics of rows (n, F) by Python's integers."""
    known = [s.y for s in data if s.y is not None]
    y = np.concatenate([y[features.washout :] if y.ndim == 2 else y[None] for y in known])
    (pieces,), places = target_pieces([y], units)
    rows = np.concatenate([z * np.ldexp(1.0, units.digits), pieces, np.ones((len(z), 1))], axis=1)
    whole = rows.astype(np.int64).astype(object)
    return statistics_of(
        whole.T @ whole,
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
    return Reservoir.from_matrices(W, W_in, bias=bias, bits=bits, **kept)


def small_cases() -> dict[str, tuple[EchoState, bool]]:
    """Return maps to compare, and whether targets are classes."""
    cases: dict[str, tuple[EchoState, bool]] = {}
    mixed = [("tanh", "sigmoid", "sin", "relu", "identity")[k % 5] for k in range(40)]
    for bits in (15, 20, 24):
        plain = reservoir(50, 3, 0.1, bits, leak_rate=0.3)
        cases[f"tanh, sparse, {bits} bits"] = EchoState.of(plain, feature_bits=bits), False
        dense = reservoir(40, 3, 0.8, bits, activation=mixed, leak_rate=0.7)
        cases[f"mixed, dense, {bits} bits"] = (
            EchoState.of(dense, feature_bits=bits, washout=5),
            False,
        )
        cut = reservoir(50, 3, 0.1, bits, cut=(64, 24))
        cases[f"cut, {bits} bits, classes"] = EchoState.of(cut, feature_bits=8, washout=70), True
        pooled = EchoState.of(cut, feature_bits=8, pool="mean_std", washout=5)
        cases[f"pooled, cut, {bits} bits, classes"] = pooled, True
    return cases


def recordings(
    n: int, T: int, I: int, K: int, *, classes: bool, per_step: bool = True
) -> list[Recording]:
    rng = np.random.default_rng(0)
    found = []
    for k in range(n):
        u = rng.normal(size=(T + k % 3, I))
        labels, numbers = rng.integers(0, K, len(u)), rng.normal(size=(len(u), K))
        y = np.eye(K)[labels] if classes else 3 * numbers
        found.append(Recording(u, y if per_step else y[0], per_step=per_step))
    return found


def compare() -> Results:
    """Yield digests of rows and statistics of every case on every device."""
    for name, (features, classes) in small_cases().items():
        data = recordings(11, 150, 3, 3, classes=classes, per_step=features.per_step)
        us = features.checked_all([s.u for s in data])
        targets = [s.y for s in data if s.y is not None]
        units = FixedPoint.of(features, classes=classes)
        assert units is not None
        rows = numpy_rows(features, us)
        total = numpy_statistics(features, np.concatenate(rows), data, units)
        by, sums = {"numpy": digest(rows)}, {"numpy": total.digest()}
        if COMPILED:
            from catchment.readout import accumulate

            by["numba"] = digest(features.rows([s.u for s in data]))
            sums["numba"] = accumulate(features, data, classes=classes).digest()
        for device in DEVICES:
            for fused in (False, True) if device == "cuda" else (False,):
                form = EchoStateForm(features, torch.device(device), fused=fused)
                by[f"torch {device}{' fused' * fused}"] = told(lambda: digest(rows_on(form, us)))  # noqa: B023
            sums[f"torch {device}"] = told(
                lambda: statistics_on(device, features, data, targets, units).digest()  # noqa: B023
            )
        same = len(set(by.values())) == 1 and len(set(sums.values())) == 1
        yield {"case": name, "rows": agreed(by), "statistics": agreed(sums)}, same


def told(work: Callable[[], str]) -> str:
    """Return what comes out, or what went wrong: the other devices are then still compared."""
    try:
        return work()
    except Exception as error:
        return f"{type(error).__name__}: {error}"[:400]


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


def time_states() -> Results:
    """Yield million client-steps a second of some shapes, plain and fused."""
    device = DEVICES[-1]
    shapes = [
        (1000, 1.0, 4096, 50),
        (1000, 1.0, 256, 50),
        (1000, 0.01, 4096, 50),
        (200, 0.05, 16384, 64),
    ]
    for shape in [(50, 1.0, 32, 10), (50, 0.1, 32, 10)] if SMALL else shapes:
        N, share, B, T = shape
        features = EchoState.of(reservoir(N, 3, share, 20), feature_bits=20)
        u = np.rint(np.random.default_rng(0).normal(size=(3, T, B)) * 2**20) / 2**20
        inputs = torch.from_numpy(u).to(device)
        layer = EchoStateForm(features, torch.device(device), fused=False).layers[0]
        line = {"units": N, "density": share, "lanes": B, "steps": T}
        seen: dict[str, str] = {}
        for name in ("plain", "fused", "graph") if device == "cuda" else ("plain",):
            measured = partial(_timed_layer, layer, inputs, line, name)
            seen[name] = told(measured)
        for name, graph in (("float64 tanh", False), ("float64 tanh as a graph", True)):
            speed = B * T / _plain_tanh(layer, inputs, T, graph=graph) / 1e6
            line[f"{name}, million client-steps/s"] = round(speed, 2)
        yield line | {"digest": agreed(seen)}, len(set(seen.values())) == 1


def _timed_layer(layer: TorchLayer, u: torch.Tensor, line: dict[str, Any], name: str) -> str:
    """Put the speed of a layer into a line and return the digest of its states."""
    N, (_, T, B) = layer.n_units, u.shape
    S = torch.zeros((N, T, B), dtype=torch.float64, device=u.device)

    X = u.new_zeros((N, B))

    def work() -> None:
        layer.run(u, X.zero_(), S, fused=name != "plain")

    repeated = Repeated(work, u.device) if name == "graph" else work
    repeated()
    line[f"{name}, million client-steps/s"] = round(B * T / timed(repeated) / 1e6, 2)
    return hashlib.sha256((S + 0.0).cpu().numpy().tobytes()).hexdigest()


def _plain_tanh(layer: TorchLayer, u: torch.Tensor, T: int, *, graph: bool) -> float:
    """Return the time of the same steps in float64 with torch's tanh, nothing rounded."""
    W, N, B = layer.recurrent, layer.n_units, u.shape[2]

    def work() -> None:
        D = torch.mm(layer.drive, u.reshape(len(u), -1)).view(N, T, B)
        X = torch.zeros((N, B), dtype=torch.float64, device=u.device)
        for t in range(T):
            X = torch.tanh(torch.addmm(D[:, t], W, X))

    repeated = Repeated(work, u.device) if graph else work
    repeated()
    return timed(repeated)


def time_gram() -> Results:
    """Yield the time of integer Gram matrices; 8 bits in two ways that must agree."""
    device = torch.device(DEVICES[-1])
    n, F = (4096, 64) if SMALL else (1 << 20, 1008)
    maker = torch.Generator(device).manual_seed(1)
    z = torch.randn((F, n), dtype=torch.float32, device=device, generator=maker).mul_(0.3).tanh_()
    seen: dict[int, str] = {}
    for bits, kind in ((20, torch.float64), (8, torch.float64), (8, torch.float16)):
        k = (z.double() * 2.0**bits).round_().to(kind)
        products = Products(F, device)
        seconds = timed(lambda: products.add(k, largest=1 << bits))  # noqa: B023
        total = products.total() // 4  # one run and three repeats
        name = hashlib.sha256(total.tobytes()).hexdigest()
        line = {"rows": n, "columns": F, "bits": bits, "type": str(kind)}
        line |= {"seconds": round(seconds, 5), "digest": name[:16]}
        yield line, seen.setdefault(bits, name) == name
    few = (z[:50, :3000].double() * 2.0**20).round_()
    products = Products(len(few), device)
    products.add(few, largest=1 << 20)
    whole = few.cpu().numpy().astype(np.int64)
    yield {"as numpy's integers": len(few)}, bool((products.total() == whole @ whole.T).all())


def time_statistics() -> Results:
    """Yield the time from recordings to statistics, on the CPU and on the device."""
    n, T, N = (20, 40, 30) if SMALL else (8000, 128, 200)
    for bits, pool in ((8, None), (20, None), (8, "mean_std")):
        network = reservoir(N, 6, min(1.0, 10 / N), 20)
        features = EchoState.of(network, feature_bits=bits, washout=10, pool=pool)  # type: ignore[arg-type]
        data = recordings(n, T, 6, 6, classes=True, per_step=pool is None)
        line, seen = _timed_statistics(features, data)
        shape = {"sequences": n, "steps": T, "units": N, "bits": bits, "pool": pool}
        yield shape | line | {"digest": agreed(seen)}, len(set(seen.values())) == 1


def _timed_statistics(
    features: EchoState, data: list[Recording]
) -> tuple[dict[str, float], dict[str, str]]:
    units = FixedPoint.of(features, classes=True)
    assert units is not None
    targets = [s.y for s in data if s.y is not None]
    line: dict[str, float] = {}
    seen: dict[str, str] = {}

    def on(device: str) -> None:
        seen[f"torch {device}"] = statistics_on(device, features, data, targets, units).digest()

    if GPU:
        line["torch cuda, s"] = round(timed(lambda: on("cuda"), 2), 3)
    if COMPILED:
        from catchment.readout import accumulate

        def compiled() -> None:
            seen["numba"] = accumulate(features, data).digest()

        line["numba, s"] = round(timed(compiled, 1), 3)
    if not COMPILED or not GPU:
        start = time.perf_counter()
        on("cpu")
        line["torch cpu, s"] = round(time.perf_counter() - start, 3)
    return line, seen


def main() -> int:
    start, right = time.perf_counter(), True
    machine = {
        "cpu": platform.processor() or platform.machine(),
        "gpu": torch.cuda.get_device_name() if GPU else None,
        "torch": torch.__version__,
        "numba": COMPILED,
    }
    print(json.dumps({"machine": machine}), flush=True)
    for part in (compare, time_states, time_gram, time_statistics):
        try:
            for line, same in part():
                print(json.dumps({part.__name__: {"same": same} | line}), flush=True)
                right &= same
        except Exception:
            print(json.dumps({part.__name__: traceback.format_exc()[-1500:]}), flush=True)
            right = False
    seconds = round(time.perf_counter() - start, 1)
    print(json.dumps({"seconds": seconds, "all the same": right}))
    return 0 if right else 1


if __name__ == "__main__":
    raise SystemExit(main())
