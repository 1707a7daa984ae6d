"""The tables of the README, docs/results.md, docs/answers and two studies, from files of results.

    python -m benchmarks.measured_tables               # prints them
    python -m benchmarks.measured_tables --write       # puts them into the pages

A page names a table in a comment, `<!-- table: NAME -->`, and has it between blank lines below. A
test holds the pages to what is made here. Every ± is the standard deviation over seeds with n - 1.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.answers.tables import ANSWERS
from benchmarks.lockstep import lockstep_table
from benchmarks.measured_people import (
    RESULTS,
    ROOT,
    benchmark,
    grid,
    intervals_table,
    people_table,
    shown,
    summary_table,
    uci_har_table,
)
from benchmarks.peer_table import peer_table
from reproductions.fedresprompt_costs import Reached, cost_to_reach
from reproductions.fedresprompt_values import Cell, PromptResult, load_prompts


def series_table() -> str:
    """Return the examples' reservoirs beside a naive and a strong baseline."""
    examples, dynamics = benchmark("examples")["examples"], benchmark("dynamics")["dynamics"]
    narma, vowels = examples["narma"], examples["japanese_vowels"]
    naive = (
        f"mean {narma['mean of the target'][0]:.3f}, "
        f"linear on 30 inputs {narma['linear, last 30 inputs'][0]:.3f}"
    )
    strong = dynamics["NARMA-10"]["NVAR"]
    error, spread = strong["nrmse"], strong["sd"]
    delays = f"quadratic delays, {strong['features']} columns, {error:.3f} ± {spread:.3f}"
    rows = []
    for units, goal in ((200, "0.213"), (400, "0.145")):
        error, spread = narma[f"reservoir, N = {units}"]
        what = f"NARMA-10, NRMSE, {units} units in a delay line"
        rows.append([what, f"{error:.3f} ± {spread:.3f}", naive, delays, goal])
    value, spread = vowels["reservoir, N = 120"]
    rows.append(
        [
            "Japanese Vowels, accuracy, 120 units",
            f"{value:.3f} ± {spread:.3f}",
            f"largest class {vowels['largest class'][0]:.3f}, "
            f"ridge on mean frames {vowels['ridge on the mean frame'][0]:.3f}",
            f"ridge on six summaries of each channel {vowels['ridge on six summaries'][0]:.3f}",
            "0.976",
        ]
    )
    head = [
        "task, five seeds",
        "reservoir",
        "naive",
        "strong and simple",
        "the nearest peer's goal",
    ]
    return grid(head, rows)


def ted_table() -> str:
    """Return the forecasts of the TED spread, best first."""
    words = {
        "persistence": "yesterday's value",
        "16 recipes in one round, ridge chosen": "one of 16 recipes in one round, ridge chosen",
        "reservoir, peer's settings, ridge chosen": "**that reservoir, ridge chosen by clients**",
        "reservoir, peer's settings, ridge 1e-6": "reservoir with the peer's settings, ridge 1e-6",
        "esnfed, settings of its experiment": "the peer's own code, split, scaling and ridge 1e-5",
    }
    rows = sorted(benchmark("selection")["ted_spread"], key=lambda row: float(row["nrmse"]))
    kept = [row for row in rows if row["forecaster"] != "esnfed, settings of its tutorial"]
    lines = [[words.get(r["forecaster"], r["forecaster"]), f"{r['nrmse']:.3f}"] for r in kept]
    return grid(["TED spread, 200 units, five seeds", "NRMSE"], lines)


PRIVATE = (("writers", None), ("private", 4.03), ("hundred", 8.83))


def networks_table() -> str:
    """Return a network of which little is trained beside the whole, without and with noise."""
    content = json.loads((RESULTS / "fedpt.json").read_text(encoding="utf-8"))
    settings, lines = _flat(content["settings"]), []
    (writers,) = {row["n_clients"] for row in content["rows"] if row["part"] == "private"}
    for part, noise in PRIVATE:
        rows = [row for row in content["rows"] if (row["part"], row["noise"]) == (part, noise)]
        little = [row for row in rows if row["percent"] < 100]
        whole = [row for row in rows if row["percent"] == 100]
        epsilons = [row["epsilon"] for row in rows if row["epsilon"] is not None]
        lines.append(
            [
                f"{settings[f'{part}_cohort']} of {writers}, {settings[f'{part}_rounds']} rounds",
                "-" if noise is None else f"{noise:g}",
                f"{min(epsilons):.1f} to {max(epsilons):.1f}" if epsilons else "-",
                *(shown([100 * row["accuracy"] for row in of]) for of in (little, whole)),
                f"{_rate(little)}, {_rate(whole)}" if epsilons else "-",
                str(len(little)),
            ]
        )
    (share,) = {round(row["percent"], 2) for row in little}
    head = ["writers a round", "noise", f"epsilon at delta {settings['private_delta']:g}"]
    return grid([*head, f"{share} % trained", "all trained", "rate of each", "seeds"], lines)


def _flat(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings whose groups are part of their names."""
    groups = {name: value for name, value in settings.items() if isinstance(value, dict)}
    inner = {f"{name}_{key}": v for name, group in groups.items() for key, v in group.items()}
    return {**settings, **inner}


def _rate(rows: Sequence[Mapping[str, Any]]) -> str:
    return " or ".join(f"{rate:g}" for rate in sorted({row["rate"] for row in rows}))


PROMPTS = {
    "subspace": "a constant prompt of 256 numbers (no reservoir)",
    "reservoir": "prompts by a reservoir, 1 280 numbers",
    "published": "the same as published, P trained too, 95 376 numbers",
    "prompt": "a plain prompt of ten vectors, 5 760 numbers",
    "lora": "LoRA",
}
LEVELS = (0.87, 0.88)


def prompts() -> PromptResult:
    return load_prompts(RESULTS / "fedresprompt.json")


def prompts_table() -> str:
    """Return film reviews: test accuracy, whole trainings, and bytes until an accuracy."""
    result, lines = prompts(), []
    reached = {level: {_key(r): r for r in cost_to_reach(result, level)} for level in LEVELS}
    for key, found in reached[LEVELS[0]].items():
        method, rank = key
        if rank not in (0, 4, 8):
            continue
        cells = [c for c in result.cells if _same(c, found)]
        asked = sum(c.bytes_asked for c in cells) / len(cells)
        sent = sum(c.bytes_federated for c in cells) / len(cells)
        name = PROMPTS[method] + (f", rank {rank}" if rank else "")
        lines.append(
            [
                name + (", one seed and 40 rounds" if found.search else ""),
                shown([100 * c.test for c in cells]),
                _size(sent),
                _size(sent + asked) if asked else "-",
                *(_until(reached[level][key]) for level in LEVELS),
            ]
        )
    head = ["film reviews", "test, %", "sent in all", "the same, model on a server"]
    return grid([*head, *(f"until {100 * level:.0f} % on development" for level in LEVELS)], lines)


def _key(found: Reached) -> tuple[str, int]:
    return found.variant.method, found.variant.rank


def _same(cell: Cell, found: Reached) -> bool:
    """Return whether a run is one of those that a cost is of."""
    job = cell.job
    return (job.task, job.variant, job.search) == ("sst2", found.variant, found.search)


def _until(found: Reached) -> str:
    if found.n_reached <= found.n_runs // 2:
        return f"{found.n_reached} of {found.n_runs} runs"
    asked = found.median_whole > found.median_federation
    return _size(found.median_federation) + (f" / {_size(found.median_whole)}" if asked else "")


def _size(count: float) -> str:
    """Return bytes as people say them.

    >>> _size(3_621_840), _size(1_476_174_220), _size(66_545_555)
    ('3.6 MB', '1.48 GB', '67 MB')
    """
    if count >= 1e9:
        return f"{count / 1e9:.2f} GB"
    return f"{count / 1e6:.0f} MB" if count >= 1e7 else f"{count / 1e6:.1f} MB"


RACERS = {
    "catchment": "catchment",
    "loop": "plain torch, one client after the other, no messages",
    "pfl": "pfl 0.6, one process",
    "flower 14 actors": "Flower 1.41 simulation, 14 Ray actors",
}


def race_table() -> str:
    """Return client trainings a second on one GPU."""
    rows = benchmark("partial")["rows"]
    lines = []
    for runner, words in RACERS.items():
        of = {row["trained_percent"] == 100: row for row in rows if row["runner"] == runner}
        rates = [f"{of[whole]['clients_per_second']:.0f}" for whole in (True, False)]
        scores = [f"{100 * of[whole]['accuracy']:.1f}" for whole in (True, False)]
        lines.append([words, *rates, " and ".join(scores)])
    head = ["client trainings a second", "whole network", "4.96 % trained"]
    return grid([*head, "accuracy after eight rounds, %"], lines)


PAGES: dict[str, dict[str, Callable[[], str]]] = {
    "README.md": {"summary": summary_table},
    "docs/results.md": {
        "people": people_table,
        "intervals": intervals_table,
        "uci har": uci_har_table,
        "series": series_table,
        "ted": ted_table,
        "peers": lambda: peer_table(benchmark("peers")["jobs"]),
        "lockstep": lambda: lockstep_table(benchmark("lockstep")),
    },
    "docs/research/fedpt.md": {"networks": networks_table, "race": race_table},
    "docs/research/prompts.md": {"prompts": prompts_table},
    **ANSWERS,
}


def _literal(text: str) -> str:
    return text.replace("\\", r"\\")


def with_tables(text: str, tables: Mapping[str, Callable[[], str]]) -> str:
    """Return a page with every table that it names made anew."""
    for name, make in tables.items():
        marked = re.compile(rf"(<!-- table: {re.escape(name)} -->\n\n).*?(?=\n\n)", re.DOTALL)
        table = make()
        text, n_found = marked.subn(rf"\g<1>{_literal(table)}", text)
        if n_found != 1:
            raise ValueError(f"the page names the table {name} {n_found} times; name it once")
    return text


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="put the tables into the pages")
    write = parser.parse_args().write
    for page, tables in PAGES.items():
        path = Path(ROOT / page)
        if write:
            path.write_text(with_tables(path.read_text("utf-8"), tables), encoding="utf-8")
        else:
            print(*(f"{name}\n\n{make()}\n" for name, make in tables.items()), sep="\n")


if __name__ == "__main__":
    main()
