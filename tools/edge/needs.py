"""What boards need that pip does not install: a compiler and an emulator, as Debian packages."""

from __future__ import annotations

import shutil

PROGRAMS = {
    "arm-none-eabi-gcc": "gcc-arm-none-eabi",
    "qemu-system-arm": "qemu-system-arm",
}
PACKAGES = ("gcc-arm-none-eabi", "libnewlib-arm-none-eabi", "qemu-system-arm")


def missing() -> str:
    """Return in one sentence what is not here and how to get it; nothing if all is here."""
    absent = [program for program in PROGRAMS if shutil.which(program) is None]
    if not absent:
        return ""
    return (
        f"there is no {' and no '.join(absent)} here; `make edge` as root installs it on Debian, "
        f"elsewhere install {' '.join(PACKAGES)} or what your system calls them"
    )
