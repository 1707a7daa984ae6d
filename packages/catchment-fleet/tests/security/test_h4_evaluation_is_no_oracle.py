"""H4: a server that attaches models of its own choice reads nothing from their scores.

The attack of the review: two models that differ by one step of washout, scored on one client; the
difference of the two sums of targets is one raw value. Twenty models give twenty values.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from catchment.features import EchoState, FeatureMap, Pipeline
from catchment.federation import (
    DELIVERY,
    EVALUATION,
    REFUSED,
    TRAINING,
    InMemory,
    Memory,
    Request,
    RoundContext,
    StageInputs,
    refusal,
    sha256_of,
)
from catchment.federation.measure import Score
from catchment.privacy import FileMemory
from catchment.readout import Model, Readout, to_bytes
from catchment.wire import Message
from catchment_fleet.apps import PlanNode

pytestmark = pytest.mark.filterwarnings("ignore:statistics are not anonymous")

PLAN = """
[data]
files = "*.csv"
inputs = ["u"]
test = 0.25
test_of = "{of}"
[preprocessing]
horizon = 1
scale = "none"
[features]
units = 10
washout = 5
[learn]
ridge = 1e-3
"""
N = 39


@dataclass
class Victim:
    """A client's node, its raw values, and the server's letters to it."""

    node: Callable[[], PlanNode]
    memory: Memory
    values: np.ndarray[Any, np.dtype[np.float64]]

    def asked(self, stage: str, known: StageInputs, content: bytes = b"") -> Message:
        """Return the answer to a letter of a server that holds the plan and a model."""
        agreed = self.node().agreed
        place = InMemory(content)
        plan = agreed.allowed(stage, agreed.workflow.plan(stage, known, place))
        context = RoundContext(0, ())
        payload = plan.algorithm.broadcast(plan.algorithm.start(), context)
        if stage == DELIVERY:
            payload = Message("model-file", {}, (np.frombuffer(content, dtype=np.uint8),))
        request = Request(plan.fingerprint(), context, "update", payload, known.parts()).to_bytes()
        try:
            return Message.from_bytes(
                self.node().client(stage, request, self.memory).answer(request)
            )
        except REFUSED as error:
            return Message.from_bytes(refusal(error))

    def scored(self, model: Model) -> Message:
        """Return what the client answers when it is given a model, and then asked for its score."""
        content = to_bytes(model)
        workflow = self.node().agreed.workflow
        known = StageInputs((), workflow.preprocessing, workflow.fingerprint, sha256_of(content))
        given = self.asked(DELIVERY, known, content)
        return given if given.kind == "refusal" else self.asked(EVALUATION, known, content)

    def own_model(self, weight: float = 0.0) -> Model:
        """Return a model with the plan's own map."""
        (features,) = self.node().agreed.workflow.start().maps
        return self.model(features, weight)

    def model(self, features: FeatureMap, weight: float = 0.0, **changes: Any) -> Model:
        preprocessing = replace(self.node().agreed.workflow.preprocessing, **changes)
        readout = Readout(np.full((features.n_features, 1), weight), np.zeros(1))
        return Model(Pipeline(preprocessing, features), readout, channels=("u",))


def victim(folder: Path, text: str = PLAN.format(of="clients"), n: int = N, **more: Any) -> Victim:
    values = np.random.default_rng(3).normal(size=n)
    np.savetxt(folder / "ann.csv", values, "%.17g", header="u", comments="")
    (folder / "plan.toml").write_text(text)
    config = {
        "name": "ann",
        "data": str(folder / "ann.csv"),
        "model": str(folder / "model"),
        "allow-plain-statistics": True,
        "test": True,
        **more,
    }
    memory = FileMemory(folder / "memory")
    return Victim(lambda: PlanNode(config, folder / "plan.toml"), memory, values)


def test_twenty_washouts_of_the_servers_choice_read_nothing(tmp_path: Path) -> None:
    client = victim(tmp_path)
    sums, refused = [], []
    for washout in range(19, N):
        features = EchoState(10, washout=washout).build(1, per_step=True)
        answer = client.scored(client.model(features))
        if answer.kind == "refusal":
            refused.append(answer.facts["reason"])
        else:
            sums.append(Score.from_message(answer).errors.target_sum[0])
    recovered = -np.diff(sums)
    # What the review read: row k of the targets is value k + 1 of the file.
    true = client.values[20 : 20 + len(recovered)]
    assert not np.isclose(recovered, true).any() or not len(recovered)
    assert len(refused) == N - 19
    assert all("is not one that" in str(reason) for reason in refused)
    assert not (tmp_path / "model").exists()  # it is not even kept


def test_a_plan_for_every_washout_reads_nothing(tmp_path: Path) -> None:
    """Each model is the plan's own, and each plan a new one: 23 of 23 values were read."""
    client = victim(tmp_path)
    sums = []
    for washout in range(5, 29):
        text = PLAN.format(of="clients").replace("washout = 5", f"washout = {washout}")
        (tmp_path / "plan.toml").write_text(text)
        answer = client.scored(client.own_model())
        if answer.kind != "refusal":
            sums.append(Score.from_message(answer).errors.target_sum[0])
    assert len(sums) == 1


def test_a_preparation_of_the_servers_choice_is_refused(tmp_path: Path) -> None:
    client = victim(tmp_path)
    (features,) = client.node().agreed.workflow.start().maps
    answer = client.scored(client.model(features, horizon=2))
    assert "prepares recordings otherwise" in str(answer.facts["reason"])


def test_other_outputs_and_other_channels_are_refused(tmp_path: Path) -> None:
    client = victim(tmp_path)
    model = client.own_model()
    for changed, why in (
        (replace(model, channels=("v",)), "other channels"),
        (replace(model, classes=("a",)), "other outputs"),
    ):
        assert why in str(client.scored(changed).facts["reason"])


def test_a_second_model_is_not_scored_and_the_first_says_the_same_again(tmp_path: Path) -> None:
    client = victim(tmp_path)
    first = client.scored(client.own_model())
    assert Score.from_message(first).errors.n == N - 1 - 5
    second = client.scored(client.own_model(weight=1.0))
    assert (second.kind, second.facts["code"]) == ("refusal", "policy")
    assert "evaluations" in str(second.facts["reason"])
    again = client.scored(client.own_model())
    assert again.to_bytes() == first.to_bytes()
    # Not a matter of the process: another one with the same memory refuses as well.
    other = replace(client, memory=FileMemory(tmp_path / "memory"))
    assert other.scored(client.own_model(weight=2.0)).facts["code"] == "policy"


def test_the_owner_may_allow_more(tmp_path: Path) -> None:
    policy = tmp_path / "policy.toml"
    policy.write_text("evaluations = 2\nclear = true\n")
    client = victim(tmp_path, policy=str(policy))
    kinds = [client.scored(client.own_model(weight=w)).kind for w in (0.0, 1.0, 2.0)]
    assert kinds == ["score", "score", "refusal"]


def test_a_score_of_few_rows_is_not_told(tmp_path: Path) -> None:
    client = victim(tmp_path, n=15)
    answer = client.scored(client.own_model())
    assert answer.facts["code"] == "policy"
    assert "a score of so few rows would tell of these rows" in str(answer.facts["reason"])


def test_a_client_that_trained_knows_its_map_to_the_last_bit(tmp_path: Path) -> None:
    """The server says the scale of the map; after the training it cannot say another one."""
    client = victim(tmp_path, PLAN.format(of="steps"), n=400)
    workflow = client.node().agreed.workflow
    known = workflow.start()
    client.asked(TRAINING, known)
    (features,) = known.maps
    other = EchoState(10, washout=5, spectral_radius=0.1).build(1, per_step=True)
    assert other.fingerprint != features.fingerprint
    assert client.scored(client.model(other)).kind == "refusal"
    assert client.scored(client.own_model()).kind == "score"


NOISE = """
[[protections]]
name = "gaussian_noise"
epsilon = 1.0
delta = 1e-6
clip = { bound = 8.0 }
"""


def test_no_exact_score_leaves_a_client_that_trained_under_noise(tmp_path: Path) -> None:
    """A plan tests others than those that train; a server that asks one of these is refused."""
    text = PLAN.format(of="clients").replace("1e-3", "0.0") + NOISE
    client = victim(tmp_path, text, n=400, test=False)
    answer = client.scored(client.own_model())
    assert answer.facts["code"] == "policy"
    assert "scores would leave without any" in str(answer.facts["reason"])
    # Nor does one that trained before, and now says that it only tests.
    client.asked(TRAINING, client.node().agreed.workflow.start())
    tests = victim(tmp_path, text, n=400)
    assert tests.scored(tests.own_model()).facts["code"] == "policy"


def test_in_a_secure_plan_no_single_score_leaves(tmp_path: Path) -> None:
    secure = '[[protections]]\nname = "secure_aggregation"\nmin_clients = 3\n'
    identities = tmp_path / "identities.json"
    identities.write_text('{"ann": "%s"}' % ("00" * 32))
    client = victim(tmp_path, PLAN.format(of="clients") + secure, identities=str(identities))
    answer = client.scored(client.own_model())
    assert answer.kind == "refusal"
    assert client.asked(EVALUATION, StageInputs(workflow="")).kind == "refusal"
