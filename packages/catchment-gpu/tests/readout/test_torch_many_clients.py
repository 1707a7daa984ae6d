"""Statistics of many clients on a device are those of each by itself."""

from __future__ import annotations

from inspect import getmodule
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch", reason="needs torch")

from catchment import EchoState, MiniRocket, Recording
from catchment.features import FeatureMap
from catchment.readout import VARIABLE, accumulate, accumulate_each
from catchment_gpu.readout import statistics as torch_statistics
from tests.features.echo_state.devices import DEVICES, one_thread  # noqa: F401  # a fixture
from tests.readout.test_torch_statistics import assert_agree

MAPS = {
    "numbers": EchoState(12, washout=3).build(2, per_step=True),
    "classes": EchoState(12).build(2, per_step=True, classes=True),
    "pooled": EchoState(12).build(2, per_step=False, classes=True),
    "strided": EchoState(12, washout=2).build(2, per_step=True),
    "counts": MiniRocket(84).build(2, per_step=False, classes=True),
}


def clients(*, classes: bool, per_step: bool) -> list[list[Recording]]:
    rng = np.random.default_rng(3)
    found = []
    for k in range(7):
        group = []
        for n_steps in (30, 12 + k, 45)[: 1 + k % 3]:
            u = rng.normal(size=(n_steps, 2))
            labels = np.eye(3)[rng.integers(0, 3, n_steps)]
            y = labels if classes else rng.normal(size=(n_steps, 3)) * 10.0**k
            if per_step and k == 2:
                y[10] = np.nan
            weight = 2.0 if k == 4 else 1.0
            group.append(Recording(u, y if per_step else y[0], weight=weight, per_step=per_step))
        found.append(group)
    return found


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", MAPS)
def test_the_same_integers_as_each_alone(
    name: str, device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    features: FeatureMap = MAPS[name]
    classes, stride = name not in ("numbers", "strided"), 3 if name == "strided" else 1
    how: dict[str, Any] = {"classes": classes, "row_stride": stride}
    groups = clients(classes=classes, per_step=features.per_step)
    alone = [accumulate(features, group, **how).digest() for group in groups]
    for at_once, steps in ((1 << 22, 1 << 20), (4000, 60)):
        monkeypatch.setitem(torch_statistics.TOGETHER, device, at_once)
        monkeypatch.setattr(getmodule(accumulate_each), "TOGETHER_STEPS", steps)
        found = accumulate_each(features, groups, **how, device=device)
        assert [one.digest() for one in found] == alone


def test_long_clients_do_not_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(getmodule(accumulate_each), "SMALL_STEPS", 40)
    groups = clients(classes=True, per_step=True)
    features = MAPS["classes"]
    found = accumulate_each(features, iter(groups), classes=True, device="cpu")
    assert found == [accumulate(features, group, classes=True) for group in groups]


@pytest.mark.parametrize("per_step", [True, False])
def test_in_floating_point_they_agree(per_step: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    features = EchoState(12, bits=None, washout=2).build(2, per_step=per_step)
    groups = clients(classes=False, per_step=per_step)
    here = accumulate_each(features, groups, deterministic=False)
    monkeypatch.setenv(VARIABLE, "cpu")
    for mine, theirs in zip(
        accumulate_each(features, groups, deterministic=False), here, strict=True
    ):
        assert_agree(mine, theirs)
        assert mine.fingerprint.endswith(" any device")


def test_a_client_without_targets_is_named() -> None:
    groups = [[Recording(np.ones((20, 2)))]]
    with pytest.raises(ValueError, match="recording 0 has no targets"):
        accumulate_each(MAPS["classes"], groups, classes=True, device="cpu")
