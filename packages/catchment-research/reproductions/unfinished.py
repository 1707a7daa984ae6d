"""Which parts of the studies have fewer runs than they were set up for, and what adds them."""

from __future__ import annotations

from reproductions.claims import Results
from reproductions.claims_networks import ENOUGH, rate_at_edge, rows_of
from reproductions.fedpt_values import ManySettings
from reproductions.people import SETS, SPOKEN
from reproductions.study import SetResult

PLANNED = {"fedip": (SPOKEN, *SETS)}
STUDIES = ("incfed", "fedip", "skew")


def unfinished(results: Results) -> str:
    """Return what is missing with the command that adds it, line by line; empty if nothing is."""
    lines = [*_people(results), *_images(results), *_memory(results), *_freeze(results)]
    return "\n".join(f"- {what}: `python -m reproductions {command}`" for what, command in lines)


def _people(results: Results) -> list[tuple[str, str]]:
    lines = []
    for name in STUDIES:
        study = results.people(name)
        if study is None:
            continue
        have = {one.name for one in study.sets}
        sets = [one for one in PLANNED.get(name, ()) if one not in have]
        if sets:
            told = f"`{name}` on {', '.join(sets)}"
            lines.append((told, f"{name} --resume --workers 8 --sets {','.join(sets)}"))
        folds = range(int(str(study.settings.get("folds", 0))))
        lack = sorted({k for one in study.sets for k in folds if k not in _folds(one)})
        if lack:
            names = ",".join(map(str, lack))
            lines.append((f"fold {names} of `{name}`", f"{name} --resume --folds {names}"))
    study = results.people("variance")
    if study is not None and not any(c.confusions for one in study.sets for c in one.cells):
        lines.append(("intervals over people of `variance`, an earlier run", "variance"))
    return lines


def _folds(one: SetResult) -> set[int]:
    return {cell.fold for cell in one.cells}


def _images(results: Results) -> list[tuple[str, str]]:
    groups = rows_of(results, "cifar_many")
    if not groups:
        return []
    have, planned = min(map(len, groups.values())), len(ManySettings().seeds)
    what = [f"{planned - have} of {planned} seeds of `cifar_many`"] if have < planned else []
    edge = [share for share in groups if rate_at_edge(results, "cifar_many", share)]
    if edge:
        shares = " and ".join(f"{share:g} %" for share in edge)
        what.append(f"rates beyond the best of {shares} trained, which is at the edge")
    return [("; ".join(what), "fedpt --sets cifar_many --merge --resume")] if what else []


def _memory(results: Results) -> list[tuple[str, str]]:
    rows = (results.study("fedpt") or {}).get("memory") or ()
    times = {row["repetition"] for row in rows}
    if not rows or len(times) >= ENOUGH:
        return []
    return [("more than one measurement of memory on a CPU", "fedpt --sets memory --merge")]


def _freeze(results: Results) -> list[tuple[str, str]]:
    study = results.study("freeze")
    if study is None:
        return []
    chosen, tested = (
        {
            (job["trained"], tuple(job["shares"]), job["order"])
            for row in study["rows"]
            if (job := row["job"])["part"] == "dropout" and job["search"] is searched
        }
        for searched in (True, False)
    )
    if chosen <= tested:
        return []
    told = f"{len(chosen - tested)} of {len(chosen)} ways to train a part of the units in `freeze`"
    return [(told, "freeze --resume")]
