"""One description of a reservoir: what its defaults mean, and how good they are."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
import pytest

import catchment as ct
from catchment.data import mackey_glass, narma
from catchment.features import Reservoir
from catchment.features.echo_state import PER_RECORDING, PER_STEP
from catchment.readout import nrmse


@pytest.mark.parametrize("per_step", [True, False])
def test_settings_that_are_not_named_follow_the_kind_of_target(per_step: bool) -> None:
    recipe = ct.EchoState(20).reservoir_for(3, per_step=per_step)
    expected = PER_STEP if per_step else PER_RECORDING
    assert {name: getattr(recipe, name) for name in expected} == expected
    named = ct.EchoState(20, leak_rate=0.7, spectral_radius=0.5, input_scaling=0.1)
    assert named.reservoir_for(3, per_step=True) == named.reservoir_for(3, per_step=False)


def test_with_one_target_per_recording_the_defaults_are_those_of_a_recipe() -> None:
    described = ct.EchoState(20).reservoir_for(3, per_step=False, classes=True)
    assert described == Reservoir(units=20, inputs=3, bits=20)


def test_the_description_has_every_setting_of_a_recipe_that_is_not_found_out() -> None:
    found_out = {"inputs", "gain", "shift", "scale", "known_fingerprint", "known_cut"}
    found_out |= {"weights", "base"}
    described = {field.name for field in fields(ct.EchoState)}
    assert {field.name for field in fields(Reservoir)} - found_out <= described


def test_with_nothing_set_narma_is_followed_to_three_tenths() -> None:
    errors = []
    for seed in range(5):
        train, test = narma(2000, seed=1000 + 2 * seed), narma(2000, seed=1001 + 2 * seed)
        model = ct.fit(ct.EchoState(200, seed=seed), [train])
        assert test.y is not None
        errors.append(nrmse(test.y[100:], model.predict(test.u)[100:]))
    assert np.mean(errors) <= 0.30


def test_with_nothing_set_a_chaotic_series_goes_on_for_a_hundred_steps() -> None:
    series = mackey_glass(3100)
    pipeline = ct.Pipeline(ct.Preprocessing(horizon=1), ct.EchoState(300))
    ahead = ct.fit(pipeline, [ct.Recording(series[:3000])]).forecast(series[:3000], 100)
    assert np.sqrt(np.mean((ahead - series[3000:]) ** 2)) < 0.01 * series.std()


def test_what_does_not_fit_into_memory_is_refused_before_it_is_built() -> None:
    with pytest.raises(ValueError, match="ask for fewer units"):
        ct.EchoState(1_000_000_000)
    record = [ct.Recording(np.zeros(5), np.zeros(5))]
    said = r"Gram matrix of 500,[\d,]+ numbers takes 4.0 TB, and this machine has .*fewer units"
    with pytest.raises(ValueError, match=said):
        ct.fit(ct.EchoState(1_000_000), record)
    with pytest.raises(ValueError, match=said + ".* upload"):
        ct.federate(ct.EchoState(1_000_000), {"ann": record, "bob": record})
