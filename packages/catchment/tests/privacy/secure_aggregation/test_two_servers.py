"""Secure aggregation with two servers: its sealing is RFC 9180's, its sums are exact."""

from __future__ import annotations

import secrets
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from threading import Barrier, BrokenBarrierError
from typing import Any

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.hmac import HMAC
from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand

from catchment import FederatedRidge, MiniRocket, Plan
from catchment.data import synthetic_wearables
from catchment.engine import run_locally
from catchment.errors import IntegrityError, RuleError, TooFewClientsError
from catchment.privacy import Helper, SecureAggregation, generate_keys, new_helper
from catchment.privacy.secure_aggregation import SUITE
from catchment.wire import Message, equal, join, split

KEM, HPKE = b"KEM\x00\x20", b"HPKE\x00\x20\x00\x01\x00\x03"
# RFC 9180, A.2.1: DHKEM(X25519, HKDF-SHA256), HKDF-SHA256, ChaCha20Poly1305, base mode.
VECTOR = {
    "skR": "8057991eef8f1f1af18f4a9491d16a1ce333f695d4db8e38da75975c4478e0fb",
    "enc": "1afa08d3dec047a643885163f1180476fa7ddb54c6a8029ea33f95796bf2ac4a",
    "info": "4f6465206f6e2061204772656369616e2055726e",
    "aad": "436f756e742d30",
    "pt": "4265617574792069732074727574682c20747275746820626561757479",
    "ct": "1c5250d8034ec2b784ba2cfd69dbdb8af406cfe3ff938e131f0def8c8b60b4db"
    "21993c62ce81883d2dd1b51a28",
}


def extract(suite: bytes, salt: bytes, label: bytes, content: bytes) -> bytes:
    mac = HMAC(salt or bytes(32), SHA256())
    mac.update(b"HPKE-v1" + suite + label + content)
    return mac.finalize()


def expand(suite: bytes, key: bytes, label: bytes, about: bytes, length: int) -> bytes:
    info = length.to_bytes(2, "big") + b"HPKE-v1" + suite + label + about
    return HKDFExpand(SHA256(), length, info).derive(key)


def opened(key: X25519PrivateKey, enc: bytes, info: bytes, ct: bytes, aad: bytes) -> bytes:
    """Return what RFC 9180's SetupBaseR and Open give, written from its text."""
    public = key.public_key().public_bytes_raw()
    shared = key.exchange(X25519PublicKey.from_public_bytes(enc))
    secret = expand(KEM, extract(KEM, b"", b"eae_prk", shared), b"shared_secret", enc + public, 32)
    about = b"\0" + extract(HPKE, b"", b"psk_id_hash", b"") + extract(HPKE, b"", b"info_hash", info)
    drawn = extract(HPKE, secret, b"secret", b"")
    nonce = expand(HPKE, drawn, b"base_nonce", about, 12)
    return ChaCha20Poly1305(expand(HPKE, drawn, b"key", about, 32)).decrypt(nonce, ct, aad)


def test_sealed_seeds_open_by_the_rules_of_rfc_9180() -> None:
    given = {name: bytes.fromhex(text) for name, text in VECTOR.items()}
    key = X25519PrivateKey.from_private_bytes(given["skR"])
    plain = opened(key, given["enc"], given["info"], given["ct"], given["aad"])
    assert plain == given["pt"]
    seed, about = secrets.token_bytes(32), b"what it is bound to"
    box = SUITE.encrypt(seed, key.public_key(), info=about)
    assert len(box) == 32 + 32 + 16
    assert opened(key, box[:32], about, box[32:], b"") == seed


@pytest.mark.parametrize("digits", [64, 128])  # plans of the first days name no key that signs
def test_the_sum_of_two_servers_is_the_sum_in_the_clear_to_the_bit(digits: int) -> None:
    people = synthetic_wearables(6, windows_per_user=70, seed=1)
    keys, memory = generate_keys(people), dict[str, bytes]()
    agreed = SecureAggregation(
        keys, servers=2, helper=new_helper(memory)[:digits], min_clients=3, rows_per_feature=2
    )
    agreed = replace(agreed, assist=Helper(memory, agreed).answer)
    features = MiniRocket(84).build(6, per_step=False, classes=True)
    plan = Plan(
        algorithm=FederatedRidge(features=features, ridge=1.0, store_per_client=False),
        protections=(agreed,),
    )
    masked, plain = run_locally(plan, people), run_locally(replace(plan, protections=()), people)
    assert masked.records[-1].n_used == 6
    assert equal(masked.state.total, plain.state.total)
    np.testing.assert_array_equal(masked.model.readout.weights, plain.model.readout.weights)


def test_a_helper_with_another_key_opens_nothing() -> None:
    people = synthetic_wearables(3, windows_per_user=70, seed=1)
    memory, other = dict[str, bytes](), dict[str, bytes]()
    new_helper(other)
    agreed = SecureAggregation(
        generate_keys(people), servers=2, helper=new_helper(memory), min_clients=3,
        rows_per_feature=2,
    )  # fmt: skip
    agreed = replace(agreed, assist=Helper(other, agreed).answer)
    features = MiniRocket(84).build(6, per_step=False, classes=True)
    plan = Plan(
        algorithm=FederatedRidge(features=features, ridge=1.0, store_per_client=False),
        protections=(agreed,),
    )
    with pytest.raises((IntegrityError, TooFewClientsError), match="sealed for another helper"):
        run_locally(plan, people)


class Meeting(dict[str, bytes]):
    """A memory in which two who look at once see the same."""

    barrier: Barrier | None = None

    def get(self, key: str, default: Any = None) -> Any:
        found = super().get(key, default)
        if self.barrier is not None:
            with suppress(BrokenBarrierError):
                self.barrier.wait(0.5)
        return found


def test_of_two_overlapping_batches_at_once_one_is_answered() -> None:
    """The difference of their two sums would be one client's."""
    people, memory = synthetic_wearables(4, windows_per_user=70, seed=1), Meeting()
    sent: list[bytes] = []
    agreed = SecureAggregation(
        generate_keys(people),
        servers=2,
        helper=new_helper(memory),
        min_clients=3,
        rows_per_feature=2,
        assist=lambda batch: sent.append(batch) or b"",  # type: ignore[func-returns-value]
    )
    features = MiniRocket(84).build(6, per_step=False, classes=True)
    ridge = FederatedRidge(features=features, ridge=1.0, store_per_client=False)
    with pytest.raises(IntegrityError):
        run_locally(Plan(algorithm=ridge, protections=(agreed,)), people)
    named = split(Message.from_bytes(sent[0]), "secure-batch")
    del named[min(named)]
    helper = Helper(memory, agreed)

    def answered(batch: bytes) -> str:
        try:
            helper.answer(batch)
        except RuleError as error:
            return error.code
        return "answered"

    memory.barrier = Barrier(2)
    with ThreadPoolExecutor(2) as pool:
        found = pool.map(answered, [sent[0], join("secure-batch", named).to_bytes()])
    assert sorted(found) == ["answered", "overlap"]


@pytest.mark.parametrize("given", [{"servers": 2}, {"helper": "00" * 32}])
def test_two_servers_and_a_helper_go_together(given: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="with two servers, and only then"):
        SecureAggregation({"ann": "00" * 32}, **given)  # type: ignore[arg-type]
