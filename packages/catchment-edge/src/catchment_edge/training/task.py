"""What a device has to do, read from a plan: its map, its preparation, its targets."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from catchment.data import Preprocessing
from catchment.features import FeatureMap
from catchment.federation import LowRankUpload
from catchment.federation.learn import FederatedRidge
from catchment.plans import read_plan


@dataclass(frozen=True, eq=False)
class Task:
    """What a client of a plan does in its rounds.

    Parameters
    ----------
    features
        The map, built as whoever runs the plan builds it.
    preprocessing
        How recordings are prepared; a federated scale is not fitted.
    channels
        How many inputs there are.
    outputs
        How many targets a row has.
    classes
        Names of the outputs, if they are classes.
    workflow
        Fingerprint of all that is agreed on before the first stage; nothing where it depends on
        keys that the export does not have.
    secure
        Whether the plan has secure aggregation.
    helper, floor, least
        Of a plan with two servers: the helper's public key in hexadecimal, the fewest clients of a
        batch, and the fewest rows of a client.
    row_stride
        Learn from every `row_stride`-th row of a recording only.
    """

    features: FeatureMap
    preprocessing: Preprocessing
    channels: int
    outputs: int
    classes: tuple[str, ...] | None = None
    workflow: str = ""
    secure: bool = False
    helper: str = ""
    floor: int = 0
    least: int = 0
    row_stride: int = 1

    def __post_init__(self) -> None:
        _check_preparation(self.preprocessing, per_step=self.features.per_step)

    @property
    def window(self) -> int:
        """Steps of a window, 0 where recordings are left whole."""
        return self._steps(self.preprocessing.window)

    @property
    def step(self) -> int:
        """Steps from one window to the next, 0 where recordings are left whole."""
        return self._steps(self.preprocessing.step) or self.window

    def _steps(self, length: int | str | None) -> int:
        assert not isinstance(length, str)
        return length or 0

    @property
    def washout(self) -> int:
        return self.features.washout

    @property
    def per_step(self) -> bool:
        return self.features.per_step


def task_of(plan_file: str | Path) -> Task:
    """Return what a device does for a plan; ValueError if no device can, and what to change."""
    file = read_plan(plan_file)
    workflow = file.workflow(file.about())
    if workflow.adapt is not None:
        raise ValueError(
            "the plan has [plasticity], which changes the reservoir after the export; leave it out"
        )
    if len(workflow.maps) > 1:
        raise ValueError(
            f"the plan compares {len(workflow.maps)} maps, and a device holds one; name the one "
            "that was chosen under [features]"
        )
    (features,) = workflow.start().maps
    learner = workflow.learn((features,))
    if not isinstance(learner, FederatedRidge):
        raise ValueError(
            f"the plan's algorithm is {file.algorithm!r}; a device sends the statistics of a "
            'ridge regression, so write algorithm = "ridge" under [learn]'
        )
    classes, outputs = workflow.classes, workflow.n_targets
    if any(isinstance(one, LowRankUpload) for one in workflow.protections):
        raise ValueError(
            "clients of this plan send the smaller form of their statistics, and a device sends "
            'plain ones; write upload = "statistics" under [learn]'
        )
    if outputs is None:
        raise ValueError("the plan does not say how many targets there are; name them in [data]")
    return Task(
        features,
        workflow.preprocessing,
        workflow.n_channels,
        outputs,
        classes,
        "" if file.is_secret else workflow.fingerprint,
        file.is_secret,
        *_two_servers(file.protections, features.n_features),
        learner.row_stride,
    )


def _two_servers(tables: Sequence[Mapping[str, Any]], n_features: int) -> tuple[str, int, int]:
    """Return helper, fewest clients and fewest rows of secure aggregation with two servers."""
    for one in tables:
        if one.get("servers") == 2:
            least = int(one.get("min_clients", 10))
            rows = float(one.get("rows_per_feature", 20.0))
            return str(one.get("helper", "")), least, math.ceil(rows * n_features / least)
    return "", 0, 0


def _check_preparation(preprocessing: Preprocessing, *, per_step: bool) -> None:
    if preprocessing.rate is not None:
        raise ValueError(
            f"rate is {preprocessing.rate:g} in [preprocessing], and a device does not resample; "
            f"let it sample at {preprocessing.rate:g} steps per second and leave the rate out"
        )
    if (
        preprocessing.looks_around
        or preprocessing.predicted
        or isinstance(preprocessing.horizon, tuple)
    ):
        raise ValueError(
            "[preprocessing] has several horizons, predicted, known or calendar, and a device "
            "predicts all its channels at one horizon; leave them out, and give one number as "
            "horizon"
        )
    for name, length in (("window", preprocessing.window), ("step", preprocessing.step)):
        if isinstance(length, str):
            raise ValueError(
                f"{name} is {length!r} in [preprocessing], and a device counts steps; give it in "
                "steps"
            )
    if preprocessing.gaps == "interpolate":
        raise ValueError(
            'gaps is "interpolate" in [preprocessing], which needs the value after a gap; write '
            'gaps = "hold"'
        )
    if preprocessing.gaps == "restart" and not per_step and preprocessing.window is None:
        raise ValueError(
            'gaps is "restart" in [preprocessing], which shares a recording\'s weight among its '
            'pieces; write gaps = "hold", or cut windows'
        )
    if preprocessing.scale in ("recording", "own"):
        raise ValueError(
            f'scale is "{preprocessing.scale}" in [preprocessing], which needs all samples before '
            "the first; write "
            'scale = "federated", or give the numbers'
        )
    if preprocessing.window is not None and preprocessing.label == "mean":
        raise ValueError(
            'label is "mean" in [preprocessing], whose sum depends on its order; write label = '
            '"last"'
        )
