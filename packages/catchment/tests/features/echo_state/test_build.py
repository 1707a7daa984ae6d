"""Built weights: their distributions, their bits on other machines, and their fingerprint."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from catchment.errors import FingerprintError
from catchment.features import Reservoir
from catchment.features.echo_state import (
    ACTIVATIONS,
    TOPOLOGIES,
    LayerWeights,
    Linspace,
    LogUniform,
    LongTail,
    MixedActivation,
    Uniform,
    fingerprint,
)
from catchment.features.echo_state import reservoir as build_module

pytestmark = pytest.mark.processor

KEPT = {
    "ring": "2c2e9923e3f7e1ef",
    "delay_line": "0c4be2ecd99bbe90",
    "permutation": "4d8b354be377b025",
    "orthogonal": "a8ddd55b9bfb8f79",
}

FINGERPRINT_OF_STDIN = """
import sys
from catchment.features.echo_state import fingerprint, reservoir
reservoir.common_radius = None  # a prepared recipe asks for no eigenvalue
from catchment.features import Reservoir, Reservoir
for line in sys.stdin:
    print(fingerprint(Reservoir.from_json(line).layers))
"""


def build(recipe: Reservoir) -> tuple[LayerWeights, ...]:
    return recipe.layers


def one(recipe: Reservoir) -> LayerWeights:
    (layer,) = build(recipe)
    return layer


def test_other_threads_and_core_types_build_the_same_bits() -> None:
    recipes = [
        Reservoir(units=120, topology=topology, leak_rate=LogUniform(0.01, 1.0), seed=5)
        for topology in TOPOLOGIES
    ]
    mixed = MixedActivation(tanh=0.4, relu=0.6)
    recipes.append(Reservoir((400, 60), inputs=3, activation=mixed))
    prepared = [recipe.prepared() for recipe in recipes]
    text = "".join(recipe.to_json() + "\n" for recipe in prepared)
    expected = [recipe.fingerprint for recipe in prepared]
    for threads, core in (("1", "Haswell"), ("2", "Prescott"), ("2", "Nehalem")):
        # numpy's own vector code is turned down together with that of the linear algebra.
        older = {"NPY_DISABLE_CPU_FEATURES": "AVX2 FMA3 AVX512F"} if core != "Haswell" else {}
        settings = {"OPENBLAS_NUM_THREADS": threads, "OPENBLAS_CORETYPE": core} | older
        done = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", FINGERPRINT_OF_STDIN],
            input=text,
            env=os.environ | settings | {"PYTHONPATH": os.pathsep.join(sys.path)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert done.stdout.split() == expected


def test_fingerprints_stay_what_they_were() -> None:
    # Topologies with exact scales need no eigenvalue, so these hold on any machine and version.
    found = {
        topology: fingerprint(build(Reservoir(units=50, inputs=2, topology=topology, seed=1)))[:16]
        for topology in ("ring", "delay_line", "permutation", "orthogonal")
    }
    assert found == KEPT


@pytest.mark.parametrize("topology", [name for name in TOPOLOGIES if name != "delay_line"])
def test_the_built_matrix_has_the_radius_asked_for(topology: str) -> None:
    W = one(Reservoir(units=90, topology=topology, spectral_radius=1.25, seed=2)).W.to_dense()
    # The radius of the raw matrix is rounded to 20 bits, so this is all that can be asked for.
    assert np.abs(np.linalg.eigvals(W)).max() == pytest.approx(1.25, rel=2.0**-20)


def test_the_radius_of_a_delay_line_is_its_weight() -> None:
    assert set(one(Reservoir(9, topology="delay_line", spectral_radius=0.7)).W.values) == {0.7}


def test_input_weights_and_biases_are_uniform() -> None:
    layer = one(Reservoir(units=2000, inputs=3, input_scaling=0.25, bias_scaling=1.5))
    assert layer.W_in.n_nonzero == 6000
    assert stats.kstest(layer.W_in.values, "uniform", (-0.25, 0.5)).pvalue > 0.01
    assert stats.kstest(layer.bias, "uniform", (-1.5, 3.0)).pvalue > 0.01


def test_input_connections_are_per_unit_and_reach_all_inputs() -> None:
    layer = one(Reservoir(units=200, inputs=7, input_connections=2))
    assert (np.diff(layer.W_in.starts) == 2).all()
    assert set(layer.W_in.columns.tolist()) == set(range(7))


def test_nothing_in_is_nothing_out() -> None:
    layer = one(Reservoir(units=5, inputs=0, connections=0, bias_scaling=0.0))
    assert layer.W.n_nonzero == layer.W_in.n_nonzero == 0
    assert not layer.bias.any()


def test_leak_rates_follow_their_spread() -> None:
    def leak(kind: type[Uniform]) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        return one(Reservoir(3000, topology="ring", leak_rate=kind(0.01, 0.5))).leak

    assert stats.kstest(leak(Uniform), "uniform", (0.01, 0.49)).pvalue > 0.01
    assert stats.kstest(leak(LogUniform), stats.loguniform(0.01, 0.5).cdf).pvalue > 0.01
    np.testing.assert_allclose(leak(Linspace), np.linspace(0.01, 0.5, 3000), rtol=1e-12)
    assert set(one(Reservoir(units=8, leak_rate=0.4)).leak) == {0.4}
    assert one(Reservoir(units=1, leak_rate=Linspace(0.2, 0.9))).leak.tolist() == [0.2]
    quick, slow = np.split(leak(LongTail), [2250])
    assert (quick == 0.5).all()
    np.testing.assert_allclose(slow, np.geomspace(0.5, 0.01, 750), rtol=1e-12)
    assert (slow[0], slow[-1]) == (0.5, 0.01)
    few = [one(Reservoir(units=n, leak_rate=LongTail(0.1, 1.0))).leak for n in (1, 3, 6)]
    assert [rates.round(9).tolist() for rates in few] == [[1.0], [1.0] * 3, [1.0] * 5 + [0.1]]


def test_activations_are_counted_by_their_fractions_and_mixed() -> None:
    mixture = MixedActivation(tanh=0.5, sigmoid=0.25, identity=0.25)
    codes = one(Reservoir(units=101, activation=mixture)).activation
    counts = {name: int((codes == ACTIVATIONS.index(name)).sum()) for name in ACTIVATIONS}
    assert counts == {"tanh": 51, "sigmoid": 25, "relu": 0, "sin": 0, "identity": 25}
    assert (np.diff(codes) != 0).sum() > 30
    assert set(one(Reservoir(units=5, activation="sin")).activation) == {ACTIVATIONS.index("sin")}


def test_gain_and_shift_are_those_of_the_recipe() -> None:
    layer = one(Reservoir(units=4, topology="ring", gain=2.0, shift=-0.5))
    assert layer.gain.tolist() == [2.0] * 4
    assert layer.shift.tolist() == [-0.5] * 4


def test_layers_of_a_stack_are_drawn_apart_and_fit_together() -> None:
    first, second, third = build(Reservoir(units=(40, 40, 20), inputs=2, seed=3))
    assert (first.n_inputs, second.n_inputs, third.n_inputs) == (2, 40, 40)
    assert not np.array_equal(first.bias, second.bias)
    assert not np.array_equal(first.W.values, second.W.values)


def test_a_setting_changes_only_what_it_is_about() -> None:
    base = one(Reservoir(units=60, inputs=2, seed=4))
    changed = one(Reservoir(units=60, inputs=2, seed=4, leak_rate=Uniform(0.1, 1.0)))
    other_seed = one(Reservoir(units=60, inputs=2, seed=5))
    np.testing.assert_array_equal(base.W.values, changed.W.values)
    np.testing.assert_array_equal(base.W_in.values, changed.W_in.values)
    assert not np.intersect1d(base.W.values, other_seed.W.values).size


def test_a_changed_setting_breaks_the_fingerprint_and_the_remedy_works() -> None:
    prepared = Reservoir(units=30, leak_rate=0.3).prepared()
    changed = replace(prepared, leak_rate=0.4)
    with pytest.raises(FingerprintError, match=r"do it with unprepared\(\)"):
        build(changed)
    assert build(changed.unprepared())[0].leak[0] == 0.4


def test_a_scale_off_by_one_bit_breaks_the_fingerprint() -> None:
    prepared = Reservoir(units=30).prepared()
    assert prepared.scale is not None
    nudged = (float(np.nextafter(prepared.scale[0], 2.0)),)
    with pytest.raises(FingerprintError):
        build(replace(prepared, scale=nudged))


def test_fingerprints_differ_between_orders_of_layers() -> None:
    first, second = build(Reservoir(units=(10, 10), inputs=10))
    assert fingerprint([first, second]) != fingerprint([second, first])


def test_many_clients_and_a_search_cost_one_eigenvalue(monkeypatch: pytest.MonkeyPatch) -> None:
    solved = []

    def counted(W: object) -> tuple[float, bool]:
        solved.append(W)
        return 2.0, False

    monkeypatch.setattr(build_module, "common_radius", counted)
    recipe = Reservoir(units=35, seed=987654321)
    with ThreadPoolExecutor(8) as pool:
        clients = list(pool.map(build, [Reservoir(units=35, seed=987654321)] * 20))
    assert len({fingerprint(client) for client in clients}) == 1
    for radius in (0.5, 0.7, 0.99):
        build(replace(recipe, spectral_radius=radius, leak_rate=radius))
    assert len(solved) == 1
    build(recipe.prepared())
    build(Reservoir.from_json(recipe.prepared().to_json()))
    assert len(solved) == 1


def test_a_matrix_without_a_cycle_cannot_be_scaled() -> None:
    with pytest.raises(ValueError, match=r"drawn without any cycle, .* more connections"):
        build(Reservoir(units=50, density=0.0004))
    assert not one(Reservoir(units=50, density=0.0)).W.n_nonzero
    assert not one(Reservoir(units=50, spectral_radius=0.0)).W.values.any()


def test_arrays_cannot_be_changed_by_accident() -> None:
    layer = one(Reservoir(units=4, topology="ring"))
    for array in (layer.bias, layer.leak, layer.gain, layer.shift):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 9.0
