"""What a model that trains needs around it on a device: lines, start-up, a linker's script.

A port is a folder here with a Makefile and C files that give the three functions of `port.h`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

__all__ = ["PORTS", "port_files"]

PORTS = ("host", "mps2_an386")
FLASH = 256 * 1024  # bytes
STACK = 2 * 1024
_FOLDER = Path(__file__).parent


def port_files(
    port: str, *, model: str = "device", flash: int = FLASH, stack: int = STACK
) -> Mapping[str, str]:
    """Return the files of a port, by name, as they lie beside the model's C file.

    Parameters
    ----------
    port
        `"host"` for a program of a POSIX machine, or `"mps2_an386"`, a board with a Cortex-M4F.
    model
        Name of the model: its files are `model.c` and `model.h`.
    flash, stack
        Bytes of flash that the linker allows, and of RAM that it reserves; only boards have them.

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
    values = {"@MODEL@": model, "@FLASH@": str(flash), "@STACK@": str(stack)}
    for mark, value in values.items():
        found["Makefile"] = found["Makefile"].replace(mark, value)
    return found
