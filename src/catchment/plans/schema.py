"""The JSON schema of plan files, for editors and for those who write plans by program."""

from __future__ import annotations

from catchment.features.echo_state.recipe import Recipe
from catchment.plans.data import Sharing
from catchment.plans.file import (
    ALGORITHMS,
    GIVEN,
    PLASTICITY,
    PLASTICITY_ROUNDS,
    PROTECTIONS,
    READER,
    FeatureSettings,
    RunSettings,
)
from catchment.plans.sources import PUBLIC, SOURCES, origin_of


def plan_schema() -> dict[str, object]:
    """Return the JSON schema of plan files.

    >>> sorted(plan_schema()["properties"])[:3]
    ['algorithm', 'candidates', 'data']
    """
    recipe = READER.schema(Recipe)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A catchment plan",
        "type": "object",
        "properties": {
            "title": {"type": "string"},
            "data": {"oneOf": [_source_schema(name) for name in (*SOURCES, *PUBLIC)]},
            "reservoir": recipe,
            "plasticity": {"oneOf": [_plasticity_schema(name) for name in PLASTICITY]},
            "features": READER.schema(FeatureSettings),
            "algorithm": {
                "oneOf": [READER.named(n, kind, given=GIVEN) for n, kind in ALGORITHMS.items()]
            },
            "candidates": {
                "type": "array",
                "items": {key: item for key, item in recipe.items() if key != "required"},
            },
            "run": READER.schema(RunSettings),
            "protections": {
                "type": "array",
                "items": {
                    "oneOf": [READER.named(n, kind, given=GIVEN) for n, kind in PROTECTIONS.items()]
                },
            },
            "search": {"type": "object"},
        },
        "required": ["data", "reservoir"],
        "additionalProperties": False,
    }


def _plasticity_schema(name: str) -> dict[str, object]:
    made = READER.named(name, PLASTICITY[name], given=GIVEN)
    properties = made["properties"]
    assert isinstance(properties, dict)
    rounds = {"type": "integer", "minimum": 1, "default": PLASTICITY_ROUNDS}
    return made | {"properties": {**properties, "rounds": rounds}}


def _source_schema(name: str) -> dict[str, object]:
    kind, given = origin_of(name)
    made, shared = READER.schema(kind, given=given), READER.schema(Sharing)
    own, common, required = made["properties"], shared["properties"], made.get("required", [])
    assert isinstance(own, dict)
    assert isinstance(common, dict)
    assert isinstance(required, list)
    properties = {"source": {"const": name}} | own | common
    return made | {"properties": properties, "required": ["source", *required]}
