"""The server."""

from pathlib import Path

from catchment_fleet.apps import server_of

app = server_of(Path(__file__).with_name("plan.toml"))
