"""Results as text: Markdown tables with the papers' figures beside ours, and what they show."""

from __future__ import annotations

import numpy as np

from reproductions import incfed_tables, skew_tables
from reproductions.grids import grid
from reproductions.published import printed
from reproductions.study import SetResult, StudyResult

TOLERANCE = 1e-9


def markdown(study: StudyResult) -> str:
    """Return a whole result as a Markdown document."""
    parts = [f"# {TITLES.get(study.name, study.name)}", _preamble(study)]
    for one in study.sets:
        own = _own_sections(study, one)
        parts += [f"## {one.name}", _about(one), *(own or [table(study.name, one)])]
        if one.selected and not own:
            parts.append(_selected(one))
        if one.traffic:
            parts.append(_traffic(one))
        if one.remarks:
            parts.append("\n".join(f"- {remark}" for remark in one.remarks))
    parts += ["## What it shows", "\n".join(f"- {line}" for line in findings(study))]
    return "\n\n".join(parts) + "\n"


def _own_sections(study: StudyResult, one: SetResult) -> list[str]:
    """Return a set's tables where a study has a module for them."""
    match study.name:
        case "incfed":
            return incfed_tables.sections(one)
        case "skew":
            return skew_tables.sections(one)
    return []


TITLES = {
    "incfed": "Readouts from sums, from averages, and from pooled data",
    "fedip": "Federated intrinsic plasticity before the exact readout",
    "variance": "Plasticity over several initialisations",
    "skew": "What averages lose when clients differ",
    "unseen": "UCI HAR, the publisher's test subjects",
}


def table(study: str, one: SetResult) -> str:
    """Return a set's accuracies as a Markdown table, methods by rows and shares by columns."""
    head = ["method", *(f"{share:.0%}" for share in one.shares), "spread over subjects"]
    rows = []
    for method in one.methods:
        row = [method]
        for share in one.shares:
            row.append(_entry(study, one, method, share))
        spread = np.mean([c.spread for c in one.of(method, one.shares[-1])])
        rows.append([*row, f"{100 * spread:.1f}"])
    return grid(head, rows)


def _entry(study: str, one: SetResult, method: str, share: float) -> str:
    mean, deviation = one.mean(method, share), one.deviation(method, share)
    text = f"{100 * mean:.2f} ± {100 * deviation:.2f}"
    paper = printed(study, one.name, method, share)
    return text if paper is None else f"{text} ({paper:.2f})"


def _preamble(study: StudyResult) -> str:
    e = study.environment
    kind = "quick run" if study.quick else "full run"
    return (
        "Test accuracy in per cent on subjects nobody trained on: mean ± standard deviation over "
        "repetitions; in brackets the paper's figure where it has one (its data are not the same: "
        f"see the notes).\n\nA {kind} of {study.seconds:.0f} s on {e.get('cores')} cores "
        f"({e.get('platform')}), {str(e.get('date'))[:10]}: catchment {e.get('catchment')}, Python "
        f"{e.get('python')}, numpy {e.get('numpy')}. Settings: "
        + ", ".join(f"{key} {value}" for key, value in study.settings.items())
        + "."
    )


def _about(one: SetResult) -> str:
    s = one.subjects
    return (
        f"{s['train']} subjects train, {s['validation']} validate, {s['test']} test; "
        f"{one.n_sequences:,} sequences of {len(one.classes)} classes; {one.seconds:.0f} s. "
        + " ".join(f"{note}." for note in one.notes)
    )


def _selected(one: SetResult) -> str:
    rows = []
    for chosen in one.selected:
        rule = chosen.adaptation
        text = "-"
        if rule is not None and isinstance(rule["rule"], dict):
            r = rule["rule"]
            text = (
                f"mean {r['target_mean']:.2g}, std {r['target_std']:.3g}, "
                f"rate {r['learning_rate']:.2g}, {r['epochs']} epochs, {rule['rounds']} rounds"
            )
        rows.append(
            [
                chosen.method,
                f"{100 * chosen.validation:.2f}",
                chosen.pool,
                _recipe(chosen.recipe),
                text,
            ]
        )
    return grid(["selected for", "validation", "pool", "recipe", "plasticity"], rows)


def _recipe(text: str) -> str:
    import json

    recipe = json.loads(text)
    names = ("units", "spectral_radius", "leak_rate", "input_scaling", "connections")
    return ", ".join(
        f"{name.replace('_', ' ')} {_short(recipe[name])}" for name in names if recipe.get(name)
    )


def _short(value: object) -> str:
    if isinstance(value, list):
        return "/".join(_short(item) for item in value)
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def _traffic(one: SetResult) -> str:
    rows = [
        [
            t.method,
            str(t.n_clients),
            str(t.rounds),
            f"{t.bytes_up / max(t.n_clients, 1) / 1024:.1f}",
            f"{t.bytes_down / max(t.n_clients, 1) / 1024:.1f}",
            f"{t.seconds:.1f}",
        ]
        for t in one.traffic
    ]
    return grid(["plan", "clients", "rounds", "KiB up each", "KiB down each", "seconds"], rows)


def findings(study: StudyResult) -> list[str]:
    """Return what the result shows, one sentence each."""
    gaps = [] if study.name == "skew" else study.sets
    lines = [_exactness(one) for one in gaps if not np.isnan(one.largest_gap)]
    match study.name:
        case "incfed":
            lines += incfed_tables.findings(study)
        case "skew":
            lines += skew_tables.findings(study)
        case "fedip":
            lines += [line for one in study.sets for line in _fedip_findings(one)]
        case "variance":
            lines += [line for one in study.sets for line in _variance_findings(one)]
        case "unseen":
            lines += [
                f"{one.name}: {one.mean('incfed', 1.0):.4f} on unseen subjects"
                for one in study.sets
            ]
    return lines


def _exactness(one: SetResult) -> str:
    gaps = [cell.gap for cell in one.cells if not np.isnan(cell.gap)]
    above = sum(gap > TOLERANCE for gap in gaps)
    return (
        f"{one.name}: exact federated and pooled scores differ by at most {max(gaps):.1e}"
        f" ({above} of {len(gaps)} cells above {TOLERANCE:g})"
    )


def _fedip_findings(one: SetResult) -> list[str]:
    last = one.shares[-1]
    lines = []
    for method in one.methods:
        kind, _, pool = method.partition("-")
        if kind == "fedip":
            gain = 100 * (one.mean(method, last) - one.mean(f"incfed-{pool}", last))
            lines.append(f"{one.name}, {pool}: FedIP + IncFed {gain:+.2f} points at {last:.0%}")
    best = {
        kind: max(
            (c for c in one.selected if c.method.startswith(kind)), key=lambda c: c.validation
        )
        for kind in ("incfed", "fedip")
    }
    gain = 100 * (one.mean(best["fedip"].method, last) - one.mean(best["incfed"].method, last))
    chosen = f"{best['fedip'].method} against {best['incfed'].method}"
    return [*lines, f"{one.name}, pooling by validation too ({chosen}): {gain:+.2f} points"]


def _variance_findings(one: SetResult) -> list[str]:
    lines = []
    for pool in dict.fromkeys(method.split(" / ")[1] for method in one.methods):
        ways = [method for method in one.methods if method.endswith(f" / {pool}")]
        figures = ", ".join(
            f"{way.split(' / ')[0]} {100 * one.mean(way, 1.0):.1f} ± "
            f"{100 * one.deviation(way, 1.0):.2f}"
            for way in ways
        )
        lines.append(f"{one.name}, {pool}: {figures}")
    return lines
