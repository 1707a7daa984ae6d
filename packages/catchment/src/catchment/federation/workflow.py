"""A whole training as stages of one loop: scaling, plasticity, training, delivery, evaluation.

Every way in (a call in Python, scikit-learn, a plan file in one process, Flower) describes what it
wants as a `Workflow`, and `conduct` runs its stages, each a `Plan` of its own, on whatever engine
carries the messages. What a stage finds is `Known` to the next ones; where clients are elsewhere it
travels with every request, and a client builds the stage's plan from it and from the course that it
agreed to. Maps are built once, by whoever conducts: nobody else solves an eigenvalue. A client
compares the recipe that it is sent with its own description, all but the scale, and multiplies.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Protocol

from catchment.data.prepare import RAW, Prepare
from catchment.data.scaling import Scaler
from catchment.errors import IntegrityError
from catchment.features.base import FeatureMap, building_only, restored
from catchment.features.echo_state.echo_state import EchoState
from catchment.features.echo_state.reservoir import Reservoir
from catchment.features.pipeline import suited
from catchment.federation.algorithm import Algorithm
from catchment.federation.delivery import DeliveredEvaluation, Delivery, Place
from catchment.federation.learn.scaling import FederatedScaling
from catchment.federation.limits import Limits
from catchment.federation.loop import Result
from catchment.federation.plan import Plan, describe
from catchment.federation.protection import Masking, Protection
from catchment.wire import Parts, join, split

SCALING, PLASTICITY, TRAINING = "scaling", "plasticity", "training"
DELIVERY, EVALUATION = "delivery", "evaluation"
CALIBRATION = "calibration"  # after the training, where all clients are in one process
STAGES = (SCALING, PLASTICITY, TRAINING, DELIVERY, EVALUATION)
LEARNING = (SCALING, PLASTICITY, TRAINING)

AnyPlan = Plan[Any, Any, Any]
Maps = tuple[FeatureMap, ...]


@dataclass(frozen=True, eq=False)
class Known:
    """What is settled before a stage: the maps, the preparation once it is fitted, the model.

    Parameters
    ----------
    course
        Fingerprint of what both sides agreed to before the first stage.
    model
        SHA-256 of the trained model's file, once there is one.
    """

    maps: Maps = ()
    prepare: Prepare | None = None
    course: str = ""
    model: str = ""

    def parts(self) -> Parts:
        """Return it as it travels: recipes and settings, a few hundred bytes."""
        named = {"about": Parts("about", {"course": self.course, "model": self.model})}
        named |= {f"map/{k}": one.parts() for k, one in enumerate(self.maps)}
        if self.prepare is not None:
            named["prepare"] = Parts("prepare", {"settings": self.prepare.settings()})
        return join("known", named)

    @classmethod
    def from_parts(
        cls, parts: Parts, use: Iterable[type] = (), *, of: Workflow | None = None, stage: str = ""
    ) -> Known:
        """Return what travelled; IntegrityError if it is malformed.

        Parameters
        ----------
        of, stage
            Workflow of whoever receives it, and the stage: what is not of that course is refused
            before anything is built of it, and after the training no map is built at all.
        """
        named = split(parts, "known")
        if "about" not in named:
            raise IntegrityError("the server does not say which plan it runs")
        course, model = (str(named["about"].facts.get(name)) for name in ("course", "model"))
        sent = [part for name, part in named.items() if name[:4] == "map/"]
        if of is not None:
            sent = of.foreseen(course, stage, sent)
        with nullcontext() if of is None else building_only(lambda _: True):
            maps = tuple(restored(part, use) for part in sent)
        if "prepare" not in named:
            return cls(maps, None, course, model)
        settings = named["prepare"].facts.get("settings")
        if not isinstance(settings, Mapping):
            raise IntegrityError("the preparation lacks its settings")
        try:
            return cls(maps, Prepare.from_settings(settings), course, model)
        except (TypeError, ValueError) as error:
            raise IntegrityError(f"the preparation is not valid: {error}") from error


class Adaptation(Protocol):
    """Makes the algorithm that adapts a reservoir before the training."""

    def __call__(self, reservoir: Reservoir, /) -> Algorithm[Any, Any, Reservoir]: ...


class Reason(Protocol):
    """A choice with the reason for it."""

    @property
    def reason(self) -> str: ...


class Reasoning(Protocol):
    """Chooses an upload for a map, and says why."""

    def chosen(self, features: FeatureMap, /, *, classes: bool) -> Reason: ...


@dataclass(frozen=True, kw_only=True, eq=False)
class Workflow:
    """What is learned, from what, how often and how protected: all stages of one training.

    Parameters
    ----------
    prepare
        How recordings are prepared, as it was written: a federated scale is not fitted yet.
    maps
        The feature map, or one for each candidate; descriptions such as `EchoState(200)` too.
    learn
        Makes the algorithm of the training from the built maps.
    channels, classes
        Names of the inputs' channels, and of the outputs if they are classes.
    per_step
        Whether every step has a target of its own.
    uploads
        Says which upload the training takes for a map, and why, if that was chosen.
    adapt, adapt_rounds
        Makes what adapts the reservoir before the training, if anything does.
    targets
        How many numbers are predicted, where that is known and they are not classes or the inputs.
    rounds, share, min_clients, protections, seed, limits
        As in `Plan`, for the training; limits for every stage, rounds if not
        given as many as the algorithm needs.
    """

    prepare: Prepare
    maps: tuple[FeatureMap, ...]
    learn: Callable[[Maps], Algorithm[Any, Any, Any]]
    channels: tuple[str, ...] | int
    classes: tuple[str, ...] | None = None
    per_step: bool = False
    targets: int | None = None
    uploads: Reasoning | None = None
    adapt: Adaptation | None = None
    adapt_rounds: int = 10
    rounds: int | None = None
    share: float = 1.0
    min_clients: int = 1
    protections: tuple[Protection, ...] = ()
    seed: int = 0
    limits: Limits = field(default_factory=Limits)

    def __post_init__(self) -> None:
        fitting = tuple(suited(one, self.prepare) for one in self.maps)
        object.__setattr__(self, "maps", fitting)

    @property
    def n_channels(self) -> int:
        return self.channels if isinstance(self.channels, int) else len(self.channels)

    @property
    def n_inputs(self) -> int:
        """How many inputs maps get: the channels, and what the preparation puts beside them."""
        return self.prepare.n_inputs(self.n_channels)

    @property
    def n_targets(self) -> int | None:
        """How many targets every row has, None if only the clients know."""
        if self.classes is not None:
            return len(self.classes)
        if self.prepare.horizon is not None:
            return self.prepare.ahead.n_targets(self.channels)
        return self.targets

    @property
    def stages(self) -> tuple[str, ...]:
        """The stages that this course has, in their order."""
        absent = {SCALING: self.prepare.is_fitted, PLASTICITY: self.adapt is None}
        return tuple(stage for stage in STAGES if not absent.get(stage, False))

    def start(self) -> Known:
        """Return what is known at first: the maps, built here and carried from here on."""
        return Known(
            tuple(
                one.build(self.n_inputs, per_step=self.per_step, classes=self.classes is not None)
                for one in self.maps
            ),
            self.prepare if self.prepare.is_fitted else None,
            self.fingerprint,
        )

    def upload(self, known: Known) -> str:
        """Return in one sentence what clients send in the training, and why; nothing if unsaid."""
        if self.uploads is None:
            return ""
        return self.uploads.chosen(known.maps[0], classes=self.classes is not None).reason

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of all that is agreed on before the first stage; nothing is built for it."""
        lines = [_line(k + 1) for k in range(len(self.maps))]
        maps = tuple(EchoState.of(one, pool=None if self.per_step else "mean") for one in lines)
        described = {
            "prepare": self.prepare,
            "maps": self.maps,
            "channels": self.channels,
            "per_step": self.per_step,
            "adapt": None if self.adapt is None else (self.adapt(_line(1)), self.adapt_rounds),
            "training": self._training(Known(maps, RAW)),
        }
        text = json.dumps(describe(described), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()

    def foreseen(self, course: str, stage: str, maps: Sequence[Parts]) -> list[Parts]:
        """Return what of a letter's maps is to be built; IntegrityError if it is not of this."""
        if course != self.fingerprint:
            raise _another()
        if stage not in LEARNING:
            return []  # a model brings its own
        if not self._are(maps, self.adapt is not None):
            raise _another()
        return list(maps)

    def checked(self, stage: str, known: Known) -> Known:
        """Return what came with a request; IntegrityError if it is not of this course.

        Maps must be those described here in everything but the scale and the fingerprint of their
        weights, and the preparation in everything but the numbers that were to be fitted.
        """
        if known.course != self.fingerprint or not self.agrees(stage, known):
            raise _another()
        return known

    def agrees(self, stage: str, known: Known) -> bool:
        """Return whether maps and preparation are those described here, as `checked` compares."""
        if known.prepare is not None:
            own, came = self.prepare, known.prepare
            if not own.is_fitted:
                if not isinstance(came.scale, Scaler):
                    return False
                came = replace(came, scale=own.scale)
            if came.fingerprint != own.fingerprint:
                return False
        if stage not in LEARNING:
            return True
        adapted = self.adapt is not None and stage == TRAINING
        return self._are([one.parts() for one in known.maps], adapted)

    def _are(self, maps: Sequence[Parts], adapted: bool) -> bool:
        """Return whether these are the parts of all the maps, in their order."""
        return len(maps) == len(self.maps) and all(
            self._is(one, parts, adapted) for one, parts in zip(self.maps, maps, strict=True)
        )

    def describes(self, parts: Parts) -> bool:
        """Return whether parts are those of one of the maps, before anything is built.

        The scale may differ, and gains and shifts if maps are adapted.
        """
        return any(self._is(one, parts, self.adapt is not None) for one in self.maps)

    def _is(self, one: FeatureMap, parts: Parts, adapted: bool) -> bool:
        return one.describes(
            parts,
            self.n_inputs,
            per_step=self.per_step,
            classes=self.classes is not None,
            adapted=adapted,
        )

    def plan(self, stage: str, known: Known, place: Place | None = None) -> AnyPlan:
        """Return the plan of a stage.

        Parameters
        ----------
        place
            Where the model is kept, for the stages after the training.
        """
        match stage:
            case "scaling":
                return self._exact(FederatedScaling(prepare=self.prepare, channels=self.n_channels))
            case "plasticity" if self.adapt is not None:
                adapting = self.adapt(_reservoir(known.maps))
                before = self._exact(adapting, rounds=self.adapt_rounds, share=self.share)
                return replace(before, prepare=self._prepare(known), min_clients=self.min_clients)
            case "training":
                return self._training(known)
            case "delivery" if place is not None:
                delivery = Delivery(sha256=known.model, place=place)
                return Plan(algorithm=delivery, limits=self.limits)
            case "evaluation" if place is not None:
                masks = tuple(
                    p.exact(of_few=True) for p in self.protections if isinstance(p, Masking)
                )
                algorithm = DeliveredEvaluation(
                    sha256=known.model, place=place, keep_clients=not masks
                )
                return Plan(algorithm=algorithm, limits=self.limits, protections=masks)
        raise IntegrityError(f"the plan has no stage {stage[:40]!r}")

    def _training(self, known: Known) -> AnyPlan:
        algorithm = self.learn(known.maps)
        return Plan(
            algorithm=algorithm,
            rounds=self.rounds or algorithm.needs.rounds,
            share=self.share,
            min_clients=self.min_clients,
            protections=self.protections,
            seed=self.seed,
            limits=self.limits,
            prepare=self._prepare(known),
            channels=None if isinstance(self.channels, int) else self.channels,
            n_targets=self.n_targets,
        )

    def _exact(
        self, algorithm: Algorithm[Any, Any, Any], *, rounds: int = 1, share: float = 1.0
    ) -> AnyPlan:
        """Return the plan of a stage before the training, hidden in a sum if the training is.

        A bound on ridge statistics says nothing of other sums, so these are sent without rounding.
        """
        masks = tuple(p.exact() for p in self.protections if isinstance(p, Masking))
        return Plan(
            algorithm=algorithm,
            rounds=rounds,
            share=share,
            protections=masks,
            seed=self.seed,
            limits=self.limits,
        )

    @staticmethod
    def _prepare(known: Known) -> Prepare:
        if known.prepare is None:
            raise IntegrityError("the scale is to be fitted first, and no fitted one came")
        return known.prepare

    def after(self, stage: str, known: Known, result: object) -> Known:
        """Return what is known when a stage has given its result."""
        if isinstance(result, Prepare):
            return replace(known, prepare=result)
        if isinstance(result, Reservoir):
            (one,) = known.maps
            assert isinstance(one, EchoState)
            return replace(known, maps=(one.reading(result),))
        return known


RunStage = Callable[[str, AnyPlan, Known], Result[Any, Any]]


def conduct(course: Workflow, run: RunStage) -> tuple[Known, Result[Any, Any]]:
    """Run the stages up to the training, and return what is known and what the training gave.

    Parameters
    ----------
    run
        Carries out the plan of a stage; told also what is known, for clients that are elsewhere.
    """
    known = course.start()
    for stage in course.stages:
        result = run(stage, course.plan(stage, known), known)
        if stage == TRAINING:
            return known, result
        known = course.after(stage, known, result.result)
    raise AssertionError("a course has a training")


def _another() -> IntegrityError:
    return IntegrityError("the server runs another plan than this client agreed to")


def _line(units: int) -> Reservoir:
    """Return a tiny reservoir that stands for one that is not built."""
    return Reservoir.from_matrices([[0.0] * units] * units, [[1.0]] * units)


def _reservoir(maps: Maps) -> Reservoir:
    match maps:
        case (EchoState() as one,):
            return one.reservoir
    raise ValueError("plasticity adapts one reservoir; use one EchoState map with it")
