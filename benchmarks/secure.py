"""What secure aggregation costs, and what it does to a readout: bytes, processor time, error.

Whole rounds between clients and a server of one process, on one thread and through the real codec,
some clients lost before and some after their upload, for ridge statistics of N features and 10
targets. Every sum is checked bit for bit. "content" is what the stages carry besides the masked
numbers, "messages" the same with their envelopes. The prototype is the one the design was made
with, on another machine; it signed nothing, so a neighbor costs two signatures more here, and with
a hundred clients it had 20 neighbors where the library takes all 99.

    python -m benchmarks.secure [--largest 1000]
"""

from __future__ import annotations

import argparse
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, reduce
from operator import add

import numpy as np

from benchmarks.record import write
from catchment import Array
from catchment.data import Recording
from catchment.engine import LocalEngine
from catchment.features import EchoState, Reservoir
from catchment.federation import Algorithm, Data, Engine, Plan, Reply, Request, RoundContext, run
from catchment.privacy import SecureAggregation, generate_keys
from catchment.privacy.secure_aggregation import (
    Outline,
    Residues,
    Ring,
    add_into,
    decode,
    encode,
    encoded,
    readout_error,
)
from catchment.readout import RidgeStatistics
from catchment.wire import Message

TARGETS = 10
KINDS = 7  # clients send one of so many vectors, which are made once
# By clients: neighbors, client ms, content kB up and down, server s; N = 500, 128 bits. A thousand
# were extrapolated: 2.5 s for the server and 0.2 s for each of the five lost before their upload.
PROTOTYPE = {
    10: (9, 25.0, 2.1, 1.9, 0.03),
    30: (29, 88.0, 6.3, 6.1, 0.25),
    100: (20, 64.0, 4.4, 4.2, 0.38),
    1000: (68, 200.0, 15.0, 15.0, 3.5),
}
# Clients, neighbors (None: as the library has it), lost before the upload, lost after it.
ROUNDS = (
    (10, None, 1, 1),
    (30, None, 2, 1),
    (100, 20, 3, 2),
    (100, None, 3, 2),
    (1000, None, 5, 5),
)


@lru_cache(maxsize=16)
def statistics_of(n_features: int, kind: int) -> RidgeStatistics:
    """Return synthetic statistics of the right size; secure aggregation does not look at them."""
    rng = np.random.default_rng(kind)
    z = np.tanh(rng.normal(size=(20 * n_features, n_features)))
    return RidgeStatistics.from_states(z, rng.normal(size=(len(z), TARGETS)))


def kind_of(client: str) -> int:
    return int(client[1:]) % KINDS


@dataclass(frozen=True, kw_only=True)
class Sending(Algorithm[RidgeStatistics | None, RidgeStatistics, RidgeStatistics | None]):
    """Every client sends statistics that lie ready; the state is their sum."""

    n_features: int

    def start(self) -> RidgeStatistics | None:
        return None

    def client_update(
        self, received: Message, data: Data, context: RoundContext
    ) -> RidgeStatistics:
        return statistics_of(self.n_features, kind_of(context.client))

    def server_update(
        self, state: RidgeStatistics | None, total: RidgeStatistics, context: RoundContext
    ) -> RidgeStatistics:
        return total

    def result(self, state: RidgeStatistics | None) -> RidgeStatistics | None:
        return state


@dataclass(eq=False)
class Metered(Engine):
    """An engine that measures each client's processor time and bytes, and loses some of them."""

    engine: Engine
    silent_from: Mapping[str, str]
    seconds: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    content: Counter[tuple[str, str]] = field(default_factory=Counter)
    messages: Counter[tuple[str, str]] = field(default_factory=Counter)
    numbers: int = 0
    idle: float = 0.0
    silent: set[str] = field(default_factory=set)

    def clients(self) -> Sequence[str]:
        return self.engine.clients()

    def ask(self, requests: Mapping[str, bytes]) -> Iterator[Reply]:
        for client, request in requests.items():
            asked = time.thread_time()
            stage = Request.from_bytes(request, client).stage
            if self.silent_from.get(client) == stage:
                self.silent.add(client)
            if client in self.silent:
                yield Reply(client, None, "lost")
                continue
            started = time.thread_time()
            (reply,) = self.engine.ask({client: request})
            self.seconds[client] += time.thread_time() - started
            assert reply.message is not None
            self._weigh(client, "down", request)
            self._weigh(client, "up", reply.message)
            self.idle += time.thread_time() - asked
            yield reply

    def _weigh(self, client: str, way: str, message: bytes) -> None:
        parts = Message.from_bytes(message)
        if parts.kind == "refusal":
            raise RuntimeError(str(parts.facts["reason"]))
        sizes = [array.nbytes for array in parts.arrays]
        masked = sizes[0] if parts.kind == "secure-upload" else 0
        self.numbers = max(self.numbers, masked)
        self.content[client, way] += sum(sizes) - masked
        self.messages[client, way] += len(message) - masked


def measured(
    n_clients: int, neighbors: int | None, before: int, after: int, n_features: int, bits: int
) -> dict[str, object]:
    """Return what one round costs a client that stays to its end, and the server."""
    names = [f"c{k:04d}" for k in range(n_clients)]
    identities = generate_keys(names)
    memories = identities.memories
    # The smallest bound that the sum keeps to: every feature is below one.
    bound = None if bits == 128 else float(n_clients * 40 * n_features)
    masking = SecureAggregation(
        identities=identities,
        min_clients=min(10, n_clients - before - after),
        rows_per_feature=2,
        neighbors=neighbors,
        bits=64 if bits == 64 else 128,
        bound=bound,
        ridge=1e-2,
    )
    plan = Plan(algorithm=Sending(n_features=n_features), protections=(masking,))
    silent = dict.fromkeys(names[1 : 1 + before], "update")
    silent |= dict.fromkeys(names[1 + before : 1 + before + after], "consistency")
    for kind in range(KINDS):
        statistics_of(n_features, kind)
    nothing: list[Recording] = []
    engine = Metered(LocalEngine(plan, dict.fromkeys(names, nothing), 1, memories), silent)
    started = time.thread_time()
    result = run(plan, engine)
    server = time.thread_time() - started - engine.idle
    sealed = [name for name in names if silent.get(name) != "update"]
    assert result.state is not None
    _check(result.state.parts(), sealed, n_features, masking.ring)
    k, t = masking.degree(n_clients)
    stayed = [name for name in names if name not in silent]

    def mean(counts: Counter[tuple[str, str]], way: str) -> float:
        return float(np.mean([counts[name, way] for name in stayed])) / 1e3

    return {
        "clients": n_clients,
        "features": n_features,
        "bits": bits,
        "neighbors": k,
        "shares needed": t,
        "lost before and after upload": [before, after],
        "masked numbers kB": round(engine.numbers / 1e3, 1),
        "client ms": round(1e3 * float(np.mean([engine.seconds[name] for name in stayed])), 1),
        "server s": round(server, 2),
        "content kB up": round(mean(engine.content, "up"), 2),
        "content kB down": round(mean(engine.content, "down"), 2),
        "messages kB up": round(mean(engine.messages, "up"), 2),
        "messages kB down": round(mean(engine.messages, "down"), 2),
    }


def _check(state: Message, sealed: list[str], n_features: int, ring: Ring) -> None:
    """Stop if the released sum is not the integer sum of the encodings, rounded once."""
    total: Residues | None = None
    for kind, count in Counter(map(kind_of, sealed)).items():
        own = encoded(statistics_of(n_features, kind).parts(), ring)
        for _ in range(count):
            if total is None:
                total = own.copy()
            else:
                add_into(total, own)
    assert total is not None
    if Outline.of(state).fill(total, ring).to_bytes() != state.to_bytes():
        raise RuntimeError("secure aggregation is not the sum of the encodings")


def against_prototype(row: dict[str, object]) -> dict[str, float]:
    """Return how much more than the prototype a round takes, where it was measured alike."""
    n_clients, k = row["clients"], row["neighbors"]
    assert isinstance(n_clients, int)
    known = PROTOTYPE[n_clients]
    if row["features"] != 500 or row["bits"] != 128 or k != known[0]:
        return {}
    both = float(str(row["content kB up"])) + float(str(row["content kB down"]))
    return {
        "client time": round(float(str(row["client ms"])) / known[1], 2),
        "content up and down": round(both / (known[2] + known[3]), 2),
        "server time": round(float(str(row["server s"])) / known[4], 2),
    }


@dataclass(frozen=True)
class Case:
    """A readout to be solved from a sum: how smooth the inputs are, and the ridge."""

    name: str
    smooth: int
    ridge: float


CASES = (
    Case("well conditioned", 0, 1e-2),
    Case("usual", 8, 1e-2),
    Case("usual, small ridge", 8, 1e-6),
    Case("bad", 40, 1e-10),
)


def readout_errors(case: Case) -> dict[str, object]:
    """Return how far readouts of differently summed statistics lie from the pooled one."""
    n_clients, N = 20, 200
    features = EchoState.of(Reservoir(units=N, inputs=1, seed=1), input=False)
    clients = [_rows(features, case.smooth, k) for k in range(n_clients)]
    test_z, test_y = _rows(features, case.smooth, 999)
    own = [(z.T @ z, z.T @ y) for z, y in clients]
    G, C = _added(own, lambda x: x)
    W = _solve(G, C, case.ridge)
    eigenvalues = np.linalg.eigvalsh(G)
    sums = {
        "float64, other order": _added(own[::-1], lambda x: x),
        "128 bits": _in_ring(own, Ring()),
        "64 bits, f = 48": _in_ring(own, Ring(64, 48)),
        "64 bits, f = 32": _in_ring(own, Ring(64, 32)),
        "float32": _added(own, lambda x: x.astype(np.float32).astype(np.float64)),
        "22 bits, best clip": _added(own, lambda x: _quantized(x, _largest(own))),
        "22 bits, clip 8": _added(own, lambda x: _quantized(x, 8.0)),
    }
    errors: dict[str, object] = {}
    for name, (moved_G, moved_C) in sums.items():
        moved = _solve(moved_G, moved_C, case.ridge)
        errors[name] = {
            "readout": float(f"{np.linalg.norm(moved - W) / np.linalg.norm(W):.2g}"),
            "nrmse": round(_nrmse(test_z @ moved, test_y), 4),
        }
    bound = readout_error(
        Ring(64, 48),
        n_clients=n_clients,
        n_features=N,
        n_targets=1,
        smallest_eigenvalue=float(eigenvalues[0]) + case.ridge,
        weights_norm=float(np.linalg.norm(W, 2)),
    )
    return {
        "case": case.name,
        "ridge": case.ridge,
        "condition": float(f"{(eigenvalues[-1] + case.ridge) / (eigenvalues[0] + case.ridge):.2g}"),
        "nrmse": round(_nrmse(test_z @ W, test_y), 4),
        "bound, 64 bits, f = 48": float(f"{bound / np.linalg.norm(W):.2g}"),
        "errors": errors,
    }


def _rows(features: EchoState, smooth: int, seed: int) -> tuple[Array, Array]:
    """Return states (200, N) of one client, and what they are to recall (200, 1)."""
    rng = np.random.default_rng(seed)
    noise = rng.normal(size=200 + smooth + 10)
    u = np.convolve(noise, np.ones(smooth + 1) / np.sqrt(smooth + 1), "valid")[:210]
    z = features(u[:, None])[10:]
    return z, (u[5:205] * u[8:208] + u[9:209])[:, None]


def _solve(G: Array, C: Array, ridge: float) -> Array:
    return np.asarray(np.linalg.solve(G + ridge * np.eye(len(G)), C), dtype=np.float64)


def _added(own: list[tuple[Array, Array]], change: Callable[[Array], Array]) -> tuple[Array, Array]:
    G, C = (reduce(add, [change(pair[part]) for pair in own]) for part in (0, 1))
    return G, C


def _in_ring(own: list[tuple[Array, Array]], ring: Ring) -> tuple[Array, Array]:
    totals = []
    for part in (0, 1):
        shape = own[0][part].shape
        total = np.zeros((ring.limbs, own[0][part].size), dtype=np.uint64)
        for pair in own:
            add_into(total, encode(pair[part].ravel(), ring, n_clients=len(own)))
        totals.append(decode(total, ring).reshape(shape))
    return totals[0], totals[1]


def _largest(own: list[tuple[Array, Array]]) -> float:
    return max(float(np.abs(array).max()) for pair in own for array in pair)


def _quantized(x: Array, clip: float) -> Array:
    """Return x clipped and rounded to 2^22 levels, as one widely used secure aggregation has it."""
    step = 2 * clip / 2**22
    rounded: Array = np.rint(np.clip(x, -clip, clip) / step) * step
    return rounded


def _nrmse(guess: Array, y: Array) -> float:
    return float(np.sqrt(np.mean((guess - y) ** 2)) / y.std())


def main() -> None:
    parser = argparse.ArgumentParser(description="measure secure aggregation")
    parser.add_argument("--largest", type=int, default=1000, help="most clients")
    largest = parser.parse_args().largest
    rounds = []
    for n_features in (100, 500):
        for n_clients, neighbors, before, after in ROUNDS:
            for bits in (128, 64):
                if n_clients > largest or (bits == 64 and n_clients > 30):
                    continue
                row = measured(n_clients, neighbors, before, after, n_features, bits)
                row["times the prototype"] = against_prototype(row)
                rounds.append(row)
                print(row, flush=True)
    errors = [readout_errors(case) for case in CASES]
    for row in errors:
        print(row)
    path = write("secure", {"prototype": PROTOTYPE, "rounds": rounds, "readouts": errors})
    print(f"written to {path.name}")


if __name__ == "__main__":
    main()
