"""Signatures under plans: nodes can be told to take part in what one person has signed.

What is signed is the plan's fingerprint: all its settings, but not its comments or its title. The
signature lies beside the plan, in `plan.signature.toml`, and travels with it.
"""

from __future__ import annotations

import tomllib
from pathlib import Path

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import (
    Ed25519PrivateKey,
    Ed25519PublicKey,
)
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from catchment.errors import IntegrityError
from catchment.plans import read_plan
from catchment.wire import replace_file
from catchment_fleet.apps.scaffold import signature_path

PURPOSE = b"catchment plan 1\n"


def sign_plan(plan: str | Path, key: str | Path) -> tuple[Path, str]:
    """Sign a plan, and return the path of the signature and the signer's public key.

    Parameters
    ----------
    key
        File of the signer's private key; made if it is not there.
    """
    plan, key = Path(plan), Path(key)
    private = _private(key)
    signature = private.sign(PURPOSE + read_plan(plan).fingerprint.encode())
    public = private.public_key().public_bytes_raw().hex()
    text = f'signer = "{public}"\nsignature = "{signature.hex()}"\n'
    replace_file(signature_path(plan), text.encode())
    return signature_path(plan), public


def is_signed(plan: Path, fingerprint: str, signer: str) -> bool:
    """Return whether a plan's fingerprint has a good signature of a signer beside the plan."""
    path = signature_path(plan)
    if not path.is_file():
        return False
    try:
        found = tomllib.loads(path.read_text(encoding="utf-8")).get("signature")
        signature = bytes.fromhex(str(found))
        public = Ed25519PublicKey.from_public_bytes(bytes.fromhex(signer))
        public.verify(signature, PURPOSE + fingerprint.encode())
    except (ValueError, InvalidSignature):
        return False
    return True


def _private(path: Path) -> Ed25519PrivateKey:
    if not path.exists():
        made = Ed25519PrivateKey.generate()
        pem = made.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        replace_file(path, pem, mode=0o600)
        return made
    found = load_pem_private_key(path.read_bytes(), password=None)
    if not isinstance(found, Ed25519PrivateKey):
        raise IntegrityError(f"{path} is no Ed25519 key; name another")
    return found
