"""Plans as files: one TOML file says what is run, on which data, and how it is protected.

`read_plan` reads one, `run_plan` runs it into a folder; `catchment run` does both. `verify_run`
computes the hashes of a run again, `how_served` says how one person is served by its model.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from catchment.faces import face

if TYPE_CHECKING:
    # Type checkers do not follow the table below.
    from catchment.plans.examples import example_names as example_names
    from catchment.plans.examples import example_plan as example_plan
    from catchment.plans.file import PlanFile as PlanFile
    from catchment.plans.file import parse_plan as parse_plan
    from catchment.plans.file import read_plan as read_plan
    from catchment.plans.in_process import Finished as Finished
    from catchment.plans.in_process import run_plan as run_plan
    from catchment.plans.schema import plan_schema as plan_schema
    from catchment.plans.served import how_served as how_served
    from catchment.plans.verify import Check as Check
    from catchment.plans.verify import Verification as Verification
    from catchment.plans.verify import verify_run as verify_run

__all__, __getattr__, __dir__ = face(
    __name__,
    {
        "in_process": ["Finished", "run_plan"],
        "examples": ["example_names", "example_plan"],
        "file": ["PlanFile", "parse_plan", "read_plan"],
        "schema": ["plan_schema"],
        "served": ["how_served"],
        "verify": ["Check", "Verification", "verify_run"],
    },
)
