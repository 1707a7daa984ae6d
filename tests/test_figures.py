"""Every figure of the README and of docs/results.md is in a file that a script wrote."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks import families
from benchmarks.lockstep import LOCKSTEP
from benchmarks.measured_tables import PAGES, with_tables
from reproductions.anomaly_values import figures as skab_figures
from reproductions.anomaly_values import load_anomaly
from reproductions.arena import PUBLISHED, load_arena
from reproductions.fedresprompt_costs import cost_to_reach
from reproductions.fedresprompt_values import load_prompts
from reproductions.forecast_study import covered, root_mean
from reproductions.forecast_study import of as cells_of
from reproductions.forecast_weather import HORIZONS
from reproductions.life import MAIN, load_life, rmse
from reproductions.life_data import CAP
from reproductions.life_tables import PUBLISHED as QUOTED
from reproductions.life_tables import over_engines
from reproductions.map_methods import NOTHING_SET
from reproductions.map_pooled import LOGISTIC
from reproductions.map_values import MapsResult, load_maps
from reproductions.scales import load_scales, mean_of

ROOT = Path(__file__).parents[1]


def kept(path: str) -> Any:
    return json.loads((ROOT / path).read_text(encoding="utf-8"))


def benchmark(name: str) -> Any:
    return kept(f"benchmarks/results/{name}.json")


def words(page: str) -> str:
    return " ".join((ROOT / page).read_text(encoding="utf-8").split())


@pytest.mark.parametrize("page", PAGES)
def test_tables_are_those_that_were_measured(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    assert with_tables(text, PAGES[page]) == text, "python -m benchmarks.measured_tables --write"


def test_no_table_of_measured_figures_is_typed_in() -> None:
    text = (ROOT / "docs" / "results.md").read_text(encoding="utf-8")
    tables = re.findall(r"^\|---", text, re.MULTILINE)
    assert len(tables) == len(PAGES["docs/results.md"]) == text.count("<!-- table: ")


def whole_jobs() -> list[str]:
    jobs = benchmark("peers")["jobs"].values()
    default = [job["speed_against_default"] for job in jobs]
    best = [job["speed_against_best_peer"] for job in jobs]
    return [
        f"{min(default):.1f} to {max(default):.1f} times as fast as esnfed as it comes, "
        f"{min(best):.1f} to {max(best):.1f} times as fast as the best path of any peer"
    ]


def lockstep(*, every: bool) -> str:
    """Return how much faster ours is than the best in lockstep, or than numpy's plain form."""
    ratios = [
        min(job["cpu_seconds"][name] for name in ([*LOCKSTEP] if every else ["numpy"]))
        / job["cpu_seconds"]["catchment"]
        for part in benchmark("lockstep")["machines"]
        for job in part["jobs"].values()
    ]
    return f"{min(ratios):.1f} to {max(ratios):.1f} times as fast as"


def rates(row: str = "rows") -> dict[tuple[str, bool], str]:
    """Return client trainings a second by runner, and whether the whole network was trained."""
    return {
        (one["runner"], one["trained_percent"] == 100): f"{one['clients_per_second']:.0f}"
        for one in benchmark("partial")[row]
    }


def race() -> list[str]:
    rate, again = rates(), rates("again, while other programs used the GPU")
    once = benchmark("partial")["build_seconds"]
    call = 14 / float(rate["flower 14 actors", False])
    return [
        f"{rate['catchment', False]} where a plain torch loop does {rate['loop', False]}, pfl "
        f"{rate['pfl', False]} and Flower's simulation {rate['flower 14 actors', False]}",
        f"with everything trained {rate['catchment', True]} where the loop does "
        f"{rate['loop', True]}",
        f"ours did {again['catchment', False]}, the loop {again['loop', False]} and pfl "
        f"{again['pfl', False]}",
        f"takes {once:.3f} s of about {call:.2f}",
    ]


def prompts() -> list[str]:
    result = load_prompts(ROOT / "results" / "fedresprompt.json")
    found = {(one.variant.method, one.variant.rank): one for one in cost_to_reach(result, 0.88)}
    ours, plain = found["subspace", 0], found["prompt", 0]
    eight, four = found["lora", 8], found["lora", 4]
    few = [theirs.median_federation / ours.median_federation for theirs in (eight, four, plain)]
    asked = [theirs.median_whole / ours.median_whole for theirs in (eight, four)]
    sent = {m: np.mean([c.bytes_federated for c in result.of("sst2", m)]) for m in METHODS}
    whole = {m: sent[m] + np.mean([c.bytes_asked for c in result.of("sst2", m)]) for m in METHODS}
    closed, readout = (
        [100 * c.test for c in result.of("uci_har", m)] for m in ("closed-form", "ridge")
    )
    return [
        f"{few[0]:.0f} times fewer bytes than LoRA of rank 8 and {few[1]:.0f} times fewer than "
        f"LoRA of rank 4; with the model on a server it is {asked[0]:.1f} and {asked[1]:.1f} times",
        f"{few[2]:.0f} times fewer than the plain prompt",
        f"{ours.median_whole / plain.median_whole:.1f} times as many as the plain prompt",
        "{:.0f} and {:.0f} times fewer".format(*(sent["lora"] / sent[m] for m in METHODS[1:])),
        "{:.0f} and {:.0f} with the model".format(*(sent["lora"] / whole[m] for m in METHODS[1:])),
        f"{np.mean(closed):.1f} ± {np.std(closed, ddof=1):.1f} % on unseen subjects",
        f"readout has {np.mean(readout):.1f} ± {np.std(readout, ddof=1):.1f} from",
        f"has {100 * result.of('sst2', 'zero-shot')[0].test:.1f} %",
    ]


METHODS = ("lora", "subspace", "reservoir")


def networks() -> list[str]:
    rows = kept("results/fedpt.json")["rows"]
    (share,) = {f"{row['percent']:.2f} %" for row in rows if row["part"] == "hundred"} - {
        "100.00 %"
    }
    less = max(row["reduction"] for row in rows if row["part"] == "writers")
    (writers,) = {row["n_clients"] for row in rows if row["part"] == "hundred"}
    held = kept("results/fedpt.json")["settings"]["hundred"]["held_out"]
    return [
        f"{share} of it trained",
        f"sends {less:.0f} times less",
        f"the {writers} writers",
        f"{held} unseen writers",
    ]


def series() -> list[str]:
    result = benchmark("dynamics")
    names = ("DiagonalReservoir", "EchoState", "NVAR", "linear, last 30 inputs")
    shown = [
        ", ".join(f"{on[name]['nrmse']:.3f}" for on in result["dynamics"].values())
        for name in names
    ]
    faster = [
        job["us a step"]["float64"] / job["us a step"][task]
        for job in result["jobs"].values()
        for task in ("NARMA-10", "Mackey-Glass")
    ]
    beside = [
        cell["state_bytes"]
        for cell in kept("results/streams.json")["cells"]
        if cell["contender"] == "exponential means beside a reservoir 100"
    ]
    plain = benchmark("defaults")["tasks"]["NARMA-10, 200 units"]["mean_now"]
    return [
        f"diagonal reservoir {shown[0]}; random reservoir {shown[1]}; quadratic delays (NG-RC) "
        f"{shown[2]}; linear {shown[3]}",
        f"{min(faster):.1f} to {max(faster):.1f} times as fast as the random one",
        f"{beside[0]} bytes of memory",
        f"nothing set has {plain:.2f} on NARMA-10",
    ]


def ted() -> list[str]:
    error = {row["forecaster"]: row["nrmse"] for row in benchmark("selection")["ted_spread"]}
    fixed, chosen = (
        error[f"reservoir, peer's settings, ridge {how}"] for how in ("1e-6", "chosen")
    )
    peer = error["esnfed, settings of its experiment"]
    return [f"from {fixed:.3f} to {chosen:.3f};", f"from {peer:.3f} to {fixed:.3f} is"]


def memory_and_clients() -> list[str]:
    peak = benchmark("peers")["peak_megabytes"]["A6"]
    seconds = {
        name: one["all cores, wall"] for name, one in benchmark("scale")["peers"]["seconds"].items()
    }
    return [
        f"A6 needs {peak['catchment']:.1f} MB of extra memory, esnfed {peak['esnfed']:.0f} MB",
        f"1 000 clients take {seconds['catchment']:.2f} s against {seconds['esnfed']:.2f} s with "
        f"esnfed and {seconds['reservoirpy, pooled']:.1f} s with ReservoirPy",
    ]


def people() -> MapsResult:
    return load_maps(ROOT / "results" / "maps.json")


SHORT = {"uci_har": "UCI HAR", "motionsense": "MotionSense", "hhar": "HHAR", "wisdm_watch": "WISDM"}


def accuracy(method: str) -> dict[str, float]:
    """Return a method's accuracy on every set of people, in per cent."""
    rows = {name: people().row(name, method) for name in SHORT}
    return {name: 100 * row.accuracy for name, row in rows.items() if row is not None}


def ahead() -> list[str]:
    """Return how far the best with pooled data is ahead of the default, where it is."""
    ours, found = accuracy(NOTHING_SET), []
    for name, words in SHORT.items():
        best = families.activity(people(), name)[families.POOLED_DATA].value
        if 100 * best - ours[name] > 0.05:
            found.append(f"{100 * best - ours[name]:.1f} points on {words}")
    return found


def readouts() -> list[str]:
    """Return how the ridge compares with logistic regression on the same columns."""
    first = {name: people().row(name, "default, 510") for name in SHORT}
    ridge = {name: 100 * row.cells[0].accuracy for name, row in first.items() if row}
    logistic = accuracy(LOGISTIC)
    differences = {SHORT[name]: ridge[name] - value for name, value in logistic.items()}
    shown = ", ".join(f"{gain:+.1f} points on {name}" for name, gain in differences.items())
    return [f"beside logistic regression on the same columns it has {shown}"]


def auto() -> list[str]:
    """Return what "auto" sends more than the default, having checked that it is nowhere worse."""
    result = people()
    rows = {
        name: [row for one in ("auto", "default, 510") if (row := result.row(name, one))]
        for name in dict.fromkeys(cell.set for cell in result.cells)
    }
    assert len(rows) == 10
    assert all(chosen.accuracy >= default.accuracy for chosen, default in rows.values())
    sent = [a.largest("largest_up") / b.largest("largest_up") for a, b in rows.values()]
    same = sum(chosen.accuracy == default.accuracy for chosen, default in rows.values())
    return [
        f"on {same} of {len(rows)} sets the default's to the digit, for {min(sent):.1f} to "
        f"{max(sent):.1f} times the bytes"
    ]


def test_the_table_of_speech_is_that_of_its_results() -> None:
    def table(page: str) -> list[list[str]]:
        lines = (ROOT / page).read_text(encoding="utf-8").splitlines()
        first = next(k for k, line in enumerate(lines) if line.startswith("| map | features "))
        last = lines.index("", first) if "" in lines[first:] else len(lines)
        return [line.strip("| ").split(" | ") for line in lines[first:last] if "---" not in line]

    shown, measured = table("docs/research/unseen.md"), table("results/speech.md")
    wanted = [measured[0].index(name) for name in shown[0]]
    assert sorted(shown) == sorted([row[k] for k in wanted] for row in measured)


def speech() -> list[str]:
    cells = kept("results/speech.json")["cells"]
    mean = {
        name: 100 * float(np.mean([c["accuracy"] for c in cells if c["method"] == name]))
        for name in {c["method"] for c in cells}
    }
    without = {name: value for name, value in mean.items() if name.startswith("mel")}
    federated = max(value for name, value in without.items() if "pooled" not in name)
    pooled = max(value for name, value in without.items() if "pooled" in name)
    return [
        f"{mean['speech encoder, all seven']:.1f} % with a frozen encoder",
        f"{federated:.0f} % with the best map that needs none",
        f"{pooled:.0f} % by an SVM on pooled data",
    ]


UCR = ("ArrowHead", "GunPoint", "ItalyPowerDemand", "ACSF1")


def archive() -> list[str]:
    """Return what maps of 10 000 columns take, having checked by how much they are ahead."""
    cells = [cell for cell in kept("results/maps.json")["cells"] if cell["set"] in UCR]

    def of(method: str) -> list[Any]:
        return [cell for cell in cells if cell["method"] == method]

    def mean(method: str) -> float:
        shares = [sum(c["correct"].values()) / sum(c["windows"].values()) for c in of(method)]
        return 100 * float(np.mean(shares))

    wide = ("MiniRocket, 9996 over rounds", "MiniRocket of aeon, pooled, 9996")
    assert all(0.8 < mean(method) - mean("default, 510") < 2.2 for method in wide)
    sizes = [cell["largest_up"] / 1e6 for cell in of(wide[0])]
    return [
        "maps of 10 000 columns are ahead of 510 by one or two points; "
        f"ours then needs {min(sizes):.0f} to {max(sizes):.0f} MB over rounds"
    ]


def anomalies() -> list[str]:
    path = ROOT / "results" / "anomaly.json"
    result, best = load_anomaly(path), families.skab(path)
    means, units, own = (
        skab_figures(result.of("skab", *key)).f1
        for key in (
            ("trailing means", "federated"),
            ("reservoir", "federated"),
            ("reservoir", "personal"),
        )
    )
    return [
        f"F1 {means:.3f} federated, {best[families.LOCAL].value:.3f} trained locally, "
        f"{best[families.NO_DETECTOR].value:.3f} always-alarm",
        f"a reservoir has {units:.3f}, about each run's own mean {own:.3f}",
    ]


def cycles_left() -> list[str]:
    path = ROOT / "results" / "life.json"
    result, best = load_life(path), families.life(path)
    true = np.minimum(result.cycles_left, CAP)
    ours = np.mean([rmse(cell.predicted, true) for cell in result.of(MAIN)])
    low, high = over_engines(result.of(MAIN)[0], true)
    quoted = QUOTED["deep CNN, Li et al. 2018"][0]
    return [
        f"RMSE {ours:.1f} cycles (95 % CI {low:.1f} to {high:.1f}); linear on lags "
        f"{best[families.LINEAR].value:.1f}; gradient boosting on pooled data "
        f"{best[families.POOLED_DATA].value:.1f}; age alone "
        f"{best[families.NO_SENSORS].value:.1f}; published centralized CNN {quoted:.1f}"
    ]


def forecasts() -> list[str]:
    cells = kept("results/forecast.json")["cells"]
    best = families.weather(ROOT / "results" / "forecast.json")
    own = cells_of(cells, "weather", "+ personal readouts")
    held = [100 * covered(own, "0.95", h)[0] for h in HORIZONS]
    return [
        f"RMSE {root_mean(own, 6)[0]:.2f} K with personal readouts, "
        f"{best[families.LOCAL].value:.2f} K trained locally, "
        f"{best[families.POOLED_DATA].value:.2f} K by gradient boosting on pooled data, "
        f"{best[families.NO_MODEL].value:.2f} K {best[families.NO_MODEL].row}",
        f"95 % intervals covered {min(held):.1f} to {max(held):.1f} %",
    ]


def scaling() -> list[str]:
    """Return what training people and short files say of a scale of one's own."""
    cells = load_scales(ROOT / "results" / "scales.json")
    shared, own, minute = (
        [100 * mean_of(cells, name, *key) for name in SHORT]
        for key in (
            ("federated", "everything"),
            ("own", "everything"),
            ("own", "a minute, one activity"),
        )
    )
    gains = [b - a for a, b in zip(shared, own, strict=True)]
    return [
        f"by {min(gains):+.1f} to {max(gains):+.1f} points on left-out training people",
        f"of one minute of one activity, accuracy is {min(minute):.0f} to {max(minute):.0f} %",
    ]


def secure_bytes() -> list[str]:
    sent = kept("results/maps_secure.json")["uci_har"]
    clear, secure, small = (sent[way] / 1e6 for way in ("clear", "secure", "secure, 32 bits"))
    return [
        f"{clear:.1f} MB for an activity model",
        f"{secure:.1f} MB under secure aggregation, {small:.2f} with `bits=32`",
    ]


def arena() -> list[str]:
    result = load_arena(ROOT / "results" / "arena.json")
    found = []
    for name in ("uci_har", "motionsense"):
        value = np.mean([cell.macro_f1 for cell in result.of(name, "default, nothing set")])
        found.append(f"{SHORT[name]} {value:.3f} (the best of its networks {PUBLISHED[name][1]})")
    return found


def fleet() -> list[str]:
    errors = benchmark("fleet_over_weeks")["NRMSE"]
    own, shared = (
        np.mean([week["pump 3"] for week in errors[name][7:]])
        for name in ("personal, forgetting 0.7", "shared, forgets nothing")
    )
    return [f"NRMSE {own:.3f} with a personal readout that forgets, {shared:.3f} with the shared"]


def gpu() -> list[str]:
    states = benchmark("gpu")["echo_states"][0]
    assert (states["units"], states["sequences"]) == (1000, 256)
    return [
        f"{states['grid']:.1f} million client-steps a second through 1000 units",
        f"under CUDA graphs does {states['plain graph']:.1f}",
    ]


FIGURES: dict[str, list[Callable[[], list[str]]]] = {
    "README.md": [speech, ahead, secure_bytes],
    "docs/results.md": [
        whole_jobs,
        ahead,
        readouts,
        auto,
        scaling,
        secure_bytes,
        arena,
        speech,
        archive,
        anomalies,
        cycles_left,
        forecasts,
        fleet,
        gpu,
        series,
        ted,
        memory_and_clients,
        lambda: [
            f"{lockstep(every=True)} the best of them, and {lockstep(every=False)} numpy with W as "
            "an array",
            f"{rates()['catchment', False]} client trainings a second where a plain torch loop "
            f"does {rates()['loop', False]}",
        ],
    ],
    "docs/guides/preprocessing.md": [scaling],
    "docs/research/fedpt.md": [race, networks],
    "docs/research/prompts.md": [prompts],
}


@pytest.mark.parametrize(
    ("page", "figures"), [(page, one) for page, several in FIGURES.items() for one in several]
)
def test_sentences_have_the_figures_that_were_measured(
    page: str, figures: Callable[[], list[str]]
) -> None:
    text = words(page)
    assert [figure for figure in figures() if figure not in text] == []


def quoted(task: str) -> str:
    """Return what the README's table says of the baselines of a task."""
    lines = (ROOT / "README.md").read_text(encoding="utf-8").splitlines()
    (row,) = [line for line in lines if line.startswith("|") and task in line]
    return row.rpartition(" | ")[2]


@pytest.mark.parametrize("name", SHORT)
def test_the_readme_quotes_the_best_opponent_of_every_family_on_people(name: str) -> None:
    cells = [c for c in kept("results/maps.json")["cells"] if c["set"] == name]
    rows: dict[str, dict[str, list[float]]] = {}
    for cell in cells:
        family = families.activity_family(cell["method"])
        share = 100 * sum(cell["correct"].values()) / sum(cell["windows"].values())
        rows.setdefault(family, {}).setdefault(cell["method"], []).append(share)
    said = quoted(f"activity, {SHORT[name]}:")
    for family in rows.keys() - {families.OURS}:
        best = max(float(np.mean(values)) for values in rows[family].values())
        assert f" {best:.1f}" in said, family


def test_the_readme_quotes_the_best_opponent_of_every_family_of_other_tasks() -> None:
    path = ROOT / "results" / "anomaly.json"
    result = load_anomaly(path)
    local = {c.family for c in result.cells if (c.data, c.learner) == ("skab", "local")}
    best = max(skab_figures(result.of("skab", one, "local")).f1 for one in local)
    assert f"trained locally {best:.3f}" in quoted("SKAB")
    life = load_life(ROOT / "results" / "life.json")
    true = np.minimum(life.cycles_left, CAP)
    error = {
        name: float(np.mean([rmse(cell.predicted, true) for cell in life.of(name)]))
        for name in {cell.contender for cell in life.cells}
    }
    pooled = min(value for name, value in error.items() if name.endswith("pooled"))
    assert f"pooled gradient boosting {pooled:.1f}" in quoted("C-MAPSS")
    assert f"linear on lags {min(error[name] for name in families.LINEAR_ROWS):.1f}" in quoted(
        "C-MAPSS"
    )
    cells = kept("results/forecast.json")["cells"]
    alone = {c["contender"] for c in cells if "alone" in c["contender"]}
    assert len(alone) > 1
    best = min(root_mean(cells_of(cells, "weather", one), 6)[0] for one in alone)
    assert f"trained locally {best:.2f}" in quoted("15 regions")


def test_a_row_that_has_no_family_is_an_error() -> None:
    for family in (families.activity_family, families.life_family, families.weather_family):
        with pytest.raises(ValueError, match="belongs to no family"):
            family("a new baseline")
    with pytest.raises(ValueError, match="belongs to no family"):
        families.skab_family("inputs, somebody's")


def test_the_readme_shows_what_a_user_gets_with_nothing_set() -> None:
    for name, words in SHORT.items():
        row = people().row(name, NOTHING_SET)
        assert row is not None
        lines = (ROOT / "README.md").read_text(encoding="utf-8").splitlines()
        (line,) = [one for one in lines if f"activity, {words}:" in one]
        assert f"**{100 * row.accuracy:.1f}**" in line
        assert f"{row.macro_f1:.3f}" in line


def test_the_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 140


def test_two_people_decide_the_figure_of_uci_har() -> None:
    cells = kept("results/maps.json")["cells"]
    of = [c for c in cells if (c["set"], c["method"]) == ("uci_har", NOTHING_SET)]
    wrong = sorted(
        sum(c["windows"][who] - c["correct"][who] for c in of) for who in of[0]["windows"]
    )
    assert sum(wrong[-2:]) > sum(wrong[:-2])
    assert "two of them are wrong more often than all others together" in words("docs/results.md")


def test_readouts_of_all_runners_agree() -> None:
    for part in benchmark("lockstep")["machines"]:
        for job in part["jobs"].values():
            assert max(job["largest_difference_of_predictions"].values()) < 1e-5


def test_every_ratio_names_what_it_is_measured_against() -> None:
    sentences = re.split(r"(?<=[.;:|]) ", words("docs/results.md"))
    ratios = [s for s in sentences if re.search(r"\d times (as fast|fewer|less|as many)", s)]
    assert ratios
    against = r"as \w+ as [a-z*]|than|beside|where|the same network|LoRA"
    assert [s for s in ratios if not re.search(against, s)] == []


def test_the_page_of_experiments_counts_what_is_asked_of_a_language_model() -> None:
    result = load_prompts(ROOT / "results" / "fedresprompt.json")
    sent = {m: np.mean([c.bytes_federated for c in result.of("sst2", m)]) for m in METHODS}
    asked = {m: np.mean([c.bytes_asked for c in result.of("sst2", m)]) for m in METHODS}
    times = [float(sent["lora"] / (sent[m] + asked[m])) for m in METHODS[1:]]
    shown = "then it is {:.0f} and {:.0f} times".format(*times)
    assert shown in words("docs/research/prompts.md")
