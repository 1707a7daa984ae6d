from catchment.federation.runs.verify import Check as Check, Verification as Verification
from catchment.plans.by_files import (
    AwaitedError as AwaitedError,
    Combined as Combined,
    Contribution as Contribution,
    assist as assist,
    combine as combine,
    contribute as contribute,
    kit as kit,
)
from catchment.plans.file import (
    PlanFile as PlanFile,
    example_names as example_names,
    example_plan as example_plan,
    parse_plan as parse_plan,
    plan_schema as plan_schema,
    read_plan as read_plan,
)
from catchment.plans.run import Finished as Finished, run_plan as run_plan
from catchment.plans.verify import verify_run as verify_run

# For the other packages and the tests; may change without notice.
from catchment.plans.by_files import (
    OwnFiles as OwnFiles,
    own_data as own_data,
    own_files as own_files,
)
from catchment.plans.data import (
    About as About,
    Files as Files,
    Origin as Origin,
    PlanData as PlanData,
)
from catchment.plans.file import (
    fingerprint_of as fingerprint_of,
    own_kinds as own_kinds,
    refuse_weeks as refuse_weeks,
)
from catchment.plans.run import (
    Beside as Beside,
    NOTHING_NEW as NOTHING_NEW,
    PlanRun as PlanRun,
    client_memories as client_memories,
    folds_of as folds_of,
)
from catchment.plans.settings import (
    ALGORITHMS as ALGORITHMS,
    MAPS as MAPS,
    PLASTICITY as PLASTICITY,
    PROTECTIONS as PROTECTIONS,
    described as described,
    map_of as map_of,
    own_classes as own_classes,
    read as read,
    schema as schema,
)
from catchment.plans.verify import plan_of as plan_of

__all__ = [
    "AwaitedError",
    "Check",
    "Combined",
    "Contribution",
    "Finished",
    "PlanFile",
    "Verification",
    "assist",
    "combine",
    "contribute",
    "example_names",
    "example_plan",
    "kit",
    "parse_plan",
    "plan_schema",
    "read_plan",
    "run_plan",
    "verify_run",
]
