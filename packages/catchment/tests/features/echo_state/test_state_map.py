from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from catchment.features import EchoState
from tests.features.echo_state import oracle

RESERVOIR = oracle.random_reservoir(n_units=10)
CHOICES = [choice for choice in product((False, True), repeat=3) if any(choice)]


@pytest.mark.parametrize(("bias", "input_", "state"), CHOICES)
@pytest.mark.parametrize("n_sequences", [1, 9])
def test_any_choice_picks_its_columns(
    bias: bool, input_: bool, state: bool, n_sequences: int
) -> None:
    features = EchoState.of(RESERVOIR, bias=bias, input=input_, state=state, washout=4)
    us = oracle.sequences([30 + k for k in range(n_sequences)])
    columns = np.repeat([bias, input_, state], [1, 2, 10])
    assert features.n_features == columns.sum() == len(features.names())
    for u, z in zip(us, features.rows(us), strict=True):
        expected = oracle.extended(RESERVOIR, u)[4:, columns]
        np.testing.assert_allclose(z, expected, rtol=0, atol=1e-12)


def test_a_long_sequence_has_the_features_of_its_states() -> None:
    reservoir = oracle.random_reservoir(n_units=30, n_inputs=1)
    (u,) = oracle.sequences([12_000], n_inputs=1)
    features = EchoState.of(reservoir, washout=100)
    assert features.batches([u])[0].joined
    np.testing.assert_allclose(
        features(u), oracle.extended(reservoir, u)[100:, 1:], rtol=0, atol=1e-12
    )


def test_names_say_where_each_feature_comes_from() -> None:
    plain = EchoState.of(oracle.random_reservoir(n_units=2, density=1.0), bias=True)
    assert plain.names() == ["bias", "u0", "u1", "x0", "x1"]
    parts = replace(plain, state=False, bias=False, pool="mean_std", segments=2)
    assert parts.names() == [
        "mean_u0_part0",
        "mean_u1_part0",
        "std_u0_part0",
        "std_u1_part0",
        "mean_u0_part1",
        "mean_u1_part1",
        "std_u0_part1",
        "std_u1_part1",
    ]
    assert len(parts.names()) == parts.n_features


def test_the_fingerprint_follows_every_setting_and_the_weights() -> None:
    features = EchoState.of(RESERVOIR, pool="mean")
    variants = [
        features,
        replace(features, bias=True),
        replace(features, input=False),
        replace(features, pool="last"),
        replace(features, segments=2),
        replace(features, washout=1),
        replace(features, precision="float32"),
        features.reading(oracle.random_reservoir(seed=1, n_units=10)),
    ]
    assert len({variant.fingerprint for variant in variants}) == len(variants)
    assert replace(features).fingerprint == features.fingerprint


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_rows_do_not_depend_on_threads(threads: int) -> None:
    us = oracle.sequences([20 + k for k in range(70)])
    features = EchoState.of(RESERVOIR)
    for a, b in zip(features.rows(us, threads=1), features.rows(us, threads=threads), strict=True):
        np.testing.assert_array_equal(a, b)


def test_wrong_settings_say_what_to_do() -> None:
    cases: list[tuple[dict[str, object], str]] = [
        ({"input": False, "state": False}, "set bias, input or state"),
        ({"pool": "median"}, "pool is 'median'; give 'last', 'mean', 'mean_std' or 'max'"),
        ({"segments": 0}, "segments is 0"),
        ({"segments": 2}, "a pool with more than 1"),
        ({"washout": -1}, "washout is -1"),
        ({"precision": "half"}, "'float64' or 'float32'"),
    ]
    for settings, message in cases:
        with pytest.raises(ValueError, match=message):
            EchoState.of(RESERVOIR, **settings)  # type: ignore[arg-type]


def test_wrong_inputs_are_named() -> None:
    features = EchoState.of(RESERVOIR, washout=5)
    good, short = oracle.sequences([20, 5])
    with pytest.raises(ValueError, match="recording 1 has 5 steps, fewer than washout 5"):
        features.rows([good, short])
    with pytest.raises(
        ValueError, match="recording 0 has 1 columns, the reservoir was built for 2"
    ):
        features.rows([good[:, :1]])
    with pytest.raises(ValueError, match="recording 0 is not finite at row 3"):
        features.rows([np.where(np.arange(20)[:, None] == 3, np.nan, good)])
    with pytest.raises(ValueError, match="per step; pass a pool"):
        features.pooled(features.batches([good])[0])
    assert features.rows([]) == []
