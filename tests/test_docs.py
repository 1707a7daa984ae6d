"""Every Python block of the documentation and of the README runs, page by page."""

from __future__ import annotations

import doctest
import json
import re
import shlex
import sys
import tomllib
import types
from collections.abc import Callable
from pathlib import Path

import cloudpickle
import numpy as np
import pytest

from benchmarks import fixed_point_tables, gpu_cases, gpu_tables, million_tables
from benchmarks.edge_peer_table import edge_peer_table
from catchment import __version__
from catchment.features.echo_state import AUTO_GRID
from catchment.plans import parse_plan
from tests import pasted
from tests.commands import Done, typed, typed_apart

ROOT = Path(__file__).parents[1]
PAGES = sorted([*(ROOT / "docs").rglob("*.md"), *ROOT.glob("README.md")])
READMES = sorted(ROOT.glob("packages/*/README.md"))
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(page: Path) -> list[tuple[int, str]]:
    """Return the line and the text of each block of a page."""
    text = page.read_text(encoding="utf-8")
    return [(text[: m.start(1)].count("\n") + 1, m.group(1)) for m in BLOCK.finditer(text)]


FIRST_GUIDE = "guides/from-files-to-predictions.md"
VERIFY_GUIDE = "guides/verify.md"
# These mix Python with commands; they have tests of their own.
EDGE_GUIDE = "guides/edge.md"  # tests/engine/test_edge_guide.py
WEEKS_GUIDE = "guides/fleet-over-weeks.md"  # tests/plans/test_weeks.py
MIXED = {ROOT / "docs" / page for page in (FIRST_GUIDE, VERIFY_GUIDE, EDGE_GUIDE, WEEKS_GUIDE)}
# And these are compared with what they print.
FIRST = {ROOT / "README.md", ROOT / "docs" / "index.md"}
WITH_BLOCKS = [page for page in PAGES if blocks(page) and page not in MIXED | FIRST]


@pytest.mark.parametrize("page", WITH_BLOCKS, ids=lambda page: str(page.relative_to(ROOT)))
def test_blocks_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(ROOT / "examples" / "own")  # the files that pages show in full
    # A module, because dataclasses and pickling look their classes' module up.
    module = types.ModuleType("page")
    monkeypatch.setitem(sys.modules, "page", module)
    # To worker processes its functions are sent whole, as those of a script are.
    cloudpickle.register_pickle_by_value(module)
    for line, text in blocks(page):
        # Blank lines first, so that a traceback names the line of the page.
        exec(compile("\n" * (line - 1) + text, str(page), "exec"), module.__dict__)


PRINTED = re.compile(r"^```python\n((?:(?!```).*\n)*)```\n\n```text\n((?:(?!```).*\n)*)```$", re.M)
DIGITS = re.compile(r"\d+(?:\.\d+)?")


def test_the_first_lines_print_what_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    found = [PRINTED.findall(page.read_text(encoding="utf-8")) for page in sorted(FIRST)]
    ((code, shown),) = found[0]
    assert found[1] == found[0], "the README and the first page have the same lines"
    assert len([line for line in code.splitlines() if line]) <= 10
    exec(code, {"__name__": "page"})
    assert_printed(capsys.readouterr().out, shown)


def assert_printed(printed: str, shown: str) -> None:
    """Words must be equal, and numbers near."""
    assert DIGITS.sub("#", printed) == DIGITS.sub("#", shown)
    ours, theirs = (np.array(DIGITS.findall(text), float) for text in (printed, shown))
    np.testing.assert_allclose(ours, theirs, atol=0.02)


def test_pages_have_blocks() -> None:
    assert len(WITH_BLOCKS) >= 4


def test_links_to_files_lead_somewhere() -> None:
    missing = []
    for page in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "docs/index.md", *READMES]:
        text = page.read_text(encoding="utf-8")
        links = [link for link in re.findall(r"\]\(([^)#]+)[^)]*\)", text) if "://" not in link]
        missing += [(page, link) for link in links if not (page.parent / link).exists()]
    assert missing == []


def test_every_picture_is_shown_on_a_page() -> None:
    shown = re.compile(r"(?:!\[[^]]*\]\(|\{image\} )([^)\s]+)")
    links = [
        (page.parent / link).resolve()
        for page in PAGES
        for link in shown.findall(page.read_text(encoding="utf-8"))
    ]
    drawn = [*(ROOT / "results").glob("*.png"), *(ROOT / "docs" / "images").iterdir()]
    assert {one.name for one in set(drawn) - set(links)} == set()
    assert [one for one in links if not one.is_file()] == []


@pytest.mark.parametrize("page", READMES, ids=lambda page: page.parent.name)
def test_the_readme_of_a_package_prints_what_it_shows(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    ((code, shown),) = PRINTED.findall(page.read_text(encoding="utf-8"))
    exec(code, {"__name__": "page"})
    assert_printed(capsys.readouterr().out, shown)


def test_the_readme_of_a_package_walks_through_all_its_files() -> None:
    for page in READMES:
        text = page.read_text(encoding="utf-8")
        assert len(text.splitlines()) <= 100, page
        assert f"# {page.parent.name}\n" in text
        (source,) = (page.parent / "src").glob("catchment*")
        (walk,) = re.findall(r"^## The walk\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
        named = re.findall(r"`(\w+(?:/|\.py))`", walk)
        there = {path.name for path in source.glob("*.py")} - {"__init__.py", "__main__.py"}
        there |= {
            f"{path.relative_to(source).parts[0]}/"
            for path in source.glob("*/**/*")  # a removed folder may still hold what was compiled
            if path.is_file() and "__pycache__" not in path.parts
        }
        assert sorted(named) == sorted(there), page  # each of them once


def test_no_two_pages_have_one_title() -> None:
    titles: dict[str, list[str]] = {}
    for page in (ROOT / "docs").rglob("*"):
        if page.suffix not in {".md", ".ipynb"} or "_build" in page.parts:
            continue
        text = page.read_text(encoding="utf-8")
        if page.suffix == ".ipynb":
            text = "".join(json.loads(text)["cells"][0]["source"])
        (title, *_) = re.findall(r"^# (.+)$", text, re.MULTILINE)
        titles.setdefault(title.strip().casefold(), []).append(page.name)
    assert len(titles) > 50
    assert [pages for pages in titles.values() if len(pages) > 1] == []


def test_no_page_is_longer_than_a_sitting() -> None:
    pages = [page for page in PAGES if "_build" not in page.parts]
    assert [page.name for page in pages if len(page.read_text("utf-8").splitlines()) > 250] == []


def test_no_page_is_left_out_of_the_tables_of_contents() -> None:
    docs = ROOT / "docs"
    listed = [docs / "index"]
    for page in docs.rglob("*.md"):
        for tree in re.findall(r"```\{toctree\}\n(.*?)```", page.read_text(), re.DOTALL):
            lines = [line.strip() for line in tree.splitlines()]
            names = [line for line in lines if line and not line.startswith(":")]
            listed += [(page.parent / name).resolve() for name in names]
    files = [*docs.rglob("*.md"), *docs.rglob("*.ipynb")]
    pages = {page.with_suffix("") for page in files if "_build" not in page.parts}
    assert sorted(listed) == sorted(pages)  # each of them once


def test_the_citation_names_this_version() -> None:
    text = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"\nversion: {__version__}\n" in text


def test_the_table_of_extras_is_the_one_that_was_counted() -> None:
    text = (ROOT / "docs" / "guides" / "install.md").read_text(encoding="utf-8")
    counted = json.loads((ROOT / "benchmarks" / "results" / "install.json").read_text())["extras"]
    project = tomllib.loads((ROOT / "packages/catchment/pyproject.toml").read_text())["project"]
    extras = {*project["optional-dependencies"]}
    assert set(counted) == {"", *extras} - {"all", "aeon", "sktime"}
    for extra, row in counted.items():
        name = f"`{extra}`" if extra else r"\(none\)"
        figures = rf"\| {row['packages']} \| {row['megabytes']} \|"
        assert re.search(rf"^\| {name} \|[^|]+{figures}$", text, re.MULTILINE), extra


def test_what_the_core_could_do_without_is_what_was_measured() -> None:
    text = (ROOT / "docs" / "guides" / "install.md").read_text(encoding="utf-8")
    results = ROOT / "benchmarks" / "results"
    for name, one in json.loads((results / "kernels_in_c.json").read_text())["kernels"].items():
        times = one["microseconds"].values()
        assert f"(`{name}`) | {' | '.join(f'{each:g}' for each in times)}" in text
        assert one["same bits"]
        numba, here, *_ = times
        assert here < 1.1 * numba
    counted = json.loads((results / "install.json").read_text())
    core, left = counted["core"], counted["extras"][""]["megabytes"]
    seconds = json.loads((results / "first_prediction.json").read_text())["seconds"]
    clock = [seconds[f"predict, {how}"]["wall"] for how in ("precompiled", "nothing compiled")]
    assert max(clock) < 5
    assert "then takes {:g} s instead of {:g} s by".format(*clock) in " ".join(text.split())
    assert left < 350
    assert f"Of the {left} MB of the core: llvmlite {core['llvmlite']}" in " ".join(text.split())
    left -= core["llvmlite"] + core["numba"]
    assert f"shrink the core to {left:.0f} MB" in " ".join(text.split())


def test_the_table_of_c_beside_others_is_the_one_that_was_measured() -> None:
    measured = json.loads((ROOT / "benchmarks" / "results" / "edge_peers.json").read_text())
    assert edge_peer_table(measured) in (ROOT / "docs" / "guides" / "export-c.md").read_text()
    classes = [
        one["same class"] for size in ("20", "117") for one in measured[f"{size} features"].values()
    ]
    assert set(classes) == {1.0}


def test_figures_of_maps_are_those_that_were_measured() -> None:
    text = (ROOT / "docs" / "results.md").read_text()
    cells = json.loads((ROOT / "results" / "maps.json").read_text())["cells"]
    page = (ROOT / "docs" / "guides" / "random-convolutions.md").read_text()
    for method in ("default, 510", "window statistics", "MiniRocket, 504", "CNN by FedAvg"):
        for name in ("uci_har", "motionsense", "hhar", "wisdm_watch"):
            of = [c for c in cells if (c["set"], c["method"]) == (name, method)]
            if not of:
                continue
            right = np.array([[c["correct"][who] for who in c["windows"]] for c in of])
            n = np.array(list(of[0]["windows"].values()))
            # Within each seed somebody is worst, and it may be another every time.
            mean, worst = 100 * right.sum() / (len(of) * n.sum()), 100 * (right / n).min(axis=1)
            found = re.search(rf" {mean:.1f} \({worst.mean():.1f}\) / (\.\d+) ", text)
            assert found is not None
            both = f" {mean:.1f} / {found[1]} |"
            assert both in page or method in ("window statistics", "CNN by FedAvg")


def test_figures_of_own_readouts_are_those_that_were_measured() -> None:
    measured = json.loads((ROOT / "benchmarks" / "results" / "personal.json").read_text())
    page = (ROOT / "docs" / "guides" / "personal.md").read_text(encoding="utf-8")
    for row in measured["rows"]:
        cells = [f"{row[one]:.3f} ({row[f'macro_f1_{one}']:.3f})" for one in ("shared", "personal")]
        worst = [f"{row[f'worst_{one}']:.3f}" for one in ("shared", "personal")]
        start = f" | {' | '.join(cells + worst)} | {row['n_harmed']}"
        assert start + (f", by {-row['worst_change']:.3f} |" if row["n_harmed"] else " |") in page


def test_every_claim_about_privacy_names_a_test_that_is_there() -> None:
    page = (ROOT / "docs" / "privacy.md").read_text(encoding="utf-8")
    (table,) = re.findall(r"^\| claim \| .*?\n\n", page, re.MULTILINE | re.DOTALL)
    rows = [line for line in table.splitlines()[2:] if line.startswith("|")]
    assert len(rows) >= 12
    for row in rows:
        named = re.findall(r"`(test_[\w*]+(?:\.py)?)`", row)
        assert named, f"no test is named for: {row}"
        for name in named:
            places = (f"packages/*/tests/security/{name}", f"tests/security/{name}")
            assert any(one for place in places for one in ROOT.glob(place)), name


INTEGERS = (ROOT / "docs" / "concepts" / "integers-measured.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", fixed_point_tables.TABLES)
def test_tables_of_fixed_point_are_those_that_were_measured(name: str) -> None:
    table = fixed_point_tables.measured(name)
    _, shown = INTEGERS.split(f"<!-- table: {name} -->\n\n")
    if table is None:
        assert "(preliminary: " in shown.splitlines()[0]
    else:
        assert shown.startswith(f"{table}\n\n")


@pytest.mark.parametrize("name", gpu_tables.TABLES)
def test_tables_of_a_gpu_are_those_that_were_measured(name: str) -> None:
    _, shown = gpu_tables.PAGE.read_text(encoding="utf-8").split(f"<!-- table: {name} -->\n\n")
    assert shown.startswith(f"{gpu_tables.measured(name)}\n\n")


def test_repeats_on_a_gpu_are_those_that_were_measured() -> None:
    runs = json.loads((fixed_point_tables.RESULTS / "gpu.json").read_text("utf-8"))["repeats"][
        "runs"
    ]
    fresh = [run["CPU, /s"] for run in runs if run["turn"] == "new machine"]
    later = [run for run in runs if run["turn"] != "new machine"]
    page = gpu_tables.PAGE.read_text(encoding="utf-8").replace("\n", " ")
    for rates in (
        [one[0] for one in fresh],
        [rate for one in fresh for rate in one[1:]],
        [rate for run in later for rate in run["CPU, /s"]],
        [rate for run in later for rate in run["device, /s"]],
    ):
        assert f"{min(rates):,} to {max(rates):,}" in page


def test_every_map_has_one_digest_on_a_gpu() -> None:
    results = json.loads((fixed_point_tables.RESULTS / "gpu.json").read_text(encoding="utf-8"))
    digests = {line["map"]: line["same digest"] for line in results["digests"]}
    assert set(digests) == set(gpu_cases.CASES)
    assert all(digests.values())


def test_the_changelog_says_nothing_twice() -> None:
    lines = (ROOT / "CHANGELOG.md").read_text("utf-8").partition("\n## [0.2.0]")[0].splitlines()
    said = [line for line in lines if line and line not in ("| old | new |", "|---|---|")]
    assert sorted(said) == sorted(set(said))


@pytest.mark.parametrize("name", million_tables.TABLES)
def test_tables_of_many_clients_are_those_that_were_measured(name: str) -> None:
    table = million_tables.TABLES[name](json.loads(million_tables.FILE.read_text("utf-8")))
    _, shown = million_tables.PAGE.read_text("utf-8").split(f"<!-- table: {name} -->\n\n")
    assert shown.startswith(f"{table}\n\n")


def test_what_a_client_costs_a_worker_is_what_was_measured() -> None:
    told = json.loads((fixed_point_tables.RESULTS / "worker.json").read_text("utf-8"))
    before, after = (told["CPU microseconds a client"][when] for when in ("before", "after"))
    page = million_tables.PAGE.read_text("utf-8")
    named = {
        "reading, features and sums": "reading, features and sums",
        "messages, checks, ledger, addition": "all else",
        "all of a block": "all of a block",
    }
    for row, part in named.items():
        assert f"| {row} | {before[part]} | {after[part]} |" in page
    assert f"commits {before['commit']} and {after['commit']}" in page


def test_runs_of_many_clients_have_one_sum_and_one_model() -> None:
    runs = json.loads(million_tables.FILE.read_text("utf-8"))["runs"]
    ours = [run for run in runs if run["engine"] in million_tables.OURS]
    of = [(run["clients"], run.get("commit", "")) for run in ours]
    keys = [
        (*one, run["machine"]["processor"], run["machine"]["cores"])
        for one, run in zip(of, ours, strict=True)
    ]
    assert len(set(keys)) < len(keys)
    for name in ("sha256 of the sum", "sha256 of the model"):
        made = {(*key, run[name]) for key, run in zip(keys, ours, strict=True)}
        assert len(made) == len(set(keys))
    # What one code chooses from the sums is the same to the last digit, whoever built the map.
    chosen = {(*one, run["ridge"], run["accuracy"]) for one, run in zip(of, ours, strict=True)}
    assert len(chosen) == len(set(of))


def test_figures_of_a_gpu_are_those_that_were_measured() -> None:
    lines = json.loads((fixed_point_tables.RESULTS / "fixed_point_gpu.json").read_text())
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
def test_the_default_bits_are_those_of_the_library(page: str) -> None:
    text = (ROOT / "docs" / "concepts" / page).read_text(encoding="utf-8")
    for bits, feature_bits, largest in AUTO_GRID.values():
        assert f"{bits}, {feature_bits}, {largest:g}" in text


@pytest.mark.parametrize("page", ["integers", "analytic-federated-learning"])
def test_tests_that_a_page_names_are_there(page: str) -> None:
    text = (ROOT / "docs" / "concepts" / f"{page}.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`(test_\w+)`", text))
    files = [*ROOT.glob("tests/**/test_*.py"), *ROOT.glob("packages/*/tests/**/test_*.py")]
    code = "".join(path.read_text("utf-8") for path in files)
    assert len(named) > 6
    assert {name for name in named if f"def {name}(" not in code} == set()


def test_every_plan_of_the_page_on_analytic_learning_is_read() -> None:
    page = ROOT / "docs" / "concepts" / "analytic-federated-learning.md"
    text = page.read_text(encoding="utf-8")
    plans = re.findall(r"^```toml\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    assert len(plans) == 4
    for plan in plans:
        file = parse_plan(f'[data]\nsource = "wearables"\n{plan}')
        assert file.maps


PIECE = re.compile(r"^```(python|toml|console)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SHOWN = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
SCORE = re.compile(r"^(?:exact federated \*|all) +(0\.\d+)", re.MULTILINE)


def run_commands(text: str, run: Callable[..., Done] = typed) -> None:
    """Run the commands of a console block, and compare what they print with what it shows.

    Words must be equal, and accuracies near; other numbers depend on the machine.
    """
    for command, expected in re.findall(r"^\$ catchment (.*)\n((?:(?!\$ ).*\n)*)", text, re.M):
        refused = {"code": 2} if expected.startswith("error: ") else {}
        done = run(*shlex.split(command, comments=True), **refused)
        # Files that were written are named on stderr, as errors are.
        printed = done.stdout + (
            done.stderr if re.search("^(?:wrote|error)", expected, re.M) else ""
        )
        if not expected:
            continue
        ours, theirs = (re.sub(r"\b[0-9a-f]{8,64}\b", "hash", s) for s in (expected, printed))
        ours, theirs = (
            re.sub(r"\d+(?:\.\d+)?", "#", s).replace("hash...", "hash") for s in (ours, theirs)
        )
        assert doctest.OutputChecker().check_output(ours, theirs, SHOWN), printed
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


@pytest.mark.slow
@pytest.mark.parametrize("page", pasted.FILES)
def test_every_command_block_can_be_pasted(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    pasted.FILES[page]()
    names: dict[str, object] = {"__name__": "page"}
    pieces = PIECE.findall((ROOT / page).read_text(encoding="utf-8"))
    commands = "".join(text for language, text in pieces if language == "console")
    for language, text in pieces:
        if language == "console":
            run_commands(text)
        elif language == "toml":
            # Under the name that the commands of the page have for it.
            (name,) = set(re.findall(r"\S+\.toml", commands))
            Path(name).write_text(text, encoding="utf-8")
        elif page in pasted.WITH_PYTHON:
            exec(text, names)
    assert "$ catchment " in commands


def test_ten_guides_can_be_pasted() -> None:
    pages = {page for page in (*pasted.FILES, *pasted.ELSEWHERE) if "/guides/" in page}
    assert len(pages) >= 10
    assert all((ROOT / page).is_file() for page in pages)


def test_what_pip_installs_from_a_clone_is_there() -> None:
    text = "".join(page.read_text("utf-8") for page in (*PAGES, *READMES))
    places = set(re.findall(r"pip install[^#`]*? \"?(\./packages/[\w-]+)", text))
    assert "./packages/catchment" in places
    assert [place for place in places if not (ROOT / place / "pyproject.toml").is_file()] == []


OWN_MAP = """
[data]
source = "wearables"
users = 16
test = 0.25

[[protections]]
name = "secure_aggregation"
min_clients = 10
rows_per_feature = 10.0

"""


def test_a_plan_names_a_map_of_ones_own_and_hides_it_under_secure_aggregation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = (ROOT / "docs" / "guides" / "write-your-own.md").read_text(encoding="utf-8")
    (shown,) = re.findall(r"^```toml\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    (tmp_path / "plan.toml").write_text(OWN_MAP + shown, encoding="utf-8")
    module = (ROOT / "examples" / "own" / "window_statistics.py").read_text(encoding="utf-8")
    (tmp_path / "window_statistics.py").write_text(module, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    # In processes of their own, because the map's module is found in the folder.
    trained = "$ catchment run plan.toml\n...12 of 12 clients trained...\n...\n"
    run_commands(trained, typed_apart)
    rows = "".join(f"{t},{t % 5},0,0,0,0,{t % 3}\n" for t in range(50))
    Path("new.csv").write_text(
        "t,acc-forward,acc-left,acc-up,gyro-roll,gyro-pitch,gyro-yaw\n" + rows, encoding="utf-8"
    )
    with pytest.raises(AssertionError, match="--use window_statistics:WindowStatistics"):
        run_commands("$ catchment predict runs/plan new.csv\n...\n", typed_apart)
    use = "--use window_statistics:WindowStatistics"
    predicted = f"$ catchment predict runs/plan new.csv {use}\nfile,recording,start,...\n"
    run_commands(predicted, typed_apart)


def test_a_package_of_ones_own_brings_a_map_an_algorithm_and_a_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = ROOT / "examples" / "package"
    project = tomllib.loads((package / "pyproject.toml").read_text("utf-8"))["project"]
    # What pip would have installed: the module, and beside it what the project brings.
    (tmp_path / "tides.py").write_text((package / "tides.py").read_text("utf-8"), "utf-8")
    told = tmp_path / f"{project['name']}-{project['version']}.dist-info"
    told.mkdir()
    (told / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n"
    )
    groups = [
        "\n".join([f"[{group}]", *(f"{name} = {place}" for name, place in brought.items())])
        for group, brought in project["entry-points"].items()
    ]
    (told / "entry_points.txt").write_text("\n".join(groups))
    monkeypatch.chdir(tmp_path)  # where a process of its own finds modules
    text = (ROOT / "docs" / "api" / "plugins.md").read_text("utf-8")
    pieces = dict(PIECE.findall(text))
    Path("plan.toml").write_text(pieces["toml"], "utf-8")
    run_commands(pieces["console"], typed_apart)
