"""`catchment watch`: a run on a page of this machine, while it goes."""

from __future__ import annotations

import os
import sys
import threading
import webbrowser
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from catchment.cli import JsonOption, size

if TYPE_CHECKING:
    from catchment_lab.watch.server import Snapshot

RunFolder = Annotated[
    Path, typer.Argument(metavar="RUN", help="Folder of a run; it need not have begun.")
]


def watch(
    folder: RunFolder,
    port: Annotated[
        int | None,
        typer.Option(min=0, max=65535, help="Port; 0 for any free one. 8765 if it is free."),
    ] = None,
    browser: Annotated[
        bool, typer.Option("--open/--no-open", help="Whether to open a browser.")
    ] = True,
    once: Annotated[
        bool, typer.Option("--once", help="Print how the run is, once, and serve nothing.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Follow a run on a live page: rounds, clients, bytes, scores.

    Everybody with an account on this machine can open the page, nobody else.
    Ctrl-C ends the page, not the run.
    """
    from catchment_lab.watch.server import look, watching

    found = look(folder)
    if once or as_json:
        typer.echo(found.to_json() if as_json else "\n".join(in_words(found)))
        return
    try:
        with watching(folder, port=port) as server:
            typer.echo(f"{folder}: {server.url} (Ctrl-C ends this page, not the run)")
            if browser and has_screen():
                threading.Thread(target=webbrowser.open, args=(server.url,), daemon=True).start()
            threading.Event().wait()
    except KeyboardInterrupt:
        typer.echo("the page is closed", err=True)


def has_screen() -> bool:
    """Return whether there is a screen; without one, a browser would take the terminal."""
    names = ("DISPLAY", "WAYLAND_DISPLAY")
    return sys.platform in ("darwin", "win32") or any(os.environ.get(name) for name in names)


def in_words(one: Snapshot) -> Iterator[str]:
    """Yield lines about a run at one moment."""
    facts = one.facts or {}
    yield f"{facts.get('title', one.folder)}: {one.state}. {one.says}"
    for stage in one.stages:
        many = f", {stage.finished} of {stage.rounds} rounds" if stage.rounds > 1 else ""
        yield f"  {stage.name}: {stage.state}{many}"
    if one.progress is not None and one.progress.asked:
        now = one.progress
        yield f"{now.done} of {now.asked} clients answered in round {now.round + 1} of {now.stage}"
    if one.rounds:
        up, down = sum((one.bytes_up or {}).values()), sum((one.bytes_down or {}).values())
        yield f"sent up {size(up)}, down {size(down)}"
        last = one.rounds[0]
        figures = "".join(
            f", {name} {value:.4g}" for name, value in last.figures.items() if value is not None
        )
        yield f"last round ({last.stage}): {last.used} of {last.asked} clients used{figures}"
    for held in one.bounds:
        releases = f"{held.made} of {held.releases} releases of {held.stage}"
        at_most = f"epsilon at most {held.epsilon:g} at delta {held.delta:g}"
        yield f"{at_most} per {held.unit}, {releases} made"
    for refused in one.refusals[:5]:
        often = f", {refused.times} times" if refused.times > 1 else ""
        yield f"not used: {refused.client}, {refused.stage}{often}: {refused.reason}"
    if len(one.refusals) > 5:
        yield f"and {len(one.refusals) - 5} more"
    if one.scores and one.worst:
        score = one.scores.get(one.metric)
        yield f"{one.metric} {score:.4g}, worst client {one.worst[0]} {one.worst[1]:.4g}"
