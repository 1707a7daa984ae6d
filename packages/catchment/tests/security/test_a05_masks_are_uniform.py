"""A5: a masked upload looks like noise to the last bit, and no ordinary generator made it."""

from __future__ import annotations

import ast
from pathlib import Path

import numpy as np
import pytest
import scipy.stats

import catchment.privacy
from catchment.privacy.secure_aggregation import KEY_BYTES, Masks, Ring, new_key
from catchment.wire import Message
from tests.security.fleet import Fleet, Tapped

LENGTH = 65_536  # numbers of 16 bytes: a megabyte
# What plays the attacker draws its data as any experiment does.
ATTACKERS = ("attacks", "audit")


def masked_upload(fleet: Fleet, client: str) -> np.ndarray[tuple[int, ...], np.dtype[np.uint64]]:
    tapped = Tapped(fleet.engine())
    fleet.run(tapped)
    return np.asarray(Message.from_bytes(tapped.said["update", client]).arrays[0], dtype=np.uint64)


@pytest.fixture(scope="module")
def fleet() -> Fleet:
    rng = np.random.default_rng(0)
    # Sensor-like: strongly correlated, so that anything left of it would show.
    vectors = {f"c{k}": np.cumsum(rng.normal(size=LENGTH)) for k in range(3)}
    return Fleet.of(vectors)


def test_bytes_of_an_upload_are_uniform(fleet: Fleet) -> None:
    upload = masked_upload(fleet, "c0")
    counts = np.bincount(upload.view(np.uint8).ravel(), minlength=256)
    assert counts.sum() == 16 * LENGTH
    assert scipy.stats.chisquare(counts).pvalue > 1e-6


def test_an_upload_does_not_follow_its_secret(fleet: Fleet) -> None:
    upload = masked_upload(fleet, "c0")
    secret = fleet.vectors["c0"]
    for limb in upload:
        assert abs(np.corrcoef(limb.astype(np.int64), secret)[0, 1]) < 0.02
        assert abs(np.corrcoef(np.diff(limb.astype(np.int64)), np.diff(secret))[0, 1]) < 0.02


def test_masks_differ_between_clients_and_rounds(fleet: Fleet) -> None:
    first, second = masked_upload(fleet, "c0"), masked_upload(fleet, "c0")
    other = masked_upload(fleet, "c1")
    assert (first != second).mean() > 0.999
    assert (first != other).mean() > 0.999


def test_masks_are_the_chacha20_keystream() -> None:
    # RFC 8439, appendix A.1, test vectors 1 and 2: zero key and nonce, blocks 0 and 1.
    expected = bytes.fromhex(
        "76b8e0ada0f13d90405d6ae55386bd28bdd219b8a08ded1aa836efcc8b770dc7"
        "da41597c5157488d7724e03fb8d84a376a43b8f41518a11cc387b669b2ee6586"
        "9f07e7be5551387a98ba977c732d080dcb0f29a048e3656912c6533e32ee7aed"
        "29b721769ce64e43d57133b074d839d531ed1f28510afb45ace10a1f4b794d6f"
    )
    assert Masks(Ring(), 8).of(bytes(32)).tobytes() == expected
    assert KEY_BYTES * 8 == 256
    assert new_key() != new_key()


def test_shorter_keys_are_refused() -> None:
    with pytest.raises(ValueError, match="key"):
        Masks(Ring(), 1).of(bytes(16))


def test_nothing_on_the_way_of_secrets_draws_from_an_ordinary_generator() -> None:
    folder = Path(catchment.privacy.__file__).parent
    files = [
        path
        for path in sorted(folder.rglob("*.py"))
        if not path.relative_to(folder).parts[0].startswith(ATTACKERS)
    ]
    assert {"keys.py", "client.py", "ring.py"} <= {path.name for path in files}
    for path in files:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            named = set()
            if isinstance(node, ast.Import):
                named = {alias.name.split(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                named = {
                    str(node.module).split(".")[0],
                    *(f"{node.module}.{a.name}" for a in node.names),
                }
            elif isinstance(node, ast.Attribute):
                named = {f"numpy.{node.attr}"} if node.attr == "random" else set()
            assert not named & {"random", "numpy.random"}, f"{path.name}:{node.lineno}"  # type: ignore[attr-defined]


def test_a_client_without_a_private_key_says_so() -> None:
    fleet = Fleet.drawn(4)
    fleet.memories["c001"].clear()
    result = fleet.run()
    assert [r.client for r in result.records[0].refused] == ["c001"]
    assert "no private key" in result.records[0].refused[0].reason
