"""The stream experiment on synthetic people: splices, maps, choices, resuming, the network."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from catchment.features import MiniRocket
from reproductions.__main__ import app
from reproductions.streams import (
    GRU,
    QUICK,
    StreamSettings,
    StreamsResult,
    closed_form,
    folds,
    load_streams,
    scores,
    streams,
)
from reproductions.streams_contenders import CONTENDERS
from reproductions.streams_data import (
    LONGEST,
    SETTLED,
    SHORTEST,
    People,
    Stream,
    Task,
    generated,
    spliced,
)
from reproductions.streams_gru import Federation, Streams, first_numbers, outputs, trained
from reproductions.streams_maps import ExponentialMeans, Lags, StreamingMiniRocket
from reproductions.streams_network import export, read_labels
from reproductions.streams_tables import markdown, write

RECORDINGS, N_CLASSES = generated(6)
SETTINGS = replace(QUICK, steps=700)
RNG = np.random.default_rng(0)


def drawn(task: Task = "changes", seed: int = 0) -> People:
    return spliced(RECORDINGS, N_CLASSES, task=task, seed=seed, n_streams=1, steps=1200)


def test_streams_are_spliced_from_the_persons_own_recordings() -> None:
    for name, (stream,) in drawn().items():
        own = {row.tobytes() for r in RECORDINGS[name] for row in r.u}
        assert {row.tobytes() for row in stream.u} <= own
        starts = np.flatnonzero(stream.since == 0)
        assert (np.diff(starts) >= SHORTEST).all()
        assert (np.diff(starts) <= LONGEST).all()
        assert (stream.label[starts[1:]] != stream.label[starts[1:] - 1]).all()
        changes = np.flatnonzero(np.diff(stream.label)) + 1
        assert set(changes) == set(starts[1:])


def test_streams_are_drawn_by_the_seed() -> None:
    one, same, other = drawn(), drawn(), drawn(seed=1)
    for name in one:
        np.testing.assert_array_equal(one[name][0].u, same[name][0].u)
        assert (one[name][0].u != other[name][0].u).any()


def test_gaps_silence_all_channels_and_nothing_else() -> None:
    for (stream,) in drawn("gaps").values():
        assert 0.1 < stream.silent.mean() < 0.9
        assert (stream.u[stream.silent] == 0).all()
        assert (stream.u[~stream.silent] != 0).any(axis=1).all()


def test_lags_are_earlier_inputs() -> None:
    u = RNG.normal(size=(30, 2))
    rows = Lags(3, stride=4, bits=None).build(2, per_step=True).rows([u])[0]
    for t in range(30):
        for k in range(3):
            back = t - 4 * k
            expected = u[back] if back >= 0 else np.zeros(2)
            np.testing.assert_array_equal(rows[t, 2 * k : 2 * k + 2], expected)


@pytest.mark.parametrize("logarithms", [False, True])
def test_exponential_means_are_those_of_the_recursion(logarithms: bool) -> None:
    u = RNG.normal(size=(50, 2))
    rates = (0.5, 0.1)
    features = ExponentialMeans(rates, logarithms, bits=None).build(2, per_step=True)
    rows = features.rows([u])[0]
    means = np.zeros((2, 3, 2))
    for t in range(50):
        values = np.stack([u[t], u[t] ** 2, np.abs(u[t] - u[max(t - 1, 0)])])
        for k, a in enumerate(rates):
            means[k] = (1 - a) * means[k] + a * values
        shown = means.copy()
        if logarithms:
            shown[:, 1] = np.log2(np.sqrt(means[:, 1]) + 2.0**-7)
            shown[:, 2] = np.log2(means[:, 2] + 2.0**-7)
        np.testing.assert_allclose(rows[t], np.concatenate([u[t], shown.ravel()]), atol=1e-12)


def test_a_streaming_minirocket_that_forgets_nothing_is_minirocket() -> None:
    """With all weight on the last step, the mean over steps is the share above the bias."""
    u = RNG.normal(size=(64, 3)).cumsum(axis=0) / 4
    rows = StreamingMiniRocket(168, length=64, rate=0, bits=None).build(3, per_step=True).rows([u])
    settled = rows[0][56:]
    assert set(np.unique(settled)) == {0.0, 1.0}
    whole = MiniRocket(168, length=64, bits=None).build(3, per_step=False).rows([u])[0][0]
    unpadded = np.array([_is_unpadded(168)]).ravel()
    longest = rows[0][8:].mean(axis=0)
    first = _dilations(168) == 1
    some = unpadded & first
    assert some.any()
    np.testing.assert_allclose(longest[some], whole[some], atol=1e-12)


def _is_unpadded(features: int) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
    from catchment.features.minirocket import feature_list

    return ~np.asarray(feature_list(features, 64).padded)


def _dilations(features: int) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
    from catchment.features.minirocket import feature_list

    return np.asarray(feature_list(features, 64).dilation)


def test_forgotten_shares_follow_their_recursion() -> None:
    u = RNG.normal(size=(40, 3))
    now, mean = (
        StreamingMiniRocket(84, rate=rate, bits=None).build(3, per_step=True).rows([u])[0] * 65536
        for rate in (0, 3)
    )
    share = np.zeros(84, dtype=np.int64)
    for t in range(40):
        share += (now[t].astype(np.int64) - share) >> 3
        np.testing.assert_array_equal(mean[t], share)


def test_scores_count_judged_steps() -> None:
    label = np.repeat([0, 1], 200)
    since = np.concatenate([np.arange(200), np.arange(200)])
    silent = np.arange(400) >= 350
    people = {"a": [Stream(np.zeros((400, 1)), label, since, silent)]}
    judged = people["a"][0].judged
    said = np.where((judged >= 200) & (judged < 250), 0, label[judged])
    found = scores(people, {"a": said}, 2)
    wrong = ((judged >= 200) & (judged < 250)).sum()
    assert found["accuracy"] == found["worst"] == found["people"]["a"] == 1 - wrong / len(judged)
    assert found["settled"] == found["silent"] == 1
    zeros, ones = (judged < 200).sum(), (judged >= 200).sum()
    assert found["classes"] == ((zeros, zeros + wrong, zeros), (ones - wrong, ones - wrong, ones))
    assert SETTLED == 75


def test_test_people_have_no_say_in_what_they_are_told() -> None:
    people = drawn()
    test = folds(list(people))[0][0]
    options = CONTENDERS["exponential means"][:2]
    honest = closed_form(options, people, N_CLASSES, 0)
    (stream,) = people[test]
    lied = people | {test: [replace(stream, label=(stream.label + 1) % N_CLASSES)]}
    changed = closed_form(options, lied, N_CLASSES, 0)
    np.testing.assert_array_equal(honest.predictions[test], changed.predictions[test])
    truth = {name: s[0].label[s[0].judged] for name, s in people.items()}
    hits = np.mean([(honest.predictions[name] == truth[name]).mean() for name in people])
    assert hits > 2 / N_CLASSES


@pytest.mark.parametrize("name", CONTENDERS)
def test_every_contender_labels_every_judged_step(name: str) -> None:
    people = {who: streams_[:1] for who, streams_ in list(drawn("gaps").items())[:6]}
    found = closed_form(CONTENDERS[name][:1], people, N_CLASSES, 0)
    for who, (stream,) in people.items():
        assert found.predictions[who].shape == stream.judged.shape
    assert found.costs["state_bytes"] >= 0
    assert found.costs["upload_bytes"] > 0
    assert found.costs["work"] > 0


def test_cells_are_kept_and_taken_up_again(tmp_path: Path) -> None:
    settings = StreamSettings(seeds=(0,), n_streams=1, steps=700, most_options=1)
    made: list[str] = []
    names = ["present sample", "exponential means"]

    def make(task: Task, seed: int) -> People:
        return spliced(RECORDINGS, N_CLASSES, task=task, seed=seed, n_streams=1, steps=700)

    first = streams(make, N_CLASSES, settings, contenders=names[:1], tasks=["changes"])
    path, page = write(first, tmp_path)
    again = streams(
        make,
        N_CLASSES,
        settings,
        contenders=names,
        tasks=["changes"],
        earlier=load_streams(path),
        began=made.append,
    )
    assert made == ["changes, seed 0: exponential means"]
    assert again.cells[0] == first.cells[0]
    assert "| present sample | 0." in page.read_text()
    assert "exponential means" in markdown(again)


def test_cells_without_counts_of_classes_are_computed_again() -> None:
    people = drawn()

    def run(earlier: StreamsResult | None = None) -> StreamsResult:
        settings = StreamSettings(seeds=(0,), n_streams=1, steps=1200, most_options=1)
        named: dict[str, Any] = {"contenders": ["exponential means"], "tasks": ["changes"]}
        return streams(lambda task, seed: people, N_CLASSES, settings, earlier=earlier, **named)

    first = run()
    (cell,) = first.cells
    right, said, are = np.transpose(cell.classes)
    truth = np.concatenate([s.label[s.judged] for own in people.values() for s in own])
    np.testing.assert_array_equal(are, np.bincount(truth, minlength=N_CLASSES))
    assert cell.accuracy == pytest.approx(right.sum() / are.sum(), abs=1e-12)
    assert cell.macro_f1 == pytest.approx(np.mean(2 * right / (said + are)), abs=1e-12)
    bare = replace(first, cells=(replace(cell, classes=(), accuracy=0.5),))
    assert np.isnan(bare.cells[0].macro_f1)
    (again,) = run(bare).cells
    assert (again.accuracy, again.classes) == (cell.accuracy, cell.classes)


def _gru(own: dict[str, torch.Tensor]) -> torch.nn.GRU:
    """Return torch's own network with these numbers."""
    theirs = torch.nn.GRU(3, 5, batch_first=True)
    theirs.load_state_dict(
        {
            "weight_ih_l0": own["W_in"].T,
            "weight_hh_l0": own["W"].T,
            "bias_ih_l0": own["b_in"][0],
            "bias_hh_l0": own["b"][0],
        }
    )
    return theirs


def test_the_network_is_torchs_gru() -> None:
    own = first_numbers(3, 5, 4, 0)
    theirs = _gru(own)
    with torch.no_grad():
        u = torch.randn(2, 30, 3, generator=torch.Generator().manual_seed(1))
        z, last = theirs(u)
        stack = {name: value[None] for name, value in own.items()}
        found, x = outputs(stack, u[None], torch.zeros(1, 2, 5))
    expected = z @ own["W_out"] + own["b_out"]
    torch.testing.assert_close(found[0], expected, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(x[0], last[0], atol=1e-5, rtol=1e-5)


def test_a_round_of_one_client_is_torchs_adam() -> None:
    rng = torch.Generator().manual_seed(2)
    u = torch.randn(1, 1, 2, 400, 3, generator=rng)
    label = (u[..., 0].cumsum(dim=3) > 0).long()
    data = Streams(u, label, np.arange(400), ((0,),), 2)
    own = first_numbers(3, 5, 2, 0)
    one = Federation(draw=0, fold=0, train=(0,), test=(0,), rate=0.02, rounds=1)
    found = trained(data, [one], {name: value[None] for name, value in own.items()}, 0, 1)
    theirs = _gru(own)
    readout = torch.nn.Linear(5, 2)
    with torch.no_grad():
        readout.weight.copy_(own["W_out"].T)
        readout.bias.copy_(own["b_out"][0])
    numbers = [*theirs.parameters(), *readout.parameters()]
    adam, x = torch.optim.Adam(numbers, lr=0.02), None
    for part in (slice(0, 250), slice(250, 400)):
        z, x = theirs(u[0, 0, :, part], x)
        x = x.detach()
        loss = torch.nn.functional.cross_entropy(
            readout(z).flatten(0, 1), label[0, 0, :, part].flatten()
        )
        adam.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(numbers, 1.0)
        adam.step()
    torch.testing.assert_close(
        found["W"][0], theirs.state_dict()["weight_hh_l0"].T, atol=1e-4, rtol=1e-3
    )
    torch.testing.assert_close(found["W_out"][0], readout.weight.T, atol=1e-4, rtol=1e-3)


def test_streams_go_out_and_labels_come_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from reproductions import streams_gru

    def make(task: Task, seed: int) -> People:
        return spliced(RECORDINGS, N_CLASSES, task=task, seed=seed, n_streams=1, steps=300)

    sent, came = tmp_path / "streams.npz", tmp_path / "labels.npz"
    export(make, [("changes", 0)], folds, N_CLASSES, sent)
    words = ["gru", str(sent), "--out", str(came), "--hidden", "4", "--rounds", "1"]
    monkeypatch.setattr("sys.argv", [*words, "--device", "cpu"])
    monkeypatch.setattr(streams_gru, "RATES", (1e-2,))
    streams_gru.main()
    labels = read_labels(came)
    settings = StreamSettings(seeds=(0,), n_streams=1, steps=300)
    result = streams(make, N_CLASSES, settings, contenders=[GRU], tasks=["changes"], labels=labels)
    (cell,) = result.cells
    assert cell.state_bytes == 16
    assert cell.chosen == ("rate 0.01, 1 rounds",) * 5
    assert cell.upload_bytes == 4 * sum(v.numel() for v in first_numbers(6, 4, 6, 0).values())


def test_the_command_prints_a_table(tmp_path: Path) -> None:
    words = ["streams", "--quick", "--synthetic", "--tasks", "changes", "--out", str(tmp_path)]
    done = CliRunner().invoke(app, [*words, "--only", "present sample,lags"])
    assert done.exit_code == 0, done.output
    assert "| lags | " in done.output
    assert (tmp_path / "streams-quick.json").is_file()
    wrong = CliRunner().invoke(app, ["streams", "--tasks", "none"])
    assert "no task is called 'none'" in str(wrong.exception)


def test_the_page_of_experiments_quotes_the_recorded_tables() -> None:
    root = Path(__file__).parents[4]
    recorded = markdown(load_streams(root / "results" / "streams.json")) + "\n"
    assert recorded == (root / "results" / "streams.md").read_text(encoding="utf-8")
    page = (root / "docs" / "research" / "streams.md").read_text(encoding="utf-8")
    for row in recorded.splitlines():
        assert not row.startswith("|") or row in page
