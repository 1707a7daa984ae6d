"""A plan file run into its folder, wherever its clients are.

    scaling -> plasticity -> training -> calibration -> delivery -> evaluation

Every stage is a plan of its own in the one loop, kept in the run's folder as it goes. What differs
between one process, Flower and its simulation is only who carries the messages: its `Engines`.

What only somebody with all data could say is added where all clients are in this process, and is
not part of the run's ledger: how the client served worst fares, baselines on data that are prepared
as the plan's are, and a score by folds over clients. By folds everyone
trains, and everyone is tested by a model without them: for each fold all stages up to the training
are run on the others, summed in the clear whatever protects the training itself.

With increments = "new" in [learn] a finished run is not over: taken up again (`--resume`) in the
same folder, every client hands in what is new since then. What is new is predicted by the model of
the time before, first, so that every recording is tested on once, and by a model that has not seen
it. Clients keep what they carry in the run's folder, where all are in this process.
"""

from __future__ import annotations

import datetime
import json
import logging
import os
import secrets
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import astuple, dataclass, field, replace
from functools import partial, reduce
from operator import add
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np

from catchment.data.preprocessing import RAW
from catchment.data.recording import Recording
from catchment.data.synthetic import seeded_generator
from catchment.engine.contenders import (
    Contender,
    centralized,
    compare,
    local_only,
    season_of_clients,
)
from catchment.engine.local import LocalClients, Workers, data_of, run_locally
from catchment.errors import BudgetError, TooFewClientsError
from catchment.features.recipes import FeatureMap, label_of
from catchment.federation.algorithm import Memory
from catchment.federation.checks import Limits
from catchment.federation.client import Elsewhere, devices_of
from catchment.federation.increments import unread
from catchment.federation.learn.own_readouts import ReadoutAveraging
from catchment.federation.loop import Result, model_of
from catchment.federation.measure.baselines import (
    Dummy,
    Outcome,
    Row,
    adapted_row,
    autoregression,
    constant_baseline,
    with_sums,
)
from catchment.federation.measure.evaluation import (
    Calibration,
    Evaluation,
    Score,
    Scores,
    readouts_without_each,
)
from catchment.federation.plan import Plan
from catchment.federation.runs.folder import (
    CHARGED,
    CLIENTS,
    DATABASE,
    EARLIER,
    JOURNAL,
    MODEL,
    PLAN,
    PRIVATE,
    RunFolder,
    is_begun,
    records_of,
    remove_run,
    write_results,
)
from catchment.federation.runs.ledger import map_facts, map_sentence
from catchment.federation.runs.read import Fold, Run, folds_fact, read_run, reported
from catchment.federation.workflow import (
    CALIBRATION,
    DELIVERY,
    EVALUATION,
    TRAINING,
    AnyPlan,
    Delivery,
    Engines,
    InMemory,
    StageInputs,
    Workflow,
    sha256_of,
)
from catchment.plans.data import FOLDS, About, Clients, PlanData
from catchment.plans.file import NORMAL_PLAN, PlanFile, check_adapting, own_kinds
from catchment.plugins import installed, plugin
from catchment.privacy.dp.budget import data_keys
from catchment.privacy.dp.noise import GaussianNoise
from catchment.privacy.secure_aggregation.client_store import FileMemory
from catchment.privacy.secure_aggregation.server_journal import Journal
from catchment.readout.adapt import described
from catchment.readout.intervals import error_edges
from catchment.readout.model import Model, PersonalModels
from catchment.readout.predictor import Predictor
from catchment.readout.storage import load, to_bytes
from catchment.wire.messages import replace_file

Watch = Callable[[str, int, int, int], None]
ANY = Limits(min_usable=0.0, over_median=1e9)  # a test leaves out whom it cannot test
NOTHING_NEW = "nothing is new since the last time, and the run is as it was"
FIRST = "nothing came before the first time, so that no model could be tested on what is new"
log = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class Done:
    """What came of a plan's stages."""

    known: StageInputs
    result: Result[Any, Any]
    model: Predictor
    scores: Scores

    @property
    def features(self) -> FeatureMap:
        """The map of the model, or the first one of the plan where what was trained has none."""
        one = model_of(self.model)
        return self.known.maps[0] if one is None else one.features


@dataclass(frozen=True, eq=False)
class Week:
    """One time that a run goes on, counted from 1."""

    number: int
    # By client: the recordings that are new, and will be learned from.
    new: Mapping[str, list[Recording]] = field(default_factory=dict)
    earlier: Predictor | None = None  # the model of the time before
    rounds: Mapping[str, int] = field(default_factory=dict)  # by stage: how many it had before
    idle: tuple[str, ...] = ()  # why a finished run does not go on, in a sentence each


@dataclass(frozen=True, eq=False)
class PlanRun:
    """The run of a plan file into one folder."""

    file: PlanFile
    workflow: Workflow
    about: About
    engines: Engines
    store: RunFolder
    tested: Callable[[], Scores] | None = None  # makes the scores where no test clients are kept
    # By client: what its data are known by in the ledger of what noise costs, where all are here.
    known: Mapping[str, Sequence[str]] = field(default_factory=dict)
    week: Week | None = None  # how often the run has gone on with what is new, this time included

    def __post_init__(self) -> None:
        had = {} if self.week is None else self.week.rounds
        object.__setattr__(self, "engines", replace(self.engines, settled=self._charged, had=had))

    def run(self) -> Done:
        """Run all stages, or what is left of them, and keep what came of them."""
        stages = [s for s in self.workflow.stages if self.tested is None or s != EVALUATION]
        planned = {
            "algorithm": self.file.algorithm,
            "source": self.file.source,
            "engine": self.engines.name,
            "stages": json.dumps(stages),
        }
        if "started" not in self.store.facts():
            title = self.file.title or f"{self.file.algorithm} on {self.file.source}"
            # From here to the plan's files, so that they are found again wherever both are moved.
            base = os.path.relpath(self.file.base.resolve(), self.store.folder.resolve())
            self.store.write_facts({"started": _now(), "title": title, "base": base, **planned})
        scores = Scores()
        if self.week is not None and self.week.earlier is None:
            self.store.write_facts({"untested": FIRST})
        elif self.week is not None and self.week.earlier is not None:
            place = InMemory(to_bytes(self.week.earlier), self.week.earlier)
            scores = self._scores(StageInputs(workflow=self.workflow.fingerprint), place)
        known, result = self.workflow.run(self.engines, self.store)
        model = self._with_intervals(result, known).read_from(dict(self.about.columns))
        if self.file.run.adapt:
            model = with_sums(model, result.state)
        self.store.save_model(model)
        after, place = replace(known, maps=()), InMemory(to_bytes(model), model)
        self._deliver(after, place)
        if self.week is None:
            scores = self.tested() if self.tested else self._scores(after, place)
        done = Done(known, result, model, scores)
        kept = result.plan.algorithm.kept(result.state)
        write_results(self.store, kept, scores, self.about.classes)
        flow, note = self.workflow, ""
        if len(flow.maps) == 1 and self.file.map_name == "auto":  # why it chose none
            note = self.file.offered(flow.n_inputs, flow.per_step, 1).note
        facts = planned | self._facts(done) | map_facts(kept, note)
        self.store.write_facts({name: value for name, value in facts.items() if value})
        if map_sentence(facts):
            log.info("%s", map_sentence(facts))
        path = (self.store.folder / MODEL).resolve()
        log.info("model: %s, SHA-256 %s", path, sha256_of(path.read_bytes()))
        return done

    def _with_intervals(self, result: Result[Any, Any], known: StageInputs) -> Predictor:
        """Return what was trained, with intervals if the plan asks for them."""
        settings = self.file.run
        if not settings.intervals:
            return result.predictor
        model = result.model
        algorithm = Calibration(
            model=model,
            edges=tuple(error_edges(model.deviation).tolist()),
            cuts=settings.bands,
            left_out=readouts_without_each(result),
        )
        plan = Plan(algorithm=algorithm, limits=settings.limits)
        counted = self.engines.run(CALIBRATION, plan, known, self.store)
        return replace(model, intervals=counted.result)

    def _charged(self, plan: AnyPlan) -> AnyPlan:
        """Return the plan with its ledger told of this run, which is charged once."""
        protections = list(plan.protections)
        for k, one in enumerate(protections):
            if isinstance(one, GaussianNoise) and one.budget is not None:
                if CHARGED not in self.store.facts():
                    self.store.write_facts({CHARGED: secrets.token_hex(16)})
                # With the place: of two copies of a folder that go on, each makes a release.
                run = f"{self.store.facts()[CHARGED]} {self.store.folder.resolve()}"
                known = self.known or one.budget.known
                protections[k] = replace(one, budget=replace(one.budget, run=run, known=known))
        return replace(plan, protections=tuple(protections))

    def _deliver(self, known: StageInputs, place: InMemory) -> None:
        run = f"{self.store.folder.name} {self.store.facts()['started']}"
        algorithm = Delivery.of(place, plan=known.workflow, run=run)
        known = replace(known, model=algorithm.sha256)
        self._after(DELIVERY, Plan(algorithm=algorithm), known, "delivered")

    def _scores(self, known: StageInputs, place: InMemory) -> Scores:
        """Return how a model does; with too few clients for a test, nothing, and it says why."""
        known = replace(known, model=sha256_of(place.content))
        plan = self.workflow.plan(EVALUATION, known, place)
        return self._after(EVALUATION, plan, known, "tested") or Scores()

    def _after(self, stage: str, plan: AnyPlan, known: StageInputs, what: str) -> Any:
        """Return what a stage after the training gave; None, and it is said, with too few."""
        try:
            return self.engines.run(stage, plan, known, self.store).result
        except TooFewClientsError as error:
            log.warning("the model is not %s: %s", what, error)
            self.store.write_facts({f"un{what}": str(error)})
            return None

    def _facts(self, done: Done) -> dict[str, str]:
        features, n_tested = done.features, len(done.scores.by_client)
        return {
            "own_row": self.file.own_row,
            "classes": json.dumps(self.about.classes),
            "channels": json.dumps(self.about.channels),
            "train_clients": str(done.result.records[-1].n_asked),
            "test_clients": str(n_tested) if n_tested else "",
            "map": self.file.map_name,
            "map_label": label_of(features),
            "units": str(features.reservoir.n_units) if features.reservoir else "",
            "n_features": str(features.n_features),
            "features_fingerprint": features.fingerprint,
            "plan_fingerprint": done.result.plan.fingerprint(),
            "course": done.known.workflow,
            "scaling": str(self.file.preprocessing.settings()["scale"]),
            "upload": self.workflow.upload(done.known),
        }

    def _adapting(self, model: Predictor) -> str:
        """Return what a model carries to adapt with, or that it could; nothing where it cannot."""
        if self.file.run.adapt:
            return described(model) if isinstance(model, Model) else ""
        try:
            check_adapting(self.file, self.about.classes, asked=True)
        except ValueError:
            return ""
        return "to adapt the model to a new person, set adapt = true in [run]"

    def finish(self, done: Done, beside: Iterable[Row] = ()) -> None:
        """Keep the comparison, unless nothing was tested, and that the run is over.

        Of the rows of what was measured beside the plan those come after its own that take more
        than a federation gives.
        """
        if "finished" in self.store.facts():
            return
        rows, records = list(beside), done.result.records
        after = [row for row in rows if row.name == "centralized"]
        rows = [row for row in rows if row not in after]
        adapted = adapted_row(done.scores)
        after += [] if adapted is None else [adapted]
        note = "" if adapted is None else adapted.note
        told = {"adapted": note, "adaptable": self._adapting(done.model)}
        self.store.write_facts({name: value for name, value in told.items() if value})
        if done.scores.total is not None:
            seconds = sum(record.seconds for record in records)
            rows.append(Row.of(self.file.own_row, Outcome(done.scores, records), seconds))
        numbered = [(k, *astuple(row)) for k, row in enumerate([*rows, *after])]
        self.store.insert("comparison", numbered, replace=True)
        sha256 = sha256_of((self.store.folder / MODEL).read_bytes())
        self.store.write_facts({"finished": _now(), "model_sha256": sha256})


@dataclass(frozen=True, eq=False)
class Beside:
    """What somebody with all data can measure beside a plan; none of it is released."""

    file: PlanFile
    held: PlanData
    threads: int | None = None
    workers: int | Workers | None = None
    watch: Watch | None = None  # called with (stage, round, clients done, clients asked)
    # By client: the model of the other folds, once folds were tested.
    models: dict[str, Predictor] = field(default_factory=dict, init=False)

    def engines(self, devices: Mapping[str, Elsewhere], **kept: Any) -> LocalClients:
        """Return all clients of this process, and devices, which train and are given the model."""
        held = self.held
        return LocalClients(
            # A mapping of very many clients is not copied for nothing.
            clients={**held.train, **devices} if devices else held.train,
            others={DELIVERY: {**held.at(DELIVERY), **devices}, EVALUATION: held.test},
            threads=self.threads,
            workers=self.workers,
            watch=self.watch,
            **kept,
        )

    @property
    def folds(self) -> list[list[str]]:
        """The clients dealt at random into folds, as many as the plan says or clients there are."""
        return folds_of(sorted(self.held.train), self.file.sharing.seed, self.file.sharing.folds)

    def trained_on(self, clients: Clients, before: str = "") -> Predictor:
        """Return what the plan makes of some clients, in the clear: nothing of it is released.

        Those who watch are told `before` before the name of a stage.
        """
        workflow, watch = self.file.workflow(self.held.about, None, len(clients)), self.watch
        plain = tuple(
            # Nothing of the folds is released but scores, so that nothing is charged for them.
            replace(one, budget=None) if isinstance(one, GaussianNoise) else one
            for one in workflow.protections
            if not one.hides
        )
        engines = LocalClients(
            clients=clients,
            threads=self.threads,
            workers=self.workers,
            watch=None if watch is None else lambda stage, *told: watch(f"{before}{stage}", *told),
            telling=False,
        )
        done = replace(workflow, protections=plain, min_clients=1).run(engines)[1]
        return with_sums(done.predictor, done.state) if self.file.run.adapt else done.predictor

    def by_folds(self, store: RunFolder) -> Scores:
        """Return how every client is served by a model that has not seen it; keep each fold's."""
        by_client: dict[str, Score] = {}
        made = []
        for number, fold in enumerate(self.folds, start=1):
            name, sources = f"fold {number} of {len(self.folds)}", self.held.train
            others = {name: source for name, source in sources.items() if name not in fold}
            model = self.trained_on(others, f"{name}, ")
            self.models.update(dict.fromkeys(fold, model))
            watch = partial(self.watch, f"{name}, test") if self.watch else None
            scored: dict[str, Score] = {}
            algorithm = Evaluation(model_under_test=model, adapted=self.file.run.adapt)
            try:
                result = run_locally(
                    Plan(algorithm=algorithm, limits=ANY),
                    {name: sources[name] for name in fold},
                    threads=self.threads,
                    workers=self.workers,
                    watch=watch,
                )
            except TooFewClientsError as error:
                refused = dict.fromkeys(fold, str(error))
            else:
                refused = {one.client: one.reason for one in result.refused}
                found = sorted(result.result.by_client.items())
                scored = {name: one for name, one in found if one.errors.n}
            by_client |= scored
            total = reduce(add, scored.values()) if scored else None
            if total is None:
                made.append(Fold((), 0, None, None, refused))
                continue
            worst = Scores(total, scored).worst()[0]
            made.append(Fold(tuple(scored), total.errors.n, total.value, worst, refused))
        if not by_client:
            raise TooFewClientsError(
                "nobody could be tested by folds; see what is said of each client"
            )
        store.write_facts(folds_fact(tuple(made)))
        return Scores(reduce(add, (by_client[name] for name in sorted(by_client))), by_client)

    def rows(self, workflow: Workflow, done: Done) -> list[Row]:
        """Train and test the plan's baselines; beside protections a row says it has none of them.

        Raw data are prepared as the model prepares them.
        """
        plan = replace(workflow.plan(TRAINING, done.known), protections=())
        contenders = self._contenders(plan, done)
        if not contenders:
            return []
        ready, watch = self.held.prepared(done.model.preprocessing), self.watch
        began = None if watch is None else lambda name: watch(f"for comparison: {name}", 0, 0, 0)
        how: Any = {"threads": self.threads, "workers": self.workers, "began": began}
        rows = list(compare(contenders, ready.train, ready.test, **how))
        if not self.file.protections:
            return rows
        told = "from raw data, outside the federation and its protections"
        return [replace(row, note=f"{row.note}; {told}" if row.note else told) for row in rows]

    def _contenders(self, plan: AnyPlan, done: Done) -> dict[str, AnyPlan | Dummy | Contender]:
        """Return the baselines that stand beside the plan, by name; they take prepared data."""
        file, classes, features = self.file, self.held.about.classes, done.features
        ahead = file.preprocessing.horizon is not None
        season = season_of_clients(file.preprocessing, self.held.train) if ahead else None
        usual: tuple[str, ...] = ("uniform", "most_frequent") if classes else ("mean",)
        if features.per_step and not classes:
            usual = ("persistence", *(["seasonal"] if season else []), "autoregression")
        if file.algorithm == NORMAL_PLAN and not classes:
            usual = ()  # nothing is known that a guess could be compared with
        lags = {"lags": file.run.lags, "washout": features.washout}
        told: dict[str, Any] = {"washout": features.washout}
        told["horizon"] = file.preprocessing.horizon or 1
        n_inputs = file.preprocessing.n_inputs(len(self.held.about.channels))
        own: dict[str, Any] = {"features": features, "classes": classes}
        # With nobody to leave out, the ridge is kept.
        bare: dict[str, Any] = {
            "client_fraction": 1.0,
            "min_clients": 1,
            "protections": (),
            "preprocessing": RAW,
        }
        alone = replace(plan, algorithm=plan.algorithm.alone(done.result.state), **bare)
        known: dict[str, Callable[[], AnyPlan | Dummy | Contender]] = {
            "uniform": lambda: Dummy(how="uniform", classes=classes),
            "most_frequent": lambda: constant_baseline(features, classes=classes),
            "mean": lambda: constant_baseline(features),
            "persistence": lambda: Dummy(how="persistence", **told),
            "seasonal": lambda: Dummy(how="seasonal", season=season or 1, **told),
            "autoregression": lambda: autoregression(n_inputs, **lags),
            "local": lambda: local_only(**own, threads=self.threads),
            "averaging": lambda: Plan(algorithm=ReadoutAveraging(ridge="gcv", **own)),
            "centralized": lambda: centralized(alone, threads=self.threads),
        }
        chosen = usual if file.run.baselines is None else file.run.baselines
        return {name: known[name]() for name in chosen}

    def shared_readout(self, done: Done, week: Week) -> list[Row]:
        """Return how the shared readout did on what is new, where clients have readouts too."""
        nothing = done.scores.total is None or not week.new
        if nothing or not isinstance(week.earlier, PersonalModels):
            return []
        plan = Plan(algorithm=Evaluation(model_under_test=week.earlier.model), limits=ANY)
        began = time.perf_counter()
        result = run_locally(plan, week.new, threads=self.threads)
        seconds = time.perf_counter() - began
        return [Row.of("shared readout", Outcome(result.result, ()), seconds)]

    def keep_worst(self, store: RunFolder, model: Predictor, scores: Scores) -> None:
        """Keep how the worst client is served, unless the plan hides its clients."""
        hidden = self.file.is_noisy or self.file.is_secret
        if not hidden and "served" in installed("reports"):
            diagnose = plugin("reports", "served")
            diagnose.keep_worst(store, self.file, self.held, model, scores, self.models)


@dataclass(frozen=True, eq=False)
class Finished:
    """A run that is over: its folder as a reader sees it, its model and scores.

    `notices` are sentences on what of the data was passed over, or why a run did not go on; the
    folder does not keep them.
    """

    run: Run
    model: Predictor
    scores: Scores
    notices: tuple[str, ...] = ()


def run_plan(
    file: PlanFile,
    folder: str | Path,
    *,
    data: Path | None = None,
    resume: bool = False,
    force: bool = False,
    threads: int | None = None,
    watch: Watch | None = None,
    facts: Mapping[str, str] | None = None,
    devices: Mapping[str, Elsewhere] | None = None,
    workers: int | Workers | None = None,
) -> Finished:
    """Run a plan file in this process and return what came of it; the folder keeps everything.

    Parameters
    ----------
    file
        The plan.
    folder
        Where the run is kept.
    data
        Directory of public data sets; the usual ones if not given.
    resume
        Whether to go on with a run that the folder holds.
    force
        Whether to replace a run that the folder holds.
    watch
        Called with (stage, round, clients done, clients asked).
    facts
        Small facts that the folder keeps beside its own, by name.
    devices
        By name: clients that are devices, beside those of the plan's data, or in the place of one
        of that name, whose data are not looked at then. They train, and are given the model.
    workers
        Processes for many clients, in blocks of 256; this one alone if None or 1.
    """
    on_line = dict(devices or {})
    devices_of(on_line)
    held = file.load_data(data).without(on_line)
    file.check_named([*held.train, *on_line])
    kept = opened(file, folder, resume=resume, force=force)
    with kept as store, reported(folder, watch) as tell:
        store.write_facts(dict(facts or {}))
        memories, identities = _keys(file, store, [*held.names, *on_line])
        week = begin_week(file, store, held, memories) if file.carries else None
        if week is not None and week.idle:
            # A finished run that has nothing to go on with, and says so.
            model = load(store.folder / MODEL, use=own_kinds(file))
            return Finished(read_run(store.folder), model, Scores(), week.idle)
        held = held if week is None else replace(held, test=dict(week.new))
        beside = Beside(file, held, threads, workers, tell)
        workflow = file.workflow(held.about, identities, len(held.train) + len(on_line))
        on_line = {name: one.within(workflow) for name, one in on_line.items()}
        by_folds = partial(beside.by_folds, store) if file.sharing.test == "folds" else None
        # A round cut short goes on in its middle: begun anew, its noise would be spent twice.
        with Journal(store.folder / JOURNAL) if identities else nullcontext() as journal:
            engines = beside.engines(on_line, memories=memories, journal=journal)
            # Whatever clients are called, their data are known by these.
            noisy = held.train.items() if file.is_noisy else ()
            known = {name: data_keys(data_of(source)()) for name, source in noisy}
            plan_run = PlanRun(file, workflow, held.about, engines, store, by_folds, known, week)
            done = plan_run.run()
        beside.keep_worst(store, (week and week.earlier) or done.model, done.scores)
        rows: list[Row] = []
        if week is not None:
            rows = beside.shared_readout(done, week)
        elif not by_folds and "finished" not in store.facts():
            rows = beside.rows(workflow, done)
        plan_run.finish(done, rows)
        if file.is_secret and not file.carries:
            forget_clients(store, identities)
    return Finished(read_run(folder), done.model, done.scores, held.notices)


@contextmanager
def opened(
    file: PlanFile,
    folder: str | Path,
    *,
    resume: bool = False,
    force: bool = False,
) -> Iterator[RunFolder]:
    """Open a run's folder; a run that fails before its training leaves nothing behind.

    One that was charged for its noise is kept, and the error says so: taken up again, it is not
    charged twice. With `force` a run that is there is replaced.
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


def _keys(
    file: PlanFile, store: RunFolder, names: list[str]
) -> tuple[dict[str, Memory], dict[str, str]]:
    """Return what clients remember where they must, and public keys for secure aggregation."""
    # Of a finished run only the public keys are left.
    identities: dict[str, str] = json.loads(store.facts().get("identities", "{}"))
    new = file.is_secret and not identities
    memories = client_memories(store.folder, names) if new or file.carries else {}
    if new:
        from catchment.privacy.secure_aggregation.keys import new_identity

        identities = {name: new_identity(memory) for name, memory in memories.items()}
    return memories, identities


def client_memories(folder: Path, clients: Iterable[str]) -> dict[str, Memory]:
    """Return what each client remembers, its private key included, in a folder of its own.

    All clients are in this process; elsewhere a client's memory is with the client.
    """
    return {name: FileMemory(folder / CLIENTS / quote(name, safe="")) for name in clients}


def forget_clients(store: RunFolder, identities: dict[str, str]) -> None:
    """Remove what clients of a run that is over remembered, private keys included, and its journal.

    The public keys are kept, so that the plan is still the same.
    """
    store.write_facts({"identities": json.dumps(identities)})
    for name in (CLIENTS, JOURNAL):
        shutil.rmtree(store.folder / name, ignore_errors=True)


def begin_week(
    file: PlanFile, store: RunFolder, held: PlanData, memories: Mapping[str, Memory]
) -> Week:
    """Return what is new, with which a finished run goes on if there is anything.

    A run that was stopped goes on with the time that it was at.
    """
    facts = store.facts()
    number = int(facts.get("week", "1"))
    new, unreadable = dict[str, list[Recording]](), list[str]()
    for name, source in held.train.items():
        try:
            if found := unread(data_of(source)(), memories[name]):
                new[name] = found
        except Exception as error:  # whatever it is, the run names it with its reason
            unreadable.append(f"{name} cannot be read: {error}")
    if "finished" in facts:
        if not new:
            return Week(number, idle=(NOTHING_NEW, *unreadable))
        for name, setting in (("classes", "classes"), ("channels", "inputs")):
            own: tuple[str, ...] | None = getattr(held.about, name)
            before = json.loads(facts.get(name, "null"))
            if before != (None if own is None else list(own)):
                raise ValueError(
                    f"the files have the {name} {', '.join(own or ())} now, and the run was begun "
                    f"with {', '.join(before or ())}; name all that may come as {setting} in "
                    "[data] and begin anew (--force)"
                )
        number += 1
        replace_file(store.folder / EARLIER, (store.folder / MODEL).read_bytes(), mode=PRIVATE)
        stages = (TRAINING, DELIVERY, EVALUATION)
        had = {stage: len(records_of(store.database, stage)) for stage in stages}
        store.go_on({"week": str(number), "rounds_before": json.dumps(had)})
        facts = store.facts()
    if number == 1:
        return Week(1, new)
    earlier = load(store.folder / EARLIER, use=own_kinds(file))
    return Week(number, new, earlier, json.loads(facts.get("rounds_before", "{}")))


def folds_of(names: list[str], seed: int = 0, n: int | None = None) -> list[list[str]]:
    """Return names dealt at random into folds, each once; no more folds than names.

    >>> [len(fold) for fold in folds_of(list("abcdefg"))]
    [2, 2, 1, 1, 1]
    """
    order = seeded_generator(seed).permutation(len(names))
    groups = np.array_split(order, min(n or FOLDS, len(names)))
    return [sorted(names[k] for k in group) for group in groups]


def _now() -> str:
    """Return the time, as run folders keep it."""
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds")
