"""Synthetic people who move, some of whom have something wrong with their recordings."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from scipy.spatial.transform import Rotation

from catchment import Array

CLASSES = ("lie", "sit", "walk", "run")
GRAVITY = {"lie": (1.0, 0.0, 0.1), "sit": (0.5, 0.1, 0.85), "walk": (0.0, 0, 1), "run": (0.1, 0, 1)}
SWING = {"lie": 0.02, "sit": 0.03, "walk": 0.35, "run": 0.9}
RATE = 25.0
TURN = Rotation.from_euler("x", 90, degrees=True).as_matrix()
PLAN = """
[data]
files = "p*.csv"
label = "activity"
recording = "recording"
time = "time"
inputs = ["ax", "ay", "az"]
test = {test}
seed = 1

[preprocessing]
scale = "{scale}"

[features]
map = "window_statistics"

[run]
baselines = []
"""


def recorded(rng: np.random.Generator, tempo: float, size: float, name: str, rate: float) -> Array:
    """Return one recording (T, 3) of two seconds and a half."""
    t = np.arange(int(2.5 * rate)) / rate
    swing = np.sin(2 * np.pi * (1.9 if name == "walk" else 2.8) * tempo * t + rng.uniform(0, 6.3))
    u = np.array(GRAVITY[name]) + rng.normal(0, 0.04, 3) + 0.04 * rng.normal(size=(len(t), 3))
    u += size * SWING[name] * swing[:, None] * np.array([0.5, 0.2, 1.0])
    return np.asarray(u)


def person(seed: int, k: int, fault: str, n: int = 32) -> tuple[list[tuple[str, Array]], float]:
    """Return a person's labeled recordings, and their steps per second."""
    rng = np.random.default_rng([seed, k])
    tempo, size = np.exp(rng.normal(0, [0.05, 0.12]))
    worn = Rotation.from_rotvec(rng.normal(0, 0.05, 3)).as_matrix()
    rate = 2 * RATE if fault == "rate" else RATE
    made = []
    for number in range(3 if fault == "few" else n):
        name = CLASSES[number % 4]
        u = recorded(rng, tempo, size, name, rate) @ worn.T
        if fault == "turned":
            u = u @ TURN.T
        if fault == "unit":
            u = 9.80665 * u
        if fault == "swapped":
            name = {"walk": "lie", "lie": "walk"}.get(name, name)
        if fault == "few" and number == 2:
            name = "sit"  # one of three is wrong, which says little
        if fault == "class" and name in ("lie", "run"):
            name = "row"
        made.append((name, u))
    return made, rate


def write_people(folder: Path, faults: Mapping[int, str], n_people: int, seed: int = 0) -> Path:
    """Write a file of each person and return the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for k in range(n_people):
        made, rate = person(seed, k, faults.get(k, ""))
        with (folder / f"p{k:02d}.csv").open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["recording", "time", "ax", "ay", "az", "activity"])
            for number, (name, u) in enumerate(made):
                for step, row in enumerate(u):
                    values = [f"{value:.5f}" for value in row]
                    writer.writerow([number, f"{step / rate:.4f}", *values, name])
    return folder


def write_plan(folder: Path, *, test: str = '"folds"', scale: str = "federated") -> Path:
    """Write a plan beside the files and return its path."""
    path = folder / "plan.toml"
    path.write_text(PLAN.format(test=test, scale=scale), encoding="utf-8")
    return path
