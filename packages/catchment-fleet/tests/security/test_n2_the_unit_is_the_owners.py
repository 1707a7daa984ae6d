"""N2: however a plan reads a client's rows, they are the same rows in its ledger.

The ledger knew data by what the server's plan had chosen of them. Seven clients in one plan and
six in another that differed in the column to sort by were two sums of "different" data, and
their difference was one client's statistics to the last integer; under noise every column to sort
by was another epsilon.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from catchment.errors import TooFewClientsError
from tests.security.nodes import PLAN, SECURE, Nodes, numbers, rows

Change = Callable[[str], str]


def changed(*pairs: tuple[str, str]) -> Change:
    def change(text: str) -> str:
        for old, new in pairs:
            assert old in text
            text = text.replace(old, new)
        return text

    return change


OTHER_WAYS: dict[str, Change] = {
    "sort column": changed(('time = "t"', 'time = "y"')),
    "row order": changed(('time = "t"\n', "")),
    "recording column": changed(('time = "t"', 'time = "t"\nrecording = "day"')),
    "one row per recording": changed(('time = "t"', 'recording = "t"')),
    "subset of columns": changed(('inputs = ["x", "z"]', 'inputs = ["z"]')),
    "other columns": changed(('inputs = ["x", "z"]', 'inputs = ["y", "x"]')),
    "resampled rate": changed(('scale = "none"', 'scale = "none"\nrate = 0.5')),
    "another map without memory": changed(("delays = 1", "delays = 1\norder = 1")),
    "another washout": changed(("delays = 1", "delays = 1\nwashout = 1")),
    "a window": changed(
        ('scale = "none"', 'scale = "none"\nwindow = 4'),
        ('map = "nvar"\ndelays = 1', 'map = "window_statistics"'),
    ),
    "another window": changed(
        ('scale = "none"', 'scale = "none"\nwindow = 3\nstep = 1'),
        ('map = "nvar"\ndelays = 1', 'map = "window_statistics"'),
    ),
}
# Of these the statistics are the sums of the same numbers, so that the difference is exact.
SAME_SUMS = ("sort column", "row order", "recording column", "one row per recording")


@pytest.mark.parametrize("way", OTHER_WAYS)
def test_six_of_seven_are_refused_however_the_plan_reads_them(way: str, tmp_path: Path) -> None:
    nodes = Nodes(tmp_path)
    nodes.summed(PLAN + SECURE)
    other = OTHER_WAYS[way](PLAN) + SECURE
    with pytest.raises(TooFewClientsError, match="over another set of 7 clients"):
        nodes.summed(other, nodes.names[1:])
    # With the same set any plan is welcome: nothing can be subtracted but the whole.
    nodes.summed(other)
    assert {one.n_clients for one in nodes.entries("c01")} == {7}
    assert len({one.data for one in nodes.entries("c01")}) == 1


@pytest.mark.parametrize("way", SAME_SUMS)
def test_what_the_rule_prevents_is_real(way: str, tmp_path: Path) -> None:
    """Where owners allow any set, the difference is the victim's to the last integer."""
    nodes = Nodes(tmp_path, policy='exact = "any clients"\n')
    difference = numbers(nodes.summed(PLAN + SECURE).total)
    difference -= numbers(nodes.summed(OTHER_WAYS[way](PLAN) + SECURE, nodes.names[1:]).total)
    (tmp_path / "alone").mkdir()
    alone = Nodes(tmp_path / "alone")
    for name in alone.names:
        alone.write(name, rows(0))  # seven times the victim
    np.testing.assert_array_equal(7 * difference, numbers(alone.summed(PLAN + SECURE).total))


NOISE = """[[protections]]
name = "gaussian_noise"
epsilon = 1.0
delta = 1e-5
distributed = true
min_clients = 5
clip = { bound = 50.0 }
small_cohort = true
budget_epsilon = 100.0
"""


def test_noise_adds_up_whatever_a_plan_sorts_by(tmp_path: Path) -> None:
    """Eight plans of epsilon 1, of which each was accepted."""
    nodes = Nodes(tmp_path, 6)
    ways = [*(changed(('time = "t"', f'time = "{c}"')) for c in "txyz")]
    ways += [OTHER_WAYS[way] for way in ("row order", "one row per recording", "subset of columns")]
    nodes.summed(PLAN + NOISE + SECURE)
    for way in ways:
        with pytest.raises(TooFewClientsError, match="above this client's 1"):
            nodes.summed(way(PLAN) + NOISE + SECURE)
    assert all(len(nodes.entries(name)) == 1 for name in nodes.names)


def test_a_plan_does_not_leave_out_files_to_make_other_data(tmp_path: Path) -> None:
    nodes = Nodes(tmp_path)
    for k, name in enumerate(nodes.names):
        nodes.write(name, rows(100 + k), "more.csv")
    nodes.summed(PLAN + SECURE)
    other = PLAN.replace('time = "t"', 'time = "t"\nleave_out = ["more.csv"]')
    with pytest.raises(TooFewClientsError, match="over another set of 7 clients"):
        nodes.summed(other + SECURE, nodes.names[1:])


@pytest.mark.parametrize("by", ["file", "folder"])
def test_parts_that_the_owner_declares_have_accounts_of_their_own(by: str, tmp_path: Path) -> None:
    """A second week may go with another set, as long as it goes without the first."""
    nodes = Nodes(tmp_path, policy=f'[data]\nparts = "{by}"\n')
    late = "late/week2.csv" if by == "folder" else "week2.csv"
    for k, name in enumerate(nodes.names):
        (tmp_path / name / "late").mkdir()
        nodes.write(name, rows(100 + k), late)
    nodes.summed(PLAN + SECURE, files="log.csv")
    nodes.summed(PLAN + SECURE, nodes.names[1:], files=late)
    with pytest.raises(TooFewClientsError, match="over another set of 7 clients"):
        nodes.summed(PLAN + SECURE, nodes.names[1:], files="log.csv")
    with pytest.raises(TooFewClientsError, match="have changed since"):
        nodes.summed(PLAN + SECURE, files="**/*.csv")  # both weeks less the first is the second
    nodes.write("c01", rows(7), late)
    with pytest.raises(TooFewClientsError, match="declare the new rows as a part"):
        nodes.summed(PLAN + SECURE, nodes.names[1:], files=late)


def test_days_of_a_column_are_parts(tmp_path: Path) -> None:
    nodes = Nodes(tmp_path, policy='[data]\nparts = "date"\ndate = "day"\n')
    for k, name in enumerate(nodes.names):
        new = [line.replace("2026-01-", "2026-02-") for line in rows(100 + k)]
        nodes.write(name, new, "february.csv")
    nodes.summed(PLAN + SECURE, files="log.csv")
    nodes.summed(PLAN + SECURE, nodes.names[1:], files="february.csv")
    with pytest.raises(TooFewClientsError, match="have changed since"):
        nodes.summed(PLAN + SECURE)
    for name in nodes.names:
        nodes.append(name, "60,0.1,0.1,0.1,a,2026-01-03")  # one more row of a day that was told
    with pytest.raises(TooFewClientsError, match="have changed since"):
        nodes.summed(PLAN + SECURE, files="log.csv")


def test_to_part_data_otherwise_does_not_make_other_data(tmp_path: Path) -> None:
    nodes = Nodes(tmp_path)
    nodes.summed(PLAN + SECURE)
    for policy in ('parts = "file"', 'parts = "folder"', 'parts = "date"\ndate = "day"'):
        (tmp_path / "policy.toml").write_text(f"[data]\n{policy}\n")
        with pytest.raises(TooFewClientsError, match=r"over another set of|have changed since"):
            nodes.summed(PLAN + SECURE, nodes.names[1:])


FIXED = '[data]\ninputs = ["x", "z"]\nlabel = "c"\ntime = "t"\nrecording = ""\n'


@pytest.mark.parametrize(
    "way", ["sort column", "row order", "one row per recording", "subset of columns"]
)
def test_what_the_owner_fixed_is_read_in_no_other_way(way: str, tmp_path: Path) -> None:
    nodes = Nodes(tmp_path, policy=FIXED)
    with pytest.raises(TooFewClientsError, match=r"in this node's policy.toml has"):
        nodes.summed(OTHER_WAYS[way](PLAN) + SECURE)
    assert all(nodes.entries(name) == [] for name in nodes.names)
    nodes.summed(PLAN + SECURE)
