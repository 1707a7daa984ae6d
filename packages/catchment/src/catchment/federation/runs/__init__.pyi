# For the other packages and the tests; may change without notice.
from catchment.federation.runs.explain import bounds_of as bounds_of
from catchment.federation.runs.verify import Verification as Verification
from catchment.federation.runs.drawn import (
    DrawnRecording as DrawnRecording,
    MOST_POINTS as MOST_POINTS,
    MOST_RECORDINGS as MOST_RECORDINGS,
    Span as Span,
    draw as draw,
    thinned as thinned,
)
from catchment.federation.runs.explain import in_words as in_words, say_bytes as say_bytes
from catchment.federation.runs.read import (
    folds_of_run as folds_of_run,
    folds_sentence as folds_sentence,
)
from catchment.federation.runs.ledger import Entries as Entries, Entry as Entry
from catchment.federation.runs.write import Logged as Logged
from catchment.federation.runs.write import StageNotes as StageNotes
from catchment.federation.runs.read import (
    Progress as Progress,
    Reporter as Reporter,
    is_held as is_held,
    read_progress as read_progress,
    reported as reported,
)
from catchment.federation.runs.read import (
    Drawn as Drawn,
    Run as Run,
    Stage as Stage,
    Traffic as Traffic,
    last_state as last_state,
    read_digests as read_digests,
)
from catchment.federation.runs.write import _lines as _lines
from catchment.federation.runs.verify import (
    Described as Described,
    TRAINING as TRAINING,
    described as described,
)
from catchment.federation.runs.verify import (
    SETTLED as SETTLED,
    WithoutClient as WithoutClient,
    refuse_sum as refuse_sum,
    unlearn_from_run as unlearn_from_run,
)
from catchment.federation.runs.write import (
    BATCH as BATCH,
    DATABASE as DATABASE,
    JOURNAL as JOURNAL,
    MODEL as MODEL,
    PART as PART,
    PLAN as PLAN,
    PROGRESS as PROGRESS,
    remove_run as remove_run,
)

__all__ = []
