"""Echo states as C: the library's features and scores, in whole numbers and in float32."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.export.compiled import compiled

import catchment as ct


def recordings(n: int = 12, steps: int = 150, channels: int = 2) -> list[ct.Recording]:
    rng = np.random.default_rng(3)
    t = np.arange(steps)[:, None]
    return [
        ct.Recording.labelled(
            5
            + 3 * np.sin(t / (3 + k % 3 + np.arange(channels)))
            + rng.normal(0, 0.3, (steps, channels)),
            k % 3,
            ("slow", "middle", "fast"),
        )
        for k in range(n)
    ]


def python_rows(model: ct.Model, u: Any) -> Any:
    return np.concatenate(model.pipeline.rows([ct.Recording(u)]))


@pytest.mark.parametrize("pool", ["last", "mean", "mean_std", "max"])
@pytest.mark.parametrize("number", ["whole", "q15"])
def test_features_in_whole_numbers_are_the_librarys(pool: Any, number: str, tmp_path: Path) -> None:
    grid: Any = 15 if number == "q15" else "auto"
    data = recordings()
    prepare = ct.Prepare(window=50, step=30)
    model = ct.fit(ct.Pipeline(prepare, ct.EchoState(25, pool=pool, grid=grid)), data)
    made = compiled(model, tmp_path, number=number)
    for one in data[:3]:
        features, scores = made.rows(one.u)
        np.testing.assert_array_equal(features, python_rows(model, one.u))
        np.testing.assert_allclose(scores, model.outputs(one.u)[0], rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("pool", ["last", "mean", "mean_std", "max"])
def test_single_precision_is_near_double(pool: Any, tmp_path: Path) -> None:
    data = recordings()
    model = ct.fit(ct.EchoState(25, pool=pool, grid=None), data)
    made = compiled(model, tmp_path)
    assert made.code.layout.number == "float32"
    for one in data[:3]:
        features, scores = made.rows(one.u)
        np.testing.assert_allclose(features, python_rows(model, one.u), atol=2e-6)
        np.testing.assert_allclose(scores, model.outputs(one.u)[0], rtol=1e-5, atol=1e-5)
