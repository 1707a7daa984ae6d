"""A plan file carried out in this process: scaling, training, evaluation, and baselines beside it.

Every stage is a plan of its own in the one loop, kept in the run's folder as it goes.
"""

from __future__ import annotations

import datetime
import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from catchment.data.scaling import Scaler
from catchment.engine.contenders import (
    Contender,
    centralised,
    compare,
    guess,
    local_only,
    trained,
)
from catchment.engine.local import run_locally
from catchment.features.echo_state.reservoir import Reservoir
from catchment.features.feature_map import FeatureMap
from catchment.federation.learn.averaging import ReadoutAveraging
from catchment.federation.learn.ensemble import ReservoirEnsemble
from catchment.federation.learn.input_scaling import FederatedScaling
from catchment.federation.loop import Result
from catchment.federation.measure.baselines import Guess, autoregression, mean_target
from catchment.federation.measure.comparison import Comparison, Outcome, Row
from catchment.federation.measure.evaluation import Evaluation, Scores, metrics
from catchment.federation.measure.personal_evaluation import PersonalEvaluation
from catchment.federation.plan import Masking, Memory, Plan
from catchment.federation.runs.read import Run, read_run
from catchment.federation.runs.write import MODEL, Store
from catchment.plans.data import PlanData
from catchment.plans.file import PlanFile
from catchment.plans.results import write_comparison, write_results
from catchment.privacy.secure_sum.client_rules import is_name
from catchment.privacy.secure_sum.client_store import FileMemory
from catchment.privacy.secure_sum.keys import new_identity
from catchment.privacy.secure_sum.protection import SecureSum
from catchment.readout.model import Model

Watch = Callable[[str, int, int, int], None]


@dataclass(frozen=True, eq=False)
class Finished:
    """A run that is over: its folder as a reader sees it, its model and scores."""

    run: Run
    model: Model
    scores: Scores


def run_plan(
    file: PlanFile,
    folder: str | Path,
    *,
    data: Path | None = None,
    resume: bool = False,
    threads: int | None = None,
    watch: Watch | None = None,
) -> Finished:
    """Run a plan file and return what came of it; the folder keeps everything.

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
    watch
        Called with (stage, round, clients done, clients asked).
    """
    held = file.load_data(data)
    with Store(folder, fingerprint=file.fingerprint, plan=file.text, resume=resume) as store:
        if "started" not in store.facts():
            store.write_facts({"started": _now(), "title": file.title or _title(file)})
        memories = client_memories(store.folder, held.train) if file.is_secret else {}
        identities = {name: new_identity(memory) for name, memory in memories.items()}
        plan = file.build(len(held.channels), held.classes, identities)
        stages = Stages(store, threads, watch)
        held = stages.scaled(held, file.sharing.scaling, plan, memories)
        if file.plasticity:
            before = plasticity_plan(file, len(held.channels), plan)
            found = stages.fit("plasticity", before, held.train, memories).state
            adapted = found.gain, found.shift
            plan = file.build(len(held.channels), held.classes, identities, adapted)
        result = stages.fit("training", plan, held.train, memories)
        store.save_model(result.model)
        scores = stages.fit(
            "evaluation", Plan(algorithm=Evaluation(model_under_test=result.model)), held.test
        ).state
        write_results(store, plan.whole.kept(result.state), result.model, scores, held)
        store.write_facts(_facts(file, plan, held, result, scores))
        if "finished" not in store.facts():
            rows = stages.compared(contenders(file, plan, held, result, threads), held)
            write_comparison(store, _with_own(rows, own_row(file, result, scores)))
            digest = _sha256(store.folder / MODEL)
            store.write_facts({"finished": _now(), "model_sha256": digest})
    return Finished(read_run(folder), result.model, scores)


@dataclass(frozen=True, eq=False)
class Stages:
    """Plans run one after the other into one folder."""

    store: Store
    threads: int | None = None
    watch: Watch | None = None

    def fit(
        self,
        stage: str,
        plan: Plan[Any, Any, Any],
        clients: Mapping[str, Any],
        memories: dict[str, Memory] | None = None,
    ) -> Result[Any, Any]:
        """Run a stage, or what is left of it."""

        def watch(round_: int, done: int, asked: int) -> None:
            if self.watch:
                self.watch(stage, round_, done, asked)

        keeper = self.store.keeper(stage, plan)
        return run_locally(
            plan, clients, threads=self.threads, keeper=keeper, watch=watch, memories=memories
        )

    def compared(self, beside: Mapping[str, Contender], held: PlanData) -> Comparison:
        """Train and test what stands beside the plan; it is not part of the run's ledger."""

        def began(name: str) -> None:
            if self.watch:
                self.watch(f"for comparison: {name}", 0, 0, 0)

        return compare(beside, held.train, held.test, threads=self.threads, began=began)

    def scaled(
        self,
        held: PlanData,
        scaling: str,
        plan: Plan[Any, Any, Any],
        memories: dict[str, Memory] | None = None,
    ) -> PlanData:
        """Return the data scaled, after a round of its own if all clients share one scaler."""
        if scaling != "federated":
            return held.scaled(scaling)
        before = scaling_plan(len(held.channels), plan)
        result = self.fit("scaling", before, held.train, memories)
        write_scaler(self.store, result.result)
        return held.scaled(scaling, result.result)


def scaling_plan(n_channels: int, plan: Plan[Any, Any, Any]) -> Plan[Any, Any, Any]:
    """Return the plan of one scaler for all clients, hidden in a sum if the plan's messages are."""
    masks = (exact(plan.masking),) if plan.masking else ()
    return Plan(algorithm=FederatedScaling(channels=n_channels), protections=masks)


def plasticity_plan(
    file: PlanFile, n_channels: int, plan: Plan[Any, Any, Any]
) -> Plan[Any, Any, Any]:
    """Return the plan that adapts the reservoir before the training.

    It asks clients as the training does, hidden in a sum if that is.
    """
    reservoir = Reservoir.from_recipe(file.recipes(n_channels)[0])
    algorithm, rounds = file.plastic(reservoir)
    masks = (exact(plan.masking),) if plan.masking else ()
    return replace(plan, algorithm=algorithm, rounds=rounds, protections=masks)


def exact(masking: Masking) -> Masking:
    """Return a secure sum that rounds nothing: a bound on statistics says nothing of other sums."""
    if isinstance(masking, SecureSum):
        return replace(masking, bits=128, bound=None)
    return masking


def write_scaler(store: Store, scaler: Scaler) -> None:
    """Keep the scaler that all clients share."""
    known = {"mean": scaler.mean.tolist(), "scale": scaler.scale.tolist()}
    store.write_facts({"scaler": json.dumps(known)})


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
    return {name: FileMemory(folder / "clients" / name) for name in names}


def own_row(file: PlanFile, result: Result[Any, Any], scores: Scores) -> Row:
    """Return the plan's own row of the comparison."""
    seconds = sum(record.seconds for record in result.records)
    return Row.of(label(file), Outcome(scores, result.records), seconds)


def label(file: PlanFile) -> str:
    """Return what the plan's own row is called."""
    name = str(file.algorithm["name"])
    changed = any(table.get("name") != "secure_sum" for table in file.protections)
    return "exact federated" if name == "ridge" and not changed else name


def _with_own(compared: Iterable[Row], own: Row) -> list[Row]:
    """Return the rows with one's own before what takes more than a federation gives."""
    rows = list(compared)
    after = [row for row in rows if row.name in ("centralised", "personalised")]
    return [*(row for row in rows if row not in after), own, *after]


def contenders(
    file: PlanFile,
    plan: Plan[Any, Any, Any],
    held: PlanData,
    result: Result[Any, Any],
    threads: int | None = None,
) -> dict[str, Contender]:
    """Return the baselines that stand beside a plan, by name."""
    model = result.model
    features, classes = model.features, held.classes
    usual = ("random", "majority") if classes else ("persistence", "autoregression")
    lags = {"lags": file.run.lags, "washout": features.washout}
    horizon = held.horizon or 1
    gcv = ReadoutAveraging(features=features, ridge="gcv", classes=classes)
    known: dict[str, Callable[[], Contender]] = {
        "random": lambda: guess(Guess(how="random", classes=classes)),
        "majority": lambda: trained(mean_target(features, classes=classes)),
        "mean": lambda: trained(mean_target(features)),
        "persistence": lambda: guess(
            Guess(how="persistence", horizon=horizon, washout=features.washout)
        ),
        "autoregression": lambda: trained(autoregression(len(held.channels), **lags)),
        "local": lambda: local_only(features, classes=classes, threads=threads),
        "averaging": lambda: trained(Plan(algorithm=gcv), threads=threads),
        "ensemble": lambda: trained(Plan(algorithm=_ensemble(features, classes)), threads=threads),
        "centralised": lambda: centralised(_alone(plan, result), threads=threads),
        "personalised": lambda: _personalised(model, held, threads),
    }
    chosen = usual if file.run.baselines is None else file.run.baselines
    return {name: known[name]() for name in chosen}


def _ensemble(features: FeatureMap, classes: tuple[str, ...] | None) -> ReservoirEnsemble:
    """Return the ensemble of every client's own reservoir."""
    if not isinstance(features, Features):
        raise ValueError('the baseline "ensemble" is of reservoirs; leave it out of baselines')
    return ReservoirEnsemble(features=features, classes=classes, weighting="samples")


def _personalised(model: Model, held: PlanData, threads: int | None) -> Contender:
    """Return the contender in which test clients adapt the shared readout to their earlier data."""
    if held.test_after == 0:
        raise ValueError("a personalised baseline needs test_after in [data]; try test_after = 0.5")
    algorithm = PersonalEvaluation(model_under_test=model, share=held.test_after)

    def contend(train: Mapping[str, Any], test: Mapping[str, Any]) -> Outcome:
        found = run_locally(Plan(algorithm=algorithm), held.whole, threads=threads).state
        total = found.total.personal if found.total else None
        by_client = {name: one.personal for name, one in found.by_client.items()}
        n_moved = found.total.n_moved if found.total else 0
        return Outcome(Scores(total, by_client), note=f"{n_moved} left the shared readout")

    return contend


def _alone(plan: Plan[Any, Any, Any], result: Result[Any, Any]) -> Plan[Any, Any, Any]:
    """Return the plan for one who has all data: with nobody to leave out, the ridge is kept."""
    algorithm = plan.whole.alone(result.state)
    return replace(plan, algorithm=algorithm, share=1.0, min_clients=1, protections=())


def _facts(
    file: PlanFile,
    plan: Plan[Any, Any, Any],
    held: PlanData,
    result: Result[Any, Any],
    scores: Scores,
) -> dict[str, str]:
    model, total = result.model, scores.total
    assert total is not None
    return {
        "source": file.source,
        "algorithm": str(file.algorithm["name"]),
        "own_row": label(file),
        "metric": metrics(total)[0][0],
        "classes": json.dumps(held.classes),
        "channels": json.dumps(held.channels),
        "train_clients": str(len(held.train)),
        "test_clients": str(len(held.test)),
        "units": str(model.features.reservoir.n_units),
        "n_features": str(model.features.n_features),
        "features_fingerprint": model.features.fingerprint,
        "plan_fingerprint": plan.fingerprint(),
        "scaling": file.sharing.scaling,
    }


def _title(file: PlanFile) -> str:
    return f"{file.algorithm['name']} on {file.source}"


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
