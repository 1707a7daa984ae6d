"""A folder with a ready Flower app (a plan, a few lines that run it, how to start them), and plans
that are signed.

Nodes can be told to take part in what one person has signed: a plan's fingerprint, which is all its
settings, but not its comments or its title. The signature lies beside the plan, in
`plan.signature.toml`, and travels with it.
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
from catchment.plans import PlanFile, example_plan, own_classes, read_plan
from catchment.wire import replace_file

PACKAGE = "catchment_app"
PLAN = "plan.toml"

_MODULE = '''\
"""{title}"""

from pathlib import Path

from catchment_fleet.apps import {function}

app = {function}(Path(__file__).with_name("plan.toml"))
'''
PURPOSE = b"catchment plan 1\n"


def write_app(folder: str | Path, plan: str | Path | None = None) -> list[Path]:
    """Write the Flower app of a plan, and return the paths of its files.

    Nothing that is there is written over. Code of one's own that lies beside the plan goes with it;
    what is installed must be installed on every node.

    Parameters
    ----------
    folder
        Made if it is not there; its name is the app's.
    plan
        A plan file; an example with secure aggregation if not given.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as place:
    ...     [path.name for path in write_app(Path(place) / "sensors")]
    ['pyproject.toml', 'README.md', '__init__.py', 'server.py', 'client.py', 'plan.toml']
    """
    folder = Path(folder)
    file = None if plan is None else read_plan(plan)
    text = example_plan("wearables_secure") if file is None else file.text
    inside = folder / PACKAGE
    files = {
        folder / "pyproject.toml": _template("project.toml", folder),
        folder / "README.md": _template("README.md", folder),
        inside / "__init__.py": '"""A catchment plan as a Flower app."""\n',
        inside / "server.py": _MODULE.format(title="The server.", function="server_of"),
        inside / "client.py": _MODULE.format(title="The nodes.", function="client_of"),
        inside / PLAN: text,
    }
    if plan is not None and file is not None:
        if (signed := signature_path(Path(plan))).is_file():
            files[signature_path(inside / PLAN)] = signed.read_text(encoding="utf-8")
        files |= {inside / path.name: path.read_text(encoding="utf-8") for path in own_code(file)}
    for path in files:
        if path.exists():
            raise FileExistsError(f"{path} is there already; choose another folder")
    inside.mkdir(parents=True, exist_ok=True)
    for path, content in files.items():
        path.write_text(content, encoding="utf-8", newline="\n")
    return list(files)


def signature_path(plan: Path) -> Path:
    """Return where the signature of a plan lies.

    >>> signature_path(Path("app/plan.toml")).name
    'plan.signature.toml'
    """
    return plan.with_name(f"{plan.stem}.signature.toml")


def _template(name: str, folder: Path) -> str:
    """Return a file of template/ for the app in a folder."""
    text = (Path(__file__).with_name("template") / name).read_text(encoding="utf-8")
    return text.replace("@NAME@", app_name(folder)).replace("@PACKAGE@", PACKAGE)


def own_code(file: PlanFile) -> list[Path]:
    """Return the files beside a plan that hold classes and functions it names as module:Name."""
    tables = (file.features, file.learn, *file.candidates)
    named = [name for table in tables for name in own_classes(table)]
    modules = sorted({name.partition(":")[0] for name in named})
    paths = [file.base / f"{module}.py" for module in modules]
    return [path for path in paths if path.is_file()]


def app_name(folder: Path) -> str:
    """Return the name of the app in a folder, as Flower allows it.

    >>> app_name(Path("my_sensors 2"))
    'my-sensors-2'
    """
    requests = "".join(c if c.isascii() and c.isalnum() else "-" for c in folder.resolve().name)
    name = requests.strip("-").lower()
    return name if name[:1].isalpha() else f"app-{name}".rstrip("-")


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
