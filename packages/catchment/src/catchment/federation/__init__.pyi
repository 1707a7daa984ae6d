from catchment.federation.algorithm import (
    Algorithm as Algorithm,
    Data as Data,
    Requirements as Requirements,
    RoundContext as RoundContext,
)
from catchment.federation.checks import Limits as Limits
from catchment.federation.increments import ByRound as ByRound
from catchment.federation.loop import BLOCK as BLOCK, Result as Result
from catchment.federation.messages import Engine as Engine, Record as Record
from catchment.federation.plan import Plan as Plan
from catchment.federation.protection import (
    LowRankUpload as LowRankUpload,
    Masking as Masking,
    Protection as Protection,
)
from catchment.federation.rows import Rows as Rows
from catchment.federation.runs.folder import RunFolder as RunFolder
from catchment.federation.runs.ledger import explain as explain
from catchment.federation.runs.read import messages_of as messages_of, read_run as read_run
from catchment.federation.workflow import Workflow as Workflow

# For the other packages and the tests; may change without notice.
from catchment.federation.algorithm import (
    Additive as Additive,
    Cost as Cost,
    Kept as Kept,
    Memory as Memory,
    Tally as Tally,
    Upload as Upload,
    WeightedSum as WeightedSum,
    Weighting as Weighting,
    added_by_key as added_by_key,
    check_weight as check_weight,
    client_weight as client_weight,
)
from catchment.federation.checks import (
    Claim as Claim,
    FEWEST as FEWEST,
    LIMITS as LIMITS,
    MOST_HELD as MOST_HELD,
    Screen as Screen,
    check_statistics as check_statistics,
    check_total as check_total,
    claimed as claimed,
    moment_matrix as moment_matrix,
)
from catchment.federation.client import (
    Elsewhere as Elsewhere,
    LETTER_HEADER as LETTER_HEADER,
    Node as Node,
    REFUSED as REFUSED,
    Request as Request,
    answer_together as answer_together,
    refusal as refusal,
)
from catchment.federation.increments import Asked as Asked, Increments as Increments
from catchment.federation.loop import (
    BlockSum as BlockSum,
    MOST_GROUPS as MOST_GROUPS,
    Sums as Sums,
    model_of as model_of,
    run as run,
)
from catchment.federation.messages import (
    REPLY_HEADER as REPLY_HEADER,
    Refusal as Refusal,
    Reply as Reply,
    Watch as Watch,
    check_client_names as check_client_names,
    headline as headline,
)
from catchment.federation.plan import describe as describe
from catchment.federation.protection import Read as Read
from catchment.federation.rows import (
    augmented as augmented,
    segment as segment,
    targets_of as targets_of,
)
from catchment.federation.workflow import (
    AnyPlan as AnyPlan,
    DELIVERY as DELIVERY,
    Delivery as Delivery,
    EVALUATION as EVALUATION,
    Engines as Engines,
    InMemory as InMemory,
    LEARNING as LEARNING,
    Place as Place,
    Receipt as Receipt,
    StageInputs as StageInputs,
    TRAINING as TRAINING,
    not_given as not_given,
    sha256_of as sha256_of,
)

__all__ = [
    "Algorithm",
    "BLOCK",
    "ByRound",
    "Data",
    "Engine",
    "Limits",
    "LowRankUpload",
    "Masking",
    "Plan",
    "Protection",
    "Record",
    "Requirements",
    "Result",
    "RoundContext",
    "Rows",
    "RunFolder",
    "Workflow",
    "explain",
    "messages_of",
    "read_run",
]
