"""Protections of what leaves a client: secure sums, clipping and noise, and a budget that refuses.

`catchment.privacy.audit` attacks a configuration on generated data and says what is recovered.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from catchment.faces import face

if TYPE_CHECKING:
    # Type checkers do not follow the table below.
    from catchment.privacy.dp.accounting import epsilon_spent as epsilon_spent
    from catchment.privacy.dp.budget import Budget as Budget
    from catchment.privacy.dp.clipping import Clip as Clip
    from catchment.privacy.dp.noise import GaussianNoise as GaussianNoise
    from catchment.privacy.dp.per_sequence import PerSequence as PerSequence
    from catchment.privacy.dp.prompt_noise import PromptNoise as PromptNoise
    from catchment.privacy.in_the_clear import PlainStatisticsWarning as PlainStatisticsWarning
    from catchment.privacy.in_the_clear import networked as networked
    from catchment.privacy.policy import Policy as Policy
    from catchment.privacy.releases import Release as Release
    from catchment.privacy.releases import Releases as Releases
    from catchment.privacy.secure_sum.client_notes import forget_rounds as forget_rounds
    from catchment.privacy.secure_sum.client_store import FileMemory as FileMemory
    from catchment.privacy.secure_sum.identities import Identities as Identities
    from catchment.privacy.secure_sum.keys import make_identities as make_identities
    from catchment.privacy.secure_sum.keys import new_identity as new_identity
    from catchment.privacy.secure_sum.protection import SecureSum as SecureSum
    from catchment.privacy.secure_sum.server_journal import Journal as Journal

__all__, __getattr__, __dir__ = face(
    __name__,
    {
        "dp.accounting": ["epsilon_spent"],
        "dp.budget": ["Budget"],
        "dp.clipping": ["Clip"],
        "dp.noise": ["GaussianNoise"],
        "dp.per_sequence": ["PerSequence"],
        "dp.prompt_noise": ["PromptNoise"],
        "in_the_clear": ["PlainStatisticsWarning", "networked"],
        "secure_sum.client_notes": ["forget_rounds"],
        "policy": ["Policy"],
        "releases": ["Release", "Releases"],
        "secure_sum.client_store": ["FileMemory"],
        "secure_sum.identities": ["Identities"],
        "secure_sum.keys": ["make_identities", "new_identity"],
        "secure_sum.protection": ["SecureSum"],
        "secure_sum.server_journal": ["Journal"],
    },
)
