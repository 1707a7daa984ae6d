"""One TOML file as a plan.

    title = "What this is"        # optional

    [data]                        # files = "recordings/*.csv" and its columns; or source = "..."
    [preprocessing]               # gaps, rate, window, horizon, scale: as in Preprocessing
    [features]                    # map = "default", "minirocket", "echo_state", ..., and its
                                  # settings, or map = "module:Class"; maps in maps are tables too
    [plasticity]                  # optional: gains and shifts that clients find before training
    [learn]                       # algorithm = "ridge", ..., and its settings, or "module:Class"
    [[candidates]]                # for algorithm = "candidates": changes to [features], each a map
    [run]                         # rounds, client_fraction, min_clients, limits, seed, baselines
    [[protections]]               # name = ..., in the order in which clients apply them
    [search]                      # ranges and settings of `catchment search`; a run ignores it

Only [data] is needed. `catchment.plans.settings` has the tables of what can be named.
"""

from __future__ import annotations

import hashlib
import json
import sys
import tomllib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, fields, replace
from functools import partial
from importlib import resources
from pathlib import Path
from shlex import quote
from typing import Any, Literal

from catchment.data.clients import Changed
from catchment.data.preprocessing import Preprocessing
from catchment.data.recording import Recording
from catchment.engine.local import Source, data_of
from catchment.errors import near, nearest
from catchment.features.nvar import NVAR
from catchment.features.pipeline import refuse_large
from catchment.features.recipes import DefaultMap, FeatureMap, imported
from catchment.federation.algorithm import Algorithm
from catchment.federation.checks import LIMITS, Limits
from catchment.federation.learn.anomaly import FederatedAnomalyDetector
from catchment.federation.learn.ridge import (
    FederatedRidge,
    Offered,
    auto_choice,
    automatic_ridge,
    offered_maps,
    refuse_settings,
)
from catchment.federation.learn.yule_walker import LOOKBACK, FederatedYuleWalker
from catchment.federation.protection import LowRankUpload
from catchment.federation.workflow import Maps, Workflow
from catchment.plans.data import (
    SOURCES,
    About,
    Files,
    Origin,
    PlanData,
    Sharing,
    arrange,
    origin_of,
)
from catchment.plans.settings import (
    ALGORITHMS,
    ANY_MAP,
    BUILT,
    GIVEN,
    MAPS,
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
    named_schema,
    names,
    own_classes,
    read,
    refuse_unknown,
    schema,
    values,
    with_map,
)
from catchment.privacy.dp.budget import Budget
from catchment.privacy.dp.noise import GaussianNoise
from catchment.readout.adapt import refuse_adapting
from catchment.readout.detector import ANOMALY, NORMAL
from catchment.readout.intervals import increasing
from catchment.wire.kept import FIRST_WORDS, renamed_tables

SECTIONS = (
    *("title", "data", "preprocessing", "features", "plasticity", "learn", "candidates"),
    *("run", "protections", "search"),
)
DATA_SUFFIXES = (".csv", ".tsv", ".gz", ".parquet", ".npz")
NORMAL_PLAN = "anomaly"
LAGS_PLAN = "yule_walker"
HOW_OFTEN = ("rounds", "client_fraction", "min_clients", "limits", "seed")
WASHOUT = 50  # steps after which a reservoir is taken to have entered a recording
Baseline = Literal["uniform", "most_frequent", "mean", "persistence", "seasonal", "autoregression",
                   "local", "averaging", "centralized"]  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class RunSettings:
    """How often and with whom the algorithm is run, and what it is compared with.

    Parameters
    ----------
    rounds
        How many rounds; if not given, as many as the algorithm needs.
    client_fraction
        Fraction of the clients asked in each round.
    min_clients
        Fewest answers with which a round may end.
    limits
        What a round takes from one client; its settings are those of the same table.
    seed
        Names the draws of clients and the algorithm's own.
    baselines
        What to measure beside it; if not given, guesses: of classes random and majority, of
        forecasts persistence, the value of a season before where there is a season, and a linear
        autoregression.
    lags
        How many inputs back the autoregression sees.
    intervals
        Whether those who trained count the errors of readouts without them, one more round, so that
        the model knows how wide an interval has to be; where numbers are predicted.
    bands
        Outputs, in their order, at which one width of intervals ends and another begins.
    adapt
        Whether the model carries the sums with which it learns a new owner without labels; clients
        that are tested then adapt it to their own recordings, and score both.
    """

    rounds: int | None = None
    client_fraction: float = 1.0
    min_clients: int = 1
    limits: Limits = LIMITS
    seed: int = 0
    baselines: tuple[Baseline, ...] | None = None
    lags: int = 10
    intervals: bool = False
    bands: tuple[float, ...] = ()
    adapt: bool = False


@dataclass(frozen=True, kw_only=True)
class PlanFile:
    """A plan as its file has it, every name and type checked; `workflow` makes its stages."""

    title: str
    source: str
    origin: Origin
    sharing: Sharing
    preprocessing: Preprocessing
    features: Table
    learn: Table
    plasticity: Table
    candidates: tuple[Table, ...]
    run: RunSettings
    protections: tuple[Table, ...]
    search: Table
    base: Path
    fingerprint: str
    text: str

    @property
    def algorithm(self) -> str:
        """What learns, by its name."""
        return str(self.learn["algorithm"])

    @property
    def is_secret(self) -> bool:
        """Whether clients need keys: there is secure aggregation."""
        return any(table.get("name") == "secure_aggregation" for table in self.protections)

    @property
    def carries(self) -> bool:
        """Whether clients hand in what is new, so that a finished run goes on."""
        return self.learn.get("increments") == "new"

    @property
    def is_noisy(self) -> bool:
        """Whether noise bounds what the training tells of a client."""
        return any(table.get("name") == "gaussian_noise" for table in self.protections)

    @property
    def own_row(self) -> str:
        """What the plan is called in a comparison."""
        changed = any(table.get("name") != "secure_aggregation" for table in self.protections)
        return "exact federated" if self.algorithm == "ridge" and not changed else self.algorithm

    @property
    def map_name(self) -> str:
        """What the feature map is called; "default" if the plan names none."""
        return str(self._filled(self.features)["map"])

    @property
    def has_several_maps(self) -> bool:
        """Whether one of several maps is chosen."""
        return bool(self.candidates) or self.map_name == "auto"

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
            steps = self.preprocessing.window is None and not self.origin.label
            made = entered(made, table) if steps and self.algorithm == NORMAL_PLAN else made
            found.append(beside(made, self.base))
        return tuple(found)

    def _filled(self, table: Table) -> Table:
        if self.algorithm == LAGS_PLAN:  # its map is the lags themselves
            return {"map": "nvar", "order": 1, "delays": LOOKBACK, **table}
        needed = bool(self.plasticity or self.search) or self.algorithm in RESERVOIRS
        return with_map(table, reservoir=needed)

    @property
    def washout(self) -> int:
        """Steps that the map needs to enter a recording; it enters windows one by one."""
        return 0 if self.preprocessing.window else max(one.washout for one in self.maps)

    def load_data(self, directory: Path | None = None) -> PlanData:
        """Return the data that the plan names; MissingDataError if they are not here.

        ValueError if clients that train under noise would be tested, too.
        """
        found = self.origin.load(self.sharing.seed, directory, self.base)
        classes = found.about.classes
        if classes is not None and len(classes) < 2:
            raise ValueError(
                f"every label is {classes[0]!r}, and one class is nothing to tell apart; add files "
                'of another class, or name another column, label = "..." in [data]'
            )
        if self.carries:
            growing = partial(partial, _growing, goes_on=self.origin.goes_on)
            return replace(found, train=Changed(found.train, growing), test={})
        held = arrange(found, self.sharing, washout=self.washout)
        if self.is_noisy and set(held.train) & set(held.test):
            raise ValueError(TESTED_UNDER_NOISE)
        return held

    def check_named(self, clients: Collection[str]) -> None:
        """Raise ValueError if a setting is for somebody who does not train."""
        for table in ("recipes", "weak"):
            named: Any = self.learn.get(table, ())
            for name in named:
                if name not in clients:
                    raise ValueError(
                        f"[learn.{table}] has {name!r}, who is no client that trains; those are "
                        f"{', '.join(sorted(clients)[:8])}"
                    )

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

    def workflow(
        self,
        about: About,
        identities: Mapping[str, str] | None = None,
        n_clients: int | None = None,
    ) -> Workflow:
        """Return the stages of the plan for data like these.

        Parameters
        ----------
        identities
            Public keys of the clients, for secure aggregation.
        n_clients
            How many train; None for many.
        """
        protections = tuple(
            self._protection(table, f"[[protections]] {k}", identities or {})
            for k, table in enumerate(self.protections, start=1)
        )
        # What is normal is a matter of every step, unless recordings have a label each.
        bare = self.algorithm == NORMAL_PLAN and about.classes is None
        per_step = about.per_step or bare or self.preprocessing.horizon is not None
        per_step = per_step and self.preprocessing.window is None
        n_inputs = self.preprocessing.n_inputs(len(about.channels))
        offered = self.offered(n_inputs, per_step, n_clients)
        table = self._learning(offered, about.classes, n_clients)
        hidden = any(one.hides for one in protections)
        given: dict[str, Any] = {"features": None, "classes": about.classes, "base": self.base}
        given["preprocessing"] = self.preprocessing
        given["data_shape"] = (self.preprocessing.window, n_inputs) if n_clients else None
        kind, rest = chosen(ALGORITHMS, table, "[learn]", key="algorithm", own=True)
        if kind is FederatedRidge:
            own = values(kind, rest, "[learn]", given, MORE["ridge"])
            if own.pop("upload", "statistics") == "auto" and not protections:
                protections = (LowRankUpload(),)
        for one in () if self.algorithm in WITHOUT_GRAM else self.maps:
            named, remedy = about.classes is not None, 'algorithm = "conjugate_gradients", '
            refuse_large(one, n_inputs, per_step=per_step, classes=named, remedy=remedy)

        def learn(maps: Maps) -> Algorithm[Any, Any, Any]:
            if kind is FederatedRidge:
                known = own | {"features": maps[0], "hidden": hidden, "labels": self.origin.labels}
                return automatic_ridge(n_clients=n_clients, **known)
            known = given | {"features": maps if self.candidates or offered.several else maps[0]}
            return _settled(read(kind, rest, "[learn]", known), hidden=hidden)

        return Workflow(
            preprocessing=self.preprocessing,
            maps=offered.maps,
            learn=learn,
            channels=about.channels,
            classes=about.classes,
            per_step=per_step,
            targets=_n_targets(about),
            protections=protections,
            scores_adapted=self.run.adapt,
            **self._plasticity(),
            **{name: getattr(self.run, name) for name in HOW_OFTEN},
        )

    def offered(self, n_inputs: int, per_step: bool, n_clients: int | None) -> Offered:
        """Return the maps that are tried: that of the plan, or those of which "auto" chooses."""
        maps = self.maps
        if len(maps) > 1:
            return Offered(maps, several=True)
        return offered_maps(
            maps[0],
            n_inputs,
            per_step=per_step,
            ahead=self.preprocessing.horizon is not None,
            hidden=self.is_secret,
            noisy=self.is_noisy,
            n_clients=n_clients,
        )

    def _learning(self, offered: Offered, classes: object, n_clients: int | None) -> Table:
        """Return [learn], which is a choice among candidates where "auto" has some."""
        if self.candidates or not offered.several:
            return self.learn
        meant = {"algorithm": ("ridge",), "ridge": ("auto", "leave-one-client-out")}
        refuse_settings([k for k, v in self.learn.items() if v not in meant.get(k, ())])
        return {"algorithm": "candidates", **auto_choice(classes, n_clients)}

    def _protection(self, table: Table, where: str, identities: Mapping[str, str]) -> Any:
        kind, rest = chosen(PROTECTIONS, table, where)
        if kind is not GaussianNoise:
            return read(kind, rest, where, {"identities": dict(identities)})
        found = values(kind, rest, where, more=MORE["gaussian_noise"])
        path = found.pop("budget", "budget.sqlite")
        epsilon = found.pop("budget_epsilon", found["epsilon"])
        noise: GaussianNoise = made(kind, found, where)
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
    if isinstance(made, FederatedAnomalyDetector | FederatedYuleWalker) and hidden:
        return replace(made, store_per_client=False)
    learner: Algorithm[Any, Any, Any] = made if isinstance(made, Algorithm) else made.algorithm()
    return learner


def _n_targets(about: About) -> int | None:
    """Return how many columns of numbers are predicted, None if no columns are named."""
    columns = dict(about.columns).get("target")
    return None if about.classes is not None or not columns else len(columns.split("\n"))


def _growing(source: Source, *, goes_on: bool) -> list[Recording]:
    """Return a client's recordings, each with the name by which what is new is found."""
    found = list(data_of(source)())
    if any(not one.name for one in found):
        raise ValueError(
            "recordings have no names here, so that nobody could tell which are new; use files "
            'that are read whole, or leave out increments = "new"'
        )
    return [replace(one, goes_on=True) for one in found] if goes_on else found


def entered(one: FeatureMap, table: Table) -> FeatureMap:
    """Return a map with a row per step that waits until its memory is filled.

    Before that, rows are unlike those that set the threshold, and most would be alarms. A washout
    that the table of the map names stays as it is, and so do maps without the setting.

    >>> entered(NVAR(delays=3, stride=2), {"map": "nvar"}).washout
    4
    >>> entered(NVAR(delays=3), {"map": "nvar", "washout": 0}).washout
    0
    """
    if type(one) is DefaultMap:
        one = one.meant(1, per_step=True)
    if "washout" in table or "washout" not in {each.name for each in fields(one)}:
        return one
    steps = (one.delays - 1) * one.stride if isinstance(one, NVAR) else WASHOUT
    changed: dict[str, Any] = {"washout": steps}
    return replace(one, **changed)


def own_kinds(file: PlanFile) -> list[type]:
    """Return the classes of one's own that the plan's map is made of."""
    return [imported(name) for name in own_classes(file.features)]


def read_plan(path: str | Path, *, base: Path | None = None) -> PlanFile:
    """Return the plan of a TOML file.

    Parameters
    ----------
    base
        Where its files, and classes of one's own, are; where the plan is, if not given.
    """
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(_no_plan(path))
    if path.suffix.lower() in DATA_SUFFIXES:
        raise ValueError(
            f"{path} holds data and is no plan; `catchment fit {quote(str(path.parent))} --label "
            "COLUMN` makes a plan for a folder of files, `catchment plan --example` lists examples"
        )
    folder = beside_plan(path.resolve().parent if base is None else base.resolve())
    return parse_plan(path.read_text(encoding="utf-8"), base=folder, name=path.name)


def beside_plan(folder: Path) -> Path:
    """Return a plan's folder, from where classes and functions of one's own are now imported."""
    if str(folder) not in sys.path:
        sys.path.append(str(folder))
    return folder


def _no_plan(path: Path) -> str:
    """Return that a plan is not there, and which file may be meant."""
    folder = path if path.is_dir() else path.parent
    plans = sorted(one.stem for one in folder.glob("*.toml"))
    meant = plans[0] if path.is_dir() and plans else near(path.stem, plans)
    if meant:
        wrong = "is a folder" if path.is_dir() else "is not there"
        return f"the plan {path} {wrong}; did you mean {folder / meant}.toml?"
    examples = "`catchment plan --example` lists examples"
    if path.is_dir():
        made = f"`catchment fit {quote(str(path))} --label COLUMN` makes one"
        return f"{path} is a folder and has no plan; {made}, {examples}"
    return f"there is no plan {path}; {examples}"


def parse_plan(text: str, *, base: Path | None = None, name: str = "the plan") -> PlanFile:
    """Return the plan of a text in TOML.

    >>> parse_plan('[data]\\nsource = "wearables"\\n').algorithm
    'ridge'
    >>> parse_plan('[data]\\nsource = "waerables"\\n')
    Traceback (most recent call last):
    ValueError: source in [data] is 'waerables'; did you mean 'wearables'?
    """
    try:
        tables = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"{name} is not valid TOML: {error}") from error
    return plan_of_tables(tables, text=text, base=Path.cwd() if base is None else base, name=name)


def plan_of_tables(
    tables: Table, *, text: str = "", base: Path = Path(), name: str = "the plan"
) -> PlanFile:
    """Return the plan of a file's tables, whose text is kept with the runs."""
    tables = renamed_tables(tables)
    refuse_unknown(tables, SECTIONS, name)
    source, origin, sharing = _data(tables.get("data"), name)
    learn = {"algorithm": "ridge", **_table(tables, "learn")}
    if learn["algorithm"] == "selected":  # as plans once said it
        learn |= {"algorithm": "ridge", "ridge": "leave-one-client-out"}
    candidates, protections = _tables(tables, "candidates"), _tables(tables, "protections")
    plain = {name: _table(tables, name) for name in ("features", "plasticity", "search")}
    if bool(candidates) != (learn["algorithm"] == "candidates"):
        raise ValueError(
            '[[candidates]] go with algorithm = "candidates" in [learn]; add the one or the other'
        )
    plan = PlanFile(
        title=str(tables.get("title", "")),
        source=source,
        origin=origin,
        sharing=sharing,
        preprocessing=read(Preprocessing, _table(tables, "preprocessing"), "[preprocessing]"),
        learn=learn,
        candidates=candidates,
        run=read(RunSettings, _table(tables, "run"), "[run]"),
        protections=protections,
        **plain,
        base=base,
        fingerprint=fingerprint_of(tables),
        text=text,
    )
    check(plan)
    return plan


def fingerprint_of(tables: Table) -> str:
    """Return the SHA-256 of a plan's settings; comments, order and the title do not matter.

    >>> fingerprint_of({"a": 1, "b": 2}) == fingerprint_of({"b": 2, "a": 1, "title": "x"})
    True
    """
    kept = renamed_tables(tables, FIRST_WORDS)
    settings = {key: value for key, value in kept.items() if key != "title"}
    return hashlib.sha256(json.dumps(settings, sort_keys=True, default=str).encode()).hexdigest()


def _data(table: object, name: str) -> tuple[str, Origin, Sharing]:
    """Return the [data] of a plan: where it comes from and how it is shared out."""
    if not isinstance(table, Mapping):
        raise ValueError(
            f'{name} lacks [data]; write [data] and files = "recordings/*.csv", or a source'
        )
    source, known = table.get("source"), tuple(SOURCES)
    if ("files" in table) == (source is not None):
        raise ValueError(
            '[data] needs either files = "recordings/*.csv" or a source; choose from '
            f"{', '.join(known)}"
        )
    if source is not None and (not isinstance(source, str) or SOURCES.get(source) is None):
        raise ValueError(f"source in [data] is {source!r}; {nearest(str(source), known)}")
    kind, given = (Files, {}) if source is None else origin_of(str(source))
    own, common = set(names(kind, given)), set(names(Sharing))
    rest = {key: value for key, value in table.items() if key != "source"}
    refuse_unknown(rest, sorted(own | common), "[data]")
    part = {key: value for key, value in rest.items() if key in own}
    origin: Origin = read(kind, part, "[data]", given)
    shared = {key: value for key, value in rest.items() if key in common}
    return str(source or "files"), origin, read(Sharing, shared, "[data]")


def _table(tables: Table, name: str) -> Table:
    found = tables.get(name, {})
    if not isinstance(found, Mapping):
        raise ValueError(f"{name} is {found!r}; make it a table, [{name}]")
    return found


def _tables(tables: Table, name: str) -> tuple[Table, ...]:
    found = tables.get(name, [])
    if not isinstance(found, list) or not all(isinstance(item, Mapping) for item in found):
        raise ValueError(f"{name} is {found!r}; make it a list of tables, [[{name}]]")
    return tuple(found)


TESTED_UNDER_NOISE = (
    "gaussian_noise bounds what the training tells of a client, and exact scores on other data of "
    'the same client would tell more; write test_of = "clients" into [data], so that nobody who is '
    "tested has trained"
)


def check(file: PlanFile) -> None:
    """Raise ValueError if a setting is wrong, as far as can be told without the data."""
    if file.origin.has_targets and file.preprocessing.horizon is not None:
        raise ValueError(
            "[data] has a label or target, and [preprocessing] a horizon, which predicts the "
            "inputs instead; leave one out"
        )
    normal = file.algorithm == NORMAL_PLAN
    if normal:
        _check_normal(file)
    if not file.origin.has_targets and file.preprocessing.horizon is None and not normal:
        raise ValueError(
            'there is nothing to predict; write label = "column" or target = "column" into '
            "[data] or, to forecast the inputs, horizon = 1 into [preprocessing]"
        )
    if file.sharing.test == "folds" and file.run.baselines:
        raise ValueError(
            "baselines are measured on test clients, and folds keep none apart; leave out "
            "baselines, or give a share such as test = 0.25"
        )
    _check_weeks(file)
    classes = None
    if file.preprocessing.horizon is None:
        unnamed = (str(file.learn.get("normal_class") or NORMAL), ANOMALY)
        classes = file.origin.some_classes(*[unnamed] if normal else [])
    if file.run.intervals or file.run.bands:
        _check_intervals(file, classes)
    if file.run.adapt or file.origin.labels == "some":
        check_adapting(file, classes)
    if file.plasticity and (file.candidates or file.map_name != "echo_state"):
        raise ValueError(
            '[plasticity] adapts one reservoir; use map = "echo_state" and leave out [[candidates]]'
        )
    # Built of tiny stand-ins: what is wrong with any setting shows now.
    asked = (*file.preprocessing.known, *(file.preprocessing.predicted or ()))
    texts = tuple(one for one in asked if isinstance(one, str))
    last = max((int(one) for one in asked if one not in texts), default=0)
    channels = ("x", *texts, *(f"x{k}" for k in range(last)))  # all that are named, and one more
    _ = file.workflow(About(channels, classes, per_step=classes is None or normal)).fingerprint
    if file.is_noisy:
        _check_noise(file, About(channels, classes))


def check_adapting(file: PlanFile, classes: tuple[str, ...] | None, *, asked: bool = False) -> None:
    """Raise ValueError if the training leaves no sums, or rows without labels no names."""
    ridge = file.algorithm in ("ridge", "candidates")
    if asked or file.run.adapt:
        refuse_adapting(classes, noisy=file.is_noisy, another=not ridge or "head" in file.learn)
        if file.carries:
            raise ValueError('adapt is of one training; leave it out with increments = "new"')
    if file.origin.labels == "all":
        return
    asks = file.is_secret and file.learn.get("ridge") == "leave-one-client-out"
    if not ridge or file.has_several_maps or asks or file.run.rounds is not None:
        raise ValueError(
            'labels = "some" is for a ridge on one map, with the rounds that it needs, and with '
            'secure_aggregation for ridge = "gcv" or a number; leave out what is at odds'
        )


def _check_weeks(file: PlanFile) -> None:
    """Raise ValueError if a run of the plan could not go on."""
    if not file.carries:
        if file.sharing.test == "new":
            raise ValueError('test = "new" goes with increments = "new" in [learn]; add it')
        return
    if not file.origin.is_files:
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


def _check_normal(file: PlanFile) -> None:
    """Raise ValueError if what a plan says of its data has no meaning for what is normal."""
    if file.origin.has_targets and file.origin.some_classes() is None:
        raise ValueError(
            "[data] has a target of numbers, and what is normal is learned of the inputs; leave it "
            'out, or name a column of two labels, label = "..."'
        )
    if file.preprocessing.horizon is not None:
        raise ValueError(
            'horizon in [preprocessing] is for targets; write score = "error" and the horizon into '
            "[learn], which forecasts the inputs itself"
        )
    if file.run.baselines and not file.origin.has_targets:
        raise ValueError(
            "baselines are compared by labels, and [data] has none; leave them out, or name a "
            'column of two labels, label = "..."'
        )


def _check_intervals(file: PlanFile, classes: object) -> None:
    """Raise ValueError if nobody could count errors of readouts without them."""
    if not file.run.intervals:
        raise ValueError("bands divide intervals; write intervals = true into [run], too")
    increasing(file.run.bands)
    if classes is not None:
        raise ValueError(
            "intervals are of numbers, and [data] has a label: its classes have probabilities; "
            "leave intervals out of [run]"
        )
    if file.algorithm != "ridge" or file.has_several_maps or file.protections:
        raise ValueError(
            "intervals are made from every client's own statistics, which only a ridge with one "
            "map and without protections leaves to the server; leave intervals out of [run], and "
            "call catchment.calibrate with clients that did not train"
        )


def _check_noise(file: PlanFile, about: About) -> None:
    """Raise ValueError if something beside the training would tell of those who train."""
    if file.plasticity:
        raise ValueError("gaussian_noise covers the training, not [plasticity]; leave one out")
    if not file.preprocessing.is_fitted:
        raise ValueError(
            'gaussian_noise covers the training, not scale = "federated"; write scale = "own" into '
            "[preprocessing]"
        )
    sharing = file.sharing
    # A publisher's own test part is looked at when the data are here.
    chosen = file.origin.is_files or sharing.test_of or sharing.split
    if sharing.test == "folds" or (chosen and sharing.tests_of(about) != "clients"):
        raise ValueError(TESTED_UNDER_NOISE)


OWN = {"type": "string", "pattern": "^[^:]+:[^:]+$", "description": "A class of your own."}


def plan_schema() -> dict[str, object]:
    """Return the JSON schema of plan files.

    >>> sorted(plan_schema()["properties"])[:3]
    ['candidates', 'data', 'features']
    """
    # Not oneOf: an empty table is both the default map and a reservoir without settings.
    features = {"anyOf": _options(MAPS, "map", ("default", "echo_state"), BUILT)}
    properties: dict[str, object] = {
        "title": {"type": "string"},
        "data": {"oneOf": [_data_schema(None), *map(_data_schema, SOURCES)]},
        "preprocessing": schema(Preprocessing),
        "features": features,
        "plasticity": {
            "oneOf": [
                named_schema(name, PLASTICITY[name], more=MORE["plasticity"]) for name in PLASTICITY
            ]
        },
        "learn": {"oneOf": _options(ALGORITHMS, "algorithm", ("ridge",))},
        "candidates": {"type": "array", "items": features},
        "run": schema(RunSettings),
        "protections": {
            "type": "array",
            "items": {"oneOf": [named_schema(name, PROTECTIONS[name]) for name in PROTECTIONS]},
        },
        "search": {"type": "object"},
    }
    whole: dict[str, object] = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A catchment plan",
        "type": "object",
        "properties": properties,
        "required": ["data"],
        "additionalProperties": False,
    }
    found: dict[str, object] = json.loads(
        json.dumps(whole).replace(ANY_MAP, "#/properties/features")
    )
    return found


def _options(
    kinds: Mapping[str, type], key: str, usual: tuple[str, ...], given: Iterable[str] = GIVEN
) -> list[dict[str, object]]:
    """Return the schemas of a table that says by `key` which it is; the usual need not."""
    options = [
        named_schema(name, kind, given, key=key, optional=name in usual)
        for name, kind in kinds.items()
    ]
    return [*options, {"type": "object", "properties": {key: OWN}, "required": [key]}]


def _data_schema(source: str | None) -> dict[str, object]:
    """Return the schema of [data] for files, or for a source: with how the data are shared out."""
    kind, given = (Files, {}) if source is None else origin_of(source)
    made = schema(kind, given)
    first = {} if source is None else {"source": {"const": source}}
    made["properties"] = first | made["properties"] | schema(Sharing)["properties"]
    return made | {"required": [*first, *made.get("required", [])]}


_FOLDER = resources.files("catchment.plans") / "examples"


def example_names() -> tuple[str, ...]:
    """Return the names of the examples.

    >>> "wearables" in example_names()
    True
    """
    files = (entry.name for entry in _FOLDER.iterdir())
    return tuple(sorted(name[:-5] for name in files if name.endswith(".toml")))


def example_plan(name: str) -> str:
    """Return the text of an example.

    >>> example_plan("wearables").splitlines()[0]
    '# Exact federated ridge on synthetic wearables: one round, no download, a few seconds.'
    >>> example_plan("waerables")
    Traceback (most recent call last):
    ValueError: no example is called 'waerables'; did you mean 'wearables'?
    """
    if name not in example_names():
        raise ValueError(f"no example is called {name!r}; {nearest(name, example_names())}")
    return (_FOLDER / f"{name}.toml").read_text(encoding="utf-8")
