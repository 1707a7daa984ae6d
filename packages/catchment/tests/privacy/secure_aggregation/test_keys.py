"""Derived keys against HMAC written out, and what every signature and box is bound to."""

from __future__ import annotations

import hashlib
import hmac
import itertools
import json

import pytest

from catchment.errors import IntegrityError
from catchment.privacy import generate_keys, new_identity
from catchment.privacy.secure_aggregation import (
    PROTOCOL,
    Agreement,
    Session,
    derive,
    new_key,
    public_key,
    seal,
    sign,
    unseal,
    verify,
)


def test_derived_keys_are_hkdf_sha256() -> None:
    secret, salt, purpose = b"secret", b"salt" * 8, "mask|1|2"
    extracted = hmac.new(salt, secret, hashlib.sha256).digest()
    expanded = hmac.new(extracted, purpose.encode() + b"\x01", hashlib.sha256).digest()
    assert derive(secret, salt=salt, purpose=purpose) == expanded


def test_what_is_bound_is_unambiguous_json() -> None:
    session = Session("fed", "ab" * 32, 17, "cd" * 32)
    assert json.loads(session.about("keys", "ann", "ben")) == [
        PROTOCOL,
        "fed",
        "ab" * 32,
        17,
        "cd" * 32,
        "keys",
        "ann",
        "ben",
    ]


def sessions() -> list[bytes]:
    """Return the text of messages that differ in one respect each."""
    base = ("fed", "plan", 1, "turn", "keys", "ann", "ben")
    changed = [
        (*base[:n], 2 if isinstance(base[n], int) else f"{base[n]}x", *base[n + 1 :])
        for n in range(7)
    ]
    return [
        Session(str(f), str(p), int(r), str(u)).about(str(m), str(s), str(t))
        for f, p, r, u, m, s, t in [base, *changed]
    ]


def test_a_signature_holds_for_nothing_else() -> None:
    identities = generate_keys(["ann", "ben"])
    memories = identities.memories
    texts = sessions()
    assert len(set(texts)) == 8
    signature = sign(memories["ann"], texts[0], b"content")
    verify(identities["ann"], signature, texts[0], b"content")
    for text, content in [*itertools.product(texts[1:], [b"content"]), (texts[0], b"other")]:
        with pytest.raises(IntegrityError, match="does not fit"):
            verify(identities["ann"], signature, text, content)
    with pytest.raises(IntegrityError, match="does not fit"):
        verify(identities["ben"], signature, texts[0], b"content")


def test_a_box_opens_for_nothing_else() -> None:
    key = derive(b"k", salt=b"", purpose="p")
    texts = sessions()
    box = seal(key, b"content", texts[0])
    assert len(box) == len(b"content") + 16
    assert unseal(key, box, texts[0]) == b"content"
    for text in texts[1:]:
        with pytest.raises(IntegrityError, match="does not open"):
            unseal(key, box, text)
    with pytest.raises(IntegrityError, match="does not open"):
        unseal(derive(b"k", salt=b"", purpose="q"), box, texts[0])


def test_content_does_not_run_into_what_it_is_bound_to() -> None:
    identities = generate_keys(["ann"])
    memories = identities.memories
    signature = sign(memories["ann"], b"about", b"x")
    with pytest.raises(IntegrityError):
        verify(identities["ann"], signature, b"about\0x", b"")


@pytest.mark.parametrize("degenerate", [bytes(32), b"\x01" + bytes(31)])
def test_degenerate_public_keys_are_refused(degenerate: bytes) -> None:
    with pytest.raises(IntegrityError, match="degenerate"):
        Agreement(new_key()).shared(degenerate)


def test_two_sides_agree_and_a_third_does_not() -> None:
    a, b, c = new_key(), new_key(), new_key()
    assert Agreement(a).shared(public_key(b)) == Agreement(b).shared(public_key(a))
    assert Agreement(a).shared(public_key(b)) != Agreement(c).shared(public_key(b))


def test_private_keys_stay_where_they_were_made() -> None:
    identities = generate_keys(["ann", "ben"])
    memories = identities.memories
    assert identities["ann"] != identities["ben"]
    assert identities["ann"] == new_identity(memories["ann"])
    assert bytes.fromhex(identities["ann"]) not in memories["ann"].values()
