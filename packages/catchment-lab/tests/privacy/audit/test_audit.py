"""The audit: what it says of configurations whose answer is known."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from catchment import Reservoir
from catchment.cli import app
from catchment.features import EchoState
from catchment.privacy import Clip, GaussianNoise
from catchment_lab.audit import VIEWS, Setting, audit, generated
from tests.contracts.maps import Delays, OwnStatistics

pytestmark = pytest.mark.slow


def features(units: int = 40, inputs: int = 1, **settings: object) -> EchoState:
    made = Reservoir(units=units, inputs=inputs, leak_rate=0.8, seed=2)
    return EchoState.of(made, **settings)  # type: ignore[arg-type]


def scores(setting: Setting) -> dict[str, dict[str, float]]:
    report = audit(setting)
    return {f.attack: {view: f.outcomes[view].score for view in VIEWS} for f in report.findings}


def test_thin_clients_leak_in_the_clear_and_not_behind_the_rules() -> None:
    found = scores(Setting(features=features(), n_clients=12, steps=20))
    assert found["sequences"]["plain"] == 1.0
    assert found["sequences"]["plain + row rule"] == 0.0
    assert found["sequences"]["secure + noise"] < 0.5
    assert found["labels"]["plain"] == 1.0
    assert found["labels"]["secure aggregation"] == 0.0
    assert found["difference"]["secure aggregation"] == 1.0
    assert found["difference"]["secure + row rule"] == 0.0
    assert found["membership"]["plain"] == 1.0
    assert found["membership"]["secure + noise"] < 0.85
    assert found["plasticity"]["plain"] == 1.0
    assert found["plasticity"]["secure aggregation"] == 0.0


def test_a_thin_sum_gives_every_client_away() -> None:
    setting = Setting(features=features(), n_clients=3, steps=10, plasticity=False)
    found = scores(setting)
    assert found["sequences"]["secure aggregation"] == 1.0
    assert found["sequences"]["secure + row rule"] == 0.0
    assert "plasticity" not in found


def test_thick_clients_do_not_leak_their_sequences() -> None:
    found = scores(Setting(features=features(20), n_clients=12, steps=450))
    assert found["sequences"]["plain"] < 0.1
    assert found["membership"]["plain"] < 0.8


def test_pooled_windows_and_classes() -> None:
    setting = Setting(
        features=features(60, pool="mean"), n_clients=12, sequences=12, steps=12, n_classes=3
    )
    found = scores(setting)
    assert "sequences" not in found
    assert found["windows"]["plain"] > 0.9
    assert found["windows"]["secure + noise"] < 0.5
    long = Setting(features=features(60, 6, pool="mean"), sequences=8, steps=128, n_classes=3)
    words = {f.attack: f.outcomes["plain"].word for f in audit(long).findings}
    assert words["windows"] == "not tried"


def test_a_map_of_ones_own_is_attacked_by_all_that_needs_no_reservoir() -> None:
    own = OwnStatistics()
    report = audit(Setting(features=own, n_inputs=3, sequences=12, n_classes=3, secure=True))
    assert [finding.attack for finding in report.findings] == ["labels", "difference", "membership"]
    assert report.not_applicable == ("sequences", "windows", "plasticity")
    assert "not applicable to this map: sequences, windows" in report.left_out.lower()
    labels, difference, membership = report.findings
    assert labels.leaks("plain")
    assert not labels.leaks("secure aggregation")
    assert difference.outcomes["secure aggregation"].text.startswith(
        "the new window's features, to"
    )
    assert difference.outcomes["secure aggregation"].score == 1.0
    assert membership.outcomes["secure + noise"].score < 0.85
    per_step = Delays(4, np.array([1.0, 0.5, 2.0]))
    found = {f.attack: f for f in audit(Setting(features=per_step, n_inputs=3)).findings}
    assert found["difference"].outcomes["plain"].text.startswith("the new row's features")
    assert audit(Setting(steps=12, n_clients=4)).left_out == ""


def test_the_servers_view_follows_from_the_protections() -> None:
    noise = GaussianNoise(epsilon=1.0, delta=1e-5, clip=Clip(bound=1.0))
    shared = GaussianNoise(epsilon=1.0, delta=1e-5, clip=Clip(bound=1.0), distributed=True)
    F = features()
    assert Setting(features=F).configured == "plain"
    assert Setting(features=F, noise=noise).configured == "plain"
    assert Setting(features=F, secure=True).configured == "secure + row rule"
    assert Setting(features=F, secure=True, noise=noise).configured == "secure aggregation"
    assert Setting(features=F, secure=True, noise=shared).configured == "secure + noise"


def test_large_configurations_are_capped() -> None:
    capped = Setting(features=features(), n_clients=5000, sequences=1000, steps=100).capped()
    assert capped.n_clients * capped.sequences * capped.steps <= 200_000
    assert capped.steps == 100


def test_generated_clients_differ_and_repeat() -> None:
    setting = Setting(features=features(pool="last"), sequences=2)
    a, b = generated(setting, 0), generated(setting, 1)
    assert a[0].u.tolist() == generated(setting, 0)[0].u.tolist()
    assert a[0].u.tolist() != b[0].u.tolist()
    assert a[0].y is not None
    assert a[0].y.shape == (1,)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"n_clients": 1}, "audit at least 2"),
        ({"sequences": 0}, "audit at least 2"),
        ({"steps": 3}, "within the washout"),
        ({"n_classes": 1}, "n_classes is 1"),
        ({"n_inputs": -1}, "n_inputs is -1"),
    ],
)
def test_settings_are_checked(wrong: dict[str, int], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        Setting(features=features(washout=3), **wrong)  # type: ignore[arg-type]


PLAN = """
[data]
source = "wearables"
users = 12
windows_per_user = 15
steps = 24

[features]
units = 25

[learn]
ridge = 1.0
"""


def test_the_command_audits_a_plan(tmp_path: Path) -> None:
    plan = tmp_path / "plan.toml"
    plan.write_text(PLAN)
    done = CliRunner().invoke(app, ["audit", str(plan), "--json"])
    assert done.exit_code == 1
    said = json.loads(done.output)
    assert said["configured"] == "plain"
    assert "labels" in said["leaks"]
    assert said["configuration"]["units"] == 25
    assert said["configuration"]["classes"] == 6
    assert said["configuration"]["rows per client"] == 15


OWN = PLAN.replace("units = 25", 'map = "tests.contracts.maps:OwnStatistics"\nchannels = 6')


def test_the_command_audits_a_plan_with_a_map_of_ones_own(tmp_path: Path) -> None:
    plan = tmp_path / "plan.toml"
    plan.write_text(OWN)
    done = CliRunner().invoke(app, ["audit", str(plan)])
    assert done.exit_code == 1
    assert "tests.contracts.maps:OwnStatistics map, 30 features" in done.output
    assert "LEAK what a client's targets are" in done.output
    (said,) = [line for line in done.output.splitlines() if "Not applicable to this map" in line]
    assert said.count(".") == 1
    as_json = json.loads(CliRunner().invoke(app, ["audit", str(plan), "--json"]).output)
    assert as_json["not_applicable"] == ["sequences", "windows", "plasticity"]


SECURE = """
[[protections]]
name = "secure_aggregation"
min_clients = 9
rows_per_feature = 2.0
"""


def test_the_command_audits_the_folder_of_a_run_and_sees_its_secure_aggregation(
    tmp_path: Path,
) -> None:
    (tmp_path / "plan.toml").write_text(PLAN + "store_per_client = false\n" + SECURE)
    done = CliRunner().invoke(app, ["audit", str(tmp_path), "--json"])
    said = json.loads(done.output)
    assert said["configured"] == "secure + row rule"
    assert "labels" not in said["leaks"]
    views = {f["attack"]: f["views"] for f in said["findings"]}
    assert views["membership"]["secure + row rule"]["word"] != "refused"
    assert done.exit_code == (1 if said["leaks"] else 0)


def test_the_command_refuses_what_is_not_there(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["audit", str(tmp_path / "none.toml")])
    assert done.exit_code != 0
