"""Maps inside maps: how a description builds, recognises and describes those that it holds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, is_dataclass

import numpy as np

from catchment.arrays import Array
from catchment.features.feature_map import FeatureMap, Foreseeing, MapDescription, Recognising
from catchment.features.grid import digits_after_point
from catchment.features.library import library_name
from catchment.features.own import KIND, ArrayMap, OwnMap, as_map, name_of
from catchment.wire import Parts

LARGEST_OPEN = 4096  # of a number that a description leaves to whoever builds its map
Nested = FeatureMap | MapDescription | OwnMap | ArrayMap


def built_map(one: Nested, n_inputs: int, *, per_step: bool, classes: bool = False) -> FeatureMap:
    """Return a map for inputs of this many channels: built, as it is, or one's own adapted.

    >>> from catchment import EchoState
    >>> built_map(EchoState(5), 2, per_step=True).n_features
    7
    """
    if isinstance(one, MapDescription):
        return one.build(n_inputs, per_step=per_step, classes=classes)
    made = as_map(one)
    if made.n_inputs not in (None, n_inputs):
        raise ValueError(
            f"the data have {n_inputs} channels, {name_of(made)} was built for {made.n_inputs}; "
            "pass its description"
        )
    return made


def recognised(
    one: Nested,
    built: FeatureMap,
    n_inputs: int,
    *,
    per_step: bool,
    classes: bool = False,
    adapted: bool = False,
) -> bool:
    """Return whether somebody else's map is this one, by its own rule if it has one.

    >>> from catchment import EchoState
    >>> recognised(EchoState(5), EchoState(5).build(2, per_step=True), 2, per_step=True)
    True
    """
    if isinstance(one, Recognising):
        return one.describes(built, n_inputs, per_step=per_step, classes=classes, adapted=adapted)
    own = built_map(one, n_inputs, per_step=per_step, classes=classes)
    return own.fingerprint == built.fingerprint


def foreseen(
    one: Nested,
    parts: Parts,
    n_inputs: int,
    *,
    per_step: bool,
    classes: bool = False,
    adapted: bool = False,
) -> bool:
    """Return whether parts may be those of a map, before anything is built from them.

    What passes costs no more to build than the map itself; whether it is the map is for
    `recognised` to say.

    >>> from catchment import EchoState
    >>> built = EchoState(5).build(2, per_step=True).parts()
    >>> [foreseen(EchoState(n), built, 2, per_step=True) for n in (5, 6)]
    [True, False]
    """
    kinds = {"per_step": per_step, "classes": classes, "adapted": adapted}
    if isinstance(one, Foreseeing):
        return one.foresees(parts, n_inputs, **kinds)
    settings = parts.facts.get("settings")
    if not (isinstance(one, Recognising) and is_dataclass(one)):
        own = built_map(one, n_inputs, per_step=per_step, classes=classes).parts()
        same = own.kind == parts.kind and own.facts.get("recipe") == parts.facts.get("recipe")
        return same if adapted else own.to_bytes() == parts.to_bytes()
    same = (parts.kind, parts.facts.get("class")) == (KIND, library_name(type(one)))
    if not same or not isinstance(settings, dict):
        return False
    n_within = n_inputs + getattr(one, "n_more_inputs", 0)
    return all(
        _fits(getattr(one, name), settings[name], parts, n_within, kinds)
        for name in (field.name for field in fields(one))
        if name in settings
    )


def _fits(own: object, told: object, parts: Parts, n_inputs: int, kinds: dict[str, bool]) -> bool:
    """Return whether a setting that was told may be one's own."""
    if isinstance(own, tuple):
        return (
            isinstance(told, list)
            and len(told) == len(own)
            and all(_fits(a, b, parts, n_inputs, kinds) for a, b in zip(own, told, strict=True))
        )
    match told:
        case {"map": {"kind": str(kind), "facts": dict(facts), "arrays": list(places)}}:
            if not isinstance(own, Nested) or not all(type(k) is int for k in places):
                return False
            arrays = tuple(parts.arrays[k] for k in places if 0 <= k < len(parts.arrays))
            return foreseen(own, Parts(kind, facts, arrays), n_inputs, **kinds)
        case {"array": _}:
            return True  # it came with the letter, as large as it is
        case bool() | int() | float() | str() | None:
            if own in (None, "auto"):
                return not isinstance(told, int) or told <= LARGEST_OPEN
            return own == told
    return False


def all_built(maps: Sequence[Nested], where: str) -> tuple[FeatureMap, ...]:
    """Return maps that are built; AttributeError for a description that is not.

    It is no ValueError, so that what is not built is no map to `isinstance` either.

    >>> from catchment import EchoState
    >>> all_built([EchoState(5)], "Concat")
    Traceback (most recent call last):
    AttributeError: EchoState in Concat is a description; call build(n_inputs, per_step=...) ...
    """
    found = []
    for one in maps:
        if not isinstance(one, FeatureMap):
            raise AttributeError(
                f"{type(one).__name__} in {where} is a description; call build(n_inputs, "
                "per_step=...) to make the map"
            )
        found.append(one)
    return tuple(found)


def reached_bounds(features: FeatureMap) -> Array:
    """Return the largest absolute value (F,) of each feature after it was rounded to its grid.

    That may be beyond the bound by half a step of the grid. The power of two that the grid hangs on
    stays the same.

    >>> from catchment import WindowStatistics
    >>> built = WindowStatistics(input_range=5.3).build(1, per_step=False, classes=True)
    >>> float(built.bounds[0]), float(reached_bounds(built)[0])
    (5.3, 5.3125)
    """
    if features.grid is None:
        return features.bounds
    digits = digits_after_point(features.bounds, features.grid)
    found: Array = np.ldexp(np.ceil(np.ldexp(features.bounds, digits)), -digits)
    return found
