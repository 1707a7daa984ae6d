"""Maps side by side: the columns are those of each map alone, whatever is done with them."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import Ridge

import catchment as ct
from catchment import Array
from catchment.data import Recording
from catchment.features import EchoState, FeatureMap, FeatureUnion, suited
from catchment.features.echo_state import reservoir as build
from catchment.federation import StageInputs, Workflow
from catchment.federation.learn import FederatedRidge
from catchment.federation.runs import unlearn_from_run
from catchment.wire import Message
from tests.contracts.maps import CHANNELS, Delays, OwnStatistics
from tests.plans.test_flower import fleet, in_process

RNG = np.random.default_rng(5)
INPUTS = [RNG.normal(size=(n, CHANNELS)) for n in (40, 25, 60)]
RAW = ct.Preprocessing(scale="none")


@dataclass(frozen=True)
class Small(FeatureMap):
    """Features close to a bound that is no power of two, on a coarse grid: rounding passes it."""

    bits: int = 4
    standardize: bool = False
    n_features = 2
    bounds = np.array([0.3, 5.9])

    def compute_rows(self, inputs: Sequence[Array], threads: int | None) -> list[Array]:
        return [np.array([[0.3, -5.9]]) for _ in inputs]


def test_its_columns_are_those_of_each_map_alone() -> None:
    maps = (EchoState(20, seed=1), Small(), EchoState(7, bits=20, feature_bits=12))
    both = FeatureUnion(*maps).build(CHANNELS, per_step=False, classes=True)
    alone = [
        EchoState(20, seed=1).build(CHANNELS, per_step=False, classes=True),
        Small(),
        EchoState(7, bits=20, feature_bits=12).build(CHANNELS, per_step=False, classes=True),
    ]
    for z, *parts in zip(both.rows(INPUTS), *(one.rows(INPUTS) for one in alone), strict=True):
        assert z.tobytes() == np.hstack(parts).tobytes()
    assert both.bits == 12
    assert both.n_inputs == CHANNELS
    assert both.cost == sum(one.cost for one in alone)
    assert (both.bounds >= np.concatenate([one.bounds for one in alone])).all()
    assert both.names()[0] == "map0_mean_u0"
    assert both.names()[46:48] == ["map1_z0", "map1_z1"]
    assert len(set(both.names())) == both.n_features


def test_rows_start_after_the_longest_washout() -> None:
    delays = Delays(2, np.ones(3))
    both = FeatureUnion(EchoState(6, washout=4), EchoState(5, washout=1), delays)
    built = both.build(CHANNELS, per_step=True)
    assert (built.washout, built.per_step, built.bits) == (4, True, None)
    alone = [EchoState(6, washout=4), EchoState(5, washout=1)]
    first, second = (one.build(CHANNELS, per_step=True).rows(INPUTS) for one in alone)
    third = delays.rows(INPUTS)
    for z, a, b, c in zip(built.rows(INPUTS), first, second, third, strict=True):
        np.testing.assert_array_equal(z, np.hstack([a, b[3:], c[4:]]))


def test_a_spread_is_asked_for_if_one_map_asks() -> None:
    built = [
        FeatureUnion(EchoState(5), Small(standardize=s)).build(2, per_step=False)
        for s in (True, False)
    ]
    assert [one.standardize for one in built] == [True, False]


def test_a_name_is_the_map_as_it_is_without_settings() -> None:
    assert FeatureUnion("window_statistics", EchoState(5)).maps[0] == ct.WindowStatistics()
    with pytest.raises(ValueError, match="there is no map 'minirockt'; did you mean 'minirocket'"):
        FeatureUnion("minirockt")


def test_what_cannot_stand_side_by_side_is_refused() -> None:
    with pytest.raises(ValueError, match="FeatureUnion of no maps"):
        FeatureUnion()
    with pytest.raises(ValueError, match=r"Small recording.*choose all of one kind"):
        FeatureUnion(EchoState(5), Small()).build(2, per_step=True)
    with pytest.raises(ValueError, match="4 channels, echo_state was built for 2"):
        FeatureUnion(EchoState(5).build(2, per_step=True), EchoState(3)).build(4, per_step=True)
    with pytest.raises(ValueError, match=r"EchoState does not know its inputs yet; call build"):
        FeatureUnion(EchoState(5)).n_features  # noqa: B018
    with pytest.raises(ValueError, match="2 channels, feature_union was built for 3"):
        FeatureUnion(EchoState(5), Small()).build(3, per_step=False).rows([np.zeros((9, 2))])


def test_where_recordings_start_anew_no_inner_map_is_in_fixed_point() -> None:
    both = FeatureUnion(EchoState(5), FeatureUnion(EchoState(6, bits=20), OwnStatistics()))
    without: Any = suited(both, ct.Preprocessing(gaps="restart"))
    assert (without.maps[0].bits, without.maps[1].maps[0].bits) == (None, 20)
    assert without.maps[1].maps[1] is both.maps[1].maps[1]  # type: ignore[attr-defined]
    assert suited(both, ct.Preprocessing(gaps="hold")) is both


def people() -> dict[str, list[Recording]]:
    found = {}
    for k, name in enumerate("abcd"):
        rng = np.random.default_rng(k)
        steps = np.arange(30)[:, None]
        found[name] = [
            Recording.labeled(
                np.sin(pace * steps + rng.uniform(0, 6, CHANNELS))
                + 0.3 * rng.normal(size=(30, CHANNELS)),
                label,
                ("fast", "slow"),
            )
            for _ in range(10)
            for label, pace in (("fast", 1.1), ("slow", 0.3))
        ]
    return found


def described() -> FeatureUnion:
    return FeatureUnion(EchoState(6, seed=2), Small())


def test_its_federated_ridge_is_sklearns_on_the_columns() -> None:
    clients = people()
    both = FeatureUnion(EchoState(8, seed=2), OwnStatistics())
    run = ct.federate(ct.Pipeline(RAW, both), clients, ridge=0.5)
    held = [one for several in clients.values() for one in several]
    inner = EchoState(8, seed=2).build(CHANNELS, per_step=False, classes=True)
    us = [one.u for one in held]
    own = [np.vstack(one.rows(us)) for one in (inner, OwnStatistics())]
    Z, Y = np.hstack(own), np.stack([one.y for one in held if one.y is not None])
    theirs = Ridge(alpha=0.5).fit(Z, Y)
    np.testing.assert_allclose(run.model.readout.weights, theirs.coef_.T, rtol=1e-7, atol=1e-9)


def test_hidden_and_forgotten_it_gives_the_same_integers(tmp_path: Path) -> None:
    clients = people()
    pipeline = ct.Pipeline(RAW, described())
    secure = ct.SecureAggregation(ct.generate_keys(clients), min_clients=3, rows_per_feature=2)
    hidden = ct.federate(pipeline, clients, protections=[secure], ridge=0.1)
    clear = ct.federate(pipeline, clients, ridge=0.1, out=tmp_path / "run")
    assert hidden.statistics == clear.statistics
    found = unlearn_from_run(tmp_path / "run", "b", clear.model)
    rest = {name: held for name, held in clients.items() if name != "b"}
    never = ct.federate(pipeline, rest, ridge=0.1).model
    assert isinstance(found.model, ct.Model)
    np.testing.assert_array_equal(found.model.readout.weights, never.readout.weights)


SCRIPT = """
import sys, json, numpy as np, catchment as ct
rows = np.array(json.loads(sys.stdin.read()))
print(ct.load(sys.argv[1]).outputs([rows])[0].tobytes().hex())
"""


def test_another_process_loads_it_from_the_file_alone(tmp_path: Path) -> None:
    both = FeatureUnion(EchoState(8, seed=2), FeatureUnion(EchoState(5), EchoState(4, pool="max")))
    model = ct.fit(both, people()["a"])
    model.save(tmp_path / "model")
    told = json.dumps(INPUTS[0].tolist())
    command = [sys.executable, "-c", SCRIPT, str(tmp_path / "model")]
    done = subprocess.run(command, input=told, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == model.outputs([INPUTS[0]])[0].tobytes().hex()


def workflow(one: Any) -> Workflow:
    return Workflow(
        preprocessing=RAW,
        maps=(one,),
        learn=lambda maps: FederatedRidge(features=maps[0]),
        channels=CHANNELS,
        classes=("fast", "slow"),
    )


def traveled(known: StageInputs) -> StageInputs:
    return StageInputs.from_message(Message.from_bytes(known.parts().to_bytes()))


def test_a_client_agrees_to_a_server_with_another_eigenvalue(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    own = workflow(described())
    exact = build._scale
    build._found.cache_clear()
    monkeypatch.setattr(build, "_scale", lambda layer: exact(layer) * (1 + 2**-40))
    there = workflow(described()).start()
    came = traveled(there)
    monkeypatch.undo()
    build._found.cache_clear()
    assert came.maps[0].fingerprint == there.maps[0].fingerprint
    assert came.maps[0].fingerprint != own.start().maps[0].fingerprint
    assert own.agrees("training", came)
    others: list[FeatureUnion] = [
        FeatureUnion(EchoState(6, seed=3), Small()),
        FeatureUnion(EchoState(6, seed=2), Small(bits=5)),
        FeatureUnion(EchoState(8, seed=2)),
    ]
    for other in others:
        built: FeatureMap = workflow(other).start().maps[0]
        assert isinstance(built, FeatureMap)
        assert not own.describes(built.parts())
    assert not own.describes(Small().parts())


PLAN = """
[data]
files = "{folder}/*.csv"
inputs = ["x", "y", "z"]
recording = "window"
label = "act"
classes = ["fast", "slow"]
test = 0.2
test_of = "recordings"
[features]
map = "feature_union"
[[features.maps]]
units = 6
seed = 2
[[features.maps]]
map = "random_projection"
features = 5
of = "window_statistics"
[learn]
store_per_client = false
"""


@pytest.mark.slow
def test_a_plan_file_names_it_and_nodes_restore_it(tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    logs.mkdir()
    for name, held in people().items():
        lines = ["window,act,x,y,z"]
        for w, one in enumerate(held):
            label = ("fast", "slow")[int(np.asarray(one.y).argmax())]
            lines += [f"{w},{label}," + ",".join(f"{v:.6f}" for v in row) for row in one.u]
        (logs / f"{name}.csv").write_text("\n".join(lines) + "\n")
    secure = (
        '[[protections]]\nname = "secure_aggregation"\nmin_clients = 3\nrows_per_feature = 2.0\n'
    )
    text = PLAN.format(folder=logs) + secure
    nodes = {name: {"name": name, "data": str(logs / f"{name}.csv")} for name in people()}
    there = fleet(tmp_path, text, nodes).serve("there")
    assert there == in_process(tmp_path, text)
    kept = ct.load(tmp_path / "models" / "a" / "model.safetensors")
    assert isinstance(kept, ct.Model)
    written = FeatureUnion(EchoState(6, seed=2), ct.RandomProjection(ct.WindowStatistics(), 5))
    expected = written.build(CHANNELS, per_step=False, classes=True)
    assert kept.features.fingerprint == expected.fingerprint


@pytest.mark.filterwarnings("ignore::catchment.errors.ClippingWarning")
def test_a_feature_may_be_rounded_beyond_an_inner_bound() -> None:
    # 5.3 is 169.6 steps of the grid, and 170 steps are 5.3125.
    u = np.full((20, 2), 30.0)
    built = ct.AppendNorm(ct.WindowStatistics(range=5.3)).build(2, per_step=False, classes=True)
    assert built.rows([u])[0][0, 0] == 5.3125
    assert built.bounds[0] == 5.3125
