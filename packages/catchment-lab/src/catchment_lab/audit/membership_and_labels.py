"""Attempts at who and what somebody is: class counts, and whether data were used at all."""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np

from catchment.privacy.dp import rounded_normal
from catchment_lab.audit.membership import area_under_curve, leverage, membership_score
from catchment_lab.audit.moments import class_counts
from catchment_lab.audit.outcomes import Outcome
from catchment_lab.audit.simulated_views import World


def labels_of_upload(world: World) -> Outcome:
    if world.setting.n_classes == 0:
        return Outcome(1.0, "exact", "the mean and spread of the client's targets, exactly")
    targets = [np.atleast_2d(s.y) for s in world.clients[0] if s.y is not None]
    truth = np.concatenate(targets).sum(axis=0)
    exact = bool(np.allclose(class_counts(world.statistics[0]), truth, atol=1e-6))
    counts = ", ".join(f"{count:.0f}" for count in truth)
    return Outcome(float(exact), "exact", f"the client's class counts, {counts}, exactly")


def labels_of_sum(world: World) -> Outcome:
    return Outcome(0.0, "cohort's", "the class counts and means of the whole cohort only")


def labels_of_noise(world: World) -> Outcome:
    noise = world.noise
    if world.setting.n_classes == 0:
        return Outcome(0.0, "noisy", "the cohort's mean target, with noise")
    spread = noise.spread / (math.sqrt(2) * noise.clip.target_scale)
    text = f"shares of the cohort's classes, to about {spread / world.setting.n_clients:.2g}"
    return Outcome(0.0, "noisy", text)


def membership_of_upload(world: World) -> Outcome:
    """Whether a row was among a client's: its leverage is at most one if it was."""
    statistics = world.statistics[0]
    inside = np.concatenate([world.rows(s.u) for s in world.clients[0][:40]])[:200]
    outside = np.concatenate([world.rows(s.u) for data in world.clients[1:3] for s in data[:40]])
    area = area_under_curve(leverage(statistics, inside), leverage(statistics, outside[:200]))
    return Outcome(area, f"AUC {area:.2f}", f"of a row in a client's upload: AUC {area:.2f}")


def membership_of_sum(world: World) -> Outcome:
    n = 20 if world.total.n_features <= 300 else 6
    members = np.array([membership_score(world.total, s) for s in world.statistics[:n]])
    others = np.array([membership_score(world.total, s) for s in world.strangers[:n]])
    area = area_under_curve(members, others)
    absent = float((others > 1 + 1e-9).mean())
    text = (
        f"of a client in the sum: AUC {area:.2f}, {absent:.0%} of outsiders proved absent; "
        "1.00 for one who knows all other clients"
    )
    return Outcome(area, f"AUC {area:.2f}", text)


def membership_of_noise(world: World) -> Outcome:
    """The strongest test there is, by one who knows all other clients, on repeated releases."""
    noise = world.noise
    v = max((clipped.vector for clipped in world.clipped), key=np.linalg.norm)
    draws = max(40, min(1000, 4_000_000 // len(v)))
    unit = v / np.linalg.norm(v)
    scores = []
    for present in (1.0, 0.0):
        released = np.empty(draws)
        for k in range(draws):
            z = rounded_normal(noise.spread / noise.grid, len(v)) * noise.grid
            released[k] = -(unit @ (present * v + z))
        scores.append(released)
    area = area_under_curve(*scores)
    bound = NormalDist().cdf(1 / (math.sqrt(2) * noise.multiplier))
    text = (
        f"AUC {area:.2f} in {draws} trials for one who knows all other clients; at most "
        f"{bound:.2f} in theory, for anybody (epsilon {noise.epsilon:g} at delta {noise.delta:g})"
    )
    return Outcome(area, f"AUC {area:.2f}", text)
