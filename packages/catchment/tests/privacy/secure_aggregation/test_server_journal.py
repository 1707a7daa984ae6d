"""The journal's states, and memories on the disk."""

from __future__ import annotations

import sqlite3
from inspect import getmodule
from pathlib import Path

import pytest

from catchment.errors import FederationError, IntegrityError
from catchment.privacy import FileMemory, Journal
from catchment.privacy.secure_aggregation import FORMAT, ORDER


def test_states_go_forward_only(tmp_path: Path) -> None:
    with Journal(tmp_path) as journal:
        for here in ORDER:
            for there in (*ORDER, "ABORTED"):
                number, _ = journal.begin(f"{here} {there}", 0, ["ann"])
                journal.advance(number, here)
                after = (*ORDER, "ABORTED").index(there) >= (*ORDER, "ABORTED").index(here)
                allowed = here == there or (after and here != "PUBLISHED")
                if allowed:
                    journal.advance(number, there)
                    assert journal.state(number) == there
                else:
                    with pytest.raises(IntegrityError, match=f"from {here} to {there}"):
                        journal.advance(number, there)
        with pytest.raises(IntegrityError, match="no attempt 700"):
            journal.state(700)
        number, _ = journal.begin("x", 0, ["ann"])
        with pytest.raises(IntegrityError, match="from OPEN to DONE"):
            journal.advance(number, "DONE")


def test_an_unfinished_attempt_is_taken_up_and_a_finished_one_is_not(tmp_path: Path) -> None:
    with Journal(tmp_path) as journal:
        first, _ = journal.begin("plan", 0, ["ann", "ben"])
    with Journal(tmp_path) as journal:
        assert journal.begin("plan", 0, ["other"]) == (first, ("ann", "ben"))
        other, _ = journal.begin("another plan", 0, ["ann"])
        assert other > first
        journal.advance(first, "ABORTED")
        second, cohort = journal.begin("plan", 0, ["cyd"])
        assert second > other
        assert cohort == ("cyd",)
        assert journal.state(other) == "OPEN"


@pytest.mark.parametrize(("state", "ends"), [("SOLVED", "PUBLISHED"), ("SEALED", "ABORTED")])
def test_a_run_that_went_on_ends_what_it_left(tmp_path: Path, state: str, ends: str) -> None:
    with Journal(tmp_path) as journal:
        first, _ = journal.begin("plan", 0, ["ann"])
        journal.advance(first, state)
        journal.begin("plan", 1, ["ann"])
        assert journal.state(first) == ends


def test_what_is_closed_comes_back_in_order(tmp_path: Path) -> None:
    with Journal(tmp_path) as journal:
        number, _ = journal.begin("plan", 0, ["ann", "ben"])
        journal.close(number, "keys", ["ann", "ben"], {"ann": b"1", "ben": b"2"}, state="OPEN")
        journal.close(number, "shares", ["ben"], {"ben": b"3"}, state="OPEN")
    with Journal(tmp_path) as journal:
        closed = journal.closed(number)
        assert list(closed.items()) == [("keys", ("ann", "ben")), ("shares", ("ben",))]
        assert dict(journal.replies(number, "keys")) == {"ann": b"1", "ben": b"2"}
        with pytest.raises(sqlite3.IntegrityError):
            journal.close(number, "keys", [], {"cyd": b"4"}, state="OPEN")
        assert dict(journal.replies(number, "keys")) == {"ann": b"1", "ben": b"2"}


def test_uploads_are_deleted_when_nobody_needs_them(tmp_path: Path) -> None:
    payloads = tmp_path / "payloads"
    with Journal(tmp_path) as journal:
        one, _ = journal.begin("one", 0, ["ann"])
        other, _ = journal.begin("other", 0, ["ann"])
        journal.keep(one, "ann", b"shared")
        journal.keep(other, "ann", b"shared")
        journal.keep(one, "ben", b"own")
        assert len(list(payloads.iterdir())) == 2
        journal.advance(one, "ABORTED")
        assert len(list(payloads.iterdir())) == 1
    (payloads / ".draft").write_bytes(b"cut short")
    with Journal(tmp_path) as journal:
        assert [path.read_bytes() for path in payloads.iterdir()] == [b"shared"]


def test_other_formats_and_closed_folders(tmp_path: Path) -> None:
    Journal(tmp_path).shut()
    database = sqlite3.connect(tmp_path / "journal.sqlite")
    database.execute(f"PRAGMA user_version = {FORMAT + 1}")
    database.close()
    with pytest.raises(IntegrityError, match=f"has format {FORMAT + 1}"):
        Journal(tmp_path)


def test_a_full_disk_leaves_the_journal_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: Path, content: bytes, *, mode: int = 0) -> None:
        raise OSError(28, "No space left on device")

    with Journal(tmp_path) as journal:
        number, _ = journal.begin("plan", 0, ["ann"])
        monkeypatch.setattr(getmodule(Journal), "replace_file", full)
        with pytest.raises(OSError, match="No space"):
            journal.keep(number, "ann", b"masked")
        monkeypatch.undo()
        assert list(journal.replies(number, "update")) == []
        assert journal.keep(number, "ann", b"masked")


def test_two_journals_of_one_folder_exclude_each_other(tmp_path: Path) -> None:
    with Journal(tmp_path), pytest.raises(FederationError, match="another process"):
        Journal(tmp_path)
    Journal(tmp_path).shut()


def test_a_memory_is_a_mapping_that_lasts(tmp_path: Path) -> None:
    memory = FileMemory(tmp_path / "ann")
    memory["a"], memory["b/c"] = b"1", b""
    assert memory.setdefault("a", b"2") == b"1"
    assert dict(FileMemory(tmp_path / "ann")) == {"a": b"1", "b/c": b""}
    assert len(memory) == 2
    assert "z" not in memory
    memory["a"] = b"3"
    assert FileMemory(tmp_path / "ann")["a"] == b"3"
    assert (tmp_path / "ann").stat().st_mode & 0o077 == 0
