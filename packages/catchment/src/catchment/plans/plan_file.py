"""A plan as its file has it, and the stages that it makes.

A plan whose run goes on: what is new since the last time is tested on, then learned from.

With increments = "new" in [learn] a finished run is not over: taken up again (`--resume`) in the
same folder, every client hands in what is new since then. What is new is predicted by the model of
the time before, first, so that every recording is tested on once, and by a model that has not seen
it. Clients keep what they carry in the run's folder, where all are in this process.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal
from urllib.parse import quote

from catchment.data.clients import Changed
from catchment.data.prepare import Prepare
from catchment.data.recording import Recording
from catchment.engine.local import Source, data_of
from catchment.features.base import FeatureMap, imported
from catchment.features.default_map import DefaultMap
from catchment.features.nvar import NVAR
from catchment.features.sizes import refuse_large
from catchment.federation.algorithm import Algorithm, Memory
from catchment.federation.checks import LIMITS, Limits
from catchment.federation.increments import unread
from catchment.federation.learn.automatic import Offered, Uploads, offered_maps, refuse_settings
from catchment.federation.learn.normal import FederatedNormal
from catchment.federation.learn.personal import PersonalIncrements, PersonalReadouts
from catchment.federation.learn.ridge import FederatedRidge
from catchment.federation.protection import Masking
from catchment.federation.runs.folder import CLIENTS, EARLIER, MODEL, PRIVATE, RunFolder, records_of
from catchment.federation.workflow import (
    DELIVERY,
    EVALUATION,
    TRAINING,
    Maps,
    Workflow,
)
from catchment.files import replace_file
from catchment.plans.data import About, Clients, Files, Origin, PlanData, Sharing, arrange
from catchment.plans.settings import (
    ALGORITHMS,
    MORE,
    PLASTICITY,
    PROTECTIONS,
    RESERVOIRS,
    WITHOUT_GRAM,
    Table,
    beside,
    chosen,
    made,
    map_of,
    own_classes,
    read,
    values,
    with_map,
)
from catchment.privacy.dp.budget import Budget
from catchment.privacy.dp.noise import GaussianNoise
from catchment.privacy.secure_sum.client_store import FileMemory
from catchment.readout.detector import ANOMALY, NORMAL
from catchment.readout.intervals import checked_cuts
from catchment.readout.predictor import Predictor
from catchment.readout.storage import load

NORMAL_PLAN = "normal"
HOW_OFTEN = ("rounds", "share", "min_clients", "limits", "seed")
WASHOUT = 50  # steps after which a reservoir is taken to have entered a recording
Baseline = Literal["random", "majority", "mean", "persistence", "autoregression", "local",
                   "averaging", "ensemble", "centralised", "personalised"]  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class RunSettings:
    """How often and with whom the algorithm is run, and what it is compared with.

    Parameters
    ----------
    rounds
        How many rounds; if not given, as many as the algorithm needs.
    share
        Fraction of the clients asked in each round.
    min_clients
        Fewest answers with which a round may end.
    limits
        What a round takes from one client; its settings are those of the same table.
    seed
        Names the draws of clients and the algorithm's own.
    baselines
        What to measure beside it; if not given, guesses: of classes random and majority, of
        forecasts persistence and a linear autoregression. "personalised" needs test_after in
        [data].
    lags
        How many inputs back the autoregression sees.
    intervals
        Whether those who trained count the errors of readouts without them, one more round, so that
        the model knows how wide an interval has to be; where numbers are predicted.
    bands
        Outputs, in their order, at which one width of intervals ends and another begins.
    """

    rounds: int | None = None
    share: float = 1.0
    min_clients: int = 1
    limits: Limits = LIMITS
    seed: int = 0
    baselines: tuple[Baseline, ...] | None = None
    lags: int = 10
    intervals: bool = False
    bands: tuple[float, ...] = ()


NOTHING_NEW = "nothing is new since the last time, and the run is as it was"
FIRST = "nothing came before the first time, so that no model could be tested on what is new"


@dataclass(frozen=True, eq=False)
class Week:
    """One time that a run goes on, counted from 1.

    Parameters
    ----------
    number
        Which time it is.
    new
        By client: the recordings that are new, and will be learned from.
    earlier
        The model of the time before.
    rounds
        By stage: how many rounds it had before.
    idle
        Why a finished run does not go on, in a sentence each; nothing if it does.
    """

    number: int = 1
    new: Mapping[str, list[Recording]] = field(default_factory=dict)
    earlier: Predictor | None = None
    rounds: Mapping[str, int] = field(default_factory=dict)
    idle: tuple[str, ...] = ()


def _growing(source: Source, *, goes_on: bool) -> list[Recording]:
    """Return a client's recordings, each with the name by which what is new is found."""
    found = list(data_of(source)())
    if any(not one.name for one in found):
        raise ValueError(
            "recordings have no names here, so that nobody could tell which are new; use files "
            'that are read whole, or leave out increments = "new"'
        )
    return [replace(one, goes_on=True) for one in found] if goes_on else found


def check_weeks(file: PlanFile) -> None:
    """Raise ValueError if a run of the plan could not go on."""
    if not file.carries:
        if file.sharing.test == "new":
            raise ValueError('test = "new" goes with increments = "new" in [learn]; add it')
        return
    if not isinstance(file.origin, Files):
        raise ValueError(f'increments = "new" is for files, and {file.source} does not grow')
    if file.sharing.test not in (None, "new") or file.sharing.test_of or file.sharing.split:
        raise ValueError(
            'with increments = "new" what is new is tested on before it is learned from; write '
            'test = "new" into [data], or nothing, and leave out test_of and split'
        )
    if file.run.rounds not in (None, 1):
        raise ValueError(
            f'rounds is {file.run.rounds} in [run]; with increments = "new" each time that the run '
            "goes on is one round: leave it out"
        )
    if file.is_noisy:
        raise ValueError(
            'gaussian_noise covers one release, and with increments = "new" every time is one '
            "more; leave one out"
        )
    if file.run.baselines:
        raise ValueError('baselines are of one training; leave them out with increments = "new"')


def refuse_weeks(file: PlanFile) -> None:
    """Raise ValueError if the plan's run goes on, for engines in which clients carry nothing."""
    if file.carries:
        raise ValueError(
            'increments = "new" goes on where all clients are in this process, and not on Flower; '
            "run it with --engine local, or leave increments out of [learn]"
        )


def own_kinds(file: PlanFile) -> list[type]:
    """Return the classes of one's own that the plan's map is made of."""
    return [imported(name) for name in own_classes(file.features)]


def weekly_memories(folder: Path, clients: list[str]) -> dict[str, Memory]:
    """Return what each client carries from time to time, in a folder of its own."""
    return {name: FileMemory(folder / CLIENTS / quote(name, safe="")) for name in clients}


def begin_week(
    store: RunFolder,
    about: About,
    train: Clients,
    memories: Mapping[str, Memory],
    *,
    use: Sequence[type] = (),
) -> Week:
    """Return what is new, with which a finished run goes on if there is anything.

    A run that was stopped goes on with the time that it was at.

    Parameters
    ----------
    use
        Classes of one's own that the model is made of.
    """
    facts = store.facts()
    number = int(facts.get("week", "1"))
    new, unreadable = dict[str, list[Recording]](), list[str]()
    for name, source in train.items():
        try:
            if found := unread(data_of(source)(), memories[name]):
                new[name] = found
        except Exception as error:  # whatever it is, the run names it with its reason
            unreadable.append(f"{name} cannot be read: {error}")
    if "finished" in facts:
        if not new:
            return Week(number, idle=(NOTHING_NEW, *unreadable))
        _refuse_others(about, facts)
        number += 1
        replace_file(store.folder / EARLIER, (store.folder / MODEL).read_bytes(), mode=PRIVATE)
        stages = (TRAINING, DELIVERY, EVALUATION)
        had = {stage: len(records_of(store.database, stage)) for stage in stages}
        store.go_on({"week": str(number), "rounds_before": json.dumps(had)})
        facts = store.facts()
    if number == 1:
        return Week(1, new)
    earlier = load(store.folder / EARLIER, use=use)
    return Week(number, new, earlier, json.loads(facts.get("rounds_before", "{}")))


def _refuse_others(about: About, facts: Mapping[str, str]) -> None:
    """Raise ValueError if the files have other channels or classes than when the run began."""
    now = {"classes": ("classes", about.classes), "channels": ("inputs", about.channels)}
    for name, (setting, found) in now.items():
        before = json.loads(facts.get(name, "null"))
        if before != (None if found is None else list(found)):
            raise ValueError(
                f"the files have the {name} {', '.join(found or ())} now, and the run was begun "
                f"with {', '.join(before or ())}; name all that may come as {setting} in "
                "[data] and begin anew (--force)"
            )


TESTED_UNDER_NOISE = (
    "gaussian_noise bounds what the training tells of a client, and exact scores on other data of "
    'the same client would tell more; write test_of = "clients" into [data], so that nobody who is '
    "tested has trained"
)


def check(file: PlanFile) -> None:
    """Raise ValueError if a setting is wrong, as far as can be told without the data."""
    if file.origin.has_targets and file.prepare.horizon is not None:
        raise ValueError(
            "[data] has a label or target, and [prepare] a horizon, which predicts the inputs "
            "instead; leave one out"
        )
    normal = file.algorithm == NORMAL_PLAN
    if normal:
        _check_normal(file)
    if not file.origin.has_targets and file.prepare.horizon is None and not normal:
        raise ValueError(
            'there is nothing to predict; write label = "column" or target = "column" into '
            "[data] or, to forecast the inputs, horizon = 1 into [prepare]"
        )
    if file.sharing.test == "folds" and file.run.baselines:
        raise ValueError(
            "baselines are measured on test clients, and folds keep none apart; leave out "
            "baselines, or give a share such as test = 0.25"
        )
    check_weeks(file)
    if "personalised" in (file.run.baselines or ()) and file.sharing.test_after == 0:
        raise ValueError("a personalised baseline needs test_after in [data]; try test_after = 0.5")
    if file.run.intervals or file.run.bands:
        _check_intervals(file)
    if file.plasticity and (file.candidates or file.map_name != "echo_state"):
        raise ValueError(
            '[plasticity] adapts one reservoir; use map = "echo_state" and leave out [[candidates]]'
        )
    # Built of tiny stand-ins: what is wrong with any setting shows now.
    classes = None if file.prepare.horizon is not None else _some_classes(file)
    channels = _some_channels(file)
    _ = file.course(About(channels, classes, per_step=classes is None or normal)).fingerprint
    if file.is_noisy:
        _check_noise(file, About(channels, classes))


def _check_normal(file: PlanFile) -> None:
    """Raise ValueError if what a plan says of its data has no meaning for what is normal."""
    if file.source == "narma" or (isinstance(file.origin, Files) and file.origin.target):
        raise ValueError(
            "[data] has a target of numbers, and what is normal is learned of the inputs; leave it "
            'out, or name a column of two labels, label = "..."'
        )
    if file.prepare.horizon is not None:
        raise ValueError(
            'horizon in [prepare] is for targets; write score = "error" and the horizon into '
            "[learn], which forecasts the inputs itself"
        )
    if file.run.baselines and not file.origin.has_targets:
        raise ValueError(
            "baselines are compared by labels, and [data] has none; leave them out, or name a "
            'column of two labels, label = "..."'
        )


def _check_intervals(file: PlanFile) -> None:
    """Raise ValueError if nobody could count errors of readouts without them."""
    if not file.run.intervals:
        raise ValueError("bands divide intervals; write intervals = true into [run], too")
    checked_cuts(file.run.bands)
    if file.prepare.horizon is None and _some_classes(file) is not None:
        raise ValueError(
            "intervals are of numbers, and [data] has a label: its classes have probabilities; "
            "leave intervals out of [run]"
        )
    several = bool(file.candidates) or file.map_name == "auto"
    if file.algorithm != "ridge" or several or file.protect:
        raise ValueError(
            "intervals are made from every client's own statistics, which only a ridge with one "
            "map and without protections leaves to the server; leave intervals out of [run], and "
            "call catchment.calibrate with clients that did not train"
        )


def _check_noise(file: PlanFile, about: About) -> None:
    """Raise ValueError if something beside the training would tell of those who train."""
    before = {"[plasticity]": bool(file.plasticity)}
    before['scale = "federated"'] = not file.prepare.is_fitted
    for stage in (name for name, present in before.items() if present):
        remedy = 'write scale = "own" into [prepare]' if "scale" in stage else "leave one out"
        raise ValueError(f"gaussian_noise covers the training, not {stage}; {remedy}")
    sharing = file.sharing
    # A publisher's own test part is looked at when the data are here.
    chosen = isinstance(file.origin, Files) or sharing.test_of or sharing.split
    if sharing.test == "folds" or (chosen and sharing.tests_of(about) != "clients"):
        raise ValueError(TESTED_UNDER_NOISE)


def _some_channels(file: PlanFile) -> tuple[str, ...]:
    """Return channels that have all that [prepare] names, and one more."""
    asked = (*file.prepare.known, *(file.prepare.predicted or ()))
    last = max((one for one in asked if isinstance(one, int)), default=0)
    return ("x", *(one for one in asked if isinstance(one, str)), *(f"x{k}" for k in range(last)))


def _some_classes(file: PlanFile) -> tuple[str, ...] | None:
    origin = file.origin
    if isinstance(origin, Files) and origin.label is None:
        return None
    named = isinstance(origin, Files) and origin.classes != "auto"
    if file.algorithm == NORMAL_PLAN and not named:
        return str(file.learn.get("normal_class") or NORMAL), ANOMALY
    if isinstance(origin, Files):
        return ("a", "b") if origin.classes == "auto" else tuple(map(str, origin.classes))
    return None if file.source == "narma" else ("a", "b")


def entered(one: FeatureMap, table: Table) -> FeatureMap:
    """Return a map with a row per step that waits until its memory is filled.

    Before that, rows are unlike those that set the threshold, and most would be alarms. A washout
    that the table of the map names stays as it is, and so do maps without the setting.

    >>> entered(NVAR(delays=3, stride=2), {"map": "nvar"}).washout
    4
    >>> entered(NVAR(delays=3), {"map": "nvar", "washout": 0}).washout
    0
    """
    if isinstance(one, DefaultMap):
        one = one.meant(1, per_step=True)
    if "washout" in table or "washout" not in {each.name for each in fields(one)}:
        return one
    steps = (one.delays - 1) * one.stride if isinstance(one, NVAR) else WASHOUT
    changed: dict[str, Any] = {"washout": steps}
    return replace(one, **changed)


@dataclass(frozen=True, kw_only=True)
class PlanFile:
    """A plan as its file has it, every name and type checked; `course` makes its stages."""

    title: str = ""
    source: str
    origin: Origin
    sharing: Sharing
    prepare: Prepare
    features: Table
    learn: Table
    plasticity: Table = field(default_factory=dict)
    candidates: tuple[Table, ...] = ()
    run: RunSettings = field(default_factory=RunSettings)
    protect: tuple[Table, ...] = ()
    search: Table = field(default_factory=dict)
    base: Path = Path()
    fingerprint: str = ""
    text: str = ""

    @property
    def algorithm(self) -> str:
        """What learns, by its name."""
        return str(self.learn["algorithm"])

    @property
    def is_secret(self) -> bool:
        """Whether clients need keys: there is a secure sum."""
        return any(table.get("name") == "secure_sum" for table in self.protect)

    @property
    def carries(self) -> bool:
        """Whether clients hand in what is new, so that a finished run goes on."""
        return self.learn.get("increments") == "new"

    @property
    def is_noisy(self) -> bool:
        """Whether noise bounds what the training tells of a client."""
        return any(table.get("name") == "gaussian_noise" for table in self.protect)

    @property
    def map_name(self) -> str:
        """What the feature map is called; "default" if the plan names none."""
        return str(self._filled(self.features)["map"])

    @property
    def maps(self) -> tuple[FeatureMap, ...]:
        """The feature map, or that of every candidate."""
        tables = {"[features]": self.features}
        if self.candidates:
            changes = enumerate(self.candidates, start=1)
            tables = {f"[[candidates]] {k}": {**self.features, **one} for k, one in changes}
        found = []
        for where, table in tables.items():
            made = map_of(self._filled(table), where)
            steps = self.prepare.window is None and not getattr(self.origin, "label", "")
            made = entered(made, table) if steps and self.algorithm == NORMAL_PLAN else made
            found.append(beside(made, self.base))
        return tuple(found)

    def _filled(self, table: Table) -> Table:
        needed = bool(self.plasticity or self.search) or self.algorithm in RESERVOIRS
        return with_map(table, reservoir=needed)

    @property
    def washout(self) -> int:
        """Steps that the map needs to enter a recording."""
        return max(one.washout for one in self.maps)

    def load_data(self, directory: Path | None = None) -> PlanData:
        """Return the data that the plan names; MissingDataError if they are not here.

        ValueError if clients that train under noise would be tested, too.
        """
        found = self.origin.load(self.sharing.seed, directory, self.base)
        # Windows are entered one by one, wherever a recording is cut.
        washout = self.washout if self.prepare.window is None else 0
        classes = found.about.classes
        if classes is not None and len(classes) < 2:
            raise ValueError(
                f"every label is {classes[0]!r}, and one class is nothing to tell apart; add files "
                'of another class, or name another column, label = "..." in [data]'
            )
        if self.carries and isinstance(self.origin, Files):
            growing = Changed(
                found.clients, partial(partial, _growing, goes_on=self.origin.goes_on)
            )
            return PlanData(growing, {}, found.about, notices=found.notices)
        held = arrange(found, self.sharing, washout=washout)
        if self.is_noisy and set(held.train) & set(held.whole):
            raise ValueError(TESTED_UNDER_NOISE)
        return held

    def about(self, directory: Path | None = None) -> About:
        """Return what everyone must know of the data, reading no files of one's own."""
        if not isinstance(self.origin, Files):
            return self.origin.load(self.sharing.seed, directory, self.base).about
        known = self.origin.about()
        lacking = {"inputs": not known.channels, "classes": self.origin.label and not known.classes}
        missing = [name for name, lacks in lacking.items() if lacks]
        if not missing:
            return known
        try:
            seen = self.load_data().about
        except (ValueError, OSError):
            remedy = f'write {missing[0]} = ["...", "..."] into [data]'
        else:
            found = {"inputs": seen.channels, "classes": seen.classes or ()}
            lines = ", ".join(f"{name} = {json.dumps(found[name])}" for name in missing)
            remedy = f"the files here have, to paste: {lines}"
        raise ValueError(
            f"nobody sees all clients' files here, so [data] must name the {missing[0]}; {remedy}"
        )

    def course(
        self,
        about: About,
        identities: Mapping[str, str] | None = None,
        n_clients: int | None = None,
    ) -> Workflow:
        """Return the stages of the plan for data like these.

        Parameters
        ----------
        identities
            Public keys of the clients, for a secure sum.
        n_clients
            How many train; None for many.
        """
        protections = tuple(
            self._protection(table, f"[[protect]] {k}", identities or {})
            for k, table in enumerate(self.protect, start=1)
        )
        # What is normal is a matter of every step, unless recordings have a label each.
        bare = self.algorithm == NORMAL_PLAN and about.classes is None
        per_step = about.per_step or bare or self.prepare.horizon is not None
        per_step = per_step and self.prepare.window is None
        n_inputs = self.prepare.n_inputs(len(about.channels))
        offered = self.offered(n_inputs, per_step, n_clients)
        table = self._learning(offered)
        hidden = any(isinstance(one, Masking) for one in protections)
        given: dict[str, Any] = {"features": None, "classes": about.classes, "base": self.base}
        kind, rest = chosen(ALGORITHMS, table, "[learn]", key="algorithm", own=True)
        uploads = None
        if kind is FederatedRidge:
            own = values(kind, rest, "[learn]", given, MORE["ridge"])
            asked, ridge = own.pop("upload", "auto"), own.pop("ridge", "auto")
            uploads = Uploads(asked=asked, protected=bool(protections), hidden=hidden, ridge=ridge)
        if self.algorithm not in WITHOUT_GRAM:
            for one in self.maps:
                classes, remedy = about.classes is not None, 'algorithm = "conjugate_gradients", '
                refuse_large(one, n_inputs, per_step=per_step, classes=classes, remedy=remedy)

        def learn(maps: Maps) -> Algorithm[Any, Any, Any]:
            if uploads is not None:
                return uploads.learner(n_clients=n_clients, **own | {"features": maps[0]})
            several = bool(self.candidates) or offered.several
            known = given | {"features": maps if several else maps[0]}
            return _settled(read(kind, rest, "[learn]", known), hidden=hidden)

        return Workflow(
            prepare=self.prepare,
            maps=offered.maps,
            learn=learn,
            uploads=uploads,
            channels=about.channels,
            classes=about.classes,
            per_step=per_step,
            targets=_n_targets(about),
            protections=protections if uploads is None else uploads.added_to(protections),
            **self._plasticity(),
            **{name: getattr(self.run, name) for name in HOW_OFTEN},
        )

    def offered(self, n_inputs: int, per_step: bool, n_clients: int | None) -> Offered:
        """Return the maps that are tried: that of the plan, or those of which "auto" chooses."""
        maps = self.maps
        if len(maps) > 1:
            return Offered(maps)
        return offered_maps(
            maps[0],
            n_inputs,
            per_step=per_step,
            hidden=self.is_secret,
            noisy=self.is_noisy,
            n_clients=n_clients,
        )

    def _learning(self, offered: Offered) -> Table:
        """Return [learn], which is a choice among candidates where "auto" has some."""
        if self.candidates or not offered.several:
            return self.learn
        meant = {"algorithm": ("ridge",), "ridge": ("auto", "clients"), "per_output": (True, False)}
        given = {k: v for k, v in self.learn.items() if v not in meant.get(k, ())}
        refuse_settings(given)
        kept = {k: v for k, v in self.learn.items() if k == "per_output"}
        return {"algorithm": "candidates", **kept}

    def _protection(self, table: Table, where: str, identities: Mapping[str, str]) -> Any:
        kind, rest = chosen(PROTECTIONS, table, where)
        if kind is not GaussianNoise:
            return read(kind, rest, where, {"identities": dict(identities)})
        found = values(kind, rest, where, more=MORE["gaussian_noise"])
        path, epsilon = found.pop("budget", "budget.sqlite"), found.pop("budget_epsilon", None)
        noise: GaussianNoise = made(kind, found, where)
        if epsilon is None:
            epsilon = noise.epsilon
        if not noise.epsilon <= epsilon:
            raise ValueError(
                f"budget_epsilon in {where} is {epsilon!r}; give the plan's epsilon of "
                f"{noise.epsilon:g} or more"
            )
        # Where clients have keys they are known by them, whatever their names are.
        known = {name: (key,) for name, key in identities.items()}
        budget = Budget(path=self.base / path, epsilon=epsilon, delta=noise.delta, known=known)
        return replace(noise, budget=budget)

    def _plasticity(self) -> dict[str, Any]:
        """Return what adapts a reservoir before the training, and over how many rounds."""
        if not self.plasticity:
            return {}
        where = "[plasticity]"
        kind, rest = chosen(PLASTICITY, self.plasticity, where)
        found = values(kind, rest, where, {"reservoir": None}, MORE["plasticity"])
        given = {"adapt_rounds": found.pop("rounds")} if "rounds" in found else {}
        return given | {"adapt": lambda one: made(kind, found | {"reservoir": one}, where)}


def _settled(made: Any, *, hidden: bool) -> Algorithm[Any, Any, Any]:
    """Return what [learn] describes as the algorithm that it is for those who take part."""
    if isinstance(made, PersonalReadouts) and made.ridge.carries:
        return PersonalIncrements(ridge=made.ridge, method=made.method)
    if isinstance(made, FederatedNormal) and hidden:
        return replace(made, keep_clients=False)
    learner: Algorithm[Any, Any, Any] = made if isinstance(made, Algorithm) else made.algorithm()
    return learner


def _n_targets(about: About) -> int | None:
    """Return how many columns of numbers are predicted, None if no columns are named."""
    columns = dict(about.columns).get("target")
    return None if about.classes is not None or not columns else len(columns.split("\n"))
