"""Which device statistics and predictions are computed on, and what they then add to.

In fixed point a device changes the time they take and nothing else. It then belongs to the machine
and not to the plan, so a node may say it in its environment: `CATCHMENT_DEVICE=cuda`.

In float64 sums depend on the order in which they are made, so a device gives slightly other
numbers (1e-9 relative or closer). Such statistics say so in their fingerprint and add to their
like; a plan allows them with `deterministic=False`, and then those of all its clients say so.
"""

from __future__ import annotations

import os
from typing import Any

from catchment.features.base import FeatureMap
from catchment.plugins import plugin

VARIABLE = "CATCHMENT_DEVICE"
DEVICE_SEQUENCES = 16384  # looked at together where there is a device: a GPU wants many
GROUP = 32  # clients served together
DEVICE_GROUP = 256  # likewise on a GPU, which wants many...
GROUP_BYTES = 1 << 28  # ...unless what they send is large
ANY_DEVICE = " any device"  # after the fingerprint of statistics that depend on it


def device_for(features: FeatureMap, device: str | None, deterministic: bool = True) -> str | None:
    """Return the device for the statistics of a map, None for the CPU's own kernels.

    In float64 a device that the environment names is left aside unless any may be used.

    >>> from catchment import EchoState
    >>> features = EchoState(20).build(1, per_step=True)
    >>> device_for(features, "cpu"), device_for(features, None)
    ('cpu', None)
    """
    if features.feature_bits is None and deterministic:
        return device
    return device or os.environ.get(VARIABLE) or None


def group_size(
    features: FeatureMap, n_clients: int, n_threads: int, *, deterministic: bool = True
) -> int:
    """Return how many clients to sum side by side, where that is quicker than one by one.

    >>> from catchment import EchoState
    >>> group_size(EchoState(20).build(1, per_step=True), 100, 2)
    25
    """
    if device_for(features, None, deterministic) is not None:
        fit = GROUP_BYTES // (4 * features.n_features**2)
        return max(1, min(DEVICE_GROUP, fit, n_clients))
    # Several groups per thread, or one group of large clients would keep the others waiting.
    return max(1, min(GROUP, n_clients // (2 * n_threads))) if features.per_step else 1


def statistics_name(
    features: FeatureMap, device: str | None = None, deterministic: bool = True, row_stride: int = 1
) -> str:
    """Return the fingerprint of a map's statistics: which rows, and whether a device matters.

    It does where they are float64, and any device may make them.

    >>> from catchment import EchoState
    >>> plain = EchoState(20, bits=None).build(1, per_step=True)
    >>> [statistics_name(plain, *asked)[64:] for asked in ((None, False, 8), ("cpu",), ())]
    [' row stride 8 any device', ' any device', '']
    """
    marked = features.feature_bits is None and (device is not None or not deterministic)
    stride = "" if row_stride == 1 else f" row stride {row_stride}"
    return features.fingerprint + stride + (ANY_DEVICE if marked else "")


def same_features(one: str, other: str) -> bool:
    """Whether statistics of two fingerprints are of one map, whatever devices and rows they took.

    >>> same_features("5b3a any device", "5b3a"), same_features("5b3a", "77ef")
    (True, False)
    """
    return one.split(" ")[0] == other.split(" ")[0]


def torch_form() -> Any:
    """Return statistics and predictions on a torch device, which catchment-gpu brings."""
    return plugin("forms", "torch", needed_for="other devices than the CPU")


def refuse_device(device: str | None, what: str) -> None:
    """Raise ValueError if a device was asked for, and what predicts has no form on one.

    >>> refuse_device(None, "a network")
    """
    if device is not None:
        raise ValueError(f"device is {device!r}, and {what} predicts on the CPU; leave it out")
