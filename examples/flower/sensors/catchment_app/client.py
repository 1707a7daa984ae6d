"""The nodes."""

from pathlib import Path

from catchment.plans.flower import client_of

app = client_of(Path(__file__).with_name("plan.toml"))
