"""`python -m reproductions`: published experiments again, beside the papers' own figures."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import typer

from catchment.errors import CatchmentError
from reproductions.adapt_command import adapt
from reproductions.anomaly_command import anomaly
from reproductions.command import STUDIES, study_command
from reproductions.cost_command import cost
from reproductions.data_commands import compact, data, pack
from reproductions.forecast_command import forecast
from reproductions.freeze_command import freeze
from reproductions.keywords_command import keywords
from reproductions.lags_command import lags
from reproductions.life_command import life
from reproductions.papers import papers
from reproductions.pixels_command import pixels
from reproductions.speech_command import sentences, speech
from reproductions.streams_command import streams

app = typer.Typer(
    name="reproductions",
    help="Published experiments again, beside the papers' own figures.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
for study in STUDIES:
    app.command(study)(study_command(study))
app.command("adapt")(adapt)
app.command("anomaly")(anomaly)
app.command("cost")(cost)
app.command("streams")(streams)
app.command("forecast")(forecast)
app.command("freeze")(freeze)
app.command("speech")(speech)
app.command("sentences")(sentences)
app.command("keywords")(keywords)
app.command("lags")(lags)
app.command("life")(life)
app.command("pixels")(pixels)
app.command("papers")(papers)
app.command("data")(data)
app.command("compact")(compact)
app.command("pack")(pack)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit; errors of the user become one line."""
    try:
        app(args=arguments, prog_name="python -m reproductions")
    except (CatchmentError, ValueError, OSError) as error:
        typer.secho(f"error: {' '.join(str(error).split())}", fg=typer.colors.RED, err=True)
        sys.exit(2)


if __name__ == "__main__":
    main()
