"""A plan file run into its folder, wherever its clients are.

    scaling -> plasticity -> training -> calibration -> delivery -> evaluation

Every stage is a plan of its own in the one loop, kept in the run's folder as it goes. What differs
between one process, Flower and its simulation is only who carries the messages: its `Engines`. What
only somebody with all data could say, baselines and a forecast, is added where all clients are in
this process.
"""

from __future__ import annotations

import datetime
import json
import logging
import os
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import astuple, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from catchment.engine.local import data_of
from catchment.errors import BudgetError, CatchmentError, FederationError, TooFewClientsError
from catchment.features.base import FeatureMap, label_of
from catchment.federation.learn.ridge_state import RidgeState
from catchment.federation.loop import EVERY, Result, model_of
from catchment.federation.measure.baselines import Outcome, Row
from catchment.federation.measure.calibration import Calibration, without_each
from catchment.federation.measure.evaluation import Scores
from catchment.federation.plan import Plan
from catchment.federation.protection import Protection
from catchment.federation.runs.drawn import draw
from catchment.federation.runs.folder import (
    CHARGED,
    DATABASE,
    MODEL,
    PLAN,
    RunFolder,
    is_begun,
    remove_run,
    write_results,
)
from catchment.federation.runs.read import map_facts, map_sentence
from catchment.federation.workflow import (
    CALIBRATION,
    DELIVERY,
    EVALUATION,
    AnyPlan,
    Delivery,
    Engines,
    InMemory,
    Known,
    Workflow,
    sha256_of,
)
from catchment.plans.data import About, Clients, PlanData
from catchment.plans.file import PlanFile
from catchment.plans.plan_file import FIRST, Week
from catchment.privacy.dp.noise import GaussianNoise
from catchment.readout.answers import output_names
from catchment.readout.intervals import error_edges
from catchment.readout.model import Model
from catchment.readout.predictor import Predictor
from catchment.readout.storage import to_bytes

Watch = Callable[[str, int, int, int], None]

log = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class Done:
    """What came of a plan's stages."""

    known: Known
    plan: AnyPlan
    result: Result[Any, Any]
    model: Predictor
    scores: Scores

    @property
    def features(self) -> FeatureMap:
        """The map of the model, or the first one of the plan where what was trained has none."""
        one = model_of(self.model)
        return self.known.maps[0] if one is None else one.features


@dataclass(frozen=True, eq=False)
class PlanRun:
    """The run of a plan file into one folder.

    Parameters
    ----------
    file, workflow
        What is run, as it is written and as stages.
    about
        What is known of the data.
    engines
        Where the clients are.
    store
        The run's folder.
    tested
        Makes the scores where no clients are kept for a test.
    known
        By client: what its data are known by in the ledger of what noise costs, where all clients
        are in this process.
    week
        How often the run has gone on with what is new, this time included.
    """

    file: PlanFile
    workflow: Workflow
    about: About
    engines: Engines
    store: RunFolder
    tested: Callable[[], Scores] | None = None
    known: Mapping[str, Sequence[str]] = field(default_factory=dict)
    week: Week | None = None

    def __post_init__(self) -> None:
        had = {} if self.week is None else self.week.rounds
        bound = replace(self.engines, settled=self._charged, had=had)
        object.__setattr__(self, "engines", bound)

    def run(self) -> Done:
        """Run all stages, or what is left of them, and keep what came of them."""
        if "started" not in self.store.facts():
            title = self.file.title or f"{self.file.algorithm} on {self.file.source}"
            # From here to the plan's files, so that they are found again wherever both are moved.
            base = os.path.relpath(self.file.base.resolve(), self.store.folder.resolve())
            first = {"started": now(), "title": title, "base": base}
            self.store.write_facts(first | self._planned)
        on_new = None if self.week is None else self._on_new(self.week)
        known, result = self.workflow.run(self.engines, self.store)
        model = self._with_intervals(result, known).read_from(dict(self.about.columns))
        self.store.save_model(model)
        content = to_bytes(model)
        after = replace(known, maps=(), model=sha256_of(content))
        self._deliver(after, InMemory(content, model))
        if on_new is not None:
            scores = on_new
        else:
            scores = self.tested() if self.tested else self._scores(after, InMemory(content, model))
        done = Done(known, result.plan, result, model, scores)
        self._keep(done)
        return done

    def _with_intervals(self, result: Result[Any, Any], known: Known) -> Predictor:
        """Return what was trained, with intervals if the plan asks for them."""
        model, settings = result.predictor, self.file.run
        if not settings.intervals:
            return model
        if not isinstance(model, Model) or not isinstance(result.state, RidgeState):
            raise FederationError(
                "the training kept no statistics of each client, from which intervals are made; "
                "leave intervals out of [run], and call catchment.calibrate"
            )
        algorithm = Calibration(
            model=model,
            edges=tuple(error_edges(model.deviation).tolist()),
            cuts=settings.bands,
            left_out=without_each(result.state),
        )
        plan = Plan(algorithm=algorithm, limits=settings.limits)
        counted = self.engines.run(CALIBRATION, plan, known, self.store)
        return replace(model, intervals=counted.result)

    @property
    def _planned(self) -> dict[str, str]:
        """What is known of a run before it begins, for whoever watches it."""
        left_out = EVALUATION if self.tested else ""
        stages = [stage for stage in self.workflow.stages if stage != left_out]
        return {
            "algorithm": self.file.algorithm,
            "source": self.file.source,
            "engine": self.engines.name,
            "stages": json.dumps(stages),
        }

    def _charged(self, plan: AnyPlan) -> AnyPlan:
        """Return the plan with its ledger told of this run, which is charged once."""
        if not any(isinstance(one, GaussianNoise) and one.budget for one in plan.protections):
            return plan
        if CHARGED not in self.store.facts():
            self.store.write_facts({CHARGED: secrets.token_hex(16)})
        # With the place: of two copies of a folder that go on, each makes a release.
        run = f"{self.store.facts()[CHARGED]} {self.store.folder.resolve()}"
        protections: list[Protection] = []
        for one in plan.protections:
            if isinstance(one, GaussianNoise) and one.budget is not None:
                known = self.known or one.budget.known
                one = replace(one, budget=replace(one.budget, run=run, known=known))
            protections.append(one)
        return replace(plan, protections=tuple(protections))

    def _deliver(self, known: Known, place: InMemory) -> None:
        started = self.store.facts()["started"]
        about = {"plan": known.course, "run": f"{self.store.folder.name} {started}"}
        algorithm = Delivery(sha256=known.model, place=place, content=place.content, about=about)
        try:
            self.engines.run(DELIVERY, Plan(algorithm=algorithm), known, self.store)
        except TooFewClientsError as error:
            log.warning("the model is not delivered: %s", error)
            self.store.write_facts({"undelivered": str(error)})

    def _on_new(self, week: Week) -> Scores:
        """Return how the model of the time before does on what is new since."""
        if week.earlier is None:
            self.store.write_facts({"untested": FIRST})
            return Scores()
        content = to_bytes(week.earlier)
        known = Known(course=self.workflow.fingerprint, model=sha256_of(content))
        return self._scores(known, InMemory(content, week.earlier))

    def _scores(self, known: Known, place: InMemory) -> Scores:
        """Return how the model does; with too few clients for a test, nothing, and it says why."""
        try:
            plan = self.workflow.plan(EVALUATION, known, place)
            result = self.engines.run(EVALUATION, plan, known, self.store)
        except TooFewClientsError as error:
            log.warning("the model is not tested: %s", error)
            self.store.write_facts({"untested": str(error)})
            return Scores()
        scores: Scores = result.result
        return scores

    def _keep(self, done: Done) -> None:
        kept = done.plan.algorithm.kept(done.result.state)
        write_results(self.store, kept, done.scores, self.about.classes)
        facts = self._facts(done)
        self.store.write_facts(facts)
        if map_sentence(facts):
            log.info("%s", map_sentence(facts))
        log.info("model: %s, SHA-256 %s", (self.store.folder / MODEL).resolve(), self._sha256)

    @property
    def _sha256(self) -> str:
        return sha256_of((self.store.folder / MODEL).read_bytes())

    def _facts(self, done: Done) -> dict[str, str]:
        features, last = done.features, done.result.records[-1]
        units = features.reservoir and features.reservoir.n_units
        facts = self._planned | {
            "own_row": label(self.file),
            "classes": json.dumps(self.about.classes),
            "channels": json.dumps(self.about.channels),
            "train_clients": str(last.n_asked),
            "test_clients": str(len(done.scores.by_client)) if done.scores.by_client else "",
            "map": self.file.map_name,
            "map_label": label_of(features),
            "units": "" if units is None else str(units),
            "n_features": str(features.n_features),
            "features_fingerprint": features.fingerprint,
            "plan_fingerprint": done.plan.fingerprint(),
            "course": done.known.course,
            "scaling": str(self.file.prepare.settings()["scale"]),
            "upload": self.workflow.upload(done.known),
        }
        facts |= map_facts(done.plan.algorithm.kept(done.result.state), self._map_note)
        return {name: value for name, value in facts.items() if value}

    @property
    def _map_note(self) -> str:
        """Why "auto" chose no map, if that is so."""
        flow = self.workflow
        alone = len(flow.maps) == 1 and self.file.map_name == "auto"
        return self.file.offered(flow.n_inputs, flow.per_step, 1).note if alone else ""

    def finish(self, rows: Iterable[Row]) -> None:
        """Keep the rows of the comparison, and that the run is over."""
        if "finished" in self.store.facts():
            return
        numbered = [(k, *astuple(row)) for k, row in enumerate(rows)]
        self.store.insert("comparison", numbered, replace=True)
        self.store.write_facts({"finished": now(), "model_sha256": self._sha256})


@contextmanager
def opened(
    file: PlanFile,
    folder: str | Path,
    *,
    resume: bool = False,
    force: bool = False,
    keep_every: float = EVERY,
) -> Iterator[RunFolder]:
    """Open a run's folder; a run that fails before its training leaves nothing behind.

    One that was charged for its noise is kept, and the error says so: taken up again, it is not
    charged twice.

    Parameters
    ----------
    force
        Whether to replace a run that is there.
    keep_every
        Seconds after which the sum of a round under way is kept again.
    """
    place = Path(folder)
    if (place / PLAN).is_file() and not (place / DATABASE).is_file():
        raise ValueError(
            f"{place / PLAN} is a plan and not a run's copy of one; choose another folder for the "
            "run, such as --out runs/plan"
        )
    if force or (not resume and not is_begun(folder)):
        remove_run(folder)
    # One that is moved is another to its budget, and nothing is lost if it is moved back.
    found = is_begun(folder)
    try:
        with RunFolder(
            folder,
            fingerprint=file.fingerprint,
            plan=file.text,
            resume=resume,
            keep_every=keep_every,
        ) as store:
            yield store
    except BudgetError:
        if not found and not is_begun(folder, or_charged=False):
            remove_run(folder)  # it was not charged
        raise
    except Exception as error:
        if not is_begun(folder):
            remove_run(folder)
        elif not is_begun(folder, or_charged=False):
            error.add_note(
                f"the run is kept in {folder}, because its noise may be charged to the budget by "
                "now; go on with it (--resume), which is not charged again"
            )
        raise


def own_rows(file: PlanFile, done: Done) -> list[Row]:
    """Return the plan's own row of the comparison; none if its model was not tested."""
    if done.scores.total is None:
        return []
    seconds = sum(record.seconds for record in done.result.records)
    return [Row.of(label(file), Outcome(done.scores, done.result.records), seconds)]


def label(file: PlanFile) -> str:
    """Return what the plan's own row is called."""
    changed = any(table.get("name") != "secure_sum" for table in file.protect)
    return "exact federated" if file.algorithm == "ridge" and not changed else file.algorithm


def with_own(beside: Iterable[Row], own: list[Row]) -> list[Row]:
    """Return the rows with one's own before what takes more than a federation gives."""
    rows = list(beside)
    after = [row for row in rows if row.name in ("centralised", "personalised")]
    return [*(row for row in rows if row not in after), *own, *after]


def now() -> str:
    """Return the time, as run folders keep it."""
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")


SHOWN_STEPS = 300


def write_forecast(store: RunFolder, model: Predictor, scores: Scores, held: PlanData) -> None:
    """Keep a stretch of the worst test client's targets and predictions, to be drawn.

    The data are in this process; where clients are elsewhere this would stay with them. These
    targets are as they are: a client that trains under noise is none of those that are tested.
    """
    if model.classes is not None or not model.per_step or not scores.by_client:
        return
    client, _ = scores.worst()
    if client not in held.test:
        return
    first = model.prepare.apply(list(data_of(held.test[client])()))[0]
    assert first.y is not None
    y, guessed = first.y[model.washout :], model.outputs_of([first], client)[0]
    known = ~np.isnan(y).any(axis=1)
    y, guessed = y[known], guessed[known]
    store.insert(
        "forecast",
        [
            (client, step, name, float(y[step, k]), float(guessed[step, k]))
            for step in range(min(SHOWN_STEPS, len(y)))
            for k, name in enumerate(output_names(model))
        ],
        replace=True,
    )


def write_drawn(
    store: RunFolder,
    model_of: Callable[[str], Predictor],
    scores: Scores,
    tested: Clients,
    channels: Sequence[str],
) -> None:
    """Keep some signals of the test clients served best and worst, with what was predicted.

    They are raw, which is more than any client sent. A plan that hides its clients keeps none.
    What goes wrong here is told and does not end a run that is done.

    Parameters
    ----------
    model_of
        The model that a client was tested with, which has not seen what it is tested on.
    tested
        What the clients were tested on.
    channels
        What the channels are called.
    """
    drawn = []
    for name in dict.fromkeys(best_and_worst(scores)):
        if name not in tested:
            continue
        try:
            recordings = list(data_of(tested[name])())
            drawn.append(draw(model_of(name), recordings, name, channels=channels).to_dict())
        except (CatchmentError, ValueError, ArithmeticError) as error:
            log.info("signals of %s are not drawn: %s", name, error)
    store.write_facts({"drawn": json.dumps(drawn)})


def best_and_worst(scores: Scores) -> tuple[str, ...]:
    """Return the clients with the best and the worst score; nobody where no score is defined.

    >>> best_and_worst(Scores())
    ()
    """
    values = {name: one.value for name, one in sorted(scores.by_client.items())}
    known = [name for name, value in values.items() if not np.isnan(value)]
    if not known:
        return ()
    ends = min(known, key=values.__getitem__), max(known, key=values.__getitem__)
    more_is_better = any(one.counts is not None for one in scores.by_client.values())
    return ends[::-1] if more_is_better else ends
