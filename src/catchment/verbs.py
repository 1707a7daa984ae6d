"""Three verbs: `fit` for one owner, `federate` for many, `evaluate` for either.

They, scikit-learn's estimators and plan files take the same steps: fit the scale, sum statistics,
solve. The same settings on the same clients therefore give the same readout to the bit; and with
nothing set they share the same defaults: recordings have their gaps held and their channels scaled,
the pool follows the kind of target, and the ridge is the one with the least error on clients left
out, or by generalised cross-validation where there is one client or only a sum.
"""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from shutil import copytree, ignore_patterns
from tempfile import TemporaryDirectory
from typing import Any, TypeVar, overload

from catchment.data.clients import Clients
from catchment.data.prepare import Prepare
from catchment.data.recording import Recording
from catchment.engine.local import Source, data_of, run_locally
from catchment.errors import FederationError
from catchment.features.labels import label_of
from catchment.features.pipeline import AnyMap, Pipeline, as_pipeline
from catchment.federation.client_names import check_client_names
from catchment.federation.course import EVALUATION, TRAINING, Course, Known, Maps, conduct
from catchment.federation.learn.automatic import Ridge
from catchment.federation.learn.automatic_maps import offered_maps, refuse_settings
from catchment.federation.learn.candidates import Candidates
from catchment.federation.learn.joining import Beginning, among, refuse_twice
from catchment.federation.learn.ridge import RidgeState
from catchment.federation.learn.uploads import UploadKind, Uploads
from catchment.federation.left_out import LeftOut, left_out, warn_of
from catchment.federation.limits import LIMITS, Limits
from catchment.federation.loop import Keeper, Record, Result, Watch
from catchment.federation.measure.evaluation import Evaluation, Scores, metrics
from catchment.federation.plan import Learner, Masking, Memory, Plan, Protection
from catchment.federation.runs.maps import map_facts, map_scores, map_sentence
from catchment.federation.runs.notes import Notes
from catchment.federation.runs.tables import write_flags, write_path, write_rows, write_scores
from catchment.federation.runs.write import Store
from catchment.files import replace_file
from catchment.privacy.dp.noise import GaussianNoise
from catchment.privacy.secure_sum.protection import memories_of
from catchment.readout.class_columns import united
from catchment.readout.heads import Head
from catchment.readout.model import Model
from catchment.readout.one_owner import has_target_per_step, learn
from catchment.readout.predictor import Predictor
from catchment.readout.statistics import RidgeStatistics

log = logging.getLogger(__name__)
OWNER = "owner"
S = TypeVar("S")
R = TypeVar("R")


@dataclass(frozen=True, eq=False)
class Run:
    """What came of a federation: the model, the records of every round, and the state behind it.

    `folder` is where the run is kept if `out` named one. Otherwise its ledger (who sent what, how
    large, with which hash) is in memory, and `explain` and `report` write a folder for as long as
    they need it.
    """

    course: Course
    known: Known
    training: Result[Any, Any]
    stages: Mapping[str, tuple[Record, ...]] = field(default_factory=dict)
    notes: Notes = field(default_factory=Notes)
    folder: Path | None = None
    columns: Mapping[str, str] = field(default_factory=dict)
    map_note: str = ""

    @property
    def maps_tried(self) -> Mapping[str, float]:
        """NRMSE on clients left out of every map that was tried, the best first; or nothing."""
        return map_scores(self._map_facts())

    def _map_facts(self) -> dict[str, str]:
        return map_facts(self.training.plan.whole.kept(self.training.state), self.map_note)

    def _log_map(self) -> None:
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
    def refused(self) -> tuple[LeftOut, ...]:
        """The clients that a stage did without, and why."""
        return left_out(self.stages)

    @property
    def upload(self) -> str:
        """In one sentence: what clients sent, and why that."""
        return self.course.upload(self.known)

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
        >>> from catchment import EchoState
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

        with self._kept() as folder:
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

        with self._kept(scores) as folder:
            replace_file(Path(path), render([read_run(folder)]).encode())
        return Path(path)

    @property
    def _features(self) -> Maps:
        """The map of the model, or those of the course where what was learned has none."""
        result = self.training.result
        return (result.features,) if isinstance(result, Model) else self.known.maps

    @contextmanager
    def _kept(self, scores: Scores | None = None) -> Iterator[Path]:
        """Yield a folder that holds the run, with these scores if any are given."""
        if self.folder is not None and scores is None:
            yield self.folder
            return
        with TemporaryDirectory(prefix="catchment-run-") as place:
            kept = Path(place) / "run"
            if self.folder is not None:
                copytree(self.folder, kept, ignore=ignore_patterns("states"))
            with Store(kept, resume=True) as store:
                if self.folder is None:
                    self.notes.write(store)
                self._describe(store, scores)
            yield kept

    def _describe(self, store: Store, scores: Scores | None = None) -> None:
        """Keep the facts and tables that a report shows beside the messages."""
        plan, classes = self.training.plan, self.course.classes
        kept = plan.whole.kept(self.training.state)
        write_rows(store, kept)
        write_flags(store, kept)
        write_path(store, kept, classes)
        n_clients = max((record.n_used for record in self.records), default=0)
        described = ", ".join(type(one).__name__ for one in self.course.maps)
        facts = {
            "title": f"{n_clients} client{'' if n_clients == 1 else 's'}, {described}",
            "algorithm": plan.whole.name,
            "source": "recordings in Python",
            "classes": json.dumps(classes),
            "train_clients": str(n_clients),
            "test_clients": str(len(scores.by_client) if scores else 0),
            "plan_fingerprint": plan.fingerprint(),
            "finished": "yes",
            "upload": self.upload,
            "map_label": ", ".join({label_of(one) for one in self._features}),
        } | self._map_facts()
        if scores is not None and scores.total is not None:
            write_scores(store, scores, classes)
            facts["metric"] = metrics(scores.total)[0][0]
        store.write_facts(facts)


def fit(
    pipeline: Pipeline | AnyMap | str,
    recordings: Iterable[Recording],
    *,
    ridge: Ridge = "auto",
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
        A number; or "gcv", which "auto" is here: by generalised cross-validation.
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
    held = recordings if isinstance(recordings, Sequence) else list(recordings)
    if ridge == "clients":
        raise ValueError(
            'one owner has no clients to leave out; pass ridge="gcv" or a number, or use federate'
        )
    names = tuple(classes) if classes is not None else _first_recording({OWNER: held}).classes
    return learn(
        as_pipeline(pipeline, Prepare()),
        held if names is None else [one.among(names) for one in held],
        ridge="gcv" if ridge == "auto" else ridge,
        classes=names,
        threads=threads,
    ).model


@overload
def federate(
    what: Plan[S, Any, R],
    clients: Mapping[str, Source],
    *,
    threads: int | None = None,
    memories: dict[str, Memory] | None = None,
    watch: Watch | None = None,
) -> Result[S, R]: ...


@overload
def federate(
    what: Pipeline | AnyMap | str,
    clients: Mapping[str, Source],
    *,
    protect: Sequence[Protection | Masking] = (),
    ridge: Ridge = "auto",
    upload: UploadKind = "auto",
    classes: Sequence[str] | None = None,
    min_clients: int = 1,
    limits: Limits = LIMITS,
    seed: int = 0,
    threads: int | None = None,
    memories: dict[str, Memory] | None = None,
    watch: Watch | None = None,
    out: str | Path | None = None,
    head: Head | None = None,
    onto: Run | None = None,
) -> Run: ...


def federate(
    what: Plan[Any, Any, Any] | Pipeline | AnyMap | str,
    clients: Mapping[str, Source],
    *,
    protect: Sequence[Protection | Masking] = (),
    ridge: Ridge = "auto",
    upload: UploadKind = "auto",
    classes: Sequence[str] | None = None,
    min_clients: int = 1,
    limits: Limits = LIMITS,
    seed: int = 0,
    threads: int | None = None,
    memories: dict[str, Memory] | None = None,
    watch: Watch | None = None,
    out: str | Path | None = None,
    head: Head | None = None,
    onto: Run | None = None,
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
        By name: raw recordings, or a function that returns them when the client is asked, so that
        only the clients being served are in memory.
    protect
        Changes to what leaves a client, in this order, such as `SecureSum(keys)` with
        `keys = make_identities(clients)`.
    ridge
        A number; "clients", the one with the least error on clients left out of the solution;
        "gcv", which needs only the sum; or "auto": "clients" where there are several, the server
        sees them one by one and no class is one client's alone, else "gcv".
    upload
        What clients send, all of it exact: "statistics"; "smallest", the same numbers in fewer
        where a client has fewer rows than features; "gradients", over rounds, for very many
        features; or "auto", the cheapest, and `.upload` says why.
    classes
        Names of the outputs if they are classes; those of the recordings if not given.
    min_clients
        Fewest answers with which a round may end.
    limits
        How much one client may claim, and how many must be usable. A client that is refused is
        named in a `RefusedClientsWarning` and in `.refused`.
    seed
        Names the algorithm's own draws; a map has its own.
    threads
        All cores if None; the result does not depend on it.
    memories
        What each client remembers between messages, its private key for secure sums included; if
        not given, what the keys of a secure sum hold.
    watch
        Called with (round, clients done, clients asked) as replies come in.
    out
        A folder to keep the run in, as `catchment run` does: its ledger, states and model. It must
        not hold another run.
    head
        Another way from the same sums to class scores, such as `Gaussian()`, which is linear
        discriminant analysis; ridge regression on one-hot targets if not given.
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
    if not clients:
        raise ValueError("there are no clients; pass at least one")
    check_client_names(clients)
    if isinstance(what, Plan):
        told = (classes, out, head, onto)
        said = protect or ridge != "auto" or upload != "auto" or limits != LIMITS
        if said or any(one is not None for one in told):
            raise ValueError(
                "a plan says protections, ridge, upload, classes and limits itself, and "
                "run_locally takes a keeper for its folder; pass a map or a pipeline with these, "
                "or the plan alone"
            )
        done = run_locally(what, clients, threads=threads, memories=memories, watch=watch)
        warn_of({TRAINING: done.records})
        return done
    pipeline = as_pipeline(what, Prepare())
    prepare = pipeline.prepare
    shared = _shared(clients, prepare)
    columns = clients.columns if isinstance(clients, Clients) else {}
    names = tuple(classes) if classes is not None else shared.classes
    earlier: RidgeState | None = None
    if onto is not None:
        names = tuple(classes) if classes is not None else _all_classes(onto, clients)
        earlier = among(onto.training.state, onto.course.classes, names)
        refuse_twice(earlier, clients)
    clients = _placed(clients, names)
    uploads = Uploads(
        asked=upload,
        protected=bool(protect),
        hidden=any(isinstance(protection, Masking) for protection in protect),
        summed=head is not None or onto is not None,
        ridge=ridge,
        n_targets=shared.n_targets if names is None else len(names),
    )
    offered = offered_maps(
        pipeline.known_map,
        shared.channels if isinstance(shared.channels, int) else len(shared.channels),
        per_step=shared.per_step,
        hidden=uploads.hidden,
        noisy=any(isinstance(one, GaussianNoise) for one in protect),
        n_clients=len(clients),
    )
    if offered.several:
        given = {"ridge": ridge not in ("auto", "clients"), "upload": upload != "auto"}
        given |= {"head": head is not None, "onto": onto is not None}
        refuse_settings([name for name, is_set in given.items() if is_set])
    course = Course(
        prepare=prepare,
        maps=offered.maps,
        learn=_learning(uploads, names, len(clients), head, earlier),
        uploads=None if offered.several else uploads,
        channels=shared.channels,
        classes=names,
        per_step=shared.per_step,
        min_clients=min_clients,
        limits=limits,
        protections=tuple(protect) if offered.several else uploads.added_to(protect),
        seed=seed,
    )
    if onto is not None:
        course = _continued(course, onto, out)
    stages: dict[str, tuple[Record, ...]] = {}
    held = memories_of(protect) if memories is None else memories
    notes = Notes()

    def run_stages(store: Store | None) -> tuple[Known, Result[Any, Any]]:
        def run(stage: str, plan: Plan[Any, Any, Any], known: Known) -> Result[Any, Any]:
            keeper: Keeper[Any] = store.keeper(stage, plan) if store else notes.keeper(stage, plan)
            if earlier is not None:
                keeper = Beginning(keeper, earlier)
            result = run_locally(
                plan, clients, threads=threads, memories=held, watch=watch, keeper=keeper
            )
            stages[stage] = result.records
            return result

        return conduct(course, run)

    if out is None:
        made = Run(course, *run_stages(None), stages, notes, columns=columns, map_note=offered.note)
        made._log_map()
        warn_of(stages)
        return made
    with Store(out) as store:
        known, training = run_stages(store)
        made = Run(
            course, known, training, stages, notes, store.folder, columns, map_note=offered.note
        )
        made._log_map()
        made._describe(store)
        store.save_model(made.model)
    warn_of(stages)
    return made


def evaluate(
    model: Predictor, clients: Mapping[str, Source], *, threads: int | None = None
) -> Scores:
    """Return how well a model does on each client's raw recordings, and on all together.

    Parameters
    ----------
    model
        A `Model`, or whatever else predicts from raw recordings.
    clients
        By name: recordings with targets, or a function that returns them.

    >>> import numpy as np
    >>> from catchment import EchoState
    >>> u = np.sin(np.arange(400) / 5)
    >>> model = fit(EchoState(50, washout=50), [Recording(u[:-1], u[1:])])
    >>> evaluate(model, {"later": [Recording(u[100:-1], u[101:])]}).total.value < 0.001
    True
    """
    plan = Plan(algorithm=Evaluation(model_under_test=model))
    done = run_locally(plan, _placed(clients, model.classes), threads=threads)
    warn_of({EVALUATION: done.records})
    return done.result


def _learning(
    uploads: Uploads,
    classes: tuple[str, ...] | None,
    n_clients: int,
    head: Head | None = None,
    earlier: RidgeState | None = None,
) -> Any:
    hidden = uploads.hidden
    if earlier is not None:
        # Where some are known only as a sum, nobody can be left out of it.
        hidden = hidden or not earlier.by_client
        n_clients += len(earlier.by_client)

    def learn(maps: Maps) -> Learner[Any, Any, Any]:
        if len(maps) > 1:
            return Candidates(features=maps, classes=classes)
        return uploads.learner(
            maps[0], classes=classes, n_clients=n_clients, hidden=hidden, head=head
        )

    return learn


def _continued(course: Course, onto: Run, out: object) -> Course:
    """Return the course with the map and the preparation of an earlier run."""
    if out is not None:
        raise ValueError(
            "a folder holds the messages of everybody in its sum, and those of the earlier run are "
            "not here; leave out `out`, and save the model"
        )
    if not course.agrees(TRAINING, onto.known):
        raise ValueError(
            "the earlier run has another feature map or another preparation; pass the same, with "
            "the same settings"
        )
    assert onto.known.prepare is not None
    return replace(course, prepare=onto.known.prepare, maps=onto.known.maps)


def _all_classes(onto: Run, clients: Mapping[str, Source]) -> tuple[str, ...] | None:
    found = [_first_recording({name: clients[name]}).classes for name in _some(clients)]
    return united(onto.course.classes, *found) or None


def _placed(clients: Mapping[str, Source], classes: tuple[str, ...] | None) -> Mapping[str, Source]:
    """Return clients whose targets are in the columns of these classes, where they are named."""
    if classes is None:
        return clients

    def placed(source: Source) -> Iterator[Recording]:
        for recording in data_of(source)():
            yield recording.among(classes) if isinstance(recording, Recording) else recording

    return {name: partial(placed, source) for name, source in clients.items()}


LOOKED_AT = 9  # clients whose source is a function and is called to see what they have


@dataclass(frozen=True)
class _Shared:
    """What recordings of all clients have in common."""

    channels: tuple[str, ...] | int
    classes: tuple[str, ...] | None
    per_step: bool
    n_targets: int = 1


def _shared(clients: Mapping[str, Source], prepare: Prepare) -> _Shared:
    """Return what the first recordings of most clients have in common, whoever comes first.

    Those that cannot be read are left to the run, which names them.
    """
    found: Counter[_Shared] = Counter()
    failed: Exception | None = None
    for name in _some(clients):
        try:
            first = _first_recording({name: clients[name]})
            channels = first.channels or first.n_inputs
            per_step = has_target_per_step(prepare, first)
            n_targets = first.n_inputs if first.y is None else first.y.shape[-1]
            found[_Shared(channels, first.classes, per_step, n_targets)] += 1
        except Exception as error:
            failed = failed or error
    if failed is not None and not found:
        raise failed
    return min(found, key=lambda one: (-found[one], repr(one)))


def _some(clients: Mapping[str, Source]) -> list[str]:
    """Return the clients that are in memory, and some of the others, spread over all names."""
    names = sorted(clients)
    elsewhere = [name for name in names if callable(clients[name])]
    step = max(1, len(elsewhere) // LOOKED_AT)
    return [name for name in names if not callable(clients[name])] + elsewhere[::step]


def _first_recording(clients: Mapping[str, Source]) -> Recording:
    for name in sorted(clients):
        for recording in data_of(clients[name])():
            if not isinstance(recording, Recording):
                raise TypeError(
                    f"client {name} holds a {type(recording).__name__}; pass Recording(inputs, "
                    "targets)"
                )
            return recording
    raise ValueError("no client has a recording; pass at least one")
