from catchment_fleet.apps.app import (
    client_of as client_of,
    server_of as server_of,
    simulate_plan as simulate_plan,
)
from catchment_fleet.apps.scaffold import write_app as write_app

# For the other packages and the tests; may change without notice.
from catchment_fleet.apps.agreement import (
    Agreement as Agreement,
    read_identities as read_identities,
)
from catchment_fleet.apps.app import serve_plan as serve_plan
from catchment_fleet.apps.guard import ScoreGuard as ScoreGuard
from catchment_fleet.apps.launch import (
    LARGEST as LARGEST,
    own_app as own_app,
    plan_in as plan_in,
    refuse_code as refuse_code,
)
from catchment_fleet.apps.node import (
    ModelFolder as ModelFolder,
    PlanNode as PlanNode,
    data_at as data_at,
)
from catchment_fleet.apps.scaffold import (
    PACKAGE as PACKAGE,
    is_signed as is_signed,
    sign_plan as sign_plan,
    signature_path as signature_path,
)

__all__ = [
    "client_of",
    "server_of",
    "simulate_plan",
    "write_app",
]
