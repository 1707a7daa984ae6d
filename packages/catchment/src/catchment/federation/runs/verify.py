"""What can be computed again from a run's folder: its hashes, and its model without a client.

    settings -> fingerprint      map, preprocessing -> fingerprints
    each client's statistics -> digest      their sum -> digest      recordings -> digest
    sum -> readout               certificate: before, removed, after

Statistics in fixed point are integers and are compared by their SHA-256, on any machine. Float64
statistics that were computed again may differ in their last digits on another processor; they are
compared to `TOLERANCE`, and so is the readout, whose solution is floating point always. Whoever can
write the folder can write its digests too: only recordings, or a digest that was given away before,
tell more than that the folder agrees with itself.

The folder keeps the state after the last round of the training, and where clients are kept apart
that is each one's statistics: the model as if one of them had never been there is solved from
these. Nobody is asked again and no data are read.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import reduce
from operator import add
from pathlib import Path
from typing import Any, Literal, TypeVar, cast

import numpy as np

from catchment.arrays import Array
from catchment.data.recording import Recording
from catchment.errors import (
    CatchmentError,
    FederationError,
    MissingExtraError,
    UnknownMapError,
    UploadError,
)
from catchment.federation.algorithm import Data, RoundContext, Tally
from catchment.federation.checks import check_statistics
from catchment.federation.learn.anomaly import FederatedAnomalyDetector
from catchment.federation.learn.candidates import Candidates, Race
from catchment.federation.learn.ridge import FederatedRidge
from catchment.federation.learn.sums import RidgeState, Sum, apart
from catchment.federation.learn.unlearning import ALL, Certificate, summed, unlearn
from catchment.federation.learn.yule_walker import FederatedYuleWalker, YuleWalkerState
from catchment.federation.runs.folder import MODEL
from catchment.federation.runs.read import Run, last_state, read_digests, read_run
from catchment.federation.workflow import PLASTICITY, SCALING, TRAINING
from catchment.plugins import plugin
from catchment.readout.detector import Detector
from catchment.readout.heads import HEADS
from catchment.readout.linear_algebra import toeplitz
from catchment.readout.model import Model, PersonalModels
from catchment.readout.predictor import Predictor
from catchment.readout.statistics import Readout, same_features, unpack
from catchment.wire import NOTHING, Message
from catchment.wire.kept import GONE

KeptState = RidgeState | YuleWalkerState
# Each changes a message by itself; others weigh clients against each other, or hide them.
HARMLESS = frozenset({"Float32", "FactorUpload", "LowRankUpload"})
SETTLED = {
    SCALING: "the mean and the spread of each channel, by which inputs are scaled",
    PLASTICITY: "the gains and shifts of the reservoir's units",
}
# Algorithms of other packages that can do without a client, by the names of their entry points.
BY_PLUGIN = {"ReservoirEnsemble": "ensemble"}
TOLERANCE = 1e-6  # of floating-point numbers, as a share of their size
ELSEWHERE = "computed on another processor it may have other last digits and another hash"
CERTIFICATE = "certificate.json"
UNREADABLE = (CatchmentError, ValueError, TypeError, KeyError, ArithmeticError)

Outcome = Literal["ok", "differs", "cannot be checked"]
Load = Callable[[Path], Predictor]
T = TypeVar("T")


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
        return "\n".join([*lines, end + (f"; {open_} could not be made" if open_ else "")])

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
        if self.name not in ("FederatedRidge", "AlignedRidge"):
            return ""
        return _fingerprint(self._of_ridge.get("features"))

    @property
    def preprocessing(self) -> str:
        """The fingerprint of the preprocessing."""
        return _fingerprint(self.plan.get("preprocessing"))

    @property
    def _of_ridge(self) -> Mapping[str, Any]:
        if self.name != "AlignedRidge":
            return self.settings
        inner: Mapping[str, Any] = self.settings["ridge"]["FederatedRidge"]
        return inner

    @property
    def is_of_before(self) -> bool:
        """Whether it had a setting that is gone, such as a window, so that its sums are others."""
        gone = GONE.get("FederatedRidge" if self.name == "AlignedRidge" else self.name, {})
        return any(self._of_ridge.get(name, plain) != plain for name, plain in gone.items())

    def learned(self, model: Model, parts: Message) -> tuple[Any, Any] | None:
        """Return the algorithm whose state is a sum of statistics, and the state that was kept.

        None if it is another, or one with a setting that is gone; of several maps that were tried
        it is the ridge of the one that won. The map and the classes are those of the model:
        settings know them by their fingerprint.
        """
        known: dict[str, Any] = {"features": model.features, "classes": model.classes}
        if self.name == "Candidates":
            race: Race = Candidates(features=(model.features,), classes=model.classes).load_state(
                parts
            )
            if race.total is None or race.best is None or not race.by_client or self.is_of_before:
                return None
            known |= {"standardize": self.settings.get("standardize", "auto")}
            ridge = FederatedRidge(**known)
            own = {name: sent.members[race.best] for name, sent in race.by_client.items()}
            return ridge, RidgeState(race.total.members[race.best], own)
        if self.name == "FederatedYuleWalker":
            lags: Any = model.features  # those that were chosen; the sums are of more
            learn = FederatedYuleWalker(features=lags, preprocessing=model.preprocessing)
            state: Any = learn.load_state(parts)
            lags = replace(lags, delays=state.total.products.shape[1] - learn.horizon, washout=0)
            told = {**self.settings, "features": lags, "preprocessing": model.preprocessing}
            return FederatedYuleWalker(**told), state
        if self.name not in ("FederatedRidge", "AlignedRidge") or self.is_of_before:
            return None
        gone = GONE["FederatedRidge"]
        plain: dict[str, Any] = {
            k: tuple(v) if isinstance(v, list) else v
            for k, v in self._of_ridge.items()
            if k not in gone
        }
        if plain.get("head") is not None:
            ((name, settings),) = plain["head"].items()  # by the name of its class
            plain["head"] = {one.__name__: one for one in HEADS.values()}[name](**settings)
        algorithm = FederatedRidge(**{**plain, **known})
        return algorithm, algorithm.load_state(parts)


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


@dataclass(frozen=True, eq=False)
class _Trained:
    """What a run's training left: its sums as kept, and their digests as written down."""

    told: Described
    model: Model
    algorithm: FederatedRidge | FederatedYuleWalker
    state: KeptState
    sums: Tally[Any]
    digests: Mapping[str, str]
    n_used: int

    @property
    def why_no_clients(self) -> str:
        if "SecureAggregation" in self.told.protections:
            return "the run saw nothing but their sum (secure_aggregation)"
        if self.told.settings.get("store_per_client") == "groups":
            return 'the run kept only sums of groups of them (store_per_client = "groups")'
        return "the run kept only their sum (store_per_client = false)"

    @property
    def why_not_again(self) -> str:
        """Why what clients sent cannot be computed again, nothing if it can."""
        for protection in self.told.protections:
            rounds = isinstance(self.algorithm, FederatedYuleWalker) or protection not in HARMLESS
            if rounds and protection != "SecureAggregation":
                return f"{protection} changes what clients send, or their sum"
        if self.told.name == "AlignedRidge":
            return "every client has a reservoir of its own"
        if self.told.plan.get("client_fraction", 1.0) != 1:
            return "only a share of the clients was asked in each round"
        return ""

    def again(self, name: str, data: Data) -> Sum:
        """Return what a client sends in all rounds of the training, in columns of all classes."""
        preprocessing, classes = self.model.preprocessing, self.model.classes
        if isinstance(self.algorithm, FederatedYuleWalker):
            return cast(Sum, self.algorithm.whole(data, preprocessing))

        def prepared() -> Iterable[Recording]:
            every = data() if classes is None else (one.among(classes) for one in data())
            return preprocessing.stream(every)

        turns = (RoundContext(k, (), client=name) for k in range(self.told.rounds))
        return reduce(
            add, (self.algorithm.client_update(NOTHING, prepared, context) for context in turns)
        )


@dataclass(frozen=True, eq=False)
class _Said:
    """What a run's folder says, and the checks that were made of it, in their order."""

    run: Run
    told: Described
    load: Load
    checks: list[Check] = field(default_factory=list)

    def compare(self, what: str, found: str, said: str, note: str = "") -> None:
        self.checks.append(compared(what, found, said, note))

    def cannot(self, what: str, why: str, sha256: str = "") -> None:
        self.checks.append(Check(what, "cannot be checked", sha256, why))

    def differs(self, what: str, note: str, sha256: str = "") -> None:
        self.checks.append(Check(what, "differs", sha256, note))

    def read(self, what: str, make: Callable[[], T], words: str = "") -> T | None:
        """Return what can be made, None if it cannot; that differs from what the folder says."""
        try:
            return make()
        except (UnknownMapError, MissingExtraError) as error:
            self.cannot(what, str(error))
        except UNREADABLE as error:
            self.differs(what, f"{words}{error}")
        return None

    def same(
        self, what: str, again: Sum, kept: Sum, said: str = "", *, rounded: bool = False
    ) -> None:
        """Compare statistics computed again with the digest that was written down, or those kept.

        Those that were rounded on their way are compared to rounding.
        """
        found, wanted = again.digest(), said or kept.digest()
        if found == wanted or (again.is_exact and kept.is_exact and not rounded):
            self.compare(what, found, wanted)
            return
        distance = apart(again, kept)
        outcome: Outcome = "ok" if distance <= TOLERANCE else "differs"
        note = f"float64: compared to rounding, {distance:.0e} apart"
        self.checks.append(Check(what, outcome, note=note))

    def model(self) -> Model | None:
        """Compare the model's file and map, and return the model if it is one of a readout."""
        path, said = self.run.folder / MODEL, self.run.facts.get("model_sha256", "")
        if not path.is_file():
            self.cannot("model file", f"there is no {MODEL}")
            return None
        self.compare("model file", hashlib.sha256(path.read_bytes()).hexdigest(), said)
        made = self.read("model", lambda: self.load(path))
        shared = made and (made.model or made)
        if not isinstance(shared, Model):
            return None
        if self.told.features:
            self.compare("feature map", shared.features.fingerprint, self.told.features)
        self.compare("preprocessing", shared.preprocessing.fingerprint, self.told.preprocessing)
        return shared

    def trained(self, model: Model | None) -> _Trained | None:
        """Compare the state's file, and return the sums in it if there are any."""
        folder, told = self.run.folder, self.told
        states = sorted((folder / "states").glob(f"{TRAINING}-*.bin"))
        if not states:
            self.cannot("statistics", "the run keeps no state of its training")
            return None
        parts = self.read("state file", lambda: last_state(folder, TRAINING))
        if parts is None:
            return None
        found = hashlib.sha256(states[-1].read_bytes()).hexdigest()
        self.compare("state file", found, found)
        if model is None:
            self.cannot("statistics", "they are read with the model's map, and there is none")
            return None

        n_checks = len(self.checks)
        learned = self.read(
            "statistics", lambda: told.learned(model, parts), "they cannot be read: "
        )
        if len(self.checks) > n_checks:
            return None
        if learned is None:
            why = "was run with a setting that is gone" if told.is_of_before else "keeps no sum"
            self.cannot("statistics", f"{told.name} {why}")
            return None
        algorithm, state = learned
        sums = algorithm.tally(cast(Any, state))
        if sums is None:
            self.cannot("statistics", "nothing was learned yet")
            return None
        digests = {one.client: one.sha256 for one in read_digests(folder, TRAINING)}
        n_used = self.run.rounds[TRAINING][-1].n_used
        return _Trained(told, model, algorithm, state, sums, digests, n_used)

    def kept(self, trained: _Trained, only: str | None) -> None:
        """Compare what is kept of every client with its digest, and the sum with theirs."""
        kept, total, state = trained.sums.by_client, trained.sums.total, trained.state
        if not kept:
            self.cannot("statistics of each client", trained.why_no_clients)
        every = sorted({*kept, *filter(None, trained.digests)}) if kept else []
        for name in every if only is None or not kept else [only]:
            what, said = f"{name} as kept", trained.digests.get(name, "")
            if name not in kept:
                self.differs(what, f"{said} was written down, not kept")
                continue
            found, own = kept[name].digest(), trained.model.features.fingerprint
            try:
                if isinstance(trained.algorithm, FederatedYuleWalker):
                    trained.algorithm.read_update(
                        kept[name].parts(), RoundContext(0, (), client=name)
                    )
                else:
                    for one in kept[name].members.values():
                        same = same_features(one.fingerprint, own)
                        check_statistics(one, fingerprint=one.fingerprint if same else own)
            except UploadError as error:
                self.differs(what, str(error), found)
                continue
            self.compare(what, found, said)
        note = "" if total.is_exact else f"float64: {ELSEWHERE}"
        self.compare("sum of all clients", total.digest(), trained.digests.get("", ""), note)
        if kept:
            self.same(f"{len(kept)} clients added up", summed(kept), total)
        if isinstance(state, RidgeState) and state.by_group:
            groups = reduce(add, (state.by_group[group] for group in sorted(state.by_group)))
            self.same(f"{len(state.by_group)} groups of clients added up", groups, total)

    def solved(self, what: str, trained: _Trained, state: KeptState, readout: Readout) -> None:
        """Solve a state again; compare the readout by what it predicts on the training rows."""
        algorithm: Any = trained.algorithm

        def again() -> tuple[Any, Readout]:
            solved, model = algorithm.solved(state), trained.model
            made = algorithm.result(solved).prepared_by(model.preprocessing, model.channels)
            return solved, made.readout

        found = self.read(what, again, "it cannot be solved from the sum: ")
        if found is None:
            return
        made: Any = found[0]
        if isinstance(made, YuleWalkerState):
            distance = _lags_apart(made, readout, found[1])
        else:
            total = made.total.floats
            about = (unpack(total.gram).__matmul__, total.feature_sum, total.weight)
            distance = _readouts_apart(*about, readout, found[1])
        note = (
            f"solved again from the sum, predictions {distance:.0e} apart (floating point: "
            "compared to a tolerance, not by hash)"
        )
        outcome: Outcome = "ok" if distance <= TOLERANCE else "differs"
        self.checks.append(Check(what, outcome, note=note))

    def recordings(
        self, trained: _Trained, clients: Mapping[str, Data] | None, reason: str, only: str | None
    ) -> None:
        """Compute statistics again from recordings, and compare them with the digests."""
        why = reason if clients is None else trained.why_not_again
        if clients is None or why:
            self.cannot("statistics from recordings", why)
            return
        kept, total = trained.sums.by_client, cast(Any, None)
        rounded = not HARMLESS.isdisjoint(trained.told.protections)
        named = sorted(clients) if only is None else [name for name in clients if name == only]
        if not named:
            self.cannot("statistics from recordings", f"there are none of {only}")
        missing = 0
        for name in named:
            what, said = f"{name} from recordings", trained.digests.get(name, "")
            try:
                again = trained.again(name, clients[name])
            except (*UNREADABLE, OSError) as error:
                missing += 1
                self.cannot(what, str(error))
                continue
            if name in kept:
                self.same(what, again, kept[name], said, rounded=rounded)
            elif kept:
                self.cannot(what, f"{name} is not in the sum")
            elif only is None:
                total = again if total is None else total + again
            else:
                self.cannot(what, trained.why_no_clients, again.digest())
        what, said = f"{len(named)} clients from recordings", trained.digests.get("", "")
        if total is not None and (len(named) != trained.n_used or missing):
            self.cannot(what, f"{trained.n_used} clients are in the sum, and nobody knows which")
        elif total is not None:
            self.same(what, total, trained.sums.total, said, rounded=rounded)

    def certificate(self, trained: _Trained) -> None:
        """Compare the certificate of what was forgotten, where there is one, and its model."""
        path = self.run.folder / CERTIFICATE
        if not path.is_file():
            return
        text = path.read_text(encoding="utf-8")
        told = self.read("certificate", lambda: Certificate.from_json(text))
        if told is None:
            return
        total, kept = trained.sums.total, trained.sums.by_client
        self.compare("certificate: before", told.hash_of(total), told.before)
        found = told.fingerprint.split(" ")[0]
        own = trained.model.features.fingerprint
        if isinstance(trained.algorithm, FederatedYuleWalker):
            own = trained.algorithm.statistics_name
        self.compare("certificate: features", own, found)
        if told.client not in kept or told.what != ALL:
            held = "not kept here" if told.client not in kept else "a part of what is kept here"
            self.cannot("certificate: after", f"what was removed of {told.client} is {held}")
            return
        part = kept[told.client]
        self.compare("certificate: removed", told.hash_of(part), told.removed)
        rest = {name: one for name, one in kept.items() if name != told.client}
        after: Sum = total - part if told.how != "summed-anew" else summed(rest)
        note = "before - removed, an equality" if told.how == "equality" else ""
        self.compare("certificate: after", told.hash_of(after), told.after, note)
        n_rows = part.n_rows
        if n_rows != told.n_rows:
            self.differs("certificate: rows", f"{n_rows} rows, not {told.n_rows}")
        path = self.run.folder / f"model-without-{file_name(told.client)}.safetensors"
        made = self.read(path.name, lambda: self.load(path)) if path.is_file() else None
        shared = made and (made.model or made)
        if isinstance(shared, Model):
            left = type(trained.state)(cast(Any, after), rest)
            self.solved(path.name, trained, left, shared.readout)


def verified(
    folder: str | Path,
    load: Load,
    *,
    clients: Mapping[str, Data] | None = None,
    reason: str = "no recordings were given",
    only: str | None = None,
) -> Verification:
    """Return what can be computed again of a run's folder, each compared with what it says.

    `catchment.plans.verify_run` finds model and recordings by itself. The recordings are those of
    the training's clients before any preprocessing; where there are none the reason says why. With
    `only` a client's name the statistics of the others are not looked at one by one.
    """
    run = read_run(folder)
    said = _Said(run, described(run), load)
    for stage in run.stages:
        said.compare(f"settings of {stage.name}", stage.sha256, stage.fingerprint)
    model = said.model()
    trained = said.trained(model)
    if model is not None and trained is not None:
        kept = trained.sums.by_client
        if only is not None and kept and only not in kept:
            names = ", ".join(sorted(kept)[:8]) + ", ..." * (len(kept) > 8)
            raise ValueError(f"there is no client {only!r} in the sum; there are {names}")
        said.kept(trained, only)
        said.solved("readout", trained, trained.state, trained.model.readout)
        said.recordings(trained, clients, reason, only)
        said.certificate(trained)
    return Verification(tuple(said.checks))


def _lags_apart(state: YuleWalkerState, one: Readout, other: Readout) -> float:
    """Return how far two readouts of lags are apart on series with these autocovariances."""
    assert state.total is not None
    assert state.choice is not None
    G = toeplitz(state.total.moments[0, : state.choice.best.lookback])

    def rows(W: Array) -> Array:
        every = G @ W[1:].reshape(len(G), -1)
        return np.concatenate([W[:1], every.reshape(-1, W.shape[1])])

    return _readouts_apart(rows, np.zeros(len(other.weights)), 1.0, one, other)


def _readouts_apart(
    rows: Callable[[Array], Array], s: Array, n: float, one: Readout, other: Readout
) -> float:
    """Return the root mean square difference of two readouts on the rows of a sum.

    It is a share of what the second predicts there. Directions that no row has count as their ridge
    makes them count, so that no weight can change unseen.

    Parameters
    ----------
    rows
        Multiplies weights by the sum of products of the rows' features; `s` and `n` are the sum of
        features and the number of rows.
    """
    if one.weights.shape != other.weights.shape:
        return np.inf
    ridge = float(np.mean(other.ridge))

    def size(W: Any, b: Any) -> float:
        squares = np.sum(W * rows(W)) + 2 * np.sum(b * (s @ W)) + n * np.sum(b * b)
        return float(squares + ridge * np.sum(W * W))

    difference = size(one.weights - other.weights, one.intercept - other.intercept)
    whole = size(other.weights, other.intercept)
    if not np.isfinite(difference):
        return np.inf
    return float(np.sqrt(max(difference, 0.0) / whole)) if whole > 0 else float(difference > 0)


def file_name(client: str) -> str:
    """Return a client's name as it stands in the names of files.

    >>> file_name("a/b c")
    'a_b_c'
    """
    return re.sub(r"[^\w.-]", "_", client)


@dataclass(frozen=True, eq=False)
class WithoutClient:
    """A run's model without a client, and the certificate of it."""

    model: Predictor
    certificate: Certificate


def unlearn_from_run(folder: str | Path, client: str, model: Predictor) -> WithoutClient:
    """Return the model that a run without the client would have given, and a certificate.

    `model` is the run's, as it was saved. FederationError says why it cannot be had without the
    client: only a sum was kept, or what other clients sent depends on this one.
    """
    run = read_run(folder)
    told = described(run)
    for protection in told.protections:
        if protection == "SecureAggregation":
            raise FederationError(
                f"the run saw nothing but sums (secure_aggregation), so that what {client} sent "
                f"cannot be taken out of them; run the plan again without {client}"
            )
        if protection not in HARMLESS:
            raise FederationError(
                f"{protection} changes the sum of all clients, so that what {client} sent cannot "
                f"be taken out of it; run the plan again without {client}"
            )
    shared = model.model or model
    found = _unlearned(told, Path(folder), client, shared)
    if found is None:
        raise FederationError(
            f"what other clients sent to {told.name} depends on {client}, or was not kept one by "
            f"one; run the plan again without {client}"
        )
    stages = [SETTLED[stage.name] for stage in run.stages if stage.name in SETTLED]
    if told.name == "Candidates":
        stages.append("the choice among the feature maps")
    stages += [found.certificate.remains] if found.certificate.remains else []
    certificate = replace(found.certificate, remains="; ".join(stages))
    without: Predictor = found.model
    if isinstance(model, PersonalModels) and isinstance(without, Model):
        maps = {other: one for other, one in model.maps.items() if other != client}
        without = PersonalModels(without, maps=maps)
    known = without.prepared_by(model.preprocessing, model.channels).read_from(model.columns)
    return WithoutClient(known, certificate)


def _unlearned(told: Described, folder: Path, client: str, shared: Any) -> WithoutClient | None:
    """Return the model, not yet prepared, of the algorithms that can do without one client."""
    parts, algorithm, state = last_state(folder, TRAINING), cast(Any, None), cast(Any, None)
    if isinstance(shared, Detector) and told.name == "FederatedAnomalyDetector":
        labels = told.settings.get("classes")
        known = {**told.settings, "classes": None if labels is None else tuple(labels)}
        algorithm = FederatedAnomalyDetector(**{**known, "features": shared.features})
        state = algorithm.load_state(parts)
    elif isinstance(shared, Model) and told.name in BY_PLUGIN:
        without = plugin("algorithms", BY_PLUGIN[told.name]).without_client
        made: WithoutClient | None = without(told, shared, parts, client)
        return made
    elif isinstance(shared, Model):
        algorithm, state = told.learned(shared, parts) or (None, None)
    if algorithm is None:
        return None
    if not state.by_client:
        groups = isinstance(state, RidgeState) and state.by_group
        what = "the sums of groups of clients" if groups else "the sum of all clients"
        raise FederationError(
            f"the run kept only {what}, so that what {client} sent cannot be taken "
            f"out of it; run the plan again without {client}"
        )
    left: Any = unlearn(algorithm, state, client)
    return WithoutClient(algorithm.result(left.state), left.certificate)
