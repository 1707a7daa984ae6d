"""Runners that advance all sequences together do the job that is timed: the textbook loop's."""

from __future__ import annotations

import json
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from benchmarks import lockstep
from benchmarks.jobs import JOBS, make_problem
from benchmarks.runners import naive, ours

TINY = {
    "B1": replace(JOBS["B1"], units=12, density=0.5, n_sequences=9, steps=(14, 14)),
    "B2": replace(JOBS["B2"], units=12, density=0.5, n_sequences=9, steps=(3, 21)),
    "B3": replace(JOBS["B3"], units=12, density=0.5, n_sequences=9, steps=(25, 25)),
    "C1": replace(JOBS["C1"], units=12, density=0.5, n_sequences=4, steps=(90, 90)),
}


@pytest.mark.parametrize("job", lockstep.MANY)
@pytest.mark.parametrize("name", lockstep.LOCKSTEP)
def test_lockstep_is_the_textbook_loop(job: str, name: str) -> None:
    if not find_spec(lockstep.NEEDS.get(name, "numpy")):
        pytest.skip(f"{name} is not installed")
    problem = make_problem(TINY[job])
    loop = naive(problem)(1)
    np.testing.assert_allclose(lockstep.LOCKSTEP[name](problem)(1), loop, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(ours(problem)(1), loop, rtol=1e-6, atol=1e-6)


def test_a_part_of_the_jobs_leaves_the_others_and_other_machines(tmp_path: Path) -> None:
    out = tmp_path / "lockstep.json"
    first = {"B1": {"kind": "a"}, "C1": {"kind": "b"}}
    lockstep.keep(first, 3, out)
    kept = json.loads(out.read_text())["machines"]
    kept[0]["machine"]["processor"] = "another"
    out.write_text(json.dumps({"machines": kept}))
    lockstep.keep(first, 3, out)
    lockstep.keep({"B1": {"kind": "new"}}, 5, out)
    mine, other = json.loads(out.read_text())["machines"]
    assert mine["jobs"] == {"B1": {"kind": "new"}, "C1": {"kind": "b"}}
    assert other["jobs"] == first
