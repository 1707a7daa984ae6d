"""Feature maps as nodes: functions that write them register themselves."""

from __future__ import annotations

import numpy as np

from catchment.features import (
    NVAR,
    AppendNorm,
    DiagonalReservoir,
    Encoder,
    FeatureMap,
    FeatureUnion,
    Layers,
    RandomFourierFeatures,
    RandomProjection,
    form,
    form_maker,
    name_of,
)
from catchment_edge.onnx import convolutions, diagonal, echo_state, window_statistics, with_matrices
from catchment_edge.onnx.sequences import Sequences, on_grid
from catchment_edge.onnx.values import Value

REGISTERED = (convolutions, echo_state, window_statistics)  # files with forms of their own


def map_rows(features: FeatureMap, given: Sequences) -> Value:
    """Return the feature rows of sequences: (B, T - washout, F), or (B, F) if one row each."""
    make = form_maker("onnx", features)
    if make is None:
        raise refused(features)
    z: Value = make(features, given)
    done = features.feature_grid is None or features.reservoir is not None
    return z if done else gridded(features, z)


def maps_within(features: FeatureMap) -> list[FeatureMap]:
    """Return a map and all maps that it is made of."""
    return [features, *(part for one in features.inner_maps for part in maps_within(one))]


def gridded(features: FeatureMap, z: Value) -> Value:
    """Return features rounded to the grid of their map."""
    return on_grid(z, features.grid_digits, features.feature_grid)


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


@form("onnx", DiagonalReservoir)
def _diagonal_rows(settings: DiagonalReservoir, given: Sequences) -> Value:
    z = echo_state.after(diagonal.steps_rows(settings, given.u), settings.washout, given)
    return z if settings.pool is None else diagonal.mean_and_deviation(z)


@form("onnx", NVAR)
def _delay_rows(settings: NVAR, given: Sequences) -> Value:
    x = given.u.builder.concat(with_matrices.delayed(settings, given.u), axis=-1)
    return echo_state.after(with_matrices.monomials(settings, x), settings.washout, given)


@form("onnx", RandomFourierFeatures)
def _fourier_rows(settings: RandomFourierFeatures, given: Sequences) -> Value:
    x = given.u if settings.map is None else map_rows(settings.map, given)
    return with_matrices.random_features(settings, x)


@form("onnx", Encoder)
def _encoder_rows(settings: Encoder, given: Sequences) -> Value:
    from catchment_edge.onnx.encoder import encoded

    return encoded(settings, given.u)


@form("onnx", AppendNorm)
def _norm_rows(settings: AppendNorm, given: Sequences) -> Value:
    u = with_matrices.inputs_with_norm(given.u, given.channels)
    return map_rows(settings.map, Sequences(u, given.steps, given.channels + 1))


@form("onnx", RandomProjection)
def _projected_rows(settings: RandomProjection, given: Sequences) -> Value:
    return with_matrices.mixed_into_few(settings, map_rows(settings.inner, given))


@form("onnx", FeatureUnion)
def _concat_rows(settings: FeatureUnion, given: Sequences) -> Value:
    rows = [_late_rows(one, settings, given) for one in settings.maps]
    return given.u.builder.concat(rows, axis=-1)


def _late_rows(one: FeatureMap, whole: FeatureUnion, given: Sequences) -> Value:
    """Return the rows of one map from where the one with the longest washout begins."""
    z = map_rows(one, given)
    late = whole.washout - one.washout if one.per_step else 0
    return z if late == 0 else z.part(late, np.iinfo(np.int64).max, axis=1)
