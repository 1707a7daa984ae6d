"""Plan files: what is in them, what is wrong with them, and the schema they follow."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from catchment.features.echo_state.recipe import Spread
from catchment.federation.learn.averaging import GradientAveraging
from catchment.federation.learn.candidates import Candidates
from catchment.federation.learn.optimisers import Adam
from catchment.federation.learn.ridge import FederatedRidge
from catchment.plans.examples import example_names, example_plan
from catchment.plans.file import (
    ALGORITHMS,
    PROTECTIONS,
    fingerprint_of,
    parse_plan,
    read_plan,
)
from catchment.plans.schema import plan_schema

SMALL = """
[data]
source = "wearables"
users = 4
windows_per_user = 3
steps = 30

[features]
units = 10
"""


def test_defaults() -> None:
    file = parse_plan(SMALL)
    plan = file.build(6, ("a", "b"))
    assert isinstance(plan.algorithm, FederatedRidge)
    assert plan.algorithm.classes == ("a", "b")
    assert plan.algorithm.features.pool == "mean_std"
    assert (plan.rounds, plan.share, plan.min_clients, plan.seed) == (1, 1.0, 1, 0)
    per_step = file.build(6, None).algorithm
    assert isinstance(per_step, FederatedRidge)
    assert per_step.features.pool is None


def test_every_section_is_read() -> None:
    text = SMALL.replace(
        "units = 10",
        'units = [10, 8]\nleak_rate = {kind = "uniform", low = 0.1, high = 0.9}\nseed = 5',
    )
    file = parse_plan(
        'title = "T"\n'
        + text
        + """
[features]
pool = "mean"
segments = 2
washout = 3
[learn]
algorithm = "gradient"
epochs = 2
optimiser = { name = "adam", learning_rate = 0.5 }
[run]
rounds = 7
share = 0.5
min_clients = 2
seed = 9
[[protect]]
name = "float32"
"""
    )
    plan = file.build(6, None)
    algorithm = plan.algorithm
    assert isinstance(algorithm, GradientAveraging)
    assert algorithm.optimiser == Adam(learning_rate=0.5)
    assert algorithm.features.segments == 2
    recipe = algorithm.features.reservoir.recipe
    assert recipe is not None
    assert (recipe.units, recipe.inputs, recipe.seed) == ((10, 8), 6, 5)
    assert recipe.leak_rate == Spread("uniform", 0.1, 0.9)
    assert (plan.rounds, plan.share, plan.min_clients, plan.seed) == (7, 0.5, 2, 9)
    assert [type(p).__name__ for p in plan.protections] == ["Float32"]
    assert file.title == "T"


def test_candidates_change_the_reservoir() -> None:
    text = SMALL + '[learn]\nalgorithm = "candidates"\n[[candidates]]\nleak_rate = 1.0\n'
    plan = parse_plan(text + "[[candidates]]\nunits = 5\n").build(6, None)
    assert isinstance(plan.algorithm, Candidates)
    assert [f.reservoir.n_units for f in plan.algorithm.features] == [10, 5]


def test_rounds_follow_the_algorithm_unless_they_are_given() -> None:
    assert parse_plan(SMALL + "[learn]\nincrements = 3").build(6, None).rounds == 3
    assert parse_plan(SMALL + '[learn]\nalgorithm = "selected"').build(6, None).rounds == 2
    text = SMALL + "[learn]\nincrements = 3\n[run]\nrounds = 2"
    assert parse_plan(text).build(6, None).rounds == 2


@pytest.mark.parametrize(
    ("section", "message"),
    [
        ('name = "fedpi"', "did you mean 'fedip'"),
        ('name = "fedip"\nrounds = 0', "rounds in .plasticity. is 0; give a whole number"),
        ('name = "moments"\ndamping = 2.0', "damping is 2.0"),
        ('name = "fedip"\nrule = { epoch = 3 }', "no setting 'epoch'; did you mean 'epochs'"),
        (
            'name = "fedip"\n[[protect]]\nname = "gaussian_noise"\n'
            "epsilon = 1.0\ndelta = 1e-6\nclip = { bound = 8.0 }\n[learn]\nridge = 0.0",
            "covers the",
        ),
    ],
)
def test_wrong_plasticity_is_refused(section: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse_plan(f"{SMALL}[plasticity]\n{section}\n")


def test_noise_does_not_go_with_a_stage_that_it_would_not_cover() -> None:
    noise = (
        '[learn]\nridge = 0.0\n[[protect]]\nname = "gaussian_noise"\nepsilon = 1.0\n'
        "delta = 1e-6\nclip = { bound = 8.0 }\n"
    )
    parse_plan(SMALL + noise)
    scaled = SMALL.replace("[data]\n", '[data]\nscaling = "federated"\n')
    with pytest.raises(ValueError, match='covers the training, not scaling = "federated"'):
        parse_plan(scaled + noise)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("[reservoir]", "[reservior]"), "the plan has no setting 'reservior'; did you mean"),
        (("units = 10", "unit = 10"), r"\[features\] has no setting 'unit'; did you mean 'units'"),
        (("units = 10", "units = 0"), r"\[features\]: units is 0"),
        (("units = 10", ""), r"\[features\] lacks 'units'"),
        (("units = 10", "units = 10\ninputs = 6"), "no setting 'inputs'"),
        (('source = "wearables"', ""), r"\[data\] lacks 'source'; choose from wearables"),
        (('"wearables"', '"uci_hra"'), "is 'uci_hra'; did you mean 'uci_har'"),
        (('"wearables"', '"mnist_writers"'), "source in"),
        (("users = 4", "user = 4"), r"\[data\] has no setting 'user'; did you mean 'users'"),
        (("users = 4", "path = 'x'"), r"\[data\] has no setting 'path'"),
        (("users = 4", "test = 1.5"), r"\[data\]: test is 1.5"),
        (("users = 4", "test_after = 1.0"), "test_after is 1.0"),
        (("users = 4", 'test = "official"\ntest_of = "steps"'), "official test part"),
        (("[data]\n", "[[data]]\n"), r"lacks \[data\]"),
        (("[reservoir]\nunits = 10", "[[reservoir]]\nunits = 10"), "make it a table"),
        (("[data]", "[data"), "not valid TOML"),
    ],
)
def test_mistakes_in_sections(change: tuple[str, str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse_plan(SMALL.replace(*change))


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ('[learn]\nalgorithm = "rigde"', r"algorithm in \[learn\] is 'rigde'; did you mean 'ridge'"),
        ("[learn]\nrigde = 3", r"\[learn\] has no setting 'rigde'; did you mean 'ridge'"),
        ('[learn]\nridge = "cv"', "ridge in .* is 'cv'; give a number or 'clients' or 'gcv'"),
        ("[learn]\nforgetting = 0.0", "forgetting is 0.0"),
        ("[learn]\nfeatures = 3", "no setting 'features'"),
        ('[learn]\nalgorithm = "candidates"', r"\[\[candidates\]\] go with"),
        ("[[candidates]]\nunits = 3", r"\[\[candidates\]\] go with"),
        ("[run]\nround = 3", r"\[run\] has no setting 'round'; did you mean 'rounds'"),
        ("[run]\nshare = 0.0", "share is 0.0"),
        ('[run]\nbaselines = ["luck"]', "baselines in"),
        ("[features]\npool = 'median'", "pool in"),
        ("[features]\nsegments = 0", "segments is 0"),
        ("[[protect]]\nname = 'float16'", r"\[\[protect\]\] 1 is 'float16'; did you mean"),
        ("[[protect]]\nbits = 8", r"name in \[\[protect\]\] 1 is None"),
        ("[protect]\nname = 'float32'", "make it a list of tables"),
    ],
)
def test_mistakes_in_other_sections(more: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse_plan(SMALL + more)


def test_a_table_needs_a_target_or_a_horizon() -> None:
    text = '[data]\nsource = "table"\npath = "x.csv"\ninputs = ["a"]\n[reservoir]\nunits = 3\n'
    with pytest.raises(ValueError, match="either a target or a horizon"):
        parse_plan(text)


def test_the_fingerprint_is_of_the_settings() -> None:
    one = parse_plan(SMALL)
    same = parse_plan('# a comment\ntitle = "other"\n' + SMALL)
    other = parse_plan(SMALL.replace("units = 10", "units = 11"))
    assert one.fingerprint == same.fingerprint
    assert one.fingerprint != other.fingerprint
    assert fingerprint_of({}) == fingerprint_of({"title": "x"})


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="no plan"):
        read_plan(tmp_path / "none.toml")


@pytest.mark.parametrize("name", example_names())
def test_examples_are_plans_and_follow_the_schema(name: str) -> None:
    text = example_plan(name)
    file = parse_plan(text)
    assert file.title
    jsonschema.validate(tomllib.loads(text), plan_schema())


def test_the_schema_is_a_schema() -> None:
    jsonschema.Draft202012Validator.check_schema(plan_schema())


@pytest.mark.parametrize(
    "table",
    [
        {"data": {"source": "wearables", "user": 3}, "reservoir": {"units": 3}},
        {"data": {"source": "wearables"}, "reservoir": {"units": 3}, "runs": {}},
        {"data": {"source": "wearables"}},
        {"data": {"source": "x"}, "reservoir": {"units": 3}},
        {"data": {"source": "wearables"}, "reservoir": {"units": "many"}},
        {
            "data": {"source": "wearables"},
            "reservoir": {"units": 3},
            "algorithm": {"name": "ridge", "rigde": 1.0},
        },
    ],
)
def test_the_schema_refuses_what_the_reader_refuses(table: dict[str, Any]) -> None:
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(table, plan_schema())


def test_the_schema_lists_what_can_be_named() -> None:
    schema: dict[str, Any] = plan_schema()
    algorithms = schema["properties"]["algorithm"]["oneOf"]
    assert [one["properties"]["name"]["const"] for one in algorithms] == list(ALGORITHMS)
    items = schema["properties"]["protections"]["items"]["oneOf"]
    assert [one["properties"]["name"]["const"] for one in items] == list(PROTECTIONS)
    ridge = algorithms[0]["properties"]["ridge"]
    assert "left out of the solution" in ridge["description"]
