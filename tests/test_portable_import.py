"""Every module can be imported on a system without fcntl and fork, such as Windows.

What is shown is importing, on Linux, with what Windows lacks taken away: no more than that.
"""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGES = sorted(path.name for path in ROOT.glob("packages/*/src/catchment*"))
LACKING = ("fcntl", "resource", "pwd", "grp", "termios", "tty", "pty", "syslog")
# They take a minute to import, and on Linux rely on what it has.
EXTRAS = ["torch", "flwr", "ray", "transformers", "peft", "onnxruntime", "optuna", "matplotlib"]
EXTRAS += [
    "reservoirpy",
    "dp_accounting",
    "pyarrow",
    "pandas",
    "polars",
    "aeon",
    "sktime",
    "sklearn",
]
CODE = """
import importlib, json, os, pkgutil, signal, sys
import numba, typer  # which look at the system they are on

lacking, extras, packages = json.loads(sys.argv[1])


class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in lacking + extras:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


for name in lacking:
    sys.modules.pop(name, None)
sys.meta_path.insert(0, Absent())
for name in ("fork", "sched_getaffinity", "sysconf", "killpg", "getuid", "geteuid"):
    delattr(os, name)
del signal.SIGKILL

from catchment.errors import MissingExtraError

tried, failed = [], {}
every = [
    found
    for name in packages
    for whole in [importlib.import_module(name)]
    for found in pkgutil.walk_packages(whole.__path__, name + ".", onerror=str)
]
for found in every:
    if found.name.endswith("__main__"):
        continue
    tried.append(found.name)
    try:
        importlib.import_module(found.name)
    except MissingExtraError:
        pass
    except Exception as error:
        if str(getattr(error, "name", None)).partition(".")[0] not in extras:
            failed[found.name] = repr(error)
print(json.dumps([tried, failed]))
"""


def test_every_module_is_imported_without_what_windows_lacks() -> None:
    given = json.dumps([LACKING, EXTRAS, PACKAGES])
    done = subprocess.run([sys.executable, "-c", CODE, given], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    tried, failed = json.loads(done.stdout)
    assert {"catchment_fleet.cli", "catchment.plans.run", "catchment.wire.messages"} <= set(tried)
    assert failed == {}


def expected_to_fail(node: ast.AST) -> list[ast.stmt]:
    """Return imports whose failing is said in one sentence, where they are used."""
    if not isinstance(node, ast.Try):
        return []
    caught = [handler.type for handler in node.handlers]
    told = any(isinstance(one, ast.Name) and one.id == "ModuleNotFoundError" for one in caught)
    return list(node.body) if told else []


def test_no_module_imports_what_windows_lacks_nor_reads_proc() -> None:
    # For the modules that need an extra, too.
    for path in ROOT.glob("packages/*/src/**/*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        expected = {id(one) for node in ast.walk(tree) for one in expected_to_fail(node)}
        for node in ast.walk(tree):
            names = []
            if id(node) in expected:
                continue
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and not node.level:
                names = [node.module or ""]
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                assert not node.value.startswith("/proc"), path
            assert not {name.partition(".")[0] for name in names} & set(LACKING), path
