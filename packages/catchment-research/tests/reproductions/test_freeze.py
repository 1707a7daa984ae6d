"""The study of what to freeze: its machinery on synthetic data, its tables on synthetic rows."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")

import torch

from catchment import Plan, federate
from catchment_research.partial import EmnistCnn, FederatedTraining, LocalSteps, layout
from reproductions.freeze import digits_row, freeze, settled
from reproductions.freeze_echo import mean_states, movements, network_of, on_states, ridge
from reproductions.freeze_pictures import picture
from reproductions.freeze_tables import (
    echo_table,
    held_out,
    layers_table,
    markdown,
    reaches,
    rows_of,
    sent_table,
    suggestion,
)
from reproductions.freeze_values import (
    ALL,
    ECHO,
    PAPER,
    QUICK,
    RIDGE,
    TRAINED,
    FreezeResult,
    FreezeSettings,
    Job,
    Row,
    choices,
    chosen,
    freeze_of,
    load_freeze,
    searches,
)
from reproductions.networks import EMNIST_FREEZE

NOWHERE = Path("/nowhere")
ROW = Row(
    job=Job(part="layers", trained=ALL, seed=0, rounds=2),
    data="synthetic",
    n_clients=3,
    total=1000,
    numbers=1000,
    bytes_up=4000.0,
    bytes_down=4000.0,
    accuracy=0.9,
    largest_class=0.11,
    seconds=1.0,
)


def synthetic() -> FreezeResult:
    """Return a result of every part with figures that are easy to follow."""
    settings, rng, rows = FreezeSettings(), np.random.default_rng(0), []
    asked = [(job, 100) for job in searches(settings, ("layers", "echo"), ())]
    asked += [(job, seed) for seed in (0, 1, 2) for job in choices(settings, ("layers", "bits"))]
    asked += [(job, seed) for seed in (0, 1, 2) for job in choices(settings, ("dropout", "echo"))]
    for job, seed in asked:
        score = 0.9 + 0.01 * rng.random() - (0.2 if job.trained == "conv1" else 0.0)
        curve = (0.5, 0.8, 0.905 + 0.001 * seed) if job.part == "echo" else ()
        score = 0.91 if job.trained == RIDGE else curve[-1] if curve else score
        rate = job.rate or 0.05
        made = replace(job, seed=seed, rate=rate)
        rows.append(replace(ROW, job=made, accuracy=score, curve=curve or ()))
    return FreezeResult(
        settings={"seeds": [0, 1, 2], "rates": [0.05, 0.5], "echo_rounds": 3, "tolerance": 0.01},
        rows=tuple(rows),
    )


def test_the_papers_choice_is_among_the_layers_and_every_choice_trains_something() -> None:
    assert freeze_of(PAPER).frozen(EmnistCnn()) == EMNIST_FREEZE.frozen(EmnistCnn())
    names = {name for name, _ in EmnistCnn().named_parameters()}
    for trained in TRAINED:
        assert set(freeze_of(trained).frozen(EmnistCnn())) < names or trained == ALL
    jobs = choices(FreezeSettings(), ("layers", "bits", "dropout", "echo"))
    assert len(jobs) == len(set(jobs)) == 11 + 2 * 4 + 2 * 5 + 3


def test_the_exact_readout_is_that_of_a_plain_solution_on_the_networks_own_states() -> None:
    data = movements("synthetic", None)
    settings = replace(QUICK, echo_ridges=(0.1,))
    job = Job(part="echo", trained=RIDGE, seed=3, rounds=1)
    found = ridge(settings, data, job)
    module = network_of(replace(job, trained=ECHO[0]), settings, data).build()
    x = np.concatenate([own.x for own in data.train.values()])
    y = np.concatenate([own.y for own in data.train.values()])
    with torch.no_grad():  # the readout's own rule, from its inputs and weights
        z = mean_states(module, data.test.x)
        out = module.get_submodule("out")
        assert isinstance(out, torch.nn.Linear)
        logits = module(torch.from_numpy(data.test.x)).numpy()
        np.testing.assert_allclose(
            z @ out.weight.numpy().T + out.bias.numpy(), logits, rtol=1e-4, atol=1e-5
        )
    Z, Y = mean_states(module, x), np.eye(data.n_classes)[y]
    center = Z.mean(0)
    A = (Z - center).T @ (Z - center) + 0.1 * len(Z) * np.eye(Z.shape[1])
    W = np.linalg.solve(A, (Z - center).T @ (Y - Y.mean(0)))
    guess = ((z - center) @ W + Y.mean(0)).argmax(1)
    assert found["accuracy"] == pytest.approx(np.mean(guess == data.test.y))
    assert found["numbers"] == 12 * data.n_classes + data.n_classes


def test_training_on_states_is_training_the_network_with_all_else_frozen() -> None:
    """The shortcut of the readout alone, against the network itself in one round of the loop."""
    data = movements("synthetic", None)
    data = replace(data, train=dict(list(data.train.items())[:2]))
    job = Job(part="echo", trained=ECHO[0], seed=3, rounds=1, rate=1.0)
    network = network_of(job, QUICK, data)
    alone, states = on_states(network, data)
    ended = []
    for one, held in ((network, data), (alone, states)):
        steps = LocalSteps(learning_rate=1.0, batch_size=32)
        algorithm = FederatedTraining(network=one, steps=steps, device="cpu")
        clients = {name: [own] for name, own in held.train.items()}
        ended.append(federate(Plan(algorithm=algorithm), clients).state.values)
    for a, b in zip(*ended, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6)


def test_the_readout_alone_moves_nothing_else() -> None:
    data = movements("synthetic", None)
    job = Job(part="echo", trained=ECHO[0], seed=3, rounds=1)
    assert layout(network_of(job, QUICK, data))[0] == ("out.weight", "out.bias")


def test_a_run_is_kept_cell_by_cell_and_goes_on_where_it_stopped(tmp_path: Path) -> None:
    path = tmp_path / "freeze.json"
    said: list[str] = []
    quick = replace(QUICK, seeds=(0,))
    first = freeze(
        quick,
        parts=("echo",),
        directory=NOWHERE,
        began=said.append,
        kept=lambda so_far: so_far.save(path),
        quick=True,
    )
    assert load_freeze(path) == first
    for row in first.rows:
        right, named, are = np.sum(row.classes, axis=0)
        assert (row.accuracy, named) == (right / are, are)
    assert len(first.rows) == len(said) == 2 + 3
    again = freeze(quick, parts=("echo",), directory=NOWHERE, earlier=first, began=said.append)
    assert again.rows == first.rows
    assert len(said) == 5
    lengths = {row.job.trained: len(row.curve) for row in first.rows}
    assert lengths == {RIDGE: 1, ECHO[0]: 4, ECHO[1]: 2}
    with pytest.raises(ValueError, match="no part 'lairs'"):
        freeze(QUICK, parts=("lairs",))
    assert "mean nothing" in markdown(first)


def test_a_part_of_the_digits_in_few_bits_is_measured() -> None:
    job = Job(part="bits", trained="out", seed=1, rounds=1, bits=2, rate=0.1)
    row = digits_row(QUICK, NOWHERE, job)
    assert (row.data, row.numbers) == ("synthetic", 512 * 62 + 62)
    # Two bits a number, four bytes for the scale of each 256 of them, and a header.
    content = row.numbers / 4 + 4 * row.numbers / 256
    assert content < row.bytes_up < content + 1000


def test_rates_are_chosen_on_who_was_held_out() -> None:
    result = synthetic()
    rates = chosen(result.rows)
    best = max(
        (row for row in result.rows if row.job.search and row.job.trained == PAPER),
        key=lambda row: (row.job.part == "layers", row.accuracy),
    )
    assert rates[best.job.choice] == ("sgd", best.job.rate)
    few = searches(FreezeSettings(), ("dropout", "bits"), result.rows)
    assert {job.part for job in few} == {"dropout"}
    found = {job.rate for job in few if job.trained == PAPER}
    assert found == {best.job.rate, 2 * best.job.rate}
    tested = replace(best, job=replace(best.job, search=False, seed=0))
    other = replace(tested, job=replace(tested.job, rate=7.0, seed=1))
    search = [row for row in result.rows if row.job.search]
    assert settled([*search, tested, other]) == [*search, tested]
    worse = replace(best, failed="not finite")
    others = [row for row in result.rows if row is not best]
    assert chosen([*others, worse])[best.job.choice] != ("sgd", best.job.rate)


def test_tables_have_every_choice_its_baseline_and_paired_differences() -> None:
    result = synthetic()
    text = layers_table(result)[0]
    for trained in TRAINED[1:]:
        assert f"| {trained} " in text
    assert "the paper's" in text
    assert f"{len(TRAINED)} of {len(TRAINED)} rates are the smallest or largest" in text
    assert "| the most frequent digit | 0 | 0 | 0 | | | 11.0 | - | |" in text
    ours, all_ = rows_of(result, "layers", "conv1"), rows_of(result, "layers", ALL)
    apart = [a.accuracy - b.accuracy for a, b in zip(ours, all_, strict=True)]
    shown = f"{100 * np.mean(apart):+.1f} ± {100 * np.std(apart, ddof=1):.1f} |"
    assert shown in next(line for line in text.splitlines() if line.startswith("| conv1 |"))
    assert len(sent_table(result, "bits")[0].splitlines()) == 2 + 2 * 5
    assert "0.25 or 0.5 or 0.75 or 1 of the units, the first" in sent_table(result, "dropout")[0]
    echo = "\n".join(echo_table(result))
    assert len({line.count("|") for line in echo.splitlines() if line.startswith("|")}) == 1
    assert "3, 3, 3 rounds" in echo
    assert "the most frequent activity" in echo
    assert np.isfinite(held_out(result, all_[0]))


def test_the_rule_of_the_paper_is_followed_on_held_out_figures() -> None:
    found = suggestion(synthetic())
    assert found is not None
    assert next(attempt.block for attempt in found.attempts) == "hidden"
    assert set(found.freeze.names) >= {"hidden.weight", "hidden.bias"}
    some = replace(synthetic(), rows=tuple(r for r in synthetic().rows if r.job.trained == ALL))
    assert suggestion(some) is None


def test_the_first_round_that_is_close_enough_counts() -> None:
    exact = replace(ROW, accuracy=0.9)
    assert reaches(replace(ROW, curve=(0.5, 0.894, 0.896, 0.7)), exact) == 3
    assert reaches(replace(ROW, curve=(0.5, 0.894)), exact) is None


@pytest.mark.slow
def test_the_figure_is_drawn(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    drawn = picture(synthetic(), tmp_path / "freeze.png")
    assert drawn is not None
    assert drawn.stat().st_size > 10_000
