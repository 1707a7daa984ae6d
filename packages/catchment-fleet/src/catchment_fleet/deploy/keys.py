"""Keys of a deployment: who the server is, which nodes it knows, and who takes part in a sum.

    ca/       ca.key, ca.crt             signs the server's certificate; may be kept elsewhere
    server/   server.key, server.crt     what the proxy shows
              ca.crt, identities.json    what every node needs, too
              nodes/NAME.pub             the nodes that the SuperLink will know
    nodes/NAME/                          one node's folder: it goes to that node and nowhere else
              node.key, node.pub         how Flower knows the node
              public.json                what the node tells the server's keeper
              memory/                    its identity and what it remembers in secure aggregation
              policy.toml                what its owner allows
              ca.crt, identities.json

Three kinds of keys, because three things are proved: the server's name (TLS), a node's right to
fetch messages (Flower's node authentication), and that nobody, the server included, invents clients
of secure aggregation (Ed25519, see `catchment.privacy.secure_aggregation.keys`). Private files are
for their owner only, every file is written whole or not at all, and none that is there is written
again but the list of identities, which grows.
"""

from __future__ import annotations

import datetime
import ipaddress
import json
from collections.abc import Iterable, Mapping
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from catchment.errors import IntegrityError
from catchment.privacy import NAME as POLICY
from catchment.privacy import FileMemory, new_identity, template
from catchment.privacy.secure_aggregation import FEWEST_CLIENTS, FEWEST_ROWS_PER_FEATURE, is_name
from catchment.wire import replace_file

AUTHORITY_DAYS = 3650
SERVER_DAYS = 397  # what TLS clients accept of a server at most
LOOPBACK = ("localhost", "127.0.0.1")
_SIGNS = x509.KeyUsage(
    digital_signature=False,
    content_commitment=False,
    key_encipherment=False,
    data_encipherment=False,
    key_agreement=False,
    key_cert_sign=True,
    crl_sign=True,
    encipher_only=False,
    decipher_only=False,
)


def make_authority(folder: str | Path) -> Path:
    """Make the key and certificate that vouch for the server, and return the certificate's path.

    What is there already is kept.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as place:
    ...     make_authority(place).name
    'ca.crt'
    """
    folder = _private_folder(Path(folder) / "ca")
    if not _complete(folder / "ca.key", folder / "ca.crt"):
        constraints = (x509.BasicConstraints(ca=True, path_length=0), True), (_SIGNS, True)
        _issue(folder / "ca", "catchment deployment", AUTHORITY_DAYS, constraints)
    return folder / "ca.crt"


def make_server(folder: str | Path, hosts: Iterable[str]) -> Path:
    """Make the server's key and its certificate for these names, and return the latter's path.

    Parameters
    ----------
    folder
        Holds the authority that signs.
    hosts
        Names and addresses by which nodes will reach the proxy. The loopback address is always
        among them: the proxy reaches the SuperLink there, by TLS too.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as place:
    ...     _ = make_authority(place)
    ...     make_server(place, ["fleet.example.org"]).name
    'server.crt'
    """
    folder, names = Path(folder), list(dict.fromkeys([*hosts, *LOOPBACK]))
    ca = x509.load_pem_x509_certificate((folder / "ca" / "ca.crt").read_bytes())
    here = _private_folder(folder / "server")
    if not _complete(here / "server.key", here / "server.crt"):
        signer = load_pem_private_key((folder / "ca" / "ca.key").read_bytes(), password=None)
        if not isinstance(signer, ec.EllipticCurvePrivateKey):
            raise IntegrityError(
                f"{folder / 'ca' / 'ca.key'} is no elliptic-curve key; make it new"
            )
        constraints = (
            (x509.BasicConstraints(ca=False, path_length=None), True),
            (x509.SubjectAlternativeName([_host(name) for name in names]), False),
            (x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), False),
        )
        _issue(here / "server", names[0], SERVER_DAYS, constraints, signer, ca.subject)
    _same(here / "ca.crt", ca.public_bytes(Encoding.PEM))
    return here / "server.crt"


def make_node(folder: str | Path, name: str, policy: str | None = None) -> Path:
    """Make one node's two identities, and return the file that may be told to the server's keeper.

    To be called where the node runs: then its private keys never travel.

    Parameters
    ----------
    folder
        The node's folder is `nodes/NAME` in it.
    name
        What the client is called in runs.
    policy
        What its `policy.toml` says; a cautious one that explains itself if not given.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as place:
    ...     told = json.loads(make_node(place, "ann").read_text())
    >>> sorted(told), told["supernode"][:19]
    (['identity', 'name', 'supernode'], 'ecdsa-sha2-nistp256')
    """
    if not is_name(name):
        raise ValueError(
            f"a node is called {name[:80]!r}; use 1 to 64 letters, digits, '.', '_' and '-'"
        )
    _private_folder(Path(folder) / "nodes")
    here = _private_folder(Path(folder) / "nodes" / name)
    key_file, public_file = here / "node.key", here / "node.pub"
    if not _complete(key_file, public_file):
        key = ec.generate_private_key(ec.SECP256R1())
        private = key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption())
        public = key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH)
        _write_new(key_file, private, private=True)
        _write_new(public_file, public + b"\n")
    identity = new_identity(FileMemory(here / "memory"))
    if not (here / POLICY).exists():
        _write_new(here / POLICY, (policy or template()).encode(), private=True)
    known = {
        "name": name,
        "supernode": public_file.read_text("utf-8").strip(),
        "identity": identity,
    }
    return _same(here / "public.json", (json.dumps(known, indent=2) + "\n").encode())


def admit(folder: str | Path, told: Iterable[str | Path]) -> dict[str, str]:
    """Make the server know the nodes that told it their public keys, and return all identities.

    The identities are part of what all agree on: once a run has started, a node that is admitted
    later makes another plan. Nodes that are known stay, and none may change its keys.

    Parameters
    ----------
    folder
        Has the server's keys.
    told
        Files `public.json` as `make_node` wrote them.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as place:
    ...     sorted(admit(place, [make_node(place, name) for name in ("ann", "ben")]))
    ['ann', 'ben']
    """
    here = _private_folder(Path(folder) / "server")
    keys = _private_folder(here / "nodes")
    listed = here / "identities.json"
    known: dict[str, str] = json.loads(listed.read_text("utf-8")) if listed.is_file() else {}
    for path in told:
        found = _public(Path(path))
        name, identity = found["name"], found["identity"]
        if known.setdefault(name, identity) != identity:
            raise ValueError(
                f"{name} is known with another identity; admit the new one under a new name"
            )
        _same(keys / f"{name}.pub", (found["supernode"] + "\n").encode())
    if len(set(known.values())) != len(known):
        raise ValueError("two nodes have one identity; each makes its own")
    _write(listed, _listing(known))
    return known


def make_keys(folder: str | Path, hosts: Iterable[str], nodes: Iterable[str]) -> dict[str, str]:
    """Make all keys of a deployment on one machine, and return the identities of its nodes.

    For trying it: elsewhere each node calls `make_node` for itself. A trial has few clients with
    few rows, and the nodes' policies allow as few as the library does.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as place:
    ...     list(make_keys(place, ["localhost"], ["ann", "ben"]))
    ['ann', 'ben']
    """
    authority = make_authority(folder)
    make_server(folder, hosts)
    names = list(nodes)
    trial = template(min_clients=FEWEST_CLIENTS, rows_per_feature=FEWEST_ROWS_PER_FEATURE)
    identities = admit(folder, [make_node(folder, name, trial) for name in names])
    for name in names:
        here = Path(folder) / "nodes" / name
        _same(here / "ca.crt", authority.read_bytes())
        _write(here / "identities.json", _listing(identities))
    return identities


def _public(path: Path) -> Mapping[str, str]:
    """Return what a node told; IntegrityError if it is anything else."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, UnicodeDecodeError) as error:
        raise IntegrityError(f"{path} is not what a node told: {error}") from error
    wanted = {"name", "supernode", "identity"}
    if not isinstance(found, dict) or found.keys() != wanted:
        raise IntegrityError(f"{path} is not what a node told; it has other entries than {wanted}")
    if not all(isinstance(value, str) for value in found.values()) or not is_name(found["name"]):
        raise IntegrityError(f"{path} names no node; use what `make_node` wrote")
    return found


def _issue(
    path: Path,
    name: str,
    days: int,
    extensions: Iterable[tuple[x509.ExtensionType, bool]],
    signer: ec.EllipticCurvePrivateKey | None = None,
    issuer: x509.Name | None = None,
) -> None:
    """Write a new key and its certificate beside each other; it signs itself without a signer."""
    key = ec.generate_private_key(ec.SECP256R1())
    signer = signer or key
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name[:64])])
    # An hour back, for nodes whose clocks are slow.
    start = datetime.datetime.now(datetime.UTC) - datetime.timedelta(hours=1)
    by = x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key())
    made = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer or subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(start)
        .not_valid_after(start + datetime.timedelta(days=days))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(by, critical=False)
    )
    for extension, critical in extensions:
        made = made.add_extension(extension, critical=critical)
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    _write_new(path.with_suffix(".key"), private, private=True)
    _write_new(path.with_suffix(".crt"), made.sign(signer, SHA256()).public_bytes(Encoding.PEM))


def _host(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _private_folder(folder: Path) -> Path:
    """Make a folder that nobody else may enter, or make it so."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    folder.chmod(0o700)
    return folder


def _complete(private: Path, public: Path) -> bool:
    """Return whether both files of a pair are there; IntegrityError if only one is."""
    if private.exists() != public.exists():
        there, lost = (private, public) if private.exists() else (public, private)
        raise IntegrityError(f"{there} is there and {lost} is not; restore it or remove both")
    return private.exists()


def _write_new(path: Path, content: bytes, *, private: bool = False) -> None:
    if path.exists():
        raise FileExistsError(f"{path} is there already; it is not written over")
    _write(path, content, private=private)


def _write(path: Path, content: bytes, *, private: bool = False) -> None:
    replace_file(path, content, mode=0o600 if private else 0o644)


def _listing(identities: Mapping[str, str]) -> bytes:
    return (json.dumps(dict(sorted(identities.items())), indent=2) + "\n").encode()


def _same(path: Path, content: bytes) -> Path:
    """Write a file that anybody may read, unless it is there; IntegrityError if it differs."""
    if not path.exists():
        _write_new(path, content)
    elif path.read_bytes() != content:
        raise IntegrityError(f"{path} holds something else; move it away first")
    return path
