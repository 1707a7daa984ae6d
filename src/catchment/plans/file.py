"""One TOML file as a plan.

    title = "What this is"        # optional

    [data]                        # source = "wearables", "uci_har", "table", ..., and its settings
    [reservoir]                   # the settings of a Recipe, without inputs: the data have them
    [plasticity]                  # optional: gains and shifts that clients find before training
    [features]                    # what the readout sees of a state
    [algorithm]                   # name = "ridge", ..., and its settings
    [[candidates]]                # for name = "candidates": changes to [reservoir], one table each
    [run]                         # rounds, share, min_clients, seed, baselines
    [[protections]]               # name = ..., in the order in which clients apply them
    [search]                      # ranges and settings of `catchment search`; a run ignores it

To add an algorithm, give it a line in ALGORITHMS. Its fields `features` and `classes` are filled
in; all others are settings.
"""

from __future__ import annotations

import hashlib
import json
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from catchment.arrays import Array
from catchment.features.echo_state.pooling import Pool
from catchment.features.echo_state.recipe import Recipe
from catchment.features.echo_state.reservoir import Reservoir
from catchment.features.echo_state.state_map import EchoStateMap
from catchment.features.feature_map import FeatureMap
from catchment.federation.compression import FactorUpload, Float32
from catchment.federation.learn.averaging import GradientAveraging, ReadoutAveraging
from catchment.federation.learn.balanced import BalancedRidge
from catchment.federation.learn.candidates import Candidates
from catchment.federation.learn.ensemble import ReservoirEnsemble
from catchment.federation.learn.optimisers import Adam, Mean, Momentum, ServerOptimiser, Yogi
from catchment.federation.learn.plasticity import FederatedPlasticity, MomentPlasticity
from catchment.federation.learn.ridge import FederatedRidge
from catchment.federation.learn.selected import SelectedRidge
from catchment.federation.measure.baselines import delay_line
from catchment.federation.measure.outliers import InfluenceCap
from catchment.federation.plan import Learner, Plan, as_algorithm
from catchment.plans.data import PlanData, Sharing, arrange
from catchment.plans.dataclass_tables import Reader, nearest, refuse_unknown
from catchment.plans.sources import PUBLIC, SOURCES, Origin, origin_of
from catchment.privacy.dp.clipping import Clip
from catchment.privacy.dp.noise import GaussianNoise
from catchment.privacy.secure_sum.protection import SecureSum

ALGORITHMS: dict[str, type] = {
    "ridge": FederatedRidge,
    "candidates": Candidates,
    "averaging": ReadoutAveraging,
    "gradient": GradientAveraging,
    "ensemble": ReservoirEnsemble,
    "selected": SelectedRidge,
    "balanced": BalancedRidge,
}
PLASTICITY: dict[str, type] = {"fedip": FederatedPlasticity, "moments": MomentPlasticity}
PLASTICITY_ROUNDS = 10
PROTECTIONS: dict[str, type] = {
    "float32": Float32,
    "factors": FactorUpload,
    "influence_cap": InfluenceCap,
    "gaussian_noise": GaussianNoise,
    "secure_sum": SecureSum,
}
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

GIVEN = frozenset({"features", "classes", "identities", "reservoir"})
READER = Reader(
    choices={
        ServerOptimiser: {"mean": Mean, "momentum": Momentum, "adam": Adam, "yogi": Yogi},
    },
    # What a file cannot say: it comes from elsewhere, or is no plain setting.
    hidden={
        Recipe: ("inputs", "scale", "fingerprint"),
        ReservoirEnsemble: ("recipes",),
        GradientAveraging: ("initial",),
        GaussianNoise: ("budget",),
        Clip: ("reference",),
    },
)
_SECTIONS = (
    *("title", "data", "reservoir", "plasticity", "features", "algorithm", "candidates"),
    *("run", "protections", "search"),
)


@dataclass(frozen=True, kw_only=True)
class FeatureSettings:
    """What the readout sees of a state.

    Parameters
    ----------
    bias
        Whether a constant one is a feature; readouts fit an intercept anyway.
    input, state
        Whether the inputs and the states are features.
    pool
        One row per sequence: "last", "mean", "mean_std" or "max" over its steps. Without it there
        is a row per step. If not given: "mean_std" for classes of whole sequences, else none.
    segments
        With a pool: cut each sequence into so many parts, pool each, and join the rows.
    washout
        Steps at the start of each sequence that give no features.
    precision
        Of the states.
    """

    bias: bool = False
    input: bool = True
    state: bool = True
    pool: Pool | Literal["none"] | None = None
    segments: int = 1
    washout: int = 0
    precision: Literal["float64", "float32"] = "float64"

    def of(self, reservoir: Reservoir, *, classes: bool) -> FeatureMap:
        """Return the features of a reservoir."""
        pool = ("mean_std" if classes else None) if self.pool is None else self.pool
        return EchoStateMap(
            reservoir,
            bias=self.bias,
            input=self.input,
            state=self.state,
            pool=None if pool == "none" else pool,
            segments=self.segments,
            washout=self.washout,
            precision=self.precision,
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
    seed: int = 0
    baselines: tuple[Baseline, ...] | None = None
    lags: int = 10


@dataclass(frozen=True, kw_only=True)
class PlanFile:
    """A plan as its file has it, every name and type checked; `build` makes a `Plan` of it."""

    title: str = ""
    source: str
    origin: Origin
    sharing: Sharing
    reservoir: Mapping[str, object]
    features: FeatureSettings
    algorithm: Mapping[str, object]
    plasticity: Mapping[str, object] = field(default_factory=dict)
    candidates: tuple[Mapping[str, object], ...] = ()
    run: RunSettings = field(default_factory=RunSettings)
    protections: tuple[Mapping[str, object], ...] = ()
    search: Mapping[str, object] = field(default_factory=dict)
    base: Path = Path()
    fingerprint: str = ""
    text: str = ""

    def load_data(self, directory: Path | None = None) -> PlanData:
        """Return the data that the plan names; MissingDataError if they are not here."""
        found = self.origin.load(self.sharing.seed, directory, self.base)
        return arrange(found, self.sharing, washout=self.features.washout)

    def build(
        self,
        n_inputs: int,
        classes: tuple[str, ...] | None,
        identities: Mapping[str, str] | None = None,
        plasticity: tuple[Array, Array] | None = None,
    ) -> Plan[Any, Any, Any]:
        """Return the plan for data of so many channels and these classes.

        Parameters
        ----------
        identities
            Public keys of the clients, for a secure sum.
        plasticity
            Gains and shifts (N,) that the reservoir has been given.
        """
        whole = classes is not None and not getattr(self.origin, "per_step", False)
        reservoirs = [Reservoir.from_recipe(recipe) for recipe in self.recipes(n_inputs)]
        if plasticity is not None:
            reservoirs = [reservoir.with_plasticity(*plasticity) for reservoir in reservoirs]
        maps = [self.features.of(reservoir, classes=whole) for reservoir in reservoirs]
        return self._plan(maps, classes, identities or {})

    def plastic(self, reservoir: Reservoir) -> tuple[Learner[Any, Any, Any], int]:
        """Return what adapts the reservoir before training, and its number of rounds."""
        rounds = self.plasticity.get("rounds", PLASTICITY_ROUNDS)
        if type(rounds) is not int or rounds < 1:
            raise ValueError(f"rounds in [plasticity] is {rounds!r}; give a whole number from 1 on")
        table = {key: value for key, value in self.plasticity.items() if key != "rounds"}
        return _named(PLASTICITY, table, "[plasticity]", {"reservoir": reservoir}), rounds

    @property
    def is_secret(self) -> bool:
        """Whether clients need keys: there is a secure sum."""
        return any(table.get("name") == "secure_sum" for table in self.protections)

    def recipes(self, n_inputs: int) -> list[Recipe]:
        """Return the recipe of the reservoir, or that of every candidate."""
        changes = enumerate(self.candidates, start=1)
        tables = {f"[[candidates]] {k}": {**self.reservoir, **one} for k, one in changes}
        given = {"inputs": n_inputs}
        first = READER.read(Recipe, self.reservoir, "[reservoir]", given)
        others = [READER.read(Recipe, table, where, given) for where, table in tables.items()]
        return others or [first]

    def check(self) -> None:
        """Raise ValueError if a setting is wrong, as far as can be told without the data."""
        n, pooled = len(self.recipes(2**31)), self.features.segments > 1
        maps = [self.features.of(delay_line(1, k + 1), classes=pooled) for k in range(n)]
        self._plan(maps, None, {})
        if self.plasticity:
            self.plastic(Reservoir.from_recipe(Recipe(units=2, inputs=1)))
            if self.candidates:
                raise ValueError("[plasticity] adapts one reservoir; leave out [[candidates]]")
        before = {"[plasticity]": bool(self.plasticity)}
        before['scaling = "federated"'] = self.sharing.scaling == "federated"
        noisy = any(table.get("name") == "gaussian_noise" for table in self.protections)
        for stage in (name for name, present in before.items() if present and noisy):
            raise ValueError(f"gaussian_noise covers the training, not {stage}; leave one out")

    def _plan(
        self,
        maps: list[FeatureMap],
        classes: tuple[str, ...] | None,
        identities: Mapping[str, str],
    ) -> Plan[Any, Any, Any]:
        features = tuple(maps) if self.candidates else maps[0]
        given = {"features": features, "classes": classes}
        algorithm: Learner[Any, Any, Any] = _named(ALGORITHMS, self.algorithm, "[algorithm]", given)
        protections = [
            _named(PROTECTIONS, table, f"[[protections]] {k}", {"identities": dict(identities)})
            for k, table in enumerate(self.protections, start=1)
        ]
        return Plan(
            algorithm=algorithm,
            rounds=self.run.rounds or as_algorithm(algorithm).needs.rounds,
            share=self.run.share,
            min_clients=self.run.min_clients,
            protections=tuple(protections),
            seed=self.run.seed,
        )


def read_plan(path: str | Path) -> PlanFile:
    """Return the plan of a TOML file."""
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"there is no plan {path}; `catchment plan --example` shows some")
    return parse_plan(path.read_text(encoding="utf-8"), base=path.resolve().parent, name=path.name)


def parse_plan(text: str, *, base: Path | None = None, name: str = "the plan") -> PlanFile:
    """Return the plan of a text in TOML.

    >>> parse_plan('[data]\\nsource = "wearables"\\n[reservoir]\\nunits = 50\\n').source
    'wearables'
    >>> parse_plan('[data]\\nsource = "waerables"\\n[reservoir]\\nunits = 50\\n')
    Traceback (most recent call last):
    ValueError: source in [data] is 'waerables'; did you mean 'wearables'?
    """
    try:
        tables = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"{name} is not valid TOML: {error}") from error
    refuse_unknown(tables, _SECTIONS, name)
    source, origin, sharing = _data(tables.get("data"), name)
    algorithm = {"name": "ridge", **_table(tables, "algorithm")}
    candidates, protections = _tables(tables, "candidates"), _tables(tables, "protections")
    if bool(candidates) != (algorithm["name"] == "candidates"):
        raise ValueError(
            '[[candidates]] go with name = "candidates" in [algorithm]; add the one or the other'
        )
    plan = PlanFile(
        title=str(tables.get("title", "")),
        source=source,
        origin=origin,
        sharing=sharing,
        reservoir=_table(tables, "reservoir"),
        features=READER.read(FeatureSettings, _table(tables, "features"), "[features]"),
        algorithm=algorithm,
        plasticity=_table(tables, "plasticity"),
        candidates=candidates,
        run=READER.read(RunSettings, _table(tables, "run"), "[run]"),
        protections=protections,
        search=_table(tables, "search"),
        base=base or Path(),
        fingerprint=fingerprint_of(tables),
        text=text,
    )
    plan.check()
    return plan


def fingerprint_of(tables: Mapping[str, object]) -> str:
    """Return the SHA-256 of a plan's settings; comments, order and the title do not matter.

    >>> fingerprint_of({"a": 1, "b": 2}) == fingerprint_of({"b": 2, "a": 1, "title": "x"})
    True
    """
    settings = {key: value for key, value in tables.items() if key != "title"}
    return hashlib.sha256(json.dumps(settings, sort_keys=True, default=str).encode()).hexdigest()


def _data(table: object, name: str) -> tuple[str, Origin, Sharing]:
    """Return the [data] of a plan: where it comes from and how it is shared out."""
    if not isinstance(table, Mapping):
        raise ValueError(f"{name} lacks [data]; say where the data come from")
    source = table.get("source")
    known = (*SOURCES, *PUBLIC)
    if not isinstance(source, str):
        raise ValueError(f"[data] lacks 'source'; choose from {', '.join(known)}")
    if source not in known:
        raise ValueError(f"source in [data] is {source!r}; {nearest(source, known)}")
    kind, given = origin_of(source)
    own, common = set(READER.settings(kind)) - set(given), set(READER.settings(Sharing))
    rest = {key: value for key, value in table.items() if key != "source"}
    refuse_unknown(rest, sorted(own | common), "[data]")
    part = {key: value for key, value in rest.items() if key in own}
    origin: Origin = READER.read(kind, part, "[data]", given)
    shared = {key: value for key, value in rest.items() if key in common}
    return source, origin, READER.read(Sharing, shared, "[data]")


def _named(
    kinds: Mapping[str, type],
    table: Mapping[str, object],
    where: str,
    given: Mapping[str, object] | None = None,
) -> Any:
    name = table.get("name")
    if not isinstance(name, str) or name not in kinds:
        options = nearest(str(name), kinds) if kinds else "there are none"
        raise ValueError(f"name in {where} is {name!r}; {options}")
    rest = {key: value for key, value in table.items() if key != "name"}
    return READER.read(kinds[name], rest, where, given)


def _table(tables: Mapping[str, object], name: str) -> Mapping[str, object]:
    found = tables.get(name, {})
    if not isinstance(found, Mapping):
        raise ValueError(f"{name} is {found!r}; make it a table, [{name}]")
    return found


def _tables(tables: Mapping[str, object], name: str) -> tuple[Mapping[str, object], ...]:
    found = tables.get(name, [])
    if not isinstance(found, list) or not all(isinstance(item, Mapping) for item in found):
        raise ValueError(f"{name} is {found!r}; make it a list of tables, [[{name}]]")
    return tuple(found)
