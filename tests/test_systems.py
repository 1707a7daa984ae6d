"""What is looked at for Windows and macOS: paths, newlines, locks, the file that runs tests there.

The walk by files runs on this system, with what Windows lacks taken away before any import.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from catchment.cli import main

ROOT = Path(__file__).parents[1]
WORKFLOW = ROOT / ".github" / "workflows" / "systems.yml"
SOURCES = sorted(ROOT.glob("packages/*/src/**/*.py"))
WALK = """
import os, signal, sys
import numba, typer  # which look at the system they are on

LACKING = ("fcntl", "resource", "pwd", "grp", "termios", "tty", "pty", "syslog")


class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in LACKING:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


for name in LACKING:
    sys.modules.pop(name, None)
sys.meta_path.insert(0, Absent())
for name in ("fork", "forkpty", "sched_getaffinity", "sysconf", "killpg", "getuid", "geteuid"):
    delattr(os, name)
del signal.SIGKILL

from catchment.cli import main

main(sys.argv[1:])
"""
PLAN = """[data]
files = "*.csv"
inputs = ["x"]
target = "y"
test = "folds"

[preprocessing]
scale = "none"

[features]
map = "nvar"
delays = 2
order = 1

[learn]
algorithm = "ridge"
ridge = "gcv"

[run]
baselines = []

[[protections]]
name = "secure_aggregation"
servers = 2
min_clients = 3
rows_per_feature = 2
"""


def catchment(folder: Path, *words: str) -> str:
    command = [sys.executable, "-c", WALK, *words]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_walk_by_files_needs_nothing_that_windows_lacks(tmp_path: Path) -> None:
    names = ("ann", "bob", "cid")
    (tmp_path / "plan.toml").write_text(PLAN)
    (tmp_path / "sites.csv").write_text("\n".join(names) + "\n")
    catchment(tmp_path, "kit", "plan.toml", "--sites", "sites.csv")
    kits = tmp_path / "kits"
    for k, name in enumerate(names):
        rows = "".join(f"{(t * (k + 2)) % 7},{(t * (k + 3)) % 5}\n" for t in range(200))
        (kits / name / "data" / "log.csv").write_text("x,y\n" + rows, newline="\r\n")
        said = ["contribute", "plan.toml", "data", "--name", name, "--keys", "keys"]
        catchment(kits / name, *said, "--identities", "identities.json")
    files = [str(kits / name / f"{name}.contribution") for name in names]
    same = ["--plan", "plan.toml", "--identities", "identities.json"]
    catchment(kits, "combine", *files, *same, "--out", "run")
    catchment(kits, "assist", "run.batch", *same, "--keys", str(Path("helper") / "keys"))
    catchment(kits, "combine", *files, *same, "--out", "run", "--answer", "run.answer")
    assert (kits / "run" / "model.safetensors").is_file()
    assert all(b"\r" not in path.read_bytes() for path in kits.glob("**/*.t[ox]*"))


def test_windows_expands_patterns_because_the_words_are_not_passed_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Click expands *.contribution there if it takes the words from the process itself.
    seen: list[object] = []
    commands = sys.modules[main.__module__]
    monkeypatch.setattr(commands, "app", lambda args, prog_name: seen.append(args))
    main()
    assert seen == [None]


def _mode(call: ast.Call) -> str:
    given = [one.value for one in call.args if isinstance(one, ast.Constant)]
    return next((one for one in given if isinstance(one, str) and set(one) <= set("rwaxbt+")), "")


def test_text_is_written_with_the_newline_of_every_system() -> None:
    """And read and written as UTF-8, which is not the default of Windows."""
    trees = {path: ast.parse(path.read_text(encoding="utf-8")) for path in SOURCES}
    for path, node in ((path, one) for path, tree in trees.items() for one in ast.walk(tree)):
        if not isinstance(node, ast.Call):
            continue
        name: Any = getattr(node.func, "attr", getattr(node.func, "id", ""))
        said, where = {one.arg for one in node.keywords}, (path, node.lineno)
        if name == "read_text" and node.args:
            said.add("encoding")
        opened = name in ("open", "fdopen") and "b" not in _mode(node) and _mode(node)
        writes = name == "write_text" or (opened and set(_mode(node)) & set("wax"))
        assert not writes or "newline" in said, where
        reads = name == "read_text" and isinstance(node.func, ast.Attribute)
        assert not (reads or writes or opened) or "encoding" in said, where


def test_three_systems_run_what_is_here() -> None:
    told = yaml.safe_load(WORKFLOW.read_text(encoding="utf-8"))
    (job,) = told["jobs"].values()
    systems, matrix = {"ubuntu-latest", "windows-latest", "macos-latest"}, job["strategy"]["matrix"]
    assert set(matrix["system"]) == systems
    project = (ROOT / "packages" / "catchment" / "pyproject.toml").read_text(encoding="utf-8")
    for python in (*matrix["python"], *(one["python"] for one in matrix["include"])):
        assert f"Programming Language :: Python :: {python}" in project
    # What a row of the matrix says is used, and a row is a new job, not more of another.
    assert all(set(one) == matrix.keys() - {"include"} for one in matrix["include"])
    used = set(re.findall(r"\$\{\{ matrix\.(\w+) \}\}", WORKFLOW.read_text(encoding="utf-8")))
    assert used == matrix.keys() - {"include"}
    words = " ".join([*matrix["pins"], *(step.get("run", "") for step in job["steps"])]).split()
    named = [word for word in words if word.startswith(("packages/", "tests/", "requirements/"))]
    assert len(named) >= 4
    assert all((ROOT / word.split("[")[0].strip('"')).exists() for word in named), named
    pinned = (ROOT / "requirements" / "constraints.txt").read_text(encoding="utf-8")
    for one in ("ruff", "pytest", "pytest-xdist", "hypothesis"):
        assert f"\n{one}==" in f"\n{pinned}"


def test_the_newest_packages_are_tried_on_a_schedule() -> None:
    told = yaml.safe_load((WORKFLOW.parent / "newest.yml").read_text(encoding="utf-8"))
    (job,), makefile = told["jobs"].values(), (ROOT / "Makefile").read_text(encoding="utf-8")
    (kept,) = re.findall(r"^MATRIX \?= (.*)$", makefile, re.MULTILINE)
    assert job["strategy"]["matrix"]["python"] == kept.split()
    (command,) = (step["run"] for step in job["steps"] if "run" in step)
    assert command.startswith("make newest MATRIX=${{ matrix.python }}")
    (cron,) = told[True]["schedule"]  # YAML reads the key "on" as yes
    assert len(cron["cron"].split()) == 5
    assert "\nnewest:\n\t@$(PYTHON) -m tools.matrix --newest $(MATRIX) --" in makefile
