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

Only [data] is needed. `catchment.plans.settings` has the tables of what can be named.
"""

from __future__ import annotations

import difflib
import hashlib
import json
import sys
import tomllib
from collections.abc import Iterable, Mapping
from importlib import resources
from pathlib import Path

from catchment.data.prepare import Prepare
from catchment.plans.data import SOURCES, Files, Origin, Sharing, origin_of
from catchment.plans.plan_file import PlanFile as PlanFile
from catchment.plans.plan_file import RunSettings as RunSettings
from catchment.plans.plan_file import check
from catchment.plans.settings import (
    ALGORITHMS,
    ANY_MAP,
    BUILT,
    GIVEN,
    MAPS,
    MORE,
    PLASTICITY,
    PROTECTIONS,
    Table,
    named_schema,
    names,
    nearest,
    read,
    refuse_unknown,
    schema,
)

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
    plans = sorted(one.name for one in folder.glob("*.toml"))
    near = plans if path.is_dir() else difflib.get_close_matches(path.name, plans, n=1)
    if near:
        wrong = "is a folder" if path.is_dir() else "is not there"
        return f"the plan {path} {wrong}; did you mean {folder / near[0]}?"
    examples = "`catchment plan --example` lists examples"
    if path.is_dir():
        made = f"`catchment fit {path} --label COLUMN` makes one"
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
        prepare=read(Prepare, _table(tables, "prepare"), "[prepare]"),
        features=_table(tables, "features"),
        learn=learn,
        plasticity=_table(tables, "plasticity"),
        candidates=candidates,
        run=read(RunSettings, _table(tables, "run"), "[run]"),
        protect=protect,
        search=_table(tables, "search"),
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
        "prepare": schema(Prepare),
        "features": features,
        "plasticity": {
            "oneOf": [
                named_schema(name, PLASTICITY[name], more=MORE["plasticity"]) for name in PLASTICITY
            ]
        },
        "learn": {"oneOf": _options(ALGORITHMS, "algorithm", ("ridge",))},
        "candidates": {"type": "array", "items": features},
        "run": schema(RunSettings),
        "protect": {
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
    '# Exact federated ridge on invented wearables: one round, no download, a few seconds.'
    >>> example_plan("waerables")
    Traceback (most recent call last):
    ValueError: no example is called 'waerables'; did you mean 'wearables'?
    """
    if name not in example_names():
        raise ValueError(f"no example is called {name!r}; {nearest(name, example_names())}")
    return (_FOLDER / f"{name}.toml").read_text(encoding="utf-8")
