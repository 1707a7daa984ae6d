"""The report: what it says, that it asks no one for anything, and how a real browser shows it."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from catchment.federation.measure.comparison import Comparison, Row
from catchment.federation.measure.outliers import Flag
from catchment.federation.messages import Record, Refusal
from catchment.federation.runs.explain import in_words
from catchment.federation.runs.read import Drawn, Run, read_run
from catchment.plans.conductor import run_plan
from catchment.plans.examples import example_plan
from catchment.plans.file import parse_plan
from catchment.report.html import MOST_CLIENTS, MOST_ROUNDS, render, write_report
from catchment.report.svg import Axis, Line, dot_chart, line_chart

BROWSER = next(
    (
        found
        for name in ("chromium", "chromium-browser", "google-chrome")
        if (found := shutil.which(name))
    ),
    None,
)
needs_browser = pytest.mark.skipif(
    BROWSER is None, reason="no chromium here; run `make browser` (or install chromium) to run this"
)
VOID = {"meta", "br", "hr", "img", "input", "link"}
REFERRING = ("href", "src", "srcset", "data", "action")


class Checked(HTMLParser):
    """Reads a page, sees that every tag is closed, and gathers what it refers to and says."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.links: list[str] = []
        self.words: list[str] = []
        self.feed(page)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in VOID:
            self.open.append(tag)
        self.links += [
            v or "" for k, v in attrs if k in ("href", "src", "srcset", "data", "action")
        ]
        assert not [name for name, _ in attrs if name.startswith("on")]

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        pass

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if not self.open or self.open[-1] != "style":
            self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Two small runs: classes, and a forecast."""
    place = tmp_path_factory.mktemp("runs")
    small = {"users = 16": "users = 6", "units = 100": "units = 20", "units = 200": "units = 20"}
    made = []
    for name in ("wearables", "mackey_glass"):
        text = example_plan(name).replace("steps = 4000", "steps = 900")
        for large, less in small.items():
            text = text.replace(large, less)
        run_plan(parse_plan(text), place / name)
        made.append(place / name)
    return made


@pytest.fixture(scope="module")
def runs(folders: list[Path]) -> list[Run]:
    return [read_run(folder) for folder in folders]


def test_it_says_what_was_run_and_found(runs: list[Run]) -> None:
    page = Checked(render(runs[:1]))
    run = runs[0]
    assert "Activities of people with wearables" in page.text
    worst = min((v["accuracy"], name) for name, v in run.scores.items() if name)
    assert f"worst client: {worst[1]}" in page.text
    assert f"{100 * run.scores['']['accuracy']:.1f} %" in page.text
    assert run.comparison is not None
    assert all(row.name in page.text for row in run.comparison)
    for heading in (
        "Compared with other ways",
        "Every client",
        "Choosing the ridge",
        "What is taken for what",
        "What left the clients",
        "What never left",
        "Rounds",
        "What was run",
    ):
        assert heading in page.text
    assert "Statistics are not anonymous." in page.text
    assert "have fewer rows than the" in page.text
    assert run.facts["features_fingerprint"] in page.text
    assert "[learn]" in page.text  # the plan itself


def test_clients_that_stand_out_are_named(runs: list[Run]) -> None:
    page = Checked(render([replace(runs[0], flags=(Flag("mallory", 3.5, 7.25),))]))
    assert "Clients that stand out" in page.text
    assert "mallory: mean squared error 3.5" in page.text
    assert "Clients that stand out" not in render([replace(runs[0], flags=())])


def test_it_draws_forecasts(runs: list[Run]) -> None:
    page = Checked(render(runs[1:]))
    assert "Predictions" in page.text
    assert "What is taken for what" not in page.text
    assert "NRMSE: less is better" in page.text


def test_several_runs_share_a_page(folders: list[Path], tmp_path: Path) -> None:
    path = write_report(folders, tmp_path / "both.html")
    page = Checked(path.read_text(encoding="utf-8"))
    assert page.links == ["#run-0", "#run-1"]
    with pytest.raises(ValueError, match="no runs"):
        write_report([], tmp_path / "none.html")
    with pytest.raises(FileNotFoundError, match="holds no run"):
        write_report([tmp_path], tmp_path / "none.html")


def test_it_asks_no_one_for_anything(runs: list[Run]) -> None:
    page = render(runs)
    assert "default-src 'none'" in page
    assert not re.findall(r"https?://|//[a-z]|url\(|@import|<script|<link|<iframe|<img", page)
    assert all(link.startswith("#") for link in Checked(page).links)


def test_names_cannot_break_out(runs: list[Run]) -> None:
    evil = '</style><script>alert("1")</script>&<b x="'
    run = runs[0]
    scores = {evil if name else "": values for name, values in run.scores.items()}
    refused = Record(0, 1, 0, 0.1, 1, 1, (Refusal(evil, evil, evil),))
    told = [Record(k, 1, 1, 0.1, 1, 1, (), {evil: k, f"{evil}{k}": k}) for k in range(2)]
    rows = (Row(evil, "accuracy", 0.5, evil, 0.1, 0.1, note=evil),)
    changed = replace(
        run,
        facts={**run.facts, "title": evil, "source": evil, "features_fingerprint": evil},
        scores=scores,
        classes=tuple(f"{evil}{k}" for k in range(len(run.classes))),
        comparison=Comparison(rows),
        rounds={evil: (refused,), "training": tuple(told)},
    )
    page = render([changed])
    assert "<script" not in page
    assert "<b x=" not in page
    Checked(page)


def test_an_unfinished_run_can_be_shown(runs: list[Run]) -> None:
    run = replace(
        runs[0],
        facts={"title": "half"},
        scores={},
        comparison=None,
        confusion=None,
        path=None,
        rounds={},
        traffic=(),
    )
    page = Checked(render([run]))
    assert "The run is not finished." in page.text
    assert "Nothing yet." in page.text


def test_many_clients_and_rounds_stay_readable(runs: list[Run]) -> None:
    n = 500
    values = {f"client-{k:03d}": {"accuracy": k / n} for k in range(n)}
    many = {"training": tuple(Record(k, 5, 5, 0.1, 1, 1) for k in range(MOST_ROUNDS + 1))}
    page = render([replace(runs[0], scores={"": {"accuracy": 0.5}, **values}, rounds=many)])
    assert page.count("<circle") == MOST_CLIENTS
    assert f"The worst {MOST_CLIENTS} of {n} are drawn." in page
    assert "client-000" in page
    assert f"<summary>All {MOST_ROUNDS + 1} rounds</summary>" in page


@pytest.fixture(scope="module")
def descent(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Return a small run of several rounds that record a loss."""
    text = example_plan("gradient").replace("units = 60", "units = 20")
    folder = tmp_path_factory.mktemp("descent") / "run"
    run_plan(parse_plan(text.replace("rounds = 20", "rounds = 8")), folder)
    return read_run(folder)


def test_figures_are_drawn_round_by_round(descent: Run) -> None:
    records = descent.rounds["training"]
    assert len(records) == 8
    page = render([descent])
    assert "Round by round" in Checked(page).text
    for name in ("training loss", "weight norm"):
        chart = re.search(rf'<svg[^>]*aria-label="{name} after every round.*?</svg>', page)
        assert chart is not None
        values = np.array([record.figures[name] for record in records])
        np.testing.assert_allclose(_read_off(chart[0]), values, atol=0.002 * np.ptp(values))


def _read_off(chart: str) -> list[float]:
    """Return the heights of a line's points, by the numbers at the grid beside it."""
    (points,) = re.findall(r'<polyline class="s0" points="([^"]*)"', chart)
    grid = re.findall(r'y="([\d.]+)" text-anchor="end">([-\d.e]+)<', chart)
    places, numbers = np.array([(float(y) - 4, float(text)) for y, text in grid]).T
    slope, start = np.polyfit(places, numbers, 1)
    return [start + slope * float(point.split(",")[1]) for point in points.split()]


def test_a_figure_of_one_round_is_a_number(runs: list[Run]) -> None:
    page = Checked(render(runs[:1]))
    error = runs[0].rounds["training"][0].figures["held-out error"]
    assert "Round by round" in page.text
    assert f"training held-out error {error:.4g}" in page.text
    bare = replace(runs[0], rounds={"training": (Record(0, 1, 1, 0.1, 1, 1),)})
    assert "Round by round" not in render([bare])


def test_rounds_are_counted_in_whole_numbers() -> None:
    for n in (2, 3, 7, 40):
        ticks = Axis.around(np.arange(1.0, n + 1), whole=True).ticks()
        assert ticks
        assert all(tick == round(tick) and 1 <= tick <= n for tick in ticks)


def test_what_a_loss_tells_is_explained(descent: Run) -> None:
    told = in_words(descent, [])
    assert "the mean loss of these steps" in told
    assert "how well the shared model fits this one client's data" in told


def test_scores_that_are_not_defined(runs: list[Run]) -> None:
    values = {"": {"NRMSE": 0.5}, "a": {"NRMSE": float("nan")}, "b": {"NRMSE": 0.7}}
    run = replace(
        runs[1],
        scores=values,
        forecast=Drawn("b", ("y",), np.array([[1.0], [np.nan]]), np.array([[1.0], [2.0]])),
        comparison=Comparison((Row("x", "NRMSE", float("nan")),)),
    )
    page = Checked(render([run]))
    assert "not defined" in page.text
    assert "worst client: b" in page.text
    assert "nan" not in page.text.lower().replace("finance", "")


@pytest.mark.parametrize("log", [False, True])
@pytest.mark.parametrize("values", [[1.0, 2.0], [3.0, 3.0], [1e-9, 1e9], [1.0], [0.2, np.nan]])
def test_axes_hold_their_values(values: list[float], log: bool) -> None:
    axis = Axis.around(np.array(values), log=log)
    known = [v for v in values if np.isfinite(v)]
    assert all(0 <= axis.place(v) <= 1 for v in known)
    ticks = axis.ticks()
    assert ticks == sorted(ticks)
    assert 1 <= len(ticks) <= 12
    assert all(-1e-9 <= axis.place(tick) <= 1 + 1e-9 for tick in ticks)


def test_lines_break_where_values_are_missing() -> None:
    x = np.arange(5.0)
    y = np.array([1.0, 2.0, np.nan, 3.0, 4.0])
    assert line_chart([Line(x, y, "s0")], label="a line").count("<polyline") == 2
    assert line_chart([Line(x, y - 2, "s0")], label="l", log_y=True).count("<polyline") == 1


def test_long_names_are_cut_in_the_chart_only() -> None:
    chart = dot_chart(["x" * 60], [0.5], label="l", x_label="score", marked="x" * 60)
    assert "x" * 15 + "…" in chart
    assert "x" * 17 not in chart
    assert 'class="s1"' in chart


def browser(*arguments: str, page: Path, place: Path) -> str:
    """Run the browser without a window on a page, and return what it prints."""
    assert BROWSER is not None
    command = [
        BROWSER,
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--hide-scrollbars",
        "--no-first-run",
        f"--user-data-dir={place / 'profile'}",
        *arguments,
        page.as_uri(),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    return done.stdout


def pixels(path: Path) -> np.ndarray[tuple[int, ...], np.dtype[np.uint8]]:
    image = pytest.importorskip("PIL.Image")
    return np.asarray(image.open(path).convert("RGB"), dtype=np.uint8)


# A page that measures the report in a frame of a phone's width, and says what it found.
_MEASURE = """<!doctype html><body style="margin:0"><iframe id="f" style="width:390px;height:844px;
border:0" srcdoc="{page}"></iframe><script>
onload = () => {{ const d = document.getElementById("f").contentDocument;
const small = [...d.querySelectorAll(".chart text")].map(t =>
  parseFloat(getComputedStyle(t).fontSize) * t.closest("svg").clientWidth / 400);
document.body.dataset.found = JSON.stringify({{
  wide: d.documentElement.scrollWidth, charts: d.querySelectorAll("svg").length,
  smallest: Math.min(...small), rules: d.styleSheets[0].cssRules.length,
  tiles: d.querySelectorAll(".tile").length,
  font: getComputedStyle(d.querySelector("p")).fontSize }}); }};
</script></body>"""


@needs_browser
def test_it_fits_a_phone(runs: list[Run], tmp_path: Path) -> None:
    page = render(runs).replace("&", "&amp;").replace('"', "&quot;")
    # Within a frame of our own the policy would forbid the frame's content to be styled.
    page = page.replace("Content-Security-Policy", "X-None")
    measuring = tmp_path / "measure.html"
    measuring.write_text(_MEASURE.format(page=page), encoding="utf-8")
    dom = browser("--dump-dom", "--virtual-time-budget=5000", page=measuring, place=tmp_path)
    told = re.search(r'data-found="([^"]*)"', dom)
    assert told is not None
    found = json.loads(told[1].replace("&quot;", '"'))
    assert found["wide"] <= 390  # nothing sticks out sideways
    assert found["charts"] >= 4
    assert found["smallest"] >= 10
    assert found["font"] == "16px"
    assert found["tiles"] == 12


@needs_browser
def test_it_follows_light_and_dark(runs: list[Run], tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    page.write_text(render(runs[:1]), encoding="utf-8")
    shots = {}
    for name, scheme in (("light", "1"), ("dark", "0")):
        path = tmp_path / f"{name}.png"
        browser(
            f"--screenshot={path}",
            "--window-size=1000,1400",
            f"--blink-settings=preferredColorScheme={scheme}",
            page=page,
            place=tmp_path,
        )
        shots[name] = pixels(path)
    assert shots["light"].shape == shots["dark"].shape == (1400, 1000, 3)
    assert tuple(shots["light"][2, 2]) == (0xFF, 0xFF, 0xFF)
    assert tuple(shots["dark"][2, 2]) == (0x14, 0x18, 0x1D)
    # Both show charts: there is colour, not only grey.
    for shot in shots.values():
        spread = shot.max(axis=2).astype(int) - shot.min(axis=2)
        assert (spread > 60).mean() > 0.001


@needs_browser
def test_a_browser_reads_all_of_it(runs: list[Run], tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    page.write_text(render(runs), encoding="utf-8")
    dom = browser("--dump-dom", page=page, place=tmp_path)
    for text in ("What left the clients", "What never left", "Choosing the ridge", "Predictions"):
        assert text in dom
    assert dom.count("<article") == 2
