"""A run of a plan that is killed at random moments and taken up again, each time in a process.

Run as a script with a folder, how many times to kill, and a seed. What the undisturbed and the
killed run have kept is printed as JSON.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import sys
import traceback
from pathlib import Path
from typing import Any

from catchment.federation.runs import DATABASE
from catchment.plans import read_plan, run_plan
from tests.federation.runs.test_folder import rows
from tests.security.killed_server import Steps

PLAN = """
[data]
source = "wearables"
users = 6
windows_per_user = 10

[features]
units = 20

[run]
baselines = []
"""
# What must be the same: all but times, and how often a message was sent. The letter of a delivery
# says in which folder a run is, and when it began.
BUT = "WHERE stage != 'delivery'"
KEPT = {
    "messages": "SELECT stage, round, client, direction, purpose, shapes, bytes, sha256 "
    f"FROM messages {BUT}",
    "rounds": "SELECT stage, round, asked, used, bytes_down, bytes_up, state_sha256 "
    f"FROM rounds {BUT}",
    "figures": "SELECT * FROM figures",
    "digests": "SELECT * FROM digests",
    "scores": "SELECT * FROM scores",
    "confusions": "SELECT * FROM confusions",
    "clients": "SELECT * FROM clients",
}


def process(place: Path, last: int) -> tuple[int, int]:
    """Return how a run ended that was killed at a step, none if 0, and how many steps it made."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            steps = Steps(last)
            steps.install()
            run_plan(read_plan(place.parent / "plan.toml"), place, resume=True, threads=1)
            (place.parent / "steps").write_text(str(steps.count))
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)
    ended = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return ended, int((place.parent / "steps").read_text()) if ended == 0 else 0


def kept(place: Path) -> dict[str, Any]:
    """Return all bytes that a finished run has kept, by what they are."""
    paths = [*(place / "states").iterdir(), place / "model.safetensors"]
    files = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(paths)}
    return {"files": files} | {name: rows(place, query) for name, query in KEPT.items()}


def main(folder: Path, kills: int, seed: int) -> None:
    (folder / "plan.toml").write_text(PLAN)
    # What takes long at first is done once, before any fork.
    run_plan(read_plan(folder / "plan.toml"), folder / "warm", threads=1)
    ended, n_steps = process(folder / "whole", 0)
    found: dict[str, Any] = {"whole": kept(folder / "whole"), "steps": n_steps, "ends": [ended]}
    rng = random.Random(seed)
    done = 0
    while done < kills:  # one run is killed until it is over, then the next
        place = folder / f"killed-{done}"
        while (ended := process(place, rng.randint(1, n_steps))[0]) < 0 and done < kills:
            done += 1
        if ended < 0:
            ended, _ = process(place, 0)
        found["ends"].append(ended)
        found.setdefault("killed", []).append(kept(place) if (place / DATABASE).is_file() else {})
        done += 1
    print(json.dumps(found))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
