"""The verbs: `fit` for one owner, `federate` for many, `evaluate` and `calibrate` for either.

They, scikit-learn's estimators and plan files take the same steps: fit the scale, sum statistics,
solve. The same settings on the same clients therefore give the same readout to the bit; and with
nothing set they share the same defaults: recordings have their gaps held and their channels scaled,
the pool follows the kind of target, and the ridge is the one with the least error on clients left
out, or by generalized cross-validation where there is one client or only a sum.
"""

from __future__ import annotations

import json
import logging
import warnings
from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypedDict, TypeVar, Unpack, overload

import numpy as np

from catchment.arrays import check_type
from catchment.data.clients import Clients, LazyClients
from catchment.data.preprocessing import Preprocessing
from catchment.data.recording import Recording
from catchment.data.steps import are_classes
from catchment.data.units import ALL
from catchment.engine.local import (
    AnySource,
    LocalClients,
    Shared,
    Source,
    Workers,
    all_classes,
    first_recording,
    placed,
    run_locally,
    shared_by,
)
from catchment.errors import FederationError, RefusedClientsWarning, TooFewClientsError
from catchment.features.pipeline import Pipeline, as_pipeline, refuse_large
from catchment.features.recipes import FeatureMap, label_of
from catchment.federation.algorithm import Algorithm, Memory
from catchment.federation.checks import LIMITS, Limits
from catchment.federation.client import devices_of
from catchment.federation.learn.ridge import (
    UNGROUPED,
    Offered,
    Ridge,
    Upload,
    auto_choice,
    automatic_ridge,
    offered_maps,
    refuse_settings,
)
from catchment.federation.learn.sums import MANY, RidgeState
from catchment.federation.loop import Result
from catchment.federation.messages import (
    Record,
    Refusal,
    Watch,
    check_client_names,
    left_out,
    warn_of,
)
from catchment.federation.plan import Plan
from catchment.federation.protection import LowRankUpload, Protection
from catchment.federation.runs.folder import RunFolder, write_results
from catchment.federation.runs.ledger import (
    Entries,
    EntryList,
    in_words,
    map_facts,
    map_scores,
    map_sentence,
)
from catchment.federation.workflow import (
    DELIVERY,
    EVALUATION,
    TRAINING,
    Maps,
    StageInputs,
    Workflow,
)
from catchment.readout.adapt import refuse_adapting
from catchment.readout.heads import Head
from catchment.readout.intervals import error_edges
from catchment.readout.model import Model, learn
from catchment.readout.predictor import Predictor
from catchment.readout.statistics import RidgeStatistics
from catchment.readout.storage import to_bytes

if TYPE_CHECKING:
    from catchment.federation.measure.evaluation import Scores

log = logging.getLogger(__name__)
OWNER = "owner"
MOST_SEEN = 20  # recordings that are looked at for what was hardly meant
UNSAID = ("auto", "statistics", None, None, None)
M = TypeVar("M", bound=Predictor)
S = TypeVar("S")
R = TypeVar("R")


def fit(
    pipeline: Pipeline | FeatureMap | str,
    recordings: Iterable[Recording],
    *,
    ridge: Ridge = "auto",
    upload: Literal["statistics", "autocovariances"] = "statistics",
    classes: Sequence[str] | None = None,
    threads: int | None = None,
) -> Model:
    """Return the model that predicts one owner's targets from raw recordings.

    It has the readout that `federate` gives for a single client, to the bit.

    Parameters
    ----------
    pipeline
        A feature map such as `EchoState(200)`, its name if its settings are the usual ones, or a
        `Pipeline` that also says how recordings are prepared; gaps are held and channels scaled if
        it does not. "default" is good for most recordings; "auto" tries a few maps.
    recordings
        Raw, with targets.
    ridge
        A number; or "gcv", which "auto" is here: by generalized cross-validation.
    upload
        As of `federate`: "autocovariances" solves forecasts from those of the series.
    classes
        Names of the outputs if they are classes; those of the recordings if not given.
    threads
        All cores if None; the result does not depend on it.

    >>> import numpy as np
    >>> from catchment import EchoState
    >>> u = np.sin(np.arange(400) / 5)
    >>> model = fit(EchoState(50, seed=1, washout=50), [Recording(u[:-1], u[1:])])
    >>> bool(np.abs(model.predict(u[:200])[:, 0] - u[51:201]).max() < 1e-3)
    True
    """
    check_type(upload, Literal["statistics", "autocovariances"], "upload")
    held = recordings if isinstance(recordings, Sequence) else list(recordings)
    _remark([] if classes is not None else [list(held[:MOST_SEEN])])
    if ridge == "leave-one-client-out" or ridge == "leave-one-group-out":
        raise ValueError(
            'one owner has no clients to leave out; pass ridge="gcv" or a number, or use federate'
        )
    described = as_pipeline(pipeline, Preprocessing())
    if upload == "autocovariances":
        from catchment.federation.learn.yule_walker import fit_lags

        first_recording(OWNER, held)
        return fit_lags(described, held, ridge="auto" if ridge == "gcv" else ridge)
    names = tuple(classes) if classes is not None else first_recording(OWNER, held).classes
    return learn(
        described,
        held if names is None else [one.among(names) for one in held],
        ridge="gcv" if ridge == "auto" else ridge,
        classes=names,
        threads=threads,
    )


def _remark(clients: Iterable[object]) -> None:
    """Warn of recordings that are hardly what was meant: of one step, or with unnamed classes."""
    some: list[Recording] = []
    for held in clients:
        if isinstance(held, list | tuple):
            some += held[: MOST_SEEN - len(some)]
        if len(some) == MOST_SEEN:
            break
    longest, named, targets = 0, False, []
    for one in some:
        if not isinstance(one, Recording) or one.y is None or one.per_step:
            return
        longest, named = max(longest, len(one.u)), named or bool(one.classes)
        targets.append(one.y)
    if len(targets) < 2:
        return
    if longest == 1:
        warnings.warn(
            "every recording has one step, so that nothing changes in time; a recording is all "
            "rows (T, I) of one measurement",
            stacklevel=3,
        )
    if not named and len({*map(np.shape, targets)}) == 1:
        y = np.stack(targets)
        if are_classes(y) and len(np.unique(y, axis=0)) > 1:
            warnings.warn(
                f"targets look like classes, one of {y.shape[1]} each, and are learned as numbers; "
                'if they are classes, name them: classes=("walk", "sit", ...)',
                stacklevel=3,
            )


@dataclass(frozen=True, eq=False)
class Run:
    """What came of a federation: the model, the records of every round, and the state behind it.

    Its ledger (who sent what, how large, with which hash) is `kept` in the folder that `out` named,
    or else `held` by stage.
    """

    workflow: Workflow
    known: StageInputs
    training: Result[Any, Any]
    stages: Mapping[str, tuple[Record, ...]]
    kept: RunFolder | None = None
    held: Mapping[str, tuple[Result[Any, Any], EntryList]] = field(default_factory=dict)
    columns: Mapping[str, str] = field(default_factory=dict)
    map_note: str = ""
    adaptable: bool = False

    @property
    def folder(self) -> Path | None:
        """Where the run is kept, if `out` named a folder."""
        return None if self.kept is None else self.kept.folder

    @property
    def maps_tried(self) -> Mapping[str, float]:
        """NRMSE on left-out clients of every map that was tried, the best first; or nothing."""
        return map_scores(self.map_facts())

    def map_facts(self) -> dict[str, str]:
        """Return what is kept of a choice among maps, if there was one."""
        return map_facts(self.training.plan.algorithm.kept(self.training.state), self.map_note)

    @property
    def result(self) -> Any:
        """What the algorithm makes: mostly a `Model`."""
        return self.training.result

    @property
    def model(self) -> Model:
        """The model; FederationError if the algorithm makes no single one."""
        made = self.training.model
        made = made.read_from(self.columns) if self.columns else made
        if not self.adaptable:
            return made
        from catchment.federation.measure.baselines import with_sums

        return with_sums(made, self.training.state)

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
        from catchment.report.html import write_report

        return write_report([self._described(scores)], path)

    def _described(self, scores: Scores | None = None) -> RunFolder:
        """Return what is kept of the run and what a report shows beside, with scores if given."""
        if scores is None and self.kept is not None:
            return self.kept
        with RunFolder() if self.kept is None else self.kept.copied() as copy:
            for stage, (result, notes) in self.held.items():
                keeper = copy.keeper(stage, result.plan)
                for entries in (*notes.many, Entries.of(notes.entries)):
                    keeper.note_all(entries)
                for record in result.records:
                    keeper.close_round(result.state, record)
            self.describe_in(copy, scores)
        return copy

    def describe_in(self, store: RunFolder, scores: Scores | None = None) -> None:
        """Keep the facts and tables that a report shows beside the messages."""
        plan, classes = self.training.plan, self.workflow.classes
        write_results(store, plan.algorithm.kept(self.training.state), scores, classes)
        n_clients = max((record.n_used for record in self.records), default=0)
        described = ", ".join(type(one).__name__ for one in self.workflow.maps)
        result, maps = self.training.result, self.known.maps
        # Those of the workflow where what was learned has none.
        maps = (result.features,) if isinstance(result, Model) else maps
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
            "map_label": ", ".join({label_of(one) for one in maps}),
        } | self.map_facts()
        store.write_facts(facts)


class EngineOptions(TypedDict, total=False):
    """Where and how clients are asked; `federate` says what each of these is."""

    threads: int | None
    workers: int | Workers | None
    memories: dict[str, Memory] | None
    units: Mapping[str, str] | str
    watch: Watch | None


class Options(EngineOptions, total=False):
    """The same, and what a plan says itself."""

    min_clients: int
    limits: Limits
    seed: int
    row_stride: int
    adaptable: bool
    deliver: bool


@overload
def federate(
    what: Plan[S, Any, R],
    clients: Mapping[str, AnySource],
    *,
    out: str | Path | None = None,
    **options: Unpack[EngineOptions],
) -> Result[S, R]: ...


@overload
def federate(
    what: Pipeline | FeatureMap | str,
    clients: Mapping[str, AnySource],
    *,
    protections: Sequence[Protection] = (),
    ridge: Ridge = "auto",
    upload: Upload = "statistics",
    classes: Sequence[str] | None = None,
    head: Head | None = None,
    onto: Run | None = None,
    out: str | Path | None = None,
    **options: Unpack[Options],
) -> Run: ...


def federate(
    what: Plan[Any, Any, Any] | Pipeline | FeatureMap | str,
    clients: Mapping[str, AnySource],
    *,
    protections: Sequence[Protection] = (),
    ridge: Ridge = "auto",
    upload: Upload = "statistics",
    classes: Sequence[str] | None = None,
    head: Head | None = None,
    onto: Run | None = None,
    out: str | Path | None = None,
    **options: Unpack[Options],
) -> Run | Result[Any, Any]:
    """Return what clients learn together; their recordings stay with them.

    Parameters
    ----------
    what
        A feature map such as `EchoState(200)`, its name if its settings are the usual ones, a
        `Pipeline` that also says how recordings are prepared, or a `Plan` of any algorithm, which
        is run as it is and says the rest itself. "default" is good for most recordings; "auto"
        tries a few maps in one upload, as large as all of theirs, and takes the one with the least
        error on clients left out.
    clients
        By name: raw recordings; a function that returns them when the client is asked, so that
        only the clients being served are in memory; or a `EdgeClient`, which has its own and is
        sent the readout in the end.
    protections
        Changes to what leaves a client, in this order, such as `SecureAggregation(keys)` with
        `keys = generate_keys(clients)`.
    ridge
        A number; "leave-one-client-out", the one with the least error on clients left out of the
        solution; "leave-one-group-out", the same with 32 groups of clients, whose sums are kept in
        the place of each client's; "gcv", which needs only the sum; or "auto": the first where
        there are several, the server sees them one by one and no class is one client's alone, of
        more than 1000 clients the second on the same terms, else "gcv".
    upload
        What clients send: "statistics"; or "auto", the same numbers in fewer where a client has
        fewer rows than features, and `.upload` says why; "autocovariances", for forecasts of long
        series by `NVAR(336, order=1)`, a few kilobytes (`FederatedYuleWalker`); or another
        algorithm that makes a readout of features, such as `ConjugateGradients` of
        catchment-research.
    classes
        Names of the outputs if they are classes; those of the recordings if not given, and to be
        given if all clients are devices.
    min_clients
        Fewest answers with which a round may end.
    limits
        How much one client may claim, and how many must be usable. A client that is refused is
        named in a `RefusedClientsWarning` and in `.refused`.
    seed
        Names the algorithm's own draws; a map has its own.
    threads
        All cores if None; the result does not depend on it.
    workers
        Processes for many small clients, in blocks of 256; this process alone if None or 1. The
        result does not depend on it.
    memories
        What each client remembers between messages, its private key for secure aggregation
        included; if not given, what the keys of secure aggregation hold.
    units
        What clients' data are called in the ledgers that they keep of secure aggregation, one name
        for all or by client. Data of one name are one unit: without noise they go into sums with
        one set of clients and must not change. What is new since then has a name of its own, "week
        2".
    watch
        Called with (round, clients done, clients asked) as replies come in.
    out
        A folder to keep the run in, as `catchment run` does: its ledger, states and model. It must
        not hold another run.
    row_stride
        Learn from every `row_stride`-th row of a recording only, where every step has a row.
    head
        Another way from the same sums to class scores, such as `LDA()`, which is linear
        discriminant analysis; ridge regression on one-hot targets if not given.
    adaptable
        Whether the model carries the sum of all statistics, so that it can learn a new owner
        without labels: `run.model.adapt(recordings)`. Whoever has it can read the sum.
    deliver
        Whether clients are sent all that the run of a plan file sends, to be counted: what is
        settled with every request, and in the end the model, `.stages["delivery"]`. Nothing that is
        learned changes, and devices are sent the model in any case.
    onto
        An earlier run to whose sums these clients' are added: the model is that of all of them,
        and nobody of the earlier run is asked again. Its map and its preparation, as fitted then,
        stay; clients may bring new classes.

    >>> import numpy as np
    >>> from catchment import EchoState
    >>> waves = {w: np.sin(np.arange(300) / w) for w in (4.0, 5.0, 6.0)}
    >>> clients = {f"wave-{w}": [Recording(u[:-1], u[1:])] for w, u in waves.items()}
    >>> run = federate(EchoState(50, washout=50), clients)
    >>> run.records[0].n_used, run.model.predict(waves[4.0]).shape
    (3, (250, 1))
    """
    for name in options.keys() - Options.__optional_keys__:
        raise TypeError(f"federate has no argument {name!r}")
    devices_of(clients)
    check_client_names(clients)
    if isinstance(what, Plan):
        said = (*protections, ridge, upload, classes, head, onto)
        return _run_plan(what, clients, out, options, said)
    pipeline = as_pipeline(what, Preprocessing())
    shared = shared_by(clients, pipeline.preprocessing, classes)
    if classes is None and not isinstance(clients, LazyClients):
        _remark(clients.values())
    names = tuple(classes) if classes is not None else shared.classes
    columns = clients.columns if isinstance(clients, Clients | LazyClients) else {}
    earlier: RidgeState | None = None
    if onto is not None:
        names = names if classes is not None else all_classes(onto.workflow.classes, clients)
        earlier = _sums_of(onto, names, clients)
    shared = replace(shared, classes=names)
    asked = (protections, ridge, upload, head)
    workflow, note = _described(pipeline, shared, len(clients), *asked, earlier, options)
    if onto is not None:
        workflow = _continued(workflow, onto, out)
    engines = _local(placed(clients, names, workflow), protections, options)
    with nullcontext() if out is None else RunFolder(out) as folder:
        known, training = workflow.run(engines, folder, onto=earlier)
        kept = (engines.records, folder, engines.held, columns, note)
        made = Run(workflow, known, training, *kept, options.get("adaptable", False))
        if note or len(workflow.maps) > 1:
            log.info("%s", map_sentence(made.map_facts()))
        if engines.others[DELIVERY]:  # devices, or all
            _deliver(made, engines)
        if folder is not None:
            made.describe_in(folder)
            folder.save_model(made.model)
    warn_of(engines.records)
    return made


def _run_plan(
    plan: Plan[S, Any, R],
    clients: Mapping[str, AnySource],
    out: str | Path | None,
    options: Mapping[str, Any],
    said: tuple[object, ...],
) -> Result[S, R]:
    """Return what a plan of any algorithm gives, kept in a folder if there is one."""
    if said != UNSAID or options.keys() - EngineOptions.__optional_keys__:
        raise ValueError(
            "a plan says protections, ridge, upload, classes and limits itself; pass a map or "
            "a pipeline with these, or the plan alone"
        )
    with nullcontext() if out is None else RunFolder(out) as folder:
        keeper = None if folder is None else folder.keeper(TRAINING, plan)
        done = run_locally(plan, clients, keeper=keeper, **options)
        if folder is not None:
            kept, name = plan.algorithm.kept(done.state), type(plan.algorithm).__name__
            write_results(folder, kept, None, None)
            about = {"title": f"{len(clients)} clients, {name}", "algorithm": name}
            about |= {"source": "recordings in Python", "train_clients": str(len(clients))}
            folder.write_facts(about | {"plan_fingerprint": plan.fingerprint(), "finished": "yes"})
            if isinstance(done.result, Predictor):
                folder.save_model(done.result)
    warn_of({TRAINING: done.records})
    return done


def evaluate(
    model: Predictor,
    clients: Mapping[str, Source],
    *,
    threads: int | None = None,
    device: str | None = None,
    workers: int | Workers | None = None,
) -> Scores:
    """Return how well a model does on each client's raw recordings, and on all together.

    A forecast that the last value, or that of a season before, outdoes comes with a warning.

    Parameters
    ----------
    model
        A `Model`, or whatever else predicts from raw recordings.
    clients
        By name: recordings with targets, or a function that returns them.
    threads
        All cores if None; the result does not depend on it.
    device
        "cuda", or "cuda:1", to predict on a GPU, the recordings of many clients together; outputs
        agree with the CPU's to 1e-9. If None, what CATCHMENT_DEVICE names for a map in fixed point.
    workers
        Processes for many small clients, as of `federate`.

    >>> import numpy as np
    >>> from catchment import EchoState
    >>> u = np.sin(np.arange(400) / 5)
    >>> model = fit(EchoState(50, washout=50), [Recording(u[:-1], u[1:])])
    >>> evaluate(model, {"later": [Recording(u[100:-1], u[101:])]}).total.value < 0.001
    True
    """
    from catchment.federation.measure.evaluation import Evaluation

    devices_of(clients)  # refuses what is no mapping
    plan = Plan(algorithm=Evaluation(model_under_test=model, device=device))
    done = run_locally(plan, placed(clients, model.classes), threads=threads, workers=workers)
    warn_of({EVALUATION: done.records})
    own: Any = done.result.total
    if own is not None and not own.errors.n:
        raise ValueError("no row of these clients has a known target; pass some to compare with")
    if own is not None and model.preprocessing.horizon is not None:
        from catchment.engine.contenders import naive_scores

        naive = {one.value: name for name, one in naive_scores(model, clients).items()}
        if naive and own.value > min(naive):
            warnings.warn(
                f"the forecast (NRMSE {own.value:.3g}) is no better than the {naive[min(naive)]} "
                f"({min(naive):.3g}); try longer recordings, another map, or use the naive one",
                stacklevel=2,
            )
    return done.result


def calibrate(
    model: M | Run,
    clients: Mapping[str, Source],
    *,
    cuts: Sequence[float] = (),
    rows: int | None = None,
    protections: Sequence[Protection] = (),
    seed: int = 0,
    threads: int | None = None,
) -> M:
    """Return the model with intervals, whose coverage comes from errors that clients counted.

    `Model.interval(outputs, coverage)` then uses them at any coverage, and so does `catchment
    predict`; they are saved with the model. Everything that leaves a client is how many of its
    errors lie in each bin, one round.

    Parameters
    ----------
    model
        What predicts numbers. A model is calibrated on clients that it did not learn from. A `Run`
        is calibrated on the clients that trained it, each by the readout of all others' sums, which
        the server makes from what it has, 32 groups of clients left out in turn.
    clients
        By name: recordings with targets, or a function that returns them.
    cuts
        Increasing outputs that divide them into bands, each with a width of its own: where errors
        grow with what is predicted, one width is too wide at one end and too narrow at the other.
    rows
        How many rows are drawn of each client. With 1, the coverage is promised for a row drawn of
        a new client; with all rows, which is what None means, it is that of most rows, about.
    protections
        Changes to what leaves a client, such as `SecureAggregation(keys)`.
    seed
        Names the rows that are drawn.
    threads
        All cores if None; the result does not depend on it.

    >>> import numpy as np
    >>> from catchment import NVAR, Recording, federate
    >>> rng = np.random.default_rng(0)
    >>> def machine():
    ...     wear = np.cumsum(rng.random(60))
    ...     return [Recording(wear + rng.normal(size=60), np.arange(60.0)[::-1])]
    >>> train, others = ({f"m{k}": machine() for k in range(n)} for n in (20, 40))
    >>> model = calibrate(federate(NVAR(3, order=1), train).model, others)
    >>> low, high = model.interval(model.predict(machine()[0]), coverage=0.9)
    >>> left = np.arange(60.0)[::-1, None]
    >>> bool(0.8 < np.mean((low <= left) & (left <= high)) <= 1.0)
    True
    """
    from catchment.federation.learn.yule_walker import YuleWalkerState
    from catchment.federation.measure.evaluation import Calibration, readouts_without_each

    known: Any = model.model if isinstance(model, Run) else model
    edges = tuple(error_edges(known.deviation).tolist())
    left_out = {}
    if isinstance(model, Run):
        state = model.training.state
        if not isinstance(state, RidgeState | YuleWalkerState):
            raise FederationError(
                f"{type(state).__name__} keeps no statistics by client; calibrate run.model on "
                "clients that did not train"
            )
        if state.by_client and (others := sorted(set(state.by_client) ^ set(clients))):
            raise ValueError(
                f"the run was trained by other clients than these, such as {others[0]!r}; pass "
                "those who trained, or run.model with clients that did not"
            )
        left_out = readouts_without_each(model.training)
    algorithm = Calibration(
        model=known, edges=edges, cuts=tuple(cuts), rows=rows, left_out=left_out
    )
    plan = Plan(algorithm=algorithm, protections=tuple(protections), seed=seed)
    made: M = known.changed(intervals=run_locally(plan, clients, threads=threads).result)
    return made


def _described(
    pipeline: Pipeline,
    shared: Shared,
    n_clients: int,
    protections: Sequence[Protection],
    ridge: Ridge,
    upload: Upload,
    head: Head | None,
    earlier: RidgeState | None,
    options: Options,
) -> tuple[Workflow, str]:
    """Return the workflow, and why a choice among maps was not made if it was asked for."""
    stride, prepare = options.get("row_stride", 1), pipeline.preprocessing
    hidden = any(map(attrgetter("hides"), protections))
    noisy = any(map(attrgetter("is_noise"), protections))
    check_type(upload, Upload, "upload")
    if hidden and ridge == "leave-one-group-out":
        raise ValueError(UNGROUPED)
    beside = {"row_stride": stride != 1, "head": head is not None, "onto": earlier is not None}
    channels = shared.channels if isinstance(shared.channels, int) else len(shared.channels)
    told: dict[str, Any] = {"per_step": shared.per_step, "n_inputs": prepare.n_inputs(channels)}
    if not (callable(upload) or upload == "autocovariances"):
        remedy = "pass upload=ConjugateGradients of catchment-research, "
        named = shared.classes is not None
        refuse_large(pipeline.known_map, **told, classes=named, remedy=remedy)
    told |= {"hidden": hidden, "noisy": noisy, "n_clients": n_clients}
    offered = offered_maps(pipeline.known_map, **told, ahead=prepare.horizon is not None)
    _refuse_beside(offered, ridge, upload, beside)
    if options.get("adaptable"):
        refuse_adapting(shared.classes, noisy=noisy, another=beside["head"] or callable(upload))
    if earlier is not None:
        # Where some are known only as a sum, nobody can be left out of it.
        hidden = hidden or not (earlier.by_client or earlier.by_group)
        # Nobody can be taken out of a group again: who comes after goes into groups, too.
        n_clients += len(earlier.by_client) or (MANY if earlier.by_group else 0)
    known: dict[str, Any] = {"classes": shared.classes, "ridge": ridge, "n_clients": n_clients}
    known |= {"hidden": hidden, "head": head, "row_stride": stride}
    smallest = upload == "auto" and not protections and not offered.several
    return Workflow(
        preprocessing=prepare,
        maps=offered.maps,
        learn=partial(_learner, upload, prepare, known),
        channels=shared.channels,
        classes=shared.classes,
        per_step=shared.per_step,
        min_clients=options.get("min_clients", 1),
        limits=options.get("limits", LIMITS),
        protections=(LowRankUpload(),) if smallest else tuple(protections),
        seed=options.get("seed", 0),
    ), offered.note


def _refuse_beside(
    offered: Offered, ridge: Ridge, upload: Upload, beside: Mapping[str, bool]
) -> None:
    """Raise ValueError for what does not go with an upload, or with a choice among maps."""
    if (callable(upload) or upload == "autocovariances") and any(beside.values()):
        raise ValueError(
            f"{getattr(upload, '__name__', upload)} leaves no sum of statistics for another head, "
            "a row_stride or to join an earlier run; use upload='statistics'"
        )
    if offered.several:
        given = {"ridge": ridge not in ("auto", "leave-one-client-out")}
        given |= {"upload": upload != "statistics", **beside}
        refuse_settings([name for name, is_given in given.items() if is_given])


def _learner(
    upload: Upload, prepare: Preprocessing, settings: dict[str, Any], maps: Maps
) -> Algorithm[Any, Any, Any]:
    classes = settings["classes"]
    if len(maps) > 1:
        from catchment.federation.learn.candidates import Candidates

        chosen = auto_choice(classes, settings["n_clients"])
        return Candidates(features=maps, classes=classes, **chosen)
    given: dict[str, Any] = {} if settings["ridge"] == "auto" else {"ridge": settings["ridge"]}
    if callable(upload):
        return upload(features=maps[0], classes=classes, **given)
    if upload == "autocovariances":
        from catchment.federation.learn.yule_walker import FederatedYuleWalker

        given |= {"preprocessing": prepare, "store_per_client": not settings["hidden"]}
        return FederatedYuleWalker(features=maps[0], **given)
    return automatic_ridge(maps[0], **settings)


def _local(
    clients: Mapping[str, AnySource], protections: Sequence[Protection], options: Options
) -> LocalClients:
    """Return the clients of this process, with those who are sent the model."""
    memories, watch = options.get("memories"), options.get("watch")
    as_in_plans = options.get("deliver", False)
    if memories is None:
        memories = protections[-1].memories if protections else {}
    return LocalClients(
        clients=clients,
        others={DELIVERY: clients if as_in_plans else devices_of(clients)},
        threads=options.get("threads"),
        workers=options.get("workers"),
        memories=memories,
        units=options.get("units", ALL),
        watch=None if watch is None else lambda _, *counts: watch(*counts),
        telling=as_in_plans,
    )


def _deliver(made: Run, engines: LocalClients) -> None:
    """Send the model to whom it is for; who does not take it is named."""
    from catchment.federation.workflow import Delivery, InMemory

    algorithm = Delivery.of(InMemory(to_bytes(made.model)))
    plan = Plan(algorithm=algorithm, limits=replace(made.workflow.limits, min_usable=0.0))
    known = replace(made.known, maps=(), model=algorithm.sha256)  # a model brings its own
    try:
        engines.run(DELIVERY, plan, known, made.kept)
    except TooFewClientsError as error:
        warnings.warn(f"no client has the model: {error}", RefusedClientsWarning, stacklevel=3)


def _sums_of(onto: Run, names: tuple[str, ...] | None, clients: Iterable[str]) -> RidgeState:
    """Return the sums of an earlier run, in columns of these classes, for clients not in it."""
    from catchment.federation.learn.unlearning import among, refuse_twice

    earlier = among(onto.training.state, onto.workflow.classes, names)
    refuse_twice(earlier, clients)
    return earlier


def _continued(workflow: Workflow, onto: Run, out: object) -> Workflow:
    """Return the workflow with the map and the preparation of an earlier run."""
    if out is not None:
        raise ValueError(
            "a folder holds the messages of everybody in its sum, and those of the earlier run are "
            "not here; leave out `out`, and save the model"
        )
    if not workflow.agrees(TRAINING, onto.known):
        raise ValueError(
            "the earlier run has another feature map or another preparation; pass the same, with "
            "the same settings"
        )
    assert onto.known.preprocessing is not None
    return replace(workflow, preprocessing=onto.known.preprocessing, maps=onto.known.maps)
