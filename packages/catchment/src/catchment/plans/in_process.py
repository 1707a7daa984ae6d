"""A plan file run with all clients in this process.

What only somebody with all data could say is added here: baselines, folds over clients, a forecast,
and how the clients served best and worst fare.
"""

from __future__ import annotations

import json
import logging
import shutil
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from catchment.engine.local import AnySource, LocalEngine, Workers, data_of, run_locally
from catchment.engine.processes import with_workers
from catchment.federation.algorithm import Memory
from catchment.federation.client import Elsewhere, refuse_shared
from catchment.federation.course import EVALUATION, TRAINING, AnyPlan
from catchment.federation.delivery import DeliveredEvaluation
from catchment.federation.loop import Engine
from catchment.federation.measure.comparison import Outcome, Row
from catchment.federation.measure.evaluation import Evaluation, Scores
from catchment.federation.plan import Plan
from catchment.federation.prefix import EVERY
from catchment.federation.runs.folds import folds_fact
from catchment.federation.runs.progress import reported
from catchment.federation.runs.read import Run, read_run
from catchment.federation.runs.write import CLIENTS, JOURNAL, MODEL, Store
from catchment.plans.baselines import compared
from catchment.plans.conductor import Conductor, Done, Watch, opened, own_rows, with_own
from catchment.plans.data import PlanData
from catchment.plans.file import PlanFile
from catchment.plans.folds import ANY, folded
from catchment.plans.notices import notices
from catchment.plans.results import write_drawn, write_forecast
from catchment.plans.weeks import Week, begin_week, own_kinds, weekly_memories
from catchment.plugins import installed, plugin
from catchment.privacy.dp.budget import data_keys
from catchment.privacy.secure_sum.client_rules import is_name
from catchment.privacy.secure_sum.client_store import FileMemory
from catchment.privacy.secure_sum.server_journal import Journal as SumsJournal
from catchment.readout.personal_models import PersonalModels
from catchment.readout.predictor import Predictor
from catchment.storage import load

MOST_APART = 100_000  # test clients whose scores are kept one by one
MANY_TESTED = (
    "%d clients are tested: their score is kept together, not client by client; test fewer, such "
    'as test = 0.01 with test_of = "clients" in [data], to see how each fares'
)

log = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class InProcess:
    """All clients in this process.

    Nothing leaves anyone here, so that the test shows every client's score by itself, even where
    the training is hidden in sums. Under noise those who are tested have not trained, and no bound
    holds for them.
    """

    held: PlanData
    threads: int | None = None
    memories: dict[str, Memory] = field(default_factory=dict)
    devices: Mapping[str, Elsewhere] = field(default_factory=dict)
    workers: int | Workers | None = None

    @property
    def name(self) -> str:
        """What it is called in the run's facts."""
        return self.workers.name if isinstance(self.workers, Workers) else "local"

    def allowed(self, stage: str, plan: AnyPlan) -> AnyPlan:
        if isinstance(plan.algorithm, DeliveredEvaluation):
            n_tested = len(self.held.whole)
            if n_tested > MOST_APART:
                log.warning(MANY_TESTED, n_tested)
            tested = replace(plan.algorithm, keep_clients=n_tested <= MOST_APART)
            return replace(plan, algorithm=tested, protections=())
        return plan

    def engine(self, stage: str, plan: AnyPlan) -> Engine:
        devices = {} if stage == EVALUATION else self.devices
        held: Mapping[str, AnySource] = self.held.at(stage)
        # A mapping of very many clients is not copied for nothing.
        clients = {**held, **devices} if devices else held
        here = LocalEngine(plan, clients, self.threads, self.memories)
        return with_workers(here, self.workers)


@dataclass(frozen=True, eq=False)
class Finished:
    """A run that is over: its folder as a reader sees it, its model and scores.

    `notices` are sentences on what is odd about the data; the folder does not keep them.
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
    keep_every: float = EVERY,
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
    keep_every
        Seconds after which the sum of a round under way is kept again, to go on from there.
    """
    on_line = dict(devices or {})
    refuse_shared(on_line)
    held = without(file.load_data(data), on_line)
    kept = opened(file, folder, resume=resume, force=force, keep_every=keep_every)
    with kept as store, reported(folder, watch) as tell:
        store.write_facts(dict(facts or {}))
        # Of a finished run only the public keys are left.
        identities: dict[str, str] = json.loads(store.facts().get("identities", "{}"))
        memories: dict[str, Memory] = {}
        if file.is_secret and not identities:
            memories = client_memories(store.folder, [*held.names, *on_line])
            # Of the extra "secure", which a plan without a secure sum does not need.
            from catchment.privacy.secure_sum.keys import new_identity

            identities = {name: new_identity(memory) for name, memory in memories.items()}
        week = None
        if file.carries:
            memories |= weekly_memories(store.folder, [*held.names, *on_line])
            week = begin_week(store, held.about, held.train, memories, use=own_kinds(file))
            if week.idle:
                return as_it_was(file, store.folder, week)
            held = replace(held, whole=dict(week.new))
        course = file.course(held.about, identities, len(held.train) + len(on_line))
        on_line = {name: one.within(course) for name, one in on_line.items()}
        models: dict[str, Predictor] = {}
        by_folds = file.sharing.test == "folds"
        # A round cut short goes on in its middle: begun anew, its noise would be spent twice.
        with SumsJournal(store.folder / JOURNAL) if identities else nullcontext() as journal:
            conductor = Conductor(
                file,
                course,
                held.about,
                InProcess(held, threads, memories, on_line, workers=workers),
                store,
                journal,
                watch=tell,
                tested=partial(_by_folds, file, held, threads, tell, store, models, workers)
                if by_folds
                else None,
                known=_known(held) if file.is_noisy else {},
                week=week,
            )
            done = conductor.conduct()
        shown = done if week is None or week.earlier is None else replace(done, model=week.earlier)
        _show(store, file, held, shown, models)
        if week is not None:
            conductor.finish(weekly_rows(file, done, week, threads))
        elif by_folds:
            conductor.finish(own_rows(file, done))
        elif "finished" not in store.facts():
            plan = replace(course.plan(TRAINING, done.known), protections=())
            beside = compared(
                file, plan, held, done.result, done.model, done.features, threads, tell, workers
            )
            conductor.finish(with_own(beside, own_rows(file, done)))
        if file.is_secret and not file.carries:
            forget_clients(store, identities)
    return Finished(read_run(folder), done.model, done.scores, notices(file, held))


def as_it_was(file: PlanFile, folder: Path, week: Week) -> Finished:
    """Return a finished run that has nothing to go on with, and says so."""
    model = load(folder / MODEL, use=own_kinds(file))
    return Finished(read_run(folder), model, Scores(), week.idle)


def weekly_rows(file: PlanFile, done: Done, week: Week, threads: int | None) -> list[Row]:
    """Return the plan's own row of the comparison, and that of the shared readout if others are."""
    own = own_rows(file, done)
    if not own or not isinstance(week.earlier, PersonalModels) or not week.new:
        return own
    plan = Plan(algorithm=Evaluation(model_under_test=week.earlier.shared), limits=ANY)
    began = time.perf_counter()
    result = run_locally(plan, week.new, threads=threads)
    seconds = time.perf_counter() - began
    return [Row.of("shared readout", Outcome(result.result, ()), seconds), *own]


def without(held: PlanData, devices: Mapping[str, Elsewhere]) -> PlanData:
    """Return the data without those of clients that are devices, which have their own.

    >>> from catchment.plans.about import About
    >>> held = PlanData({"ann": [], "ben": []}, {}, About(("x",)))
    >>> board = object()  # a `catchment_edge.Device`, say
    >>> sorted(without(held, {"ben": board}).train)
    ['ann']
    """
    if not devices:
        return held
    train, whole = (
        {name: one for name, one in part.items() if name not in devices}
        for part in (held.train, held.whole)
    )
    return replace(held, train=train, whole=whole)


def _show(
    store: Store, file: PlanFile, held: PlanData, done: Done, models: Mapping[str, Predictor]
) -> None:
    """Keep what pictures of single clients need, unless the plan hides its clients.

    Parameters
    ----------
    models
        By client: the model of its fold, where the test is by folds.
    """
    write_forecast(store, done.model, done.scores, held)
    if file.is_noisy or file.is_secret:
        return
    shown = held.train if models else held.test
    write_drawn(
        store,
        lambda client: models.get(client, done.model),
        done.scores,
        shown,
        held.about.channels,
    )
    if "served" in installed("reports"):
        diagnose = plugin("reports", "served")
        diagnose.keep_worst(store, file, held, done.model, done.scores, models)


def _by_folds(
    file: PlanFile,
    held: PlanData,
    threads: int | None,
    watch: Watch | None,
    store: Store,
    models: dict[str, Predictor],
    workers: int | Workers | None = None,
) -> Scores:
    """Return the scores by folds, and keep what each fold gave; models by client are put in."""
    found = folded(file, held, threads, watch, models, workers)
    store.write_facts(folds_fact(found.folds))
    return found.scores


def _known(held: PlanData) -> dict[str, Sequence[str]]:
    """Return what each client's data are known by, whatever the client is called."""
    return {name: data_keys(data_of(source)()) for name, source in held.at(TRAINING).items()}


def client_memories(folder: Path, clients: Iterable[str]) -> dict[str, Memory]:
    """Return what each client remembers, its private key included, in a folder of its own.

    All clients are in this process; elsewhere a client's memory is with the client.
    """
    names = list(clients)
    for name in names:
        if not is_name(name):
            raise ValueError(
                f"a client is called {name[:80]!r}; a secure sum needs names of 1 to 64 letters, "
                "digits, '.', '_' and '-'"
            )
    return {name: FileMemory(folder / CLIENTS / name) for name in names}


def forget_clients(store: Store, identities: dict[str, str]) -> None:
    """Remove what clients of this process remembered, private keys included: the run is over.

    The journal of their sums goes with it. The public keys are kept, so that the plan is still the
    same.
    """
    store.write_facts({"identities": json.dumps(identities)})
    for name in (CLIENTS, JOURNAL):
        shutil.rmtree(store.folder / name, ignore_errors=True)
