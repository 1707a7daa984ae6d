"""`import catchment` stays light: heavy packages load where they are first needed."""

from __future__ import annotations

import subprocess
import sys

HEAVY = (
    "numba",
    "llvmlite",
    "sklearn",
    "scipy",
    "torch",
    "flwr",
    "ray",
    "transformers",
    "peft",
    "matplotlib",
    "pandas",
    "polars",
    "pyarrow",
    "onnxruntime",
    "safetensors",
    "cryptography",
    "reservoirpy",
    "typer",
    "rich",
)


def loaded_after(statement: str) -> set[str]:
    code = f"import sys\n{statement}\nprint('\\n'.join(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_import_loads_nothing_heavy() -> None:
    loaded = loaded_after("import catchment")
    assert "catchment" in loaded
    assert sorted(loaded & set(HEAVY)) == []


def test_values_load_without_the_compiler_or_the_estimators() -> None:
    loaded = loaded_after("from catchment import Recording, RidgeStatistics, Readout, Reservoir")
    assert "catchment.readout.statistics" in loaded
    assert sorted(loaded & set(HEAVY)) == []


def test_the_command_line_needs_nothing_but_the_library() -> None:
    loaded = loaded_after(
        "import pkgutil, catchment.cli\n"
        "for found in pkgutil.iter_modules(catchment.cli.__path__, 'catchment.cli.'):\n"
        "    found.name.endswith('__main__') or __import__(found.name)"
    )
    assert "catchment_lab.commands.search" in loaded
    outside = {"reproductions", "tools", "benchmarks", "tests"}
    assert not {name.partition(".")[0] for name in loaded} & outside
