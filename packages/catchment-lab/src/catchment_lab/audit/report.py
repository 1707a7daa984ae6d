"""An audit: our own attacks on generated data of your configuration, under each protection.

Every attack is run against what the server would see: one client's upload in the clear, the same
with the rule on rows, the exact sum of a secure round without and with that rule, and the sum with
noise. An attack that finds nothing proves nothing; one that finds something proves a leak.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from catchment.features import name_of
from catchment_lab.audit.trials import TRIALS
from catchment_lab.audit.views import Finding, Setting, View, World

__all__ = ["Report", "Setting", "audit"]


@dataclass(frozen=True)
class Report:
    """Everything an audit found."""

    configured: View
    configuration: Mapping[str, object]
    findings: tuple[Finding, ...]
    seconds: float
    not_applicable: tuple[str, ...] = ()  # attacks on reservoirs, where the map is another

    @property
    def leaks(self) -> tuple[Finding, ...]:
        """What is recovered under the configured protections."""
        return tuple(finding for finding in self.findings if finding.leaks(self.configured))

    @property
    def left_out(self) -> str:
        """Which attacks are not applicable to the map, in a sentence; empty if all are."""
        if not self.not_applicable:
            return ""
        return (
            f"Not applicable to this map: {', '.join(self.not_applicable)}; they run a reservoir "
            "backwards, so nothing is known of what such an attack on this map would find."
        )

    def to_json(self) -> dict[str, object]:
        """Return the report as plain JSON."""
        return {
            "configured": self.configured,
            "configuration": dict(self.configuration),
            "leaks": [finding.attack for finding in self.leaks],
            "findings": [_plain(**asdict(finding)) for finding in self.findings],
            "not_applicable": list(self.not_applicable),
            "seconds": round(self.seconds, 1),
        }


def _plain(outcomes: Mapping[View, object], **about: object) -> dict[str, object]:
    return {**about, "views": outcomes}


def audit(setting: Setting | None = None, *, watch: Callable[[str], None] | None = None) -> Report:
    """Return what our attacks recover from generated data of a setting, under each protection.

    Parameters
    ----------
    setting
        The standard configuration if not given: 20 clients of 30 steps, 100 units.
    watch
        Called with the name of each attack as it begins.
    """
    started = time.perf_counter()
    chosen = (setting or Setting()).capped()
    world = World(chosen)
    findings = []
    for trial in TRIALS:
        if watch:
            watch(trial.attack)
        finding = trial.run(world)
        if finding is not None:
            findings.append(finding)
    left_out = tuple(trial.attack for trial in TRIALS if not trial.suits(world))
    configuration = {
        **_about(chosen.features),
        "features": chosen.features.n_features,
        "clients": chosen.n_clients,
        "rows per client": chosen.rows,
        "classes": chosen.n_classes,
        "epsilon": world.noise.epsilon,
        "delta": world.noise.delta,
    }
    seconds = time.perf_counter() - started
    return Report(chosen.configured, configuration, tuple(findings), seconds, left_out)


def _about(features: Any) -> dict[str, object]:
    """Return what only a map of this kind has."""
    if features.reservoir is not None:
        return {"units": features.reservoir.n_units, "pool": features.pool}
    return {"map": name_of(features)}
