"""For tests of one's own: synthetic clients, and what every feature map and algorithm promises.

The library's own pass the same checks; a broken law is an AssertionError of one sentence.
"""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import reduce
from operator import add
from typing import Any

import numpy as np

from catchment.arrays import Array
from catchment.data import RAW, Recording
from catchment.engine import run_locally
from catchment.errors import CatchmentError, ClippingWarning
from catchment.features import FeatureMap, Pipeline
from catchment.features.recipes import restored
from catchment.federation import Algorithm, Plan, RoundContext
from catchment.federation.loop import model_of
from catchment.readout import accumulate, train
from catchment.readout.model import load_model
from catchment.readout.statistics import unpack
from catchment.wire import Message, plus, serialize


def synthetic_clients(
    n_clients: int = 4, *, channels: int = 3, per_step: bool = False, seed: int = 0
) -> dict[str, list[Recording]]:
    """Return six recordings for each client, of 25 to 60 steps.

    Two targets at every step, or one of two classes for each recording.

    >>> clients = synthetic_clients(3)
    >>> list(clients), clients["client-0"][0].n_inputs
    (['client-0', 'client-1', 'client-2'], 3)
    """
    rng = np.random.default_rng(seed)

    def recording(k: int) -> Recording:
        u = rng.normal(size=(rng.integers(25, 61), channels)) + k % 2
        made = Recording(u, np.roll(u[:, [0, -1]], 1, axis=0))
        return made if per_step else Recording.labeled(u, k % 2, 2)

    return {f"client-{n}": [recording(k) for k in range(6)] for n in range(n_clients)}


def check_feature_map(map: FeatureMap | str, recordings: Sequence[Recording] | None = None) -> None:
    """Raise AssertionError if a feature map breaks a law.

    Rows have the promised shape, are finite and within bounds, come out the same bits again, and do
    not depend on order, company or threads; map and fingerprint survive being kept, and so does a
    model; statistics are those of the rows and add. Recordings have targets; without any, synthetic
    ones with three channels, or as many as a map says.

    >>> from catchment import EchoState
    >>> check_feature_map(EchoState(20))
    """
    with _naming(map):
        if recordings is None:
            given = Pipeline(RAW, map).known_map
            channels, per_step = given.n_inputs or 3, given.per_step
            recordings = synthetic_clients(1, channels=channels, per_step=per_step)["client-0"]
        n, steps = recordings[0].n_inputs, bool(recordings[0].per_step)
        features = Pipeline(RAW, map).built(n, per_step=steps, classes=not steps).features
        for law in (_rows, _kept, _statistics):
            law(features, recordings, [recording.u for recording in recordings])


def _rows(features: FeatureMap, _: Sequence[Recording], inputs: list[Array]) -> None:
    n = features.n_features
    assert len(features.names()) == n, f"it names {len(features.names())} features of {n}"
    assert features.cost > 0, f"its cost is {features.cost}, which must be positive"
    assert features.bounds.shape == (n,), f"bounds have shape {features.bounds.shape}, not ({n},)"
    together = features.rows(inputs, threads=2)
    for u, z in zip(inputs, together, strict=True):
        shape = (len(u) - features.washout if features.per_step else 1, n)
        assert z.shape == shape, f"rows of {len(u)} steps have shape {z.shape}, not {shape}"
        assert np.isfinite(z).all(), "a feature is not finite"
        assert not features.constant or (z[:, 0] == 1).all(), "its constant feature is not 1"
    assert _same(together, features.rows(inputs, threads=2)), "the second time its rows differ"
    assert _near(together, features.rows(inputs[::-1], threads=1)[::-1]), "rows depend on the order"
    alone = [features.rows([u], threads=1)[0] for u in inputs]
    assert _near(together, alone), "rows of a recording depend on its company"
    with warnings.catch_warnings(action="ignore", category=ClippingWarning):
        loud = np.concatenate(features.rows([1e3 * u for u in inputs]))
    assert (np.abs(loud) <= features.bounds * (1 + 1e-9)).all(), "a feature exceeds its bound"


def _kept(features: FeatureMap, recordings: Sequence[Recording], inputs: list[Array]) -> None:
    again = restored(Message.from_bytes(features.parts().to_bytes()))
    assert again.fingerprint == features.fingerprint, "rebuilt it has another fingerprint"
    assert _same(features.rows(inputs), again.rows(inputs)), "rebuilt it gives other rows"
    model = train(features, recordings, 1e-3)
    with tempfile.TemporaryDirectory() as folder:
        loaded = load_model(model.save(f"{folder}/model.safetensors"))
    assert _same(model.outputs(inputs), loaded.outputs(inputs)), "a loaded model predicts otherwise"


def _statistics(features: FeatureMap, recordings: Sequence[Recording], inputs: list[Array]) -> None:
    first = features.washout if features.per_step else 0
    Y = np.concatenate([np.atleast_2d(np.asarray(one.y))[first:] for one in recordings])
    Z = np.concatenate(features.rows(inputs)).astype(np.float64)
    Z, Y = (a[np.isfinite(Y).all(axis=1)] for a in (Z, Y))
    total = accumulate(features, recordings)
    assert total.fingerprint == features.fingerprint, "statistics have another fingerprint"
    assert total.n_rows == len(Z), f"statistics are of {total.n_rows} rows, there are {len(Z)}"
    apart = reduce(add, (accumulate(features, [one]) for one in recordings))
    for found, what in ((total, "are not"), (apart, "of single recordings do not add up to")):
        sums = unpack(found.floats.gram), found.floats.cross
        assert _near(sums, (Z.T @ Z, Z.T @ Y), 1e-9), f"statistics {what} those of the rows"


def check_algorithm(
    algorithm: Algorithm[Any, Any, Any] | Plan[Any, Any, Any],
    clients: Mapping[str, Sequence[Any]] | None = None,
) -> None:
    """Raise AssertionError if an algorithm, or the one of a plan, breaks a law.

    Uploads are the same after their journey, are refused if they hold NaN or are of another kind,
    and add in any order; a round by hand ends where it does over messages; the state survives being
    written down; neither clients' order, nor threads, nor a client with broken data changes a bit.
    Clients are at least three; without any, synthetic ones with two classes.

    >>> from catchment import EchoState, FederatedRidge
    >>> features = EchoState(10).build(3, per_step=False)
    >>> check_algorithm(FederatedRidge(features=features, classes=("odd", "even")))
    """
    plan = algorithm
    if not isinstance(plan, Plan):
        plan = Plan(algorithm=plan, rounds=plan.requirements.rounds)
    with _naming(plan.algorithm):
        _uploads(plan, clients or synthetic_clients())
        _states(plan, clients or synthetic_clients())


def _uploads(plan: Plan[Any, Any, Any], clients: Mapping[str, Sequence[Any]]) -> None:
    algorithm, context = plan.algorithm, RoundContext(0, tuple(sorted(clients)), plan.seed)
    read: list[Any] = []
    told = Message.from_bytes(algorithm.broadcast(algorithm.start(), context).to_bytes())
    for name in context.cohort:
        held, here = clients[name], replace(context, client=name)
        parts = serialize(algorithm.client_update(told, held.__iter__, here))
        arrived = Message.from_bytes(parts.to_bytes())
        assert arrived.to_bytes() == parts.to_bytes(), "an upload differs after its journey"
        read.append(algorithm.read_update(arrived, here))
        spoilt = tuple(a * np.nan if a.dtype.kind == "f" else a for a in parts.arrays)
        wrong = [replace(parts, arrays=spoilt)] if any(np.isnan(a).any() for a in spoilt) else []
        for message in (Message("nothing"), *wrong):
            with suppress(CatchmentError, ValueError):
                algorithm.read_update(message, here)
                raise AssertionError("an upload with NaN or of another kind is not refused")
    by_hand, other = (
        algorithm.save_state(
            algorithm.server_update(algorithm.start(), reduce(plus, each), context)
        )
        for each in (read, read[::-1])
    )
    assert _near(by_hand.arrays, other.arrays), "the sum of uploads depends on their order"
    ran = run_locally(replace(plan, rounds=1), clients, threads=1).state
    same = plan.protections or algorithm.save_state(ran).to_bytes() == by_hand.to_bytes()
    assert same, "over messages a round ends otherwise"


def _states(plan: Plan[Any, Any, Any], clients: Mapping[str, Sequence[Any]]) -> None:
    algorithm, ran = plan.algorithm, run_locally(plan, clients, threads=1)
    for state in (algorithm.start(), ran.state):
        end = algorithm.save_state(state).to_bytes()
        again = algorithm.load_state(Message.from_bytes(end))
        assert algorithm.save_state(again).to_bytes() == end, "a state is not kept as it is"
    models = [model_of(made) for made in (algorithm.result(again), ran.result)]
    inputs = [one.u for held in clients.values() for one in held]
    outputs = [model.outputs(inputs) for model in models if model is not None]
    assert not outputs or _same(*outputs), "a kept state predicts otherwise"
    spoilt = [replace(one, u=np.full_like(one.u, np.nan)) for one in clients[min(clients)]]
    others = {"zz": spoilt, **{name: clients[name] for name in sorted(clients, reverse=True)}}
    other = run_locally(plan, others, threads=3)
    for record in other.records:
        refused = [one.client for one in record.refused]
        assert refused == ["zz"], f"of clients with broken data, ['zz'], it refuses {refused}"
    same = algorithm.save_state(other.state).to_bytes() == end
    assert same, "the clients' order, threads, or a client that is refused change the result"


def _same(one: Sequence[Array], other: Sequence[Array]) -> bool:
    return [a.tobytes() for a in one] == [b.tobytes() for b in other]


def _near(one: Sequence[Array], other: Sequence[Array], least: float = 1e-6) -> bool:
    return all(np.allclose(a, b, rtol=1e-6, atol=least) for a, b in zip(one, other, strict=True))


@contextmanager
def _naming(checked: object) -> Iterator[None]:
    try:
        yield
    except (AssertionError, CatchmentError, ValueError, TypeError) as error:
        raise AssertionError(f"{type(checked).__name__} breaks a law: {error}") from error
