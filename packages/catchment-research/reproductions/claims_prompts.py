"""The claims of FedResPrompt: a reservoir writes prompts for a frozen language model."""

from __future__ import annotations

from typing import Any

import numpy as np

from reproductions.claims import Claim, Paper, Results, Same, Verdict, percent, same_sign
from reproductions.intervals import Interval, over_runs, paired

Cell = dict[str, Any]
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
    why = (
        "another, smaller model; but a constant prompt without any reservoir has "
        f"{_test(results, 'sst2', 'subspace')} % (reservoir less "
        f"constant {_shown(constant)} points)"
    )
    return Verdict(ours, same_sign([found]), why)


def _adapters(results: Results) -> Verdict | None:
    found = ahead(results, "sst2", "lora", "reservoir")
    if found is None:
        return None
    ours = (
        f"LoRA {_test(results, 'sst2', 'lora')}, prompt of a reservoir "
        f"{_test(results, 'sst2', 'reservoir')} %: {_shown(found)} points"
    )
    return Verdict(ours, same_sign([found]), "rates and sizes of both searched on development data")


def _bytes(results: Results) -> Verdict | None:
    ours, lora = (cells_of(results, "sst2", name) for name in ("reservoir", "lora"))
    if not ours or not lora:
        return None

    def a_round(cells: dict[int, Cell], *names: str) -> float:
        return float(
            np.mean([sum(c[name] for name in names) / c["rounds"] for c in cells.values()])
        )

    sent = ("bytes_up", "bytes_down")
    without = a_round(lora, *sent) / a_round(ours, *sent)
    whole = a_round(lora, *sent) / a_round(ours, *sent, "asked_up", "asked_down")
    same: Same = "yes" if whole >= 8 else "partly" if without >= 8 else "no"
    text = (
        f"{without:.0f} times fewer a round with the model on the clients, {whole:.0f} times with "
        "it on a server, prompts and gradients counted"
    )
    why = (
        "the page counts the controller only, and the model on a server: then both must be counted"
    )
    return Verdict(text, same, why)


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
