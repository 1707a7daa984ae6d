"""Every figure of the README and of docs/results.md is in a file that a script wrote."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.lockstep import LOCKSTEP
from benchmarks.measured_tables import PAGES, with_tables
from reproductions.anomaly_values import figures as skab_figures
from reproductions.anomaly_values import load_anomaly
from reproductions.fedresprompt_costs import cost_to_reach
from reproductions.fedresprompt_values import load_prompts
from reproductions.forecast_study import covered, root_mean
from reproductions.forecast_study import of as cells_of
from reproductions.forecast_weather import HORIZONS
from reproductions.life import MAIN, MEAN, load_life, rmse
from reproductions.life_data import CAP
from reproductions.life_tables import PUBLISHED as QUOTED
from reproductions.life_tables import over_engines

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
    return [f"is from {fixed:.3f} to {chosen:.3f},", f"the way from {peer:.3f} is"]


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


def ahead() -> list[str]:
    """Return how far aeon is ahead."""
    cells = [c for c in kept("results/maps.json")["cells"] if c["set"] == "uci_har"]
    share = {
        method: np.mean([sum(c["correct"].values()) / sum(c["windows"].values()) for c in of])
        for method in ("default, 510", "MiniRocket of aeon, pooled, 1008")
        if (of := [c for c in cells if c["method"] == method])
    }
    ahead = 100 * (share["MiniRocket of aeon, pooled, 1008"] - share["default, 510"])
    return [f"aeon's MiniRocket with pooled data is {ahead:.1f} points ahead of our default"]


def speech() -> list[str]:
    cells = kept("results/speech.json")["cells"]
    mean = {
        name: 100 * np.mean([c["accuracy"] for c in cells if c["method"] == name])
        for name in {c["method"] for c in cells}
    }
    random = max(value for name, value in mean.items() if name.startswith("mel"))
    return [
        f"{mean['speech encoder, all seven']:.1f} % with a frozen encoder",
        f"{random:.0f} % with the best",
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
    result = load_anomaly(ROOT / "results" / "anomaly.json")
    alone, together = (
        skab_figures(result.of("skab", "reservoir", how)).f1 for how in ("local", "federated")
    )
    always = skab_figures(result.of("skab", "always alarmed", "-")).f1
    return [f"F1 {together:.3f} federated, {alone:.3f} trained locally, {always:.3f} always-alarm"]


def cycles_left() -> list[str]:
    result = load_life(ROOT / "results" / "life.json")
    true = np.minimum(result.cycles_left, CAP)
    wrong = {
        name: np.mean([rmse(cell.predicted, true) for cell in result.of(name)])
        for name in (MAIN, MEAN)
    }
    low, high = over_engines(result.of(MAIN)[0], true)
    quoted = QUOTED["deep CNN, Li et al. 2018"][0]
    return [
        f"RMSE {wrong[MAIN]:.1f} cycles (95 % CI {low:.1f} to {high:.1f}); mean predictor "
        f"{wrong[MEAN]:.1f}; published centralized CNN {quoted:.1f}"
    ]


def forecasts() -> list[str]:
    cells = kept("results/forecast.json")["cells"]
    names = ("+ personal readouts", "each region alone", "last value")
    wrong = [root_mean(cells_of(cells, "weather", name), 6)[0] for name in names]
    held = [100 * covered(cells_of(cells, "weather", names[0]), "0.95", h)[0] for h in HORIZONS]
    return [
        "RMSE {:.2f} K with personal readouts, {:.2f} K trained locally, {:.2f} K".format(*wrong),
        f"95 % intervals covered {min(held):.1f} to {max(held):.1f} %",
    ]


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
    "README.md": [speech, ahead],
    "docs/results.md": [
        whole_jobs,
        ahead,
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


def test_the_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 140


def test_two_people_decide_the_figure_of_uci_har() -> None:
    cells = kept("results/maps.json")["cells"]
    of = [c for c in cells if (c["set"], c["method"]) == ("uci_har", "default, 510")]
    wrong = sorted(
        sum(c["windows"][who] - c["correct"][who] for c in of) for who in of[0]["windows"]
    )
    assert sum(wrong[-2:]) > sum(wrong[:-2])
    assert "two of them are wrong more often than all others together" in words("docs/results.md")


def test_readouts_of_all_runners_agree() -> None:
    for part in benchmark("lockstep")["machines"]:
        for job in part["jobs"].values():
            assert max(job["largest_difference_of_predictions"].values()) < 1e-5


@pytest.mark.parametrize("page", [*PAGES][1:])
def test_every_ratio_names_what_it_is_measured_against(page: str) -> None:
    sentences = re.split(r"(?<=[.;:|]) ", words(page))
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
