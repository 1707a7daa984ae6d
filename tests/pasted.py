"""The files that pages name and do not make: written before their commands are pasted."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

import catchment as ct
from catchment.data import synthetic_wearables
from tests.commands import typed

TEMPO = {"walk": 1.4, "sit": 0.1, "hop": 3.0}
PLAN = """
[data]
files = "people/*.csv"
label = "activity"
recording = "rec"
time = "t"
test = 0.25

[features]
map = "window_statistics"
"""
LOAD = """
[data]
files = "series/*.csv"
inputs = "load"

[preprocessing]
horizon = 1

[features]
map = "echo_state"
units = 40
washout = 20
"""


def person(path: str, activities: str, seed: int, columns: str = "t,ax,ay,activity,rec") -> None:
    """Write a person's recordings, one of each activity, of five seconds at 20 Hz."""
    rng, lines = np.random.default_rng(seed), [columns]
    for rec, name in enumerate(activities.split()):
        phase = rng.uniform(0, 6)
        for k in range(100):
            swing = np.array([np.sin, np.cos])
            ax, ay = (f(2 * np.pi * TEMPO[name] * k / 20 + phase) for f in swing)
            noise = rng.normal(0, 0.2, 2)
            cells = {"t": f"{k / 20:.2f}", "ax": f"{ax + noise[0]:.3f}"}
            cells |= {"ay": f"{ay + noise[1]:.3f}", "activity": name, "rec": str(rec)}
            lines.append(",".join(cells[column] for column in columns.split(",")))
    Path(path).parent.mkdir(exist_ok=True, parents=True)
    Path(path).write_text("\n".join(lines) + "\n")


def people() -> None:
    """Write four people who walk and sit, a plan for them, and new recordings."""
    for k in range(4):
        person(f"people/p{k}.csv", "walk sit " * 5, k)
    person("new.csv", "walk sit walk", 9)
    Path("plan.toml").write_text(PLAN)


def trained() -> None:
    """Train on people and on series, and write what is predicted of them."""
    people()
    person("other.csv", "walk", 8, "t,ax,activity,rec")
    typed("run", "plan.toml")
    rng = np.random.default_rng(0)
    Path("series").mkdir()
    for k in range(4):
        load = np.sin(np.arange(400) / 6) + (0.2 if k == 0 else 0.1) * rng.normal(size=400)
        Path(f"series/s{k}.csv").write_text("load\n" + "".join(f"{x:.5f}\n" for x in load))
    Path("tomorrow.csv").write_text("load\n" + "".join(f"{x:.5f}\n" for x in load[:22]))
    Path("load.toml").write_text(LOAD)
    typed("run", "load.toml")


def late() -> None:
    """Write people, and one who comes late with something new."""
    people()
    person("late/dora.csv", "hop " * 8, 7)


def verified() -> None:
    """Run the plan of the page on verifying."""
    page = Path(__file__).parents[1] / "docs" / "guides" / "verify.md"
    text = page.read_text(encoding="utf-8").split("```toml\n")[1].split("```")[0]
    Path("plan.toml").write_text(text)
    typed("run", "plan.toml")


def classifier() -> None:
    """Save a model of windows from wearables."""
    held = [one for person in synthetic_wearables(3).values() for one in person]
    ct.fit(ct.EchoState(100), held).save("har.safetensors")


def of_the_guide() -> None:
    """Write the recordings that the first guide makes, and one of its new files."""
    page = Path(__file__).parents[1] / "docs" / "guides" / "from-files-to-predictions.md"
    text = page.read_text(encoding="utf-8").split("```python\n")[1].split("\n```")[0]
    exec(text, {"__name__": "page"})
    Path("new.csv").write_bytes(Path("new/q0.csv").read_bytes())


def nothing() -> None:
    """Write nothing: the page makes what it needs."""


# By page: what makes its files. Their Python is pasted, too, where commands need what it saves.
FILES: dict[str, Callable[[], None]] = {
    "README.md": of_the_guide,
    "docs/index.md": of_the_guide,
    "docs/guides/export.md": classifier,
    "docs/guides/export-c.md": nothing,
    "docs/guides/new-classes.md": late,
    "docs/guides/personal.md": people,
    "docs/guides/predict-and-evaluate.md": trained,
    "docs/guides/unlearning.md": verified,
}
WITH_PYTHON = {"docs/guides/export-c.md"}
# These have tests of their own: they need boards, weeks, or somebody with a fault.
ELSEWHERE = {
    "docs/guides/badly-served.md",
    "docs/guides/edge.md",
    "docs/guides/fleet-over-weeks.md",
    "docs/guides/from-files-to-predictions.md",
    "docs/guides/verify.md",
}
