"""Plan files: what is in them, what is wrong with them, and the schema they follow."""

from __future__ import annotations

import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from catchment import load
from catchment.data import Preprocessing, Scaler
from catchment.engine import data_of
from catchment.features import DefaultMap, EchoState, name_of
from catchment.features.echo_state import Uniform
from catchment.federation import Limits, Plan
from catchment.federation.learn import Candidates, FederatedRidge, ReadoutAveraging
from catchment.federation.runs import MODEL
from catchment.plans import (
    ALGORITHMS,
    MAPS,
    PROTECTIONS,
    About,
    example_names,
    example_plan,
    fingerprint_of,
    parse_plan,
    plan_schema,
    read_plan,
    run_plan,
)
from catchment.readout import Model

SMALL = """
[data]
source = "wearables"
users = 4
windows_per_user = 3
steps = 30

[features]
units = 10
"""


ABOUT = About(tuple("abcdef"), ("x", "y"))
STEPS = About(tuple("abcdef"), None, per_step=True)


def training(text: str, about: About = STEPS, n_clients: int | None = None) -> Plan[Any, Any, Any]:
    workflow = parse_plan(text).workflow(about, n_clients=n_clients)
    known = workflow.start()
    ready = (
        workflow.preprocessing
        if workflow.preprocessing.is_fitted
        else replace(workflow.preprocessing, scale="none")
    )
    return workflow.plan("training", replace(known, preprocessing=ready))


def test_only_data_are_needed_and_defaults_are_those_of_federate() -> None:
    file = parse_plan('[data]\nsource = "wearables"\n')
    assert file.preprocessing == Preprocessing()
    assert file.maps == (DefaultMap(),)
    plan = training('[data]\nsource = "wearables"\n', ABOUT)
    algorithm = plan.algorithm
    assert isinstance(algorithm, FederatedRidge)
    assert (algorithm.ridge, algorithm.store_per_client) == ("auto", True)
    assert algorithm.classes == ("x", "y")
    assert name_of(algorithm.features) == "append_norm"
    assert (algorithm.features.n_features, algorithm.standardized) == (510, True)
    assert (plan.rounds, plan.client_fraction, plan.min_clients, plan.seed) == (1, 1.0, 1, 0)
    assert plan.limits == Limits()
    assert plan.channels == ABOUT.channels
    per_step = training(SMALL).algorithm
    assert isinstance(per_step, FederatedRidge)
    assert per_step.features.per_step


def test_the_ridge_is_chosen_by_who_can_be_seen() -> None:
    secure = '[[protections]]\nname = "secure_aggregation"\n'
    alone = training(SMALL, ABOUT, n_clients=1).algorithm
    hidden = training(SMALL + secure, ABOUT).algorithm
    for algorithm in (alone, hidden):
        assert isinstance(algorithm, FederatedRidge)
        assert (algorithm.ridge, algorithm.store_per_client) == ("gcv", False)
    chosen = training(SMALL + '[learn]\nridge = "leave-one-client-out"\n' + secure, ABOUT)
    assert isinstance(chosen.algorithm, Candidates)
    assert not chosen.algorithm.store_per_client
    assert chosen.rounds == 2


def test_every_section_is_read() -> None:
    text = SMALL.replace(
        "units = 10",
        'units = [10, 8]\nleak_rate = {kind = "uniform", low = 0.1, high = 0.9}\nseed = 5\n'
        'pool = "mean"\nsegments = 2\nwashout = 3',
    )
    text = (
        'title = "T"\n'
        + text
        + """
[preprocessing]
gaps = "interpolate"
rate = 50
window = "2s"
step = 25
label = "majority"
scale = "own"
[learn]
algorithm = "averaging"
weighting = "uniform"
[run]
rounds = 7
client_fraction = 0.5
min_clients = 2
max_rows = 5000
max_weight = 2.5
over_median = 20
seed = 9
[[protections]]
name = "low_rank"
"""
    )
    file, plan = parse_plan(text), training(text)
    algorithm = plan.algorithm
    assert isinstance(algorithm, ReadoutAveraging)
    assert algorithm.weighting == "uniform"
    features = algorithm.features
    assert isinstance(features, EchoState)
    assert (features.segments, features.washout) == (2, 3)
    recipe = features.reservoir
    assert (recipe.units, recipe.inputs, recipe.seed) == ((10, 8), 6, 5)
    assert recipe.leak_rate == Uniform(0.1, 0.9)
    assert (plan.rounds, plan.client_fraction, plan.min_clients, plan.seed) == (7, 0.5, 2, 9)
    assert plan.limits == Limits(max_rows=5000, max_weight=2.5, over_median=20.0)
    assert [type(p).__name__ for p in plan.protections] == ["LowRankUpload"]
    assert file.title == "T"
    assert file.preprocessing == Preprocessing(
        gaps="interpolate", rate=50, window="2s", step=25, label="majority", scale="own"
    )
    assert plan.preprocessing == file.preprocessing


def test_numbers_of_a_scale_can_be_written_down() -> None:
    text = SMALL + "[preprocessing]\nscale = { mean = [1.0, 2.0], scale = [3.0, 4.0] }\n"
    scale = parse_plan(text).preprocessing.scale
    assert isinstance(scale, Scaler)
    assert scale.scale.tolist() == [3.0, 4.0]
    with pytest.raises(ValueError, match="pass lists of numbers mean and scale"):
        parse_plan(SMALL + "[preprocessing]\nscale = { mean = [1.0, 2.0] }\n")


def test_none_is_a_word_where_a_setting_may_be_none() -> None:
    plain = training(SMALL.replace("units = 10", 'units = 10\npool = "none"'), ABOUT)
    assert isinstance(plain.algorithm, FederatedRidge)
    assert plain.algorithm.features.per_step


def test_candidates_change_the_map() -> None:
    text = SMALL + '[learn]\nalgorithm = "candidates"\n[[candidates]]\nleak_rate = 1.0\n'
    plan = training(text + "[[candidates]]\nunits = 5\n")
    assert isinstance(plan.algorithm, Candidates)
    assert [f.n_features for f in plan.algorithm.features] == [16, 11]


def test_auto_keeps_the_default_within_a_standard_error_as_federate_does() -> None:
    auto = '[data]\nsource = "wearables"\n[features]\nmap = "auto"\n'
    for n_clients, by in ((None, "accuracy"), (3, "accuracy"), (2, "error")):
        algorithm = training(auto, ABOUT, n_clients).algorithm
        assert isinstance(algorithm, Candidates)
        assert (algorithm.by, algorithm.margin) == (by, 1.0)
        assert algorithm.features[0].n_features == 510


def test_rounds_follow_the_algorithm_unless_they_are_given() -> None:
    assert training(SMALL + "[learn]\nincrements = 3").rounds == 3
    candidates = '[learn]\nalgorithm = "candidates"\nstore_per_client = false\n[[candidates]]\n'
    assert training(f"{SMALL}{candidates}units = 5\n[[candidates]]\nunits = 6").rounds == 2
    assert training(SMALL + "[learn]\nincrements = 3\n[run]\nrounds = 2").rounds == 2


OWN = """
from dataclasses import dataclass
import numpy as np
from catchment.federation.learn import FederatedRidge
from catchment.features import FeatureMap

@dataclass(frozen=True)
class Ends(FeatureMap):
    times: int = 2
    n_features = property(lambda self: 6)
    bounds = property(lambda self: np.full(self.n_features, 100.0))
    def compute_rows(self, inputs, threads):
        return [self.times * u[-1:] for u in inputs]

@dataclass(frozen=True, kw_only=True)
class Plain(FederatedRidge):
    pass
"""


def test_a_map_and_an_algorithm_of_ones_own_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "my_ends.py").write_text(OWN)
    monkeypatch.syspath_prepend(str(tmp_path))
    own = SMALL.replace("units = 10", 'map = "my_ends:Ends"\ntimes = 3')
    text = own + '[learn]\nalgorithm = "my_ends:Plain"\nridge = 0.5\n'
    done = run_plan(parse_plan(text), tmp_path / "run")
    assert done.scores.total is not None
    kept = load(tmp_path / "run" / MODEL)
    assert isinstance(kept, Model)
    assert kept.features.n_features == 6
    with pytest.raises(ValueError, match=r"no setting 'tims'; did you mean 'times'"):
        parse_plan(own.replace("times", "tims"))
    with pytest.raises(ValueError, match="cannot be imported"):
        parse_plan(own.replace("my_ends", "my_end"))
    with pytest.raises(ValueError, match="has no 'End'; check the name"):
        parse_plan(own.replace(":Ends", ":End"))
    with pytest.raises(ValueError, match="which is no dataclass"):
        parse_plan(own.replace("my_ends:Ends", "collections:OrderedDict"))


@pytest.mark.parametrize(
    ("section", "message"),
    [
        ('name = "fedpi"', "did you mean 'fedip'"),
        (
            'name = "fedip"\nrule = { updates = "epoch" }',
            "updates in rule in .plasticity. is 'epoch'; give 'step' or 'batch'",
        ),
        (
            'name = "fedip"\nrule = { batch = 40 }',
            "batch is 40; pass 1 to 32 recordings, or updates='batch'",
        ),
        ('name = "fedip"\nrounds = 0', "rounds in .plasticity. is 0; give 1 or more"),
        ('name = "moments"\ndamping = 2.0', "damping in .plasticity. is 2.0; give at most 1"),
        ('name = "fedip"\nrule = { epoch = 3 }', "no setting 'epoch'; did you mean 'epochs'"),
        (
            'name = "fedip"\n[preprocessing]\nscale = "own"\n[[protections]]\nname = '
            '"gaussian_noise"\n'
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
        '[learn]\nridge = 0.0\n[[protections]]\nname = "gaussian_noise"\nepsilon = 1.0\n'
        "delta = 1e-6\nclip = { bound = 8.0 }\n"
    )
    parse_plan(SMALL + '[preprocessing]\nscale = "own"\n' + noise)
    with pytest.raises(ValueError, match='not scale = "federated"; write scale = "own" into'):
        parse_plan(SMALL + noise)
    for line in ('test_of = "steps"', 'test_of = "recordings"', 'test = "folds"'):
        with pytest.raises(ValueError, match='write test_of = "clients" into'):
            parse_plan(
                f'[data]\nsource = "wearables"\n{line}\n[preprocessing]\nscale = "own"\n{noise}'
            )
    own = '[data]\nfiles = "*.csv"\ntarget = "y"\nTEST[preprocessing]\nscale = "own"\n' + noise
    with pytest.raises(ValueError, match='write test_of = "clients" into'):
        parse_plan(own.replace("TEST", ""))  # of forecasts the last steps are kept
    parse_plan(own.replace("TEST", 'test_of = "clients"\n'))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("[features]", "[feature]"), "the plan has no setting 'feature'; did you mean 'features'"),
        (("[features]", "[reservoir]"), "the plan has no setting 'reservoir'"),
        (("units = 10", "unit = 10"), r"\[features\] has no setting 'unit'; did you mean 'units'"),
        (("units = 10", "units = 0"), r"\[features\]: units is 0"),
        (("units = 10", "units = 1000000"), "this machine has .*fewer units, algorithm = "),
        (
            ("units = 10", 'map = "echostate"'),
            "is 'echostate'; did you mean 'echo_state'",
        ),
        (("units = 10", "seed = 1.5"), "seed in"),
        (("units = 10", "units = 10\ninputs = 6"), "no setting 'inputs'"),
        (('source = "wearables"', ""), r'needs either files = "recordings/\*.csv" or a source'),
        (('source = "wearables"', 'source = "narma"\nfiles = "x"'), "needs either files"),
        (('"wearables"', '"uci_hra"'), "is 'uci_hra'; did you mean 'uci_har'"),
        (('"wearables"', '"mnist_writers"'), "source in"),
        (("users = 4", "user = 4"), r"\[data\] has no setting 'user'; did you mean 'users'"),
        (("users = 4", "label = 'x'"), r"\[data\] has no setting 'label'"),
        (("users = 4", "scaling = 'own'"), r"\[data\] has no setting 'scaling'"),
        (("users = 4", "test = 1.5"), r"test in \[data\] is 1.5; give less than 1 or 'official'"),
        (("users = 4", 'test = "official"\ntest_of = "steps"'), "official test part"),
        (("[data]\n", "[[data]]\n"), r"lacks \[data\]"),
        (("[features]\nunits = 10", "[[features]]\nunits = 10"), "make it a table"),
        (("[data]", "[data"), "not valid TOML"),
    ],
)
def test_mistakes_in_sections(change: tuple[str, str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse_plan(SMALL.replace(*change))


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (
            '[learn]\nalgorithm = "rigde"',
            r"in \[learn\] is 'rigde'; did you mean 'ridge'",
        ),
        ("[learn]\nrigde = 3", r"\[learn\] has no setting 'rigde'; did you mean 'ridge'"),
        ('[learn]\nridge = "cv"', "ridge in .* is 'cv'; give a number or 'auto', 'leave"),
        ("[learn]\nincrements = 0", "increments in .learn. is 0; give 1 or more"),
        ("[learn]\nfeatures = 3", "no setting 'features'"),
        ('[learn]\nalgorithm = "candidates"', r"\[\[candidates\]\] go with"),
        ("[[candidates]]\nunits = 3", r"\[\[candidates\]\] go with"),
        ("[run]\nround = 3", r"\[run\] has no setting 'round'; did you mean 'rounds'"),
        ("[run]\nshare = 0.0", "client_fraction is 0.0"),
        ('[run]\nbaselines = ["luck"]', "baselines in"),
        (
            "[preprocessing]\ngap = 'hold'",
            r"\[preprocessing\] has no setting 'gap'; did you mean 'gaps'",
        ),
        ("[preprocessing]\ngaps = 'drop'", "gaps in .preprocessing. is 'drop'; give"),
        (
            "[preprocessing]\nscale = 'client'",
            "scale in .preprocessing. is 'client'; give 'none', 'recording', 'own' or",
        ),
        ("[preprocessing]\nwindow = '5'", r"\[preprocessing\]: "),
        ("[preprocessing]\nstep = 3", "without a window"),
        ("[preprocessing]\nhorizon = 1", "leave one out"),
        ('[run]\nbaselines = ["personalized"]', "baselines in .run., entry 1 is 'personalized'"),
        (
            "[[protections]]\nname = 'secure_aggregation'\n[[protections]]\nname = 'low_rank'",
            "must be the last",
        ),
        ("[[protections]]\nname = 'low_rnk'", r"\[\[protections\]\] 1 is 'low_rnk'; did you mean"),
        ("[[protections]]\nbits = 8", r"name in \[\[protections\]\] 1 is None"),
        ("[protect]\nname = 'float32'", "make it a list of tables"),
    ],
)
def test_mistakes_in_other_sections(more: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse_plan(SMALL + more)


def test_files_need_something_to_predict() -> None:
    text = '[data]\nfiles = "x.csv"\ninputs = ["a"]\n'
    with pytest.raises(ValueError, match="there is nothing to predict; write label"):
        parse_plan(text)
    parse_plan(text + "[preprocessing]\nhorizon = 1\n")
    parse_plan(text + 'target = "b"\n')
    with pytest.raises(ValueError, match="not both"):
        parse_plan(text + 'target = "b"\nlabel = "c"\n')
    with pytest.raises(ValueError, match="classes are of a label"):
        parse_plan(text + 'target = "b"\nclasses = ["c", "d"]\n')


def test_the_fingerprint_is_of_the_settings() -> None:
    one = parse_plan(SMALL)
    same = parse_plan('# a comment\ntitle = "other"\n' + SMALL)
    other = parse_plan(SMALL.replace("units = 10", "units = 11"))
    assert one.fingerprint == same.fingerprint
    assert one.fingerprint != other.fingerprint
    assert fingerprint_of({}) == fingerprint_of({"title": "x"})


@pytest.mark.parametrize(
    ("maps", "fingerprint"),
    [
        (
            """map = "feature_union"
maps = [
    { units = 9, grid = 20, feature_grid = 8 },
    { map = "random_projection", features = 8, grid = 9, of = { map = "hydra", grid = 12 } },
]
[[protections]]
name = "rounded"
bits = 8""",
            "731a6c70e05d00fa",
        ),
        (
            """units = 9
grid = 20
[learn]
algorithm = "candidates"
[[candidates]]
grid = 18
[[candidates]]
feature_grid = 7""",
            "0ab03ad63075c7fa",
        ),
        (
            """map = "feature_union"
maps = [{ map = "hydra", input_range = 8.0 }, { map = "window_statistics", input_range = 5.3 }]""",
            "377f116b4dbbce19",
        ),
    ],
)
def test_bits_were_a_grid_and_ranges_of_inputs_and_plans_of_then_are_the_same(
    maps: str, fingerprint: str
) -> None:
    then = parse_plan(f'[data]\nsource = "wearables"\n[features]\n{maps}\n')
    now = parse_plan(then.text.replace("grid", "bits").replace("input_range", "range"))
    assert (then.features, then.candidates) == (now.features, now.candidates)
    words = str((then.features, then.candidates))
    assert "grid" not in words
    assert "input_range" not in words
    assert then.protections == now.protections
    assert then.fingerprint == now.fingerprint
    assert now.fingerprint.startswith(fingerprint)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="no plan"):
        read_plan(tmp_path / "none.toml")


@pytest.mark.parametrize("name", example_names())
def test_examples_are_plans_and_follow_the_schema(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = example_plan(name)
    if name == "prompt":
        from tests.prompt.tiny import tiny_model

        tiny_model(tmp_path / "stories260k")
        monkeypatch.setenv("CATCHMENT_MODELS", str(tmp_path))
    file = parse_plan(text)
    assert file.title
    jsonschema.validate(tomllib.loads(text), plan_schema())


def test_the_schema_is_a_schema() -> None:
    jsonschema.Draft202012Validator.check_schema(plan_schema())


@pytest.mark.parametrize(
    "table",
    [
        {"data": {"source": "wearables", "user": 3}},
        {"data": {"source": "wearables"}, "runs": {}},
        {"features": {"units": 3}},
        {"data": {"source": "x"}},
        {"data": {"files": "x.csv", "users": 3}},
        {"data": {"source": "wearables"}, "features": {"units": "many"}},
        {"data": {"source": "wearables"}, "prepare": {"gaps": "drop"}},
        {"data": {"source": "wearables"}, "learn": {"algorithm": "ridge", "rigde": 1.0}},
    ],
)
def test_the_schema_refuses_what_the_reader_refuses(table: dict[str, Any]) -> None:
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(table, plan_schema())


def test_the_schema_lists_what_can_be_named() -> None:
    schema: dict[str, Any] = plan_schema()
    algorithms = schema["properties"]["learn"]["oneOf"]
    said = [one["properties"]["algorithm"].get("const") for one in algorithms]
    assert said == [*ALGORITHMS, None]
    maps = schema["properties"]["features"]["anyOf"]
    assert [one["properties"]["map"].get("const") for one in maps] == [*MAPS, None]
    items = schema["properties"]["protections"]["items"]["oneOf"]
    assert [one["properties"]["name"]["const"] for one in items] == list(PROTECTIONS)
    ridge = algorithms[0]["properties"]["ridge"]
    assert "left out of the solution" in ridge["description"]


def test_what_one_plan_loads_twice_is_read_once() -> None:
    plan = parse_plan('[data]\nsource = "wearables"\nusers = 3\nwindows_per_user = 2\n')
    first, second = (plan.load_data().train for _ in range(2))
    for name, source in first.items():
        once, again = (next(iter(data_of(one)())) for one in (source, second[name]))
        assert once is again
