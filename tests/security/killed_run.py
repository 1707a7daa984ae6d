"""`catchment run` of a plan with a secure sum and the clients' own noise, killed and resumed.

Run as a script with a folder and how many moments to kill it at, or 0 for all: each run is forked,
kills itself before or after a write of its server or of one of its clients, and is resumed. What
happened is printed as JSON: of runs from the beginning, and of one from where its noise is settled.
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

import numpy as np
from tests.security.killed_server import Steps

from catchment.federation.runs.write import MODEL
from catchment.plans import conductor
from catchment.plans.conductor import CLIENTS, run_plan
from catchment.plans.file import read_plan
from catchment.privacy.dp.budget import Budget
from catchment.privacy.releases import Releases
from catchment.privacy.secure_sum import client_store
from catchment.privacy.secure_sum.client_store import FileMemory
from catchment.privacy.secure_sum.server_journal import Journal

PLAN = """
[data]
source = "wearables"
users = 6
windows_per_user = 30
steps = 30
test = 0.34
[prepare]
scale = "own"
[features]
units = 4
[learn]
ridge = 0.0
keep_clients = false
[run]
baselines = []
[[protect]]
name = "gaussian_noise"
epsilon = 1.0
delta = 1e-5
clip = {bound = 5.0}
distributed = true
min_clients = 4
small_cohort = true
[[protect]]
name = "secure_sum"
min_clients = 4
rows_per_feature = 2
"""


def attempt(place: Path, last: int, *, until: str = "") -> int:
    """Fork a process that runs or resumes the plan, and return how it ended.

    Parameters
    ----------
    last
        The write at which it kills itself.
    until
        The stage of the secure sum after which it does.
    """
    child = os.fork()
    if child == 0:
        status = 1
        try:
            steps = Steps(last)
            steps.install(client_store)
            _count_entries(place)
            if until:
                _stop_after(until)
            work(place)
            (place / "steps").write_text(str(steps.count))
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def work(place: Path) -> None:
    os.environ["XDG_STATE_HOME"] = str(place / "state")
    run_plan(read_plan(place / "plan.toml"), place / "run", resume=True, threads=1)


def _stop_after(stage: str) -> None:
    close = Journal.close

    def closed(self: Journal, number: int, at: str, *given: Any, **more: Any) -> None:
        close(self, number, at, *given, **more)
        if at == stage:
            os.kill(os.getpid(), signal.SIGKILL)

    Journal.close = closed  # type: ignore[method-assign]


def _count_entries(place: Path) -> None:
    """Have the clients' ledgers counted before what clients remember is removed."""
    forget = conductor.forget_clients

    def counted(store: Any, identities: dict[str, str]) -> None:
        if not (place / "entries").exists():
            folders = sorted((place / "run" / CLIENTS).iterdir())
            found = {one.name: len(Releases(FileMemory(one)).entries()) for one in folders}
            (place / "entries").write_text(json.dumps(found))
        forget(store, identities)

    conductor.forget_clients = counted


def killed_at(place: Path, start: Path | None, points: list[int]) -> dict[str, Any]:
    """Return what became of a run that was killed at these steps, one after the other."""
    shutil.rmtree(place, ignore_errors=True)
    if start:
        shutil.copytree(start, place)
    else:
        place.mkdir()
        (place / "plan.toml").write_text(PLAN)
    ends = [attempt(place, last) for last in (*points, 0)]
    os.environ["XDG_STATE_HOME"] = str(place / "state")
    budget = Budget(path=place / "budget.sqlite", epsilon=1.0, delta=1e-5)
    return {
        "points": points,
        "ends": ends,
        "model": (place / "run" / MODEL).read_bytes().hex(),
        "charged": [one.purpose for one in budget.releases()],
        "entries": json.loads((place / "entries").read_text()),
        "left": sorted(path.name for path in (place / "run").iterdir()),
        "n_steps": int((place / "steps").read_text()),
    }


def cases(place: Path, start: Path | None, n_kills: int) -> dict[str, Any]:
    """Return what became of a run, and of the same run killed at moments spread over it."""
    whole = killed_at(place, start, [])
    n_steps = whole["n_steps"]
    points = [[int(k)] for k in np.linspace(1, n_steps, n_kills or n_steps)]
    points += [[n_steps // 2] * 3]
    return {"whole": whole, "killed": [killed_at(place, start, each) for each in points]}


def main(folder: Path, n_kills: int) -> None:
    # Once in this process, so that nobody who is forked has to import or compile anything.
    first, place, start = folder / "first", folder / "run", folder / "start"
    for one in (first, place):
        one.mkdir()
        (one / "plan.toml").write_text(PLAN)
    work(first)
    report = {"anew": cases(place, None, n_kills)}
    # A sum has keys of its own, and clients have secrets. From here on all of them are settled, and
    # so is the noise. A run is known to its budget by its place, and put back there for every case.
    shutil.rmtree(place)
    place.mkdir()
    (place / "plan.toml").write_text(PLAN)
    attempt(place, 0, until="boxes")
    place.rename(start)
    for client in (start / "run" / CLIENTS).iterdir():
        Releases(FileMemory(client)).secret(b"")
    report["settled"] = cases(place, start, n_kills)
    print(json.dumps(report))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
