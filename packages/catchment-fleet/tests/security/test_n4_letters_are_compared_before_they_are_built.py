"""N4: what a letter or a model asks for is compared with the plan before anything is built of it.

A letter of 797 bytes with 200,000 units cost a client two seconds and 100 MB before it was refused,
and any dataclass of any imported module was constructed with the server's settings.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from catchment import Array
from catchment.errors import IntegrityError
from catchment.features import (
    NVAR,
    AppendNorm,
    DefaultMap,
    EchoState,
    FeatureMap,
    FeatureUnion,
    RandomFourierFeatures,
    RandomProjection,
    WindowStatistics,
    building_only,
    restored,
)
from catchment.features.echo_state import reservoir as build
from catchment.federation import DELIVERY, EVALUATION, TRAINING, Request, RoundContext
from catchment.wire import NOTHING, Message, join
from tests.security.test_h4_evaluation_is_no_oracle import PLAN, victim

pytestmark = pytest.mark.filterwarnings("ignore:statistics are not anonymous")
HUGE = 2_000_000


@dataclass
class Counted:
    """How often something was made of what somebody else sent."""

    made: int = 0


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Counted:
    """Count every reservoir that is built, and end the test if a huge one is."""
    count, really = Counted(), build._drawn

    def counting(layer: Any, scale: float) -> Any:
        count.made += 1
        assert layer.units < 10_000, "a reservoir of the server's choice is being built"
        return really(layer, scale)

    monkeypatch.setattr(build, "_drawn", counting)
    return count


def with_units(parts: Message, units: int) -> Message:
    recipe = json.loads(str(parts.facts["recipe"]))
    return Message(parts.kind, {**parts.facts, "recipe": json.dumps({**recipe, "units": units})})


def request(parts: Message, workflow: str, stage: str = "update") -> bytes:
    about = Message("about", {"course": workflow, "model": ""})
    known = join("known", {"about": about, "map/0": parts})
    return Request("", RoundContext(0, ()), stage, NOTHING, known).to_bytes()


@pytest.mark.parametrize("stage", [TRAINING, DELIVERY, EVALUATION])
@pytest.mark.parametrize("right_plan", [True, False])
def test_a_letter_that_asks_for_millions_of_units_builds_nothing(
    stage: str, right_plan: bool, tmp_path: Path, counted: Counted
) -> None:
    client = victim(tmp_path, PLAN.format(of="steps"))
    node = client.node()
    workflow = node.agreed.workflow
    (own,) = workflow.start().maps
    sent = request(with_units(own.parts(), HUGE), workflow.fingerprint if right_plan else "0" * 64)
    assert len(sent) < 1300
    counted.made = 0
    if stage == TRAINING or not right_plan:
        with pytest.raises(IntegrityError, match="runs another plan"):
            node.agreed.known(stage, sent, "ann")
    else:
        assert node.agreed.known(stage, sent, "ann").maps == ()
    assert counted.made == 0


def test_a_model_that_asks_for_millions_of_units_builds_nothing(
    tmp_path: Path, counted: Counted
) -> None:
    client = victim(tmp_path)
    workflow = client.node().agreed.workflow
    (own,) = workflow.start().maps
    parts = own.parts()
    counted.made = 0
    with (
        building_only(workflow.describes),
        pytest.raises(IntegrityError, match="nothing was built"),
    ):
        restored(with_units(parts, HUGE))
    assert counted.made == 0
    with building_only(workflow.describes):
        assert restored(parts).fingerprint == own.fingerprint
    assert counted.made == 1


@dataclass(frozen=True)
class Foreign(FeatureMap):
    """A dataclass of a module that happens to be imported."""

    n_features: int = 1
    bounds = np.full(1, 1.0)
    made = Counted()

    def __post_init__(self) -> None:
        self.made.made += 1

    def compute_rows(self, inputs: Sequence[Array], threads: int | None) -> list[Array]:
        return [np.zeros((1, self.n_features)) for _ in inputs]


def test_classes_that_nobody_named_are_not_constructed() -> None:
    name = f"{__name__}:Foreign"
    parts = Message("own_map", {"class": name, "version": None, "settings": {"n_features": 3}})
    before = Foreign.made.made
    with building_only(lambda _: True), pytest.raises(IntegrityError, match="is not known here"):
        restored(parts)
    assert Foreign.made.made == before
    with building_only(lambda _: True):
        assert restored(parts, [Foreign]).n_features == 3
    # Nor inside of a map of the library.
    inside = {"map": {"kind": "own_map", "facts": dict(parts.facts), "arrays": []}}
    facts: dict[str, Any] = {
        "class": "with_norm",
        "version": None,
        "settings": {"map": inside, "n_inputs": 2},
    }
    before = Foreign.made.made
    with building_only(lambda _: True), pytest.raises(IntegrityError, match="is not known here"):
        restored(Message("own_map", facts))
    assert Foreign.made.made == before


def test_a_plan_names_no_map_that_the_owner_did_not(tmp_path: Path) -> None:
    stranger = 'map = "tests.security.nodes:Stranger"'
    text = PLAN.format(of="steps").replace("units = 10\nwashout = 5", stranger)
    client = victim(tmp_path, text)
    workflow = client.node().agreed.workflow
    answer = client.asked(TRAINING, workflow.start())
    assert "which is not in maps of this node's policy.toml" in str(answer.facts["reason"])


DESCRIPTIONS: dict[str, Callable[[int], FeatureMap]] = {
    "echo state": lambda n: EchoState(n),
    "two layers": lambda n: EchoState((n, n)),
    "nvar": lambda n: NVAR(n),
    "statistics": lambda n: WindowStatistics(range=float(n)),
    "concat": lambda n: FeatureUnion(EchoState(n), NVAR(2)),
    "with norm": lambda n: AppendNorm(EchoState(n)),
    "fourier": lambda n: RandomFourierFeatures(EchoState(5), features=n),
    "fourier of a reservoir": lambda n: RandomFourierFeatures(EchoState(n), features=9),
    "projected": lambda n: RandomProjection(EchoState(12), n),
    "default": lambda n: DefaultMap(500 + n),
}


@pytest.mark.parametrize("per_step", [True, False])
@pytest.mark.parametrize("name", DESCRIPTIONS)
def test_every_map_of_the_library_knows_its_parts_and_no_others(name: str, per_step: bool) -> None:
    kinds = {"per_step": per_step, "classes": True}
    try:
        built = DESCRIPTIONS[name](6).build(2, **kinds)
    except ValueError:
        pytest.skip("the map gives rows of the other kind only")
    parts = Message.from_bytes(built.parts().to_bytes())
    assert DESCRIPTIONS[name](6).describes(parts, 2, **kinds)
    if not (name == "default" and per_step):  # which is one reservoir, however many columns
        assert not DESCRIPTIONS[name](7).describes(parts, 2, **kinds)
    assert not DESCRIPTIONS[name](6).describes(replace(parts, kind="nothing"), 2, **kinds)
