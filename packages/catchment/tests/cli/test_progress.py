"""How far a command is: shown to who looks at a terminal, and to nobody else."""

from __future__ import annotations

import io
import re
import sys

import pytest

from catchment.cli import counting, each, progress, waiting


class Terminal(io.StringIO):
    """A stream that says somebody looks at it."""

    def isatty(self) -> bool:
        return True


def watched(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """Put a terminal in the place of stderr; within a test, as pytest sets it before each."""
    made = Terminal()
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stderr", made)
    return made


def plain(shown: Terminal) -> str:
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown.getvalue())


def test_stages_and_rounds_are_shown_with_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = watched(monkeypatch)
    with progress() as watch:
        assert watch is not None
        watch("training", 2, 3, 7)
    assert re.search(r"training, round 3 .*3/7 0:00:0\d", plain(terminal))


def test_clients_a_second_are_shown_from_the_first_answer_of_a_round_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    terminal = watched(monkeypatch)
    now = iter([100.0, 101.0, 104.0])
    monkeypatch.setattr("catchment.cli.show.monotonic", lambda: next(now))
    with progress() as watch:
        assert watch is not None
        watch("scaling", 0, 1000, 5000)
        watch("training", 0, 256, 5000)
        watch("training", 0, 4096, 5000)
    assert re.search(
        r"training, round 1 .*4096/5000 0:00:0\d about 1 s left, 1280 clients/s", plain(terminal)
    )


def test_fit_shows_its_stage_and_an_estimate_of_what_is_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    terminal = watched(monkeypatch)
    now = iter([100.0, 106.0, 112.0])
    monkeypatch.setattr("catchment.cli.show.monotonic", lambda: next(now))
    with progress() as watch:
        assert watch is not None
        for k in (1, 2, 3):
            watch(f"fold {k} of 5, training", 0, 0, 12)
    assert re.search(r"fold 3 of 5, training, round 1 .*about 18 s left", plain(terminal))


def test_a_stage_that_is_not_counted_has_no_count_of_the_one_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    terminal = watched(monkeypatch)
    with progress() as watch:
        assert watch is not None
        watch("training", 2, 3, 7)
        watch("fold 1 of 5", 0, 0, 0)
    assert re.search(r"fold 1 of 5 ━+ +0:00:0\d", plain(terminal))


def test_things_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = watched(monkeypatch)
    with counting("trials", 4) as done:
        done("the last: 0.5")
    assert list(each("ab", "predicting")) == ["a", "b"]
    shown = plain(terminal)
    assert re.search(r"trials, the last: 0\.5 .*1/4 0:00:0\d", shown)
    assert re.search(r"predicting .*2/2 0:00:0\d", shown)


def test_what_cannot_be_counted_is_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = watched(monkeypatch)
    with waiting("verifying"):
        pass
    assert re.search(r"verifying .* 0:00:0\d", plain(terminal))
    assert "/" not in plain(terminal)


def test_nothing_is_shown_where_nobody_looks(capfd: pytest.CaptureFixture[str]) -> None:
    with progress() as watch, waiting("verifying"), counting("trials", 1) as done:
        assert watch is None
        done("")
    assert list(each([1], "predicting")) == [1]
    assert capfd.readouterr() == ("", "")


def test_nothing_is_shown_beside_json(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = watched(monkeypatch)
    with progress(quiet=True) as watch, waiting("verifying", quiet=True):
        assert watch is None
    assert terminal.getvalue() == ""
