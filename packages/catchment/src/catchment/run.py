"""What `federate` returns: the model, the records, and what left the clients."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from catchment.errors import FederationError
from catchment.features.base import label_of
from catchment.federation.learn.ridge_state import RidgeState
from catchment.federation.loop import Result
from catchment.federation.messages import Record, Refusal, left_out
from catchment.federation.runs.folder import (
    RunFolder,
    write_results,
)
from catchment.federation.workflow import Known, Maps, Workflow
from catchment.files import replace_file
from catchment.readout.model import Model
from catchment.readout.statistics import RidgeStatistics

if TYPE_CHECKING:
    from catchment.federation.measure.evaluation import Scores

log = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class Run:
    """What came of a federation: the model, the records of every round, and the state behind it.

    `kept` is its ledger (who sent what, how large, with which hash), in memory if `out` named no
    folder.
    """

    workflow: Workflow
    known: Known
    training: Result[Any, Any]
    stages: Mapping[str, tuple[Record, ...]]
    kept: RunFolder
    columns: Mapping[str, str] = field(default_factory=dict)
    map_note: str = ""

    @property
    def folder(self) -> Path | None:
        """Where the run is kept, if `out` named a folder."""
        return None if self.kept.in_memory else self.kept.folder

    @property
    def maps_tried(self) -> Mapping[str, float]:
        """NRMSE on clients left out of every map that was tried, the best first; or nothing."""
        from catchment.federation.runs.read import map_scores

        return map_scores(self._map_facts())

    def _map_facts(self) -> dict[str, str]:
        from catchment.federation.runs.read import map_facts

        return map_facts(self.training.plan.algorithm.kept(self.training.state), self.map_note)

    def log_map(self) -> None:
        """Log which map was chosen, where several were tried."""
        from catchment.federation.runs.read import map_sentence

        said = map_sentence(self._map_facts())
        if said:
            log.info("%s", said)

    @property
    def result(self) -> Any:
        """What the algorithm makes: mostly a `Model`."""
        return self.training.result

    @property
    def model(self) -> Model:
        """The model; FederationError if the algorithm makes no single one."""
        return self.training.model.read_from(self.columns)

    @property
    def records(self) -> tuple[Record, ...]:
        """One record per round of the training: who was asked, who was used, bytes, seconds."""
        return self.training.records

    @property
    def refused(self) -> tuple[Refusal, ...]:
        """The clients that a stage did without, and why."""
        return left_out(self.stages)

    @property
    def upload(self) -> str:
        """In one sentence: what clients sent, and why that."""
        return self.workflow.upload(self.known)

    @property
    def statistics(self) -> RidgeStatistics:
        """The sum of all clients' statistics, as the server has it."""
        state = self.training.state
        if not isinstance(state, RidgeState) or state.total is None:
            raise FederationError(
                f"{type(state).__name__} keeps no sum of statistics; only a ridge does"
            )
        return state.total

    def explain(self, client: str | None = None) -> str:
        """Return in words what left the clients and what can be read from it.

        Parameters
        ----------
        client
            Whose messages are listed with their hashes; none if not given.

        >>> import numpy as np
        >>> from catchment import EchoState, Recording, federate
        >>> u = np.sin(np.arange(300) / 5)
        >>> run = federate(EchoState(20), {"ann": [Recording(u[:-1], u[1:])]})
        >>> print(run.explain())
        What left the clients of 1 client, EchoState
        <BLANKLINE>
        scaling: moments
          1 client sent 1 message of 12 numbers, ...
        """
        from catchment.federation.runs.explain import in_words
        from catchment.federation.runs.read import messages_of, read_run

        folder = self._described()
        listed = [] if client is None else messages_of(folder, client)
        if client is not None and not listed:
            raise ValueError(f"{client!r} sent nothing; name a client of the run")
        return in_words(read_run(folder), listed)

    def report(self, path: str | Path, scores: Scores | None = None) -> Path:
        """Write the run as one HTML file that works offline, and return its path.

        Parameters
        ----------
        scores
            What `evaluate` found, to be shown too.
        """
        from catchment.federation.runs.read import read_run
        from catchment.report.html import render

        replace_file(Path(path), render([read_run(self._described(scores))]).encode())
        return Path(path)

    @property
    def _features(self) -> Maps:
        """The map of the model, or those of the workflow where what was learned has none."""
        result = self.training.result
        return (result.features,) if isinstance(result, Model) else self.known.maps

    def _described(self, scores: Scores | None = None) -> RunFolder:
        """Return what is kept of the run and what a report shows beside, with scores if given."""
        if scores is None and not self.kept.in_memory:
            return self.kept
        with self.kept.copied() as copy:
            self.describe_in(copy, scores)
        return copy

    def describe_in(self, store: RunFolder, scores: Scores | None = None) -> None:
        """Keep the facts and tables that a report shows beside the messages."""
        plan, classes = self.training.plan, self.workflow.classes
        write_results(store, plan.algorithm.kept(self.training.state), scores, classes)
        n_clients = max((record.n_used for record in self.records), default=0)
        described = ", ".join(type(one).__name__ for one in self.workflow.maps)
        facts = {
            "title": f"{n_clients} client{'' if n_clients == 1 else 's'}, {described}",
            "algorithm": type(plan.algorithm).__name__,
            "source": "recordings in Python",
            "classes": json.dumps(classes),
            "train_clients": str(n_clients),
            "test_clients": str(len(scores.by_client) if scores else 0),
            "plan_fingerprint": plan.fingerprint(),
            "finished": "yes",
            "upload": self.upload,
            "map_label": ", ".join({label_of(one) for one in self._features}),
        } | self._map_facts()
        store.write_facts(facts)
