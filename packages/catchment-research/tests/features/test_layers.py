"""Layers of earlier versions: their rows by numpy, and a model of them is read."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import catchment as ct
from catchment.features import name_of
from catchment.readout import Model, Readout
from catchment.testing import check_feature_map
from catchment_research import Layers

STEPS = np.random.default_rng(2).normal(size=(2, 5, 4)) / 10
U = np.random.default_rng(3).normal(size=(30, 2))


def layers() -> Layers:
    inner = ct.EchoState(9, washout=2).build(2, per_step=True)
    return Layers(inner, width=4, random=5, steps=STEPS, seed=3)


def test_layers_are_a_map_whose_rows_are_the_formula() -> None:
    check_feature_map(layers())
    own = layers()
    x = own.map.rows([U])[0]
    for t, n in enumerate((4, 5, 5)):
        A, b = own.weights(t, x.shape[1], n)
        f = np.tanh(x @ A + b)
        x = f if t == 0 else x + f @ STEPS[t - 1]
    np.testing.assert_allclose(own.rows([U])[0], x, rtol=1e-12)


def test_a_model_of_layers_keeps_its_name_and_is_read(tmp_path: Path) -> None:
    assert name_of(layers()) == "layers"
    model = Model(layers(), Readout(np.ones((4, 1)), np.zeros(1)))
    again = ct.load(model.save(tmp_path / "deep.safetensors"))
    np.testing.assert_array_equal(again.predict(U), model.predict(U))
