"""Echo states in C: in whole numbers of 32 or 16 bits, or in float32."""

from __future__ import annotations

from dataclasses import replace

from catchment.features import EchoStateMap, Reservoir, form
from catchment.features.echo_state import BOUNDED
from catchment_edge.c import float_echo_state, whole_echo_state
from catchment_edge.c.map_code import MapCode, Setting

Q15 = 15  # digits of states and weights that fit words of 16 bits


@form("c", EchoStateMap)
def map_code(features: EchoStateMap, setting: Setting, prefix: str) -> MapCode:
    """Return the code of an echo-state map."""
    if setting.number == "float32":
        return float_echo_state.map_code(features, setting, prefix)
    if features.reservoir.grid is None or features.grid is None:
        raise ValueError(
            f"the map has no grid, which --number {setting.number} needs; export it with "
            '--number float32, or train it with grid="auto"'
        )
    return whole_echo_state.map_code(features, setting, prefix)


def in_q15(features: EchoStateMap) -> EchoStateMap:
    """Return the map with states and features of at most 15 digits, the same if it has no more.

    >>> from catchment import EchoState
    >>> in_q15(EchoState(20).build(1, per_step=True, classes=True)).reservoir.grid
    15
    """
    reservoir = features.reservoir
    linear = [k for layer in reservoir.layers for k in layer.activation if k not in BOUNDED]
    if linear:
        raise ValueError(
            "q15 holds states between -1 and 1, and units with relu or identity go beyond; "
            "export with --number whole or float32"
        )
    bits = Q15 if reservoir.grid is None else min(reservoir.grid, Q15)
    feature_bits = Q15 if features.feature_grid is None else min(features.feature_grid, Q15)
    if (bits, feature_bits) == (reservoir.grid, features.feature_grid):
        return features
    coarser = Reservoir(
        reservoir.layers,
        grid=bits,
        input_range=reservoir.input_range,
        known_cut=reservoir.cut if reservoir.grid is not None else (0, 0),
    )
    return replace(features, reservoir=coarser, feature_grid=feature_bits, precision="float64")
