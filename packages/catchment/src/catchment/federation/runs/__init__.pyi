# For the other packages and the tests; may change without notice.
from catchment.federation.runs.folder import (
    DATABASE as DATABASE,
    JOURNAL as JOURNAL,
    MODEL as MODEL,
    PLAN as PLAN,
    PROGRESS as PROGRESS,
    locked as locked,
    remove_run as remove_run,
)
from catchment.federation.runs.ledger import (
    BATCH as BATCH,
    Entries as Entries,
    Entry as Entry,
    EntryList as EntryList,
    Keeper as Keeper,
    in_words as in_words,
    say_bytes as say_bytes,
)
from catchment.federation.runs.read import (
    Progress as Progress,
    Run as Run,
    Stage as Stage,
    Traffic as Traffic,
    folds_of_run as folds_of_run,
    folds_sentence as folds_sentence,
    is_held as is_held,
    last_state as last_state,
    lasting as lasting,
    read_digests as read_digests,
    read_progress as read_progress,
    reported as reported,
)
from catchment.federation.runs.verify import (
    Described as Described,
    SETTLED as SETTLED,
    Verification as Verification,
    WithoutClient as WithoutClient,
    unlearn_from_run as unlearn_from_run,
)

__all__ = []
