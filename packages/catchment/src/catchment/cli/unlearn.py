"""`catchment unlearn`: the model of a run as if a client had never been there."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from catchment.cli.predict import UseOption, load_predictor
from catchment.cli.progress import waiting
from catchment.cli.show import JsonOption, print_json


def unlearn(
    folder: Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a finished run.")],
    client: Annotated[str, typer.Argument(metavar="CLIENT", help="Who is to be forgotten.")],
    out: Annotated[
        Path | None, typer.Option("--out", metavar="DIR", help="Where to; the run's folder.")
    ] = None,
    as_json: JsonOption = False,
    use: UseOption = None,
) -> None:
    """Make the model as if a client had never been there, and a certificate of it.

    Works from what the run kept of each client; nobody is asked again. The run itself stays as it
    is, with what the client sent.
    """
    from catchment.federation.runs.unlearn import unlearn_from_run
    from catchment.federation.runs.verify import CERTIFICATE, file_name
    from catchment.files import replace_file

    with waiting("forgetting", quiet=as_json):
        found = unlearn_from_run(folder, client, load_predictor(folder, use))
    place = out or folder
    place.mkdir(parents=True, exist_ok=True)
    model = found.model.save(place / f"model-without-{file_name(client)}.safetensors")
    certificate = place / CERTIFICATE
    replace_file(certificate, (found.certificate.to_json() + "\n").encode())
    told = found.certificate
    if as_json:
        print_json({"model": str(model), "certificate": str(certificate), "remains": told.remains})
        return
    typer.echo(f"wrote {model} and {certificate.name}")
    typer.echo(f"{told.n_rows} rows of {client} are out of the sum")
    typer.echo(f"before   {told.before}")
    if told.how == "equality":
        typer.echo(f"removed  {told.removed}")
    typer.echo(f"after    {told.after}")
    alike = " that scales and adapts as this one did" if told.remains else ""
    if told.how == "equality":
        typer.echo("after = before - removed, in whole numbers, to the last bit:")
        typer.echo(f"the sum of a run without {client}{alike}")
        typer.echo(f"anybody can check it: catchment verify {folder}")
    if told.how == "summed-anew":
        typer.echo(f"a run without {client}{alike} has the second of these sums, to the bit")
    if told.remains:
        typer.echo(f"still fitted with {client}: {told.remains}")
    typer.echo(f"{folder} itself still holds what {client} sent; delete it when it is not needed")
