"""Any map of the library as C, whatever its settings: the same integers."""

from __future__ import annotations

import tempfile
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import catchment as ct
from catchment import Array
from catchment.readout import Readout
from tests.export.compiled import compiled

GRIDS = st.sampled_from(["auto", 4, 8, 14, 15, 24])
SEEDS = st.integers(0, 5)
RANGES = st.sampled_from([1.0, 4.0, 64.0, 256.0])
LENGTHS = st.none() | st.integers(1, 300)
ACTIVATIONS = st.sampled_from(["cos", "relu"])

WINDOWS = st.one_of(
    st.builds(ct.MiniRocket, st.integers(1, 120), SEEDS, LENGTHS, range=RANGES, bits=GRIDS),
    st.builds(
        ct.WindowStatistics,
        st.booleans(),
        st.sampled_from([0.3, 1.0, 5.3, 8.0, 64.0]),
        GRIDS,
    ),
    st.builds(ct.Hydra, st.integers(1, 60), SEEDS, LENGTHS, range=RANGES, bits=GRIDS),
)
EITHER = st.one_of(
    st.builds(
        ct.DiagonalReservoir,
        st.integers(2, 30),
        SEEDS,
        st.sampled_from(["products", "mix", "both"]),
        gain=st.floats(0.5, 16),
        washout=st.integers(0, 4),
        bits=GRIDS,
    ),
    st.builds(ct.EchoState, st.integers(2, 12), seed=SEEDS),
)
STEPS = EITHER | st.one_of(
    st.builds(
        ct.NVAR, st.integers(1, 3), st.integers(1, 4), st.integers(1, 3), st.integers(0, 4), GRIDS
    ),
    st.builds(
        ct.RandomFourierFeatures,
        st.none(),
        st.integers(1, 20),
        SEEDS,
        st.floats(0.01, 10),
        ACTIVATIONS,
        GRIDS,
    ),
)


def nested(leaves: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Return maps, and maps inside others."""

    def around(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
        kinds = [
            st.builds(ct.AppendNorm, inner),
            st.builds(ct.FeatureUnion, inner, inner),
            st.builds(
                ct.RandomFourierFeatures, inner, st.integers(1, 20), SEEDS, st.floats(0.01, 1)
            ),
            st.builds(ct.RandomProjection, inner, st.integers(1, 2), SEEDS, st.floats(0.5, 9)),
        ]
        return st.one_of(kinds)

    return st.recursive(leaves, around, max_leaves=3)


@st.composite
def exported(draw: Any) -> tuple[ct.Model, Array]:
    """Return a model that nobody trained and inputs (T, I) for it, many of them ties."""
    per_step, classes = draw(st.booleans()), draw(st.booleans())
    described = draw(nested(STEPS if per_step else WINDOWS | EITHER))
    channels, steps = draw(st.integers(1, 4)), draw(st.integers(5, 40) | st.integers(5, 300))
    rng = np.random.default_rng(draw(st.integers(0, 1000)))
    u = rng.normal(0, draw(st.sampled_from([0.01, 1.0, 30.0])), (steps, channels))
    on_ties = rng.random((steps, channels)) < 0.3
    u[on_ties] = np.rint(u[on_ties] * 2.0**17) / 2.0**17
    u[:, 0] = np.where(rng.random() < 0.2, 1.25, u[:, 0])
    try:
        features = described.build(channels, per_step=per_step, classes=classes)
    except ValueError:  # what the library itself refuses: a projection to more features, ...
        features = ct.AppendNorm(ct.DiagonalReservoir(4)).build(channels, per_step=per_step)
    preprocessing = ct.Preprocessing(scale="none")
    readout = Readout(rng.normal(size=(features.n_features, 2)), rng.normal(size=2))
    return ct.Model(ct.Pipeline(preprocessing, features), readout, ("a", "b")), u


@pytest.mark.slow
@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
@given(made=exported())
def test_any_map_in_whole_numbers(made: tuple[ct.Model, Array]) -> None:
    model, u = made
    per_step = model.features.per_step
    with warnings.catch_warnings(), tempfile.TemporaryDirectory() as folder:
        warnings.simplefilter("ignore")
        expected = np.concatenate(model.pipeline.rows([ct.Recording(u)]))
        try:
            options: dict[str, Any] = {} if per_step else {"steps": len(u)}
            c = compiled(model, Path(folder), flags=("-O0",), **options)
        except ValueError as refused:
            assert "do not fit a word" in str(refused)  # noqa: PT017
            return
    np.testing.assert_array_equal(c.features(u), expected)
