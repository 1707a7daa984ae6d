"""Plan files over a network of functions: the same model as in process, and who is left out why."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pyarrow.csv
import pyarrow.parquet
import pytest
from tests.engine.town import Inhabitant, Town

from catchment.data.scaling import Scaler
from catchment.engine.flower.roster import HELLO, Hello, Order
from catchment.errors import IntegrityError, TooFewClientsError
from catchment.federation.client import REFUSED, refusal
from catchment.federation.plan import Memory
from catchment.federation.runs.read import read_run
from catchment.federation.runs.write import MODEL
from catchment.plans.conductor import run_plan
from catchment.plans.examples import example_plan
from catchment.plans.file import read_plan
from catchment.plans.flower.agreement import Told, agreement, read_identities
from catchment.plans.flower.node import PlanNode
from catchment.plans.flower.scaffold import write_app
from catchment.plans.flower.server import serve_plan
from catchment.privacy.in_the_clear import PlainStatisticsWarning
from catchment.privacy.secure_sum.client_store import FileMemory
from catchment.privacy.secure_sum.keys import new_identity
from catchment.wire import Parts

OWN_FILES = """
[data]
source = "table"
path = "*.csv"
inputs = ["load", "heat"]
horizon = 1
test = 0.2
scaling = "federated"
[reservoir]
units = 10
[features]
washout = 5
[algorithm]
name = "ridge"
ridge = "gcv"
keep_clients = false
"""
WEARABLES = example_plan("wearables_secure").replace('scaling = "client"', 'scaling = "federated"')
SECURE = '[[protections]]\nname = "secure_sum"\nmin_clients = 3\n'
PLAIN = OWN_FILES + "[run]\nmin_clients = 2\n"


@dataclass
class Fleet:
    """Nodes of a plan file, each with a config and a memory of its own, and their server."""

    folder: Path
    plan: Path
    configs: dict[str, dict[str, Any]]
    place: Town = field(default_factory=lambda: Town({}))
    identities: Path | None = None

    def __post_init__(self) -> None:
        for number, (name, config) in enumerate(self.configs.items()):
            self.place.nodes_by_id[number] = self.inhabitant(name, config)

    def inhabitant(self, name: str, config: Mapping[str, Any]) -> Inhabitant:
        memory: Memory = FileMemory(self.folder / "memories" / name)

        def respond(order: Order) -> bytes:
            try:
                node = PlanNode(config, self.plan)
                if order.stage == HELLO:
                    return Hello(node.name, node.stages).to_bytes()
                return node.client(order.stage, order.attachment, memory).answer(order.letter)
            except REFUSED as error:
                return refusal(error)

        return Inhabitant(respond)

    def serve(self, out: str, *, allow_plain: bool = False, expect: int | None = None) -> bytes:
        agreed = agreement(
            read_plan(self.plan), identities=self.identities, allow_plain_statistics=allow_plain
        )
        engine = self.place.engine(expect=expect)
        return serve_plan(agreed, engine, self.folder / out).read_bytes()


def fleet(
    folder: Path,
    text: str,
    configs: dict[str, dict[str, Any]],
    *,
    secret: bool = True,
) -> Fleet:
    plan = folder / "plan.toml"
    plan.write_text(text)
    path = None
    if secret:
        path = folder / "identities.json"
        memories = {name: FileMemory(folder / "memories" / name) for name in configs}
        path.write_text(json.dumps({n: new_identity(memory) for n, memory in memories.items()}))
        for config in configs.values():
            config["identities"] = str(path)
    return Fleet(folder, plan, configs, identities=path)


def write_logs(folder: Path, names: str, n: int = 400) -> None:
    folder.mkdir(exist_ok=True)
    for k, name in enumerate(names):
        rng = np.random.default_rng(k)
        load = np.sin(np.arange(n) / (5 + k)) + 0.1 * rng.normal(size=n)
        rows = "\n".join(f"{a},{b}" for a, b in zip(load, rng.normal(size=n), strict=True))
        (folder / f"{name}.csv").write_text(f"load,heat\n{rows}\n")


def own(folder: Path, names: str, **settings: Any) -> dict[str, dict[str, Any]]:
    write_logs(folder, names)
    return {name: {"name": name, "data": str(folder / f"{name}.csv"), **settings} for name in names}


def node_told(node: PlanNode) -> bytes:
    """Return what a server tells that runs the node's own plan."""
    return Told(agreement(node.file).training.fingerprint()).to_bytes()


def in_process(folder: Path, text: str) -> bytes:
    (folder / "plan.toml").write_text(text)
    run_plan(read_plan(folder / "plan.toml"), folder / "here")
    return (folder / "here" / MODEL).read_bytes()


def test_the_fleet_of_the_example_gives_the_same_file(tmp_path: Path) -> None:
    names = [f"user-{k:03d}" for k in range(4)]
    nodes = fleet(tmp_path, WEARABLES, {name: {"name": name} for name in names})
    there = nodes.serve("there")
    assert there == in_process(tmp_path, WEARABLES)
    run = read_run(tmp_path / "there")
    assert {stage: len(records) for stage, records in run.rounds.items()} == {
        "scaling": 1,
        "training": 1,
        "evaluation": 1,
    }
    assert 0.8 < run.scores[""]["accuracy"] < 1
    assert list(run.scores) == [""]
    assert run.facts["engine"] == "flower"
    here = read_run(tmp_path / "here")
    assert run.scores[""] == here.scores[""]


def test_plasticity_is_a_stage_like_the_others(tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    plastic = '[plasticity]\nname = "fedip"\nrounds = 2\n[features]'
    text = (OWN_FILES + SECURE).replace("[features]", plastic)
    text = text.replace("*.csv", f"{logs}/*.csv")
    nodes = fleet(tmp_path, text, own(logs, "abcd"))
    assert nodes.serve("there") == in_process(tmp_path, text)
    assert len(read_run(tmp_path / "there").rounds["plasticity"]) == 2


def test_a_folder_of_files_is_federated_without_a_line_of_python(tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    text = (OWN_FILES + SECURE).replace("*.csv", f"{logs}/*.csv")
    nodes = fleet(tmp_path, text, own(logs, "abcd"))
    assert nodes.serve("there") == in_process(tmp_path, text)
    assert read_run(tmp_path / "there").scores[""]["NRMSE"] < 1


def test_csv_parquet_and_npz_hold_the_same(tmp_path: Path) -> None:
    configs = own(tmp_path / "logs", "abcd")
    nodes = fleet(tmp_path, OWN_FILES + SECURE, configs)
    first = nodes.serve("csv")
    table = pyarrow.csv.read_csv(tmp_path / "logs" / "b.csv")
    pyarrow.parquet.write_table(table, tmp_path / "logs" / "b.parquet")
    columns = {
        name: np.asarray(pyarrow.csv.read_csv(tmp_path / "logs" / "c.csv")[name])
        for name in table.column_names
    }
    np.savez(tmp_path / "logs" / "c.npz", **columns)  # type: ignore[arg-type]
    configs["b"]["data"] = str(tmp_path / "logs" / "b.parquet")
    configs["c"]["data"] = str(tmp_path / "logs" / "c*.npz")
    assert nodes.serve("mixed") == first


def test_several_files_of_a_node_are_its_sequences(tmp_path: Path) -> None:
    write_logs(tmp_path / "logs", "xyz")
    (tmp_path / "plan.toml").write_text(PLAIN)
    config: dict[str, bool | float | int | str] = {
        "name": "ann",
        "data": str(tmp_path / "logs" / "*.csv"),
        "allow-plain-statistics": True,
    }
    node = PlanNode(config, tmp_path / "plan.toml")
    held = node._held
    assert list(held.train) == ["ann"]
    with pytest.warns(PlainStatisticsWarning):
        client = node.client("scaling", node_told(node), {})
    lengths = [len(s.u) for s in client.data()]
    assert len(lengths) == 3
    assert lengths[0] < 400


def test_plain_statistics_are_refused_unless_both_sides_allow_them(tmp_path: Path) -> None:
    nodes = fleet(tmp_path, PLAIN, own(tmp_path / "logs", "abc"), secret=False)
    with pytest.raises(ValueError, match="the plan has no secure sum"):
        nodes.serve("refused")
    with (
        pytest.warns(PlainStatisticsWarning),
        pytest.raises(TooFewClientsError, match=r"a: the plan has no secure sum"),
    ):
        nodes.serve("one-sided", allow_plain=True)
    for config in nodes.configs.values():
        config["allow-plain-statistics"] = True
    with pytest.warns(PlainStatisticsWarning):
        there = nodes.serve("there", allow_plain=True)
    text = PLAIN.replace("*.csv", f"{tmp_path}/logs/*.csv")
    assert there == in_process(tmp_path, text)


def test_bad_data_another_plan_and_a_missing_key_are_named(tmp_path: Path) -> None:
    configs = own(tmp_path / "logs", "abcdefg")
    nodes = fleet(tmp_path, OWN_FILES + SECURE, configs)
    (tmp_path / "good").mkdir()
    few = own(tmp_path / "logs", "abcd")
    wanted = fleet(tmp_path / "good", OWN_FILES + SECURE, few).serve("good")
    configs["e"]["data"] = str(tmp_path / "logs" / "nothing*.csv")
    other = tmp_path / "other.toml"
    other.write_text((OWN_FILES + SECURE).replace("units = 10", "units = 11"))
    configs["f"]["plan"] = str(other)
    del configs["g"]["identities"]
    assert nodes.serve("there") == wanted
    run = read_run(tmp_path / "there")
    reasons = {r.client: r.reason for r in run.rounds["training"][0].refused}
    assert sorted(reasons) == ["e", "f", "g"]
    assert "no file matches" in reasons["e"]
    assert reasons["f"] == "the server runs another plan than this client agreed to"
    assert "no file of public keys is named" in reasons["g"]


def test_a_run_cut_short_goes_on_and_asks_nobody_twice(tmp_path: Path) -> None:
    names = [f"user-{k:03d}" for k in range(4)]
    nodes = fleet(tmp_path, WEARABLES, {name: {"name": name} for name in names})
    send = nodes.place.send

    def cut(node: int, order: Order, seconds: float) -> str:
        if order.stage == "training" and b"shares" in order.letter:
            raise KeyboardInterrupt
        return send(node, order, seconds)

    nodes.place.send = cut  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        nodes.serve("there")
    nodes.place.send = send  # type: ignore[method-assign]
    nodes.place.sent.clear()
    there = nodes.serve("there")
    stages = [order.stage for _, order in nodes.place.sent]
    assert "scaling" not in stages
    # Keys were given before the cut; shares, upload, consent and unmasking are left.
    assert stages.count("training") == 4 * 4
    assert there == in_process(tmp_path, WEARABLES)
    nodes.place.sent.clear()
    assert nodes.serve("there") == there
    assert nodes.place.sent == []


def test_a_model_that_nobody_can_test_is_kept_all_the_same(tmp_path: Path) -> None:
    text = (OWN_FILES + SECURE).replace("test = 0.2", 'test = 0.2\ntest_of = "clients"')
    nodes = fleet(tmp_path, text, own(tmp_path / "logs", "abc"))
    nodes.serve("there")
    run = read_run(tmp_path / "there")
    assert "0 clients are connected for evaluation" in run.facts["untested"]
    assert run.scores == {}


def test_whole_clients_for_the_test_say_so_themselves(tmp_path: Path) -> None:
    text = (OWN_FILES + SECURE).replace("test = 0.2", 'test = 0.2\ntest_of = "clients"')
    configs = own(tmp_path / "logs", "abcdef")
    for name in "def":
        configs[name]["test"] = True
    nodes = fleet(tmp_path, text, configs)
    nodes.serve("there")
    run = read_run(tmp_path / "there")
    assert run.rounds["training"][0].n_used == 3
    assert run.rounds["evaluation"][0].n_used == 3
    assert run.score_rows[""] == 3 * (399 - 5)


def test_a_node_is_called_as_its_config_its_keys_or_its_place_say(tmp_path: Path) -> None:
    plan = tmp_path / "plan.toml"
    plan.write_text(WEARABLES)
    (tmp_path / "keys").mkdir()
    (tmp_path / "keys" / "public.json").write_text('{"name": "user-002"}')
    assert PlanNode({"name": "ann"}, plan).name == "ann"
    assert PlanNode({"keys": str(tmp_path / "keys")}, plan).name == "user-002"
    assert PlanNode({"partition-id": 3, "num-partitions": 4}, plan).name == "user-003"
    wrong: tuple[tuple[dict[str, Any], str], ...] = (
        ({}, "this node has no name"),
        ({"data": "*.csv", "partition-id": 1}, "this node has no name"),
        ({"partition-id": 4}, "partition-id is 4, the plan's data have 4 clients"),
    )
    for config, reason in wrong:
        with pytest.raises(ValueError, match=reason):
            _ = PlanNode(config, plan).name
    with pytest.raises(ValueError, match="the node config has 'dta'; choose from name, data"):
        PlanNode({"dta": "*.csv"}, plan)


def test_files_of_a_node_need_a_plan_for_files(tmp_path: Path) -> None:
    plan = tmp_path / "plan.toml"
    plan.write_text(WEARABLES)
    with pytest.raises(ValueError, match="this node has files of its own"):
        _ = PlanNode({"name": "a", "data": "*.csv"}, plan).stages
    plan.write_text(PLAIN.replace("test = 0.2", 'test = 0.2\nsplit = "iid"'))
    with pytest.raises(ValueError, match="split is 'iid', which deals all clients' data anew"):
        _ = PlanNode({"name": "a", "data": "*.csv"}, plan).stages


def test_a_client_without_a_part_in_a_stage_says_so(tmp_path: Path) -> None:
    text = example_plan("wearables").replace('scaling = "federated"', 'scaling = "client"')
    (tmp_path / "plan.toml").write_text(text)
    allowed = {"allow-plain-statistics": True}
    everyone = {PlanNode({"partition-id": k}, tmp_path / "plan.toml").name for k in range(16)}
    tests = [
        name
        for name in sorted(everyone)
        if PlanNode({"name": name}, tmp_path / "plan.toml").stages == ("evaluation",)
    ]
    assert len(everyone) == 16
    assert len(tests) == 4
    node = PlanNode({"name": tests[0], **allowed}, tmp_path / "plan.toml")
    with pytest.warns(PlainStatisticsWarning):
        client = node.client("training", node_told(node), {})
    with pytest.raises(ValueError, match=f"{tests[0]} takes no part in training"):
        client.data()


def test_what_nodes_are_told_survives_the_journey() -> None:
    scaler = Scaler(np.array([0.1, 0.2]), np.array([0.3, 1e-300]))
    told = Told.from_bytes(Told("abc", scaler, (np.ones(3), np.zeros(3)), b"\x00model").to_bytes())
    assert told.scaler is not None
    assert told.plasticity is not None
    assert told.scaler.mean.tobytes() == scaler.mean.tobytes()
    assert told.scaler.scale.tobytes() == scaler.scale.tobytes()
    assert told.model == b"\x00model"
    assert told.plan == "abc"
    with pytest.raises(IntegrityError, match="the server sends no model"):
        _ = Told().loaded
    for message in (b"", b"nonsense", Parts("told", {"parts": []}).to_bytes()):
        with pytest.raises(IntegrityError):
            Told.from_bytes(message)


def test_a_stage_that_the_plan_has_not_is_refused(tmp_path: Path) -> None:
    (tmp_path / "plan.toml").write_text(PLAIN)
    agreed = agreement(read_plan(tmp_path / "plan.toml"), allow_plain_statistics=True)
    with pytest.raises(IntegrityError, match="the plan has no stage 'shopping'"):
        agreed.plan("shopping", Told(agreed.training.fingerprint()))
    with pytest.raises(IntegrityError, match="another plan than this client agreed to"):
        agreed.plan("training", Told("0" * 64))


@pytest.mark.parametrize(
    ("text", "reason"),
    [("{", "is not JSON"), ("[]", "not an object of names"), ('{"a": 1}', "not an object")],
)
def test_a_file_of_keys_that_is_none_is_refused(tmp_path: Path, text: str, reason: str) -> None:
    path = tmp_path / "identities.json"
    path.write_text(text)
    with pytest.raises(ValueError, match=reason):
        read_identities(path)
    with pytest.raises(FileNotFoundError, match="no file of public keys"):
        read_identities(tmp_path / "other.json")


def test_an_app_is_written_once_and_holds_the_plan(tmp_path: Path) -> None:
    plan = tmp_path / "mine.toml"
    plan.write_text(OWN_FILES + SECURE)
    files = write_app(tmp_path / "my_app", plan)
    assert files[-1].read_text() == OWN_FILES + SECURE
    assert 'name = "my-app"' in files[0].read_text()
    with pytest.raises(FileExistsError, match="is there already"):
        write_app(tmp_path / "my_app", plan)
    plan.write_text("[data]\nsource = 'nowhere'\n")
    with pytest.raises(ValueError, match="nowhere"):
        write_app(tmp_path / "another", plan)
    assert not (tmp_path / "another").exists()


def test_the_example_is_what_the_command_writes(tmp_path: Path) -> None:
    example = Path(__file__).parents[2] / "examples" / "flower" / "sensors"
    plan = example / "catchment_app" / "plan.toml"
    for path in write_app(tmp_path / "sensors", plan):
        assert path.read_text() == (example / path.relative_to(tmp_path / "sensors")).read_text()
