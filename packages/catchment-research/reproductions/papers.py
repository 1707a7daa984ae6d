"""`python -m reproductions papers`: for each paper, what it claims and what came of it here."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from catchment.wire import replace_file
from reproductions.claims import Claim, Paper, Results, Verdict
from reproductions.claims_concepts import CONCEPTS
from reproductions.claims_networks import FEDPT
from reproductions.claims_people import FEDIP, INCFED
from reproductions.claims_prompts import FEDRESPROMPT
from reproductions.grids import grid
from reproductions.tables import is_stand_in
from reproductions.unfinished import unfinished

PAPERS = (CONCEPTS, INCFED, FEDIP, FEDPT, FEDRESPROMPT)
HEAD = """# The papers' claims, and ours

Made by `python -m reproductions papers` from the figures in `results/` and `benchmarks/results/`;
nothing is typed in but what the papers print. Differences are in points, with 95 % intervals over
people and repetitions, or over seeds where there are no people. *Same conclusion* is *yes* where
all of a claim's differences have the claimed sign and leave out 0, *partly* where some do, *no*
where none does and some have the other sign, *not settled* where all intervals contain 0 or have
fewer than six people, and *not run* where the figures are missing or without people.

Some verdicts need a limit, and these were set by hand, some of them after figures had been seen:
scores that differ by 1e-8 or less are the same readout; "less than 2 points" and "less than 0.5
points" are the paper's own words, "almost nothing" is read as 1 point; numbers sent are as few as
claimed from 8 times fewer on; a trend (seconds, memory) is *yes* if it falls at every step and
*partly* if its last figure is below its first. The order of shares is *not settled* while the best
rate of the whole network is the last that was tried (of a share the row says so), and memory while
it was measured fewer than three times, *partly* if an earlier measurement had the other order. The
dependence on the draw is judged by counting, without intervals."""


def papers(
    results: Annotated[Path, typer.Option(help="Folder of results, also written to.")] = Path(
        "results"
    ),
    benchmarks: Annotated[Path, typer.Option(help="Folder of benchmarks' figures.")] = Path(
        "benchmarks/results"
    ),
    docs: Annotated[Path, typer.Option(help="Folder of the documentation, written to.")] = Path(
        "docs/research"
    ),
) -> None:
    """What each paper claims, our figures, whether the conclusion is the same, and why."""
    text = document(Results(results, benchmarks))
    for folder in (results, docs):
        replace_file(folder / "papers.md", text.encode())
        typer.echo(f"wrote {folder / 'papers.md'}", err=True)


def document(results: Results) -> str:
    """Return the tables of all papers, and what was never run, as a Markdown document."""
    parts = [HEAD]
    for paper in PAPERS:
        parts += [f"## {paper.title}", table(paper, results)]
        if paper.instead:
            parts.append(f"Run on: {paper.instead}")
    parts += ["## What was never run", limits(results)]
    missing = unfinished(results)
    if missing:
        parts += ["## What is not finished", "With the command that adds it:", missing]
    return "\n\n".join(parts) + "\n"


def table(paper: Paper, results: Results) -> str:
    """Return a paper's claims beside ours."""
    rows = [_row(claim, claim.judge(results)) for claim in paper.claims]
    return grid(["claim", "ours", "same conclusion", "why, and what differs"], rows)


def _row(claim: Claim, verdict: Verdict | None) -> list[str]:
    found = verdict or Verdict("-", "not run", "no figures with people yet")
    return [claim.text, found.ours, f"**{found.same}**", found.why]


def limits(results: Results) -> str:
    """Return which of the papers' own data and models were never run, read from the results."""
    sets = [
        one
        for name in ("incfed", "fedip")
        if (study := results.people(name)) is not None
        for one in study.sets
    ]
    raw = {one.name for one in sets if not is_stand_in(one)}
    fedpt = results.study("fedpt") or {"rows": [], "notes": []}
    data = {row["data"] for row in fedpt["rows"]}
    model = str((results.study("fedresprompt") or {"settings": {}})["settings"].get("model", ""))
    lacking = {
        "raw WESAD (15 subjects, 700 Hz, four conditions)": "wesad" not in raw,
        "HHAR of the Nexus 4 with its gyroscope": "hhar" not in raw,
        "federated EMNIST (3 400 writers, 62 classes)": "femnist" not in data,
        "Stack Overflow (342 477 users)": "stackoverflow" not in data,
        "all 50 000 training images of CIFAR-10": not any(
            "50000 images" in note for note in fedpt["notes"]
        ),
        "Qwen2.5 and Mistral, and any language model above 135 million parameters": not any(
            name in model.lower() for name in ("qwen", "mistral")
        ),
    }
    lines = [f"- {what}" for what, missing in lacking.items() if missing]
    if not lines:
        return "All of the papers' own data and models were run."
    return (
        "**Limit no. 1 of everything above: these of the papers' own data and models were not at "
        "hand, and never run here.** With the publishers' files in the data directory `--paper` "
        "runs the papers' settings on them.\n\n" + "\n".join(lines)
    )
