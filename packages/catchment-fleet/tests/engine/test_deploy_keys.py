"""Keys of a deployment, judged by OpenSSL and OpenSSH rather than by the library that made them."""

from __future__ import annotations

import json
import shutil
import ssl
import stat
import subprocess
from pathlib import Path

import pytest

from catchment.errors import IntegrityError
from catchment.privacy import FileMemory, new_identity
from catchment_fleet.deploy import admit, make_authority, make_keys, make_node, make_server

needs_openssl = pytest.mark.skipif(shutil.which("openssl") is None, reason="no openssl here")
needs_openssh = pytest.mark.skipif(shutil.which("ssh-keygen") is None, reason="no ssh-keygen here")


def output(*command: str | Path) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout + done.stderr


def handshake(server: ssl.SSLContext, client: ssl.SSLContext, host: str) -> None:
    """Let two sides of TLS talk through memory; raises what the client thinks is wrong."""
    to_client, to_server = ssl.MemoryBIO(), ssl.MemoryBIO()
    served = server.wrap_bio(to_server, to_client, server_side=True)
    asked = client.wrap_bio(to_client, to_server, server_hostname=host)
    for _ in range(4):
        for side in (asked, served):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue


def contexts(folder: Path) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(folder / "server" / "server.crt", folder / "server" / "server.key")
    client = ssl.create_default_context(cafile=str(folder / "server" / "ca.crt"))
    client.verify_flags |= ssl.VERIFY_X509_STRICT
    return server, client


def test_a_client_with_the_authority_trusts_the_server_by_its_names_only(tmp_path: Path) -> None:
    make_authority(tmp_path)
    make_server(tmp_path, ["fleet.example.org", "127.0.0.1"])
    server, client = contexts(tmp_path)
    handshake(server, client, "fleet.example.org")
    handshake(server, client, "127.0.0.1")
    with pytest.raises(ssl.SSLCertVerificationError, match=r"[Hh]ostname mismatch"):
        handshake(server, client, "elsewhere.example.org")


def test_another_authority_does_not_vouch_for_the_server(tmp_path: Path) -> None:
    for name in ("ours", "theirs"):
        make_authority(tmp_path / name)
        make_server(tmp_path / name, ["localhost"])
    server, _ = contexts(tmp_path / "ours")
    _, stranger = contexts(tmp_path / "theirs")
    with pytest.raises(ssl.SSLCertVerificationError):
        handshake(server, stranger, "localhost")


@needs_openssl
def test_openssl_accepts_the_chain_and_its_purpose(tmp_path: Path) -> None:
    make_keys(tmp_path, ["localhost"], ["ann"])
    ca, server = tmp_path / "ca" / "ca.crt", tmp_path / "server" / "server.crt"
    strict = ("openssl", "verify", "-x509_strict", "-CAfile", ca)
    assert output(*strict, "-purpose", "sslserver", server).endswith("OK\n")
    # A server's certificate must not pass as anybody's who calls.
    assert "unsuitable certificate purpose" in output(*strict, "-purpose", "sslclient", server)


@needs_openssh
def test_a_nodes_public_key_is_that_of_its_private_one(tmp_path: Path) -> None:
    make_node(tmp_path, "ann")
    here = tmp_path / "nodes" / "ann"
    assert (
        output("ssh-keygen", "-y", "-f", here / "node.key").split()[:2]
        == ((here / "node.pub").read_text().split()[:2])
    )
    assert output("ssh-keygen", "-l", "-f", here / "node.pub").startswith("256 ")


def test_private_files_are_for_their_owner_only(tmp_path: Path) -> None:
    make_keys(tmp_path, ["localhost"], ["ann", "ben"])
    private = [*tmp_path.rglob("*.key"), *tmp_path.rglob("*.entry")]
    assert len(private) == 6
    for path in private:
        assert stat.S_IMODE(path.stat().st_mode) == 0o600, path
    for folder in ("ca", "server", "nodes", "nodes/ann", "nodes/ann/memory"):
        assert stat.S_IMODE((tmp_path / folder).stat().st_mode) == 0o700, folder


def test_no_key_leaves_its_place(tmp_path: Path) -> None:
    make_keys(tmp_path, ["localhost"], ["ann", "ben"])
    secrets = {path.name: path.read_bytes() for path in tmp_path.rglob("*.key")}
    identity = next((tmp_path / "nodes" / "ann" / "memory").iterdir()).read_bytes()[-32:]
    for path in tmp_path.rglob("*"):
        if path.is_file() and path.suffix not in (".key", ".entry"):
            content = path.read_bytes()
            assert b"PRIVATE" not in content, path
            assert identity not in content, path
            assert identity.hex().encode() not in content, path
    assert len(set(secrets.values())) == len(secrets)


def test_made_twice_is_made_once(tmp_path: Path) -> None:
    make_keys(tmp_path, ["localhost"], ["ann", "ben"])
    before = {p: p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()}
    make_keys(tmp_path, ["localhost"], ["ann", "ben"])
    assert {p: p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()} == before
    identities = make_keys(tmp_path, ["localhost"], ["cy"])
    assert sorted(identities) == ["ann", "ben", "cy"]
    assert all(p.read_bytes() == content for p, content in before.items() if p.suffix == ".key")


def test_half_a_pair_is_refused(tmp_path: Path) -> None:
    make_keys(tmp_path, ["localhost"], ["ann"])
    (tmp_path / "nodes" / "ann" / "node.pub").unlink()
    with pytest.raises(IntegrityError, match=r"node\.pub is not; restore it or remove both"):
        make_node(tmp_path, "ann")


def test_the_identity_told_is_the_one_remembered(tmp_path: Path) -> None:
    told = json.loads(make_node(tmp_path, "ann").read_text())
    assert told["identity"] == new_identity(FileMemory(tmp_path / "nodes" / "ann" / "memory"))


def test_a_known_node_cannot_change_its_keys(tmp_path: Path) -> None:
    first = make_node(tmp_path / "one", "ann")
    second = make_node(tmp_path / "two", "ann")
    admit(tmp_path, [first])
    admit(tmp_path, [first])
    with pytest.raises(ValueError, match="ann is known with another identity"):
        admit(tmp_path, [second])
    mixed = json.loads(first.read_text())
    mixed["supernode"] = json.loads(second.read_text())["supernode"]
    (tmp_path / "mixed.json").write_text(json.dumps(mixed))
    with pytest.raises(IntegrityError, match=r"ann\.pub holds something else"):
        admit(tmp_path, [tmp_path / "mixed.json"])


def test_one_identity_under_two_names_is_refused(tmp_path: Path) -> None:
    told = json.loads(make_node(tmp_path, "ann").read_text())
    (tmp_path / "ben.json").write_text(json.dumps({**told, "name": "ben"}))
    with pytest.raises(ValueError, match="two nodes have one identity"):
        admit(tmp_path, [tmp_path / "nodes" / "ann" / "public.json", tmp_path / "ben.json"])
    assert not (tmp_path / "server" / "identities.json").exists()


@pytest.mark.parametrize(
    "told", ["", "[]", "{}", '{"name": "../x", "supernode": "", "identity": ""}', '"\\ud800"']
)
def test_what_no_node_told_is_refused(tmp_path: Path, told: str) -> None:
    (tmp_path / "told.json").write_text(told)
    with pytest.raises(IntegrityError):
        admit(tmp_path, [tmp_path / "told.json"])


@pytest.mark.parametrize("name", ["", "../x", "a b", "x" * 65, "a/b"])
def test_names_that_would_leave_the_folder_are_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(ValueError, match="a node is called"):
        make_node(tmp_path, name)
