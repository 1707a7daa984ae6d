"""`python -m tools.mutants`: put faults in, one at a time, and say which of them a test notices."""

from __future__ import annotations

import fnmatch
import queue
import random
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Lock
from typing import Annotated

import typer

from tools.mutants.automatic import automatic, described
from tools.mutants.modules import modules_and_tests
from tools.mutants.mutant import Mutant
from tools.mutants.named import NAMED
from tools.mutants.record import Cell, Record
from tools.mutants.trial import Copy, Outcome

ROOT = Path(__file__).resolve().parents[2]
app = typer.Typer(name="tools.mutants", pretty_exceptions_enable=False)


@app.command()
def run(
    only: Annotated[
        list[str] | None, typer.Option(metavar="PATTERN", help="Faults of such names only.")
    ] = None,
    sample: Annotated[int, typer.Option(help="How many automatic faults are tried.")] = 0,
    seed: Annotated[int, typer.Option(help="Which automatic ones are drawn.")] = 0,
    jobs: Annotated[int, typer.Option(help="How many at once.")] = 1,
    timeout: Annotated[float, typer.Option(help="Seconds for the tests of one fault.")] = 600.0,
    resume: Annotated[bool, typer.Option(help="Leave out what is on record.")] = False,
    out: Annotated[Path, typer.Option(help="The record.")] = ROOT
    / "benchmarks"
    / "results"
    / "mutants.json",
) -> None:
    """Put faults in, one at a time, and say which of them a test notices."""
    chosen = [("named", mutant) for mutant in NAMED if _fits(mutant, only)]
    drawn = [mutant for mutant in all_automatic() if _fits(mutant, only)]
    n_drawn = min(sample, len(drawn))
    chosen += [("automatic", mutant) for mutant in random.Random(seed).sample(drawn, n_drawn)]
    record = Record.read(out)
    if resume:
        chosen = [(k, m) for k, m in chosen if not record.knows(k, m.name, m.digest(ROOT))]
    typer.echo(f"{len(chosen)} faults")
    with tempfile.TemporaryDirectory() as folder:
        copies: queue.Queue[Copy] = queue.Queue()
        made = [Copy.of(ROOT, Path(folder) / str(k)) for k in range(jobs)]
        for copy in made:
            copies.put(copy)
        writing = Lock()

        def tried(one: tuple[str, Mutant]) -> None:
            kind, mutant = one
            copy = copies.get()
            try:
                outcome = copy.tried(mutant, timeout=timeout)
            finally:
                copies.put(copy)
            with writing:
                typer.echo(_line(mutant, outcome))
                record.keep(kind, mutant.name, _cell(kind, mutant, outcome))

        with ThreadPoolExecutor(jobs) as pool:
            list(pool.map(tried, chosen))
        for name in sorted(set().union(*(copy.left_out for copy in made))):
            typer.echo(f"fails without any fault, and was left out: {name}")
    typer.echo(f"record: {out}")


def all_automatic() -> list[Mutant]:
    """Return every automatic fault of the modules that are listed."""
    return [
        mutant
        for path, tests in modules_and_tests().items()
        for mutant in automatic(ROOT, path, tests)
    ]


def _fits(mutant: Mutant, patterns: Sequence[str] | None) -> bool:
    return not patterns or any(fnmatch.fnmatch(mutant.name, pattern) for pattern in patterns)


def _line(mutant: Mutant, outcome: Outcome) -> str:
    why = f"  (expected: {mutant.equivalent})" if mutant.equivalent else ""
    return f"{outcome.verdict:8} {mutant.name}  {outcome.by}{why}  [{outcome.seconds:.0f} s]"


def _cell(kind: str, mutant: Mutant, outcome: Outcome) -> Cell:
    change = described(mutant) if kind == "automatic" else "; ".join(mutant.paths)
    return Cell(
        verdict=outcome.verdict,
        by=outcome.by,
        seconds=round(outcome.seconds, 1),
        change=change,
        equivalent=mutant.equivalent,
        digest=mutant.digest(ROOT),
    )


if __name__ == "__main__":
    app()
