"""The claims of FedResPrompt: a reservoir writes prompts for a frozen language model."""

from __future__ import annotations

from typing import Any

import numpy as np

from reproductions.claims import Claim, Paper, Results, Same, Verdict, percent, same_sign
from reproductions.intervals import Interval, over_runs, paired

Cell = dict[str, Any]
KINDS = {"reservoir": "with P from a seed", "published": "with P trained, as published"}
LEVEL = 0.87  # of accuracy on development sentences, that all methods reach
NAMES = {
    "largest": "the most frequent answer",
    "signal": "the signal alone",
    "subspace": "a constant prompt",
}


def cells_of(results: Results, task: str, method: str) -> dict[int, Cell]:
    """Return the final cells of a method on a task without noise, by seed."""
    study = results.study("fedresprompt")
    return {
        cell["job"]["seed"]: cell
        for cell in (study["cells"] if study else ())
        if not cell["job"]["search"]
        and cell["job"]["task"] == task
        and cell["job"]["variant"]["method"] == method
        and not cell["job"]["variant"]["noise"]
        and not cell["job"]["variant"].get("rounds")
    }


def ahead(results: Results, task: str, method: str, other: str) -> Interval | None:
    """Return how much more accurate a method is than another on test, over the same seeds."""
    ours, theirs = cells_of(results, task, method), cells_of(results, task, other)
    gains = [ours[seed]["test"] - theirs[seed]["test"] for seed in sorted({*ours} & {*theirs})]
    return over_runs(gains) if gains else None


def _test(results: Results, task: str, method: str) -> str:
    cells = cells_of(results, task, method)
    return percent(float(np.mean([cell["test"] for cell in cells.values()])))


def _routing(results: Results) -> Verdict | None:
    found = ahead(results, "routing", "reservoir", "zero-shot")
    if found is None:
        return None
    ours = f"{_test(results, 'routing', 'zero-shot')} to {_test(results, 'routing', 'reservoir')} %"
    same: Same = "yes" if found.low > 0 else "no"
    ridge = _test(results, "routing", "ridge")
    return Verdict(ours, same, f"12 test examples; a plain ridge readout has {ridge} % as well")


def _steered(results: Results) -> Verdict | None:
    found = ahead(results, "sst2", "reservoir", "zero-shot")
    constant = ahead(results, "sst2", "reservoir", "subspace")
    if found is None or constant is None:
        return None
    ours = f"{_test(results, 'sst2', 'zero-shot')} to {_test(results, 'sst2', 'reservoir')} %"
    if (trained := ahead(results, "sst2", "published", "reservoir")) is not None:
        ours += (
            f"; with P trained, as published, to {_test(results, 'sst2', 'published')} %, "
            f"{_shown(trained)} points more"
        )
    why = (
        "another, smaller model; but a constant prompt without any reservoir has "
        f"{_test(results, 'sst2', 'subspace')} % (reservoir less "
        f"constant {_shown(constant)} points)"
    )
    return Verdict(ours, same_sign([found]), why)


def _adapters(results: Results) -> Verdict | None:
    found = {
        name: known
        for method, name in KINDS.items()
        if (known := ahead(results, "sst2", "lora", method)) is not None
    }
    if not found:
        return None
    ours = f"LoRA has {_test(results, 'sst2', 'lora')} %, more than a prompt of a reservoir by " + (
        ", ".join(f"{_shown(known)} points {name}" for name, known in found.items())
    )
    why = "rates and sizes of all searched on development data"
    return Verdict(ours, same_sign(list(found.values())), why)


def fewer_in_all(cells: dict[int, Cell], lora: dict[int, Cell]) -> list[float]:
    """Return how many times fewer bytes than LoRA whole trainings sent.

    First with the language model on the clients, then on a server, prompts and gradients counted.
    """

    def sent(cells: dict[int, Cell], *, asked: bool = False) -> float:
        names = ("bytes_up", "bytes_down", *(("asked_up", "asked_down") if asked else ()))
        return float(np.mean([sum(cell[name] for name in names) for cell in cells.values()]))

    return [sent(lora) / sent(cells, asked=asked) for asked in (False, True)]


def _bytes(results: Results) -> Verdict | None:
    lora = cells_of(results, "sst2", "lora")
    found = {name: cells_of(results, "sst2", method) for method, name in KINDS.items()}
    found = {name: cells for name, cells in found.items() if cells}
    if not found or not lora:
        return None

    texts, enough = [], []
    for name, cells in found.items():
        longer = next(iter(cells.values()))["rounds"] / next(iter(lora.values()))["rounds"]
        in_all = fewer_in_all(cells, lora)
        a_round = [longer * fewer for fewer in in_all]
        enough += [a_round[1] >= 8]
        texts.append(
            f"{name} {_times(a_round)} times fewer a round, {_times(in_all)} times in all, with "
            f"{longer:.1f} times the rounds, and {_until(cells)} and {_until(cells, asked=True)} "
            f"until {100 * LEVEL:.0f} % on development, where LoRA took {_until(lora)}"
        )
    same: Same = "yes" if all(enough) else "partly" if any(enough) else "no"
    why = (
        "first with the model on the clients, then on a server, prompts and gradients counted; "
        "the page counts the controller only, and the model on a server. What sends little is P "
        "from a seed, which the page does not have"
    )
    return Verdict("; ".join(texts), same, why)


def _until(cells: dict[int, Cell], *, asked: bool = False) -> str:
    """Return the median of the bytes until development was first at the level, if most got there.

    What was asked of the language model's server is spread evenly over the rounds.
    """
    found = []
    for cell in cells.values():
        each = (cell["asked_up"] + cell["asked_down"]) / cell["rounds"] if asked else 0
        there = (sent + each * k for k, sent, right in cell["curve"] if right >= LEVEL)
        found.append(next(there, np.inf))
    middle = float(np.median(found))
    return f"{middle / 1e6:.3g} MB" if np.isfinite(middle) else "never"


def _times(fewer: list[float]) -> str:
    return " and ".join(f"{one:.0f}" if one >= 10 else f"{one:.1f}" for one in fewer)


def _sensors(results: Results) -> Verdict | None:
    found = {
        task: known
        for task in ("uci_har", "motionsense")
        if (known := ahead(results, task, "reservoir", "ridge")) is not None
    }
    if not found:
        return None
    ours = ", ".join(f"{task} {_shown(known)} points" for task, known in found.items())
    same = same_sign(list(found.values()))
    why = "the model says what a plain readout of the same features says, for far less"
    return Verdict(ours, same, why)


def over_people_of(results: Results, kind: str, method: str, other: str) -> Interval | None:
    """Return how far a method is ahead of another on a kind of instructed case, over people."""
    ours, theirs = (
        [
            {name: (right, n) for name, (right, n) in cell["people"][kind].items()}
            for _, cell in sorted(cells_of(results, "instructed", one).items())
            if kind in cell.get("people", {})
        ]
        for one in (method, other)
    )
    return paired(ours, theirs) if ours and len(ours) == len(theirs) else None


def _both_needed(results: Results) -> Verdict | None:
    found = {
        other: known
        for other in NAMES
        if (known := over_people_of(results, "known", "reservoir", other)) is not None
    }
    if not found:
        return None
    ours = f"{_test(results, 'instructed', 'reservoir')} %; ahead of " + ", ".join(
        f"{NAMES[other]} ({_test(results, 'instructed', other)} %) by {_of_people(known)}"
        for other, known in found.items()
    )
    ridge = _test(results, "instructed", "ridge")
    why = (
        "an instruction in words says which property of the window to name; a plain readout that "
        f"is given the instruction as a number has {ridge} % (next row)"
    )
    return Verdict(ours, same_sign(list(found.values())), why)


def _readout_of_both(results: Results) -> Verdict | None:
    found = {
        kind: known
        for kind in ("known", "new")
        if (known := over_people_of(results, kind, "reservoir", "ridge")) is not None
    }
    if not found:
        return None
    cells = cells_of(results, "instructed", "ridge").values()
    near = [c["extra"].get("new wordings, by nearest state", np.nan) for c in cells]
    ours = ", ".join(f"{_of_people(known)} with {kind} wordings" for kind, known in found.items())
    why = (
        "ridge on features times instruction has "
        f"{_test(results, 'instructed', 'ridge')} % with known wordings; with new ones "
        f"{percent(float(np.mean(near)))} % if the nearest state of the same language model says "
        "which known one it is: only that is a fair reader of them"
    )
    return Verdict(ours, same_sign(list(found.values())), why)


def _of_people(found: Interval) -> str:
    return f"{found.shown(sign=True)[:-1]}; {found.n_people} people)"


def _shown(found: Interval) -> str:
    return f"{found.shown(sign=True)[:-1]}; {found.n_people} seeds)"


FEDRESPROMPT = Paper(
    "FedResPrompt (a page of esnfed)",
    (
        Claim("Routing contexts to words rises from chance, 0.33 to 0.67", _routing),
        Claim(
            "A reservoir and a small controller steer a frozen model on SST-2: 0.59-0.82 "
            "untrained to 0.83-0.96",
            _steered,
        ),
        Claim("It does not beat LoRA: 0.93 against 0.83 on the 32B model", _adapters),
        Claim("It sends 8 to 25 times fewer numbers a round than LoRA", _bytes),
        Claim(
            "Not claimed there, but asked: does the language model add to a readout of the "
            "reservoir's states?",
            _sensors,
        ),
        Claim(
            "Not claimed there, but asked: where text and signal are both needed, is it ahead of "
            "whatever has one of them?",
            _both_needed,
        ),
        Claim("And of a readout that has both, the instruction as a number?", _readout_of_both),
    ),
    "SmolLM2-135M in place of Qwen2.5 (0.5B to 32B) and Mistral-7B.",
)
