"""What server and nodes agree on at each stage of a plan file: scaling, plasticity, training, test.

The server tells the nodes, with every letter, what came of the stages before: the scaler, the
gains and shifts and, for the evaluation, the model. Both sides make the same plan of it and compare
its fingerprint.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from catchment.arrays import Array
from catchment.data.scaling import Scaler
from catchment.errors import IntegrityError
from catchment.federation.measure.evaluation import Evaluation
from catchment.federation.plan import Plan
from catchment.plans.conductor import exact, plasticity_plan, scaling_plan
from catchment.plans.file import PlanFile
from catchment.plans.sources import Table
from catchment.privacy.in_the_clear import networked
from catchment.readout.model import Model
from catchment.readout.storage import load_model
from catchment.wire import Parts, join, split

SCALING, PLASTICITY, TRAINING, EVALUATION = "scaling", "plasticity", "training", "evaluation"


@dataclass(frozen=True, eq=False)
class Told:
    """What nodes are told with every letter: which plan is run, and what came of it so far."""

    plan: str = ""  # fingerprint, as it was agreed on before the first stage
    scaler: Scaler | None = None
    plasticity: tuple[Array, Array] | None = None  # gains (N,) and shifts (N,)
    model: bytes = b""

    def to_bytes(self) -> bytes:
        """Return it as it goes with letters.

        >>> Told.from_bytes(Told(model=b"file").to_bytes()).model
        b'file'
        """
        named = {"plan": Parts("plan", {"fingerprint": self.plan})}
        if self.scaler is not None:
            named["scaler"] = Parts("scaler", {}, (self.scaler.mean, self.scaler.scale))
        if self.plasticity is not None:
            named["plasticity"] = Parts("plasticity", {}, self.plasticity)
        if self.model:
            named["model"] = Parts("file", {}, (np.frombuffer(self.model, dtype=np.uint8),))
        return join("told", named).to_bytes()

    @classmethod
    def from_bytes(cls, message: bytes) -> Told:
        """Return what came with a letter; IntegrityError if it is malformed."""
        named = split(Parts.from_bytes(message), "told")
        if "plan" not in named:
            raise IntegrityError("the server does not say which plan it runs")
        plan, scaler = str(named["plan"].facts.get("fingerprint")), None
        if "scaler" in named:
            scaler = Scaler(*named["scaler"].expect("scaler", 2).arrays)
        plasticity = None
        if "plasticity" in named:
            gain, shift = named["plasticity"].expect("plasticity", 2).arrays
            plasticity = gain, shift
        model = named["model"].expect("file", 1).arrays[0].tobytes() if "model" in named else b""
        return cls(plan, scaler, plasticity, model)

    @cached_property
    def loaded(self) -> Model:
        """The model."""
        if not self.model:
            raise IntegrityError("the server sends no model to be tested")
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "model.safetensors"
            path.write_bytes(self.model)
            return load_model(path)


@dataclass(frozen=True, eq=False)
class Agreement:
    """A plan file and what else both sides know: channels, classes, and the clients' public keys.

    Parameters
    ----------
    allow_plain_statistics
        Whether statistics may leave clients without a secure sum.
    simulated
        Whether all clients are in one place, so that nothing leaves anyone.
    """

    file: PlanFile
    channels: tuple[str, ...]
    classes: tuple[str, ...] | None
    identities: Mapping[str, str] = field(default_factory=dict)
    allow_plain_statistics: bool = False
    simulated: bool = False

    @cached_property
    def training(self) -> Plan[Any, Any, Any]:
        """The plan itself, before anything is asked of the network."""
        return self.file.build(len(self.channels), self.classes, self.identities)

    def plan(self, stage: str, told: Told) -> Plan[Any, Any, Any]:
        """Return the plan of a stage as it may be run; IntegrityError if another one was agreed."""
        # Two plans may differ in what comes later, and agree on this stage.
        if told.plan != self.training.fingerprint():
            raise IntegrityError("the server runs another plan than this client agreed to")
        if stage == SCALING:
            plan = scaling_plan(len(self.channels), self.training)
        elif stage == PLASTICITY and self.file.plasticity:
            plan = plasticity_plan(self.file, len(self.channels), self.training)
        elif stage == TRAINING:
            plan = self._adapted(told)
        elif stage == EVALUATION:
            plan = self._evaluation(told)
        else:
            raise IntegrityError(f"the plan has no stage {stage[:40]!r}")
        if self.simulated:
            return plan
        return networked(plan, allow_plain_statistics=self.allow_plain_statistics)

    def _adapted(self, told: Told) -> Plan[Any, Any, Any]:
        if not self.file.plasticity:
            return self.training
        if told.plasticity is None:
            raise IntegrityError("the server sends no gains and shifts for the plan's plasticity")
        about = len(self.channels), self.classes, self.identities
        return self.file.build(*about, told.plasticity)

    def _evaluation(self, told: Told) -> Plan[Any, Any, Any]:
        masking = self.training.masking
        algorithm = Evaluation(model_under_test=told.loaded, keep_clients=masking is None)
        return Plan(algorithm=algorithm, protections=(exact(masking),) if masking else ())


def agreement(
    file: PlanFile,
    *,
    identities: str | Path | None = None,
    allow_plain_statistics: bool = False,
) -> Agreement:
    """Return what is agreed on by a plan file.

    Parameters
    ----------
    identities
        File with the clients' public keys, a JSON object; needed by a secure sum.
    """
    known: Mapping[str, str] = {}
    if file.is_secret:
        if identities is None:
            raise ValueError(
                "the plan has a secure sum, and no file of public keys is named; pass identities"
            )
        known = read_identities(identities)
    about = description(file)
    return Agreement(file, *about, known, allow_plain_statistics)


def description(file: PlanFile) -> tuple[tuple[str, ...], tuple[str, ...] | None]:
    """Return the channels and the classes of a plan's data, reading no files of one's own data.

    >>> from catchment.plans.examples import example_plan
    >>> from catchment.plans.file import parse_plan
    >>> description(parse_plan(example_plan("own_files")))
    (('load', 'temperature'), None)
    """
    if isinstance(file.origin, Table):
        return file.origin.inputs, file.origin.classes
    found = file.origin.load(file.sharing.seed, None, file.base)
    return found.channels, found.classes


def read_identities(path: str | Path) -> dict[str, str]:
    """Return the public keys of clients by name, from a JSON file.

    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "identities.json"
    ...     _ = path.write_text('{"ann": "00"}')
    ...     read_identities(path)
    {'ann': '00'}
    """
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"there is no file of public keys {path}; check the path")
    try:
        known = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{path} is not JSON: {error}") from error
    if not isinstance(known, dict) or not all(isinstance(key, str) for key in known.values()):
        raise ValueError(f"{path} is not an object of names and keys; make it again")
    return known
