"""A `catchment run` that is killed, with its clients in it, and taken up again.

Run as a script with a folder, how many steps lie between two kills, and from where ("begun", with
the boxes of secure aggregation closed, so that all copies draw the same noise; or "new"): a plan
with distributed noise under secure aggregation is forked, kills itself at one step, and is resumed.
What happened is printed as JSON.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import traceback
from pathlib import Path
from typing import Any

from catchment.plans import read_plan, run_plan
from catchment.privacy import Budget, FileMemory, Journal, PrivacyLedger
from catchment.privacy.secure_aggregation import client_store
from catchment.wire import replace_file
from tests.security.killed_server import Steps

PLAN = """
[data]
source = "wearables"
users = 8
windows_per_user = 60
test = 0.375
[preprocessing]
scale = "own"
[features]
units = 5
[learn]
ridge = 0.0
store_per_client = false
[run]
baselines = []
[[protections]]
name = "gaussian_noise"
epsilon = 1.0
delta = 1e-5
clip = {bound = 5.0}
distributed = true
min_clients = 4
small_cohort = true
[[protections]]
name = "secure_aggregation"
min_clients = 4
rows_per_feature = 2
"""


def steps_of(last: int) -> Steps:
    """Return steps at the writes of the server's stores and of the clients' memories."""
    steps = Steps(last)
    steps.install()
    write = replace_file

    def file(path: Path, content: bytes, **how: Any) -> None:
        write(path, content, **how)
        steps.step()

    client_store.replace_file = file  # type: ignore[attr-defined]
    return steps


def process(place: Path, last: int, stage: str = "") -> int:
    """Fork a run of the plan in a folder, or what is left of it, and return how it ended.

    Parameters
    ----------
    last
        The step at which it is killed; 0 for none.
    stage
        Of secure aggregation: it is killed when this one is closed.
    """
    child = os.fork()
    if child == 0:
        status = 1
        try:
            os.environ["XDG_STATE_HOME"] = str(place / "state")
            steps, removed = steps_of(last), sys.modules[run_plan.__module__].forget_clients
            if stage:
                kill_after(stage)

            def forget(store: Any, identities: dict[str, str]) -> None:
                # What is removed at the end is looked at first, unless a killed run removed it.
                if (store.folder / "clients").is_dir():
                    folders = sorted((store.folder / "clients").iterdir())
                    counts = [
                        len(PrivacyLedger(FileMemory(folder)).entries()) for folder in folders
                    ]
                    (place / "ledgers.json").write_text(json.dumps(counts))
                removed(store, identities)

            sys.modules[run_plan.__module__].forget_clients = forget  # type: ignore[attr-defined]
            run(place)
            (place / "steps").write_text(str(steps.count))
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def run(place: Path) -> None:
    run_plan(read_plan(place / "plan.toml"), place / "run", resume=True, threads=1)


def kill_after(stage: str) -> None:
    close = Journal.close

    def dying(self: Journal, attempt: int, closed: str, *given: Any, **named: Any) -> None:
        close(self, attempt, closed, *given, **named)
        if closed == stage:
            os.kill(os.getpid(), signal.SIGKILL)

    Journal.close = dying  # type: ignore[method-assign,assignment]


def killed_at(base: Path, points: list[int]) -> dict[str, Any]:
    """Return what became of a copy of a folder, killed at these steps and taken up again."""
    # In one place: a run that is copied to another is another run.
    place = base.parent / "run"
    shutil.copytree(base, place)
    ends = [process(place, last) for last in (*points, 0)]
    os.environ["XDG_STATE_HOME"] = str(place / "state")
    charged = len(Budget(path=place / "budget.sqlite", epsilon=1.0, delta=1e-5).releases())
    found = {"points": points, "ends": ends, "charged": charged}
    if ends[-1] == 0:
        found["left"] = sorted(path.name for path in (place / "run").iterdir())
        found["model"] = (place / "run" / "model.safetensors").read_bytes().hex()
        found["ledgers"] = json.loads((place / "ledgers.json").read_text())
        found["steps"] = int((place / "steps").read_text())
    shutil.rmtree(place)
    return found


def main(folder: Path, stride: int, *starts: str) -> None:
    for name in ("warm", "run"):
        (folder / name).mkdir()
        (folder / name / "plan.toml").write_text(PLAN)
    shutil.copytree(folder / "run", folder / "new")
    # What takes long at first is done once, before any fork.
    os.environ["XDG_STATE_HOME"] = str(folder / "warm" / "state")
    run(folder / "warm")
    ended = process(folder / "run", 0, "boxes")
    for memory in (folder / "run" / "run" / "clients").iterdir():
        PrivacyLedger(FileMemory(memory)).secret(b"")  # of which the noise is drawn, in all copies
    (folder / "run").rename(folder / "begun")
    report: dict[str, Any] = {"begun": ended, "signal": -signal.SIGKILL}
    for name in starts:
        whole = killed_at(folder / name, [])
        points = range(1, whole.get("steps", 0) + 1, stride)
        killed = [killed_at(folder / name, [k]) for k in points]
        report[f"{name}_cases"] = {"whole": whole, "killed": killed}
    print(json.dumps(report))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), *sys.argv[3:])
