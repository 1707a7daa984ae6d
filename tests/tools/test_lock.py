"""The hashes of what a node installs: complete, and of the versions that are pinned."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tools.lock import CONSTRAINTS, HASHES, locked

ROOT = Path(__file__).resolve().parents[2]


def test_every_file_has_its_hash_and_the_pinned_version() -> None:
    lines = [line for line in (ROOT / HASHES).read_text().splitlines() if line[0] != "#"]
    found = [re.fullmatch(r"([a-z0-9-]+)==(\S+) --hash=sha256:[0-9a-f]{64}", x) for x in lines]
    assert all(found)
    versions = {match[1]: match[2] for match in found if match}
    assert {"flwr", "cryptography", "numpy", "pyarrow", "hatchling"} <= versions.keys()
    for line in (ROOT / CONSTRAINTS).read_text().splitlines():
        name, _, version = line.partition("==")
        assert versions.get(name.lower().replace("_", "-"), version) == version, name


def test_a_registry_without_hashes_is_no_good() -> None:
    file = {"metadata": {"name": "a", "version": "1"}, "download_info": {"archive_info": {}}}
    about = {"python_version": "3.11", "sys_platform": "linux", "platform_machine": "x86_64"}
    with pytest.raises(ValueError, match="gives no SHA-256 of a"):
        locked({"install": [file], "environment": about})
