"""Every folder has a face: the names that a user may import. What is behind it can be renamed."""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.test_import import HEAVY, loaded_after

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "catchment"

# Changing a line here changes what the library promises: say so in the changelog.
FACES = {
    "data": (
        "ACTIVITIES Cached Clients GapReport Lake LakeClient Prepare RAW Recording Scaler "
        "by_subject contiguous fill_gaps from_frame henon iid label_skew loaders lorenz "
        "mackey_glass narma one_step quantity_skew read read_lake sequences_from_arrays split "
        "synthetic_wearables"
    ),
    "features": (
        "AutoMap Concat DefaultMap DiagonalReservoir Encoder Hydra Layers MiniRocket NVAR "
        "Projected RandomFourier Thinned WindowStatistics WithNorm "
        "EchoState EchoStateMap FeatureMap IntrinsicPlasticity MapDescription Mixture OwnMap "
        "Pipeline Recipe Reservoir Spread as_map echo_state_check effective_spectral_radius "
        "kernel_rank memory_capacity plasticity_of"
    ),
    "readout": (
        "ClassCounts Counts Detector ErrorSums Forecast Gaussian Grid Intervals KnownClasses "
        "Model NormalModel OnlineRidge OpenModel PersonalModels Predictor Readout RidgeChoice "
        "RidgeFactors RidgeStatistics SlidingWindow Unit accumulate accumulate_factors accuracy "
        "bayesian_readout choose_by_blocks choose_by_factor_blocks choose_by_gcv "
        "conformal_quantile conformal_readout forecast_direct forecasts horizon_targets "
        "load_factors load_statistics log_edges nrmse save_factors save_statistics train "
    ),
    "federation": (
        "Algorithm BLOCK ByRound Course Data Engine FactorUpload Float32 Learner Limits Needs Plan "
        "Protection Record Result RoundedUpload Rows SmallestUpload Store Turn as_algorithm "
        "explain messages_of read_run"
    ),
    "federation.learn": (
        "Adagrad Adam AlignedRidge BalancedRidge Candidates Certificate ConjugateGradients "
        "DeepRidge Ensemble FactoredRidge FederatedNormal FederatedPlasticity FederatedRidge "
        "FederatedScaling GradientAveraging Mean MomentPlasticity Momentum PersonalIncrements "
        "PersonalReadouts ReadoutAveraging ReservoirEnsemble SHARES SelectedRidge StackedEnsemble "
        "Stacking UnknownThreshold Yogi cluster_clients cluster_sums group_of join joint_features "
        "mixed personalise retired retired_by_class towards unlearn unlearn_normal unlearn_rows "
    ),
    "federation.measure": (
        "Calibration Comparison Drift Evaluation Flag Guess InfluenceCap LocalReadouts Outcome "
        "RowsFlag PersonalEvaluation Reason RoundScores Row Score Scores autoregression drifts "
        "mean_target round_scores"
    ),
    "privacy": (
        "Budget Clip FileMemory GaussianNoise Identities Journal PerSequence "
        "PlainStatisticsWarning Policy PromptNoise Release Releases SecureSum epsilon_spent "
        "forget_rounds make_identities networked new_identity"
    ),
    "privacy.audit": "Finding Outcome Report Setting audit",
    "engine": (
        "Deadline LocalEngine Processes centralised compare guess local_only run_locally trained"
    ),
    "engine.device": "Device DeviceHello",
    "engine.flower": "FlowerEngine client_app fit_simulated server_app",
    "engine.ray": "RayEngine RayWorkers ridge_statistics",
    "export": "Agreement CCode DevicePlan OnnxFile c_code to_c to_device to_onnx",
    "export.device": "TrainingDevice device_of sensor_bytes task_of to_device",
    "interop": "from_reservoirpy model_from_reservoirpy",
    "partial": (
        "Dropout Examples FederatedTraining FollowTheLeader Freeze LocalSteps Maker NetworkModel "
        "PartialNetwork RecordingTraining Schedule Share schedule_epsilon suggest_freeze "
        "tree_epsilon"
    ),
    "prompt": (
        "Answers Controlled EdgeController Example FrozenLM LanguageServer Projection PromptModel "
        "PromptTraining Prompter RecordingPrompts RemoteServer SurrogateLM TransformersLM "
        "closed_form_start find_model label_targets ridge_data serve values_of"
    ),
    "plans": (
        "Check Finished PlanFile Verification example_names example_plan how_served parse_plan "
        "plan_schema read_plan run_plan verify_run"
    ),
    "plans.flower": "client_of server_of simulate_plan write_app",
    "report": "plots write_report write_served_page",
    "search": "PlasticitySpace SearchResult SearchSettings Space Trial search search_plan",
    "watch": "Snapshot log_run look watching",
}
# Single files, and packages that say in full what they hold.
MODULES = {
    "catchment",
    "catchment.arrays",
    "catchment_lab.datasets",
    "catchment.errors",
    "catchment.interop.aeon",
    "catchment.interop.sktime",
    "catchment.parallel",
    "catchment.sklearn",
    "catchment.structure",
    "catchment.verbs",
    "catchment.wire",
}
PUBLIC = MODULES | {f"catchment.{name}" for name in FACES}
LANGUAGES = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("name", FACES)
def test_a_face_has_the_recorded_names_and_all_of_them_load(name: str) -> None:
    module = importlib.import_module(f"catchment.{name}")
    assert " ".join(sorted(module.__all__)) == " ".join(sorted(FACES[name].split()))
    assert module.__doc__
    for public in module.__all__:
        assert getattr(module, public) is not None
    assert dir(module) == sorted(module.__all__)
    with pytest.raises(AttributeError, match="has no attribute 'Nothing'"):
        module.Nothing  # noqa: B018


@pytest.mark.parametrize("name", FACES)
def test_type_checkers_see_every_name_of_a_face(name: str) -> None:
    text = PACKAGE.joinpath(*name.split("."), "__init__.py").read_text(encoding="utf-8")
    seen = [
        alias.asname
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
        if alias.asname == alias.name
    ]
    assert sorted(map(str, seen)) == sorted(FACES[name].split())


@pytest.mark.parametrize("name", FACES)
def test_no_public_name_is_hidden_by_a_module_of_that_name(name: str) -> None:
    folder = PACKAGE.joinpath(*name.split("."))
    modules = {path.stem for path in folder.iterdir() if not path.name.startswith("_")}
    face = importlib.import_module(f"catchment.{name}")
    hidden = modules & set(face.__all__)
    shown = {public for public in hidden if getattr(face, public).__name__.startswith("catchment.")}
    assert hidden == shown


def test_faces_load_nothing_until_a_name_is_asked_for() -> None:
    light = [name for name in FACES if name not in ("partial", "engine.flower", "plans.flower")]
    loaded = loaded_after("import " + ", ".join(f"catchment.{name}" for name in light))
    assert sorted(loaded & set(HEAVY)) == []
    assert "catchment.readout.statistics" not in loaded


def shown_code() -> Iterator[tuple[str, str]]:
    """Yield every piece of Python that users are shown, with the place where it stands."""
    for page in [*(ROOT / "docs").rglob("*.md"), ROOT / "README.md"]:
        if "_build" not in page.parts:
            for block in LANGUAGES.findall(page.read_text(encoding="utf-8")):
                yield str(page.relative_to(ROOT)), block
    for script in [*(ROOT / "examples").rglob("*.py"), *(ROOT / "docs").glob("*.py")]:
        yield str(script.relative_to(ROOT)), script.read_text(encoding="utf-8")


def imported_modules(code: str) -> Iterator[str]:
    """Yield the module of each import."""
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            yield node.module


def test_users_are_shown_only_what_has_a_face() -> None:
    behind = {
        (place, module)
        for place, code in shown_code()
        for module in imported_modules(code)
        if module.split(".")[0] == "catchment" and module not in PUBLIC
    }
    assert sorted(behind) == []


def test_the_reference_follows_the_faces() -> None:
    pages = [path.read_text(encoding="utf-8") for path in (ROOT / "docs" / "api").glob("*.md")]
    text = "\n".join(pages)
    documented = set(re.findall(r"auto(?:class|function|data|exception):: ([\w.]+)", text))
    promised = {
        f"catchment.{face}.{name}"
        for face, names in FACES.items()
        for name in names.split()
        if f"catchment.{face}.{name}" not in PUBLIC and name != "plots"
    }
    assert sorted(promised - documented) == []
    modules = {name.rpartition(".")[0] for name in documented}
    assert sorted(modules - PUBLIC) == []
