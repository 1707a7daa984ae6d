"""What a GPU does for maps, statistics, predictions and a search, beside 16 cores and plain torch.

    python -m benchmarks.gpu --data .data --out benchmarks/results     # gpu.json, four minutes
    python -m benchmarks.gpu --device cpu --small                      # the same code in seconds

Prints a line of JSON for each figure. `--data` has UCI HAR for the search; without it the windows
are made up. `--peer` is esnfed's own script, experiments/exp14_reservoir_gpu.py of its repository,
whose loop is then timed on this machine too.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks import record
from benchmarks.gpu_cases import (
    CASES,
    PLAN,
    long_recording,
    made_up_people,
    recordings,
    reservoir,
    windows,
)
from benchmarks.gpu_plain import graphed, plain_gram, plain_steps
from catchment import Array, DefaultMap, DiagonalReservoir, EchoState, MiniRocket
from catchment.data import Recording
from catchment.features import FeatureMap
from catchment.readout import accumulate, train
from catchment_gpu.echo_state import EchoStateForm, Lanes, cut_into_segments
from catchment_gpu.readout import Products, padded

Line = dict[str, Any]
# Of one series, as its repository has it for an H200; steps a second at 1000 units in float32.
PUBLISHED = {"steps/s": 14202, "units": 1000, "source": "github.com/daibeal/esnfed"}


@dataclass(frozen=True)
class Bench:
    """Where to measure, how large, and until when."""

    device: torch.device
    small: bool
    data: Path | None
    peer: Path | None
    until: float

    def timed(self, work: Callable[[], object], repeats: int = 3) -> float:
        """Return the fastest of some runs in seconds, after one that is not counted."""
        best = float("inf")
        for k in range(repeats + 1):
            self._wait()
            start = time.perf_counter()
            work()
            self._wait()
            if k:
                best = min(best, time.perf_counter() - start)
            if k and time.perf_counter() > self.until:
                break
        return best

    def once(self, work: Callable[[], Any]) -> tuple[float, Any]:
        """Return the seconds of one run, and what it returned."""
        self._wait()
        start = time.perf_counter()
        found = work()
        self._wait()
        return time.perf_counter() - start, found

    def _wait(self) -> None:
        if self.device.type == "cuda":
            torch.cuda.synchronize()

    @property
    def name(self) -> str:
        return self.device.type


def echo_states(bench: Bench) -> Iterator[Line]:
    """Yield million client-steps a second of dense reservoirs: ours, and plain torch beside it."""
    shapes = [(1000, 256, 1024), (1000, 4096, 192), (200, 4096, 512)]
    for N, K, T in [(30, 8, 16)] if bench.small else shapes:
        line: Line = {"units": N, "sequences": K, "steps": T}
        rng = np.random.default_rng(0)
        inputs = [rng.normal(size=(T, 3)) for _ in range(K)]
        for name, bits in (("grid", 20), ("float64", None)):
            features = EchoState.of(reservoir(N, 3, bits), feature_bits=bits)
            line[name] = _millions(K * T, _state_seconds(bench, features, inputs))
            whole = _state_seconds(bench, features, inputs, from_host=True)
            line[f"{name}, from the host"] = _millions(K * T, whole)
        W, W_in = (torch.from_numpy(part).to(bench.device) for part in reservoir_matrices(N))
        u = torch.from_numpy(np.stack(inputs, axis=2)).to(bench.device).permute(1, 0, 2)
        line["plain loop"] = _millions(K * T, bench.timed(lambda: plain_steps(W, W_in, u)))  # noqa: B023
        if bench.device.type == "cuda":
            replay = graphed(W, W_in, u)
            line["plain graph"] = _millions(K * T, bench.timed(replay))
            line["grid costs"] = round(line["plain graph"] / line["grid"], 2)
        yield line


def reservoir_matrices(N: int) -> tuple[Array, Array]:
    """Return the weights (N, N) and (N, 3) of the reservoir that `echo_states` times."""
    layer = reservoir(N, 3, None).layers[0]
    return layer.W.to_dense(), layer.W_in.to_dense()


def _state_seconds(
    bench: Bench, features: EchoState, inputs: list[Array], *, from_host: bool = False
) -> float:
    """Return the time of all states of sequences that are on the device, or that are not yet."""
    form, checked = EchoStateForm(features, bench.device), features.checked_all(inputs)
    lengths = [len(u) for u in checked]
    segments = cut_into_segments(lengths, (0, 0), 0)
    lanes = Lanes(torch.from_numpy(np.concatenate(checked)).to(bench.device), lengths, segments)
    height = 1 + features.known_inputs + features.reservoir.n_units

    def work() -> None:
        for _ in form.state_blocks(checked) if from_host else form._batch(lanes, segments, height):
            pass

    return bench.timed(work)


def _millions(n: int, seconds: float) -> float:
    return round(n / seconds / 1e6, 4)


def one_sequence(bench: Bench) -> Iterator[Line]:
    """Yield steps a second of one series through 1000 units, and esnfed's own loop beside it."""
    N, T = (30, 16) if bench.small else (1000, 4000)
    inputs = [np.random.default_rng(0).normal(size=(T, 3))]
    line: Line = {"units": N, "steps": T}
    for name, bits in (("grid", 20), ("float64", None)):
        features = EchoState.of(reservoir(N, 3, bits), feature_bits=bits)
        line[f"{name}, steps/s"] = round(T / _state_seconds(bench, features, inputs))
    line["esnfed, published"] = PUBLISHED
    if bench.peer is not None:
        line["esnfed, its loop on this machine, steps/s"] = round(T / _peer_seconds(bench, N, T))
    yield line


def _peer_seconds(bench: Bench, N: int, T: int) -> float:
    """Return the time of esnfed's loop in float32 over one series."""
    assert bench.peer is not None
    spec = importlib.util.spec_from_file_location("esnfed_gpu", bench.peer)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    W = torch.from_numpy(reservoir_matrices(N)[0]).float().to(bench.device)
    W_in, u = torch.ones((N, 2), device=bench.device), torch.zeros((T, 1), device=bench.device)
    return bench.timed(lambda: module.harvest(W, W_in, 1.0, u))


def gram(bench: Bench) -> Iterator[Line]:
    """Yield the seconds of the products of 1e6 rows of 1001 features, integers and floats."""
    n, F = (4096, 33) if bench.small else (1_000_000, 1001)
    maker = torch.Generator(bench.device).manual_seed(1)
    z = torch.randn((F, n), device=bench.device, generator=maker).mul_(0.3).tanh_().double()
    line: Line = {"rows": n, "features": F}
    line["plain torch, float64, s"] = round(bench.timed(lambda: plain_gram(z)), 4)
    for bits in (20, 8):
        k, products = (z * 2.0**bits).round_(), Products(F, bench.device)
        if bits == 8 and bench.device.type == "cuda":
            k = torch.nn.functional.pad(k.half(), (0, padded(n) - n))
        seconds = bench.timed(lambda: products.add(k, largest=1 << bits))  # noqa: B023
        line[f"{bits} bits, s"] = round(seconds, 4)
    yield line


def long_sequence(bench: Bench) -> Iterator[Line]:
    """Yield the seconds from one long recording to statistics of a diagonal reservoir."""
    T = 3000 if bench.small else 10_000_000
    whole = long_recording(T)
    few = Recording(whole.u[: T // 10], None if whole.y is None else whole.y[: T // 10])
    for units in (100, 200):
        features = DiagonalReservoir(units).build(1, per_step=True)
        accumulate(features, [long_recording(100)])  # compiles
        here, digest = bench.once(lambda: accumulate(features, [few]).digest())  # noqa: B023
        there = accumulate(features, [few], device=bench.name).digest()
        seconds = bench.timed(lambda: accumulate(features, [whole], device=bench.name), 2)  # noqa: B023
        yield {
            "units": units,
            "steps": T,
            "device, s": round(seconds, 3),
            f"CPU on {T // 10} steps, s": round(here, 3),
            "same digest": digest == there,
        }


def window_maps(bench: Bench) -> Iterator[Line]:
    """Yield windows a second from recordings to statistics, on the device and on all cores."""
    data = windows(60 if bench.small else 7352)
    maps: dict[str, FeatureMap] = {
        "default": DefaultMap(),
        "minirocket, 504": MiniRocket(504),
        "echo_state, 200 units": EchoState(200),
    }
    for name, described in maps.items():
        features = described.build(9, per_step=False, classes=True)
        yield {"map": name} | _compared(bench, features, data)


def _compared(bench: Bench, features: FeatureMap, data: list[Recording]) -> Line:
    """Return recordings a second on the device and on the CPU, and whether digests agree."""
    found: dict[str, str] = {}

    def on(device: str | None) -> Callable[[], None]:
        def work() -> None:
            found[str(device)] = accumulate(features, data, classes=True, device=device).digest()

        return work

    device, cores = bench.timed(on(bench.name)), bench.timed(on(None))
    return {
        "recordings": len(data),
        "device, /s": round(len(data) / device),
        "CPU, /s": round(len(data) / cores),
        "times": round(cores / device, 1),
        "same digest": len(set(found.values())) == 1,
    }


def statistics(bench: Bench) -> Iterator[Line]:
    """Yield the same of recordings with a target per step, and of many small clients."""
    n, T = (20, 30) if bench.small else (4096, 250)
    for units in (20,) if bench.small else (200, 1000):
        features = EchoState(units, washout=10).build(3, per_step=True, classes=True)
        data = recordings(n, T, 3, per_step=True)
        yield {"map": f"echo_state, {units} units", "steps": T} | _compared(bench, features, data)


def outputs(bench: Bench) -> Iterator[Line]:
    """Yield predictions a second, and how far those of the device are from those of the CPU."""
    n, T = (20, 30) if bench.small else (2048, 250)
    for per_step in (True, False):
        data = recordings(n, T, 3, per_step=per_step)
        features = EchoState(200).build(3, per_step=per_step, classes=True)
        model = train(features, data[:200], 1.0)
        us = [one.u for one in data]
        cores, here = bench.timed(lambda: model.outputs(us)), model.outputs(us)  # noqa: B023
        device = bench.timed(lambda: model.outputs(us, device=bench.name))  # noqa: B023
        there = model.outputs(us, device=bench.name)
        apart = max(float(np.abs(a - b).max()) for a, b in zip(here, there, strict=True))
        largest = max(float(np.abs(a).max()) for a in here)
        yield {
            "rows of a recording": T if per_step else 1,
            "recordings": n,
            "device, rows/s": round(sum(map(len, here)) / device),
            "CPU, rows/s": round(sum(map(len, here)) / cores),
            "largest difference, relative": apart / largest,
        }


def search(bench: Bench) -> Iterator[Line]:
    """Yield the seconds of a search over 100 recipes, and of some of its trials on the CPU."""
    from catchment.plans import parse_plan
    from catchment_lab.search import SearchResult, SearchSettings, read_search
    from catchment_lab.search import search as searched

    people = made_up_people(bench.data, small=bench.small)
    space = read_search(parse_plan(PLAN)).space
    n_trials, n_here = (2, 2) if bench.small else (100, 3)

    def found(device: str | None, trials: int, workers: int = 1) -> SearchResult:
        return searched(
            people.train,
            people.validation,
            features=lambda one: people.described.reading(one, per_step=False, classes=True),
            classes=people.classes,
            space=space,
            base=people.described.reservoir_for(9, per_step=False, classes=True),
            settings=SearchSettings(trials=trials, workers=workers),
            device=device,
        )

    found(bench.name, 1)  # compiles
    seconds, there = bench.once(lambda: found(bench.name, n_trials))
    line = {
        "data": people.name,
        "windows": people.n_windows,
        "recipes": n_trials,
        "device, s": round(seconds, 1),
        "to the end": sum(trial.state == "complete" for trial in there.trials),
        "accuracy": round(there.best.score, 4),
    }
    here_seconds, here = bench.once(lambda: found(None, n_here))
    pairs = zip(here.trials, there.trials[:n_here], strict=True)
    alike = all((a.score, a.ridge, a.settings) == (b.score, b.ridge, b.settings) for a, b in pairs)
    line |= {f"first {n_here} trials on one core, s": round(here_seconds, 1)}
    yield line | {f"first {n_here} trials are the same": alike}


def digests(bench: Bench) -> Iterator[Line]:
    """Yield whether each map's statistics have one digest on the CPU and on the device."""
    for name, (described, per_step) in CASES.items():
        features = described.build(3, per_step=per_step, classes=True)
        data = recordings(40, 150, 3, per_step=per_step)
        here = accumulate(features, data, classes=True).digest()
        there = accumulate(features, data, classes=True, device=bench.name).digest()
        yield {"map": name, "digest": here[:16], "same digest": here == there}


PARTS = (
    echo_states,
    one_sequence,
    gram,
    long_sequence,
    search,
    window_maps,
    statistics,
    outputs,
    digests,
)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--data", type=Path)
    parser.add_argument("--peer", type=Path)
    parser.add_argument("--out", type=Path, default=Path(os.environ.get("OUT", ".")))
    parser.add_argument("--seconds", type=float, default=230.0)
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--parts", nargs="*", default=[part.__name__ for part in PARTS])
    asked = parser.parse_args()
    until = time.perf_counter() + asked.seconds
    bench = Bench(torch.device(asked.device), asked.small, asked.data, asked.peer, until)
    gpu = torch.cuda.get_device_name() if bench.device.type == "cuda" else None
    results: dict[str, Any] = {"gpu": gpu, "torch": torch.__version__}
    right = True
    for part in PARTS:
        if part.__name__ in asked.parts:
            results[part.__name__] = _lines(bench, part)
            lines = results[part.__name__]
            right &= all(_holds(line) for line in lines)
            record.write("gpu", results | {"all the same": right}, folder=asked.out)
    return 0 if right else 1


def _lines(bench: Bench, part: Callable[[Bench], Iterator[Line]]) -> list[Line]:
    """Return the lines of a part as far as it comes; what goes wrong does not end the others."""
    found: list[Line] = []
    if time.perf_counter() > bench.until:
        found.append({"not run": "out of time"})
    else:
        try:
            for line in part(bench):
                found.append(line)
                print(json.dumps({part.__name__: line}), flush=True)
                if time.perf_counter() > bench.until:
                    break
        except Exception:
            found.append({"error": traceback.format_exc()[-1500:]})
    if "error" in found[-1:][0] or "not run" in found[-1]:
        print(json.dumps({part.__name__: found[-1]}), flush=True)
    if bench.device.type == "cuda":
        torch.cuda.empty_cache()
    return found


def _holds(line: Line) -> bool:
    """Whether nothing in a line says that numbers differ or that it could not be measured."""
    return not any(value is False or name == "error" for name, value in line.items())


if __name__ == "__main__":
    raise SystemExit(main())
