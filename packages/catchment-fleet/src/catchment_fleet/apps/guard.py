"""What a node checks before it answers, by its owner's policy and by the plan it agreed to.

plans      is this a plan, and an algorithm, that the owner allows; does it ask for enough
           clients and rows; are statistics hidden in a sum
models     a model that is delivered, or to be scored, is one that the plan makes: the plan's
           maps, its preparation, its outputs. With a map or a washout of the server's choice,
           the difference of two scores is a single row
scores     one model is scored, or one of each plan that the owner listed or had signed, with
           enough rows behind the score, and no score without noise comes from a client that
           trained under noise
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from pathlib import Path

from catchment.data import Recording
from catchment.errors import BudgetError, DeviceError, IntegrityError, RuleError
from catchment.features import FeatureMap, Reservoir, building_only
from catchment.federation import (
    EVALUATION,
    AnyPlan,
    Memory,
    Place,
    StageInputs,
    Workflow,
    sha256_of,
)
from catchment.federation.measure import Evaluation, Score
from catchment.plans import Files, PlanFile, own_classes
from catchment.privacy import GaussianNoise, Policy, SecureAggregation
from catchment.readout import Predictor, load
from catchment.wire import Message
from catchment_fleet.apps.scaffold import is_signed

log = logging.getLogger(__name__)
MISFITS = "misfits"  # plans that a node's data did not fit

# Their models have maps that clients made, which a node cannot know before.
OWN_MAPS = frozenset({"ensemble", "stacking", "aligned", "personal", "partial", "prompt"})

# Their uploads do not say how many rows they were made of.
UNCOUNTED = frozenset({"averaging", "gradient", "ensemble", "stacking", "personal", "aligned"})


def check_plan(policy: Policy, file: PlanFile, plan: Path, *, own: bool = False) -> None:
    """Raise RuleError if the owner of a node does not allow a plan file.

    Parameters
    ----------
    own
        Whether it is a plan of the node's own, whose feature maps the owner has chosen.
    """
    for name in () if own else own_classes(file.features):
        if name not in policy.maps:
            raise RuleError(
                "policy",
                f"the plan names the feature map {name[:80]!r}, which is not in maps of this "
                "node's policy.toml",
            )
    known = file.fingerprint in policy.plans
    signed = bool(policy.signer) and is_signed(plan, file.fingerprint, policy.signer)
    if (policy.plans or policy.signer) and not (known or signed):
        raise RuleError(
            "policy",
            f"the plan {file.fingerprint} is not in plans of this node's policy.toml, and its "
            "signer has not signed it",
        )
    if policy.algorithms and file.algorithm not in policy.algorithms:
        raise RuleError(
            "policy",
            f"the plan's algorithm is {file.algorithm[:80]!r}, algorithms in this node's "
            f"policy.toml has {', '.join(policy.algorithms)}",
        )
    origin = file.origin
    if isinstance(origin, Files):
        columns = ("inputs", "label", "target", "time", "recording")
        differs = policy.data.differs({name: getattr(origin, name) for name in columns})
        if differs:
            raise RuleError("policy", f"the plan has {differs}; they are read in no other way")


def check_rows(
    policy: Policy, plan: AnyPlan, workflow: Workflow, known: StageInputs, data: Iterable[Recording]
) -> None:
    """Raise RuleError if an upload would be made of fewer rows than the owner of a node allows.

    For uploads that do not say themselves how many rows they have. A client of secure aggregation
    gives its share of the sum's rows, one of the plan's `min_clients`.
    """
    n_features = max((one.n_features for one in known.maps), default=0)
    washout = max((one.washout for one in known.maps), default=0)
    prepared = data if known.preprocessing is None else known.preprocessing.stream(data)
    n_rows = sum(max(len(one.u) - washout, 0) if workflow.per_step else 1 for one in prepared)
    mask = plan.masking
    n_clients = mask.min_clients if isinstance(mask, SecureAggregation) else 1
    least = policy.rows_per_feature * n_features / n_clients
    if n_rows < least:
        raise RuleError(
            "policy",
            f"too few rows for {n_features} features; with rows_per_feature = "
            f"{policy.rows_per_feature:g} in this node's policy.toml it sends {least:.0f} or more",
        )


@dataclass(frozen=True, eq=False)
class ModelGuard:
    """A place for models that keeps, and gives to be scored, only those that the plan makes.

    Parameters
    ----------
    place
        Where they are kept.
    workflow, known
        What was agreed to, and what came with the request.
    algorithm
        Name of what learns.
    memory
        What the client remembers: which maps and which preparation it trained with.
    use
        Feature maps of one's own that a model may have.
    """

    place: Place
    workflow: Workflow
    known: StageInputs
    algorithm: str
    memory: Memory
    use: tuple[type, ...] = ()

    def keep(self, content: bytes, about: Mapping[str, str]) -> None:
        if sha256_of(content) == self.known.model:
            with building_only(self._allows):
                self.check(load(content, use=self.use))
        self.place.keep(content, about)

    def _allows(self, parts: Message) -> bool:
        """Return whether a map may be built: one of the plan's, or no larger than these."""
        if self.algorithm not in OWN_MAPS:
            return self.workflow.describes(parts)
        recipe = parts.facts.get("recipe")
        largest = max((getattr(one, "units", 0) for one in self.workflow.maps), key=_sum, default=0)
        return recipe is None or _sum(Reservoir.from_json(str(recipe)).units) <= _sum(largest)

    def model(self, sha256: str) -> Predictor:
        found = self.place.model(sha256)
        self.check(found)
        return found

    def check(self, model: Predictor) -> None:
        """Raise IntegrityError if a model is not one that the plan makes."""
        workflow, preprocessing = self.workflow, self.known.preprocessing
        trained = trained_with(self.memory, workflow)
        if preprocessing is None or model.preprocessing.fingerprint != preprocessing.fingerprint:
            raise _foreign("prepares recordings otherwise")
        if trained and trained["prepare"] != [preprocessing.fingerprint]:
            raise _foreign("prepares recordings otherwise than in the training")
        if model.classes != workflow.classes:
            raise _foreign("has other outputs")
        if model.per_step != workflow.per_step:
            raise _foreign("gives rows for other steps")
        names = None if isinstance(workflow.channels, int) else workflow.channels
        if model.channels not in (None, names):
            raise _foreign("takes other channels")
        maps = list(maps_in(model))
        if self.algorithm in OWN_MAPS:
            washouts = {getattr(one, "washout", 0) for one in workflow.maps}
            if any(one.washout not in washouts for one in maps):
                raise _foreign("leaves out other steps")
            return
        if not maps or not all(workflow.describes(one.parts()) for one in maps):
            raise _foreign("has another feature map")
        if trained and not {one.fingerprint for one in maps} <= set(trained["maps"]):
            raise _foreign("has another feature map than the training")


def _sum(units: int | tuple[int, ...]) -> int:
    return units if isinstance(units, int) else sum(units)


def _foreign(what: str) -> IntegrityError:
    return IntegrityError(f"the model {what}: it is not one that the plan makes, nothing was done")


def maps_in(value: object, depth: int = 6) -> Iterator[FeatureMap]:
    """Yield the feature maps of a predictor, wherever it holds them."""
    if isinstance(value, FeatureMap):
        yield value
    elif depth and isinstance(value, Mapping):
        for one in value.values():
            yield from maps_in(one, depth - 1)
    elif depth and isinstance(value, tuple | list):
        for one in value:
            yield from maps_in(one, depth - 1)
    elif depth and is_dataclass(value) and not isinstance(value, type):
        for field in fields(value):
            yield from maps_in(getattr(value, field.name), depth - 1)


def remember_training(memory: Memory, workflow: Workflow, known: StageInputs) -> None:
    """Note the maps and the preparation of a training that this client takes part in."""
    if known.preprocessing is None:
        return
    noted = {
        "maps": [one.fingerprint for one in known.maps],
        "prepare": [known.preprocessing.fingerprint],
    }
    memory[_trained(workflow)] = json.dumps(noted).encode()


def trained_with(memory: Memory, workflow: Workflow) -> dict[str, list[str]]:
    """Return what was noted of the client's last training by a plan; nothing if there was none."""
    found: dict[str, list[str]] = json.loads(memory.get(_trained(workflow), b"{}"))
    return found


def _trained(workflow: Workflow) -> str:
    return f"trained/{workflow.fingerprint}"


# Errors whose words are about the plan, the request or the owner's rules, and never about values.
TOLD = (RuleError, BudgetError, IntegrityError, DeviceError)


@dataclass(frozen=True, eq=False)
class Misfits:
    """What a node tells a server of a plan that its data do not fit: that they do not.

    Even that is an answer to a question that the server chose (does a value occur twice, is there
    another label), so there are few of them: plans that did not fit are remembered.
    """

    policy: Policy
    memory: Memory
    plan: str

    def check(self) -> None:
        """Raise ValueError, before anything is read, if as many plans as allowed did not fit."""
        known = self._known()
        if self.plan not in known and len(known) >= self.policy.misfits:
            log.error(
                "%d plans did not fit this node's data; if the server may ask more of such "
                "questions, raise misfits in policy.toml",
                len(known),
            )
            raise misfit()

    def __call__(self, error: Exception) -> Exception:
        """Return what the server is told of an error; the node's own log has all of it."""
        if isinstance(error, TOLD):
            return error
        log.error("this node's data do not fit the plan: %s: %s", type(error).__name__, error)
        self.memory[MISFITS] = json.dumps(sorted({*self._known(), self.plan})).encode()
        return misfit()

    def _known(self) -> list[str]:
        found: list[str] = json.loads(self.memory.get(MISFITS, b"[]"))
        return found


def misfit() -> ValueError:
    """Return what a server is told of data that do not fit: the words may quote none of them."""
    return ValueError("this node's data do not fit the plan; the log of the node says why")


@dataclass(frozen=True, eq=False)
class ScoreGuard:
    """A client's rules for scores: enough rows, and few models of a plan, which it remembers."""

    policy: Policy
    workflow: str
    memory: Memory

    def __call__(self, model: str, score: Score) -> None:
        """Raise RuleError if a score must not leave; else note, where it lasts, that it does."""
        n = score.errors.n
        if n < self.policy.score_rows:
            raise RuleError(
                "policy",
                "a score of so few rows would tell of these rows; with score_rows = "
                f"{self.policy.score_rows} in this node's policy.toml it sends none",
            )
        # Whoever may send any plan has as many as it likes: with other washouts, or another seed.
        pinned = self.policy.plans or self.policy.signer
        key = f"scored/{self.workflow}" if pinned else "scored"
        known: dict[str, str] = json.loads(self.memory.get(key, b"{}"))
        # Under the model and what it said: the same answer once more tells nothing new.
        made = sha256_of(f"{model} {sha256_of(score.parts().to_bytes())}".encode())
        if made in known:
            return
        if len(known) >= self.policy.evaluations:
            raise RuleError(
                "policy",
                f"this client has scored {len(known)} models, evaluations in its "
                f"policy.toml is {self.policy.evaluations}; the difference of two scores can tell "
                "of single rows",
            )
        self.memory[key] = json.dumps({**known, made: model}).encode()


def guarded(plan: AnyPlan, policy: Policy, workflow: Workflow, memory: Memory) -> AnyPlan:
    """Return the plan of a stage with the node's rules for scores; its fingerprint is the same."""
    algorithm = plan.algorithm
    if not isinstance(algorithm, Evaluation):
        return plan
    rule = ScoreGuard(policy, workflow.fingerprint, memory)
    return replace(plan, algorithm=replace(algorithm, rule=rule))


def check_noise(stage: str, workflow: Workflow, *, trains: bool) -> None:
    """Raise RuleError for exact scores of a client whose training was under noise."""
    noisy = any(isinstance(one, GaussianNoise) for one in workflow.protections)
    if stage == EVALUATION and noisy and trains:
        raise RuleError(
            "policy",
            "the plan has noise, and this client trained under it; its scores would leave without "
            "any: test other clients, or leave out the test",
        )
