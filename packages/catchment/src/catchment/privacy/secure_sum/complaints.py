"""Who is left out when clients say that boxes of others do not open.

Of two clients, one that complains and one that is complained of, one is at fault, and nobody can
see which: the box is for one reader. So the client with the most conflicts is left out, again and
again until none is left; at a tie the one that is complained of. A sender of bad boxes has many
conflicts, and so has a client that complains of many; each costs the round itself alone. A client
with a single conflict can cost the round one other client.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping


def left_out(complaints: Mapping[int, Collection[int]]) -> dict[int, str]:
    """Return who is left out, and why.

    Parameters
    ----------
    complaints
        For each client that complains, those whose boxes did not open for it.

    >>> left_out({0: [2], 1: [2]})
    {2: 'its boxes did not open for 2 clients'}
    >>> left_out({0: [1, 2, 3]})
    {0: 'it said that the boxes of 3 clients do not open, and nobody else did'}
    """
    open_ = {(by, of) for by, senders in complaints.items() for of in senders if of != by}
    out: dict[int, str] = {}
    while open_:
        made, got = Counter(by for by, _ in open_), Counter(of for _, of in open_)
        worst = max(
            {*made, *got}, key=lambda client: (made[client] + got[client], got[client], -client)
        )
        if got[worst] >= made[worst]:
            plural = "s" * (got[worst] > 1)
            out[worst] = f"its boxes did not open for {got[worst]} client{plural}"
        else:
            out[worst] = (
                f"it said that the boxes of {made[worst]} clients do not open, and nobody else did"
            )
        open_ = {pair for pair in open_ if worst not in pair}
    return out
