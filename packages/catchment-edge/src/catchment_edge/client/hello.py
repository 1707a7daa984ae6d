"""What a device says of itself, and whether it is one for a plan."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any

from catchment.errors import DeviceError, FingerprintError
from catchment.features import FeatureMap
from catchment.federation import Plan

VERSION = 1
NUMBERS = ("float32", "whole", "q15")
FLAGS = ("classes", "per_step", "needs_scale", "has_readout", "masks")  # from the lowest bit on
LAYOUT = struct.Struct("<BBHHIB32s32s")
NO_WORKFLOW = "00" * 32


@dataclass(frozen=True, kw_only=True)
class DeviceHello:
    """What a device says of itself.

    Parameters
    ----------
    number
        The form of its arithmetic: "whole", "q15" or "float32".
    channels, outputs, features
        How many there are of each.
    classes
        Whether its outputs are classes; else they are numbers.
    per_step
        Whether every step gives a row; else there is one per recording or window.
    needs_scale
        Whether it must be told a scale before it can train.
    has_readout
        Whether it can predict.
    masks
        Whether its sums leave it only under the masks of secure aggregation.
    fingerprint, workflow
        SHA-256, in hexadecimal, of its feature map and of the plan it was exported from; zeros
        for one that was exported without a plan.
    """

    number: str
    channels: int
    outputs: int
    features: int
    classes: bool
    per_step: bool
    needs_scale: bool
    has_readout: bool
    fingerprint: str
    workflow: str = NO_WORKFLOW
    masks: bool = False

    @classmethod
    def from_bytes(cls, payload: bytes) -> DeviceHello:
        """Return what came; DeviceError if it is of another length or version."""
        if not payload or payload[0] != VERSION or len(payload) != LAYOUT.size:
            version = payload[0] if payload else "none"
            raise DeviceError(
                "version",
                f"the device speaks version {version} in {len(payload)} bytes, this is version "
                f"{VERSION} in {LAYOUT.size}; export its firmware again",
            )
        _, form, channels, outputs, features, flags, fingerprint, workflow = LAYOUT.unpack(payload)
        if form >= len(NUMBERS):
            raise DeviceError("version", f"the device has numbers of form {form}; export it again")
        return cls(
            number=NUMBERS[form],
            channels=channels,
            outputs=outputs,
            features=features,
            fingerprint=fingerprint.hex(),
            workflow=workflow.hex(),
            **{name: bool(flags >> k & 1) for k, name in enumerate(FLAGS)},
        )

    def to_bytes(self) -> bytes:
        """Return it as a device sends it.

        >>> hello = DeviceHello(
        ...     number="whole", channels=3, outputs=4, features=50, classes=True, per_step=False,
        ...     needs_scale=True, has_readout=False, fingerprint="ab" * 32
        ... )
        >>> len(hello.to_bytes()), DeviceHello.from_bytes(hello.to_bytes()) == hello
        (75, True)
        """
        flags = sum(bool(getattr(self, name)) << k for k, name in enumerate(FLAGS))
        return LAYOUT.pack(
            VERSION,
            NUMBERS.index(self.number),
            self.channels,
            self.outputs,
            self.features,
            flags,
            bytes.fromhex(self.fingerprint),
            bytes.fromhex(self.workflow),
        )

    def check_workflow(self, workflow: str, told_scale: bool | None) -> None:
        """Raise DeviceError if the device was exported from another plan.

        Parameters
        ----------
        workflow
            Fingerprint of the plan; nothing if it is not one of a file.
        told_scale
            Whether its scale is found by all clients and told to them; None if that is not known.
        """
        if workflow and self.workflow not in (NO_WORKFLOW, workflow):
            raise DeviceError(
                "plan",
                f"the device was exported from the plan {self.workflow[:12]}, this is "
                f"{workflow[:12]}; export it from this plan and flash it again",
            )
        if told_scale not in (None, self.needs_scale):
            has = "has to be told its scale" if self.needs_scale else "has a scale of its own"
            raise DeviceError(
                "plan", f"the device {has}, which is not so in the plan; export it from this plan"
            )

    def check_channels(self, channels: int | None) -> None:
        """Raise DeviceError if the device has other channels than the plan."""
        if channels not in (None, self.channels):
            raise DeviceError(
                "shape",
                f"the device has {self.channels} channels, the plan {channels}; export it from "
                "this plan",
            )

    def check_lags(self, features: FeatureMap) -> None:
        """Raise if the device does not sum autocovariances of this many lags."""
        if self.features or self.fingerprint != features.fingerprint:
            raise FingerprintError(
                f"the device has {self.features} features of the map {self.fingerprint[:12]}, the "
                f"plan sums autocovariances of {features.fingerprint[:12]}; export it from this "
                "plan and flash it again"
            )
        self.check_channels(features.n_inputs)

    def check_map(self, features: FeatureMap, *, classes: bool, plan: Plan[Any, Any, Any]) -> None:
        """Raise if the device has another feature map, or other outputs, than the plan trains."""
        if self.fingerprint != features.fingerprint:
            raise FingerprintError(
                f"the device has the feature map {self.fingerprint[:12]}, the plan trains "
                f"{features.fingerprint[:12]}; export it from this plan and flash it again"
            )
        self.check_channels(features.n_inputs)
        ours = {
            "features": (self.features, features.n_features),
            "outputs": (self.outputs, plan.n_targets or self.outputs),
            "classes": (self.classes, classes),
            "per_step": (self.per_step, features.per_step),
        }
        for name, (here, planned) in ours.items():
            if here != planned:
                raise DeviceError(
                    "shape",
                    f"{name} of the device is {here}, of the plan {planned}; export it from this "
                    "plan",
                )
