"""Every Python block of the documentation and of the README runs, page by page."""

from __future__ import annotations

import doctest
import json
import re
import shlex
import subprocess
import sys
import types
from pathlib import Path

import numpy as np
import pytest
from benchmarks import grid_tables
from benchmarks.peer_table import RESULTS, peer_table

from catchment.features.echo_state.echo_state import AUTO_GRID
from catchment.plans.file import parse_plan

ROOT = Path(__file__).parents[1]
PAGES = sorted([*(ROOT / "docs").rglob("*.md"), *ROOT.glob("README.md")])
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(page: Path) -> list[tuple[int, str]]:
    """Return the line and the text of each block of a page."""
    text = page.read_text(encoding="utf-8")
    return [(text[: m.start(1)].count("\n") + 1, m.group(1)) for m in BLOCK.finditer(text)]


FIRST_GUIDE = "guides/from-files-to-predictions.md"
VERIFY_GUIDE = "guides/verify.md"
# These mix Python with commands; they have tests of their own.
MIXED = {ROOT / "docs" / FIRST_GUIDE, ROOT / "docs" / VERIFY_GUIDE}
WITH_BLOCKS = [page for page in PAGES if blocks(page) and page not in MIXED]


@pytest.mark.parametrize("page", WITH_BLOCKS, ids=lambda page: str(page.relative_to(ROOT)))
def test_blocks_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(ROOT / "examples" / "own")  # the files that pages show in full
    # A module, because dataclasses and pickling look their classes' module up.
    module = types.ModuleType("page")
    monkeypatch.setitem(sys.modules, "page", module)
    for line, text in blocks(page):
        # Blank lines first, so that a traceback names the line of the page.
        exec(compile("\n" * (line - 1) + text, str(page), "exec"), module.__dict__)


def test_pages_have_blocks() -> None:
    assert len(WITH_BLOCKS) >= 4


def test_no_page_is_left_out_of_the_tables_of_contents() -> None:
    docs = ROOT / "docs"
    listed = {docs / "index.md"}
    for page in docs.rglob("*.md"):
        for tree in re.findall(r"```\{toctree\}\n(.*?)```", page.read_text(), re.DOTALL):
            lines = [line.strip() for line in tree.splitlines()]
            names = [line for line in lines if line and not line.startswith(":")]
            listed |= {(page.parent / f"{name}.md").resolve() for name in names}
    pages = {page for page in docs.rglob("*.md") if "_build" not in page.parts}
    assert pages - listed == set()
    assert listed - pages == set()


def test_the_table_of_peers_is_the_one_that_was_measured() -> None:
    jobs = json.loads(RESULTS.read_text())["jobs"]
    assert peer_table(jobs) in (ROOT / "README.md").read_text()


def test_figures_of_maps_are_those_that_were_measured() -> None:
    text = (ROOT / "README.md").read_text()
    cells = json.loads((ROOT / "results" / "maps.json").read_text())["cells"]
    for method in ("default, 510", "window statistics", "MiniRocket, 504", "CNN by FedAvg"):
        for name in ("uci_har", "motionsense", "hhar", "wisdm_watch"):
            of = [c for c in cells if (c["set"], c["method"]) == (name, method)]
            if not of:
                continue
            right = np.array([[c["correct"][who] for who in c["windows"]] for c in of])
            n = np.array(list(of[0]["windows"].values()))
            mean, worst = 100 * right.sum() / (len(of) * n.sum()), 100 * (right / n).mean(axis=0)
            assert f" {mean:.1f} ({worst.min():.1f}) " in text


def test_figures_of_networks_and_prompts_are_those_that_were_measured() -> None:
    text = (ROOT / "README.md").read_text()
    rows = json.loads((ROOT / "results" / "fedpt.json").read_text())["rows"]
    for part, noise in (("writers", None), ("private", 4.03), ("hundred", 8.83)):
        for percent in (4.96, 100.0):
            found = [
                100 * row["accuracy"]
                for row in rows
                if (row["part"], row["noise"]) == (part, noise)
                and round(row["percent"], 2) == percent
            ]
            assert f"{np.mean(found):.1f} ± {np.std(found):.1f}" in text
    cells = json.loads((ROOT / "results" / "fedresprompt.json").read_text())["cells"]
    for task, method in (
        ("sst2", "subspace"),
        ("sst2", "lora"),
        ("uci_har", "closed-form"),
        ("uci_har", "ridge"),
    ):
        found = [
            100 * cell["test"]
            for cell in cells
            if (cell["job"]["task"], cell["job"]["variant"]["method"]) == (task, method)
            and not cell["job"]["search"]
            and not cell["job"]["variant"]["noise"]
        ]
        assert f"{np.mean(found):.1f} ± {np.std(found):.1f}" in text
    race = json.loads((ROOT / "benchmarks" / "results" / "partial.json").read_text())["rows"]
    for row in race:
        assert row["runner"] == "loop" or f"{row['clients_per_second']:.0f}" in text


def test_every_claim_about_privacy_names_a_test_that_is_there() -> None:
    page = (ROOT / "docs" / "privacy.md").read_text(encoding="utf-8")
    (table,) = re.findall(r"^\| claim \| .*?\n\n", page, re.MULTILINE | re.DOTALL)
    rows = [line for line in table.splitlines()[2:] if line.startswith("|")]
    assert len(rows) >= 12
    for row in rows:
        named = re.findall(r"`(test_[\w*]+(?:\.py)?)`", row)
        assert named, f"no test is named for: {row}"
        assert not [name for name in named if not any((ROOT / "tests" / "security").glob(name))]


INTEGERS = (ROOT / "docs" / "concepts" / "integers.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", grid_tables.TABLES)
def test_tables_of_grids_are_those_that_were_measured(name: str) -> None:
    table = grid_tables.measured(name)
    _, shown = INTEGERS.split(f"<!-- table: {name} -->\n\n")
    if table is None:
        assert "(preliminary: " in shown.splitlines()[0]
    else:
        assert shown.startswith(f"{table}\n\n")


def test_figures_of_a_gpu_are_those_that_were_measured() -> None:
    lines = json.loads((grid_tables.RESULTS / "grid_gpu.json").read_text())
    assert lines[-1]["all the same"]
    grams = [
        line["time_gram"]["seconds"] for line in lines if "seconds" in line.get("time_gram", {})
    ]
    sums = next(line["time_statistics"] for line in lines if "time_statistics" in line)
    figures = [f"{1e3 * seconds:.1f} ms" for seconds in grams]
    figures += [f"{grams[1] / grams[2]:.1f} times"]
    figures += [f"{sums['torch cuda, s']:.2f} s", f"{sums['numba, s']:.1f} s by numba"]
    words = " ".join(INTEGERS.split())
    assert [figure for figure in figures if figure not in words] == []


@pytest.mark.parametrize("page", ["integers.md", "defaults.md"])
def test_the_default_grids_are_those_of_the_library(page: str) -> None:
    text = (ROOT / "docs" / "concepts" / page).read_text(encoding="utf-8")
    for bits, feature_bits, largest in AUTO_GRID.values():
        assert f"{bits}, {feature_bits}, {largest:g}" in text


@pytest.mark.parametrize("page", ["integers", "analytic-federated-learning"])
def test_tests_that_a_page_names_are_there(page: str) -> None:
    text = (ROOT / "docs" / "concepts" / f"{page}.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`(test_\w+)`", text))
    code = "".join(path.read_text("utf-8") for path in (ROOT / "tests").rglob("test_*.py"))
    assert len(named) > 7
    assert {name for name in named if f"def {name}(" not in code} == set()


def test_every_plan_of_the_page_on_analytic_learning_is_read() -> None:
    page = ROOT / "docs" / "concepts" / "analytic-federated-learning.md"
    text = page.read_text(encoding="utf-8")
    plans = re.findall(r"^```toml\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    assert len(plans) == 5
    for plan in plans:
        file = parse_plan(f'[data]\nsource = "wearables"\n{plan}')
        assert file.maps


PIECE = re.compile(r"^```(python|toml|console)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SHOWN = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
SCORE = re.compile(r"^(?:exact federated \*|all) +(0\.\d+)", re.MULTILINE)


def run_commands(text: str) -> None:
    """Run the commands of a console block, and compare what they print with what it shows.

    Words must be equal, and accuracies near; other numbers depend on the machine.
    """
    for command, expected in re.findall(r"^\$ catchment (.*)\n((?:(?!\$ ).*\n)*)", text, re.M):
        done = subprocess.run(
            [sys.executable, "-m", "catchment.cli", *shlex.split(command)],
            capture_output=True,
            encoding="utf-8",
            check=False,
        )
        assert done.returncode == 0, done.stderr
        ours, theirs = (re.sub(r"\b[0-9a-f]{8,64}\b", "hash", s) for s in (expected, done.stdout))
        ours, theirs = (
            re.sub(r"\d+(?:\.\d+)?", "#", s).replace("hash...", "hash") for s in (ours, theirs)
        )
        assert doctest.OutputChecker().check_output(ours, theirs, SHOWN), done.stdout
        for shown, found in zip(SCORE.findall(expected), SCORE.findall(done.stdout), strict=False):
            assert float(shown) == pytest.approx(float(found), abs=0.05)


def test_the_first_guide_goes_from_files_to_predictions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    run_page(FIRST_GUIDE)
    assert Path("runs/recordings/certificate.json").is_file()
    assert Path("people.safetensors").is_file()


def test_the_guide_to_verifying_shows_what_is_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    run_page(VERIFY_GUIDE)
    assert Path("runs/plan/certificate.json").is_file()


def run_page(page: str) -> None:
    """Run the plans, the commands and the Python of a page, one after the other."""
    names: dict[str, object] = {"__name__": "page"}
    for language, text in PIECE.findall((ROOT / "docs" / page).read_text(encoding="utf-8")):
        if language == "toml":
            Path("plan.toml").write_text(text, encoding="utf-8")
        elif language == "console":
            run_commands(text)
        else:
            exec(text, names)


OWN_MAP = """
[data]
source = "wearables"
users = 16
test = 0.25

[[protect]]
name = "secure_sum"
min_clients = 10
rows_per_feature = 10.0

"""


def test_a_plan_names_a_map_of_ones_own_and_hides_it_in_a_secure_sum(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = (ROOT / "docs" / "guides" / "write-your-own.md").read_text(encoding="utf-8")
    (shown,) = re.findall(r"^```toml\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    (tmp_path / "plan.toml").write_text(OWN_MAP + shown, encoding="utf-8")
    module = (ROOT / "examples" / "own" / "window_statistics.py").read_text(encoding="utf-8")
    (tmp_path / "window_statistics.py").write_text(module, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    run_commands("$ catchment run plan.toml\n...12 of 12 clients trained...\n...\n")
    rows = "".join(f"{t},{t % 5},0,0,0,0,{t % 3}\n" for t in range(50))
    Path("new.csv").write_text(
        "t,acc-forward,acc-left,acc-up,gyro-roll,gyro-pitch,gyro-yaw\n" + rows, encoding="utf-8"
    )
    with pytest.raises(AssertionError, match="--use window_statistics:WindowStatistics"):
        run_commands("$ catchment predict runs/plan new.csv\n...\n")
    use = "--use window_statistics:WindowStatistics"
    run_commands(f"$ catchment predict runs/plan new.csv {use}\nfile,recording,start,...\n")
