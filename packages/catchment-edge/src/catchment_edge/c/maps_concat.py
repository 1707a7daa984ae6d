"""Maps side by side in C: one row of several maps, which share a window where they read one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from catchment.features import FeatureMap, FeatureUnion, form
from catchment_edge.c.map_code import MapCode, Setting
from catchment_edge.c.maps_windows import WindowMap, group_code, row_grid


@dataclass(frozen=True, eq=False)
class Part:
    """One of the maps: its code, where its words and its features begin, and its coarser grid.

    `place` is None for maps of windows that are together: they know their places themselves.
    """

    code: MapCode
    word: int
    place: int

    def call(self, stride: int) -> str:
        """Return statements that write its features of a window."""
        p, row = self.code.prefix, _plus("row", self.place)
        if not self.code.streams:
            return f"    {p}_window(s, {_plus('v', self.word)}, steps, {row});\n"
        v = f"v + t * {stride}u" + (f" + {self.word}" if self.word else "")
        last = f"v + (steps - 1) * {stride}u" + (f" + {self.word}" if self.word else "")
        return f"""    {p}_reset(s);
    for (t = 0; t < steps; t++)
        {p}_step(s, {v}, t, steps, {row});
    {p}_row(s, {last}, steps - 1, {row});
"""


@form("c", FeatureUnion)
def concat_code(features: FeatureUnion, setting: Setting, prefix: str) -> MapCode:
    """Return the code of maps side by side."""
    leaves = list(_leaves(features, 0))
    parts = _parts(leaves, setting, prefix, 0)
    stride = setting.stride or sum(one.code.n_words for one in parts)
    windows = any(not one.code.streams for one in parts)
    if windows:
        parts = _parts(leaves, setting, prefix, stride)
    codes = [one.code for one in parts]
    bits, digits = row_grid(features, setting)
    shifts = _shift_text(features, leaves, setting)
    texts = [one.text for one in codes] + [_enter(prefix, parts)]
    texts += (
        [_window(prefix, parts, stride, shifts)] if windows else [_steps(prefix, parts, shifts)]
    )
    return MapCode(
        prefix,
        codes[0].n_inputs,
        sum(one.n_words for one in codes),
        features.n_features,
        bits,
        digits,
        "".join(texts),
        sum(one.operations for one in codes),
        streams=not windows,
        per_step=features.per_step,
        washout=features.washout,
        least_steps=max(one.least_steps for one in codes),
        needs_steps=any(one.needs_steps for one in codes),
        sources=tuple(dict.fromkeys(name for one in codes for name in one.sources)),
        tables=tuple(table for one in codes for table in one.tables),
        fields=tuple(field for one in codes for field in one.fields),
        activations=frozenset[str]().union(*(one.activations for one in codes)),
        traits=tuple(dict.fromkeys(trait for one in codes for trait in one.traits)),
    )


def _leaves(features: FeatureMap, place: int) -> Iterator[tuple[FeatureMap, int]]:
    """Yield the maps that are side by side, those of nested ones too, and their first features."""
    if not isinstance(features, FeatureUnion):
        yield features, place
        return
    for one in features.maps:
        yield from _leaves(one, place)
        place += one.n_features


def _parts(
    leaves: list[tuple[FeatureMap, int]], setting: Setting, prefix: str, stride: int
) -> list[Part]:
    """Return the parts: all maps of windows as one, which come first, and each of the others."""
    from catchment_edge.c.maps import map_code

    placed = replace(setting, stride=stride)
    found: list[Part] = []
    windows = [(one, place) for one, place in leaves if isinstance(one, WindowMap)]
    if windows:
        found.append(Part(group_code(windows, placed, f"{prefix}_w"), 0, 0))
    word = found[0].code.n_words if found else 0
    for k, (one, place) in enumerate(leaves):
        if not isinstance(one, WindowMap):
            code = map_code(one, placed, f"{prefix}_{k}")
            found.append(Part(code, word, place))
            word += code.n_words
    return found


def _plus(name: str, number: int) -> str:
    return f"{name} + {number}" if number else name


def _shift_text(
    features: FeatureUnion, leaves: list[tuple[FeatureMap, int]], setting: Setting
) -> str:
    """Return statements that bring maps with fewer bits to the grid of all."""
    lines = ""
    for one, place in leaves:
        if setting.number == "float32" or one.feature_grid == features.feature_grid:
            continue
        assert features.feature_grid is not None
        assert one.feature_grid is not None
        factor, end = 1 << (features.feature_grid - one.feature_grid), place + one.n_features
        lines += f"    for (j = {place}; j < {end}; j++)\n"
        lines += f"        row[j] = (feature)(row[j] * {factor});\n"
    return lines


def _enter(prefix: str, parts: list[Part]) -> str:
    calls = "".join(f"    {one.code.prefix}_enter(u, {_plus('v', one.word)});\n" for one in parts)
    return f"\nstatic void {prefix}_enter(const value *u, word *v)\n{{\n{calls}}}\n"


def _window(prefix: str, parts: list[Part], stride: int, shifts: str) -> str:
    names = ["t"] if any(one.code.streams for one in parts) else []
    names += ["j"] if shifts else []
    declared = f"    uint32_t {', '.join(names)};\n" if names else ""
    calls = "".join(one.call(stride) for one in parts)
    return f"""
static void {prefix}_window(state *s, const word *v, uint32_t steps, feature *row)
{{
{declared}{calls}{shifts}}}
"""


def _steps(prefix: str, parts: list[Part], shifts: str) -> str:
    def calls(name: str, arguments: str) -> str:
        found = ""
        for one in parts:
            given = arguments.replace("V", _plus("v", one.word))
            given = given.replace("ROW", _plus("row", one.place))
            found += f"    {one.code.prefix}_{name}(s{given});\n"
        return found

    declared = "    uint32_t j;\n" if shifts else ""
    return f"""
static void {prefix}_reset(state *s)
{{
{calls("reset", "")}}}

static void {prefix}_step(state *s, const word *v, uint32_t t, uint32_t steps, feature *row)
{{
{calls("step", ", V, t, steps, ROW")}}}

static void {prefix}_row(state *s, const word *v, uint32_t t, feature *row)
{{
{declared}{calls("row", ", V, t, ROW")}{shifts}}}
"""
