"""Plan files over a network of functions: the same model as in process, and who is left out why."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pyarrow.csv
import pyarrow.parquet
import pytest
from flwr.common.serde import recorddict_to_proto

from catchment import load
from catchment.data import ACTIVITIES, RAW, Preprocessing, Scaler
from catchment.errors import IntegrityError, TooFewClientsError
from catchment.features import EchoState
from catchment.features.echo_state import common_radius
from catchment.features.echo_state import reservoir as build
from catchment.federation import (
    REFUSED,
    Memory,
    Plan,
    Request,
    RoundContext,
    StageInputs,
    Workflow,
    read_run,
    refusal,
)
from catchment.federation.runs import MODEL
from catchment.plans import example_plan, read_plan, run_plan
from catchment.privacy import FileMemory, PlainStatisticsWarning, new_identity
from catchment.readout import Model
from catchment.wire import NOTHING, Message
from catchment_fleet.apps import ModelFolder, PlanNode, read_identities, serve_plan, write_app
from catchment_fleet.apps.agreement import agreement
from catchment_fleet.flower import HELLO, Hello, Order, packed, packed_order
from tests.engine.town import Inhabitant, Town

OWN_FILES = """
[data]
files = "*.csv"
inputs = ["load", "heat"]
test = 0.2
[preprocessing]
horizon = 1
[features]
units = 10
washout = 5
[learn]
ridge = "gcv"
store_per_client = false
"""
WEARABLES = example_plan("wearables_secure").replace('scale = "own"', 'scale = "federated"')
SECURE = '[[protections]]\nname = "secure_aggregation"\nmin_clients = 3\n'
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
            config.setdefault("model", str(self.folder / "models" / name))
            self.place.nodes_by_id[number] = self.inhabitant(name, config)

    def inhabitant(self, name: str, config: Mapping[str, Any]) -> Inhabitant:
        memory: Memory = FileMemory(self.folder / "memories" / name)

        def respond(order: Order) -> bytes:
            try:
                node = PlanNode(config, self.plan)
                if order.stage == HELLO:
                    return Hello(node.name, node.stages).to_bytes()
                return node.client(order.stage, order.request, memory).answer(order.request)
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


def raw_request(plan: Workflow, /, **changes: Any) -> bytes:
    """Return a request of a server that runs the node's own plan."""
    known = replace(plan.start(), **changes)
    return Request("", RoundContext(0, ()), "update", NOTHING, known.parts()).to_bytes()


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
        "delivery": 1,
        "evaluation": 1,
    }
    assert 0.8 < run.scores[""]["accuracy"] < 1
    assert list(run.scores) == [""]
    assert run.facts["engine"] == "flower"
    here = read_run(tmp_path / "here")
    assert run.scores[""] == here.scores[""]


def test_every_node_adapts_the_model_it_was_given_and_scores_both(tmp_path: Path) -> None:
    text = WEARABLES + "\n[run]\nadapt = true\n"
    nodes = fleet(tmp_path, text, {f"user-{k:03d}": {"name": f"user-{k:03d}"} for k in range(4)})
    assert nodes.serve("there") == in_process(tmp_path, text)
    there, here = (read_run(tmp_path / name) for name in ("there", "here"))
    # The sum of all nodes says how many lost, and not who.
    gain, lost = here.facts["adapted"].split("; ")
    assert there.facts["adapted"] == f"{gain}; {lost.split()[0]} lose more than one"
    assert there.comparison is not None
    assert "adapted, no labels" in {row.name for row in there.comparison}


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
    # Other files are other data to a node's ledger; their owners know better.
    (tmp_path / "policy.toml").write_text("changed_data = true\n")
    for name in "bc":
        configs[name]["policy"] = str(tmp_path / "policy.toml")
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
        client = node.client("scaling", raw_request(node.agreed.workflow), {})
    assert callable(client.data)
    lengths = [len(s.u) for s in client.data()]
    assert len(lengths) == 3
    assert lengths[0] < 400


def test_plain_statistics_are_refused_unless_both_sides_allow_them(tmp_path: Path) -> None:
    nodes = fleet(tmp_path, PLAIN, own(tmp_path / "logs", "abc"), secret=False)
    with pytest.raises(ValueError, match="the plan has no secure aggregation"):
        nodes.serve("refused")
    with (
        pytest.warns(PlainStatisticsWarning),
        pytest.raises(TooFewClientsError, match=r"a: the plan has no secure aggregation"),
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
    assert reasons["e"].endswith("do not fit the plan; the log of the node says why")
    assert reasons["f"] == "the server runs another plan than this client agreed to"
    assert "no file of public keys is named" in reasons["g"]


def test_a_run_cut_short_goes_on_and_asks_nobody_twice(tmp_path: Path) -> None:
    names = [f"user-{k:03d}" for k in range(4)]
    nodes = fleet(tmp_path, WEARABLES, {name: {"name": name} for name in names})
    send = nodes.place.send

    def cut(node: int, order: Order, seconds: float) -> str:
        if order.stage == "training" and b"shares" in order.request:
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
    # Keys were given before the cut; shares, boxes, upload, consent and unmasking are left.
    assert stages.count("training") == 5 * 4
    assert stages.count("delivery") == 4
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
    assert run.score_rows[""] == 3 * (400 - 5 - 1)


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
    with pytest.raises(ValueError, match="a client has files of its own"):
        _ = PlanNode({"name": "a", "data": "*.csv"}, plan).stages
    plan.write_text(PLAIN.replace("test = 0.2", 'test = 0.2\nsplit = "iid"'))
    with pytest.raises(ValueError, match="split is 'iid', which deals all clients' data anew"):
        _ = PlanNode({"name": "a", "data": "*.csv"}, plan).stages


def test_a_client_without_a_part_in_a_stage_says_so(tmp_path: Path) -> None:
    text = example_plan("wearables").replace('scale = "federated"', 'scale = "own"')
    (tmp_path / "plan.toml").write_text(text)
    allowed = {"allow-plain-statistics": True}
    everyone = {PlanNode({"partition-id": k}, tmp_path / "plan.toml").name for k in range(16)}
    tests = [
        name
        for name in sorted(everyone)
        if PlanNode({"name": name}, tmp_path / "plan.toml").stages == ("delivery", "evaluation")
    ]
    assert len(everyone) == 16
    assert len(tests) == 4
    node = PlanNode({"name": tests[0], **allowed}, tmp_path / "plan.toml")
    with pytest.warns(PlainStatisticsWarning):
        client = node.client("training", raw_request(node.agreed.workflow), {})
    assert callable(client.data)
    with pytest.raises(ValueError, match=f"{tests[0]} takes no part in training"):
        client.data()


def test_what_is_known_survives_the_journey() -> None:
    scale = Scaler(np.array([0.1, 0.2]), np.array([0.3, 1e-7]))
    maps = (EchoState(8, leak_rate=0.3).build(2, per_step=True),)
    sent = StageInputs(maps, Preprocessing(scale=scale), "abc", "def").parts().to_bytes()
    known = StageInputs.from_message(Message.from_bytes(sent))
    assert known.preprocessing is not None
    assert isinstance(known.preprocessing.scale, Scaler)
    assert known.preprocessing.scale.mean.tobytes() == scale.mean.tobytes()
    assert known.preprocessing.scale.scale.tobytes() == scale.scale.tobytes()
    assert [one.fingerprint for one in known.maps] == [one.fingerprint for one in maps]
    assert (known.workflow, known.model) == ("abc", "def")
    for parts in (Message("known", {"parts": []}), Message("nonsense"), NOTHING):
        with pytest.raises(IntegrityError):
            StageInputs.from_message(parts)


def test_what_a_server_may_send_is_what_the_plan_says_but_for_fitted_numbers(
    tmp_path: Path,
) -> None:
    (tmp_path / "plan.toml").write_text(PLAIN)
    agreed = agreement(read_plan(tmp_path / "plan.toml"), allow_plain_statistics=True)
    workflow, place = agreed.workflow, ModelFolder(tmp_path)
    fitted = replace(workflow.preprocessing, scale=Scaler(np.zeros(2), np.ones(2)))

    def plan(stage: str, **changes: Any) -> Plan[Any, Any, Any]:
        return agreed.plan(stage, raw_request(workflow, **changes), "a", place)

    with pytest.warns(PlainStatisticsWarning):
        first = plan("scaling")
    with pytest.warns(PlainStatisticsWarning):
        second = plan("training", preprocessing=fitted)
    assert first.preprocessing == RAW
    assert second.preprocessing.fingerprint == fitted.fingerprint
    with pytest.raises(IntegrityError, match="the plan has no stage 'shopping'"):
        plan("shopping")
    with pytest.raises(IntegrityError, match="no fitted one came"):
        plan("training")
    other = EchoState(10, washout=5, leak_rate=0.5).build(2, per_step=True)
    (mine,) = workflow.start().maps
    assert isinstance(mine, EchoState)
    changed = mine.reservoir.with_plasticity(np.ones(10), np.ones(10))
    wrong: tuple[dict[str, Any], ...] = (
        {"workflow": "0" * 64},
        {"maps": (other,)},
        {"maps": (mine.reading(changed),)},
        {"maps": (replace(mine, washout=4),)},
        {"maps": ()},
        {"preprocessing": replace(fitted, gaps="interpolate")},
        {"preprocessing": replace(fitted, scale="own")},
    )
    for changes in wrong:
        with pytest.raises(IntegrityError, match="another plan than this client agreed to"):
            plan("training", **{"preprocessing": fitted, **changes})


def test_nobody_sees_all_files_so_the_plan_names_what_clients_share(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("x,what\n1.0,sit\n2.0,sit\n")
    (tmp_path / "b.csv").write_text("x,what\n1.0,walk\n2.0,walk\n")
    plan = tmp_path / "plan.toml"
    plan.write_text('[data]\nfiles = "*.csv"\nlabel = "what"\n')
    pasted = r'to paste: inputs = \["x"\], classes = \["sit", "walk"\]'
    with pytest.raises(ValueError, match=pasted):
        agreement(read_plan(plan))
    plan.write_text('[data]\nfiles = "/nowhere/*.csv"\nlabel = "what"\ninputs = ["x"]\n')
    with pytest.raises(ValueError, match="nobody sees all clients"):
        agreement(read_plan(plan))


def test_no_node_solves_an_eigenvalue(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = [f"user-{k:03d}" for k in range(4)]
    nodes = fleet(tmp_path, WEARABLES, {name: {"name": name} for name in names})
    build._found.cache_clear()
    at_node = False
    solve = common_radius

    def guarded(*args: Any, **settings: Any) -> Any:
        assert not at_node, "a node solves an eigenvalue"
        return solve(*args, **settings)

    monkeypatch.setattr(build, "common_radius", guarded)
    for inhabitant in nodes.place.nodes_by_id.values():
        inner = inhabitant.respond

        def respond(order: Order, inner: Any = inner) -> bytes:
            nonlocal at_node
            at_node = True
            build._found.cache_clear()
            try:
                answer: bytes = inner(order)
                return answer
            finally:
                at_node = False

        inhabitant.respond = respond
    nodes.serve("there")
    assert read_run(tmp_path / "there").rounds["training"][0].n_used == 4


def test_every_node_keeps_the_model_and_the_test_sends_none(tmp_path: Path) -> None:
    names = [f"user-{k:03d}" for k in range(4)]
    nodes = fleet(tmp_path, WEARABLES, {name: {"name": name} for name in names})
    content = nodes.serve("there")
    run = read_run(tmp_path / "there")
    for name in names:
        folder = tmp_path / "models" / name
        assert (folder / MODEL).read_bytes() == content
        about = json.loads((folder / "model.json").read_text())
        assert about["sha256"] == hashlib.sha256(content).hexdigest()
        assert about["plan"] == run.facts["course"]
        assert about["run"] == f"there {run.facts['started']}"
    (record,) = run.rounds["delivery"]
    assert (record.n_asked, record.n_used) == (4, 4)
    assert record.bytes_down > 4 * len(content)
    assert run.rounds["evaluation"][0].bytes_down < 5 * 4 * len(content)
    assert load(tmp_path / "models" / names[0] / MODEL).classes == ACTIVITIES


def test_a_node_without_the_model_is_not_tested(tmp_path: Path) -> None:
    nodes = fleet(tmp_path, PLAIN, own(tmp_path / "logs", "abc"), secret=False)
    for config in nodes.configs.values():
        config["allow-plain-statistics"] = True
    send = nodes.place.send

    def losing(node: int, order: Order, seconds: float) -> str:
        if order.stage == "evaluation":
            (tmp_path / "models" / "b" / MODEL).write_bytes(b"something else")
        return send(node, order, seconds)

    nodes.place.send = losing  # type: ignore[method-assign]
    with pytest.warns(PlainStatisticsWarning):
        nodes.serve("there", allow_plain=True)
    (record,) = read_run(tmp_path / "there").rounds["evaluation"]
    assert [(r.client, r.reason) for r in record.refused] == [
        ("b", "this client has not been given the model that is to be tested")
    ]


def test_a_node_keeps_its_model_beside_its_keys_or_in_flowers_home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = tmp_path / "plan.toml"
    plan.write_text(WEARABLES)
    monkeypatch.setenv("FLWR_HOME", str(tmp_path / "home"))
    kept = {
        "model": {"name": "ann", "model": str(tmp_path / "m"), "keys": "k"},
        "keys": {"name": "ann", "keys": str(tmp_path / "k")},
        "home": {"name": "ann"},
    }
    folders = [PlanNode(config, plan).place.folder for config in kept.values()]
    assert folders == [tmp_path / "m", tmp_path / "k" / "model", tmp_path / "home/catchment/ann"]


@pytest.mark.parametrize("secret", [True, False])
def test_the_ledgers_bytes_are_the_wires_bytes(tmp_path: Path, secret: bool) -> None:
    """Every byte that Flower is handed is in the ledger, but for a constant around each message."""
    text = OWN_FILES + SECURE if secret else PLAIN
    nodes = fleet(tmp_path, text, own(tmp_path / "logs", "abcd"), secret=secret)
    for config in nodes.configs.values():
        config["allow-plain-statistics"] = True
    carried: dict[tuple[str, str], list[int]] = {}
    send = nodes.place.send

    def counting(node: int, order: Order, seconds: float) -> str:
        wire = recorddict_to_proto(packed_order(order)).SerializeToString()
        carried.setdefault((order.stage, "down"), []).append(len(wire))
        return send(node, order, seconds)

    nodes.place.send = counting  # type: ignore[method-assign]
    for inhabitant in nodes.place.nodes_by_id.values():
        inner = inhabitant.respond

        def respond(order: Order, inner: Any = inner) -> bytes:
            reply: bytes = inner(order)
            wire = recorddict_to_proto(packed("reply", reply)).SerializeToString()
            carried.setdefault((order.stage, "up"), []).append(len(wire))
            return reply

        inhabitant.respond = respond
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PlainStatisticsWarning)
        nodes.serve("there", allow_plain=not secret)
    run = read_run(tmp_path / "there")
    assert {stage for stage, _ in carried} == {HELLO, *run.rounds}
    for stage, records in run.rounds.items():
        for direction in ("down", "up"):
            sizes = carried[stage, direction]
            counted = sum(getattr(record, f"bytes_{direction}") for record in records)
            overhead = sum(sizes) - counted
            # What Flower's packing adds to a message, at most; the ledger counts without it.
            assert 0 < overhead <= 128 * len(sizes), (stage, direction)


def test_two_processors_one_model(tmp_path: Path) -> None:
    """Server and nodes run on kernels that round differently, and end with one model file.

    Sums of floating-point numbers differ in their last bits between kernels, the map does not.
    """
    names = [f"user-{k:03d}" for k in range(4)]
    models: dict[str, Model] = {}
    for here, there in (("Haswell", "Sandybridge"), ("Haswell", "Haswell")):
        folder = tmp_path / there
        folder.mkdir()
        nodes = fleet(folder, WEARABLES, {name: {"name": name} for name in names})
        (folder / "configs.json").write_text(json.dumps(nodes.configs))
        command = [sys.executable, "-m", "tests.plans.two_processors", "serve"]
        environment = {**os.environ, "OPENBLAS_CORETYPE": here, "NODE_CORETYPE": there}
        done = subprocess.run(
            [*command, str(folder), str(folder / "out")],
            env=environment,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        told = json.loads(done.stdout.splitlines()[-1])
        assert (told["server"], told["node"]) == (here, there)
        assert told["server_scale"] == told["node_scale"]
        paths = [folder / "out" / MODEL, *(folder / "models" / name / MODEL for name in names)]
        assert len({hashlib.sha256(path.read_bytes()).hexdigest() for path in paths}) == 1
        (record,) = read_run(folder / "out").rounds["training"]
        assert (record.n_used, record.refused) == (4, ())
        kept = load(folder / "out" / MODEL)
        assert isinstance(kept, Model)
        models[there] = kept
    mixed, alike = models["Sandybridge"], models["Haswell"]
    assert mixed.features.fingerprint == alike.features.fingerprint
    np.testing.assert_allclose(mixed.readout.weights, alike.readout.weights, rtol=1e-6)


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
    example = Path(__file__).parents[4] / "examples" / "flower" / "sensors"
    plan = example / "catchment_app" / "plan.toml"
    for path in write_app(tmp_path / "sensors", plan):
        assert path.read_text() == (example / path.relative_to(tmp_path / "sensors")).read_text()
