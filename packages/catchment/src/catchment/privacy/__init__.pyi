from catchment.privacy.dp.budget import Budget as Budget
from catchment.privacy.dp.clipping import Clip as Clip
from catchment.privacy.dp.gaussian import epsilon_spent as epsilon_spent
from catchment.privacy.dp.noise import (
    GaussianNoise as GaussianNoise,
    PerSequence as PerSequence,
    PromptNoise as PromptNoise,
)
from catchment.privacy.in_the_clear import (
    PlainStatisticsWarning as PlainStatisticsWarning,
    networked as networked,
)
from catchment.privacy.policy import Policy as Policy
from catchment.privacy.releases import Release as Release, Releases as Releases
from catchment.privacy.secure_sum.client_store import (
    FileMemory as FileMemory,
    forget_rounds as forget_rounds,
)
from catchment.privacy.secure_sum.keys import (
    make_identities as make_identities,
    new_identity as new_identity,
)
from catchment.privacy.secure_sum.protection import Identities as Identities, SecureSum as SecureSum
from catchment.privacy.secure_sum.server_journal import Journal as Journal

# For the other packages and the tests; may change without notice.
from catchment.privacy.in_the_clear import (
    PlainRules as PlainRules,
    check_floors as check_floors,
    check_memory as check_memory,
    policy_of as policy_of,
)
from catchment.privacy.policy import (
    NAME as NAME,
    OwnData as OwnData,
    parse_policy as parse_policy,
    read_policy as read_policy,
    template as template,
)
from catchment.privacy.releases import (
    HEAD as HEAD,
    PAGE as PAGE,
    PENDING as PENDING,
    _head as _head,
)

__all__ = [
    "Budget",
    "Clip",
    "FileMemory",
    "GaussianNoise",
    "Identities",
    "Journal",
    "PerSequence",
    "PlainStatisticsWarning",
    "Policy",
    "PromptNoise",
    "Release",
    "Releases",
    "SecureSum",
    "epsilon_spent",
    "forget_rounds",
    "make_identities",
    "networked",
    "new_identity",
]
