"""Prompts, adapters and readouts as Markdown tables, findings, a picture and files."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median

import numpy as np

from catchment.errors import MissingExtraError
from catchment.report import Theme, theme
from reproductions.axes import TITLES as SETS
from reproductions.axes import WIDTH, dress, key
from reproductions.fedresprompt_costs import Reached, cost_to_reach
from reproductions.fedresprompt_values import METHODS, Cell, PromptResult, Variant, stem
from reproductions.grids import grid
from reproductions.instructed_tables import differences, instructed_parts, losses, spread

try:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
except ImportError as error:
    raise MissingExtraError("lab", needed_for="pictures of results") from error

TITLES = {
    "routing": "Routing: three levels, three words",
    "sst2": "SST-2: whole sentences, four clients of Dirichlet(0.3) classes",
    "uci_har": "Sensors to words: UCI HAR, unseen subjects",
    "motionsense": "Sensors to words: MotionSense, unseen subjects",
    "instructed": "Text and signal: an instruction says what to name of a window (UCI HAR)",
}
SHORT = SETS | {"routing": "routing", "sst2": "film reviews", "instructed": "text and signal"}
SAID = {
    "subspace": "constant prompt",
    "reservoir": "reservoir prompt",
    "published": "as published, P trained",
    "prompt": "plain prompt",
}
ADAPTER = "lora"
LEVELS = (0.87, 0.88)
# Figures as published; accuracies on 512 sentences of SST-2, one seed.
PUBLISHED = (
    ("Qwen2.5-7B", "0.92", ""),
    ("Qwen2.5-14B", "0.96", ""),
    ("Mistral-7B", "0.95", ""),
    ("Qwen2.5-32B", "0.83 (peak 0.93)", "0.93"),
)
NEVER_RUN = (
    "Published for the same task, with other models: zero-shot 0.59 to 0.82, and 8 to 25 times "
    "fewer floats a round than LoRA. **None of these models, nor any above 135 million "
    "parameters, was run here**: their weights were not at hand. `--model` takes any folder in the "
    "layout of transformers, so whoever has one of them can run the same comparison. What differs "
    "besides: whole sentences of the whole set instead of 512 and 512, three seeds instead of "
    "one, a projection from a seed beside the trained one (`published`), rates searched for every "
    "method."
)


def markdown(result: PromptResult) -> str:
    """Return a whole result as a Markdown document."""
    e, s = result.environment, result.settings
    kind = "quick run" if result.quick else "full run"
    head = (
        "Accuracy in per cent, mean ± standard deviation over seeds (n - 1). Bytes are measured, "
        "of all clients and all rounds, up and down: between clients and the federation's server, "
        "and, where the language model is not on the clients, between clients and its server. "
        "Macro-F1 is of all test examples, mean over seeds; where it is missing, the runs, on a "
        "GPU, kept how many answers are right, not which: `python -m reproductions fedresprompt` "
        "counts it where the language model's weights and a GPU are at hand.\n\n"
        f"A {kind} of {result.seconds:.0f} s on {e.get('device')}, {str(e.get('date'))[:10]}: "
        f"catchment {e.get('catchment')}, {s.model}, seeds {list(s.seeds)}, prompts of {s.length} "
        f"vectors, {s.batch_size} sentences per client and step."
    )
    parts = ["# Reservoir prompts for a frozen language model", head]
    parts += ["\n".join(f"- {note}" for note in result.notes)] if result.notes else []
    for task in result.tasks:
        parts += [f"## {TITLES[task]}"]
        final, searched = final_rows(result, task), search_rows(result, task)
        parts += [final] if final else ["No final run yet."]
        parts += ["Searched on the development set, first seed:\n\n" + searched] if searched else []
        parts += comparison(result) if task == "sst2" else []
        parts += instructed_parts(result) if task == "instructed" else []
    lines = findings(result)
    parts += ["## What it shows", "\n".join(f"- {line}" for line in lines)] if lines else []
    return "\n\n".join(parts) + "\n"


def final_rows(result: PromptResult, task: str) -> str:
    """Return the table of a task's final runs; empty if there are none."""
    rows = []
    counted = any(c.classes for c in result.cells if c.job.task == task)
    noises = sorted({c.job.variant.noise for c in result.cells})
    for method in METHODS:
        for noise in noises:
            cells = result.of(task, method, noise=noise)
            if cells:
                name = f"{method}, noise {noise:g}" if noise else method
                rows.append(_row(cells, name, counted=counted))
        for rounds in sorted({c.job.variant.rounds for c in result.cells} - {0}):
            cells = result.of(task, method, rounds=rounds)
            if cells:
                rows.append(_row(cells, f"{method}, {_shape(cells[0])}", counted=counted))
    score = ["macro-F1"] * counted
    costs = ("trained", "rounds", "federation", "asked")
    head = ("method", "seeds", "development", "test", *score, *costs)
    return grid(head, rows) if rows else ""


def _row(cells: Sequence[Cell], name: str, *, counted: bool) -> list[str]:
    first, known = cells[0], all(cell.classes for cell in cells)
    score = f"{_mean(cells, lambda cell: cell.macro_f1):.3f}" if known else "-"
    return [
        name,
        str(len(cells)),
        spread([c.development for c in cells]),
        spread([c.test for c in cells]),
        *[score] * counted,
        f"{first.trained:,}",
        str(first.rounds),
        _bytes(_mean(cells, _crossed)),
        _bytes(_mean(cells, _asked)),
    ]


def search_rows(result: PromptResult, task: str) -> str:
    """Return the table of the runs that chose a task's settings; empty if there were none."""
    cells = [c for c in result.cells if c.job.task == task and c.job.search]
    rows = [
        [
            c.job.variant.method,
            f"{c.job.variant.rate:g}",
            _shape(c),
            f"{100 * c.development:.1f}",
            f"{100 * c.test:.1f}" if c.test else "-",
            f"{c.trained:,}",
            str(c.rounds),
            _bytes(c.bytes_federated),
            _bytes(c.bytes_asked),
        ]
        for c in sorted(cells, key=lambda c: METHODS.index(c.job.variant.method))
    ]
    head = ("method", "rate", "size", "development", "test", "trained", "rounds")
    return grid((*head, "federation", "asked"), rows) if rows else ""


def comparison(result: PromptResult) -> list[str]:
    """Return what reaching an accuracy cost, and what was published; nothing without curves."""
    costs = cost_table(result)
    if not costs:
        return []
    text = (
        "Bytes until development accuracy was first there, medians over runs (a run that never got "
        "there counts as infinite); what was asked of the language model's server is spread evenly "
        "over the rounds:"
    )
    curve = losses(result, "sst2")
    papers = grid(("model, as published", "reservoir prompt", "LoRA"), PUBLISHED)
    parts = [text + "\n\n" + costs, *([curve] if curve else [])]
    return [*parts, NEVER_RUN + "\n\n" + papers]


def cost_table(result: PromptResult) -> str:
    """Return what every method cost until it was first at each level; empty without curves."""
    costs = [found for level in LEVELS for found in cost_to_reach(result, level)]
    head = ("development", "method", "runs that got there", "rounds", "federation", "with asked")
    return grid(head, map(_cost_row, costs)) if costs else ""


def _cost_row(found: Reached) -> list[str]:
    search = ", of the search" if found.search else ""
    return [
        f"{100 * found.level:.0f}",
        f"{found.variant.method}, {_size(found.variant)}{search}",
        f"{found.n_reached} of {found.n_runs}",
        _number(median(found.rounds), "{:.0f}"),
        _bytes(found.median_federation),
        _bytes(found.median_whole),
    ]


def _number(value: float, form: str) -> str:
    return form.format(value) if np.isfinite(value) else "never"


def _shape(cell: Cell) -> str:
    return _size(cell.job.variant)


def _size(v: Variant) -> str:
    if v.method == "prompt":
        return "all numbers"
    if v.rank:
        return f"rank {v.rank}"
    return f"{v.units} units, k {v.bottleneck}" if v.units else f"k {v.bottleneck}"


def findings(result: PromptResult) -> list[str]:
    """Return what the final runs show, one sentence each."""
    lines = []
    adapters = result.of("sst2", ADAPTER)
    for method in ("subspace", "reservoir", "prompt"):
        cells = result.of("sst2", method)
        if cells and adapters:
            fewer = _mean(adapters, _crossed) / _mean(cells, _crossed)
            apart = 100 * (_mean(cells, _test) - _mean(adapters, _test))
            lines.append(
                f"sst2: {method} is {apart:+.1f} points from LoRA on test with {fewer:,.0f} times "
                "fewer bytes between clients and the federation's server"
            )
    for task in ("uci_har", "motionsense"):
        ridge = result.of(task, "ridge")
        for method in ("closed-form", "reservoir"):
            cells = result.of(task, method)
            if cells and ridge:
                apart = 100 * (_mean(cells, _test) - _mean(ridge, _test))
                lines.append(f"{task}: {method} is {apart:+.1f} points from the ridge readout")
    return lines + differences(result)


def draw(result: PromptResult, *, dark: bool = False) -> Figure:
    """Return development accuracy on sentences against bytes so far, a line for each run.

    Above, the language model is on the clients, as LoRA needs it; below it is on a server where a
    method allows that, and what is asked of it counts, evenly over the rounds.
    """
    colors = theme(dark)
    figure = Figure(figsize=(WIDTH, 7.6), layout="constrained", facecolor=colors.page)
    above, below = figure.subplots(2, 1, sharex=True)
    cells = [c for c in result.cells if c.job.task == "sst2" and c.curve]
    final = any(not c.job.search for c in cells)
    shown = [c for c in cells if c.job.search is not final]
    for ax, asked, title in (
        (above, False, "language model on the clients"),
        (below, True, "language model on a server (LoRA and plain prompt as above)"),
    ):
        dress(ax, colors)
        ax.set_title(title, loc="left", color=colors.text)
        _curves(ax, shown, asked, colors)
        zero = result.of("sst2", "zero-shot")
        if zero:
            level = 100 * _mean(zero, lambda cell: cell.development)
            ax.axhline(level, color=colors.muted, ls=":", label="zero-shot")
        ax.set_xscale("log")
        ax.set_ylabel("development accuracy (%)", color=colors.text)
    below.set_xlabel("MB so far, all clients, up and down", color=colors.text)
    if above.get_legend_handles_labels()[0]:
        key(figure, [above], colors, columns=2)
    return figure


def _curves(ax: Axes, cells: Sequence[Cell], asked: bool, colors: Theme) -> None:
    """Draw runs, with or without what they asked of a language model's server."""
    methods = [m for m in METHODS if any(c.job.variant.method == m for c in cells)]
    known: set[str] = set()
    for cell in cells:
        method = cell.job.variant.method
        each = cell.bytes_asked / max(cell.rounds, 1) if asked else 0.0
        x = [(crossed + each * rounds) / 1e6 for rounds, crossed, _ in cell.curve]
        y = [100 * accuracy for _, _, accuracy in cell.curve]
        label, style = _named(cell)
        color = colors.series[methods.index(method) % len(colors.series)]
        named = "_nolegend_" if label in known else label
        ax.plot(x, y, color=color, ls=style, marker="o", ms=3, lw=1.2, alpha=0.8, label=named)
        known.add(label)


def _named(cell: Cell) -> tuple[str, str]:
    """Return a run's name in a picture, and its line: one beside the table is dashed."""
    variant = cell.job.variant
    if variant.rank:
        return f"LoRA, rank {variant.rank}", "--" if variant.rounds else "-"
    name = SAID.get(variant.method, variant.method)
    return f"{name} ({_shape(cell)})" if variant.units else name, "-"


def draw_losses(result: PromptResult, *, dark: bool = False) -> Figure:
    """Return the clients' mean training loss by round, a panel for each task that keeps it.

    Lines of 100 rounds or more are running means over 15 of them.
    """
    colors = theme(dark)
    kept = [c for c in result.cells if c.losses and not c.job.search]
    tasks = [task for task in TITLES if any(c.job.task == task for c in kept)]
    methods = [m for m in METHODS if any(c.job.variant.method == m for c in kept)]
    columns = min(len(tasks), 2)
    rows = -(-len(tasks) // columns)
    size = (WIDTH, 2.5 * rows + 0.7)
    figure = Figure(figsize=size, layout="constrained", facecolor=colors.page)
    panels = np.ravel(figure.subplots(rows, columns))
    for ax in panels[len(tasks) :]:
        ax.set_axis_off()
    for ax, task in zip(panels, tasks, strict=False):
        dress(ax, colors)
        ax.set_title(SHORT.get(task, task), loc="left", color=colors.text)
        for cell in kept:
            if cell.job.task == task:
                method, rank = cell.job.variant.method, cell.job.variant.rank
                width = 15 if len(cell.losses) >= 100 else 1
                y = np.convolve(cell.losses, np.full(width, 1 / width), "valid")
                ax.plot(
                    *(width + np.arange(len(y)), y),
                    color=colors.series[methods.index(method) % len(colors.series)],
                    ls=_named(cell)[1],
                    lw=1.3,
                    label=f"LoRA, rank {rank}" if rank else SAID.get(method, method),
                )
    for ax in panels[::columns]:
        ax.set_ylabel("training loss", color=colors.text)
    for ax in panels[len(tasks) - columns : len(tasks)]:
        ax.set_xlabel("round", color=colors.text)
    key(figure, panels[: len(tasks)], colors)
    return figure


def write(result: PromptResult, folder: Path) -> list[Path]:
    """Write figures, tables and, of sentences, a picture into a folder; return their paths."""
    name = stem(result.settings, result.quick)
    paths = [folder / f"{name}.json", folder / f"{name}.md"]
    result.save(paths[0])
    paths[1].write_text(markdown(result))
    if any(cell.job.task == "sst2" and cell.curve for cell in result.cells):
        paths.append(folder / f"{name}.png")
        draw(result).savefig(paths[-1], dpi=110)
    if any(cell.losses and not cell.job.search for cell in result.cells):
        paths.append(folder / f"{name}-loss.png")
        draw_losses(result).savefig(paths[-1], dpi=110)
    return paths


def _crossed(cell: Cell) -> float:
    return float(cell.bytes_federated)


def _asked(cell: Cell) -> float:
    return float(cell.bytes_asked)


def _test(cell: Cell) -> float:
    return cell.test


def _mean(cells: Sequence[Cell], what: Callable[[Cell], float]) -> float:
    return float(np.mean([what(cell) for cell in cells]))


def _bytes(count: float) -> str:
    """Return a number of bytes as people write it.

    >>> _bytes(590469640)
    '590 MB'
    """
    if not np.isfinite(count):
        return "never"
    for unit, name in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if count >= unit:
            return f"{count / unit:.3g} {name}"
    return f"{count:.0f} B" if count else "-"
