"""M5: what the owner of a node does not allow is refused, whatever the plan says."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from catchment.federation import (
    REFUSED,
    TRAINING,
    Memory,
    Request,
    RoundContext,
    StageInputs,
    refusal,
)
from catchment.plans import read_plan
from catchment.privacy import (
    NAME,
    FileMemory,
    OwnData,
    Policy,
    networked,
    new_identity,
    parse_policy,
    read_policy,
    template,
)
from catchment.wire import NOTHING, Message
from catchment_fleet.apps import PACKAGE, PlanNode, sign_plan, signature_path, write_app
from catchment_fleet.deploy import admit, make_keys, make_node

pytestmark = pytest.mark.filterwarnings("ignore:statistics are not anonymous")

PLAN = """
[data]
files = "*.csv"
inputs = ["u"]
test = 0.25
test_of = "steps"
[preprocessing]
horizon = 1
scale = "none"
[features]
units = 10
washout = 5
[learn]
algorithm = "{algorithm}"
{learn}
"""
RIDGE = PLAN.format(algorithm="ridge", learn="ridge = 1e-3")
SECURE = '[[protections]]\nname = "secure_aggregation"\nmin_clients = {}\nrows_per_feature = {}\n'


class Owned:
    """A node with a policy of its own, asked to train."""

    def __init__(self, folder: Path, policy: str, text: str, n: int = 400) -> None:
        self.plan, self.policy = folder / "plan.toml", folder / NAME
        self.plan.write_text(text)
        self.policy.write_text(policy)
        np.savetxt(folder / "ann.csv", np.sin(np.arange(n)), "%.17g", header="u", comments="")
        self.memory: Memory = FileMemory(folder / "memory")
        identities = folder / "identities.json"
        identities.write_text(json.dumps({"ann": new_identity(self.memory)}))
        self.config = {
            "name": "ann",
            "data": str(folder / "ann.csv"),
            "identities": str(identities),
            "policy": str(self.policy),
        }

    def node(self) -> PlanNode:
        return PlanNode(self.config, self.plan)

    def train(self, stage: str = "update") -> Message:
        """Return the answer to a letter of a server that runs the plan."""
        try:
            agreed = self.node().agreed
            known: StageInputs = agreed.workflow.start()
            plan = agreed.workflow.plan(TRAINING, known)
            plan = networked(plan, allow_plain_statistics=True)
            context = RoundContext(0, ())
            start = plan.algorithm.start()
            payload = plan.algorithm.broadcast(start, context) if stage == "update" else NOTHING
            request = Request(plan.fingerprint(), context, stage, payload, known.parts()).to_bytes()
            return Message.from_bytes(
                self.node().client(TRAINING, request, self.memory).answer(request)
            )
        except REFUSED as error:
            return Message.from_bytes(refusal(error))

    def refused(self, stage: str = "update") -> str:
        """Return why it was refused by the policy."""
        answer = self.train(stage)
        assert (answer.kind, answer.facts["code"]) == ("refusal", "policy"), answer.facts
        return str(answer.facts["reason"])


def test_a_plan_that_is_not_listed_is_refused_and_a_listed_one_is_not(tmp_path: Path) -> None:
    owned = Owned(tmp_path, f'plans = ["{"0" * 64}"]\nclear = true\n', RIDGE)
    assert "is not in plans of this node's policy.toml" in owned.refused()
    owned.policy.write_text(f'plans = ["{read_plan(owned.plan).fingerprint}"]\nclear = true\n')
    assert owned.train().kind == "ridge-statistics"
    owned.plan.write_text(RIDGE.replace("units = 10", "units = 11"))
    assert "is not in plans" in owned.refused()


def test_a_signed_plan_is_allowed_and_no_other(tmp_path: Path) -> None:
    owned = Owned(tmp_path, "", RIDGE)
    _, signer = sign_plan(owned.plan, tmp_path / "signer.key")
    owned.policy.write_text(f'signer = "{signer}"\nclear = true\n')
    assert owned.train().kind == "ridge-statistics"
    assert (tmp_path / "signer.key").stat().st_mode & 0o777 == 0o600
    # The signature is under the settings, and it is this signer's.
    owned.plan.write_text(RIDGE.replace("units = 10", "units = 11"))
    assert "has not signed it" in owned.refused()
    sign_plan(owned.plan, tmp_path / "somebody.key")
    assert "has not signed it" in owned.refused()
    for junk in ("", 'signature = "zz"', "not TOML ="):
        signature_path(owned.plan).write_text(junk)
        assert "has not signed it" in owned.refused()


def test_the_signature_travels_with_the_app(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(RIDGE)
    sign_plan(tmp_path / "mine.toml", tmp_path / "signer.key")
    write_app(tmp_path / "app", tmp_path / "mine.toml")
    assert signature_path(tmp_path / "app" / PACKAGE / "plan.toml").is_file()


def test_statistics_leave_in_the_clear_only_if_the_owner_says_so(tmp_path: Path) -> None:
    owned = Owned(tmp_path, "", RIDGE)
    assert "clear = false in this node's policy.toml" in owned.refused()
    owned.policy.write_text("clear = true\n")
    assert owned.train().kind == "ridge-statistics"


def test_an_algorithm_that_is_not_listed_is_refused(tmp_path: Path) -> None:
    owned = Owned(tmp_path, 'algorithms = ["averaging", "gradient"]\nclear = true\n', RIDGE)
    assert "the plan's algorithm is 'ridge'" in owned.refused()


@pytest.mark.parametrize(
    ("policy", "said"),
    [
        ("min_clients = 5\n", "min_clients = 4, this node's policy.toml asks for 5"),
        ("rows_per_feature = 10.0\n", "rows_per_feature = 3, this node's policy.toml asks for 10"),
    ],
)
def test_the_floors_are_the_nodes_own(tmp_path: Path, policy: str, said: str) -> None:
    owned = Owned(tmp_path, policy, RIDGE + SECURE.format(4, 3.0))
    # Before the first key is made, not at the upload.
    assert said in owned.refused("keys")


@pytest.mark.parametrize(
    ("algorithm", "learn"), [("averaging", "ridge = 1e-3"), ("gradient", "learning_rate = 0.1")]
)
def test_uploads_of_weights_and_gradients_keep_the_row_rule_too(
    tmp_path: Path, algorithm: str, learn: str
) -> None:
    text = PLAN.format(algorithm=algorithm, learn=learn)
    owned = Owned(tmp_path, "clear = true\nrows_per_feature = 30.0\n", text)
    assert "with rows_per_feature = 30 in this node's policy.toml it sends 330 or more" in (
        owned.refused()
    )
    owned.policy.write_text("clear = true\nrows_per_feature = 20.0\n")
    assert owned.train().kind != "refusal"


def test_a_plan_does_not_choose_files_of_the_node(tmp_path: Path) -> None:
    owned = Owned(tmp_path, "clear = true\n", RIDGE.replace("*.csv", f"{tmp_path}/*.csv"))
    del owned.config["data"]
    assert "does not choose what is read here" in owned.refused()
    owned.config["plan"] = str(owned.plan)  # unless the owner has read the plan
    assert owned.train().facts.get("code") != "policy"


def test_secure_aggregation_needs_a_memory_that_lasts(tmp_path: Path) -> None:
    owned = Owned(tmp_path, "", RIDGE + SECURE.format(4, 3.0))
    owned.memory = dict(owned.memory)
    assert "has no folder to note releases in" in owned.refused("keys")
    owned.config["partition-id"] = "0"  # as Flower's own simulation says it
    assert owned.train("keys").facts.get("code") != "policy"


def test_what_is_wrong_with_a_policy_is_said(tmp_path: Path) -> None:
    for text, said in (
        ("min_client = 3", "has no setting 'min_client'; did you mean 'min_clients'?"),
        ("min_clients = 2.5", "min_clients is 2.5; give an integer"),
        ("min_clients = true", "give an integer"),
        ("clear = 1", "clear is 1; give true or false"),
        ('plans = "all"', "give a list of texts"),
        ('plans = ["all"]', "give 64 hexadecimal digits"),
        ('code = "theirs"', "give 'mine' or 'any'"),
        ("epsilon = 1.0", "give both or neither"),
        ("[plans]", "give a list of texts"),
        ("clear = ", "is not valid TOML"),
        ("data = 1", "write a table"),
        ("[data]\nparts = 'row'", "parts is 'row'; give 'all', 'file', 'folder' or 'date'"),
        ("[data]\nparts = 'date'", "a column of dates goes with"),
        ("[data]\ndate = 'day'", "a column of dates goes with"),
        ("[data]\ntimes = 't'", "has no setting 'times'"),
        ("[data]\ntime = 1", "give a text"),
        ("[data]\ninputs = 'u'", "give a list of texts"),
    ):
        with pytest.raises(ValueError, match=said):
            parse_policy(text)
    path = tmp_path / NAME
    path.write_text("min_clents = 3")
    with pytest.raises(ValueError, match="min_clents"):
        read_policy(path)
    with pytest.raises(FileNotFoundError, match="there is no policy"):
        read_policy(tmp_path / "none.toml")


def test_every_setting_is_in_the_file_that_keys_writes(tmp_path: Path) -> None:
    text = template()
    lines = [line.lstrip("# ").split("#")[0] for line in text.splitlines() if " = " in line]
    lines.insert(lines.index('parts = "all"'), "[data]")
    settings = "\n".join(line for line in lines if line.split(" = ")[0].strip("[]").isidentifier())
    # With all its # taken away it says what holds with them, but for the budget.
    budget = parse_policy(settings)
    assert (budget.epsilon, budget.delta) == (1.0, 1e-6)
    assert {f"{f} =" in text or f"[{f}]" in text for f in Policy.__dataclass_fields__} == {True}
    assert {f"{f} =" in text for f in OwnData.__dataclass_fields__} == {True}
    assert parse_policy(text) == Policy(min_clients=10, rows_per_feature=20.0)


def test_keys_are_made_whole_and_private(tmp_path: Path) -> None:
    (tmp_path / "server").mkdir(mode=0o755)
    identities = make_keys(tmp_path, ["localhost"], ["ann", "ben"])
    private = {"ca.key", "server.key", "node.key", NAME}
    for path in tmp_path.rglob("*"):
        mode = path.stat().st_mode & 0o777
        if path.is_dir():
            assert mode == 0o700, path
        elif path.name in private or path.suffix == ".entry":
            assert mode == 0o600, path
        else:
            assert mode == 0o644, path
    assert read_policy(tmp_path / "nodes" / "ann" / NAME).min_clients == 3  # a trial
    # Whoever reads the list while a node is admitted reads the old one or the new one.
    listed = tmp_path / "server" / "identities.json"
    before = listed.stat().st_ino
    admit(tmp_path, [make_node(tmp_path, "cy")])
    assert listed.stat().st_ino != before
    assert json.loads(listed.read_text()).keys() == identities.keys() | {"cy"}
    assert read_policy(tmp_path / "nodes" / "cy" / NAME).min_clients == 10


def test_a_policy_that_is_there_is_kept(tmp_path: Path) -> None:
    make_node(tmp_path, "ann")
    (tmp_path / "nodes" / "ann" / NAME).write_text("min_clients = 50\n")
    make_node(tmp_path, "ann")
    assert read_policy(tmp_path / "nodes" / "ann" / NAME).min_clients == 50


@pytest.mark.parametrize("setting", ["corrupt", "min_share"])
def test_a_plan_cannot_assume_that_nobody_works_with_the_server(
    tmp_path: Path, setting: str
) -> None:
    """With corrupt = 0 in the server's plan the split view opened a client of twelve again."""
    plan = RIDGE + SECURE.format(10, 20) + f"{setting} = 0.0\n"
    owned = Owned(tmp_path, "min_clients = 10\nrows_per_feature = 20\n", plan)
    assert f"the plan's secure aggregation has {setting} = 0, this node's" in owned.refused()
    owned.policy.write_text(f"{setting} = 0.0\n")
    assert owned.train("keys").facts.get("code") != "policy"
