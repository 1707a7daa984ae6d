"""What server and nodes of a plan file agree on before they talk.

Both sides read the plan and the clients' public keys. What the stages before have found travels in
every request; a node compares it with its own plan, and makes the plan of the stage from it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from catchment.federation import DELIVERY, AnyPlan, Place, Request, StageInputs, Workflow
from catchment.plans import About, PlanFile, own_kinds, refuse_weeks
from catchment.privacy import SecureAggregation, networked


@dataclass(frozen=True, eq=False)
class Agreement:
    """A plan file, what is known of the data, and the clients' public keys.

    Parameters
    ----------
    allow_plain_statistics
        Whether statistics may leave clients without secure aggregation.
    simulated
        Whether all clients are in one place, so that nothing leaves anyone.
    n_clients
        How many train, where that is known.
    use
        Feature maps of one's own that requests may name.
    """

    file: PlanFile
    about: About
    identities: Mapping[str, str] = field(default_factory=dict)
    allow_plain_statistics: bool = False
    simulated: bool = False
    n_clients: int | None = None
    use: tuple[type, ...] = ()

    def __post_init__(self) -> None:
        if self.file.run.intervals:
            raise ValueError(
                "intervals in [run] are counted where all clients are in one process; leave them "
                "out, and call catchment.calibrate with clients that did not train"
            )

    @cached_property
    def workflow(self) -> Workflow:
        """The stages, before anything is asked of the network; no map is built."""
        return self.file.workflow(self.about, self.identities, self.n_clients)

    @property
    def fewest(self) -> int:
        """The fewest clients with which a round of the training can end."""
        masking = (
            int(p.min_clients)
            for p in self.workflow.protections
            if isinstance(p, SecureAggregation)
        )
        return max(self.workflow.min_clients, *masking, 1)

    def allowed(self, stage: str, plan: AnyPlan) -> AnyPlan:
        """Return the plan of a stage as it may be run over a network."""
        # Who is given a model answers with its hash, which tells nothing.
        if self.simulated or stage == DELIVERY:
            return plan
        return networked(plan, allow_plain_statistics=self.allow_plain_statistics)

    def known(self, stage: str, raw_request: bytes, name: str) -> StageInputs:
        """Return what a request says is known; IntegrityError if it is of another plan."""
        stage_inputs = Request.from_bytes(raw_request, name).stage_inputs
        return StageInputs.from_message(stage_inputs, self.use, of=self.workflow, stage=stage)

    def plan(self, stage: str, raw_request: bytes, name: str, place: Place) -> AnyPlan:
        """Return the plan that a request asks for; IntegrityError if another one was agreed.

        Parameters
        ----------
        name
            The client's.
        place
            Where the client keeps the model that it is given.
        """
        known = self.known(stage, raw_request, name)
        return self.allowed(stage, self.workflow.plan(stage, known, place))


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
        File with the clients' public keys, a JSON object; needed by secure aggregation.
    """
    known: Mapping[str, str] = {}
    if file.is_secret:
        if identities is None:
            raise ValueError(
                "the plan has secure aggregation, and no file of public keys is named; pass "
                "identities"
            )
        known = read_identities(identities)
    refuse_folds(file)
    refuse_weeks(file)
    use = tuple(own_kinds(file))
    return Agreement(file, file.about(), known, allow_plain_statistics, use=use)


def refuse_folds(file: PlanFile) -> None:
    """Raise ValueError if the plan is one for somebody who holds all data."""
    if file.sharing.test == "folds":
        raise ValueError(
            "folds train a model for each, for which one must hold all data; over a network give "
            "a share, such as test = 0.25 in [data], or run it with --engine local"
        )


def read_identities(path: str | Path) -> dict[str, str]:
    """Return the public keys of clients by name, from a JSON file.

    >>> import tempfile
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
