"""Files in directories, zips, zips inside zips, and tars."""

from __future__ import annotations

import gzip
import io
import tarfile
import zipfile
from pathlib import Path

import pytest

from catchment.errors import IntegrityError
from catchment_lab.datasets import find_folder, folders

FILES = {"Set/a/S2.txt": b"two", "Set/a/S3.txt.gz": gzip.compress(b"three"), "Set/read.me": b"-"}


def zipped(files: dict[str, bytes]) -> bytes:
    raw = io.BytesIO()
    with zipfile.ZipFile(raw, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return raw.getvalue()


def tarred(files: dict[str, bytes], prefix: str = "") -> bytes:
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w:gz") as archive:
        for name, content in files.items():
            info = tarfile.TarInfo(prefix + name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return raw.getvalue()


def write(root: Path, files: dict[str, bytes]) -> None:
    for name, content in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(content)


@pytest.mark.parametrize(
    "files",
    [
        FILES,
        {"set.zip": zipped(FILES)},
        {"outer.zip": zipped({"inner/set.zip": zipped(FILES), "x.names": b""})},
        {"set.tar.gz": tarred(FILES)},
        {"set.tgz": tarred(FILES, prefix="./")},
        {"deeper/down/set.zip": zipped(FILES)},
    ],
    ids=["directory", "zip", "zip in zip", "tar", "tar with dots", "below"],
)
def test_the_same_files_are_read_from_every_form(tmp_path: Path, files: dict[str, bytes]) -> None:
    write(tmp_path, files)
    folder = find_folder(tmp_path, ("nothing.txt", "A/s*.TXT"))
    assert folder is not None
    assert set(folder.names) == {"a/S2.txt", "a/S3.txt.gz", "read.me"}
    assert folder.read("a/S2.txt") == b"two"
    assert folder.read("a/S3.txt.gz") == b"three"
    with pytest.raises(IntegrityError, match=r"has no .*a/S9\.txt; get the whole set"):
        folder.read("a/S9.txt")


def test_nothing_found(tmp_path: Path) -> None:
    write(tmp_path, FILES)
    assert find_folder(tmp_path, ("b/*.txt",)) is None
    assert find_folder(tmp_path, ("S*.csv",)) is None
    assert find_folder(tmp_path / "none", ("*",)) is None


def test_hidden_files_and_what_lies_too_deep_are_passed_over(tmp_path: Path) -> None:
    write(tmp_path, {".hidden/x.txt": b"", "__MACOSX/x.txt": b"", "a/._x.txt": b""})
    write(tmp_path, {"1/2/3/4/5/6/7/x.txt": b"", "m.zip": zipped({"__MACOSX/x.txt": b""})})
    assert [folder.names for folder in folders(tmp_path)] == [("m.zip",), ()]


@pytest.mark.parametrize("name", ["broken.zip", "broken.tar", "broken.tar.gz"])
def test_what_is_not_an_archive(tmp_path: Path, name: str) -> None:
    write(tmp_path, {name: b"this is not an archive"})
    with pytest.raises(IntegrityError, match=rf"{name} is damaged .*; get a fresh copy"):
        find_folder(tmp_path, ("x",))


def test_damage_inside_is_found_when_read(tmp_path: Path) -> None:
    content = bytes(range(256)) * 64
    raw = zipped({"x.bin": content})
    middle = len(raw) // 2
    write(tmp_path, {"set.zip": raw[:middle] + bytes([raw[middle] ^ 0xFF]) + raw[middle + 1 :]})
    write(tmp_path, {"cut/y.gz": gzip.compress(content)[:-12], "cut/z.gz": b"no gzip"})
    folder = find_folder(tmp_path, ("x.bin",))
    assert folder is not None
    with pytest.raises(IntegrityError, match=r"x\.bin is damaged"):
        folder.read("x.bin")
    for name in ("cut/y.gz", "cut/z.gz"):
        with pytest.raises(IntegrityError, match="is damaged"):
            next(folders(tmp_path)).read(name)


def test_encrypted_zip(tmp_path: Path) -> None:
    raw = bytearray(zipped({"x.bin": b"secret"}))
    raw[6] |= 1  # the flag in the local header
    raw[raw.index(b"PK\1\2") + 8] |= 1  # and in the directory
    write(tmp_path, {"set.zip": bytes(raw)})
    folder = find_folder(tmp_path, ("x.bin",))
    assert folder is not None
    with pytest.raises(IntegrityError, match="encrypted"):
        folder.read("x.bin")
