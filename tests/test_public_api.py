"""Every folder has a face: the names that a user may import. What is behind it can be renamed."""

from __future__ import annotations

import ast
import importlib
import inspect
import json
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from catchment.errors import MissingExtraError
from tests.test_import import HEAVY, loaded_after
from tools.faces import faces, read

ROOT = Path(__file__).parents[1]

# Changing a line here changes what the library promises: say so in the changelog.
FACES = {
    "catchment": (
        "AutoMap Clip FeatureUnion DefaultMap DiagonalReservoir EchoState Evaluation "
        "FederatedRidge GaussianNoise Hydra Limits LogUniform MiniRocket MixedActivation Model "
        "NVAR Pipeline Plan Preprocessing RandomProjection RAW RandomFourierFeatures Readout "
        "Recording Reservoir RidgeStatistics Run Scores SecureAggregation Uniform "
        "WindowStatistics AppendNorm __version__ calibrate combine compare "
        "contribute evaluate federate fit "
        "add_clients load generate_keys read remove_class save split reject_unknown"
    ),
    "catchment.cli": "app main",
    "catchment.data": (
        "ACTIVITIES Cached Clients Preprocessing RAW Recording Scaler contiguous "
        "from_frame iid label_skew mackey_glass narma "
        "read split synthetic_wearables"
    ),
    "catchment.engine": "LocalEngine centralized compare local_only run_locally",
    "catchment.features": (
        "AutoMap FeatureUnion DefaultMap DiagonalReservoir EchoState FeatureMap "
        "Hydra Linspace LogUniform LongTail MiniRocket MixedActivation NVAR Pipeline "
        "RandomProjection RandomFourierFeatures Reservoir Uniform WindowStatistics AppendNorm"
    ),
    "catchment.federation": (
        "Algorithm BLOCK ByRound Data Engine Limits Masking Requirements Plan Protection "
        "Record Result Rows LowRankUpload RunFolder RoundContext Workflow explain messages_of "
        "read_run"
    ),
    "catchment.federation.learn": (
        "Candidates Certificate FederatedAnomalyDetector FederatedRidge "
        "FederatedScaling FederatedYuleWalker PersonalReadouts ReadoutAveraging "
        "UnknownThreshold group_of own_readout state_without_class "
        "towards unlearn unlearn_rows"
    ),
    "catchment.federation.measure": (
        "Calibration Comparison Drift Evaluation Flag Dummy Outcome "
        "RoundScores Row RowsFlag Score Scores autoregression drifts "
        "constant_baseline round_scores"
    ),
    "catchment.plans": (
        "AwaitedError Combined Contribution assist combine contribute kit Check Finished "
        "PlanFile Verification example_names example_plan parse_plan plan_schema "
        "read_plan run_plan verify_run"
    ),
    "catchment.privacy": (
        "Helper Budget Clip FileMemory GaussianNoise Identities Journal RecordLevel "
        "PlainStatisticsWarning Policy LedgerEntry PrivacyLedger SecureAggregation "
        "epsilon_spent forget_rounds generate_keys networked new_helper new_identity"
    ),
    "catchment.readout": (
        "Autocovariances autocovariances ClassCounts Counts Detector ErrorSums Forecast LDA "
        "FixedPoint Intervals KnownClasses Model "
        "MahalanobisDetector OnlineAdaptation OpenSetModel PersonalModels Predictor "
        "Readout RidgeChoice RidgeStatistics CosineHead accumulate accuracy choose_by_blocks "
        "choose_by_gcv forecasts log_edges nrmse "
        "train SelfTraining self_train"
    ),
    "catchment.report": "write_report",
    "catchment.wire": (
        "ANY_FLOAT CLIENTS COUNTED Fact GATHERED Kind LATER Measured NOTHING NOT_NEGATIVE "
        "POOLED Message REMARK ROWS SAME SIGNED Shape Structure Summable Triangle WEIGHT "
        "digest equal is_whole join kind_of marked measured places_of plain_text "
        "plus deserialize split serialize"
    ),
    "catchment_edge": (
        "AdaptCode CCode EdgeClient Encoder DeviceHello DevicePlan OnnxFile adapt_code c_code "
        "lags_c_code to_c to_device to_onnx"
    ),
    "catchment_edge.client": "EdgeClient DeviceHello",
    "catchment_edge.training": "TrainingDevice device_of sensor_bytes task_of to_device",
    "catchment_fleet": "read_parquet",
    "catchment_fleet.apps": "client_of server_of simulate_plan write_app",
    "catchment_fleet.flower": "FlowerEngine client_app fit_simulated server_app",
    "catchment_fleet.parquet": (
        "ParquetClients ParquetClient find_parquet read_parquet schemas_of slow_parts"
    ),
    "catchment_fleet.ray": "RayEngine RayWorkers ridge_statistics",
    "catchment_gpu.readout": "device_rows outputs_on statistics_of_each statistics_on",
    "catchment_lab": "echo_state_check effective_spectral_radius kernel_rank memory_capacity",
    "catchment_lab.audit": "Finding Outcome Report Setting audit",
    "catchment_lab.datasets": "Dataset load load_whole pack unpack",
    "catchment_lab.diagnose": (
        "how_served keep_worst served_in_words served_section write_served_page"
    ),
    "catchment_lab.plots": "reservoir_graph spectrum states",
    "catchment_lab.search": (
        "PlasticitySpace SearchResult SearchSettings Space Trial search search_plan"
    ),
    "catchment_lab.watch": "Snapshot look watching",
    "catchment_research": (
        "ACTIVATIONS DenseReservoir SpikingReservoir StochasticQuantization "
        "adapt_weights from_esnfed from_reservoirpy graph_metrics known_series "
        "model_from_reservoirpy noiseless predict_with_feedback with_feedback"
    ),
    "catchment_research.learn": (
        "Adagrad Adam AlignedRidge BalancedRidge ConjugateGradients Ensemble GradientAveraging "
        "Mean Momentum ReservoirEnsemble ServerOptimizer StackedEnsemble Stacking Yogi "
        "among_by_class joint_features"
    ),
    "catchment_research.partial": (
        "Dropout Examples FederatedTraining FollowTheLeader Freeze LocalSteps Maker NetworkModel "
        "PartialNetwork RecordingTraining Schedule Share network_model_of schedule_epsilon "
        "suggest_freeze tree_epsilon"
    ),
    "catchment_research.plasticity": (
        "FederatedPlasticity IntrinsicPlasticity MomentPlasticity plasticity_of"
    ),
    "catchment_research.prompt": (
        "Answers Controlled EdgeController Example FrozenLM LanguageServer Projection PromptModel "
        "PromptNoise PromptTraining Prompter RecordingPrompts SurrogateLM TransformersLM "
        "closed_form_start find_model label_targets prompt_model_of"
    ),
}
# Single files, and folders that say in full what they hold.
MODULES = {
    "catchment.arrays",
    "catchment.errors",
    "catchment.parallel",
    "catchment.plugins",
    "catchment.sklearn",
    "catchment.verbs",
    "catchment_lab.interop.aeon",
    "catchment_lab.interop.sktime",
}
PUBLIC = MODULES | set(FACES)
OURS = {path.name.replace("-", "_") for path in ROOT.glob("packages/*")}
PYTHON = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.fixture(autouse=True)
def _in_the_clone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)  # where tools.faces looks


def test_the_stubs_promise_the_recorded_names() -> None:
    promised = {
        face: sorted(names)
        for face, stub in faces().items()
        if (names := read(stub.read_text(encoding="utf-8"))[0])
    }
    assert promised == {face: sorted(names.split()) for face, names in FACES.items()}


def test_every_face_loads_all_of_its_names() -> None:
    for face, stub in faces().items():
        module = importlib.import_module(face)
        public, homes = read(stub.read_text(encoding="utf-8"))
        assert sorted(module.__all__) == sorted(public), face
        assert dir(module) == sorted(public), face
        assert module.__doc__, face
        for name in public:
            assert getattr(module, name) is not None, f"{face}.{name}"
        for name in sorted(set(homes) - set(public)):
            with suppress(MissingExtraError):  # aeon and sktime, which are tested apart
                assert getattr(module, name) is not None, f"{face}.{name}"
        with pytest.raises(AttributeError, match="has no attribute 'Nothing'"):
            module.Nothing  # noqa: B018


def test_no_public_name_is_hidden_by_a_module_of_that_name() -> None:
    for face, stub in faces().items():
        modules = {path.stem for path in stub.parent.iterdir() if not path.name.startswith("_")}
        module = importlib.import_module(face)
        for name in modules & set(module.__all__):
            # Once the module is imported it is an attribute, and would stand before the name.
            importlib.import_module(f"{face}.{name}")
            assert getattr(module, name).__name__ == name, f"{face}.{name}"


def test_faces_load_nothing_until_a_name_is_asked_for() -> None:
    loaded = loaded_after("import " + ", ".join(FACES))
    assert sorted(loaded & set(HEAVY)) == []
    assert "catchment.readout.statistics" not in loaded


def shown_code() -> Iterator[tuple[str, str]]:
    """Yield every piece of Python that users are shown, with the place where it stands."""
    readmes = [ROOT / "README.md", *ROOT.glob("packages/*/README.md")]
    for page in [*(ROOT / "docs").rglob("*.md"), *readmes]:
        if "_build" not in page.parts:
            for block in PYTHON.findall(page.read_text(encoding="utf-8")):
                yield str(page.relative_to(ROOT)), block
    for notebook in (ROOT / "docs" / "notebooks").glob("*.ipynb"):
        for cell in json.loads(notebook.read_text(encoding="utf-8"))["cells"]:
            if cell["cell_type"] == "code":
                lines = [line for line in cell["source"] if not line.startswith("%")]
                if not cell["source"][0].startswith("%%"):
                    yield str(notebook.relative_to(ROOT)), "".join(lines)
    for script in [*(ROOT / "examples").rglob("*.py"), *(ROOT / "docs").glob("*.py")]:
        yield str(script.relative_to(ROOT)), script.read_text(encoding="utf-8")


def imported(code: str) -> Iterator[tuple[str, str]]:
    """Yield the module of each import, and the name that is taken from it, if any."""
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Import):
            yield from ((alias.name, "") for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            yield from ((node.module, alias.name) for alias in node.names)


def test_users_are_shown_only_what_has_a_face() -> None:
    behind = {
        (place, module, name)
        for place, code in shown_code()
        for module, name in imported(code)
        if module.split(".")[0] in OURS
        and f"{module}.{name}" not in PUBLIC
        and (module not in PUBLIC or (module in FACES and name not in {"", *FACES[module].split()}))
    }
    assert sorted(behind) == []


def test_the_reference_follows_the_faces() -> None:
    pages = [path.read_text(encoding="utf-8") for path in (ROOT / "docs" / "api").glob("*.md")]
    documented = set(
        re.findall(
            r"(?:auto(?:class|function|data|exception)|py:data):: ([\w.]+)", "\n".join(pages)
        )
    )
    # What a package's own name has besides its folders is documented with these.
    by_package = {(one.split(".")[0], one.rpartition(".")[2]) for one in documented}
    missing = [
        f"{face}.{name}"
        for face, names in FACES.items()
        for name in names.split()
        if f"{face}.{name}" not in documented
        and not ("." not in face and (face, name) in by_package)
        and (face, name) not in UNDOCUMENTED
    ]
    assert missing == []
    assert sorted({name.rpartition(".")[0] for name in documented} - PUBLIC) == []


def test_every_directive_of_the_reference_names_what_is_there() -> None:
    kinds: dict[str, Callable[[object], bool]] = {
        "class": inspect.isclass,
        "exception": inspect.isclass,
        "function": inspect.isroutine,
        "data": lambda found: found is not None,
        "module": inspect.ismodule,
    }
    n_found = 0
    for page in sorted((ROOT / "docs" / "api").glob("*.md")):
        for block in re.findall(r"```{eval-rst}\n(.*?)```", page.read_text("utf-8"), re.DOTALL):
            above = ""
            for line in block.splitlines():
                if re.match(r" +:[\w-]+:(\s|$)", line):
                    belongs = above.startswith(("..", "   :"))
                    assert belongs, f"{page.name}: {line.strip()} belongs to no directive"
                above = line
            for kind, name, options in AUTO.findall(block):
                found = resolved(name)
                assert kinds[kind](found), f"{page.name}: {name} is no {kind}"
                for member in re.findall(r":members: (.+)", options):
                    missing = [one for one in member.split(", ") if not hasattr(found, one)]
                    assert missing == [], f"{page.name}: {name} has none of {missing}"
                n_found += 1
    assert n_found > 200


AUTO = re.compile(r"^\.\. auto(\w+):: ([\w.]+)\n((?:   :.*\n)*)", re.MULTILINE)


def resolved(name: str) -> object:
    """Return what a full name stands for: a module, or what one has."""
    with suppress(ModuleNotFoundError):
        return importlib.import_module(name)
    module, _, last = name.rpartition(".")
    return getattr(importlib.import_module(module), last, None)


# The command line has a page of its own, without its Python.
UNDOCUMENTED = {("catchment", "__version__"), ("catchment.cli", "app"), ("catchment.cli", "main")}
