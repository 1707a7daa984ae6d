"""The stream experiment as a page: one row a contender, means over seeds."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from reproductions.streams import GRU, StreamCell, StreamsResult
from reproductions.streams_contenders import CONTENDERS
from reproductions.streams_data import TASKS

TITLES = {
    "changes": "The activity changes unannounced every 3 to 8 s",
    "gaps": "The same, and the sensor is silent for 0.5 to 3 s again and again",
}


def markdown(result: StreamsResult) -> str:
    """Return the tables of all tasks."""
    return "\n".join(_lines(result))


def write(result: StreamsResult, folder: Path) -> tuple[Path, Path]:
    """Write the result as JSON and as a page; return where."""
    stem = "streams-quick" if result.quick else "streams"
    data, page = folder / f"{stem}.json", folder / f"{stem}.md"
    result.save(data)
    page.write_text(markdown(result) + "\n", encoding="utf-8")
    return data, page


def _lines(result: StreamsResult) -> Iterator[str]:
    seeds = sorted({cell.seed for cell in result.cells})
    n_people = max((len(cell.people) for cell in result.cells), default=0)
    yield "# Labels for every step of a stream (`streams`)"
    yield ""
    drawn = ", ".join(map(str, seeds))
    yield f"MotionSense, {n_people} unseen people in five folds, seeds {drawn}."
    yield (
        "Accuracy of a label every 10 steps; settled: 1.5 s or more after a change; worst: the "
        "person with the least accuracy; state: bytes kept from step to step; work and time: of a "
        "label, if every step has one; upload: of one client, all rounds; macro-F1: of all "
        "people's labels together."
    )
    for task in TASKS:
        known = {cell.contender for cell in result.cells if cell.task == task}
        names = [name for name in (*CONTENDERS, GRU) if name in known]
        if not names:
            continue
        gaps = task == "gaps"
        yield f"\n## {TITLES[task]}\n"
        yield (
            "| contender | accuracy | macro-F1 | settled |"
            + " in gaps |" * gaps
            + " worst | columns | "
            "state, bytes | work | us | upload, kB | chosen |"
        )
        yield "|---|" + "---|" * (10 + gaps)
        yield from (_row(name, result.of(task, name), gaps) for name in names)


def _row(name: str, cells: tuple[StreamCell, ...], gaps: bool) -> str:
    def mean(of: Callable[[StreamCell], float | None]) -> float:
        return float(np.mean([value for cell in cells if (value := of(cell)) is not None]))

    options = [option for cell in cells for option in cell.chosen]
    usual = max(dict.fromkeys(options), key=options.count)
    spread = np.std([cell.accuracy for cell in cells], ddof=1) if len(cells) > 1 else 0.0
    values = [
        name,
        f"{mean(lambda c: c.accuracy):.3f}" + f" ± {spread:.3f}" * (len(cells) > 1),
        f"{mean(lambda c: c.macro_f1):.3f}",
        f"{mean(lambda c: c.settled):.3f}",
        *([f"{mean(lambda c: c.silent):.3f}"] if gaps else []),
        f"{mean(lambda c: c.worst):.3f}",
        f"{mean(lambda c: c.columns):.0f}",
        f"{mean(lambda c: c.state_bytes):.0f}",
        f"{mean(lambda c: c.work):.0f}",
        f"{mean(lambda c: c.microseconds):.2g}",
        f"{mean(lambda c: c.upload_bytes) / 1000:.0f}",
        usual,
    ]
    return "| " + " | ".join(values) + " |"
