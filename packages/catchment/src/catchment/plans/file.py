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
from importlib import resources
from pathlib import Path

from catchment.data.prepare import Prepare
from catchment.plans.data import SOURCES, Files, Origin, Sharing, origin_of
from catchment.plans.dataclass_tables import nearest, refuse_unknown
from catchment.plans.names import (
    ALGORITHMS,
    BUDGET_SETTINGS,
    BUILT,
    GIVEN,
    MAPS,
    PLASTICITY,
    PLASTICITY_ROUNDS,
    PROTECTIONS,
    READER,
)
from catchment.plans.plan_file import PlanFile as PlanFile
from catchment.plans.plan_file import RunSettings as RunSettings
from catchment.plans.plan_file import Table

SECTIONS = (
    *("title", "data", "prepare", "features", "plasticity", "learn", "candidates"),
    *("run", "protect", "search"),
)
DATA_SUFFIXES = (".csv", ".tsv", ".gz", ".parquet", ".npz")


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
    source, known = table.get("source"), tuple(SOURCES)
    if ("files" in table) == (source is not None):
        raise ValueError(
            '[data] needs either files = "recordings/*.csv" or a source; choose from '
            f"{', '.join(known)}"
        )
    if source is not None and (not isinstance(source, str) or SOURCES.get(source) is None):
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


OWN = {"type": "string", "pattern": "^[^:]+:[^:]+$", "description": "A class of your own."}


def plan_schema() -> dict[str, object]:
    """Return the JSON schema of plan files.

    >>> sorted(plan_schema()["properties"])[:3]
    ['candidates', 'data', 'features']
    """
    features = _maps()
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A catchment plan",
        "type": "object",
        "properties": {
            "title": {"type": "string"},
            "data": {"oneOf": [_files(), *map(_source, SOURCES)]},
            "prepare": READER.schema(Prepare),
            "features": features,
            "plasticity": {"oneOf": [_plasticity(name) for name in PLASTICITY]},
            "learn": _chosen("algorithm", ALGORITHMS, "ridge"),
            "candidates": {"type": "array", "items": features},
            "run": READER.schema(RunSettings),
            "protect": {
                "type": "array",
                "items": {"oneOf": [_protection(name) for name in PROTECTIONS]},
            },
            "search": {"type": "object"},
        },
        "required": ["data"],
        "additionalProperties": False,
    }


def _maps() -> dict[str, object]:
    """Return the schema of a map: a table, which need not say which map it is, or its name."""
    options = [
        READER.named(name, kind, given=BUILT, key="map", optional=name in ("default", "echo_state"))
        for name, kind in MAPS.items()
    ]
    own = {"type": "object", "properties": {"map": OWN}, "required": ["map"]}
    # Not oneOf: an empty table is both the default map and a reservoir without settings.
    return {"anyOf": [*options, own]}


def _chosen(key: str, kinds: Mapping[str, type], usual: str) -> dict[str, object]:
    """Return the schema of a table whose entry `key` says which it is; one may be left out."""
    options = [
        READER.named(name, kind, given=GIVEN, key=key, optional=name == usual)
        for name, kind in kinds.items()
    ]
    own = {"type": "object", "properties": {key: OWN}, "required": [key]}
    return {"oneOf": [*options, own]}


def _protection(name: str) -> dict[str, object]:
    made = READER.named(name, PROTECTIONS[name], given=GIVEN)
    properties = made["properties"]
    assert isinstance(properties, dict)
    more = BUDGET_SETTINGS if name == "gaussian_noise" else {}
    return made | {"properties": {**properties, **more}}


def _plasticity(name: str) -> dict[str, object]:
    made = READER.named(name, PLASTICITY[name], given=GIVEN)
    properties = made["properties"]
    assert isinstance(properties, dict)
    rounds = {"type": "integer", "minimum": 1, "default": PLASTICITY_ROUNDS}
    return made | {"properties": {**properties, "rounds": rounds}}


def _files() -> dict[str, object]:
    return _shared(READER.schema(Files), {}, [])


def _source(name: str) -> dict[str, object]:
    kind, given = origin_of(name)
    return _shared(READER.schema(kind, given=given), {"source": {"const": name}}, ["source"])


def _shared(
    made: dict[str, object], first: dict[str, object], needed: list[str]
) -> dict[str, object]:
    """Return the schema of a [data] that also says how the data are shared out."""
    own, common = made["properties"], READER.schema(Sharing)["properties"]
    required = made.get("required", [])
    assert isinstance(own, dict)
    assert isinstance(common, dict)
    assert isinstance(required, list)
    return made | {"properties": first | own | common, "required": [*needed, *required]}


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
    '# Exact federated ridge on invented wearables: one round, no download, a few seconds.'
    >>> example_plan("waerables")
    Traceback (most recent call last):
    ValueError: no example is called 'waerables'; did you mean 'wearables'?
    """
    if name not in example_names():
        raise ValueError(f"no example is called {name!r}; {nearest(name, example_names())}")
    return (_FOLDER / f"{name}.toml").read_text(encoding="utf-8")
