"""A whole training as stages of one loop: scaling, plasticity, training, delivery, evaluation.

Every way in (a call in Python, scikit-learn, a plan file in one process, Flower) describes what it
wants as a `Workflow`, and `Workflow.run` runs its stages, each a `Plan` of its own, on the engines
of whoever carries the messages: `Engines` says where the clients are. What a stage finds is
`StageInputs` to the next ones; where clients are elsewhere it travels with every request, and a
client builds the stage's plan from it and from the workflow that it agreed to. Maps are built once,
by whoever runs it: nobody else solves an eigenvalue. A client compares the recipe that it is sent
with its own description, all but the scale, and multiplies.

The scale is one for all clients, from the sum of their moments, in one round before training.
Moments travel as integers, in limbs of 32 binary digits, so their sum over clients is exact in any
order and under secure aggregation: everybody has the scaler of the pooled data to the bit. Centring
and dividing features by their spread takes no such round: the statistics that are sent anyway tell
both (`catchment.readout.solve`). The scale of inputs bends every state of a reservoir, and no
statistics can undo it: so it is agreed on beforehand.

The trained model goes back to the clients in a stage like any other: its bytes are in the ledger,
and every client answers with the SHA-256 of what it keeps. The evaluation that follows sends no
model; a client takes the one it was given, prepares its recordings as that says, and refuses if it
is not the one to be tested.
"""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Annotated, Any, ClassVar, Protocol

import numpy as np

from catchment.arrays import Integers
from catchment.data.preprocessing import RAW, Preprocessing
from catchment.data.scaling import Moments, Scaler
from catchment.errors import IntegrityError, UploadError
from catchment.features.echo_state.reservoir import Reservoir
from catchment.features.pipeline import suited
from catchment.features.recipes import FeatureMap, building_only, restored
from catchment.federation.algorithm import Algorithm, Data, Requirements, RoundContext
from catchment.federation.checks import Limits
from catchment.federation.loop import Result, run
from catchment.federation.messages import Engine, Record
from catchment.federation.plan import Plan, describe
from catchment.federation.protection import Protection
from catchment.federation.runs.folder import RunFolder
from catchment.federation.runs.ledger import EntryList, Keeper
from catchment.readout.integers import from_limbs, to_limbs
from catchment.readout.predictor import Predictor
from catchment.wire import (
    COUNTED,
    GATHERED,
    NOT_NEGATIVE,
    NOTHING,
    SIGNED,
    Fact,
    Kind,
    Message,
    Shape,
    Structure,
    Summable,
    join,
    split,
)

SCALING, PLASTICITY, TRAINING = "scaling", "plasticity", "training"
DELIVERY, EVALUATION = "delivery", "evaluation"
CALIBRATION = "calibration"  # after the training, where all clients are in one process
LEARNING = (SCALING, PLASTICITY, TRAINING)

AnyPlan = Plan[Any, Any, Any]
Maps = tuple[FeatureMap, ...]
# Makes the algorithm that adapts a reservoir before the training.
Adaptation = Callable[[Reservoir], Algorithm[Any, Any, Reservoir]]

MODEL_FILE = "model-file"
LIMB = 32  # binary digits
TOTAL_LIMBS, SQUARES_LIMBS = 4, 7  # for 2^33 values of largest size, with room in the top limb
CLIENTS_BITS = 16  # a sum of up to 2^16 clients' limbs is taken, and 2^15 such sums can be added


@dataclass(frozen=True, eq=False)
class SentMoments(Summable):
    """Counts, sums and sums of squares of each channel, as they travel and add."""

    KIND: ClassVar[Kind] = Kind(
        "moments",
        "for each channel how many values there are, their sum and their sum of squares",
        ("how much data the client has, and the mean and spread of each of its channels",),
    )

    count: Annotated[Integers, Shape("channels"), COUNTED]
    total: Annotated[Integers, Shape(TOTAL_LIMBS, "channels"), SIGNED]
    squares: Annotated[Integers, Shape(SQUARES_LIMBS, "channels"), NOT_NEGATIVE]

    @classmethod
    def of(cls, moments: Moments) -> SentMoments:
        """Return moments as they travel."""
        total = to_limbs(moments.total, TOTAL_LIMBS, LIMB)
        return cls(moments.count, total, to_limbs(moments.squares, SQUARES_LIMBS, LIMB))

    @property
    def moments(self) -> Moments:
        total = from_limbs(self.total, LIMB).astype(object)
        return Moments(self.count, total, from_limbs(self.squares, LIMB).astype(object))


@dataclass(frozen=True, kw_only=True)
class FederatedScaling(Algorithm[SentMoments, SentMoments, Preprocessing]):
    """The mean and standard deviation of every channel over all clients' training data.

    The server sees three numbers per channel of each client: how many values, their sum and their
    sum of squares. The scaler is that of the pooled data.

    >>> from catchment import Plan, Recording, federate
    >>> clients = {"a": [Recording(np.array([0.0, 2.0]))], "b": [Recording(np.array([4.0]))]}
    >>> plan = Plan(algorithm=FederatedScaling(channels=1))
    >>> federate(plan, clients).result.scale.mean
    array([2.])

    Parameters
    ----------
    channels
        How many there are.
    preprocessing
        What happens to recordings before their moments are taken; its scale is what is fitted.
    """

    channels: int
    preprocessing: Preprocessing = field(default_factory=Preprocessing)

    def start(self) -> SentMoments:
        n = self.channels
        count, total = np.zeros(n, np.int64), np.zeros((TOTAL_LIMBS, n), np.int64)
        return SentMoments(count, total, np.zeros((SQUARES_LIMBS, n), np.int64))

    def client_update(self, received: Message, data: Data, context: RoundContext) -> SentMoments:
        moments = Moments.of(self.preprocessing.before_scaling(data()))
        if not moments.count.any():
            raise ValueError("no input has a value; there is nothing to scale by")
        return SentMoments.of(moments)

    def read_update(self, parts: Message, context: RoundContext) -> SentMoments:
        came = SentMoments.from_message(parts)
        if len(came.count) != self.channels:
            raise UploadError(
                "shape", f"moments of {parts.shapes()} came, there are {self.channels} channels"
            )
        # The limbs must leave room to be added, and the mean's square cannot exceed the mean of
        # squares: exactly, as nothing was rounded.
        limbs = np.concatenate([came.total, came.squares])
        room, moments = 2 ** (LIMB + CLIENTS_BITS), came.moments
        inside = moments.total**2 <= came.count.astype(object) * moments.squares
        if not (np.abs(limbs) < room).all() or not inside.all():
            raise UploadError("moments", "no values can have these moments")
        return came

    def server_update(
        self, state: SentMoments, total: SentMoments, context: RoundContext
    ) -> SentMoments:
        return SentMoments.of((state + total).moments)

    def result(self, state: SentMoments) -> Preprocessing:
        return self.preprocessing.fitted(state.moments)

    def figures(self, state: SentMoments) -> dict[str, float]:
        return {"values": float(state.count.sum())}


class Place(Protocol):
    """Where a client keeps the model that it was given."""

    def keep(self, content: bytes, about: Mapping[str, str]) -> None:
        """Keep the content of a model's file, and which plan and run it is from."""

    def model(self, sha256: str) -> Predictor:
        """Return the model that is kept; IntegrityError if it is not the one of this SHA-256."""


@dataclass(frozen=True, eq=False)
class InMemory:
    """The model of one process, which is server and clients at once.

    >>> InMemory(b"").model("0" * 64)
    Traceback (most recent call last):
    catchment.errors.IntegrityError: this client has not been given the model that is to be tested
    """

    content: bytes
    opened: Predictor | None = None

    def keep(self, content: bytes, about: Mapping[str, str]) -> None:
        """Do nothing: what came is what is here."""

    def model(self, sha256: str) -> Predictor:
        if self.opened is None or sha256_of(self.content) != sha256:
            raise not_given()
        return self.opened


def sha256_of(content: bytes) -> str:
    """Return the SHA-256 of a file's content, in hexadecimal.

    >>> sha256_of(b"")[:8]
    'e3b0c442'
    """
    return hashlib.sha256(content).hexdigest()


def not_given() -> IntegrityError:
    """Return the error of a client that does not have the model it is asked about."""
    return IntegrityError("this client has not been given the model that is to be tested")


@dataclass(frozen=True, eq=False)
class Receipt(Structure):
    """What a client answers to a delivery."""

    KIND: ClassVar[Kind] = Kind(
        "receipt",
        "the SHA-256 of the model that the client was sent and keeps",
        ("that the client has the model; nothing of its data",),
    )

    sha256: str


@dataclass(frozen=True, eq=False)
class Receipts(Summable):
    """Which client keeps what."""

    by_client: Annotated[Mapping[str, Receipt], GATHERED] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, eq=False)
class Delivery(Algorithm[Receipts, Receipts, tuple[str, ...]]):
    """One round in which every client is sent the model and says that it keeps it.

    Parameters
    ----------
    sha256
        Of the model's file.
    place
        Where a client keeps it.
    content
        The file; only the server has it before the round.
    about
        Which plan and which run it is from.
    """

    sha256: str
    place: Place
    content: bytes = b""
    about: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, place: InMemory, **about: str) -> Delivery:
        """Return the delivery of the model that a server has."""
        model = place.content
        return cls(sha256=sha256_of(model), place=place, content=model, about=about)

    @property
    def requirements(self) -> Requirements:
        return Requirements(
            each_client="each client says for itself what it keeps; send it in the clear"
        )

    def identity(self) -> str:
        return self.sha256

    def start(self) -> Receipts:
        return Receipts()

    def broadcast(self, state: Receipts, context: RoundContext) -> Message:
        facts: dict[str, Fact] = {**self.about}
        return Message(MODEL_FILE, facts, (np.frombuffer(self.content, dtype=np.uint8),))

    def client_update(self, received: Message, data: Data, context: RoundContext) -> Receipt:
        (array,) = received.expect(MODEL_FILE, 1).arrays
        content = array.tobytes()
        if sha256_of(content) != self.sha256:
            raise IntegrityError("the model that came is not the one that was announced")
        self.place.keep(content, {str(k): str(v) for k, v in received.facts.items()})
        return Receipt(self.sha256)

    def read_update(self, parts: Message, context: RoundContext) -> Receipts:
        receipt = Receipt.from_message(parts)
        if receipt.sha256 != self.sha256:
            raise UploadError("other-model", "it keeps another model than it was sent")
        return Receipts({context.client: receipt})

    def server_update(self, state: Receipts, total: Receipts, context: RoundContext) -> Receipts:
        return total  # whoever has the model of an earlier round need not have this one

    def result(self, state: Receipts) -> tuple[str, ...]:
        """Return the names of the clients that have the model."""
        return tuple(sorted(state.by_client))


@dataclass(frozen=True, eq=False)
class StageInputs:
    """What is settled before a stage: the maps, the preparation once it is fitted, the model.

    Parameters
    ----------
    workflow
        Fingerprint of what both sides agreed to before the first stage.
    model
        SHA-256 of the trained model's file, once there is one.
    """

    maps: Maps = ()
    preprocessing: Preprocessing | None = None
    workflow: str = ""
    model: str = ""

    def parts(self) -> Message:
        """Return it as it travels: recipes and settings, a few hundred bytes."""
        named = {"about": Message("about", {"course": self.workflow, "model": self.model})}
        named |= {f"map/{k}": one.parts() for k, one in enumerate(self.maps)}
        if self.preprocessing is not None:
            named["prepare"] = Message("prepare", {"settings": self.preprocessing.settings()})
        return join("known", named)

    @classmethod
    def from_message(
        cls,
        parts: Message,
        use: Iterable[type] = (),
        *,
        of: Workflow | None = None,
        stage: str = "",
    ) -> StageInputs:
        """Return what traveled; IntegrityError if it is malformed.

        Parameters
        ----------
        of, stage
            Workflow of whoever receives it, and the stage: what is not of it, as `agrees` has it,
            is refused before anything is built of it; after the training no map is built at all.
        """
        named = split(parts, "known")
        if "about" not in named:
            raise IntegrityError("the server does not say which plan it runs")
        workflow, model = (str(named["about"].facts.get(name)) for name in ("course", "model"))
        sent = [part for name, part in named.items() if name[:4] == "map/"]
        another = IntegrityError("the server runs another plan than this client agreed to")
        if of is not None:
            learning = stage in LEARNING
            if workflow != of.fingerprint or (learning and not of.has(sent, of.adapt is not None)):
                raise another
            sent = sent if learning else []  # a model brings its own
        with nullcontext() if of is None else building_only(lambda _: True):
            maps = tuple(restored(part, use) for part in sent)
        known = cls(maps, None, workflow, model)
        if "prepare" in named:
            settings = named["prepare"].facts.get("settings")
            if not isinstance(settings, Mapping):
                raise IntegrityError("the preparation lacks its settings")
            try:
                known = replace(known, preprocessing=Preprocessing.from_settings(settings))
            except (TypeError, ValueError) as error:
                raise IntegrityError(f"the preparation is not valid: {error}") from error
        if of is not None and not of.agrees(stage, known):
            raise another
        return known


@dataclass(frozen=True, kw_only=True, eq=False)
class Workflow:
    """What is learned, from what, how often and how protected: all stages of one training.

    Parameters
    ----------
    preprocessing
        How recordings are prepared, as it was written: a federated scale is not fitted yet.
    maps
        The feature map, or one for each candidate; descriptions such as `EchoState(200)` too.
    learn
        Makes the algorithm of the training from the built maps.
    channels, classes
        Names of the inputs' channels, and of the outputs if they are classes.
    per_step
        Whether every step has a target of its own.
    adapt, adapt_rounds
        Makes what adapts the reservoir before the training, if anything does.
    targets
        How many numbers are predicted, where that is known and they are not classes or the inputs.
    rounds, client_fraction, min_clients, protections, seed, limits
        As in `Plan`, for the training; limits for every stage, rounds if not
        given as many as the algorithm needs.
    scores_adapted
        Whether clients that are tested adapt the model to their own recordings and score both.
    """

    preprocessing: Preprocessing
    maps: tuple[FeatureMap, ...]
    learn: Callable[[Maps], Algorithm[Any, Any, Any]]
    channels: tuple[str, ...] | int
    classes: tuple[str, ...] | None = None
    per_step: bool = False
    targets: int | None = None
    adapt: Adaptation | None = None
    adapt_rounds: int = 10
    rounds: int | None = None
    client_fraction: float = 1.0
    min_clients: int = 1
    protections: tuple[Protection, ...] = ()
    seed: int = 0
    limits: Limits = field(default_factory=Limits)
    scores_adapted: bool = False
    n_targets: int | None = field(init=False)  # of every row, None if only the clients know
    n_channels: int = field(init=False)
    n_inputs: int = field(init=False)  # the channels, and what the preparation puts beside them

    def __post_init__(self) -> None:
        fitting = map(partial(suited, preprocessing=self.preprocessing), self.maps)
        object.__setattr__(self, "maps", tuple(fitting))
        n_channels = self.channels if isinstance(self.channels, int) else len(self.channels)
        object.__setattr__(self, "n_channels", n_channels)
        object.__setattr__(self, "n_inputs", self.preprocessing.n_inputs(n_channels))
        n_targets = self.targets if self.classes is None else len(self.classes)
        if self.classes is None and self.preprocessing.horizon is not None:
            n_targets = self.preprocessing.n_targets(self.channels)
        object.__setattr__(self, "n_targets", n_targets)

    @property
    def stages(self) -> tuple[str, ...]:
        """The stages that this workflow has, in their order."""
        scaling = () if self.preprocessing.is_fitted else (SCALING,)
        plasticity = () if self.adapt is None else (PLASTICITY,)
        return *scaling, *plasticity, TRAINING, DELIVERY, EVALUATION

    def start(self, *, named: bool = True) -> StageInputs:
        """Return what is known at first: the maps, built here and carried from here on.

        Parameters
        ----------
        named
            Whether it says of which workflow it is, for clients that have to agree to it.
        """
        classes, maps = self.classes is not None, []
        for one in self.maps:
            maps.append(one.build(self.n_inputs, per_step=self.per_step, classes=classes))
        preprocessing = self.preprocessing if self.preprocessing.is_fitted else None
        return StageInputs(tuple(maps), preprocessing, self.fingerprint if named else "")

    def run(
        self, engines: Engines, folder: RunFolder | None = None, *, onto: Any = None
    ) -> tuple[StageInputs, Result[Any, Any]]:
        """Run the stages up to the training, and return what is known and what the training gave.

        Parameters
        ----------
        engines
            Where the clients are.
        folder
            Where the run is kept, and goes on where it stopped.
        onto
            The state of an earlier training, with which this one begins.
        """
        known = self.start(named=engines.telling)
        if not self.preprocessing.is_fitted:
            scaling = engines.run(SCALING, self.plan(SCALING, known), known, folder)
            known = replace(known, preprocessing=scaling.result)
        if self.adapt is not None:
            adapted = engines.run(PLASTICITY, self.plan(PLASTICITY, known), known, folder)
            maps: Any = known.maps
            known = replace(known, maps=(maps[0].reading(adapted.result),))
        return known, engines.run(TRAINING, self.plan(TRAINING, known), known, folder, onto=onto)

    def upload(self, known: StageInputs) -> str:
        """Return in one sentence what clients send in the training, and why."""
        return self.learn(known.maps).sends(self.protections)

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of all that is agreed on before the first stage; nothing is built for it."""
        lines = [_line(k + 1) for k in range(len(self.maps))]
        maps = tuple(one.features(pool=None if self.per_step else "mean") for one in lines)
        described = {
            "prepare": self.preprocessing,
            "maps": self.maps,
            "channels": self.channels,
            "per_step": self.per_step,
            "adapt": None if self.adapt is None else (self.adapt(_line(1)), self.adapt_rounds),
            "training": self.plan(TRAINING, StageInputs(maps, RAW)),
        }
        return hashlib.sha256(json.dumps(describe(described), sort_keys=True).encode()).hexdigest()

    def agrees(self, stage: str, known: StageInputs) -> bool:
        """Return whether maps and preparation are those described here.

        Maps are in everything but the scale and the fingerprint of their weights, and the
        preparation in everything but the numbers that were to be fitted.
        """
        if known.preprocessing is not None:
            own, came = self.preprocessing, known.preprocessing
            if not own.is_fitted:
                if not isinstance(came.scale, Scaler):
                    return False
                came = replace(came, scale=own.scale)
            if came.fingerprint != own.fingerprint:
                return False
        if stage not in LEARNING:
            return True
        adapted = self.adapt is not None and stage == TRAINING
        return self.has([one.parts() for one in known.maps], adapted)

    def has(self, maps: Sequence[Message], adapted: bool) -> bool:
        """Return whether these are the parts of all the maps, in their order."""
        return len(maps) == len(self.maps) and all(
            self._is(one, parts, adapted) for one, parts in zip(self.maps, maps, strict=True)
        )

    def describes(self, parts: Message) -> bool:
        """Return whether parts are those of one of the maps, before anything is built.

        The scale may differ, and gains and shifts if maps are adapted.
        """
        return any(self._is(one, parts, self.adapt is not None) for one in self.maps)

    def _is(self, one: FeatureMap, parts: Message, adapted: bool) -> bool:
        return one.describes(
            parts,
            self.n_inputs,
            per_step=self.per_step,
            classes=self.classes is not None,
            adapted=adapted,
        )

    def plan(self, stage: str, known: StageInputs, place: Place | None = None) -> AnyPlan:
        """Return the plan of a stage.

        Parameters
        ----------
        place
            Where the model is kept, for the stages after the training.
        """
        if known.preprocessing is None and stage in (PLASTICITY, TRAINING):
            raise IntegrityError("the scale is to be fitted first, and no fitted one came")
        # A bound on ridge statistics says nothing of other sums: they are hidden without rounding.
        masks: tuple[Protection, ...] = ()
        for one in self.protections:
            mask = one.exact(of_few=stage == EVALUATION)
            masks = masks if mask is None else (mask,)
        exact: dict[str, Any] = {"protections": masks, "seed": self.seed, "limits": self.limits}
        asked: dict[str, Any] = {"preprocessing": known.preprocessing or RAW}
        asked |= {"client_fraction": self.client_fraction, "min_clients": self.min_clients}
        match stage:
            case "scaling":
                scaling = FederatedScaling(
                    preprocessing=self.preprocessing, channels=self.n_channels
                )
                return Plan(algorithm=scaling, **exact)
            case "plasticity" if self.adapt is not None:
                adapting = self.adapt(_reservoir(known.maps))
                return Plan(algorithm=adapting, rounds=self.adapt_rounds, **exact, **asked)
            case "training":
                algorithm = self.learn(known.maps)
                return Plan(
                    algorithm=algorithm,
                    rounds=self.rounds or algorithm.requirements.rounds,
                    channels=None if isinstance(self.channels, int) else self.channels,
                    n_targets=self.n_targets,
                    **exact | {"protections": self.protections},
                    **asked,
                )
        if place is not None and stage in (DELIVERY, EVALUATION):
            from catchment.federation.measure.evaluation import Evaluation

            if stage == DELIVERY:
                return Plan(algorithm=Delivery(sha256=known.model, place=place), limits=self.limits)
            told: dict[str, Any] = {"store_per_client": not masks, "adapted": self.scores_adapted}
            tested = Evaluation(sha256=known.model, place=place, **told)
            return Plan(algorithm=tested, limits=self.limits, protections=masks)
        raise IntegrityError(f"the plan has no stage {stage[:40]!r}")


@dataclass(frozen=True, kw_only=True, eq=False)
class Engines(ABC):
    """Where the clients of a workflow are, and how its stages are run there.

    Parameters
    ----------
    watch
        Called with (stage, round, clients done, clients asked).
    journal
        Writes down the steps of masked rounds, so that one cut short goes on in its middle.
    telling
        Whether what is known travels with every request, for clients that make the plan of a stage
        for themselves.
    settled
        Returns the plan of a stage as one of this very run, if anything in it depends on that.
    had
        By stage: how many rounds it had before, if a finished run goes on.
    records
        By stage: what is known of its rounds, once they are over.
    held
        By stage: what came of it and its messages, where no folder keeps them.
    """

    watch: Callable[[str, int, int, int], None] | None = None
    journal: Any = None
    telling: bool = True
    settled: Callable[[AnyPlan], AnyPlan] | None = None
    had: Mapping[str, int] = field(default_factory=dict)
    records: dict[str, tuple[Record, ...]] = field(default_factory=dict)
    held: dict[str, tuple[Result[Any, Any], EntryList]] = field(default_factory=dict)

    @property
    @abstractmethod
    def name(self) -> str:
        """What it is called in the run's facts."""

    @abstractmethod
    def engine(self, stage: str, plan: AnyPlan) -> Engine:
        """Return what carries the messages of a stage."""

    def allowed(self, stage: str, plan: AnyPlan) -> AnyPlan:
        """Return the plan of a stage as it may be run there; ValueError if it may not."""
        return plan

    def run(
        self,
        stage: str,
        plan: AnyPlan,
        known: StageInputs,
        folder: RunFolder | None,
        *,
        onto: Any = None,
    ) -> Result[Any, Any]:
        """Run a stage, or what is left of it."""
        plan, had = self.allowed(stage, plan), self.had.get(stage)
        if self.settled is not None:
            plan = self.settled(plan)
        if had is not None:
            plan = replace(plan, rounds=had + 1)
        notes = EntryList()
        keeper: Keeper[Any] = notes
        if folder is not None:
            keeper = folder.keeper(stage, plan, goes_on=had is not None, logs=self.telling)
        result = run(
            plan,
            self.engine(stage, plan),
            keeper=keeper,
            watch=partial(self.watch, stage) if self.watch else None,
            journal=self.journal if plan.masking else None,
            stage_inputs=known.parts() if self.telling else NOTHING,
            onto=onto,
        )
        self.records[stage] = result.records
        if folder is None:
            self.held[stage] = result, notes
        return result


def _line(units: int) -> Reservoir:
    """Return a tiny reservoir that stands for one that is not built."""
    return Reservoir.from_matrices([[0.0] * units] * units, [[1.0]] * units)


def _reservoir(maps: Maps) -> Reservoir:
    if len(maps) == 1 and isinstance(found := maps[0].reservoir, Reservoir):
        return found
    raise ValueError("plasticity adapts one reservoir; use one EchoState map with it")
