"""`catchment explain`: what left each client, and how one of them is served."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from catchment.cli.predict import UseOption
from catchment.cli.show import DataOption, JsonOption, print_json
from catchment.plugins import plugin

MOST_MESSAGES = 30
MOST_OF_ONE = 100_000


def explain(
    folder: Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a run.")],
    client: Annotated[
        str | None,
        typer.Option("--client", help="Say how one client is served and list what it sent."),
    ] = None,
    files: Annotated[
        list[str] | None,
        typer.Option(
            "--files", metavar="FILE", help="Recordings of the client, who may be new; repeat it."
        ),
    ] = None,
    html: Annotated[
        Path | None, typer.Option("--html", metavar="FILE", help="Write it as a page, drawn.")
    ] = None,
    messages: Annotated[
        bool, typer.Option("--messages", help="With --client: what it sent, and nothing else.")
    ] = False,
    data: DataOption = None,
    as_json: JsonOption = False,
    use: UseOption = None,
) -> None:
    """Say what left each client, what can be read from it, and what never left.

    With --client: how well that one is served, how its recordings differ from the others', what
    a readout of its own would give, and likely reasons; then what it sent.
    """
    if client is None:
        if files or html or messages or as_json:
            raise ValueError("--files, --html, --messages and --json are about one; pass --client")
        typer.echo(_what_left(folder, None))
        return
    if messages:
        typer.echo(_what_left(folder, client))
        return
    diagnose = plugin("reports", "served", needed_for="reasons why a client is served badly")
    from catchment.features.base import imported

    found: Any = diagnose.how_served(
        folder, client, files=files or [], data=data, use=[imported(name) for name in use or []]
    )
    if html is not None:
        diagnose.write_served_page(found, html)
    if as_json:
        print_json(found.to_dict())
        return
    typer.echo(diagnose.served_in_words(found))
    if html is not None:
        typer.echo(f"drawn: {html}\n")
    if _has_sent(folder, client):
        typer.echo(_what_left(folder, client))


def _has_sent(folder: Path, client: str) -> bool:
    from catchment.federation.runs.read import messages_of

    return bool(messages_of(folder, client, 1))


def _what_left(folder: Path, client: str | None) -> str:
    from catchment.federation.runs.explain import in_words
    from catchment.federation.runs.read import messages_of, read_run

    found = read_run(folder)
    limit = MOST_OF_ONE if client else MOST_MESSAGES
    messages = messages_of(folder, client, limit + 1)
    if client and not messages:
        raise ValueError(f"{client!r} sent nothing in {folder}; check the name")
    return in_words(found, messages[:limit], more=len(messages) > limit).rstrip()
