"""The core works where large packages that only extras need are not installed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

BLOCKED = ("pyarrow", "scipy", "sklearn")
CODE = """
import sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {blocked}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Absent())
{body}
assert not {{name.partition(".")[0] for name in sys.modules}} & set({blocked})
"""


def without_them(body: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a program in a folder where packages cannot be imported."""
    code = CODE.format(blocked=BLOCKED, body=body)
    return subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True)


def write_recordings(folder: Path) -> None:
    """Write six people's files: a clock, two numbers, one with gaps, and what they do."""
    folder.mkdir()
    for k in range(6):
        rows = [f"{t};{(t * (k + 3)) % 7},5;{t % 5 or 'NA'}" for t in range(60)]
        activity = ["walk", "sit"][k % 2]
        text = "t;ax;ay;activity\n" + "".join(f"{row};{activity}\n" for row in rows)
        (folder / f"p{k}.csv").write_text(text)


def test_files_are_learned_from_and_predicted(tmp_path: Path) -> None:
    write_recordings(tmp_path / "recordings")
    words = "'fit', 'recordings', '--label', 'activity', '--time', 't', '--out', 'run'"
    body = "from catchment.cli import main\nsys.argv = ['catchment', {}]\n"
    ended = "try:\n    main()\nexcept SystemExit as stop:\n    assert not stop.code, stop.code"
    done = without_them(body.format(words) + ended, tmp_path)
    assert done.returncode == 0, done.stderr
    done = without_them(body.format("'predict', 'run', 'recordings/p1.csv'") + ended, tmp_path)
    assert done.returncode == 0, done.stderr
    header, *rows = done.stdout.splitlines()
    assert "prediction" in header
    assert len(rows) == 1


def test_reservoirs_are_drawn_and_every_kernel_is_compiled(tmp_path: Path) -> None:
    # numba calls BLAS through scipy where a compiled function multiplies matrices.
    body = (
        "from catchment.features import Reservoir\n"
        "from catchment.precompile import compile_kernels\n"
        "assert [len(Reservoir(n).layers) for n in (50, 400)] == [1, 1]\n"
        "compile_kernels()\n"
    )
    done = without_them(body, tmp_path)
    assert done.returncode == 0, done.stderr


def test_a_parquet_file_names_its_extra(tmp_path: Path) -> None:
    (tmp_path / "log.parquet").write_bytes(b"PAR1")
    done = without_them("from catchment.data import read\nread('log.parquet')", tmp_path)
    last = done.stderr.splitlines()[-1]
    assert 'Parquet files need an extra; pip install "catchment[parquet]"' in last
