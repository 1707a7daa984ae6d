"""The nodes."""

from pathlib import Path

from catchment_fleet.apps import client_of

app = client_of(Path(__file__).with_name("plan.toml"))
