"""Maps and algorithms of one's own all the way: hidden, forgotten, by command, and on Flower."""

from __future__ import annotations

import hashlib
import json
import math
import shutil
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flwr.app import Context, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.supercore.task_identity import TaskIdentity
from sklearn.neighbors import KNeighborsClassifier

import catchment as ct
from catchment.data import Recording
from catchment.engine import run_locally
from catchment.features import FeatureMap, name_of
from catchment.federation import Limits, Result, read_run
from catchment.federation.runs import unlearn_from_run
from catchment.privacy import Clip, FileMemory, GaussianNoise, Policy, PrivacyLedger
from catchment.readout import accumulate
from catchment_fleet.flower import Terms, client_app, server_app
from catchment_research.learn import ReservoirEnsemble
from examples.own.federated_pca import FederatedPCA
from tests.contracts.maps import CHANNELS, Delays, OwnStatistics
from tests.federation.test_own_algorithm import people, same_axes
from tests.plans.test_flower import fleet, in_process

pytestmark = pytest.mark.slow

NAMES = tuple("abcd")
PACES = {"fast": 1.1, "slow": 0.3}
RAW = ct.Preprocessing(scale="none")


@dataclass(frozen=True)
class Case:
    """A map, as Python and as a plan file have it, and whether its rows are windows' or steps'."""

    made: FeatureMap
    table: str
    pooled: bool

    def clients(self) -> dict[str, list[Recording]]:
        return {name: self.recordings(k) for k, name in enumerate(NAMES)}

    def recordings(self, k: int) -> list[Recording]:
        found = []
        for label, u in waves(k):
            if self.pooled:
                found.append(Recording.labeled(u, label, tuple(PACES)))
            else:
                found.append(Recording(u[:-1], u[1:, :1]))
        return found


def waves(k: int) -> list[tuple[str, np.ndarray[Any, Any]]]:
    rng = np.random.default_rng(k)
    steps = np.arange(30)[:, None]
    return [
        (label, np.sin(pace * steps + rng.uniform(0, 6, CHANNELS)) + 0.2 * rng.normal(size=(30, 3)))
        for _ in range(8)
        for label, pace in PACES.items()
    ]


CASES = {
    "window statistics": Case(
        OwnStatistics(),
        'map = "tests.contracts.maps:OwnStatistics"\nlimit = 10.0',
        pooled=True,
    ),
    "delays": Case(
        Delays(4, np.array([1.0, 0.5, 2.0])),
        'map = "tests.contracts.maps:Delays"\nlags = 4\nweights = [1.0, 0.5, 2.0]',
        pooled=False,
    ),
}


@pytest.fixture(params=CASES)
def case(request: pytest.FixtureRequest) -> Case:
    return CASES[request.param]


def test_hidden_under_secure_aggregation_the_total_is_the_exact_one(case: Case) -> None:
    clients = case.clients()
    described = ct.Pipeline(RAW, case.made)
    secure = ct.SecureAggregation(ct.generate_keys(clients), min_clients=3, rows_per_feature=2)
    hidden = ct.federate(described, clients, protections=[secure])
    each = [accumulate(case.made, held) for held in clients.values()]
    for name in ("gram", "cross", "feature_sum", "target_sum"):
        sent = np.stack([getattr(one, name) for one in each])
        exact = np.apply_along_axis(math.fsum, 0, sent)  # rounded once, as secure aggregation is
        np.testing.assert_allclose(
            getattr(hidden.statistics, name), exact, rtol=2**-52, atol=len(NAMES) * 2**-80
        )
    clear = ct.federate(described, clients, ridge="gcv")
    for held in clients.values():
        ours, theirs = (run.model.outputs([r.u for r in held]) for run in (hidden, clear))
        np.testing.assert_allclose(np.concatenate(ours), np.concatenate(theirs), rtol=1e-6)


def test_a_client_is_forgotten_to_the_bit(case: Case, tmp_path: Path) -> None:
    clients = case.clients()
    described = ct.Pipeline(RAW, case.made)
    run = ct.federate(described, clients, ridge=0.1, out=tmp_path / "run")
    found = unlearn_from_run(tmp_path / "run", "b", run.model)
    rest = {name: held for name, held in clients.items() if name != "b"}
    never = ct.federate(described, rest, ridge=0.1).model
    assert isinstance(found.model, ct.Model)
    np.testing.assert_array_equal(found.model.readout.weights, never.readout.weights)
    assert found.model.features.fingerprint == never.features.fingerprint
    assert found.certificate.remains == ""


def test_noise_is_added_to_what_it_gives(case: Case) -> None:
    clients = case.clients()
    features = case.made
    public = [accumulate(features, case.recordings(k)) for k in (97, 98, 99)]
    noise = GaussianNoise(
        epsilon=50.0, delta=1e-5, clip=Clip.from_public(public), min_clients=4, small_cohort=True
    )
    run = ct.federate(ct.Pipeline(RAW, case.made), clients, protections=[noise], ridge=1e-3)
    assert run.model.features.fingerprint == features.fingerprint


def test_what_only_a_reservoir_can_do_is_refused_by_the_maps_name(case: Case) -> None:
    features = case.made
    with pytest.raises(TypeError, match=f"{name_of(features)} has no reservoir of every client's"):
        ReservoirEnsemble(features=features)  # type: ignore[arg-type]


def write_files(folder: Path) -> None:
    folder.mkdir()
    for k, name in enumerate(NAMES):
        lines = ["window,act,x,y,z"]
        for w, (label, u) in enumerate(waves(k)):
            lines += [f"{w},{label}," + ",".join(f"{v:.6f}" for v in row) for row in u]
        (folder / f"{name}.csv").write_text("\n".join(lines) + "\n")


def plan_text(case: Case, folder: Path, learn: str = "store_per_client = false") -> str:
    target = 'label = "act"\nclasses = ["fast", "slow"]' if case.pooled else ""
    preprocessing = "" if case.pooled else "[preprocessing]\nhorizon = 1\n"
    return f"""
[data]
files = "{folder}/*.csv"
inputs = ["x", "y", "z"]
recording = "window"
test = 0.2
test_of = "recordings"
{target}
{preprocessing}
[features]
{case.table}
[learn]
{learn}
"""


SECURE = '[[protections]]\nname = "secure_aggregation"\nmin_clients = 3\nrows_per_feature = 2.0\n'


def nodes_of(folder: Path) -> dict[str, dict[str, Any]]:
    # Nodes build maps of one's own that their owners name.
    policy = folder.parent / "maps.toml"
    policy.write_text(
        'maps = ["tests.contracts.maps:OwnStatistics", "tests.contracts.maps:Delays"]\n'
    )
    found = {name: {"name": name, "data": str(folder / f"{name}.csv")} for name in NAMES}
    return {name: {**config, "policy": str(policy)} for name, config in found.items()}


def test_on_flower_it_ends_in_the_model_file_of_one_process(case: Case, tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    write_files(logs)
    text = plan_text(case, logs) + SECURE
    there = fleet(tmp_path, text, nodes_of(logs)).serve("there")
    here = in_process(tmp_path, text)
    assert hashlib.sha256(there).hexdigest() == hashlib.sha256(here).hexdigest()
    run = read_run(tmp_path / "there")
    assert run.rounds["training"][0].n_used == len(NAMES)
    assert run.facts["map"] == name_of(case.made)
    kept = ct.load(tmp_path / "models" / "a" / "model.safetensors")
    assert isinstance(kept, ct.Model)
    assert kept.features.fingerprint == case.made.fingerprint


def test_a_node_whose_map_has_another_setting_refuses(tmp_path: Path) -> None:
    case, logs = CASES["window statistics"], tmp_path / "logs"
    write_files(logs)
    text = plan_text(case, logs) + SECURE
    configs = nodes_of(logs)
    other = tmp_path / "other.toml"
    other.write_text(text.replace("limit = 10.0", "limit = 9.0"))
    configs["d"]["plan"] = str(other)
    nodes = fleet(tmp_path, text, configs)
    nodes.serve("there")
    (refused,) = read_run(tmp_path / "there").rounds["training"][0].refused
    assert (refused.client, refused.reason) == (
        "d",
        "the server runs another plan than this client agreed to",
    )


def test_an_algorithm_of_ones_own_on_flower_is_that_of_one_process(tmp_path: Path) -> None:
    case, logs = CASES["window statistics"], tmp_path / "logs"
    write_files(logs)
    learn = 'algorithm = "tests.contracts.own_algorithms:NearestMean"'
    text = plan_text(case, logs, learn) + SECURE
    # Three rows are scored here, which nodes send only if their owners say so.
    maps = 'maps = ["tests.contracts.maps:OwnStatistics"]'
    (tmp_path / "policy.toml").write_text(f"score_rows = 1\n{maps}\n")
    nodes = {
        n: one | {"policy": str(tmp_path / "policy.toml")} for n, one in nodes_of(logs).items()
    }
    there = fleet(tmp_path, text, nodes).serve("there")
    assert there == in_process(tmp_path, text)
    run = read_run(tmp_path / "there")
    assert list(run.rounds) == ["scaling", "training", "delivery", "evaluation"]
    model = ct.load(tmp_path / "there" / "model.safetensors")
    assert isinstance(model, ct.Model)
    everybody = ct.read(logs / "*.csv", label="act", recording="window", inputs=["x", "y", "z"])
    scaled = model.preprocessing.apply([one for held in everybody.values() for one in held])
    rows = np.concatenate(model.features.rows([one.u for one in scaled]))
    means = (model.readout.weights / 2).T
    theirs = KNeighborsClassifier(n_neighbors=1).fit(means, list(model.classes or ())).predict(rows)
    ours = model.predict([one for held in everybody.values() for one in held])
    assert list(ours) == list(theirs)
    assert run.scores[""]["accuracy"] > 0.8


def catchment(folder: Path, *words: str, code: int = 0) -> str:
    """Return what a command says, in a process of its own that finds classes beside the plan."""
    command = [sys.executable, "-m", "catchment.cli", *words]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.fixture(scope="module")
def own_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a map's module, files, a plan that names it, and its run."""
    folder = tmp_path_factory.mktemp("own")
    example = Path(__file__).parents[4] / "examples" / "own" / "window_statistics.py"
    shutil.copy(example, folder)
    write_files(folder / "logs")
    table = 'map = "window_statistics:WindowStatistics"\nchannels = 3'
    text = plan_text(Case(OwnStatistics(), table, pooled=True), Path("logs"), "ridge = 0.1")
    baselines = '["uniform", "most_frequent", "local", "averaging", "centralized"]'
    (folder / "plan.toml").write_text(f"{text}[run]\nbaselines = {baselines}\n")
    (folder / "search.toml").write_text(f"{text}[search]\nleak_rate = [0.1, 1.0]\n")
    said = catchment(folder, "run", "plan.toml")
    assert "catchment predict runs/plan FILES... --use window_statistics:WindowStatistics" in said
    return folder


USE = ("--use", "window_statistics:WindowStatistics")


def test_a_plan_that_names_the_class_is_run_by_command(own_run: Path) -> None:
    assert "is a good plan" in catchment(own_run, "plan", "plan.toml")
    said = catchment(own_run, "predict", "runs/plan", "logs/a.csv", *USE).splitlines()
    assert len(said) == 1 + 16
    scores = json.loads(catchment(own_run, "evaluate", "runs/plan", "logs/a.csv", "--json", *USE))
    assert "accuracy" in json.dumps(scores)
    refused = catchment(own_run, "predict", "runs/plan", "logs/a.csv", code=2)
    assert "window_statistics:WindowStatistics, which is not known here" in refused


def test_its_run_is_explained_reported_and_forgets_a_client(own_run: Path) -> None:
    said = catchment(own_run, "ledger", "runs/plan")
    assert "feature rows as such" in said
    assert "reservoir" not in said
    catchment(own_run, "report", "runs/plan")
    page = (own_run / "runs" / "plan" / "report.html").read_text("utf-8")
    assert "window_statistics:WindowStatistics" in page
    assert "reservoir units" not in page
    said = catchment(own_run, "unlearn", "runs/plan", "b", *USE)
    assert "rows of b are out of the sum" in said


@pytest.mark.parametrize("source", ["plan.toml", "runs/plan"])
def test_its_plan_and_its_run_are_audited(own_run: Path, source: str) -> None:
    said = catchment(own_run, "audit", source, code=1)
    assert "LEAK what a client's targets are" in said
    assert "Not applicable to this map: sequences, windows, plasticity;" in said


def test_commands_for_reservoirs_refuse_it_in_one_sentence(own_run: Path) -> None:
    said = catchment(own_run, "search", "search.toml", code=2).strip()
    assert said.startswith("error: map in [features] is 'window_statistics:WindowStatistics', and")


def test_the_flower_app_of_its_plan_holds_its_code(own_run: Path) -> None:
    catchment(own_run, "flower", "init", "app", "--plan", "plan.toml")
    inside = own_run / "app" / "catchment_app"
    code = (own_run / "window_statistics.py").read_text()
    assert (inside / "window_statistics.py").read_text() == code


@dataclass
class Letters:
    """A Flower grid whose nodes are apps of this process, each with a context of its own."""

    app: ClientApp
    contexts: dict[int, Context]
    replies: dict[str, Message] = field(default_factory=dict)

    def get_node_ids(self) -> list[int]:
        return list(self.contexts)

    def push_messages(self, messages: Iterable[Message]) -> list[str]:
        tickets = []
        for message in messages:
            ticket = f"m{len(self.replies)}"
            message.metadata.__dict__["_message_id"] = ticket
            reply = self.app(message, self.contexts[message.metadata.dst_node_id])
            self.replies[ticket] = reply
            tickets.append(ticket)
        return tickets

    def pull_messages(self, tickets: Iterable[str]) -> list[Message]:
        return [self.replies[ticket] for ticket in tickets if ticket in self.replies]


def test_an_algorithm_that_makes_no_model_runs_as_flower_apps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("_run_id", "_task_id", "_node_id"):  # as Flower does around an app
        monkeypatch.setattr(TaskIdentity, name, 1)
    clients = people()
    keys = ct.generate_keys(clients)
    masking = ct.SecureAggregation(keys, min_clients=3, rows_per_feature=5)
    plan = ct.Plan(algorithm=FederatedPCA(), protections=(masking,))
    found: list[Result[Any, Any]] = []
    app = client_app(plan, lambda config: clients[str(config["name"])])
    contexts = {}
    for number, name in enumerate(clients):
        folder = tmp_path / name
        FileMemory(folder).update(keys.memories[name])
        config: dict[str, Any] = {"name": name, "memory": str(folder)}
        contexts[number] = Context(1, number, config, RecordDict(), {})
    grid: Any = Letters(app, contexts)
    server = server_app(plan, tmp_path / "run", terms=Terms(expect=len(clients)), done=found.append)
    server(grid, Context(1, 0, {}, RecordDict(), {}))
    (result,) = found
    same_axes(result.result, clients)
    here = run_locally(plan, clients)
    for axes in ("mean", "components", "variances"):
        np.testing.assert_array_equal(getattr(result.result, axes), getattr(here.result, axes))


@pytest.mark.filterwarnings("ignore:statistics are not anonymous")
def test_flower_apps_note_what_they_send_in_the_clear(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("_run_id", "_task_id", "_node_id"):  # as Flower does around an app
        monkeypatch.setattr(TaskIdentity, name, 1)
    rng = np.random.default_rng(0)
    clients = {name: [ct.Recording(rng.normal(size=(150, 4)))] for name in ("ann", "ben", "cat")}
    plan = ct.Plan(algorithm=FederatedPCA())
    app = client_app(plan, lambda config: clients[str(config["name"])], allow_plain_statistics=True)
    contexts = {}
    for number, name in enumerate(clients):
        config: dict[str, Any] = {"name": name, "memory": str(tmp_path / name)}
        contexts[number] = Context(1, number, config, RecordDict(), {})
    grid: Any = Letters(app, contexts)
    terms = Terms(expect=len(clients), allow_plain_statistics=True)
    server_app(plan, terms=terms)(grid, Context(1, 0, {}, RecordDict(), {}))
    for name in clients:
        (entry,) = PrivacyLedger(FileMemory(tmp_path / name)).entries()
        assert entry.is_exact
        assert not entry.session
        assert len(entry.data) == 64


@pytest.mark.filterwarnings("ignore:statistics are not anonymous")
def test_flower_apps_note_clear_uploads_and_keep_to_a_policy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The policy of the app holds where the node's owner has none, whose own goes before it."""
    for name in ("_run_id", "_task_id", "_node_id"):
        monkeypatch.setattr(TaskIdentity, name, 1)
    clients = {name: held * 5 for name, held in people().items()}  # rows enough for the clear
    plan = ct.Plan(algorithm=FederatedPCA(), limits=Limits(min_usable=0.0))
    found: list[Result[Any, Any]] = []
    strict = Policy(exact="never", clear=True)
    app = client_app(plan, lambda config: clients[str(config["name"])], policy=strict)
    (tmp_path / "policy.toml").write_text("clear = true\n")
    contexts, (owned, *others) = {}, list(clients)
    for number, name in enumerate(clients):
        config: dict[str, Any] = {"name": name, "memory": str(tmp_path / name)}
        if name == owned:
            config["policy"] = str(tmp_path / "policy.toml")
        contexts[number] = Context(1, number, config, RecordDict(), {})
    grid: Any = Letters(app, contexts)
    terms = Terms(expect=len(clients), allow_plain_statistics=True)
    server_app(plan, terms=terms, done=found.append)(grid, Context(1, 0, {}, RecordDict(), {}))
    refused = {one.client: one.reason for one in found[0].refused}
    assert sorted(refused) == sorted(others)
    assert all('exact = "never"' in reason for reason in refused.values())
    assert len(PrivacyLedger(FileMemory(tmp_path / owned)).entries()) == 1
