"""What a model that trains needs around it on a device: lines, start-up, a linker's script.

A port is a folder here with a Makefile and C files that give the three functions of `port.h`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from catchment.wire import replace_file

__all__ = ["PORTS", "STACK", "port_files"]

PORTS = ("host", "mps2_an386")
CODE = 28 * 1024  # bytes of instructions, at most: integers on a processor without an FPU
MASKS = 22 * 1024  # bytes that masks of secure aggregation add to them, at most
STACK = 3 * 1024  # bytes; a device was seen to use 1.7 kB
_FOLDER = Path(__file__).parent


def port_files(
    port: str, *, model: str = "model", tables: int = 0, code: int = CODE, stack: int = STACK
) -> Mapping[str, str]:
    """Return the files of a port, by name, as they lie beside the model's C file.

    Parameters
    ----------
    port
        `"host"` for a program of a POSIX machine, or `"mps2_an386"`, a board with a Cortex-M4F.
    model
        Name of the model: its files are `model.c` and `model.h`.
    tables, code
        Bytes of flash that the linker of a board allows, of the model's constants and of all else.
    stack
        Bytes of RAM that it reserves.

    Examples
    --------
    >>> sorted(port_files("host", model="har"))
    ['Makefile', 'host.c', 'port.h']
    >>> "MODEL := har" in port_files("host", model="har")["Makefile"]
    True
    """
    if port not in PORTS:
        raise ValueError(f"there is no port {port!r}; take one of {', '.join(PORTS)}")
    files = [_FOLDER / "port.h", *sorted((_FOLDER / port).iterdir())]
    found = {file.name: file.read_text(encoding="utf-8") for file in files if file.is_file()}
    values = {"MODEL": model, "FLASH": tables + code, "STACK": stack}
    return found | {"Makefile": filled(found["Makefile"], values)}


def filled(text: str, marks: Mapping[str, object]) -> str:
    """Return a text with every @MARK@ in it replaced.

    >>> filled("int @NAME@[@COUNT@];", {"NAME": "x", "COUNT": 3})
    'int x[3];'
    """
    for mark, value in marks.items():
        text = text.replace(f"@{mark}@", str(value))
    return text


def write_files(files: Mapping[str, str], place: Path, name: str) -> list[Path]:
    """Write the files of a device into a folder, its secret for its owner alone."""
    if place.exists() and not place.is_dir():
        raise ValueError(f"--out {place} is a file; name a folder for {name}.c")
    place.mkdir(parents=True, exist_ok=True)
    for file, content in files.items():
        secret = file == f"{name}_secret.h"
        replace_file(place / file, content.encode(), mode=0o600 if secret else 0o666)
    return [place / file for file in files]
