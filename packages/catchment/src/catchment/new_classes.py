"""Classes that come and go after a run: `add_clients`, `remove_class`, and `reject_unknown`.

Each begins with the sums that a run has kept, in memory or in its folder, and asks nobody who need
not be asked. What a folder becomes is a new folder: everything that was in it, and one more round
of its training, in which only those are named who were asked.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from shutil import copytree, ignore_patterns, rmtree
from typing import Any

from catchment.engine.local import AnySource, all_classes, placed, run_locally
from catchment.errors import FederationError
from catchment.federation.learn.ridge import FederatedRidge
from catchment.federation.learn.sums import RidgeState
from catchment.federation.learn.unlearning import (
    RowsOfClass,
    UnknownThreshold,
    among,
    refuse_twice,
    state_without_class,
    without_class,
)
from catchment.federation.loop import Result
from catchment.federation.messages import Record, warn_of
from catchment.federation.plan import Plan
from catchment.federation.protection import LowRankUpload, Protection
from catchment.federation.runs.folder import CLIENTS, MODEL, RunFolder, write_results
from catchment.federation.runs.read import last_state, read_run
from catchment.federation.runs.verify import CERTIFICATE, described
from catchment.federation.workflow import TRAINING, sha256_of
from catchment.readout.model import Model, OpenSetModel
from catchment.readout.storage import load, to_bytes
from catchment.verbs import Run

Own = Iterable[Callable[..., Any]]
STALE = ("scores", "confusion", "confusions", "comparison", "forecast")  # of the model before


@dataclass(frozen=True, eq=False)
class Begun:
    """What a run has learned, to begin with: its algorithm, its sums, and the model of them.

    `folder` is where the run is kept, if it is.
    """

    algorithm: FederatedRidge
    state: RidgeState
    model: Model
    protections: tuple[Protection, ...] = ()
    records: tuple[Record, ...] = ()
    folder: Path | None = None

    @property
    def classes(self) -> tuple[str, ...]:
        if self.model.classes is None:
            raise ValueError("the run learned numbers; there is no class to add or to remove")
        return self.model.classes

    def plan(self, learner: Any) -> Plan[Any, Any, Any]:
        """Return the plan of one more round, with another learner."""
        about: Any = {"rounds": len(self.records) + 1, "protections": self.protections}
        about |= {"preprocessing": self.model.preprocessing, "channels": self.model.channels}
        return Plan(algorithm=learner, **about)

    def goes_on(
        self,
        learner: Any,
        state: RidgeState,
        out: str | Path | None,
        clients: Mapping[str, AnySource] | None = None,
        *,
        asking: Any = None,
        threads: int | None = None,
    ) -> Model:
        """Return the model of one more round, read as the earlier one was.

        The round begins with the state, and ends with it if there are no clients; they are asked by
        the learner, which the training is from then on, unless `asking` says by what. It is kept in
        `out`, a copy of the folder.
        """
        kept, folder = self.plan(learner), None if out is None else self.folder
        asked = kept if asking is None else self.plan(asking)
        done: Result[Any, Any] = Result(state, kept, self.records)
        with nullcontext() if folder is None else _copied(folder, out, kept) as store:
            keeper: Any = None if store is None else store.keeper(TRAINING, kept)
            if clients is not None:
                once = asked if store else replace(asked, rounds=1)
                done = run_locally(once, clients, threads=threads, keeper=keeper, onto=state)
                warn_of({TRAINING: done.records[-1:]})
            elif keeper is not None:
                figures = kept.algorithm.figures(state)
                record = Record(len(self.records), 0, 0, 0.0, 0, 0, (), figures)
                keeper.close_round(state, record)
            model = done.model.read_from(self.model.columns)
            if store is not None:
                _write(store, kept, done.state, model)
        return model


def add_clients(
    folder: str | Path,
    clients: Mapping[str, AnySource],
    *,
    out: str | Path,
    use: Own = (),
    threads: int | None = None,
) -> Model:
    """Return a finished run's model with more clients in its sum, and keep it in a new folder.

    They may bring classes that nobody had. Nobody of the run is asked again: its sums are in its
    folder. For a run in memory there is `federate(..., onto=run)`.

    Parameters
    ----------
    folder
        Of the run; it stays as it is.
    clients
        By name: raw recordings. A client that is already in the sum is refused.
    out
        The new folder: all of the old one, and one more round of the training.
    use
        Classes of feature maps of one's own, as `load` has them.

    >>> import tempfile
    >>> import numpy as np
    >>> from catchment import EchoState, Recording, federate
    >>> def held(*paces):
    ...     waves = {f"pace {p}": np.sin(np.arange(50.0) * p) for p in paces}
    ...     return [Recording.labeled(u, name, waves) for name, u in waves.items()] * 3
    >>> with tempfile.TemporaryDirectory() as place:
    ...     run = federate(EchoState(9), {"ann": held(0.2, 0.5)}, out=f"{place}/first")
    ...     grown = add_clients(f"{place}/first", {"bob": held(0.9)}, out=f"{place}/second")
    >>> grown.classes
    ('pace 0.2', 'pace 0.5', 'pace 0.9')
    """
    begun = _begun(folder, use)
    before = begun.model.classes
    names = all_classes(before, clients)
    state = among(begun.state, before, names)
    refuse_twice(state, clients)
    grown = replace(begun.algorithm, classes=names)
    return begun.goes_on(grown, state, out, placed(clients, names), threads=threads)


def remove_class(
    run: Run | str | Path,
    name: str,
    clients: Mapping[str, AnySource] | None = None,
    *,
    out: str | Path | None = None,
    use: Own = (),
    threads: int | None = None,
) -> Model:
    """Return a run's model as if a class had never been there.

    The sums of clients that have this class and no other are enough for it. From other sums whoever
    has the class takes its rows off: pass `clients` with the recordings that they had; each sends
    the sums of its rows of the class, and the run is refused if some are then left.

    Parameters
    ----------
    run
        A run, or its folder, which stays as it is.
    name
        Of the class.
    clients
        Those who have it, by name, with their raw recordings of then, of all classes or of this.
        Whoever is known not to be in the sum is not asked.
    out
        A new folder for what a folder becomes; nothing is kept if not given.

    >>> import numpy as np
    >>> from catchment import EchoState, Recording, federate
    >>> def held(*paces):
    ...     waves = {f"pace {p}": np.sin(np.arange(50.0) * p) for p in paces}
    ...     return [Recording.labeled(u, name, waves) for name, u in waves.items()] * 3
    >>> first = federate(EchoState(9), {"ann": held(0.2, 0.5), "cid": held(0.2, 0.5)})
    >>> grown = federate(EchoState(9), {"bob": held(0.9)}, onto=first)
    >>> remove_class(grown, "pace 0.9").classes
    ('pace 0.2', 'pace 0.5')
    >>> bool((remove_class(grown, "pace 0.9").readout.weights == first.model.readout.weights).all())
    True
    """
    if isinstance(run, Run) and out is not None:
        raise ValueError("only what a folder holds is kept in another; leave out `out`, and save")
    begun = _begun(run, use)
    algorithm, state = begun.algorithm, begun.state
    if clients is None:
        return begun.goes_on(*state_without_class(algorithm, state, name), out)
    summed = state.by_client
    asked_of = {who: clients[who] for who in clients if not summed or who in summed}
    if not asked_of:
        raise FederationError(f"none of {', '.join(sorted(clients)[:8])} is in the sum")
    sending = placed(asked_of, begun.classes)
    asking, kept = RowsOfClass(ridge=algorithm, name=name), without_class(algorithm, name)
    return begun.goes_on(kept, state, out, sending, asking=asking, threads=threads)


def reject_unknown(
    run: Run | str | Path,
    clients: Mapping[str, AnySource],
    *,
    rate: float = 0.05,
    held_out: bool = False,
    protections: Sequence[Protection] = (),
    use: Own = (),
    threads: int | None = None,
) -> OpenSetModel:
    """Return a run's model that answers "unknown" where a recording is far from every class.

    One more round: clients are sent the sum, each takes its own part off it, and counts how far its
    recordings are from what the others know (`catchment.federation.learn.unlearning`).

    Parameters
    ----------
    run
        A run, or its folder.
    clients
        Those that were summed, with their recordings of then; or others, or some of both.
    rate
        Share of recordings of known classes that may be taken for unknown.
    held_out
        Whether none of these clients is in the sum; a run that keeps clients apart knows.
    protections
        As of `federate`: under secure aggregation the server sees the counts of all together.

    >>> import numpy as np
    >>> from catchment import EchoState, Recording, federate
    >>> rng = np.random.default_rng(0)
    >>> def wave(pace): return np.sin(np.arange(60) * pace) + 0.1 * rng.normal(size=60)
    >>> paces = {"slow": 0.2, "fast": 0.6}
    >>> def held(): return [Recording.labeled(wave(p), n, paces) for n, p in paces.items()]
    >>> clients = {name: [one for _ in range(15) for one in held()] for name in ("ann", "bob")}
    >>> model = reject_unknown(federate(EchoState(20), clients), clients)
    >>> model.predict([wave(0.2), wave(1.7)])
    ['slow', 'unknown']
    """
    begun = _begun(run, use)
    assert begun.state.total is not None
    counting = UnknownThreshold(
        model=begun.model,
        sums=begun.state.total,
        rate=rate,
        summed=() if held_out else tuple(sorted(begun.state.by_client)) or None,
    )
    plan = replace(begun, protections=tuple(protections), records=()).plan(counting)
    done = run_locally(plan, placed(clients, begun.classes), threads=threads)
    warn_of({"unknown": done.records})
    made: OpenSetModel = done.result
    return made.read_from(begun.model.columns)


def _begun(of: Run | str | Path, use: Own) -> Begun:
    """Return what a run, or its folder, has learned; FederationError if nothing can be added."""
    if isinstance(of, Run):
        algorithm, state = of.training.plan.algorithm, of.training.state
        if isinstance(algorithm, FederatedRidge):
            return Begun(algorithm, state, of.model, (), of.records)
        raise _cannot(type(algorithm).__name__)
    run, place = read_run(of), Path(of)
    told = described(run)
    hidden = [one for one in told.protections if one != LowRankUpload.__name__]
    if hidden:
        raise FederationError(
            f"the run had {hidden[0]}, so that what one more client sends would not be hidden or "
            "weighed as theirs was; run the plan again with everybody, or add to a run in memory "
            "(federate with onto)"
        )
    model = load(place / MODEL, use=use)
    if not isinstance(model, Model):
        raise _cannot(told.name)
    learned = told.learned(model, last_state(place, TRAINING))
    if told.name in ("AlignedRidge", "FederatedYuleWalker") or learned is None:
        raise _cannot(told.name)
    algorithm, state = learned
    protections = (LowRankUpload(),) * len(told.protections)
    return Begun(algorithm, state, model, protections, run.rounds[TRAINING], place)


def _cannot(name: str) -> FederationError:
    return FederationError(
        f"{name} keeps no sums of statistics to which classes could be added, or from which they "
        "could be taken; use algorithm = 'ridge'"
    )


@contextmanager
def _copied(folder: Path, out: object, kept: Plan[Any, Any, Any]) -> Iterator[RunFolder]:
    """Yield a copy of a run's folder that says its training goes on as another plan.

    If what is then done fails, there is no copy.
    """
    run, place = read_run(folder), Path(str(out))
    if place.exists():
        raise FederationError(f"{out} is already there; choose another folder")
    try:
        copytree(folder, place, ignore=ignore_patterns("lock", CLIENTS, CERTIFICATE, "model-*"))
        with RunFolder(place, fingerprint=run.facts.get("fingerprint", ""), resume=True) as store:
            store.keeper(TRAINING, kept, goes_on=True)
            yield store
    except BaseException:
        rmtree(place, ignore_errors=True)
        raise


def _write(store: RunFolder, plan: Plan[Any, Any, Any], state: RidgeState, model: Model) -> None:
    """Keep the model, and tables that are true of it; scores were of the one before."""
    for table in STALE:
        store.insert(table, [], replace=True)
    write_results(store, replace(plan.algorithm.kept(state), choice=None), None, None)
    store.save_model(model)
    facts = {"classes": json.dumps(model.classes), "model_sha256": sha256_of(to_bytes(model))}
    store.write_facts(facts | {"drawn": "[]"})
