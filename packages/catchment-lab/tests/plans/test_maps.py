"""Feature maps in plan files: names, maps within maps, what is hidden, and what is wrong."""

from __future__ import annotations

import tomllib
from typing import Any

import jsonschema
import pytest

import catchment as ct
from catchment.features import (
    LIBRARY,
    NVAR,
    DefaultMap,
    MiniRocket,
    RandomFourierFeatures,
    RandomProjection,
    WindowStatistics,
)
from catchment.plans import PlanFile, parse_plan, plan_schema
from catchment.plugins import installed
from catchment_lab.search import read_search

DATA = '[data]\nsource = "wearables"\n'
NESTED = """
[features]
map = "feature_union"

[[features.maps]]
map = "window_statistics"

[[features.maps]]
map = "random_projection"
features = 200
of = { map = "minirocket", features = 1000, seed = 3 }
"""


def plan(features: str) -> PlanFile:
    return parse_plan(DATA + features)


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("", DefaultMap()),
        ("[features]\n", DefaultMap()),
        ("[features]\ncolumns = 800\nseed = 2\n", DefaultMap(800, seed=2)),
        ("[features]\nunits = 50\n", ct.EchoState(50)),
        ("[features]\nseed = 5\n", ct.EchoState(seed=5)),
        ('[features]\nmap = "echo_state"\n', ct.EchoState()),
        ('[features]\nmap = "minirocket"\nfeatures = 84\n', MiniRocket(84)),
        ('[features]\nmap = "nvar"\ndelays = 3\n', NVAR(3)),
        ('[features]\nmap = "random_fourier_features"\n', RandomFourierFeatures()),
        (
            '[features]\nmap = "random_fourier_features"\nof = "minirocket"\n',
            RandomFourierFeatures(MiniRocket()),
        ),
        ('[features]\nmap = "random_fourier_features"\nof = "none"\n', RandomFourierFeatures()),
        (
            NESTED,
            ct.FeatureUnion(
                WindowStatistics(), RandomProjection(MiniRocket(1000, seed=3), features=200)
            ),
        ),
        ('[features]\nmap = "feature_union"\nmaps = ["default", "hydra"]\n', None),
    ],
)
def test_a_table_is_a_map(text: str, meant: Any) -> None:
    (found,) = plan(text).maps
    assert meant is None or found == meant
    jsonschema.validate(tomllib.loads(DATA + text), plan_schema())


@pytest.mark.parametrize("more", ['[plasticity]\nname = "fedip"\n', "[search]\ntrials = 3\n"])
def test_what_needs_a_reservoir_has_one(more: str) -> None:
    assert plan(more).maps == (ct.EchoState(),)


@pytest.mark.parametrize("algorithm", ["ensemble", "stacking"])
def test_algorithms_of_reservoirs_have_one(algorithm: str) -> None:
    assert plan(f'[learn]\nalgorithm = "{algorithm}"\n').maps == (ct.EchoState(),)


def test_candidates_may_name_maps() -> None:
    text = '[learn]\nalgorithm = "candidates"\n[[candidates]]\nunits = 20\n[[candidates]]\n'
    found = plan(text + 'map = "minirocket"\n[[candidates]]\n').maps
    assert found == (ct.EchoState(20), MiniRocket(), DefaultMap())


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('[features]\nmap = "minirockets"\n', "did you mean 'minirocket'"),
        ('[features]\nmap = "minirocket"\nn_inputs = 3\n', "no setting 'n_inputs'"),
        ('[features]\nmap = "minirocket"\nunits = 3\n', "no setting 'units'"),
        ('[features]\nmap = "default"\nunits = 3\n', "no setting 'units'"),
        ("[features]\nunit = 3\n", "did you mean 'units'"),
        ('[features]\nmap = "feature_union"\n', "lacks 'maps'"),
        ('[features]\nmap = "random_projection"\n', "lacks 'of'"),
        ('[features]\nmap = "feature_union"\nmaps = [3]\n', "entry 1 is 3; make it a table"),
        ('[features]\nmap = "feature_union"\nmaps = ["hydro"]\n', "did you mean 'hydra'"),
        (NESTED.replace("seed = 3", "sed = 3"), "of in maps in .features., entry 2 has no setting"),
    ],
)
def test_mistakes_are_named(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        plan(text)


def test_every_map_can_be_named() -> None:
    offered = {one["properties"]["map"].get("const") for one in _options()}
    assert offered - {None} == set(LIBRARY) | set(installed("maps"))
    for one in _options():
        assert "n_inputs" not in one["properties"]


def _options() -> list[dict[str, Any]]:
    schema: dict[str, Any] = plan_schema()
    options: list[dict[str, Any]] = schema["properties"]["features"]["anyOf"]
    return options


def test_the_washout_of_a_plan_is_the_longest_of_its_maps() -> None:
    text = '[features]\nmap = "feature_union"\nmaps = [{ units = 5, washout = 7 }, { units = 6 }]\n'
    assert plan(text).washout == 7


def test_a_search_says_that_it_is_one_for_reservoirs() -> None:
    text = f'{DATA}[features]\nmap = "minirocket"\n[search]\ntrials = 3\n'
    with pytest.raises(ValueError, match="is 'minirocket', and a search is one for reservoirs"):
        read_search(parse_plan(text))
