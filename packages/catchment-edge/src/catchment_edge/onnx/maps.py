"""Feature maps as nodes: which function writes which map."""

from __future__ import annotations

import numpy as np

from catchment.features import (
    NVAR,
    Concat,
    DiagonalReservoir,
    EchoStateMap,
    Encoder,
    FeatureMap,
    Hydra,
    Layers,
    MiniRocket,
    Projected,
    RandomFourier,
    Thinned,
    WindowStatistics,
    WithNorm,
    digits_after_point,
    name_of,
)
from catchment_edge.onnx import convolutions, diagonal, echo_state, with_matrices
from catchment_edge.onnx.sequences import Sequences, on_grid
from catchment_edge.onnx.values import Value
from catchment_edge.onnx.window_statistics import statistics


def map_rows(features: FeatureMap, given: Sequences) -> Value:
    """Return the feature rows of sequences: (B, T - washout, F), or (B, F) if one row each."""
    if isinstance(features, EchoStateMap):
        return echo_state.rows(features, given)
    z = _library_rows(features, given)
    return z if features.grid is None else gridded(features, z)


def maps_within(features: FeatureMap) -> list[FeatureMap]:
    """Return a map and all maps that it is made of."""
    return [features, *(part for one in features.inner_maps for part in maps_within(one))]


def gridded(features: FeatureMap, z: Value) -> Value:
    """Return features rounded to the grid of their map."""
    assert features.grid is not None
    return on_grid(z, digits_after_point(features.bounds, features.grid), features.grid)


def refused(features: FeatureMap) -> ValueError:
    if isinstance(features, Layers):
        return ValueError(
            'layers that were trained are not exported; train with algorithm = "ridge" in place '
            'of "deep"'
        )
    return ValueError(
        f"{name_of(features)} is a map of one's own, whose code no graph knows; export a model "
        "with a map of the library"
    )


def _library_rows(settings: FeatureMap, given: Sequences) -> Value:
    """Return the rows of a map of the library before they are rounded to its grid."""
    u = given.u
    match settings:
        case MiniRocket():
            return convolutions.shares(settings, u, known_steps(given, "MiniRocket"))
        case Hydra():
            return convolutions.competitions(settings, u, known_steps(given, "Hydra"))
        case WindowStatistics():
            steps = known_steps(given, "WindowStatistics")
            return statistics(settings, u, steps, given.channels)
        case DiagonalReservoir():
            z = echo_state.after(diagonal.steps_rows(settings, u), settings.washout, given)
            return z if settings.pool is None else diagonal.mean_and_deviation(z)
        case NVAR():
            x = u.builder.concat(with_matrices.delayed(settings, u), axis=-1)
            return echo_state.after(with_matrices.monomials(settings, x), settings.washout, given)
        case RandomFourier():
            x = u if settings.map is None else map_rows(settings.map, given)
            return with_matrices.random_features(settings, x)
        case Encoder():
            from catchment_edge.onnx.encoder import encoded

            return encoded(settings, u)
    return _nested_rows(settings, given)


def _nested_rows(settings: FeatureMap, given: Sequences) -> Value:
    """Return the rows of a map that is made of others."""
    match settings:
        case WithNorm():
            u = with_matrices.inputs_with_norm(given.u, given.channels)
            return map_rows(settings.map, Sequences(u, given.steps, given.channels + 1))
        case Thinned():
            return map_rows(settings.map, given)
        case Projected():
            return with_matrices.mixed_into_few(settings, map_rows(settings.inner, given))
        case Concat():
            return given.u.builder.concat(
                [_late_rows(one, settings, given) for one in settings.maps], axis=-1
            )
    raise refused(settings)


def _late_rows(one: FeatureMap, whole: Concat, given: Sequences) -> Value:
    """Return the rows of one map from where the one with the longest washout begins."""
    z = map_rows(one, given)
    late = whole.washout - one.washout if one.per_step else 0
    return z if late == 0 else z.part(late, np.iinfo(np.int64).max, axis=1)


def known_steps(given: Sequences, name: str) -> int:
    if given.steps is None:
        raise ValueError(
            f"{name} is laid out for recordings of one length, and the model cuts no windows; "
            "pass the length, steps=128 or --steps 128"
        )
    return given.steps
