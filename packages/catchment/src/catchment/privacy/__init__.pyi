from catchment.privacy.dp.budget import Budget as Budget
from catchment.privacy.dp.gaussian import epsilon_spent as epsilon_spent
from catchment.privacy.dp.noise import (
    Clip as Clip,
    GaussianNoise as GaussianNoise,
    RecordLevel as RecordLevel,
)
from catchment.privacy.ledger import LedgerEntry as LedgerEntry, PrivacyLedger as PrivacyLedger
from catchment.privacy.policy import (
    PlainStatisticsWarning as PlainStatisticsWarning,
    Policy as Policy,
    networked as networked,
)
from catchment.privacy.secure_aggregation.client_store import (
    FileMemory as FileMemory,
    forget_rounds as forget_rounds,
)
from catchment.privacy.secure_aggregation.keys import (
    generate_keys as generate_keys,
    new_identity as new_identity,
)
from catchment.privacy.secure_aggregation.protection import (
    Identities as Identities,
    SecureAggregation as SecureAggregation,
)
from catchment.privacy.secure_aggregation.server_journal import Journal as Journal
from catchment.privacy.secure_aggregation.two_servers import (
    Helper as Helper,
    new_helper as new_helper,
)

# For the other packages and the tests; may change without notice.
from catchment.privacy.ledger import HEAD as HEAD, PAGE as PAGE, PENDING as PENDING, _head as _head
from catchment.privacy.policy import (
    NAME as NAME,
    OwnData as OwnData,
    PlainRules as PlainRules,
    check_floors as check_floors,
    check_memory as check_memory,
    parse_policy as parse_policy,
    policy_of as policy_of,
    read_policy as read_policy,
    template as template,
)

__all__ = [
    "Budget",
    "Clip",
    "FileMemory",
    "GaussianNoise",
    "Helper",
    "Identities",
    "Journal",
    "LedgerEntry",
    "PlainStatisticsWarning",
    "Policy",
    "PrivacyLedger",
    "RecordLevel",
    "SecureAggregation",
    "epsilon_spent",
    "forget_rounds",
    "generate_keys",
    "networked",
    "new_helper",
    "new_identity",
]
