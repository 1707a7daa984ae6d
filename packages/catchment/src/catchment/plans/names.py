"""What a plan file can name: feature maps, algorithms, plasticity and protections, one table each.

Feature maps are those of `catchment.features.base`. A setting that is a map is a table, or the
name of a map, and one that is several maps is a list of such. What a map is made of, whatever its
class calls it, is `of` in a file.

To add an algorithm, give it a line in ALGORITHMS, or name it among the entry points of a package of
yours (`catchment.plugins`). The class is a frozen dataclass whose fields are
its settings in [learn]; those called `features` and `classes` are filled in. Where the algorithm
depends on more than its settings, the class holds only the settings and has a method
`learner(given)` that returns the algorithm, as `Ridge` does. A user's own class is named as
`module:Class` and read in the same way.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from pathlib import Path
from typing import Any, Literal, Protocol, runtime_checkable

from catchment.features.base import (
    LEARNED,
    LIBRARY,
    FeatureMap,
    imported,
    known_map,
    library_class,
    name_of,
)
from catchment.features.default_map import DefaultMap
from catchment.features.echo_state.echo_state import EchoState
from catchment.features.echo_state.recipe import Recipe
from catchment.features.encoder import Encoder
from catchment.features.nvar import NVAR
from catchment.federation.algorithm import Algorithm
from catchment.federation.compression import FactorUpload, Float32, SmallestUpload
from catchment.federation.course import Maps
from catchment.federation.learn.automatic import UploadKind, Uploads
from catchment.federation.learn.averaging import GradientAveraging, ReadoutAveraging
from catchment.federation.learn.balanced import BalancedRidge
from catchment.federation.learn.candidates import Candidates, SelectedRidge
from catchment.federation.learn.ensemble import ReservoirEnsemble
from catchment.federation.learn.normal import FederatedNormal
from catchment.federation.learn.optimisers import Adam, Mean, Momentum, ServerOptimiser, Yogi
from catchment.federation.learn.personal import PersonalReadouts
from catchment.federation.learn.personal_increments import PersonalIncrements
from catchment.federation.learn.ridge import FederatedRidge
from catchment.federation.measure.outliers import FALSE_ALARMS, InfluenceCap
from catchment.plans.dataclass_tables import Reader, nearest
from catchment.plugins import Named
from catchment.privacy.dp.clipping import Clip
from catchment.privacy.dp.noise import GaussianNoise
from catchment.privacy.secure_sum.protection import SecureSum
from catchment.readout.detector import ANOMALY, NORMAL
from catchment.readout.device import Devices
from catchment.readout.heads import HEADS, Head

Recipes = Mapping[str, EchoState]


@dataclass(frozen=True, kw_only=True)
class Ensemble:
    """Train a readout on every client's own reservoir; the model is the mean of their predictions.

    Parameters
    ----------
    recipes
        By client: the settings of its own reservoir, as in [features]. Who has none uses that of
        [features] with a seed that depends on the client's name.
    alpha
        A number between 0 and 1: how far reservoirs are moved towards that of [features].
    ridge
        A number, or "folds": each client takes the ridge with the least error on folds of its own
        rows.
    n_folds
        Folds of a client's rows.
    weighting
        "mean": all members count the same; "samples": by the rows they were trained on.
    """

    recipes: Recipes = field(default_factory=dict)
    alpha: float | None = None
    ridge: float | Literal["folds"] = "folds"
    n_folds: int = 5
    weighting: Literal["mean", "samples"] = "mean"

    def learner(self, given: Given) -> Algorithm[Any, Any, Any]:
        """Return the algorithm."""
        features = reservoir_map(given)
        return ReservoirEnsemble(
            features=features,
            recipes=recipes_of(self.recipes, features, given),
            alpha=self.alpha,
            ridge=self.ridge,
            n_folds=self.n_folds,
            weighting=self.weighting,
            classes=given.classes,
        )


@dataclass(frozen=True, kw_only=True)
class Personal:
    """The exact shared readout, and one of every client's own, chosen by its name afterwards.

    Parameters
    ----------
    method
        "towards": ridge towards the shared readout; "mixed": everybody's statistics and one's own.
    ridge
        Of the shared readout: a number, "clients" or "gcv".
    n_blocks
        Stretches of a client's data that are left out in turn, to choose how far to go.
    increments, forgetting, window, false_alarms
        Of the shared readout, as for a ridge. With increments = "new" how far to go is chosen by
        what came in later, and clients send nothing more than for a ridge.
    """

    method: Literal["towards", "mixed"] = "towards"
    ridge: float | Literal["clients", "gcv"] = "clients"
    n_blocks: int = 5
    increments: int | Literal["new"] = 1
    forgetting: float = 1.0
    window: int | None = None
    false_alarms: float = FALSE_ALARMS

    def learner(self, given: Given) -> Algorithm[Any, Any, Any]:
        """Return the algorithm."""
        shared = FederatedRidge(
            features=only_map(given),
            ridge=self.ridge,
            classes=given.classes,
            increments=self.increments,
            forgetting=self.forgetting,
            window=self.window,
            false_alarms=self.false_alarms,
        )
        if shared.carries:
            return PersonalIncrements(ridge=shared, method=self.method)
        return PersonalReadouts(ridge=shared, method=self.method, n_blocks=self.n_blocks)


def only_map(given: Given) -> FeatureMap:
    (features,) = given.maps
    return features


def reservoir_map(given: Given) -> EchoState:
    features = only_map(given)
    if not isinstance(features, EchoState):
        raise ValueError(
            f"{name_of(features)} has no reservoir of every client's own; use map = "
            '"echo_state" in [features], or algorithm = "ridge"'
        )
    return features


def recipes_of(recipes: Recipes, features: EchoState, given: Given) -> dict[str, Recipe]:
    n_inputs, per_step = features.reservoir.n_inputs, features.per_step
    classes = given.classes is not None
    return {
        name: one.recipe(n_inputs, per_step=per_step, classes=classes)
        for name, one in recipes.items()
    }


NORMAL_PLAN = "normal"
WASHOUT = 50  # steps after which a reservoir is taken to have entered a recording


@dataclass(frozen=True, kw_only=True)
class Normal:
    """A model of what is normal for all clients, and a threshold above which there is an alarm.

    Parameters
    ----------
    score
        "features": how unusual a feature row is; "error": how unusual the error is of a forecast of
        the inputs.
    false_alarms
        The share of normal rows that may be above the threshold.
    shrinkage
        Of the covariance: a number from 0 to 1, or "auto".
    calibration
        Share of every recording, its end, that sets the threshold and nothing else.
    average
        How many rows a score is the mean of, its own and those before it.
    horizon
        How many steps ahead inputs are forecast, for "error".
    ridge
        Of the forecasts, for "error": a number, or "gcv".
    standardise
        Whether features are divided by their standard deviation first; "auto" is what the map says.
    per_decade
        Bins, for every factor of ten, in which scores are counted.
    normal_class
        Which of two labels is normal, where [data] has a label; "normal" and "0" need not be named.
    """

    score: Literal["features", "error"] = "features"
    false_alarms: float = 0.01
    shrinkage: float | Literal["auto"] = "auto"
    calibration: float = 0.25
    average: int = 1
    horizon: int = 1
    ridge: float | Literal["gcv"] = "gcv"
    standardise: bool | Literal["auto"] = "auto"
    per_decade: int = 64
    normal_class: str = ""

    def learner(self, given: Given) -> Algorithm[Any, Any, Any]:
        """Return the algorithm."""
        (features,) = given.maps
        own = {one.name: getattr(self, one.name) for one in fields(self)}
        return FederatedNormal(
            features=features, classes=given.classes, keep_clients=not given.hidden, **own
        )


def stand_in_classes(learn: Mapping[str, object]) -> tuple[str, str]:
    """Return two labels that a plan's settings fit, where its own are not known yet.

    >>> stand_in_classes({"algorithm": "normal", "normal_class": "healthy"})
    ('healthy', 'anomaly')
    """
    return str(learn.get("normal_class") or NORMAL), ANOMALY


def entered(one: FeatureMap, table: Mapping[str, object]) -> FeatureMap:
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


def check_data(*, target: bool, horizon: bool, baselines: bool) -> None:
    """Raise ValueError if what a plan says of its data has no meaning for what is normal."""
    if target:
        raise ValueError(
            "[data] has a target of numbers, and what is normal is learned of the inputs; leave it "
            'out, or name a column of two labels, label = "..."'
        )
    if horizon:
        raise ValueError(
            'horizon in [prepare] is for targets; write score = "error" and the horizon into '
            "[learn], which forecasts the inputs itself"
        )
    if baselines:
        raise ValueError(
            "baselines are compared by labels, and [data] has none; leave them out, or name a "
            'column of two labels, label = "..."'
        )


Table = Mapping[str, object]


@dataclass(frozen=True, eq=False)
class Given:
    """What an algorithm is made with, besides its own settings.

    Parameters
    ----------
    maps
        The feature map, or one for every table of [[candidates]].
    classes
        Names of the outputs if they are classes.
    hidden
        Whether the server sees nothing but sums.
    n_clients
        How many clients train; None for many.
    protected
        Whether anything changes or hides what clients send.
    n_targets
        How many numbers are predicted if there are no classes, as far as known.
    base
        The plan's own folder, from which on it names others.
    """

    maps: Maps
    classes: tuple[str, ...] | None = None
    hidden: bool = False
    n_clients: int | None = None
    base: Path = Path()
    protected: bool = False
    n_targets: int | None = None


@runtime_checkable
class Settings(Protocol):
    """Settings of an algorithm that is made when it is known who takes part."""

    def learner(self, given: Given) -> Algorithm[Any, Any, Any]: ...


@dataclass(frozen=True, kw_only=True)
class Ridge:
    """Exact federated ridge regression: one round of sums, solved at the server.

    Parameters
    ----------
    ridge
        A number; "clients": the ridge with the least error on clients left out of the solution, for
        which a secure sum takes a second round; "groups", the same with groups of clients, whose
        sums are kept in the place of each client's; "gcv", which needs only the sum; or "auto":
        "clients" where there are several, the server sees them one by one and no class is one
        client's alone, of more than 1000 clients "groups" on the same terms, else "gcv".
    upload
        What clients send, all of it exact: "statistics"; "smallest", the same numbers in fewer
        where a client has fewer rows than features; "gradients", over rounds, for very many
        features; "factors", QR factors of the rows, with the digits that sums lose on noise-free
        series, which no protection hides; or "auto", the cheapest of the others.
    per_output
        Whether each output chooses its own ridge.
    standardise
        Whether the ridge acts on features divided by their standard deviation over all clients;
        "auto" is what the map says: not for reservoirs.
    keep_clients
        Whether the server keeps each client's statistics, for unlearning and flagging, or the sums
        of 32 "groups" of clients. If not given, each client's wherever it sees them, and groups
        where the ridge is chosen by them.
    increments
        Rounds over which a client hands in its data, each time the next stretch of it. Or "new":
        the run goes on with `catchment run --resume` whenever there are new files, and clients hand
        in what is new.
    forgetting
        Factor on the sum before a round's statistics are added.
    window
        Keep the last rounds, this many, one by one, and leave out what came before them.
    intercept
        Whether outputs have an intercept, which no ridge shrinks. AFL, FED3R and RanPAC have none.
    head
        Another way from the same sums to class scores: "gaussian" (linear discriminant analysis, as
        FedCGS) or "unit" (weights of each class divided by their length, as FED3R); a table with
        this name also takes its settings.
    devices
        "any" lets clients compute features without a grid on any device; see `FederatedRidge`.
    false_alarms
        With increments = "new": the chance that a client which did not change is said to have, for
        each client, time and kind of change.
    row_stride
        Of a recording's rows every so manieth is learnt from.
    """

    ridge: float | Literal["auto", "clients", "groups", "gcv"] = "auto"
    upload: UploadKind = "auto"
    per_output: bool = False
    standardise: bool | Literal["auto"] = "auto"
    keep_clients: bool | Literal["groups"] | None = None
    increments: int | Literal["new"] = 1
    forgetting: float = 1.0
    window: int | None = None
    intercept: bool = True
    head: Head | None = None
    devices: Devices = "same"
    false_alarms: float = FALSE_ALARMS
    row_stride: int = 1

    def learner(self, given: Given) -> Algorithm[Any, Any, Any]:
        """Return the algorithm."""
        (features,) = given.maps
        own = {f.name: getattr(self, f.name) for f in fields(self)}
        del own["ridge"], own["upload"]
        return self.uploads(given).learner(
            features, classes=given.classes, n_clients=given.n_clients, **own
        )

    @property
    def _is_summed(self) -> bool:
        """Whether a setting is about sums of statistics, so that nothing else can be sent."""
        usual = Ridge(
            ridge=self.ridge,
            upload=self.upload,
            standardise=self.standardise,
            keep_clients=None if self.keep_clients else self.keep_clients,
        )
        if self.upload == "factors":
            usual = replace(
                usual,
                per_output=self.per_output,
                keep_clients=self.keep_clients,
                increments=self.increments,
                intercept=self.intercept,
            )
        return self != usual

    def uploads(self, given: Given) -> Uploads:
        """Return what the upload is chosen by."""
        return Uploads(
            asked=self.upload,
            protected=given.protected,
            hidden=given.hidden,
            summed=self._is_summed,
            ridge=self.ridge,
            n_targets=len(given.classes) if given.classes else given.n_targets or 1,
        )


MAPS = Named(
    "maps",
    {name: kind for name in LIBRARY if name not in LEARNED and (kind := library_class(name))},
)
ALGORITHMS = Named(
    "algorithms",
    {
        "ridge": Ridge,
        "candidates": Candidates,
        "averaging": ReadoutAveraging,
        "gradient": GradientAveraging,
        "ensemble": Ensemble,
        "personal": Personal,
        "selected": SelectedRidge,
        "balanced": BalancedRidge,
        "normal": Normal,
    },
)
# Algorithms that need a reservoir: a plan of one of them that names no map has one.
RESERVOIRS = frozenset({"ensemble", "stacking", "aligned", "partial", "prompt"})
# Algorithms that sum no products of features, so that a map may have very many.
WITHOUT_GRAM = frozenset({"gradient", "conjugate_gradients", "partial", "prompt"})
PLASTICITY = Named("plasticity", {})
PLASTICITY_ROUNDS = 10
PROTECTIONS = Named(
    "protections",
    {
        "float32": Float32,
        "factors": FactorUpload,
        "smallest": SmallestUpload,
        "influence_cap": InfluenceCap,
        "gaussian_noise": GaussianNoise,
        "secure_sum": SecureSum,
    },
)

BUDGET = "budget.sqlite"
BUDGET_SETTINGS = {
    "budget": {
        "type": "string",
        "default": BUDGET,
        "description": "The ledger of what was released, beside the plan.",
    },
    "budget_epsilon": {
        "type": "number",
        "description": "What all releases together may tell of a client, at the plan's delta; the "
        "plan's epsilon if not given, so that its second run is refused.",
    },
}

GIVEN = frozenset({"features", "classes", "identities", "reservoir"})
OWN_CLASS = re.compile(r"[\w.]+:[\w.]+")
MAP_OR_NAME = {"anyOf": [{"$ref": "#/properties/features"}, {"type": "string"}]}
BUILT: dict[str, object] = {"n_inputs": None}  # settings of a map that the data decide
READER = Reader(
    choices={
        ServerOptimiser: {"mean": Mean, "momentum": Momentum, "adam": Adam, "yogi": Yogi},
        Head: HEADS,
    },
    # What a file cannot say: it comes from elsewhere, or is no plain setting.
    hidden={
        GradientAveraging: ("initial",),
        GaussianNoise: ("budget",),
        Clip: ("reference",),
        EchoState: ("n_inputs", "matrices"),
    },
    renamed={
        kind: {field.name: "of"}
        for kind in MAPS.own.values()
        for field in fields(kind)
        if field.name in ("map", "inner")
    },
    makers=dict.fromkeys(
        (FeatureMap, FeatureMap | None),
        (lambda value, where: map_of(value, where), MAP_OR_NAME),
    ),
)


def named(
    kinds: Mapping[str, type],
    table: Table,
    where: str,
    given: Mapping[str, object] | None = None,
    *,
    key: str = "name",
    own: bool = False,
) -> Any:
    """Return what a table describes; its entry `key` says which of some dataclasses it is.

    Parameters
    ----------
    own
        Whether a class of one's own may be named, as `module:Class`.

    >>> named(MAPS, {"map": "echo_state", "units": 50}, "[features]", key="map").units
    50
    >>> named(MAPS, {"map": "echo_sate"}, "[features]", key="map")
    Traceback (most recent call last):
    ValueError: map in [features] is 'echo_sate'; did you mean 'echo_state'?
    """
    name = table.get(key)
    kind = kinds.get(name) if isinstance(name, str) else None
    if kind is None and own and isinstance(name, str) and ":" in name:
        kind = _imported(name, f"{key} in {where}")
    if kind is None:
        options = nearest(str(name), kinds)
        raise ValueError(f"{key} in {where} is {name!r}; {options}")
    rest = {entry: value for entry, value in table.items() if entry != key}
    return READER.read(kind, rest, where, given)


def with_map(table: Table, *, reservoir: bool = False) -> dict[str, object]:
    """Return a table of [features] that says which map it is.

    One that says nothing at all is the default map; one with settings and no map is a reservoir.

    Parameters
    ----------
    reservoir
        Whether the plan needs a reservoir, which then is the default.

    >>> with_map({})["map"], with_map({"units": 50})["map"], with_map({"columns": 800})["map"]
    ('default', 'echo_state', 'default')
    """
    if "map" in table:
        return dict(table)
    default = "columns" in table or not (table or reservoir)
    return {"map": "default" if default else "echo_state", **table}


def map_of(table: object, where: str = "[features]") -> FeatureMap:
    """Return the feature map that a table describes.

    >>> map_of({"map": "concat", "maps": ["window_statistics", {"units": 50}]}).maps[1].units
    50
    >>> map_of({"map": "random_fourier", "of": "window_statistics"}).map
    WindowStatistics(...)
    """
    if isinstance(table, str):
        table = {"map": table}
    if not isinstance(table, Mapping):
        raise ValueError(f"{where} is {table!r}; make it a table of a map's settings")
    filled = with_map(table)
    given = BUILT if filled["map"] in MAPS else None
    made = named(MAPS, filled, where, given, key="map", own=True)
    return known_map(made)


def beside(one: Any, base: Path) -> Any:
    """Return a map whose files, and those of the maps in it, are found from a folder on."""
    if isinstance(one, tuple):
        return tuple(beside(item, base) for item in one)
    if isinstance(one, Encoder):
        return replace(one, onnx=base / one.onnx)
    if not isinstance(one, FeatureMap):
        return one
    values = {field.name: getattr(one, field.name) for field in fields(one)}
    inside = {k: v for k, v in values.items() if isinstance(v, tuple | FeatureMap)}
    return replace(one, **{k: beside(v, base) for k, v in inside.items()})


def algorithm_of(table: Table, given: Given, *, several: bool = False) -> Algorithm[Any, Any, Any]:
    """Return the algorithm of [learn].

    Parameters
    ----------
    several
        Whether it is given all maps, or the only one.
    """
    features = given.maps if several else given.maps[0]
    filled = {"features": features, "classes": given.classes}
    made = named(ALGORITHMS, table, "[learn]", filled, key="algorithm", own=True)
    learner: Algorithm[Any, Any, Any] = made.learner(given) if isinstance(made, Settings) else made
    return learner


def own_classes(value: object) -> list[str]:
    """Return every `module:Class` that a table names, also within its tables.

    >>> own_classes({"map": "concat", "maps": [{"map": "mine:Bands"}, "minirocket"]})
    ['mine:Bands']
    """
    if isinstance(value, Mapping):
        return own_classes(list(value.values()))
    if isinstance(value, list):
        return [name for item in value for name in own_classes(item)]
    return [value] if isinstance(value, str) and OWN_CLASS.fullmatch(value) else []


def uploads_of(table: Table, given: Given) -> Uploads | None:
    """Return what the upload of [learn] is chosen by, None if the algorithm has but one."""
    if table.get("algorithm") != "ridge":
        return None
    made: Ridge = named({"ridge": Ridge}, table, "[learn]", key="algorithm")
    return made.uploads(given)


def _imported(name: str, where: str) -> type:
    kind = imported(name)
    if not isinstance(kind, type) or not is_dataclass(kind):
        raise ValueError(
            f"{where} is {name!r}, which is no dataclass; write @dataclass(frozen=True) above it, "
            "so that its settings are known"
        )
    return kind
