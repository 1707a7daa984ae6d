"""Plans as files: one TOML file says what is run, on which data, and how it is protected.

`read_plan` reads one, `run_plan` runs it into a folder; `catchment run` does both. `verify_run`
computes the hashes of a run again.
"""

from __future__ import annotations

from catchment.faces import face

__all__, __getattr__, __dir__ = face(__name__)
