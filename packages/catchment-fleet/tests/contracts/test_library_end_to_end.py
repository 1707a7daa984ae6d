"""Maps of the library all the way: hidden in a sum, forgotten, from a plan, and on Flower."""

from __future__ import annotations

import hashlib
import tomllib
from functools import reduce
from operator import add
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import catchment as ct
from catchment import Array
from catchment.data import Recording
from catchment.features import FeatureMap
from catchment.federation import read_run
from catchment.federation.runs import unlearn_from_run
from catchment.plans import map_of
from catchment.readout import accumulate
from tests.plans.test_flower import fleet, in_process

pytestmark = pytest.mark.slow

NAMES = tuple("abcd")
PACES = {"fast": 1.1, "slow": 0.3}
RAW = ct.Preprocessing(scale="none")
WINDOWS = {
    "minirocket": 'map = "minirocket"\nfeatures = 20',
    "default": 'map = "default"\ncolumns = 158',
    "concat": 'map = "feature_union"\n'
    'maps = [{ units = 6 }, { map = "minirocket", features = 12 }]',
    "projected": 'map = "random_projection"\nfeatures = 16\n'
    'of = { map = "minirocket", features = 64 }',
}
STEPS = {"projected steps": 'map = "random_projection"\nfeatures = 6\nof = { units = 8 }'}
TABLES = WINDOWS | STEPS


def waves(k: int, n: int = 72) -> list[tuple[str, Array]]:
    rng = np.random.default_rng(k)
    steps = np.arange(30)[:, None]
    return [
        (label, np.sin(pace * steps + rng.uniform(0, 6, 3)) + 0.2 * rng.normal(size=(30, 3)))
        for _ in range(n)
        for label, pace in PACES.items()
    ]


def clients_of(name: str) -> dict[str, list[Recording]]:
    def recording(label: str, u: Array) -> Recording:
        if name in STEPS:
            return Recording(u[:-1], u[1:, :1])
        return Recording.labeled(u, label, tuple(PACES))

    return {who: [recording(*one) for one in waves(k)] for k, who in enumerate(NAMES)}


def described(name: str) -> FeatureMap:
    found = map_of(tomllib.loads(TABLES[name]))
    assert isinstance(found, FeatureMap)
    return found


@pytest.mark.parametrize("name", TABLES)
def test_hidden_under_secure_aggregation_the_total_is_the_exact_one(name: str) -> None:
    clients = clients_of(name)
    secure = ct.SecureAggregation(ct.generate_keys(clients), min_clients=3, rows_per_feature=2)
    hidden = ct.federate(ct.Pipeline(RAW, described(name)), clients, protections=[secure])
    features, classes = hidden.model.features, name in WINDOWS
    each = [accumulate(features, held, classes=classes) for held in clients.values()]
    assert hidden.statistics.digest() == reduce(add, each).digest()
    clear = ct.federate(ct.Pipeline(RAW, described(name)), clients, ridge="gcv").model
    np.testing.assert_array_equal(hidden.model.readout.weights, clear.readout.weights)


@pytest.mark.parametrize("name", TABLES)
def test_a_client_is_forgotten_to_the_bit(name: str, tmp_path: Path) -> None:
    clients, pipeline = clients_of(name), ct.Pipeline(RAW, described(name))
    run = ct.federate(pipeline, clients, ridge=0.1, out=tmp_path / "run")
    found = unlearn_from_run(tmp_path / "run", "b", run.model)
    rest = {who: held for who, held in clients.items() if who != "b"}
    never = ct.federate(pipeline, rest, ridge=0.1).model
    assert isinstance(found.model, ct.Model)
    np.testing.assert_array_equal(found.model.readout.weights, never.readout.weights)
    assert found.certificate.how == "equality"


def write_files(folder: Path) -> dict[str, dict[str, Any]]:
    folder.mkdir()
    for k, who in enumerate(NAMES):
        lines = ["window,act,x,y,z"]
        for w, (label, u) in enumerate(waves(k)):
            lines += [f"{w},{label}," + ",".join(f"{v:.6f}" for v in row) for row in u]
        (folder / f"{who}.csv").write_text("\n".join(lines) + "\n")
    return {who: {"name": who, "data": str(folder / f"{who}.csv")} for who in NAMES}


@pytest.mark.parametrize("name", TABLES)
def test_on_flower_it_ends_in_the_model_file_of_one_process(name: str, tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    nodes = write_files(logs)
    target = 'label = "act"\nclasses = ["fast", "slow"]' if name in WINDOWS else ""
    preprocessing = "" if name in WINDOWS else "[preprocessing]\nhorizon = 1\n"
    text = f"""
[data]
files = "{logs}/*.csv"
inputs = ["x", "y", "z"]
recording = "window"
test = 0.2
test_of = "recordings"
{target}
{preprocessing}
[features]
{TABLES[name]}
[learn]
store_per_client = false
[[protections]]
name = "secure_aggregation"
min_clients = 3
rows_per_feature = 2.0
"""
    there = fleet(tmp_path, text, nodes).serve("there")
    here = in_process(tmp_path, text)
    assert hashlib.sha256(there).hexdigest() == hashlib.sha256(here).hexdigest()
    facts = read_run(tmp_path / "there").facts
    assert facts["map"] == tomllib.loads(TABLES[name])["map"]
    kept = ct.load(tmp_path / "models" / "a" / "model.safetensors")
    assert isinstance(kept, ct.Model)
    built = described(name).build(3, per_step=name in STEPS, classes=name in WINDOWS)
    assert kept.features.fingerprint == built.fingerprint
