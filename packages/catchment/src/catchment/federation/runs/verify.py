"""Whether a run's folder holds what it says: all that can be computed again, compared.

    settings -> fingerprint      recipe -> weights      map and preparation -> fingerprints
    each client's statistics -> digest      their sum -> digest      recordings -> digest
    sum -> readout               certificate: before, removed, after

Statistics on a grid are whole numbers and are compared by their SHA-256, on any machine. Float64
statistics that were computed again may differ in their last digits on another processor; they are
compared to `TOLERANCE`, and so is the readout, whose solution is floating point always. Whoever can
write the folder can write its digests too: only recordings, or a digest that was given away before,
tell more than that the folder agrees with itself.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import dataclass
from functools import reduce
from operator import add
from pathlib import Path
from typing import Any, cast

import numpy as np

from catchment.errors import CatchmentError, MissingExtraError, UnknownMapError, UploadError
from catchment.features.echo_state.echo_state import EchoStateMap
from catchment.features.echo_state.reservoir import Reservoir
from catchment.federation.algorithm import Data, Turn
from catchment.federation.learn.balanced import BalancedRidge, ByClass
from catchment.federation.learn.digests import Digest, Sum, digest_of, is_exact, members_of, without
from catchment.federation.learn.ridge import FederatedRidge, RidgeState
from catchment.federation.learn.unlearning import ALL, Certificate, summed
from catchment.federation.runs.checks import TOLERANCE, Check, Verification, cannot, compared, same
from catchment.federation.runs.read import Run, last_state, read_digests, read_run, state_sha256
from catchment.federation.runs.training import HARMLESS, TRAINING, Described, described
from catchment.federation.runs.write import MODEL
from catchment.federation.sums import Tally
from catchment.federation.upload_checks import check_statistics
from catchment.readout.device import same_features, statistics_name
from catchment.readout.model import Model
from catchment.readout.personal_models import PersonalModels
from catchment.readout.predictor import Predictor
from catchment.readout.statistics import Readout, RidgeStatistics, unpack
from catchment.wire import NOTHING

CERTIFICATE = "certificate.json"
ELSEWHERE = "computed on another processor it may have other last digits and another hash"
UNREADABLE = (CatchmentError, ValueError, TypeError, KeyError, ArithmeticError)

Load = Callable[[Path], Predictor]
Ridge = FederatedRidge | BalancedRidge


@dataclass(frozen=True, eq=False)
class Trained:
    """What a run's training left: its sums as kept, and their digests as written down."""

    told: Described
    model: Model
    algorithm: Ridge
    state: RidgeState | ByClass
    sums: Tally[Any]
    digests: Mapping[str, Digest]
    n_used: int

    def said(self, client: str) -> str:
        """Return the digest that was written down; the sum's if there is no client."""
        return self.digests[client].sha256 if client in self.digests else ""

    def same(self, what: str, again: Sum, client: str) -> Check:
        """Compare statistics that were computed from recordings with what came; see `said`."""
        kept = self.sums.by_client[client] if client else self.sums.total
        rounded = not HARMLESS.isdisjoint(self.told.protections)
        return same(what, again, kept, self.said(client), rounded=rounded)


def verified(
    folder: str | Path,
    load: Load,
    *,
    clients: Mapping[str, Data] | None = None,
    reason: str = "no recordings were given",
    only: str | None = None,
) -> Verification:
    """Return what can be computed again of a run's folder, each compared with what it says.

    `catchment.plans.verify_run` finds model and recordings by itself.

    Parameters
    ----------
    folder
        Of the run.
    load
        Makes what predicts of a model's file.
    clients
        The recordings of the training's clients, as they were before any preparation.
    reason
        Why there are no recordings, where there are none.
    only
        A client's name: the statistics of the others are not looked at one by one.
    """
    return Verification(tuple(_checks(Path(folder), load, clients, reason, only)))


def _checks(
    folder: Path, load: Load, clients: Mapping[str, Data] | None, reason: str, only: str | None
) -> Iterator[Check]:
    run = read_run(folder)
    told = described(run)
    yield _ledger(run)
    yield from _settings(run)
    model = yield from _model(run, load)
    if model is not None:
        yield from _map(told, model)
    trained = yield from _trained(run, told, model)
    if trained is None:
        return
    kept = trained.sums.by_client
    if only is not None and kept and only not in kept:
        names = ", ".join(sorted(kept)[:8])
        raise ValueError(f"there is no client {only!r} in the sum; there are {names}")
    yield from _as_kept(trained, only)
    yield from _sum(trained)
    yield _solved("readout", trained, trained.state, trained.model.readout)
    yield from _recordings(trained, clients, reason, only)
    yield from _certificate(folder, trained, load)


def _ledger(run: Run) -> Check:
    """Compare the database with its seals."""
    if not run.sealed:
        return cannot("ledger", "the run keeps no seals of its database")
    if run.damage:
        return Check("ledger", "differs", run.sealed, "; ".join(run.damage))
    return Check("ledger", "ok", run.sealed)


def _settings(run: Run) -> Iterator[Check]:
    for stage in run.stages:
        text = json.dumps(stage.settings, sort_keys=True)
        found = hashlib.sha256(text.encode()).hexdigest()
        yield compared(f"settings of {stage.name}", found, stage.fingerprint)


def _model(run: Run, load: Load) -> Generator[Check, None, Model | None]:
    """Compare the model's file, and return the model if it is one of a readout."""
    path, said = run.folder / MODEL, run.facts.get("model_sha256", "")
    if not path.is_file():
        yield cannot("model file", f"there is no {MODEL}")
        return None
    found = hashlib.sha256(path.read_bytes()).hexdigest()
    yield compared("model file", found, said)
    try:
        made = load(path)
    except (UnknownMapError, MissingExtraError) as error:
        yield cannot("model", str(error))
        return None
    except UNREADABLE as error:
        yield Check("model", "differs", note=str(error))
        return None
    shared = made.model if isinstance(made, PersonalModels) else made
    return shared if isinstance(shared, Model) else None


def _map(told: Described, model: Model) -> Iterator[Check]:
    features = model.features
    if isinstance(features, EchoStateMap):
        yield _weights(features)
    own = told.features
    if own:
        yield compared("feature map", features.fingerprint, own)
    yield compared("preparation", model.prepare.fingerprint, told.prepare)


def _weights(features: EchoStateMap) -> Check:
    """Draw the weights anew from the recipe, and compare their fingerprint."""
    what, reservoir = "weights of the recipe", features.reservoir
    recipe = reservoir.recipe
    if recipe is None and reservoir.adapted_from is None:
        return cannot(what, "the reservoir was given as matrices; the map's fingerprint has them")
    if recipe is None:
        return cannot(what, "gains and shifts were adapted; the map's fingerprint has them")
    try:
        made = Reservoir.from_recipe(recipe)
    except UNREADABLE as error:
        return Check(what, "differs", note=str(error))
    return compared(what, made.fingerprint, recipe.fingerprint or "")


def _trained(
    run: Run, told: Described, model: Model | None
) -> Generator[Check, None, Trained | None]:
    """Compare the state's file, and return the sums in it if there are any."""
    if not any((run.folder / "states").glob(f"{TRAINING}-*.bin")):
        yield cannot("statistics", "the run keeps no state of its training")
        return None
    try:
        parts = last_state(run.folder, TRAINING)
    except UNREADABLE as error:
        yield Check("state file", "differs", note=str(error))
        return None
    yield Check("state file", "ok", state_sha256(run.folder, TRAINING))
    if model is None:
        yield cannot("statistics", "they are read with the model's map, and there is none")
        return None
    try:
        among = told.chosen(model, parts)
        algorithm = told.rebuilt(model) if among is None else among[0]
        if algorithm is None:
            factored = told.name == "FactoredRidge"
            kept = "merged factors, which are float64 and no sum" if factored else "no sum"
            yield cannot("statistics", f"{told.name} keeps {kept} of statistics")
            return None
        state: Any = algorithm.load_state(parts) if among is None else among[1]
        sums = algorithm.tally(state)
    except UNREADABLE as error:
        yield Check("statistics", "differs", note=f"they cannot be read: {error}")
        return None
    if sums is None:
        yield cannot("statistics", "nothing was learned yet")
        return None
    digests = {one.client: one for one in read_digests(run.folder, TRAINING)}
    n_used = run.rounds[TRAINING][-1].n_used
    return Trained(told, model, algorithm, state, sums, digests, n_used)


def _as_kept(trained: Trained, only: str | None) -> Iterator[Check]:
    """Compare what is kept of every client with its digest."""
    kept = trained.sums.by_client
    if not kept:
        yield cannot("statistics of each client", _why_no_clients(trained.told))
        return
    named = sorted({*kept, *filter(None, trained.digests)}) if only is None else [only]
    for name in named:
        what = f"{name} as kept"
        if name not in kept:
            yield Check(what, "differs", note=f"{trained.said(name)} was written down, not kept")
            continue
        found = digest_of(kept[name])
        try:
            for one in members_of(kept[name]).values():
                own = trained.model.features.fingerprint
                same = same_features(one.fingerprint, own)
                check_statistics(one, fingerprint=one.fingerprint if same else own)
        except UploadError as error:
            yield Check(what, "differs", found, str(error))
            continue
        yield compared(what, found, trained.said(name))


def _sum(trained: Trained) -> Iterator[Check]:
    total, kept = trained.sums.total, trained.sums.by_client
    state = trained.state
    note = "" if is_exact(total) else f"float64: {ELSEWHERE}"
    yield compared("sum of all clients", digest_of(total), trained.said(""), note)
    if kept:
        again: Sum = summed(kept)
        yield same(f"{len(kept)} clients added up", again, total)
    if isinstance(state, RidgeState) and state.by_group:
        groups = reduce(add, (state.by_group[group] for group in sorted(state.by_group)))
        yield same(f"{len(state.by_group)} groups of clients added up", groups, total)


def _solved(what: str, trained: Trained, state: RidgeState | ByClass, readout: Readout) -> Check:
    """Solve a state again, and compare the readout by what it predicts on the training rows."""
    algorithm: Any = trained.algorithm
    try:
        solved: Any = algorithm.solved(state)
        again = algorithm.result(solved).readout
    except UNREADABLE as error:
        return Check(what, "differs", note=f"it cannot be solved from the sum: {error}")
    state = solved.weighted if isinstance(solved, ByClass) else solved
    assert state.total is not None  # it was solved
    distance = _readouts_apart(state.total.floats, readout, again)
    note = (
        f"solved again from the sum, predictions {distance:.0e} apart (floating point: compared to "
        "a tolerance, not by hash)"
    )
    return Check(what, "ok" if distance <= TOLERANCE else "differs", note=note)


def _readouts_apart(total: RidgeStatistics, one: Readout, other: Readout) -> float:
    """Return the root mean square difference of two readouts on the rows of a sum.

    It is a share of what the second predicts there. Directions that no row has count as their ridge
    makes them count, so that no weight can change unseen.
    """
    if one.weights.shape != other.weights.shape:
        return np.inf
    G, s, n = unpack(total.gram), total.feature_sum, total.weight
    ridge = float(np.mean(other.ridge))

    def size(W: Any, b: Any) -> float:
        rows = np.sum(W * (G @ W)) + 2 * np.sum(b * (s @ W)) + n * np.sum(b * b)
        return float(rows + ridge * np.sum(W * W))

    difference = size(one.weights - other.weights, one.intercept - other.intercept)
    whole = size(other.weights, other.intercept)
    if not np.isfinite(difference):
        return np.inf
    return float(np.sqrt(max(difference, 0.0) / whole)) if whole > 0 else float(difference > 0)


def _recordings(
    trained: Trained, clients: Mapping[str, Data] | None, reason: str, only: str | None
) -> Iterator[Check]:
    """Compute statistics again from recordings, and compare them with the digests."""
    why = reason if clients is None else _why_not_again(trained.told)
    if clients is None or why:
        yield cannot("statistics from recordings", why)
        return
    kept, total = trained.sums.by_client, cast(Any, None)
    named = sorted(clients) if only is None else [name for name in clients if name == only]
    if not named:
        yield cannot("statistics from recordings", f"there are none of {only}")
    missing = 0
    for name in named:
        what = f"{name} from recordings"
        try:
            again = _again(trained, name, clients[name])
        except (*UNREADABLE, OSError) as error:
            missing += 1
            yield cannot(what, str(error))
            continue
        if name in kept:
            yield trained.same(what, again, name)
        elif kept:
            yield cannot(what, f"{name} is not in the sum")
        elif only is None:
            total = again if total is None else total + again
        else:
            yield Check(what, "cannot be checked", digest_of(again), _why_no_clients(trained.told))
    if total is None:
        return
    what = f"{len(named)} clients from recordings"
    if len(named) != trained.n_used or missing:
        yield cannot(what, f"{trained.n_used} clients are in the sum, and nobody knows which")
        return
    yield trained.same(what, total, "")


def _again(trained: Trained, name: str, data: Data) -> Sum:
    """Return what a client sends in all rounds of the training."""
    prepared, algorithm = _prepared(trained.model, data), trained.algorithm
    turns = (Turn(k, (), client=name) for k in range(trained.told.rounds))
    return reduce(add, (algorithm.client_update(NOTHING, prepared, turn) for turn in turns))


def _prepared(model: Model, data: Data) -> Data:
    """Return recordings as the training had them, in the columns of all of its classes."""
    classes = model.classes
    if classes is None:
        return lambda: model.prepare.stream(data())
    return lambda: model.prepare.stream(one.among(classes) for one in data())


def _why_no_clients(told: Described) -> str:
    if "SecureSum" in told.protections:
        return "the run saw nothing but their sum (secure_sum)"
    if told.settings.get("keep_clients") == "groups":
        return 'the run kept only sums of groups of them (keep_clients = "groups")'
    return "the run kept only their sum (keep_clients = false)"


def _why_not_again(told: Described) -> str:
    """Return why what clients sent cannot be computed again, nothing if it can."""
    settings = told.settings
    for protection in told.protections:
        if protection not in HARMLESS and protection != "SecureSum":
            return f"{protection} changes what clients send, or their sum"
    if told.name == "AlignedRidge":
        return "every client has a reservoir of its own"
    if told.plan.get("share", 1.0) != 1:
        return "only a share of the clients was asked in each round"
    if settings.get("forgetting", 1.0) != 1 or settings.get("window") is not None:
        return "old rounds fade from the sum"
    return ""


def _certificate(folder: Path, trained: Trained, load: Load) -> Iterator[Check]:
    """Compare the certificate of what was forgotten, where there is one."""
    path = folder / CERTIFICATE
    if not path.is_file():
        return
    try:
        told = Certificate.from_json(path.read_text(encoding="utf-8"))
    except UNREADABLE as error:
        yield Check("certificate", "differs", note=str(error))
        return
    total, kept = trained.sums.total, trained.sums.by_client
    yield compared("certificate: before", told.hash_of(total), told.before)
    fingerprint = trained.model.features.fingerprint
    found = statistics_name(told.fingerprint, any_device=False)
    yield compared("certificate: features", fingerprint, found)
    if told.client not in kept or told.what != ALL:
        held = "not kept here" if told.client not in kept else "a part of what is kept here"
        yield cannot("certificate: after", f"what was removed of {told.client} is {held}")
        return
    part = kept[told.client]
    yield compared("certificate: removed", told.hash_of(part), told.removed)
    rest = {name: one for name, one in kept.items() if name != told.client}
    after: Sum = without(total, part) if told.how != "summed-anew" else summed(rest)
    note = "before - removed, an equality" if told.how == "equality" else ""
    yield compared("certificate: after", told.hash_of(after), told.after, note)
    n_rows = sum(one.n_rows for one in members_of(part).values())
    if n_rows != told.n_rows:
        yield Check("certificate: rows", "differs", note=f"{n_rows} rows, not {told.n_rows}")
    yield from _without_client(folder, trained, told.client, after, rest, load)


def _without_client(
    folder: Path,
    trained: Trained,
    client: str,
    after: Sum,
    rest: Mapping[str, Any],
    load: Load,
) -> Iterator[Check]:
    """Solve the sum without a client, and compare the model that was written for it."""
    path = folder / f"model-without-{file_name(client)}.safetensors"
    if not path.is_file():
        return
    try:
        made = load(path)
    except UNREADABLE as error:
        yield Check(path.name, "differs", note=str(error))
        return
    shared = made.model if isinstance(made, PersonalModels) else made
    assert isinstance(shared, Model)
    state = RidgeState(after, rest) if isinstance(after, RidgeStatistics) else ByClass(after, rest)
    yield _solved(path.name, trained, state, shared.readout)


def file_name(client: str) -> str:
    """Return a client's name as it stands in the names of files.

    >>> file_name("a/b c")
    'a_b_c'
    """
    return re.sub(r"[^\w.-]", "_", client)
