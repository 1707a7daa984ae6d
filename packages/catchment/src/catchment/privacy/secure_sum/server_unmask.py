"""Taking the masks off a sum: shares are checked one by one, put together, and what they make too.

Every dealer gave the server digests of the shares it dealt. A share that does not have its digest
was changed by whoever gave it: it is thrown away and its giver named, and any t of the others do.
If shares with the right digests do not make the secret that the dealer committed to, the dealer is
at fault. All of it costs one digest per share and one combination per client, whoever lies.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import final

from catchment.errors import AbortedError, TooFewClientsError
from catchment.privacy.secure_sum import keys, transcript
from catchment.privacy.secure_sum.messages import share_from
from catchment.privacy.secure_sum.ring import Residues, Ring, add_into, subtract_from
from catchment.privacy.secure_sum.shamir import combine


@dataclass(frozen=True)
class Dealt:
    """What a client told of its secrets: two digests for each holder, and what each must make."""

    marks: Mapping[int, bytes]
    promise: bytes
    mask_key: bytes


@final
class Unmasking:
    """The shares that were given in a round.

    Parameters
    ----------
    names
        Clients by place.
    dealt
        What each client that uploaded or might have told of its secrets.
    sealed
        The clients in the sum: shares of their own masks were asked for, of the others' mask keys.
    """

    def __init__(
        self,
        session: keys.Session,
        names: Sequence[str],
        threshold: int,
        dealt: Mapping[int, Dealt],
        sealed: Sequence[int],
    ) -> None:
        self._session, self._names, self._threshold = session, names, threshold
        self._dealt, self._sealed = dealt, frozenset(sealed)
        self._good: dict[int, dict[int, int]] = {owner: {} for owner in dealt}
        self._liars: dict[int, set[int]] = {}

    def give(self, holder: int, shares: Mapping[int, bytes]) -> None:
        """Take the shares that a holder gave, by owner, as far as they are those it was dealt."""
        for owner, share in shares.items():
            which = 0 if owner in self._sealed else 1
            made = transcript.mark_of(self._session, owner, holder, which, share)
            start = which * transcript.DIGEST_BYTES
            if made == self._dealt[owner].marks[holder][start : start + transcript.DIGEST_BYTES]:
                self._good[owner][holder + 1] = share_from(share)
            else:
                self._liars.setdefault(holder, set()).add(owner)

    def liars(self) -> dict[int, str]:
        """Return who gave shares that it was not dealt, and of whom."""
        return {
            liar: "it gave other shares than it was dealt, of "
            + ", ".join(self._names[owner] for owner in sorted(owners)[:3])
            + (f" and {len(owners) - 3} others" if len(owners) > 3 else "")
            for liar, owners in sorted(self._liars.items())
        }

    def check(self) -> None:
        """Raise TooFewClientsError if the good shares are too few to open every secret."""
        for owner, shares in self._good.items():
            if len(shares) < self._threshold:
                raise TooFewClientsError(
                    f"the secure sum ended at 'unmask': {len(shares)} clients gave shares of "
                    f"{self._names[owner]}, {self._threshold} are needed; nothing was released"
                )

    def remove_masks(
        self, total: Residues, ring: Ring, near: Mapping[int, Sequence[int]], salt: bytes
    ) -> None:
        """Take off a sum the own masks of those in it and the masks they share with others."""
        masks = keys.Masks(ring, total.shape[1])
        for place in sorted(self._sealed):
            subtract_from(total, masks.of(keys.own_mask_key(salt, place, self._own(place))))
        for place in sorted(set(self._dealt) - self._sealed):
            agreement = keys.Agreement(self._mask_key(place))
            for other in sorted(self._sealed.intersection(near[place])):
                shared = agreement.shared(self._dealt[other].mask_key)
                mask = masks.of(keys.pair_mask_key(salt, shared, place, other))
                # Taken off as it was put on by the other one.
                (subtract_from if place > other else add_into)(total, mask)

    def _own(self, place: int) -> bytes:
        secret = self._secret(place)
        if self._session.digest("own mask", secret) != self._dealt[place].promise:
            raise self._wrong(place)
        return secret

    def _mask_key(self, place: int) -> bytes:
        secret = self._secret(place)
        if keys.public_key(secret) != self._dealt[place].mask_key:
            raise self._wrong(place)
        return secret

    def _secret(self, place: int) -> bytes:
        first = dict(sorted(self._good[place].items())[: self._threshold])
        secret = combine(first)
        if secret >= 1 << 256:
            raise self._wrong(place)
        return secret.to_bytes(keys.KEY_BYTES, "little")

    def _wrong(self, place: int) -> AbortedError:
        return AbortedError(
            f"{self._names[place]} dealt shares that do not make what it committed to; leave it "
            "out of the next round; nothing was released"
        )
