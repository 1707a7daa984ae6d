"""The JSON schema of plan files, for editors and for those who write plans by program."""

from __future__ import annotations

from collections.abc import Mapping

from catchment.data.prepare import Prepare
from catchment.plans.data import Sharing
from catchment.plans.file import RunSettings
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
from catchment.plans.sources import SOURCES, Files, origin_of

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
