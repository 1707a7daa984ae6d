"""One TOML file as a plan.

    title = "What this is"        # optional

    [data]                        # files = "recordings/*.csv" and its columns; or source = "..."
    [prepare]                     # gaps, rate, window, horizon, scale: the settings of Prepare
    [features]                    # map = "default", "minirocket", "echo_state", ..., and its
                                  # settings, or map = "module:Class"; maps in maps are tables too
    [plasticity]                  # optional: gains and shifts that clients find before training
    [learn]                       # algorithm = "ridge", ..., and its settings, or "module:Class"
    [[candidates]]                # for algorithm = "candidates": changes to [features], each a map
    [run]                         # rounds, share, min_clients, limits, seed, baselines
    [[protect]]                   # name = ..., in the order in which clients apply them
    [search]                      # ranges and settings of `catchment search`; a run ignores it

Only [data] is needed. `catchment.plans.names` has the tables of what can be named.
"""

from __future__ import annotations

import difflib
import hashlib
import json
import sys
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from pathlib import Path
from typing import Any, Literal

from catchment.data.prepare import Prepare
from catchment.features.echo_state.echo_state import EchoState
from catchment.features.echo_state.reservoir import Reservoir
from catchment.features.feature_map import FeatureMap, MapDescription
from catchment.federation.course import Course, Maps
from catchment.federation.learn.automatic_maps import Offered, offered_maps, refuse_settings
from catchment.federation.limits import LIMITS, Limits
from catchment.federation.plan import Learner, Masking
from catchment.plans.data import PlanData, Sharing, arrange
from catchment.plans.dataclass_tables import nearest, refuse_unknown
from catchment.plans.names import (
    BUDGET,
    BUDGET_SETTINGS,
    PLASTICITY,
    PLASTICITY_ROUNDS,
    PROTECTIONS,
    READER,
    RESERVOIRS,
    Given,
    algorithm_of,
    beside,
    map_of,
    named,
    uploads_of,
    with_map,
)
from catchment.plans.sources import PUBLIC, SOURCES, About, Files, Origin, origin_of
from catchment.privacy.dp.budget import Budget
from catchment.privacy.dp.noise import GaussianNoise

Baseline = Literal[
    "random",
    "majority",
    "mean",
    "persistence",
    "autoregression",
    "local",
    "averaging",
    "ensemble",
    "centralised",
    "personalised",
]
SECTIONS = (
    *("title", "data", "prepare", "features", "plasticity", "learn", "candidates"),
    *("run", "protect", "search"),
)
Table = Mapping[str, object]
DATA_SUFFIXES = (".csv", ".tsv", ".gz", ".parquet", ".npz")
TESTED_UNDER_NOISE = (
    "gaussian_noise bounds what the training tells of a client, and exact scores on other data of "
    'the same client would tell more; write test_of = "clients" into [data], so that nobody who is '
    "tested has trained"
)


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
    min_usable
        Least share of the clients asked whose answers must be usable, else the run ends.
    max_rows
        Most rows that one client may claim to have in a round.
    max_weight
        Most weight per row that one may claim.
    over_median
        How many times the median of the round's clients one of them may claim; whoever claims more
        is refused and named.
    seed
        Names the draws of clients and the algorithm's own.
    baselines
        What to measure beside it; if not given, guesses: of classes random and majority, of
        forecasts persistence and a linear autoregression. "personalised" needs test_after in
        [data].
    lags
        How many inputs back the autoregression sees.
    """

    rounds: int | None = None
    share: float = 1.0
    min_clients: int = 1
    min_usable: float = LIMITS.min_usable
    max_rows: int = LIMITS.max_rows
    max_weight: float = LIMITS.max_weight
    over_median: float = LIMITS.over_median
    seed: int = 0
    baselines: tuple[Baseline, ...] | None = None
    lags: int = 10

    @property
    def limits(self) -> Limits:
        """The limits of a round."""
        return Limits(
            min_usable=self.min_usable,
            max_rows=self.max_rows,
            max_weight=self.max_weight,
            over_median=self.over_median,
        )


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
    def is_noisy(self) -> bool:
        """Whether noise bounds what the training tells of a client."""
        return any(table.get("name") == "gaussian_noise" for table in self.protect)

    @property
    def map_name(self) -> str:
        """What the feature map is called; "default" if the plan names none."""
        return str(self._filled(self.features)["map"])

    @property
    def maps(self) -> tuple[FeatureMap | MapDescription, ...]:
        """The feature map, or that of every candidate."""
        changes = enumerate(self.candidates, start=1)
        tables: dict[str, Table]
        tables = {f"[[candidates]] {k}": {**self.features, **one} for k, one in changes}
        tables = tables or {"[features]": self.features}
        found = (map_of(self._filled(table), where) for where, table in tables.items())
        return tuple(beside(one, self.base) for one in found)

    def _filled(self, table: Table) -> Table:
        needed = bool(self.plasticity or self.search) or self.algorithm in RESERVOIRS
        return with_map(table, reservoir=needed)

    @property
    def washout(self) -> int:
        """Steps that the map needs to enter a recording."""
        return max(map(_washout, self.maps))

    def load_data(self, directory: Path | None = None) -> PlanData:
        """Return the data that the plan names; MissingDataError if they are not here.

        ValueError if clients that train under noise would be tested, too.
        """
        found = self.origin.load(self.sharing.seed, directory, self.base)
        # Windows are entered one by one, wherever a recording is cut.
        washout = self.washout if self.prepare.window is None else 0
        refuse_one_class(found.about.classes)
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
        raise ValueError(
            f"nobody sees all clients' files here, so [data] must name the {missing[0]}; "
            f"{self._to_paste(missing)}"
        )

    def _to_paste(self, missing: list[str]) -> str:
        """Return the lines that are lacking, as far as files here tell them."""
        try:
            seen = self.load_data().about
        except (ValueError, OSError):
            return f'write {missing[0]} = ["...", "..."] into [data]'
        found = {"inputs": seen.channels, "classes": seen.classes or ()}
        lines = ", ".join(f"{name} = {json.dumps(found[name])}" for name in missing)
        return f"the files here have, to paste: {lines}"

    def course(
        self,
        about: About,
        identities: Mapping[str, str] | None = None,
        n_clients: int | None = None,
    ) -> Course:
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
        windows = self.prepare.window is not None
        per_step = not windows and (about.per_step or self.prepare.horizon is not None)
        offered = self.offered(len(about.channels), per_step, n_clients)
        table = self._learning(offered)
        given = Given(
            (),
            about.classes,
            any(isinstance(one, Masking) for one in protections),
            n_clients,
            self.base,
            protected=bool(protections),
            n_targets=_n_targets(about),
        )
        uploads = uploads_of(table, given)

        def learn(maps: Maps) -> Learner[Any, Any, Any]:
            several = bool(self.candidates) or offered.several
            return algorithm_of(table, replace(given, maps=maps), several=several)

        return Course(
            prepare=self.prepare,
            maps=offered.maps,
            learn=learn,
            uploads=uploads,
            channels=about.channels,
            classes=about.classes,
            per_step=per_step,
            targets=_n_targets(about),
            adapt=self.adapting if self.plasticity else None,
            adapt_rounds=self._adapt_rounds,
            rounds=self.run.rounds,
            share=self.run.share,
            min_clients=self.run.min_clients,
            limits=self.run.limits,
            protections=protections if uploads is None else uploads.added_to(protections),
            seed=self.run.seed,
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
        given: dict[str, object] = {"identities": dict(identities)}
        settings = {key: value for key, value in table.items() if key not in BUDGET_SETTINGS}
        if table.get("name") != "gaussian_noise":
            return named(PROTECTIONS, table, where, given)
        noise: GaussianNoise = named(PROTECTIONS, settings, where, given)
        path, epsilon = table.get("budget", BUDGET), table.get("budget_epsilon", noise.epsilon)
        if not isinstance(path, str):
            raise ValueError(f"budget in {where} is {path!r}; give the file of a ledger")
        if (
            not isinstance(epsilon, int | float)
            or isinstance(epsilon, bool)
            or not noise.epsilon <= epsilon
        ):
            raise ValueError(
                f"budget_epsilon in {where} is {epsilon!r}; give a number, the plan's epsilon of "
                f"{noise.epsilon:g} or more"
            )
        # Where clients have keys they are known by them, whatever their names are.
        known = {name: (key,) for name, key in identities.items()}
        budget = Budget(
            path=self.base / path, epsilon=float(epsilon), delta=noise.delta, known=known
        )
        return replace(noise, budget=budget)

    def adapting(self, reservoir: Reservoir) -> Learner[Any, Any, Reservoir]:
        """Return what adapts the reservoir before training."""
        table = {key: value for key, value in self.plasticity.items() if key != "rounds"}
        made: Learner[Any, Any, Reservoir]
        made = named(PLASTICITY, table, "[plasticity]", {"reservoir": reservoir})
        return made

    @property
    def _adapt_rounds(self) -> int:
        rounds = self.plasticity.get("rounds", PLASTICITY_ROUNDS)
        if type(rounds) is not int or rounds < 1:
            raise ValueError(f"rounds in [plasticity] is {rounds!r}; give a whole number from 1 on")
        return rounds

    def check(self) -> None:
        """Raise ValueError if a setting is wrong, as far as can be told without the data."""
        if self.origin.has_targets and self.prepare.horizon is not None:
            raise ValueError(
                "[data] has a label or target, and [prepare] a horizon, which predicts the inputs "
                "instead; leave one out"
            )
        if not self.origin.has_targets and self.prepare.horizon is None:
            raise ValueError(
                'there is nothing to predict; write label = "column" or target = "column" into '
                "[data] or, to forecast the inputs, horizon = 1 into [prepare]"
            )
        if self.sharing.test == "folds" and self.run.baselines:
            raise ValueError(
                "baselines are measured on test clients, and folds keep none apart; leave out "
                "baselines, or give a share such as test = 0.25"
            )
        if "personalised" in (self.run.baselines or ()) and self.sharing.test_after == 0:
            raise ValueError(
                "a personalised baseline needs test_after in [data]; try test_after = 0.5"
            )
        alone = not self.candidates and all(isinstance(one, EchoState) for one in self.maps)
        if self.plasticity and not alone:
            raise ValueError(
                '[plasticity] adapts one reservoir; use map = "echo_state" and leave out '
                "[[candidates]]"
            )
        # Built of tiny stand-ins: what is wrong with any setting shows now.
        classes = None if self.prepare.horizon is not None else self._some_classes
        _ = self.course(About(("x",), classes, per_step=classes is None)).fingerprint
        if self.is_noisy:
            self._check_noise(About(("x",), classes))

    def _check_noise(self, about: About) -> None:
        """Raise ValueError if something beside the training would tell of those who train."""
        before = {"[plasticity]": bool(self.plasticity)}
        before['scale = "federated"'] = not self.prepare.is_fitted
        for stage in (name for name, present in before.items() if present):
            remedy = 'write scale = "own" into [prepare]' if "scale" in stage else "leave one out"
            raise ValueError(f"gaussian_noise covers the training, not {stage}; {remedy}")
        sharing = self.sharing
        # A publisher's own test part is looked at when the data are here.
        chosen = isinstance(self.origin, Files) or sharing.test_of or sharing.split
        if sharing.test == "folds" or (chosen and sharing.tests_of(about) != "clients"):
            raise ValueError(TESTED_UNDER_NOISE)

    @property
    def _some_classes(self) -> tuple[str, ...] | None:
        origin = self.origin
        if isinstance(origin, Files):
            if origin.label is None:
                return None
            return ("a", "b") if origin.classes == "auto" else tuple(map(str, origin.classes))
        return None if self.source == "narma" else ("a", "b")


def refuse_one_class(classes: tuple[str, ...] | None) -> None:
    """Raise ValueError if there is one class: every model would be right.

    >>> refuse_one_class(("walk",))
    Traceback (most recent call last):
    ValueError: every label is 'walk', and one class is nothing to tell apart; ...
    """
    if classes is not None and len(classes) < 2:
        raise ValueError(
            f"every label is {classes[0]!r}, and one class is nothing to tell apart; add files of "
            'another class, or name another column, label = "..." in [data]'
        )


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
            f"{path} holds data and is no plan; `catchment fit {path.parent} --label COLUMN` makes "
            "a plan for a folder of files, `catchment plan --example` lists examples"
        )
    folder = path.resolve().parent if base is None else base.resolve()
    if str(folder) not in sys.path:
        sys.path.append(str(folder))  # classes and functions of one's own lie beside the plan
    return parse_plan(path.read_text(encoding="utf-8"), base=folder, name=path.name)


def _no_plan(path: Path) -> str:
    """Return that a plan is not there, and which file may be meant."""
    folder = path if path.is_dir() else path.parent
    plans = sorted(one.name for one in folder.glob("*.toml")) if folder.is_dir() else []
    near = plans if path.is_dir() else difflib.get_close_matches(path.name, plans, n=1)
    if path.is_dir() and not plans:
        return (
            f"{path} is a folder and has no plan; `catchment fit {path} --label COLUMN` makes one, "
            "`catchment plan --example` lists examples"
        )
    if near:
        wrong = "is a folder" if path.is_dir() else "is not there"
        return f"the plan {path} {wrong}; did you mean {folder / near[0]}?"
    return f"there is no plan {path}; `catchment plan --example` lists examples"


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
    refuse_unknown(tables, SECTIONS, name)
    source, origin, sharing = _data(tables.get("data"), name)
    learn = {"algorithm": "ridge", **_table(tables, "learn")}
    candidates, protect = _tables(tables, "candidates"), _tables(tables, "protect")
    if bool(candidates) != (learn["algorithm"] == "candidates"):
        raise ValueError(
            '[[candidates]] go with algorithm = "candidates" in [learn]; add the one or the other'
        )
    plan = PlanFile(
        title=str(tables.get("title", "")),
        source=source,
        origin=origin,
        sharing=sharing,
        prepare=_prepare(_table(tables, "prepare")),
        features=_table(tables, "features"),
        learn=learn,
        plasticity=_table(tables, "plasticity"),
        candidates=candidates,
        run=READER.read(RunSettings, _table(tables, "run"), "[run]"),
        protect=protect,
        search=_table(tables, "search"),
        base=Path.cwd() if base is None else base,
        fingerprint=fingerprint_of(tables),
        text=text,
    )
    plan.check()
    return plan


def fingerprint_of(tables: Table) -> str:
    """Return the SHA-256 of a plan's settings; comments, order and the title do not matter.

    >>> fingerprint_of({"a": 1, "b": 2}) == fingerprint_of({"b": 2, "a": 1, "title": "x"})
    True
    """
    settings = {key: value for key, value in tables.items() if key != "title"}
    return hashlib.sha256(json.dumps(settings, sort_keys=True, default=str).encode()).hexdigest()


def _data(table: object, name: str) -> tuple[str, Origin, Sharing]:
    """Return the [data] of a plan: where it comes from and how it is shared out."""
    if not isinstance(table, Mapping):
        raise ValueError(
            f'{name} lacks [data]; write [data] and files = "recordings/*.csv", or a source'
        )
    source, known = table.get("source"), (*SOURCES, *PUBLIC)
    if ("files" in table) == (source is not None):
        raise ValueError(
            '[data] needs either files = "recordings/*.csv" or a source; choose from '
            f"{', '.join(known)}"
        )
    if source is not None and (not isinstance(source, str) or source not in known):
        raise ValueError(f"source in [data] is {source!r}; {nearest(str(source), known)}")
    kind, given = (Files, {}) if source is None else origin_of(str(source))
    own, common = set(READER.settings(kind)) - set(given), set(READER.settings(Sharing))
    rest = {key: value for key, value in table.items() if key != "source"}
    refuse_unknown(rest, sorted(own | common), "[data]")
    part = {key: value for key, value in rest.items() if key in own}
    origin: Origin = READER.read(kind, part, "[data]", given)
    shared = {key: value for key, value in rest.items() if key in common}
    return str(source or "files"), origin, READER.read(Sharing, shared, "[data]")


def _prepare(table: Table) -> Prepare:
    scale = table.get("scale")
    if not isinstance(scale, Mapping):
        return READER.read(Prepare, table, "[prepare]")
    try:
        numbers = Prepare.from_settings({"scale": scale}).scale
    except (TypeError, ValueError) as error:
        raise ValueError(f"[prepare]: {error}") from error
    rest = {key: value for key, value in table.items() if key != "scale"}
    return READER.read(Prepare, rest, "[prepare]", {"scale": numbers})


def _washout(one: object) -> int:
    """Return the steps that a map, or the longest of the maps in it, needs to enter a recording."""
    if isinstance(one, EchoState | FeatureMap):
        return one.washout
    if not is_dataclass(one):
        return 0
    settings = (getattr(one, each.name) for each in fields(one))
    inside = [m for value in settings for m in (value if isinstance(value, tuple) else (value,))]
    return max((_washout(m) for m in inside), default=0)


def _n_targets(about: About) -> int | None:
    """Return how many columns of numbers are predicted, None if no columns are named."""
    columns = dict(about.columns).get("target")
    return None if about.classes is not None or not columns else len(columns.split("\n"))


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
