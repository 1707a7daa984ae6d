"""Whether a run's folder holds what it says: all that can be computed again, compared.

    settings -> fingerprint      recipe -> weights      map and preparation -> fingerprints
    each client's statistics -> digest      their sum -> digest      recordings -> digest
    sum -> readout               certificate: before, removed, after

Statistics on a grid are whole numbers and are compared by their SHA-256, on any machine. Float64
statistics that were computed again may differ in their last digits on another processor; they are
compared to `TOLERANCE`, and so is the readout, whose solution is floating point always. Whoever can
write the folder can write its digests too: only recordings, or a digest that was given away before,
tell more than that the folder agrees with itself.

The model of a finished run as if a client had never been there, from what the run has kept.

A run's folder keeps the state after the last round of its training, and where clients are kept
apart that is each one's statistics. Nobody is asked again and no data are read.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from functools import reduce
from operator import add
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np

from catchment.errors import (
    CatchmentError,
    FederationError,
    MissingExtraError,
    UnknownMapError,
    UploadError,
)
from catchment.features.echo_state.reservoir import Reservoir
from catchment.federation.algorithm import Data, Tally, Turn
from catchment.federation.checks import check_statistics
from catchment.federation.learn.balanced import BalancedRidge, ByClass
from catchment.federation.learn.candidates import Candidates, Race
from catchment.federation.learn.digests import (
    Digest,
    Sum,
    apart,
    is_exact,
    members_of,
)
from catchment.federation.learn.normal import FederatedNormal
from catchment.federation.learn.ridge import FederatedRidge
from catchment.federation.learn.ridge_state import RidgeState
from catchment.federation.learn.unlearning import (
    ALL,
    Certificate,
    summed,
    unlearn,
    unlearn_by_class,
    unlearn_normal,
)
from catchment.federation.runs.folder import MODEL, SEAL
from catchment.federation.runs.read import Run, last_state, read_digests, read_run
from catchment.plugins import plugin
from catchment.readout.detector import Detector
from catchment.readout.device import same_features, statistics_name
from catchment.readout.heads import head_of
from catchment.readout.model import Model, PersonalModels
from catchment.readout.predictor import Predictor
from catchment.readout.statistics import Readout, RidgeStatistics, unpack
from catchment.wire import NOTHING, Parts

TRAINING = "training"
# Each changes a message by itself; others weigh clients against each other, or hide them.
HARMLESS = frozenset({"Float32", "FactorUpload", "SmallestUpload"})


@dataclass(frozen=True)
class Described:
    """The training's algorithm by name, its settings, and all of its plan's."""

    name: str
    settings: Mapping[str, Any]
    plan: Mapping[str, Any]
    rounds: int

    @property
    def protections(self) -> tuple[str, ...]:
        """The names of the protections, in their order."""
        return tuple(next(iter(one)) for one in self.plan["protections"])

    @property
    def features(self) -> str:
        """The fingerprint of the map, where the model has just that one; nothing otherwise."""
        if self.name not in ("FederatedRidge", "AlignedRidge", "BalancedRidge", "FactoredRidge"):
            return ""
        return _fingerprint(self._of_ridge.get("features"))

    @property
    def prepare(self) -> str:
        """The fingerprint of the preparation."""
        return _fingerprint(self.plan.get("prepare"))

    @property
    def _of_ridge(self) -> Mapping[str, Any]:
        if self.name != "AlignedRidge":
            return self.settings
        inner: Mapping[str, Any] = self.settings["ridge"]["FederatedRidge"]
        return inner

    def rebuilt(self, model: Model) -> FederatedRidge | BalancedRidge | None:
        """Return the algorithm whose state is a sum of statistics, None if it is another.

        It has the map and the classes of the model: settings know them by their fingerprint.
        """
        plain = {
            key: tuple(value) if isinstance(value, list) else value
            for key, value in self._of_ridge.items()
        }
        known: dict[str, Any] = {**plain, "features": model.features, "classes": model.classes}
        if known.get("head") is not None:
            known["head"] = head_of(known["head"])
        match self.name:
            case "FederatedRidge" | "AlignedRidge":
                return FederatedRidge(**known)
            case "BalancedRidge":
                return BalancedRidge(**known)
        return None

    def chosen(self, model: Model, parts: Parts) -> tuple[FederatedRidge, RidgeState] | None:
        """Return the ridge of the map that won, and its sums, where several were tried in a round.

        None if the training was another, or candidates raced over several rounds.
        """
        if self.name != "Candidates" or self.settings["halvings"] != 0:
            return None
        tried = Candidates(features=(model.features,), classes=model.classes)
        race: Race = tried.load_state(parts)
        if race.total is None or race.best is None:
            return None
        ridge = FederatedRidge(
            features=model.features, classes=model.classes, per_output=self.settings["per_output"]
        )
        own = {name: sent.members[race.best] for name, sent in race.by_client.items()}
        return ridge, RidgeState(race.total.members[race.best], own)


def described(run: Run) -> Described:
    """Return what a run says of its training; FederationError if it has none."""
    for stage in run.stages:
        if stage.name == TRAINING:
            plan = stage.settings["Plan"]
            ((name, settings),) = plan["algorithm"].items()
            return Described(name, settings, plan, stage.rounds)
    raise FederationError(f"{run.folder} has no training; finish the run first")


def _fingerprint(told: object) -> str:
    """Return the one value of a part that is described by its fingerprint."""
    match told:
        case {**named} if len(named) == 1 and isinstance(value := next(iter(named.values())), str):
            return value
    return ""


TOLERANCE = 1e-6  # of floating-point numbers, as a share of their size
ROUNDED = "float64: compared to rounding"

Outcome = Literal["ok", "differs", "cannot be checked"]


@dataclass(frozen=True)
class Check:
    """One thing that was compared, what was found, and what there is to say of it."""

    what: str
    outcome: Outcome
    sha256: str = ""
    note: str = ""


@dataclass(frozen=True)
class Verification:
    """All that was compared of a run."""

    checks: tuple[Check, ...]

    @property
    def agrees(self) -> bool:
        """Whether everything that could be checked agrees."""
        return not self.having("differs")

    def having(self, outcome: Outcome) -> tuple[Check, ...]:
        """Return the checks with this outcome."""
        return tuple(check for check in self.checks if check.outcome == outcome)

    def text(self) -> str:
        """Return a line for each check, and one that sums up."""
        width = max((len(check.what) for check in self.checks), default=0)
        lines = [
            f"{check.outcome:<17}  {check.what:<{width}}  {check.sha256}"
            f"{'  ' if check.sha256 and check.note else ''}{check.note}".rstrip()
            for check in self.checks
        ]
        ok, bad, open_ = (len(self.having(one)) for one in ("ok", "differs", "cannot be checked"))
        end = f"{bad} of {ok + bad} checks differ" if bad else f"all {ok} checks agree"
        rest = f"; {open_} could not be made" if open_ else ""
        return "\n".join([*lines, end + rest])

    def to_json(self) -> dict[str, Any]:
        """Return it as plain values."""
        return {"agrees": self.agrees, "checks": [asdict(check) for check in self.checks]}


def compared(what: str, found: str, said: str, note: str = "") -> Check:
    """Return the check of a hash against the one that was written down.

    >>> compared("sum", "ab", "cd").note
    'cd was written down'
    """
    if not said:
        return Check(what, "cannot be checked", found, "no hash was written down to compare with")
    if found != said:
        return Check(what, "differs", found, f"{said} was written down")
    return Check(what, "ok", found, note)


def same(what: str, again: Sum, kept: Sum, said: str = "", *, rounded: bool = False) -> Check:
    """Return the check of statistics that were computed again against those that are kept.

    Parameters
    ----------
    said
        The digest that was written down; that of those kept if there is none.
    rounded
        Whether they were rounded on their way.
    """
    found, wanted = again.digest(), said or kept.digest()
    if found == wanted:
        return Check(what, "ok", found)
    if is_exact(again) and is_exact(kept) and not rounded:
        return Check(what, "differs", found, f"{wanted} was written down")
    distance = apart(again, kept)
    outcome: Outcome = "ok" if distance <= TOLERANCE else "differs"
    return Check(what, outcome, note=f"{ROUNDED}, {distance:.0e} apart")


def cannot(what: str, why: str) -> Check:
    """Return that something cannot be checked."""
    return Check(what, "cannot be checked", note=why)


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
    """Compare the rows of the database with their hash."""
    said = run.facts.get(SEAL, "")
    if not said:
        return cannot("ledger", "the run keeps no hash of its database")
    if run.damage:
        return Check("ledger", "differs", said, "; ".join(run.damage))
    return Check("ledger", "ok", said)


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
    if features.reservoir is not None:
        yield _weights(features.reservoir)
    own = told.features
    if own:
        yield compared("feature map", features.fingerprint, own)
    yield compared("preparation", model.prepare.fingerprint, told.prepare)


def _weights(reservoir: Reservoir) -> Check:
    """Draw the weights anew from the recipe, and compare their fingerprint."""
    what, recipe = "weights of the recipe", reservoir.recipe
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
    states = sorted((run.folder / "states").glob(f"{TRAINING}-*.bin"))
    if not states:
        yield cannot("statistics", "the run keeps no state of its training")
        return None
    try:
        parts = last_state(run.folder, TRAINING)
    except UNREADABLE as error:
        yield Check("state file", "differs", note=str(error))
        return None
    yield Check("state file", "ok", hashlib.sha256(states[-1].read_bytes()).hexdigest())
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
        found = kept[name].digest()
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
    yield compared("sum of all clients", total.digest(), trained.said(""), note)
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
            yield Check(what, "cannot be checked", again.digest(), _why_no_clients(trained.told))
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
    found = statistics_name(told.fingerprint)
    yield compared("certificate: features", fingerprint, found)
    if told.client not in kept or told.what != ALL:
        held = "not kept here" if told.client not in kept else "a part of what is kept here"
        yield cannot("certificate: after", f"what was removed of {told.client} is {held}")
        return
    part = kept[told.client]
    yield compared("certificate: removed", told.hash_of(part), told.removed)
    rest = {name: one for name, one in kept.items() if name != told.client}
    after: Sum = total - part if told.how != "summed-anew" else summed(rest)
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


# Algorithms of other packages that can do without a client, by the names of their entry points.
FORGETTING = {"FactoredRidge": "factors", "ReservoirEnsemble": "ensemble"}
SETTLED = {
    "scaling": "the mean and the spread of each channel, by which inputs are scaled",
    "plasticity": "the gains and shifts of the reservoir's units",
}


@dataclass(frozen=True, eq=False)
class WithoutClient:
    """A run's model without a client, and the certificate of it."""

    model: Predictor
    certificate: Certificate


def unlearn_from_run(folder: str | Path, client: str, model: Predictor) -> WithoutClient:
    """Return the model that a run without the client would have given, and a certificate.

    FederationError says why where it cannot be had: only a sum was kept, or what other clients
    sent depends on this one.

    Parameters
    ----------
    folder
        Of the run.
    model
        The run's model, as it was saved.
    """
    run = read_run(folder)
    told = described(run)
    for protection in told.protections:
        if protection == "SecureSum":
            raise FederationError(
                f"the run saw nothing but sums (secure_sum), so that what {client} sent cannot be "
                f"taken out of them; run the plan again without {client}"
            )
        if protection not in HARMLESS:
            raise FederationError(
                f"{protection} changes the sum of all clients, so that what {client} sent cannot "
                f"be taken out of it; run the plan again without {client}"
            )
    shared = model.model if isinstance(model, PersonalModels) else model
    if isinstance(shared, Detector) and told.name == "FederatedNormal":
        found = _unlearned_normal(told, Path(folder), client, shared)
    elif isinstance(shared, Model):
        found = _unlearned(told, Path(folder), client, shared)
    else:
        raise _cannot(told.name, client)
    stages = [SETTLED[stage.name] for stage in run.stages if stage.name in SETTLED]
    if told.name == "Candidates":
        stages.append("the choice among the feature maps")
    stages += [found.certificate.remains] if found.certificate.remains else []
    certificate = replace(found.certificate, remains="; ".join(stages))
    without: Predictor = found.model
    if isinstance(model, PersonalModels) and isinstance(without, Model):
        maps = {other: one for other, one in model.maps.items() if other != client}
        without = PersonalModels(without, maps=maps)
    known = without.prepared_by(model.prepare, model.channels).read_from(model.columns)
    return WithoutClient(known, certificate)


def _unlearned_normal(
    told: Described, folder: Path, client: str, shared: Detector
) -> WithoutClient:
    """Return the detector without a client, its threshold by what the others have counted."""
    labels = told.settings.get("classes")
    known = {**told.settings, "features": shared.features}
    algorithm = FederatedNormal(**{**known, "classes": None if labels is None else tuple(labels)})
    state = algorithm.load_state(last_state(folder, TRAINING))
    refuse_sum(state.by_client, client)
    left = unlearn_normal(algorithm, state, client)
    return WithoutClient(algorithm.result(left.state), left.certificate)


def _unlearned(told: Described, folder: Path, client: str, shared: Model) -> WithoutClient:
    """Return the model, not yet prepared, of the algorithms that can do without one client."""
    parts = last_state(folder, TRAINING)
    match told.rebuilt(shared):
        case FederatedRidge() as ridge:
            state = ridge.load_state(parts)
            refuse_sum(state.by_client, client, groups=bool(state.by_group))
            forgotten = unlearn(ridge, state, client)
            return WithoutClient(ridge.result(forgotten.state), forgotten.certificate)
        case BalancedRidge() as balanced:
            by_class = balanced.load_state(parts)
            refuse_sum(by_class.by_client, client)
            left = unlearn_by_class(balanced, by_class, client)
            return WithoutClient(balanced.result(left.state), left.certificate)
    among = told.chosen(shared, parts)
    if among is not None:
        ridge, sums = among
        forgotten = unlearn(ridge, sums, client)
        return WithoutClient(ridge.result(forgotten.state), forgotten.certificate)
    if told.name in FORGETTING:
        made = plugin("algorithms", FORGETTING[told.name])
        rest: WithoutClient | None = made.without_client(told, shared, parts, client)
        if rest is not None:
            return rest
    raise _cannot(told.name, client)


def refuse_sum(by_client: Mapping[str, object], client: str, *, groups: bool = False) -> None:
    if not by_client:
        what = "the sums of groups of clients" if groups else "the sum of all clients"
        raise FederationError(
            f"the run kept only {what}, so that what {client} sent cannot be taken "
            f"out of it; run the plan again without {client}"
        )


def _cannot(name: str, client: str) -> FederationError:
    return FederationError(
        f"what other clients sent to {name} depends on {client}, or was not kept one by one; run "
        f"the plan again without {client}"
    )
