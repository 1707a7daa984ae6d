"""Tests, benchmarks, tools, examples and pages take names from faces, but for what is listed."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from tools.private_imports import private_imports

ROOT = Path(__file__).parents[1]
LISTED = tomllib.loads((ROOT / "tests/private_imports.toml").read_text(encoding="utf-8"))


def test_private_modules_are_imported_only_where_a_reason_is_given() -> None:
    found = private_imports(ROOT)
    more = {module: found[module] for module in found.keys() - LISTED.keys()}
    assert not more, "take these from a face, or give a reason in tests/private_imports.toml"
    assert not LISTED.keys() - found.keys(), "take these off the list: nobody imports them any more"
    assert all(reason.strip() for reason in LISTED.values())
    assert len(LISTED) <= 60


def test_every_way_to_name_a_private_module_is_found(tmp_path: Path) -> None:
    folder = tmp_path / "packages/catchment/src/catchment"
    (folder / "data").mkdir(parents=True)
    (folder / "data" / "__init__.pyi").write_text("from catchment.data.made import made as made\n")
    for name in ("__init__", "data/__init__", "data/made", "data/a", "data/b", "data/c", "data/d"):
        (folder / f"{name}.py").write_text("")
    tests = tmp_path / "tests"
    tests.mkdir()
    (tests / "test_it.py").write_text(
        "import catchment.data.a\n"
        "from catchment.data import b, made\n"
        "from catchment.errors import CatchmentError\n"
        "def test(monkeypatch):\n"
        "    monkeypatch.setattr('catchment.data.c.LIMIT', 1)\n"
        "    run('import sys\\nfrom catchment.data.d import it')\n"
    )
    (tests / "page.md").write_text("```python\nfrom catchment.data.d import it\n```\n")
    assert private_imports(tmp_path) == {
        "catchment.data.a": ["tests/test_it.py"],
        "catchment.data.b": ["tests/test_it.py"],
        "catchment.data.c": ["tests/test_it.py"],
        "catchment.data.d": ["tests/page.md", "tests/test_it.py"],
    }


def test_the_architecture_has_the_order_of_the_imports() -> None:
    linter = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = linter["tool"]["importlinter"]["contracts"]
    (layers,) = (one["layers"] for one in contracts if "catchment.cli" in one.get("layers", ()))
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    (said,) = re.findall(r"From the top:\n\n```text\n(.*?)\n```", page, re.DOTALL)
    held = [set(re.findall(r"catchment\.(\w+)", layer)) for layer in layers]
    assert [set(line.split(", ")) for line in said.splitlines()] == held
