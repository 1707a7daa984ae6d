"""Tables and figure of the study of what to freeze and what to send."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import cast

from catchment_research.partial import EmnistCnn, Freeze, Suggestion, suggest_freeze
from reproductions.arena import f1_of_one
from reproductions.freeze_values import (
    ALL,
    ECHO,
    LAYERS,
    PAPER,
    RIDGE,
    TRAINED,
    WHOLE,
    FreezeResult,
    Row,
    freeze_of,
)
from reproductions.intervals import deviation
from reproductions.study import Value

WITHIN = 0.005  # half a point
NEAR = 0.01
USUAL = 3  # seeds
AFTER = (1, 10, 100, 500)
Rows = Sequence[Row]


def markdown(result: FreezeResult) -> str:
    """Return all tables, with what they say in words."""
    s = result.settings
    parts = [
        "# What to freeze, and what to send of the rest",
        "`python -m reproductions freeze`; Sidahmed et al., 2021, and what it leaves open. "
        "Test accuracies in per cent, mean and deviation (n - 1) over seeds; differences are "
        "paired by seed. Bytes are measured, of one client in one round. Macro-F1 is of all test "
        "examples, mean over seeds; to count it all tested trainings were run a second time, and "
        "every accuracy came out the same.",
    ]
    if result.quick:
        parts.append("**A quick version: its figures mean nothing.**")
    parts.append(
        f"Settings: {s.get('rounds')} rounds of {s.get('cohort')} writers, seeds {s.get('seeds')}; "
        f"rates of {s.get('rates')} by {s.get('held_out')} writers whom nobody trained on, after "
        f"{s.get('search_rounds')} rounds, with another seed. {result.environment.get('device')}, "
        f"torch {result.environment.get('torch')}, {str(result.environment.get('date'))[:10]}."
    )
    for title, table in (
        ("Which layers", layers_table(result)),
        ("Few bits", sent_table(result, "bits")),
        ("A part of the units", sent_table(result, "dropout")),
        ("The echo state network as the limit case", echo_table(result)),
    ):
        if table:
            parts += [f"## {title}", *table]
    return "\n\n".join(parts) + "\n"


def layers_table(result: FreezeResult) -> list[str]:
    """Return the table of layers that are trained alone, and what the search by rule finds."""
    rows = {trained: rows_of(result, "layers", trained) for trained in TRAINED}
    rows = {trained: own for trained, own in rows.items() if own}
    if ALL not in rows:
        return []
    lines = [
        "| trained | numbers | % | bytes up | rate | writers held out | test | macro-F1 | "
        "against all |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for trained, own in sorted(rows.items(), key=lambda item: -item[1][0].numbers):
        first, held = own[0], held_out(result, own[0])
        name = f"{trained} (the paper's)" if trained == PAPER else trained
        name = "all" if trained == ALL else name
        lines.append(
            f"| {name} | {first.numbers:,} | {100 * first.numbers / first.total:.2f} | "
            f"{first.bytes_up:,.0f} | {first.job.rate:g} | {_percent(held)} | {spread(own)} | "
            f"{f1(own)} | "
            f"{'' if trained == ALL else difference(own, rows[ALL])} |"
        )
    largest = rows[ALL][0].largest_class
    lines.append(
        f"| the most frequent digit | 0 | 0 | 0 | | | {100 * largest:.1f} | "
        f"{_one(rows[ALL][0])} | |"
    )
    said = suggestion(result)
    edge = at_the_edge(rows, result)
    lines += [f"\n{edge}"] if edge else []
    return ["\n".join(lines), layers_finding(rows), *([_said(said)] if said else [])]


def at_the_edge(rows: Mapping[str, Rows], result: FreezeResult) -> str:
    """Return which layers' best rate is the least or greatest of those tried."""
    tried = [float(str(rate)) for rate in cast(list[Value], result.settings.get("rates", []))]
    if len(tried) < 2:
        return ""
    ends = (min(tried), max(tried))
    found = [
        f"{'all' if name == ALL else name} ({own[0].job.rate:g})"
        for name, own in rows.items()
        if own[0].job.rate in ends
    ]
    if not found:
        return ""
    return (
        f"{len(found)} of {len(rows)} rates are the smallest or largest that was tried, so that "
        f"better ones may lie beyond: {', '.join(found)}."
    )


def layers_finding(rows: Mapping[str, Rows]) -> str:
    """Return which layer is best alone, and the fewest numbers that are close to all."""
    alone = {name: own for name, own in rows.items() if name in LAYERS}
    best = max(alone, key=lambda name: _mean(alone[name]), default="")
    close = [own for own in rows.values() if _mean(own) >= _mean(rows[ALL]) - NEAR]
    fewest = min(close, key=lambda own: own[0].numbers)[0]
    first = f"Of single layers {best} is best alone, {spread(alone[best])}. " if best else ""
    return (
        f"{first}The fewest numbers that end within a point of all are those of "
        f"{'all' if fewest.job.trained == ALL else fewest.job.trained}: {fewest.numbers:,}, "
        f"{100 * fewest.numbers / fewest.total:.2f} %."
    )


def sent_table(result: FreezeResult, part: str) -> list[str]:
    """Return the table of rounded changes, or of sub-networks, beside whole ones."""
    lines = [
        "| trained | sent | bytes up | times less than all | rate | test | macro-F1 | "
        "against float32 |",
        "|---|---|---|---|---|---|---|---|",
    ]
    whole = rows_of(result, "layers", ALL)
    if not whole:
        return []
    for trained in (ALL, PAPER):
        plain = rows_of(result, "layers", trained)
        for own in [plain, *_changed(result, part, trained)]:
            if not own:
                continue
            lines.append(
                f"| {_share(own)} | {how(own[0])} | {_bytes(own):,.0f} | "
                f"{_bytes(whole) / _bytes(own):.1f} | {own[0].job.rate:g} | {spread(own)} | "
                f"{f1(own)} | {'' if own is plain else difference(own, plain)} |"
            )
    if len(lines) <= 4:
        return []
    return ["\n".join(lines), bits_finding(result) if part == "bits" else dropout_finding(result)]


def bits_finding(result: FreezeResult) -> str:
    """Return with how few bits a training ends within half a point of float32."""
    said = []
    for trained in (ALL, PAPER):
        plain, few = rows_of(result, "layers", trained), _changed(result, "bits", trained)
        held = [own for own in few if _mean(own) >= _mean(plain) - WITHIN]
        if plain and held:
            least = min(held, key=_bytes)
            less = _bytes(rows_of(result, "layers", ALL)) / _bytes(least)
            said.append(f"{_share(least)} trained: {how(least[0])}, {less:.0f} times less than all")
    return f"Within half a point of float32 with the fewest bits: {'; '.join(said) or 'none'}."


def dropout_finding(result: FreezeResult) -> str:
    """Return how many sub-networks are behind rounded changes that send less."""
    behind = total = 0
    for trained in (ALL, PAPER):
        few = _changed(result, "bits", trained)
        for own in _changed(result, "dropout", trained):
            total += 1
            behind += any(_bytes(b) < _bytes(own) and _mean(b) > _mean(own) for b in few)
    chosen = {choice for choice in result.found(search=True) if choice[0] == "dropout"}
    left = len(chosen - set(result.found()))
    return (
        f"{behind} of {total} rows are less accurate than one of few bits that trains the "
        "same layers and sends less."
    ) + (
        f" Rates were chosen for {len(chosen)} ways to deal units, of which {left} have not been "
        "tested: `python -m reproductions freeze --resume` adds them."
        if left
        else ""
    )


def _changed(result: FreezeResult, part: str, trained: str) -> list[list[Row]]:
    """Return the rows of a part by what was sent, the most bytes first."""
    found = [own for choice, own in result.found().items() if choice[:2] == (part, trained)]
    return sorted(found, key=lambda own: -_bytes(own))


def _bytes(rows: Rows) -> float:
    return fmean(row.bytes_up for row in rows)


def _mean(rows: Rows) -> float:
    return fmean(row.accuracy for row in rows) if rows else float("nan")


def _share(rows: Rows) -> str:
    first = rows[0]
    return "all" if first.job.trained == ALL else f"{100 * first.numbers / first.total:.2f} %"


def echo_table(result: FreezeResult) -> list[str]:
    """Return the table of the echo state network, and what it says."""
    exact = rows_of(result, "echo", RIDGE)
    if not exact:
        return []
    rows = {trained: rows_of(result, "echo", trained) for trained in ECHO}
    longest = max((len(own[0].curve) for own in rows.values() if own), default=1)
    rounds = [k for k in AFTER if k <= longest]
    heads = " | ".join(f"after {k}" for k in rounds)
    lines = [
        f"| trained | numbers | optimizer and rate | {heads} | macro-F1 at the end | against the "
        "ridge | bytes up a round | within half a point of the ridge after | bytes up until then |",
        "|" + "---|" * (8 + len(rounds)),
    ]
    for trained, own in rows.items():
        if not own:
            continue
        points = " | ".join(
            _spread([row.curve[k - 1] for row in own if k <= len(row.curve)]) for k in rounds
        )
        reached = [reaches(row, other) for row, other in zip(own, exact, strict=False)]
        lines.append(
            f"| {trained} | {own[0].numbers:,} | {own[0].job.optimizer} {own[0].job.rate:g} | "
            f"{points} | {f1(own)} | {difference(own, exact)} | {own[0].bytes_up:,.0f} | "
            f"{_rounds(reached)} | "
            f"{', '.join('-' if k is None else f'{k * own[0].bytes_up:,.0f}' for k in reached)} |"
        )
    ends = [f"{exact[0].bytes_up:,.0f}", "1 round", f"{exact[0].bytes_up:,.0f}"]
    most = f"{100 * exact[0].largest_class:.1f}"
    for name, numbers, right, score, last in (
        (f"nothing: {RIDGE} in one round", f"{exact[0].numbers:,}", spread(exact), f1(exact), ends),
        ("the most frequent activity", "0", most, _one(exact[0]), ["0", "", ""]),
    ):
        cells = [name, numbers, "", right, *[""] * (len(rounds) - 1), score, "", *last]
        lines.append(f"| {' | '.join(cells)} |")
    facts = (
        f"{exact[0].data}: {exact[0].n_clients} people train, each in every round; the publisher's "
        f"test subjects. A network of {result.settings.get('echo_units')} units; gradient steps on "
        "batches of 32 windows, one pass a round. Optimizer, rate and ridge by validation people."
    )
    return [facts, "\n".join(lines), *conclusion(result)]


def conclusion(result: FreezeResult) -> list[str]:
    """Return what the limit case shows, in a sentence made from its figures."""
    exact, own = rows_of(result, "echo", RIDGE), rows_of(result, "echo", ECHO[0])
    whole = rows_of(result, "echo", ECHO[1])
    if not own or not whole:
        return []
    reached = [reaches(row, other) for row, other in zip(own, exact, strict=False)]
    found = [k for k in reached if k is not None]
    if len(found) == len(reached):
        when = f"after {min(found)} to {max(found)} rounds, with "
        when += f"{fmean(found) * own[0].bytes_up / exact[0].bytes_up:.2g} times its bytes"
    elif found:
        when = f"with {len(found)} of {len(reached)} seeds"
    else:
        when = f"in none of {len(own[0].curve)} rounds"
    times = len(whole[0].curve) * whole[0].bytes_up / exact[0].bytes_up
    job = own[0].job
    tried = [
        row.job.rate
        for row in result.found(search=True).get(job.choice, [])
        if row.job.optimizer == job.optimizer
    ]
    edge = len(tried) > 1 and job.rate in (min(tried), max(tried))
    return [
        "Rounds of gradient steps on the readout alone come within half a point of the exact "
        f"ridge {when}; after all rounds they are {difference(own, exact)} points from it. "
        f"Training the recurrent weights too ends {difference(whole, exact)} points from the "
        f"ridge after {len(whole[0].curve)} rounds, for {times:.0f} times its bytes."
        + (
            f" The readout's rate, {job.rate:g}, is the last of those tried with {job.optimizer}: "
            "another may come nearer."
            if edge
            else ""
        )
    ]


def suggestion(result: FreezeResult) -> Suggestion | None:
    """Return what the paper's rule finds with the accuracies on writers held out.

    None where a freeze that it asks for was not run.
    """
    scores = {
        frozenset(freeze_of(trained).names): held_out(result, own[0])
        for trained in TRAINED
        if (own := rows_of(result, "layers", trained))
    }

    def judge(freeze: Freeze) -> float:
        layers = {f"{name.split('.')[0]}.*" for name in freeze.names}
        return scores[frozenset(layers)]

    tolerance = float(str(result.settings.get("tolerance", 0.01)))
    try:
        return suggest_freeze(EmnistCnn(), judge, tolerance=tolerance)
    except KeyError:
        return None


def reaches(row: Row, exact: Row) -> int | None:
    """Return the first round after which a training is within half a point of the exact readout."""
    close = (k for k, right in enumerate(row.curve, 1) if right >= exact.accuracy - WITHIN)
    return next(close, None)


def rows_of(result: FreezeResult, part: str, trained: str) -> list[Row]:
    """Return the tested rows of whole messages, by seed."""
    return result.found().get((part, trained, 32, WHOLE, "random"), [])


def held_out(result: FreezeResult, row: Row) -> float:
    """Return the accuracy on those held out of what was chosen for a row, NaN if there is none."""
    job = row.job
    same = [
        one.accuracy
        for one in result.found(search=True).get(job.choice, [])
        if (one.job.optimizer, one.job.rate) == (job.optimizer, job.rate)
    ]
    return fmean(same) if same else float("nan")


def how(row: Row) -> str:
    """Return in words what of a change was sent."""
    job = row.job
    if job.shares != WHOLE:
        shares = " or ".join(f"{share:g}" for share in job.shares)
        return f"{shares} of the units, {'the first' if job.order == 'first' else 'any'}"
    return "float32" if job.bits == 32 else f"{job.bits} bit{'s' if job.bits > 1 else ''}"


def f1(rows: Rows) -> str:
    """Return the mean macro-F1 over seeds, a dash if it was not counted."""
    return f"{fmean(row.macro_f1 for row in rows):.3f}" if all(r.classes for r in rows) else "-"


def _one(row: Row) -> str:
    """Return the macro-F1 of always saying the most frequent class."""
    there = sum(are > 0 for _, _, are in row.classes)
    return f"{f1_of_one(row.largest_class, there):.3f}" if there else "-"


def spread(rows: Rows) -> str:
    """Return the mean accuracy and its deviation over seeds, in per cent."""
    return _spread([row.accuracy for row in rows])


def difference(ours: Rows, theirs: Rows) -> str:
    """Return the mean of the differences by seed and their deviation, in points."""
    beside = {row.job.seed: row.accuracy for row in theirs}
    apart = [row.accuracy - beside[row.job.seed] for row in ours if row.job.seed in beside]
    return _spread(apart, "+")


def _spread(values: Sequence[float], sign: str = "") -> str:
    """Return mean and deviation in per cent; of fewer seeds than usual, how many there are."""
    if not values:
        return ""
    mean = f"{100 * fmean(values):{sign}.1f}"
    if len(values) < 2:
        return f"{mean} (1 seed)"
    few = f" ({len(values)} seeds)" if len(values) < USUAL else ""
    return f"{mean} ± {100 * deviation(values):.1f}{few}"


def _rounds(reached: Sequence[int | None]) -> str:
    if not any(reached):
        return "never"
    return f"{', '.join('never' if k is None else str(k) for k in reached)} rounds"


def _percent(value: float) -> str:
    return "" if value != value else f"{100 * value:.1f}"


def _said(found: Suggestion) -> str:
    tried = "; ".join(
        f"{a.block} frozen too, {a.share.percent:.2g} % trained: {100 * a.score:.1f}, "
        f"{'kept' if a.kept else 'trained after all'}"
        for a in found.attempts
    )
    frozen = sorted({name.split(".")[0] for name in found.freeze.names})
    return (
        f"`suggest_freeze`, the paper's rule as a search, on the writers held out: all "
        f"{100 * found.full_score:.1f}; {tried}. It freezes {' and '.join(frozen) or 'nothing'}."
    )
