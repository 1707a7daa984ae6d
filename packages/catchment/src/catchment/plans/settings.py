"""What a plan file can name, and its tables read straight into the dataclasses that they are of.

Maps, algorithms, plasticity and protections have one table of names each. The dataclass is the
schema: names, types, limits and defaults are those of its fields, descriptions those of its
docstring, and a field `map` or `inner` of a map is `of` in a file. An algorithm within an algorithm
is read from the same table. Fields of an algorithm called `features`, `classes` and `base` (the
plan's folder) are filled in; so are `identities` of a protection and `reservoir` of plasticity. To
add one, name it among the entry points of a package of yours (`catchment.plugins`), or write
`module:Class` into the plan. A class that is no algorithm has a method `algorithm()` that returns
one.

Values are read by pydantic. Its errors are data (the value, the limit, all that could stand there),
of which one sentence is made.
"""

from __future__ import annotations

import inspect
import re
import types
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, Field, fields, is_dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import (
    Annotated,
    Any,
    Literal,
    NamedTuple,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

import numpy as np
import pydantic
from annotated_types import Ge
from pydantic import PlainValidator, TypeAdapter, WithJsonSchema
from pydantic_core import PydanticCustomError

from catchment.arrays import LIMITS, Array
from catchment.data.preprocessing import Preprocessing
from catchment.data.scaling import Scaler
from catchment.errors import nearest
from catchment.features.base import LIBRARY
from catchment.features.echo_state.reservoir import Reservoir
from catchment.features.echo_state.settings import RANGES, Uniform
from catchment.features.recipes import FeatureMap, imported, known_map, library_class
from catchment.federation.algorithm import Algorithm
from catchment.federation.checks import Limits
from catchment.federation.learn.anomaly import FederatedAnomalyDetector
from catchment.federation.learn.candidates import Candidates
from catchment.federation.learn.own_readouts import PersonalReadouts, ReadoutAveraging
from catchment.federation.learn.ridge import FederatedRidge, Ridge
from catchment.federation.learn.yule_walker import FederatedYuleWalker
from catchment.federation.protection import LowRankUpload
from catchment.plugins import CHOICES, Named
from catchment.privacy.dp.noise import Clip, GaussianNoise
from catchment.privacy.secure_aggregation.protection import SecureAggregation
from catchment.readout.heads import HEADS, Head

D = TypeVar("D")
Table = Mapping[str, object]
MAPS = Named("maps", {name: kind for name in LIBRARY if (kind := library_class(name))})
ALGORITHMS = Named(
    "algorithms",
    {
        "ridge": FederatedRidge,
        "candidates": Candidates,
        "averaging": ReadoutAveraging,
        "personal": PersonalReadouts,
        "anomaly": FederatedAnomalyDetector,
        "yule_walker": FederatedYuleWalker,
    },
)
# Algorithms that need a reservoir: a plan of one of them that names no map has one.
RESERVOIRS = frozenset({"ensemble", "stacking", "aligned", "partial", "prompt"})
# Algorithms that sum no products of features, so that a map may have very many.
WITHOUT_GRAM = frozenset({"gradient", "conjugate_gradients", "partial", "prompt", "yule_walker"})
PLASTICITY = Named("plasticity", {})
PROTECTIONS = Named(
    "protections",
    {
        "low_rank": LowRankUpload,
        "gaussian_noise": GaussianNoise,
        "secure_aggregation": SecureAggregation,
    },
)
CHOICES[Head] = HEADS
# Fields that a file cannot say: no plain settings.
HIDDEN = {
    GaussianNoise: ("budget",),
    Clip: ("reference",),
    MAPS["echo_state"]: ("n_inputs", "matrices"),
}
GIVEN = ("features", "classes", "base", "identities", "reservoir", "preprocessing", "data_shape")
BUILT: dict[str, object] = {"n_inputs": None}  # settings of a map that the data decide
NOTHING: Mapping[str, Any] = types.MappingProxyType({})
# Settings of a table that are no fields of its dataclass, by the name of what it is.
MORE: Mapping[str, Mapping[str, Any]] = {
    "ridge": {
        "upload": Annotated[
            Literal["statistics", "auto"],
            pydantic.Field(
                default="statistics",
                description="What clients send: statistics; or auto, the same numbers in fewer "
                "where a client has fewer rows than features.",
            ),
        ],
        "ridge": Annotated[Ridge, pydantic.Field(default="auto")],
        "store_per_client": bool | Literal["groups"] | None,
    },
    "gaussian_noise": {
        "budget": Annotated[
            str,
            pydantic.Field(
                default="budget.sqlite",
                description="The ledger of what was released, beside the plan.",
            ),
        ],
        "budget_epsilon": Annotated[
            float,
            pydantic.Field(
                description="What all releases together may tell of a client, at the plan's "
                "delta; the plan's epsilon if not given, so that its second run is refused."
            ),
        ],
    },
    "plasticity": {"rounds": Annotated[int, Ge(1), pydantic.Field(default=10)]},
}
HERE = "\0"  # where a table within a table is, until whoever knows it puts it into the sentence
ANY_MAP = "https://map"  # stands for the schema of a map, which the whole schema has once
STRICT = pydantic.ConfigDict(strict=True, arbitrary_types_allowed=True, allow_inf_nan=False)
WORDS = {
    "string_type": "a text",
    "bool_type": "true or false",
    "int_type": "an integer",
    "float_type": "a number",
    "finite_number": "a finite number",
    "tuple_type": "a list",
    "dict_type": "a table",
}
LIMIT_WORDS = {name: words for name, _, words in LIMITS.values()} | {
    "min_length": "a list of {} or more",
    "max_length": "a list of {}",
}


class Setting(NamedTuple):
    """One setting of a table: the field it is, and the field's type."""

    field: Field[Any]
    hint: Any

    @property
    def is_inside(self) -> bool:
        """Whether it is made of the same table, and no setting itself."""
        return isinstance(self.hint, type) and issubclass(self.hint, Algorithm | Limits)

    @property
    def is_required(self) -> bool:
        """Whether there is no default."""
        return self.field.default is MISSING and self.field.default_factory is MISSING


@cache
def settings(kind: type) -> Mapping[str, Setting]:
    """Return the settings of a dataclass by their names in a file."""
    hints = get_type_hints(kind, include_extras=True)
    ours = issubclass(kind, FeatureMap) and kind.__module__.startswith("catchment")
    of = ("map", "inner") if ours else ()
    shown = [f for f in fields(kind) if f.init and "hidden" not in f.metadata]
    shown = [f for f in shown if f.name not in HIDDEN.get(kind, ())]
    return {"of" if f.name in of else f.name: Setting(f, hints[f.name]) for f in shown}


def names(kind: type, given: Iterable[str] = (), more: Iterable[str] = ()) -> list[str]:
    """Return what a table of a dataclass may say, with what is read of the same table."""
    found = [*more]
    for name, one in settings(kind).items():
        if one.field.name not in given:
            found += names(one.hint, given) if one.is_inside else [name]
    return list(dict.fromkeys(found))


def read(kind: type[D], table: object, where: str, given: Mapping[str, Any] = NOTHING) -> D:
    """Return the dataclass that a table describes.

    In errors the table is called `where`, such as "[run]". The fields in `given` are already known
    and not in the file.

    >>> read(Limits, {"rows": 2}, "[run]")
    Traceback (most recent call last):
    ValueError: [run] has no setting 'rows'; did you mean 'max_rows'?
    """
    return made(kind, values(kind, table, where, given), where)


def made(kind: type[D], found: Mapping[str, Any], where: str) -> D:
    """Return a dataclass of its fields; what it refuses is said with the table's name."""
    try:
        return kind(**found)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{where}: {error}") from error


def values(
    kind: type,
    table: object,
    where: str,
    given: Mapping[str, Any] = NOTHING,
    more: Mapping[str, Any] = NOTHING,
) -> dict[str, Any]:
    """Return the fields of a dataclass that a table names, and those that are given.

    `more` has types of settings that are no fields, which are returned like these.
    """
    table = as_table(table, where)
    refuse_unknown(table, names(kind, given, more), where)
    found = {}
    for name, hint in more.items():
        if name in table:
            found[name] = _value(TypeAdapter(_readable(hint), config=STRICT), table[name],
                                 f"{name} in {where}", given)  # fmt: skip
    for name, one in settings(kind).items():
        own = one.field.name
        if own in given:
            found[own] = given[own]
        elif one.is_inside:
            known = names(one.hint, given)
            inner = {key: value for key, value in table.items() if key in known}
            if inner or one.is_required:
                found[own] = read(one.hint, inner, where, given)
        elif name in table and name not in more:
            found[own] = _value(_adapter(kind, name), table[name], f"{name} in {where}", given)
        elif one.is_required:
            raise ValueError(f"{where} lacks {name!r}; add it")
    return found


@cache
def _adapter(kind: type, name: str) -> TypeAdapter[Any]:
    return TypeAdapter(_readable(settings(kind)[name].hint), config=STRICT)


def _readable(hint: Any) -> Any:
    """Return a type as pydantic is to read it: "none" for None, lists for tuples, tables for ours.

    What is a class of ours is made by `_made_of`, which also names what is wrong within it.
    """
    origin, inside = get_origin(hint), get_args(hint)
    if hint is type(None):
        none = pydantic.BeforeValidator(lambda value: None if value == "none" else value)
        return Annotated[None, none, WithJsonSchema({"const": "none"})]
    if hint in CHOICES or origin is np.ndarray or is_dataclass(hint):
        return Annotated[Any, PlainValidator(partial(_made_of, hint)), WithJsonSchema(_inner(hint))]
    if origin is Annotated:
        return Annotated[_readable(inside[0]), *hint.__metadata__]
    if origin in (Union, types.UnionType):
        return Union[tuple(map(_readable, inside))]  # noqa: UP007
    if origin is tuple:
        parts = tuple(one if one is ... else _readable(one) for one in inside)
        return Annotated[tuple[parts], pydantic.Strict(False)]  # type: ignore[valid-type]
    if origin in (dict, Mapping):
        return dict[str, _readable(inside[1])]  # type: ignore[misc]
    return hint


def _made_of(hint: Any, value: object, info: pydantic.ValidationInfo) -> object:
    """Return what a value within a table describes, ValueError with `HERE` for where it is."""
    if hint is FeatureMap:
        return map_of(value, HERE)
    if hint in CHOICES:
        table = {"name": value} if isinstance(value, str) else value
        kind, rest = chosen(CHOICES[hint], table, HERE)
        return read(kind, rest, HERE)
    if get_origin(hint) is np.ndarray:
        return _array(value)
    if not isinstance(value, Mapping):
        raise PydanticCustomError("dict_type", "no table")
    if hint is Scaler:
        return Preprocessing.from_settings({"scale": value}).scale
    if hint is Reservoir:
        given: Any = info.context
        reservoir, classes = given["features"].reservoir, given["classes"] is not None
        own = read(MAPS["echo_state"], value, HERE)
        per_step = given["features"].per_step
        return own.reservoir_for(reservoir.n_inputs, per_step=per_step, classes=classes)
    if hint is Uniform:
        kind, rest = chosen(RANGES, value, HERE, key="kind")
        return read(kind, rest, HERE)
    return read(hint, value, HERE)


def _array(value: object) -> Array:
    """Return numbers, or lists of numbers of one length, as an array of doubles."""
    try:
        found = np.asarray(value if isinstance(value, list) else None)
    except ValueError:  # lists of different lengths
        found = np.asarray(None)
    if found.dtype.kind not in "if":
        raise ValueError(
            f"{HERE} is {value!r}; give a list of numbers, or of such lists of one length"
        )
    return found.astype(np.float64)


def _value(adapter: TypeAdapter[Any], value: object, where: str, given: Mapping[str, Any]) -> Any:
    """Return a setting's value; ValueError in one sentence on what is wrong innermost."""
    try:
        return adapter.validate_python(value, context=given)
    except pydantic.ValidationError as error:
        deepest, said, found = 0, where, list[Any]()
        for one in error.errors(include_url=False):
            depth, here, inside = 0, where, value
            for part in one["loc"]:  # the other parts say which of several types was tried
                if isinstance(inside, list) and isinstance(part, int):
                    depth, here, inside = depth + 1, f"{here}, entry {part + 1}", inside[part]
                elif isinstance(inside, Mapping) and part in inside:
                    depth, here, inside = depth + 1, f"{part} of {here}", inside[part]
            if depth > deepest:
                deepest, said, found = depth, here, []
            found += [one] if depth == deepest and one["type"] != "none_required" else []
        for one in found:
            if one["type"] == "value_error":
                raise ValueError(str(one["ctx"]["error"]).replace(HERE, said)) from error
        words = " or ".join(dict.fromkeys(map(_word, found)))
        raise ValueError(f"{said} is {found[0]['input']!r}; give {words}") from error


def _word(error: Mapping[str, Any]) -> str:
    """Return what could stand in the place of a wrong value."""
    context = error.get("ctx", {})
    for limit, word in LIMIT_WORDS.items():
        if limit in context:
            return word.format(context[limit])
    return str(context.get("expected") or WORDS.get(error["type"]) or error["msg"])


def as_table(value: object, where: str) -> Table:
    """Return a table; ValueError if a value is none."""
    if not isinstance(value, Mapping):
        raise ValueError(f"{where} is {value!r}; make it a table of settings")
    return value


def refuse_unknown(table: Table, known: Iterable[str], where: str) -> None:
    """Raise ValueError for the first name of a table that is not known, with the nearest one."""
    options = list(known)
    for name in table:
        if name not in options:
            raise ValueError(f"{where} has no setting {name!r}; {nearest(name, options)}")


def chosen(
    kinds: Mapping[str, type], table: object, where: str, *, key: str = "name", own: bool = False
) -> tuple[Any, dict[str, Any]]:
    """Return the dataclass that the entry `key` of a table names, and the other entries.

    With `own` it may name a class of one's own, as `module:Class`.

    >>> chosen(MAPS, {"map": "echo_sate"}, "[features]", key="map")
    Traceback (most recent call last):
    ValueError: map in [features] is 'echo_sate'; did you mean 'echo_state'?
    """
    rest = dict(as_table(table, where))
    name = rest.pop(key, None)
    kind = kinds.get(name) if isinstance(name, str) else None
    if kind is None and own and isinstance(name, str) and ":" in name:
        kind = imported(name)
        if not isinstance(kind, type) or not is_dataclass(kind):
            raise ValueError(
                f"{key} in {where} is {name!r}, which is no dataclass; write "
                "@dataclass(frozen=True) above it, so that its settings are known"
            )
    if kind is None:
        raise ValueError(f"{key} in {where} is {name!r}; {nearest(str(name), kinds)}")
    return kind, rest


def with_map(table: Table, *, reservoir: bool = False) -> dict[str, object]:
    """Return a table of [features] that says which map it is.

    One that says nothing at all is the default map, or a reservoir if the plan needs one; one with
    settings and no map is a reservoir.

    >>> with_map({})["map"], with_map({"units": 50})["map"], with_map({"columns": 800})["map"]
    ('default', 'echo_state', 'default')
    """
    if "map" in table:
        return dict(table)
    default = "columns" in table or not (table or reservoir)
    return {"map": "default" if default else "echo_state", **table}


def map_of(table: object, where: str = "[features]") -> FeatureMap:
    """Return the feature map that a table describes.

    >>> map_of({"map": "feature_union", "maps": ["window_statistics", {"units": 50}]}).maps[1].units
    50
    >>> map_of({"map": "random_fourier_features", "of": "window_statistics"}).map
    WindowStatistics(...)
    """
    filled = with_map({"map": table} if isinstance(table, str) else as_table(table, where))
    kind, rest = chosen(MAPS, filled, where, key="map", own=True)
    return known_map(read(kind, rest, where, BUILT if filled["map"] in MAPS else NOTHING))


def beside(one: Any, base: Path) -> Any:
    """Return a map whose files, and those of the maps in it, are found from a folder on."""
    if isinstance(one, tuple):
        return tuple(beside(item, base) for item in one)
    if not isinstance(one, FeatureMap):
        return one
    changed: dict[str, Any] = {}
    for field in fields(one):
        value = getattr(one, field.name)
        changed[field.name] = base / value if "local" in field.metadata else beside(value, base)
    return replace(one, **changed)


def own_classes(value: object) -> list[str]:
    """Return every `module:Class` that a table names, also within its tables.

    >>> own_classes({"map": "feature_union", "maps": [{"map": "mine:Bands"}, "minirocket"]})
    ['mine:Bands']
    """
    if isinstance(value, Mapping):
        return own_classes(list(value.values()))
    if isinstance(value, list):
        return [name for item in value for name in own_classes(item)]
    own = isinstance(value, str) and re.fullmatch(r"[\w.]+:[\w.]+", value)
    return [str(value)] if own else []


def schema(
    kind: type, given: Iterable[str] = (), more: Mapping[str, Any] = NOTHING
) -> dict[str, Any]:
    """Return the JSON schema of a dataclass's table.

    >>> schema(Limits)["properties"]["max_rows"]["type"]
    'integer'
    """
    texts, properties, required = described(kind), dict[str, Any](), list[str]()
    for name, one in settings(kind).items():
        if one.field.name in given:
            continue
        if one.is_inside:
            properties |= schema(one.hint, given)["properties"]
            continue
        entry = _adapter(kind, name).json_schema()
        if one.field.name in texts:
            entry["description"] = texts[one.field.name]
        if isinstance(one.field.default, str | int | float | bool):
            entry["default"] = one.field.default
        properties[name] = entry
        required += [name] if one.is_required else []
    for name, hint in more.items():
        found = TypeAdapter(_readable(hint), config=STRICT).json_schema()
        properties[name] = properties.get(name, {}) | found
    whole = {"type": "object", "properties": properties, "additionalProperties": False}
    return whole | ({"required": required} if required else {})


def named_schema(
    name: str,
    kind: type,
    given: Iterable[str] = GIVEN,
    *,
    key: str = "name",
    optional: bool = False,
    more: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Return the schema of a table whose entry `key` says which dataclass it is."""
    whole = schema(kind, given, MORE.get(name, NOTHING) if more is None else more)
    return whole | {
        "description": (inspect.getdoc(kind) or "").split("\n")[0],
        "properties": {key: {"const": name}} | whole["properties"],
        "required": [*([] if optional else [key]), *whole.get("required", [])],
    }


def _inner(hint: Any) -> dict[str, Any]:
    """Return the schema of a value within a table that is a class of ours."""
    if hint is FeatureMap:
        return {"anyOf": [{"$ref": ANY_MAP}, {"type": "string"}]}
    if hint in CHOICES:
        return {"oneOf": [named_schema(name, kind) for name, kind in CHOICES[hint].items()]}
    if hint is Uniform:
        return {"oneOf": [named_schema(name, RANGES[name], key="kind") for name in RANGES]}
    if get_origin(hint) is np.ndarray:
        return {"type": "array"}
    if hint is Scaler:
        numbers = {"type": "array", "items": {"type": "number"}}
        return {"type": "object", "properties": {"mean": numbers, "scale": numbers}}
    return schema(MAPS["echo_state"] if hint is Reservoir else hint)


def described(kind: type) -> dict[str, str]:
    """Return each parameter's description, from a docstring with NumPy's sections.

    >>> described(Limits)["max_rows"]
    'Most rows, or examples, that one client may claim to have in a round.'
    """
    text = inspect.getdoc(kind) or ""
    _, _, section = text.partition("Parameters\n----------\n")
    texts: dict[str, str] = {}
    names: list[str] = []
    for line in section.splitlines():
        if re.fullmatch(r"[a-z_]+(, [a-z_]+)*", line):
            names = line.split(", ")
        elif line.startswith("    ") and names:
            for name in names:
                texts[name] = f"{texts.get(name, '')} {line.strip()}".strip()
        elif line.strip():
            break
    return texts
