"""The task that needs text and signal as Markdown: known and new wordings, people, losses."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from reproductions.fedresprompt_values import METHODS, Cell, PromptResult
from reproductions.grids import grid
from reproductions.instructed import ANSWERS, INSTRUCTIONS
from reproductions.intervals import Interval, deviation, over_people, paired

TASK = "instructed"
ROUNDS = (1, 5, 10, 20, 40, 60, 80)
BESIDE = {
    "largest": (("known, by instruction", "largest answer to each instruction"),),
    "ridge": (
        ("new wordings, by nearest state", "ridge, nearest state of the language model"),
        ("new wordings, instruction told", "ridge, told which instruction it is"),
    ),
}


def instructed_parts(result: PromptResult) -> list[str]:
    """Return the parts of the task's section; nothing without final cells."""
    found = {m: result.of(TASK, m) for m in METHODS if result.of(TASK, m)}
    if not found:
        return []
    text = (
        f"Windows of unseen people, five instructions for each, {len(ANSWERS)} answers "
        "for all of them (the likeliest by total log-likelihood counts). *Known* wordings were "
        "trained with; *new* ones were not used before. In brackets: 95 % over draws of test "
        "people and seeds. *Left to itself*: the model's own words, always the likeliest token, "
        "are exactly the right answer."
    )
    names = [one.name for one in INSTRUCTIONS]
    rows = [[method, *(_each(cells, name) for name in names)] for method, cells in found.items()]
    each = "By instruction, known / new wordings:\n\n" + grid(("method", *names), rows)
    parts = [text + "\n\n" + grid(HEAD, _rows(found)), each]
    if curve := losses(result, TASK):
        parts.append(curve)
    return parts


HEAD = ("method", "seeds", "development", "known", "new", "left to itself, known / new")


def _rows(found: dict[str, tuple[Cell, ...]]) -> list[list[str]]:
    rows = []
    for method, cells in found.items():
        rows.append(
            [
                method,
                str(len(cells)),
                spread([c.development for c in cells]),
                f"{spread([c.test for c in cells])} {_people(cells, 'known')}",
                f"{spread([c.extra['new wordings'] for c in cells])} {_people(cells, 'new')}",
                _said(cells),
            ]
        )
        for key, name in BESIDE.get(method, ()):
            values = spread([c.extra[key] for c in cells])
            known = key.startswith("known")
            rows.append([name, "", "", values if known else "", "" if known else values, ""])
    return rows


def _said(cells: Sequence[Cell]) -> str:
    if "known, left to itself" not in cells[0].extra:
        return ""
    pair = (
        spread([c.extra[f"{kind}, left to itself"] for c in cells]) for kind in ("known", "new")
    )
    return " / ".join(pair)


def _people(cells: Sequence[Cell], kind: str) -> str:
    found: Interval = over_people([cell.people[kind] for cell in cells])
    return f"({100 * found.low:.1f} to {100 * found.high:.1f})"


def _each(cells: Sequence[Cell], name: str) -> str:
    pair = (100 * np.mean([c.extra[f"{kind}: {name}"] for c in cells]) for kind in ("known", "new"))
    return " / ".join(f"{value:.1f}" for value in pair)


def differences(result: PromptResult) -> list[str]:
    """Return how far the trained prompt is from the strongest others, over people and seeds."""
    ours, lines = result.of(TASK, "reservoir"), []
    for method in ("ridge", "words", "closed-form", "subspace"):
        theirs = result.of(TASK, method)
        if not ours or len(theirs) != len(ours):
            continue
        known, new = (
            paired([c.people[kind] for c in ours], [c.people[kind] for c in theirs])
            for kind in ("known", "new")
        )
        lines.append(
            f"instructed: the trained reservoir prompt minus {method}: {known.shown(sign=True)} "
            f"points with known wordings, {new.shown(sign=True)} with new ones "
            f"({known.n_people} people)"
        )
    return [*lines, *_reading(ours, result.of(TASK, "ridge"))]


def _reading(ours: Sequence[Cell], theirs: Sequence[Cell]) -> list[str]:
    """Return how far the prompt is from the readout for which the language model only reads."""
    if len(ours) < 2 or len(theirs) != len(ours):
        return []
    key = "new wordings, by nearest state"
    apart = [
        100 * (a.extra["new wordings"] - b.extra[key]) for a, b in zip(ours, theirs, strict=True)
    ]
    shown = ", ".join(f"{value:+.1f}" for value in apart)
    return [
        "instructed: the trained reservoir prompt minus the readout whose instruction is the "
        f"nearest state of the language model, new wordings: {np.mean(apart):+.1f} ± "
        f"{deviation(apart):.1f} points over seeds ({shown})"
    ]


def losses(result: PromptResult, task: str) -> str:
    """Return the mean training loss at some rounds, a row for each method; empty if none."""
    rows = []
    longest = max((len(c.losses) for c in result.cells if c.job.task == task), default=0)
    points = [r for r in ROUNDS if r <= longest]
    for method in METHODS:
        for rounds in sorted({c.job.variant.rounds for c in result.cells}):
            own = [c for c in result.of(task, method, rounds=rounds) if c.losses]
            if own:
                n = min(len(c.losses) for c in own)
                mean = np.mean([c.losses[:n] for c in own], axis=0)
                shown = [f"{mean[r - 1]:.3f}" if r <= n else "" for r in points]
                rank = own[0].job.variant.rank
                name = f"{method}, rank {rank}" if rank else method
                rows.append([name, str(len(own)), *shown, f"{mean[-1]:.3f} ({n})"])
    if not rows:
        return ""
    head = ("method", "seeds", *(f"round {r}" for r in points), "last")
    return "Mean training loss of the clients, by round:\n\n" + grid(head, rows)


def spread(values: Sequence[float]) -> str:
    """Return mean and deviation in per cent; of one value alone the value.

    >>> spread([0.9, 0.92]), spread([0.9])
    ('91.0 ± 1.4', '90.0')
    """
    mean = f"{100 * np.mean(values):.1f}"
    return f"{mean} ± {100 * deviation(values):.1f}" if len(values) > 1 else mean
