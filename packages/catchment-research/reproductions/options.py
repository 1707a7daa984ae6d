"""Options of the commands, and how they change the settings of a study."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from pathlib import Path
from typing import Any

import typer

# What a study calls the number of its reservoirs drawn anew.
SEEDS = ("seeds", "repetitions", "retrainings", "initializations")
NO_MEANING = (
    "**A quick run: its figures mean nothing.** It shows that everything works, with too little "
    "data and training to measure anything."
)


@dataclass(frozen=True, kw_only=True)
class Options:
    """What a user asks of a study; None and False leave the study's own settings."""

    quick: bool = False
    paper: bool = False
    stand_in: bool = False
    sets: tuple[str, ...] | None = None
    folds: tuple[int, ...] | None = None
    trials: int | None = None
    steps: int | None = None
    rounds: int | None = None
    seeds: int | None = None
    noises: tuple[float, ...] | None = None
    workers: int = 1
    resume: bool = False
    merge: bool = False
    model: str | None = None
    data: Path | None = None
    out: Path = Path("results")

    @property
    def given(self) -> tuple[str, ...]:
        """Names of the options that are not as they are when left out."""
        usual = Options()
        return tuple(
            field.name
            for field in fields(self)
            if getattr(self, field.name) != getattr(usual, field.name)
        )

    def refuse_others(self, study: str, known: Sequence[str]) -> None:
        """Raise ValueError if an option is given that a study does not have.

        >>> Options(trials=3).refuse_others("maps", ["seeds"])
        Traceback (most recent call last):
        ValueError: maps has no --trials; leave it out (it has --seeds)
        """
        other = [name for name in self.given if name not in known]
        if other:
            raise ValueError(
                f"{study} has no {_dashed(other[0])}; leave it out "
                f"(it has {', '.join(map(_dashed, known))})"
            )
        if self.paper and self.quick:
            raise ValueError("--paper and --quick are two settings; give one of them")
        if self.stand_in and not self.paper:
            raise ValueError("--stand-in says what --paper may run on; give it with --paper")

    @property
    def folder(self) -> Path:
        """Where results go: those with a paper's settings do not replace the others.

        >>> Options(paper=True).folder.as_posix()
        'results/paper'
        """
        return self.out / "paper" if self.paper else self.out

    @property
    def numbers(self) -> dict[str, Any]:
        """Those that replace numbers of a study's settings."""
        names = ("trials", "steps", "rounds", "seeds", "noises")
        given = {name: getattr(self, name) for name in names}
        return {name: value for name, value in given.items() if value is not None}


def _dashed(name: str) -> str:
    return "--" + name.replace("_", "-")


def mark_quick(paths: Sequence[Path]) -> None:
    """Say first and last in written tables that the figures of a quick run mean nothing."""
    for path in paths:
        if path.suffix == ".md":
            title, _, rest = path.read_text().partition("\n")
            path.write_text(f"{title}\n\n{NO_MEANING}\n{rest.rstrip()}\n\n{NO_MEANING}\n")


def report(written: Sequence[Path], options: Options) -> None:
    """Say what was written, and mark the tables of a quick run."""
    if options.quick:
        mark_quick(written)
    for path in written:
        typer.echo(f"wrote {path}", err=True)


def listed(text: str | None) -> tuple[str, ...] | None:
    """Return the entries of a list separated by commas, None of none.

    >>> listed("hhar, wesad")
    ('hhar', 'wesad')
    """
    return tuple(entry.strip() for entry in text.split(",")) if text else None


def changed(settings: Any, **numbers: Any) -> Any:
    """Return settings with the given numbers in place of their own, in all that they contain.

    `rounds` are those of every training but a search's, `seeds` how many draws there are, whatever
    the settings call them; a seed that a search uses is left out.

    >>> from reproductions.incfed import QUICK
    >>> changed(QUICK, seeds=5, steps=None).repetitions
    5
    """
    for name, value in numbers.items():
        if value is None:
            continue
        if any(v <= 0 for v in ([value] if isinstance(value, int) else [])):
            raise ValueError(f"{name} is {value}; pass 1 or more")
        new = _replaced(settings, name, value, set(_search_seeds(settings)))
        if new is None:
            raise ValueError(f"this experiment has no {name}; leave the option out")
        settings = new
    return settings


def _replaced(settings: Any, name: str, value: Any, taken: set[int]) -> Any:
    """Return the settings with an entry and those of what they contain replaced, or None."""
    new: dict[str, Any] = {}
    for field in fields(settings):
        old = getattr(settings, field.name)
        if is_dataclass(old) and not isinstance(old, type):
            inner = _replaced(old, name, value, taken)
            if inner is not None:
                new[field.name] = inner
        elif _means(field.name, name):
            new[field.name] = _free(value, taken) if _is_seeds(field.name, old) else value
    return replace(settings, **new) if new else None


def _means(field: str, name: str) -> bool:
    match name:
        case "rounds":
            return "search" not in field and (field == "rounds" or field.endswith("_rounds"))
        case "seeds":
            return field in SEEDS
    return field == name


def _is_seeds(field: str, old: object) -> bool:
    return field == "seeds" and isinstance(old, tuple)


def _free(n: int, taken: set[int]) -> tuple[int, ...]:
    """Return the first n seeds that no search uses."""
    return tuple([seed for seed in range(n + len(taken)) if seed not in taken][:n])


def _search_seeds(settings: Any) -> Iterator[int]:
    for field in fields(settings):
        value = getattr(settings, field.name)
        if is_dataclass(value):
            yield from _search_seeds(value)
        elif "search_seed" in field.name:
            yield from value if isinstance(value, tuple) else (value,)
