# For the other packages and the tests; may change without notice.
from catchment.privacy.secure_aggregation.client import (
    Dealt as Dealt,
    Holder as Holder,
    Me as Me,
    Terms as Terms,
    Vault as Vault,
)
from catchment.privacy.secure_aggregation.client_store import JUMP as JUMP, Notebook as Notebook
from catchment.privacy.secure_aggregation.graph import (
    corrupt_among as corrupt_among,
    degree as degree,
    neighbors as neighbors,
    threshold as threshold,
    uncut as uncut,
)
from catchment.privacy.secure_aggregation.keys import (
    ADVERT_BYTES as ADVERT_BYTES,
    Agreement as Agreement,
    BOX_BYTES as BOX_BYTES,
    IDENTITY as IDENTITY,
    KEY_BYTES as KEY_BYTES,
    MARK_BYTES as MARK_BYTES,
    Masks as Masks,
    PROTOCOL as PROTOCOL,
    SHOWN_BYTES as SHOWN_BYTES,
    Session as Session,
    derive as derive,
    mark as mark,
    new_key as new_key,
    of_adverts as of_adverts,
    of_nonces as of_nonces,
    of_update as of_update,
    public_key as public_key,
    seal as seal,
    sign as sign,
    unseal as unseal,
    verify as verify,
)
from catchment.privacy.secure_aggregation.protection import (
    FEWEST_CLIENTS as FEWEST_CLIENTS,
    FEWEST_ROWS_PER_FEATURE as FEWEST_ROWS_PER_FEATURE,
    check_rows as check_rows,
    check_share as check_share,
    check_threshold as check_threshold,
    is_name as is_name,
)
from catchment.privacy.secure_aggregation.ring import (
    Outline as Outline,
    PRIME as PRIME,
    Residues as Residues,
    Ring as Ring,
    SHARE_BYTES as SHARE_BYTES,
    _weights as _weights,
    add_into as add_into,
    as_bits as as_bits,
    combine as combine,
    content_digest as content_digest,
    cut as cut,
    decode as decode,
    decode_whole as decode_whole,
    encode as encode,
    encode_whole as encode_whole,
    encoded as encoded,
    from_bits as from_bits,
    from_rows as from_rows,
    negate as negate,
    readout_error as readout_error,
    rows as rows,
    share as share,
    share_from as share_from,
    subtract_from as subtract_from,
)
from catchment.privacy.secure_aggregation.server import (
    SecureRound as SecureRound,
    left_out as left_out,
)
from catchment.privacy.secure_aggregation.server_journal import FORMAT as FORMAT, ORDER as ORDER
from catchment.privacy.secure_aggregation.two_servers import SUITE as SUITE, exchanged as exchanged

__all__ = []
