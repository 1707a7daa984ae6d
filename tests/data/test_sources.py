"""The catalogue, and where data sets are looked for."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path

import pytest

from catchment.data.catalogue import CATALOGUE
from catchment.data.sources import (
    cache_directory,
    checksum,
    data_directories,
    find,
    locate,
    source,
    verify,
)
from catchment.errors import IntegrityError, MissingDataError


@pytest.fixture
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project directory from which no data can be found."""
    project = tmp_path / "project"
    project.mkdir()
    monkeypatch.chdir(project)
    monkeypatch.delenv("CATCHMENT_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path


def put(root: Path, name: str, folder: str | None = None) -> Path:
    """Put empty compact files of a set into a data directory."""
    place = root / (folder or name)
    place.mkdir(parents=True)
    for file, _ in CATALOGUE[name].files:
        (place / file).touch()
    return place


def test_every_entry_is_complete() -> None:
    for name, entry in CATALOGUE.items():
        assert entry.name == name
        assert entry.files or name in ("emnist", "femnist", "stackoverflow")
        for file, digest in entry.files:
            assert "/" not in file
            assert len(bytes.fromhex(digest)) == 32
        words = (entry.description, entry.clients, entry.task, entry.home, entry.citation)
        assert all((*words, entry.licence, entry.original, *entry.patterns))


def test_unknown_names() -> None:
    with pytest.raises(ValueError, match=r"'uci-har'; did you mean uci_har\?"):
        source("uci-har")
    with pytest.raises(ValueError, match=r"'?'; choose from uci_har, "):
        source("?")


def test_directories_in_order(nowhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache, shared = nowhere / "cache" / "catchment", nowhere / "shared" / "data"
    assert data_directories() == (cache,)
    shared.mkdir(parents=True)
    assert data_directories() == (shared, cache)
    monkeypatch.setenv("CATCHMENT_DATA", str(nowhere / "mine"))
    assert data_directories() == (nowhere / "mine", shared, cache)
    assert data_directories("here") == (Path("here"),)


def test_cache_directory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    for platform, expected in (("linux", ".cache"), ("darwin", "Library/Caches")):
        monkeypatch.setattr("sys.platform", platform)
        assert cache_directory() == Path.home() / expected / "catchment"


def test_first_directory_wins(nowhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert find("fsdd") is None
    cached = put(nowhere / "cache" / "catchment", "fsdd")
    found = find("fsdd")
    assert found is not None
    assert found.directory == cached
    shared = put(nowhere / "shared" / "data", "fsdd")
    assert locate("fsdd").directory == shared
    monkeypatch.setenv("CATCHMENT_DATA", str(nowhere / "mine"))
    assert locate("fsdd").directory == shared
    mine = put(nowhere / "mine", "fsdd")
    assert locate("fsdd").directory == mine
    assert find("fsdd", directory=nowhere / "project") is None


def test_folder_by_name_or_of_the_compact_form(tmp_path: Path) -> None:
    compact = put(tmp_path, "wesad", folder="wesad_features")
    assert locate("wesad", directory=tmp_path).directory == compact
    named = put(tmp_path, "wesad")
    assert locate("wesad", directory=str(tmp_path)).directory == named


def test_original_form_wins_over_the_compact_one(tmp_path: Path) -> None:
    place = put(tmp_path, "hhar")
    assert locate("hhar", directory=tmp_path).form == "compact"
    (place / "Phones_accelerometer.csv").write_text("12345")
    found = locate("hhar", directory=tmp_path)
    assert found.form == "original"
    assert found.folder.names == ("Phones_accelerometer.csv", "hhar_samsung_windows.npz")


def test_a_part_of_the_compact_files_is_not_the_set(tmp_path: Path) -> None:
    place = put(tmp_path, "sst2")
    (place / "dev.tsv.gz").unlink()
    assert find("sst2", directory=tmp_path) is None


def test_missing_set_says_where_from_and_where_to(nowhere: Path) -> None:
    with pytest.raises(MissingDataError) as caught:
        locate("uci_har")
    message = str(caught.value)
    entry = CATALOGUE["uci_har"]
    place = nowhere / "cache" / "catchment" / "uci_har"
    for part in (entry.home, entry.original, "uci_har.npz", str(place), "--data", "CATCHMENT_DATA"):
        assert part in message


def test_checksums(tmp_path: Path) -> None:
    place = put(tmp_path, "fsdd")
    (place / "fsdd_audio.npz").write_bytes(b"audio")
    found = locate("fsdd", directory=tmp_path)
    digest = hashlib.sha256(b"audio").hexdigest()
    assert checksum(place / "fsdd_audio.npz") == digest
    with pytest.raises(IntegrityError, match=rf"fsdd_audio\.npz has SHA-256 {digest[:16]}"):
        verify(found)
    known = replace(found.source, files=(("fsdd_audio.npz", digest),))
    verify(replace(found, source=known))
    assert found.n_bytes == 5


PRESENT = [name for name in CATALOGUE if find(name) is not None]


@pytest.mark.skipif(not PRESENT, reason="no public data on this machine")
@pytest.mark.parametrize("name", PRESENT)
def test_real_files_have_the_checksums_of_the_catalogue(name: str) -> None:
    verify(locate(name))
