"""A plan file run with all clients in this process.

What only somebody with all data could say is added here: baselines, folds over clients, a forecast,
and how the clients served best and worst fare.

A score by folds over clients: everyone trains, and everyone is tested by a model without them.

The clients are dealt into folds; for each fold all stages up to the training are run on the others,
and the model is tested on the fold. Only somebody who holds all data can do that, so the folds are
not part of the run's ledger, and are summed in the clear whatever protects the training itself.

What is measured beside a plan, on the same clients: guesses, going it alone, all data in one.

Baselines see data that are prepared as the plan's are, so that they differ in nothing else.
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial, reduce
from operator import add
from pathlib import Path
from typing import Any

import numpy as np

from catchment.data.prepare import RAW
from catchment.data.synthetic import seeded_generator
from catchment.engine.contenders import Contender, centralised, compare, guess, local_only, trained
from catchment.engine.local import LocalClients, Workers, data_of, run_locally
from catchment.errors import TooFewClientsError
from catchment.features.base import FeatureMap, name_of
from catchment.federation.algorithm import Memory
from catchment.federation.checks import Limits
from catchment.federation.client import Elsewhere, devices_of
from catchment.federation.learn.averaging import ReadoutAveraging
from catchment.federation.loop import EVERY, Result, model_of
from catchment.federation.measure.baselines import Guess, Outcome, Row, autoregression, mean_target
from catchment.federation.measure.evaluation import Evaluation, PersonalEvaluation, Score, Scores
from catchment.federation.plan import Plan
from catchment.federation.protection import Masking
from catchment.federation.runs.folder import CLIENTS, JOURNAL, MODEL, RunFolder
from catchment.federation.runs.read import Fold, Run, folds_fact, read_run, reported
from catchment.federation.workflow import DELIVERY, EVALUATION, TRAINING, AnyPlan
from catchment.plans.conductor import (
    Done,
    PlanRun,
    Watch,
    opened,
    own_rows,
    with_own,
    write_drawn,
    write_forecast,
)
from catchment.plans.data import Clients, PlanData
from catchment.plans.file import PlanFile
from catchment.plans.plan_file import NORMAL_PLAN, Week, begin_week, own_kinds, weekly_memories
from catchment.plugins import installed, plugin
from catchment.privacy.dp.budget import data_keys
from catchment.privacy.dp.noise import GaussianNoise
from catchment.privacy.secure_sum.client_store import FileMemory
from catchment.privacy.secure_sum.protection import is_name
from catchment.privacy.secure_sum.server_journal import Journal as SumsJournal
from catchment.readout.model import PersonalModels
from catchment.readout.predictor import Predictor
from catchment.readout.storage import load

FOLDS = 5
ANY = Limits(min_usable=0.0, over_median=1e9)  # a test leaves out whom it cannot test


def n_folds(file: PlanFile, held: PlanData) -> int:
    """Return how many folds a plan has: as many as it says, or as there are clients."""
    return min(file.sharing.folds or FOLDS, len(held.train))


def folds_of(names: list[str], seed: int = 0, n: int = FOLDS) -> list[list[str]]:
    """Return names dealt at random into folds, each once; no more folds than names.

    >>> [len(fold) for fold in folds_of(list("abcdefg"))]
    [2, 2, 1, 1, 1]
    """
    order = seeded_generator(seed).permutation(len(names))
    groups = np.array_split(order, min(n, len(names)))
    return [sorted(names[k] for k in group) for group in groups]


def folded(
    file: PlanFile,
    held: PlanData,
    threads: int | None = None,
    watch: Watch | None = None,
    models: dict[str, Predictor] | None = None,
    workers: int | Workers | None = None,
) -> tuple[Scores, tuple[Fold, ...]]:
    """Return how every client is served by a model that has not seen it, and what each fold gave.

    Parameters
    ----------
    watch
        Called with (stage, round, clients done, clients asked).
    models
        Where the model that each client is tested by is put, if somebody wants them.
    """
    by_client: dict[str, Score] = {}
    made = []
    folds = folds_of(sorted(held.train), file.sharing.seed, n_folds(file, held))
    for number, fold in enumerate(folds, start=1):
        name = f"fold {number} of {len(folds)}"
        others = {name: source for name, source in held.train.items() if name not in fold}
        model = trained_on(others, file, held, threads, watch, f"{name}, ", workers)
        if models is not None:
            models |= dict.fromkeys(fold, model.predictor)
        test = {name: held.train[name] for name in fold}
        plan = Plan(algorithm=Evaluation(model_under_test=model.predictor), limits=ANY)
        seen = partial(watch, f"{name}, test") if watch else None
        try:
            result = run_locally(plan, test, threads=threads, workers=workers, watch=seen)
        except TooFewClientsError as error:
            made.append(Fold((), 0, None, None, dict.fromkeys(fold, str(error))))
            continue
        refused = {one.client: one.reason for one in result.refused}
        found: Scores = result.result
        scored = {name: found.by_client[name] for name in sorted(found.by_client)}
        scored = {name: one for name, one in scored.items() if one.errors.n}
        by_client |= scored
        if not scored:
            made.append(Fold((), 0, None, None, refused))
            continue
        total = reduce(add, scored.values())
        worst = Scores(total, scored).worst()[0]
        made.append(Fold(tuple(scored), total.errors.n, total.value, worst, refused))
    if not by_client:
        raise TooFewClientsError("nobody could be tested by folds; see what is said of each client")
    total = reduce(add, (by_client[name] for name in sorted(by_client)))
    return Scores(total, by_client), tuple(made)


def trained_on(
    clients: Clients,
    file: PlanFile,
    held: PlanData,
    threads: int | None = None,
    watch: Watch | None = None,
    before: str = "",
    workers: int | Workers | None = None,
) -> Result[object, object]:
    """Return what a plan makes of some of its clients, in the clear: nothing of it is released.

    Parameters
    ----------
    before
        What stands before the name of a stage for those who watch.
    """
    workflow = file.course(held.about, None, len(clients))
    plain = tuple(
        # Nothing of the folds is released but scores, so that nothing is charged for them.
        replace(one, budget=None) if isinstance(one, GaussianNoise) else one
        for one in workflow.protections
        if not isinstance(one, Masking)
    )
    engines = LocalClients(
        clients=clients,
        threads=threads,
        workers=workers,
        watch=None if watch is None else lambda stage, *told: watch(f"{before}{stage}", *told),
        telling=False,
    )
    return replace(workflow, protections=plain, min_clients=1).run(engines)[1]


def compared(
    file: PlanFile,
    plan: AnyPlan,
    held: PlanData,
    done: Done,
    threads: int | None = None,
    watch: Watch | None = None,
    workers: int | Workers | None = None,
) -> list[Row]:
    """Train and test what stands beside the plan; it is not part of the run's ledger.

    Beside a plan with protections each row says that it has none of them.
    """
    beside = contenders(file, plan, held, done, threads, workers)
    if not beside:
        return []
    ready = held.prepared(done.model.prepare)
    began = None if watch is None else lambda name: watch(f"for comparison: {name}", 0, 0, 0)
    rows = list(compare(beside, ready.train, ready.test, began=began))
    if not file.protect:
        return rows
    told = "from raw data, outside the federation and its protections"
    return [replace(row, note=f"{row.note}; {told}" if row.note else told) for row in rows]


def contenders(
    file: PlanFile,
    plan: AnyPlan,
    held: PlanData,
    done: Done,
    threads: int | None = None,
    workers: int | Workers | None = None,
) -> dict[str, Contender]:
    """Return the baselines that stand beside a plan, by name; they take prepared data."""
    classes, features = held.about.classes, done.features
    forecast = ("persistence", "autoregression") if features.per_step else ("mean",)
    usual: tuple[str, ...] = ("random", "majority") if classes else forecast
    if file.algorithm == NORMAL_PLAN and not classes:
        usual = ()  # nothing is known that a guess could be compared with
    lags = {"lags": file.run.lags, "washout": features.washout}
    told: dict[str, Any] = {"horizon": file.prepare.horizon or 1, "washout": features.washout}
    n_inputs = file.prepare.n_inputs(len(held.about.channels))
    own: dict[str, Any] = {"features": features, "classes": classes}
    # With nobody to leave out, the ridge is kept.
    bare: dict[str, Any] = {"share": 1.0, "min_clients": 1, "protections": (), "prepare": RAW}
    alone = replace(plan, algorithm=plan.algorithm.alone(done.result.state), **bare)
    training = partial(trained, threads=threads, workers=workers)
    guessing = partial(guess, workers=workers)
    known: dict[str, Callable[[], Contender]] = {
        "random": lambda: guessing(Guess(how="random", classes=classes)),
        "majority": lambda: training(mean_target(features, classes=classes)),
        "mean": lambda: training(mean_target(features)),
        "persistence": lambda: guessing(Guess(how="persistence", **told)),
        "autoregression": lambda: training(autoregression(n_inputs, **lags)),
        "local": lambda: local_only(features, classes=classes, threads=threads, workers=workers),
        "averaging": lambda: training(Plan(algorithm=ReadoutAveraging(ridge="gcv", **own))),
        "ensemble": lambda: training(_ensemble(weighting="samples", **own)),
        "centralised": lambda: centralised(alone, threads=threads),
        "personalised": lambda: _personalised(done.model, held, threads, workers),
    }
    chosen = usual if file.run.baselines is None else file.run.baselines
    return {name: known[name]() for name in chosen}


def _ensemble(features: FeatureMap, **settings: Any) -> Plan[Any, Any, Any]:
    if features.reservoir is None:
        raise ValueError(
            'the baseline "ensemble" gives every client a reservoir of its own, and '
            f"{name_of(features)} has none; leave it out of baselines"
        )
    return Plan(algorithm=plugin("algorithms", "ensemble")(features=features, **settings))


def _personalised(
    model: Predictor, held: PlanData, threads: int | None, workers: int | Workers | None
) -> Contender:
    """Return the contender in which test clients adapt the shared readout to their earlier data."""
    shared = model_of(model)
    if shared is None:
        raise ValueError(
            'the baseline "personalised" adapts a shared readout, and there is none here; leave it '
            "out of baselines"
        )
    plan = Plan(algorithm=PersonalEvaluation(model_under_test=shared, share=held.test_after))

    def contend(train: Mapping[str, Any], test: Mapping[str, Any]) -> Outcome:
        found = run_locally(plan, held.whole, threads=threads, workers=workers).state
        total = found.total.personal if found.total else None
        by_client = {name: one.personal for name, one in found.by_client.items()}
        n_moved = found.total.n_moved if found.total else 0
        return Outcome(Scores(total, by_client), note=f"{n_moved} left the shared readout")

    return contend


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
    devices_of(on_line)
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
                # A finished run that has nothing to go on with, and says so.
                model = load(store.folder / MODEL, use=own_kinds(file))
                return Finished(read_run(store.folder), model, Scores(), week.idle)
            held = replace(held, whole=dict(week.new))
        workflow = file.course(held.about, identities, len(held.train) + len(on_line))
        on_line = {name: one.within(workflow) for name, one in on_line.items()}
        models: dict[str, Predictor] = {}
        by_folds = file.sharing.test == "folds"
        # A round cut short goes on in its middle: begun anew, its noise would be spent twice.
        with SumsJournal(store.folder / JOURNAL) if identities else nullcontext() as journal:
            plan_run = PlanRun(
                file,
                workflow,
                held.about,
                LocalClients(
                    # A mapping of very many clients is not copied for nothing.
                    clients={**held.train, **on_line} if on_line else held.train,
                    others={DELIVERY: {**held.at(DELIVERY), **on_line}, EVALUATION: held.test},
                    threads=threads,
                    workers=workers,
                    memories=memories,
                    watch=tell,
                    journal=journal,
                ),
                store,
                tested=partial(_by_folds, file, held, threads, tell, store, models, workers)
                if by_folds
                else None,
                known=_known(held) if file.is_noisy else {},
                week=week,
            )
            done = plan_run.run()
        shown = done if week is None or week.earlier is None else replace(done, model=week.earlier)
        _show(store, file, held, shown, models)
        if week is not None:
            plan_run.finish(weekly_rows(file, done, week, threads))
        elif by_folds:
            plan_run.finish(own_rows(file, done))
        elif "finished" not in store.facts():
            plan = replace(workflow.plan(TRAINING, done.known), protections=())
            beside = compared(file, plan, held, done, threads, tell, workers)
            plan_run.finish(with_own(beside, own_rows(file, done)))
        if file.is_secret and not file.carries:
            forget_clients(store, identities)
    return Finished(read_run(folder), done.model, done.scores, held.notices)


def weekly_rows(file: PlanFile, done: Done, week: Week, threads: int | None) -> list[Row]:
    """Return the plan's own row of the comparison, and that of the shared readout if others are."""
    own = own_rows(file, done)
    if not own or not isinstance(week.earlier, PersonalModels) or not week.new:
        return own
    plan = Plan(algorithm=Evaluation(model_under_test=week.earlier.model), limits=ANY)
    began = time.perf_counter()
    result = run_locally(plan, week.new, threads=threads)
    seconds = time.perf_counter() - began
    return [Row.of("shared readout", Outcome(result.result, ()), seconds), *own]


def without(held: PlanData, devices: Mapping[str, Elsewhere]) -> PlanData:
    """Return the data without those of clients that are devices, which have their own.

    >>> from catchment.plans.data import About
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
    store: RunFolder, file: PlanFile, held: PlanData, done: Done, models: Mapping[str, Predictor]
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
    store: RunFolder,
    models: dict[str, Predictor],
    workers: int | Workers | None = None,
) -> Scores:
    """Return the scores by folds, and keep what each fold gave; models by client are put in."""
    scores, folds = folded(file, held, threads, watch, models, workers)
    store.write_facts(folds_fact(folds))
    return scores


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


def forget_clients(store: RunFolder, identities: dict[str, str]) -> None:
    """Remove what clients of this process remembered, private keys included: the run is over.

    The journal of their sums goes with it. The public keys are kept, so that the plan is still the
    same.
    """
    store.write_facts({"identities": json.dumps(identities)})
    for name in (CLIENTS, JOURNAL):
        shutil.rmtree(store.folder / name, ignore_errors=True)
