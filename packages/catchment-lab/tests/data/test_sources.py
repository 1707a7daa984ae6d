"""The catalogue, and where data sets are looked for."""

from __future__ import annotations

from pathlib import Path

import pytest

from catchment.data import cache_directory, data_directories
from catchment.errors import MissingDataError
from catchment_lab.datasets import CATALOGUE, find, locate, source


@pytest.fixture
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project directory from which no data can be found."""
    project = tmp_path / "project"
    project.mkdir()
    monkeypatch.chdir(project)
    monkeypatch.delenv("CATCHMENT_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path


def put(root: Path, name: str) -> Path:
    """Put an empty file of a set into a data directory."""
    place = root / name
    place.mkdir(parents=True)
    (place / {"fsdd": "1_theo_1.wav", "hhar": "Phones_accelerometer.csv"}[name]).touch()
    return place


def test_every_entry_is_complete() -> None:
    for name, entry in CATALOGUE.items():
        assert entry.name == name
        words = (entry.description, entry.clients, entry.task, entry.home, entry.citation)
        assert all((*words, entry.license, entry.files, *entry.patterns))


def test_unknown_names() -> None:
    with pytest.raises(ValueError, match=r"'uci-har'; did you mean 'uci_har'\?"):
        source("uci-har")
    with pytest.raises(ValueError, match=r"'?'; choose from uci_har, "):
        source("?")


def test_directories_in_order(nowhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = nowhere / "cache" / "catchment"
    assert data_directories() == (cache,)
    monkeypatch.setenv("CATCHMENT_DATA", str(nowhere / "mine"))
    assert data_directories() == (nowhere / "mine", cache)
    assert data_directories("here") == (Path("here"),)


def test_nothing_beside_the_working_directory_is_searched(nowhere: Path) -> None:
    put(nowhere / "shared" / "data", "fsdd")
    assert find("fsdd") is None


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
    monkeypatch.setenv("CATCHMENT_DATA", str(nowhere / "mine"))
    assert locate("fsdd").directory == cached
    mine = put(nowhere / "mine", "fsdd")
    assert locate("fsdd").directory == mine
    assert find("fsdd", directory=nowhere / "project") is None


def test_a_packed_file_wins_over_the_publishers(tmp_path: Path) -> None:
    place = put(tmp_path, "hhar")
    assert locate("hhar", directory=tmp_path).form == "original"
    (place / "hhar.packed.npz").write_bytes(b"12345")
    found = locate("hhar", directory=str(tmp_path))
    assert (found.form, found.n_bytes) == ("packed", 5)
    assert found.original is not None
    assert "Phones_accelerometer.csv" in found.original.names


def test_missing_set_says_where_from_and_where_to(nowhere: Path) -> None:
    with pytest.raises(MissingDataError) as caught:
        locate("uci_har")
    message = str(caught.value)
    entry = CATALOGUE["uci_har"]
    place = nowhere / "cache" / "catchment" / "uci_har"
    for part in (entry.home, entry.files, str(place), "--data", "CATCHMENT_DATA"):
        assert part in message
