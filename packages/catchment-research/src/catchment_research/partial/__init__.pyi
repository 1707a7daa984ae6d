from catchment_research.learn.optimizers import Schedule as Schedule
from catchment_research.partial.dropout import Dropout as Dropout
from catchment_research.partial.freeze import (
    Freeze as Freeze,
    PartialNetwork as PartialNetwork,
    Share as Share,
    suggest_freeze as suggest_freeze,
)
from catchment_research.partial.ftrl import (
    FollowTheLeader as FollowTheLeader,
    schedule_epsilon as schedule_epsilon,
    tree_epsilon as tree_epsilon,
)
from catchment_research.partial.networks import (
    Maker as Maker,
    NetworkModel as NetworkModel,
    RecordingTraining as RecordingTraining,
    network_model_of as network_model_of,
)
from catchment_research.partial.training import (
    Examples as Examples,
    FederatedTraining as FederatedTraining,
    LocalSteps as LocalSteps,
)

# For the other packages and the tests; may change without notice.
from catchment_research.partial.dropout import Kept as Kept, links as links, masks_of as masks_of
from catchment_research.partial.freeze import (
    Suggestion as Suggestion,
    by_size as by_size,
    gaussian as gaussian,
    stream as stream,
    words as words,
)
from catchment_research.partial.ftrl import toeplitz_root as toeplitz_root
from catchment_research.partial.networks import (
    EmnistCnn as EmnistCnn,
    NETWORKS as NETWORKS,
    ResNet18 as ResNet18,
    examples_of as examples_of,
    network_named as network_named,
)
from catchment_research.partial.training import (
    Change as Change,
    IGNORED as IGNORED,
    JointNorms as JointNorms,
    Moved as Moved,
    Recordings as Recordings,
    Trained as Trained,
    cross_entropy as cross_entropy,
    forget_recordings as forget_recordings,
    frozen_part as frozen_part,
    group_norm as group_norm,
    layout as layout,
    one_set as one_set,
    recordings_of as recordings_of,
    train_group as train_group,
)

__all__ = [
    "Dropout",
    "Examples",
    "FederatedTraining",
    "FollowTheLeader",
    "Freeze",
    "LocalSteps",
    "Maker",
    "NetworkModel",
    "PartialNetwork",
    "RecordingTraining",
    "Schedule",
    "Share",
    "network_model_of",
    "schedule_epsilon",
    "suggest_freeze",
    "tree_epsilon",
]
