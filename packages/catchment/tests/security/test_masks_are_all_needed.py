"""Each kind of mask is needed: a server without it would read numbers, and does not with it."""

from __future__ import annotations

import numpy as np
import pytest

from catchment.federation import RoundContext
from catchment.privacy import Policy
from catchment.privacy.secure_aggregation import (
    Notebook,
    Outline,
    Ring,
    add_into,
    combine,
    keys,
    share_from,
    subtract_from,
)
from catchment.wire import NOTHING, Message
from tests.security.fleet import Fleet
from tests.security.liars import bare


def claimed_lost(fleet: Fleet) -> tuple[Message, np.ndarray]:
    """Return the upload of c000, and what is left of it for a server that says it never came.

    The server asks for the mask key of c000 as that of a client that was lost, rebuilds all its
    pair masks, and takes them off the upload that it has.
    """
    exchange = fleet.until("update")
    upload = fleet.ask("c000", "update", exchange.request("update", "c000", NOTHING))
    others = [c for c in fleet.vectors if c != "c000"]
    fleet.step(exchange, "update", others)
    fleet.step(exchange, "consistency")
    shares = {}
    for client in exchange.asked("unmask"):
        given = fleet.ask(client, "unmask", exchange.request("unmask", client, NOTHING))
        shares[fleet.masking.places[client] + 1] = share_from(given.arrays[0][0].tobytes())
        exchange.take("unmask", given, RoundContext(0, (), client=client))
    _, t = fleet.masking.degree(len(fleet.vectors))
    secret = combine(dict(list(shares.items())[:t])).to_bytes(66, "little")[:32]
    assert keys.public_key(secret) == exchange._row("keys", 0)[32:64]
    return upload, bare(fleet, exchange, upload, 0, own=None, mask_key=secret)


def test_an_upload_that_is_said_to_be_lost_stays_under_its_own_mask() -> None:
    fleet = Fleet.drawn(6)
    _, found = claimed_lost(fleet)
    assert np.abs(found).max() > 1e9
    assert not np.isclose(found, fleet.vectors["c000"], rtol=1e-3).any()


def test_without_own_masks_it_would_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """The mutant: with own masks of zeros on both sides, the very same server reads the numbers."""
    whole = keys.Masks.of
    owns: set[bytes] = set()
    derive = keys.own_mask_key

    def noted(salt: bytes, place: int, secret: bytes) -> bytes:
        owns.add(key := derive(salt, place, secret))
        return key

    def without_own(self: keys.Masks, key: bytes) -> np.ndarray:
        mask = whole(self, key)
        return np.zeros_like(mask) if key in owns else mask

    monkeypatch.setattr(keys, "own_mask_key", noted)
    monkeypatch.setattr(keys.Masks, "of", without_own)
    fleet = Fleet.drawn(6)
    _, found = claimed_lost(fleet)
    np.testing.assert_array_equal(found, fleet.vectors["c000"])


def test_the_same_secrets_in_two_rounds_make_two_masks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys come from the system; should it ever repeat them, rounds still have masks of their own.

    The server knows the own masks, as it does after a sum. If pair masks were not salted with the
    round, the difference of a client's two uploads would be that of its numbers.
    """
    fleet, left = Fleet.drawn(3, policy=Policy(changed_data=True)), []
    for k in range(2):
        drawn = iter(range(100))
        monkeypatch.setattr(keys, "new_key", lambda drawn=drawn: keys_of(next(drawn)))
        exchange = fleet.until("update")
        monkeypatch.undo()
        fleet.vectors = {name: vector + k for name, vector in fleet.vectors.items()}
        upload = fleet.ask("c000", "update", exchange.request("update", "c000", NOTHING))
        context = RoundContext(0, (), plan=fleet.plan.fingerprint())
        session = keys.Session.of("catchment", exchange._number, context)
        own = Notebook(fleet.memories["c000"], session)["own mask"]
        salt = bytes.fromhex(str(upload.facts["update"]))
        numbers = upload.arrays[0].copy()
        subtract_from(numbers, keys.Masks(Ring(), 3).of(keys.own_mask_key(salt, 0, own)))
        left.append(numbers)
    subtract_from(left[1], left[0])
    found = Outline.from_fact(upload.facts["outline"]).fill(left[1], Ring()).arrays[0]
    assert np.abs(found).max() > 1e9
    assert not np.isclose(found, 1.0).any()


def keys_of(k: int) -> bytes:
    return bytes([k + 1] * 32)


def test_keys_of_masks_depend_on_everything() -> None:
    salts = (b"a" * 32, b"b" * 32)
    pairs = ((0, 1), (0, 2), (1, 2))
    made = {keys.pair_mask_key(salt, b"s", *pair) for salt in salts for pair in pairs}
    made |= {keys.own_mask_key(salt, place, b"s") for salt in salts for place in (0, 1)}
    assert len(made) == 10
    assert keys.pair_mask_key(salts[0], b"s", 0, 1) == keys.pair_mask_key(salts[0], b"s", 1, 0)
    total = np.zeros((2, 1), dtype=np.uint64)
    add_into(total, keys.Masks(Ring(), 1).of(next(iter(made))))
    assert total.any()
