"""The prompt experiment end to end, on a tiny random language model."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

pytest.importorskip("peft")

from reproductions import fedresprompt_values, pool
from reproductions.__main__ import app
from reproductions.fedresprompt import (
    available,
    best,
    fedresprompt,
    finals,
    searches,
)
from reproductions.fedresprompt_costs import cost_to_reach, times_fewer
from reproductions.fedresprompt_jobs import language_of
from reproductions.fedresprompt_tables import cost_table, findings, markdown, write
from reproductions.fedresprompt_values import (
    QUICK,
    Cell,
    Job,
    PromptResult,
    PromptSettings,
    Variant,
    load_prompts,
)
from reproductions.instructed_tables import differences, instructed_parts
from tests.prompt.tiny import tiny_model
from tests.reproductions.test_prompt_tasks import reviews


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> PromptSettings:
    folder = tmp_path_factory.mktemp("prompts")
    return replace(
        QUICK,
        model=str(tiny_model(folder / "tiny")),
        directory=str(reviews(folder)),
        device="cpu",
        length=2,
        rounds=8,
        search_rounds=2,
        lora_rounds=4,
        lora_search_rounds=2,
        batch_size=16,
        sensor_rounds=4,
        target_steps=40,
    )


@pytest.fixture(scope="module")
def result(settings: PromptSettings) -> PromptResult:
    return fedresprompt(settings, ("routing", "sst2"))


def test_every_method_has_its_cells(result: PromptResult) -> None:
    assert result.tasks == ("routing", "sst2")
    for method in ("zero-shot", "ridge", "subspace", "reservoir", "published", "prompt", "lora"):
        (cell,) = result.of("sst2", method)
        assert 0 <= cell.test <= 1
    for method in ("zero-shot", "ridge", "subspace", "closed-form", "reservoir", "published"):
        assert len(result.of("routing", method)) == 1
    assert {c.job.variant.method for c in result.cells if c.job.search} == {"lora"}


def test_answers_are_counted_by_class(result: PromptResult) -> None:
    counted = [cell for cell in result.cells if cell.classes]
    assert {cell.job.variant.method for cell in counted} >= {"zero-shot", "ridge", "reservoir"}
    for cell in counted:
        right, named, there = np.sum(cell.classes, axis=0)
        assert (cell.test, named) == (right / there, there)


def test_bytes_are_measured(result: PromptResult) -> None:
    (lora,), (subspace,) = result.of("sst2", "lora"), result.of("sst2", "subspace")
    # Four clients, both ways, float32, and a header on every message.
    payload = 4 * 2 * 4 * subspace.trained * subspace.rounds
    assert payload < subspace.bytes_federated < payload + 4 * subspace.rounds * 2000
    assert 8 * 4 * lora.trained * lora.rounds < lora.bytes_federated
    assert lora.bytes_asked == 0 < subspace.bytes_asked
    assert subspace.curve[-1][1] == subspace.bytes_federated
    assert subspace.curve[-1][2] == subspace.development
    assert result.of("sst2", "zero-shot")[0].bytes_federated == 0


def test_where_the_projection_is_trained_all_of_it_travels(
    result: PromptResult, settings: PromptSettings
) -> None:
    (seeded,), (trained,) = result.of("routing", "reservoir"), result.of("routing", "published")
    width = language_of(settings).width
    k = trained.job.variant.bottleneck
    assert k == seeded.job.variant.bottleneck
    assert trained.trained == seeded.trained + settings.sensor_length * width * k
    # With every example its prompt goes up and the prompt's gradients come back, not k numbers.
    assert trained.asked_up > 2 * seeded.asked_up
    assert trained.asked_down > 4 * seeded.asked_down
    assert trained.extra == seeded.extra  # the same start
    assert trained.losses != seeded.losses


def test_the_readout_solves_what_the_prompt_must_be_told(result: PromptResult) -> None:
    (ridge,), (constant,) = result.of("routing", "ridge"), result.of("routing", "subspace")
    assert ridge.test == 1.0
    assert constant.test == pytest.approx(1 / 3)
    (start,) = result.of("routing", "closed-form")
    assert start.bytes_federated == ridge.bytes_federated
    assert start.test > constant.test


def test_results_survive_the_disk_and_are_gone_on_from(
    result: PromptResult, settings: PromptSettings, tmp_path: Path
) -> None:
    paths = write(result, tmp_path)
    assert [path.name.removeprefix(paths[1].stem) for path in paths] == [
        *(".json", ".md", ".png", "-loss.png")
    ]
    again = load_prompts(paths[0])
    assert again.settings == result.settings
    assert again.cells == result.cells
    assert fedresprompt(settings, ("routing",), earlier=again).cells == result.cells
    further = replace(settings.routes[0], rate=1.0)
    more = fedresprompt(
        replace(settings, routes=(*settings.routes, further)), ("routing",), earlier=again
    )
    tried = {cell.job.variant for cell in more.cells} - {cell.job.variant for cell in again.cells}
    assert tried <= {further}
    assert more.cells[: len(again.cells)] == again.cells
    with pytest.raises(ValueError, match="other settings"):
        fedresprompt(replace(settings, length=3), ("routing",), earlier=again)
    with pytest.raises(ValueError, match="no task is called 'chess'"):
        fedresprompt(settings, ("chess",))
    text = markdown(result)
    assert "| lora | 1 |" in text
    assert any("times fewer bytes" in line for line in findings(result))


def test_a_noisy_prompt_is_a_job_of_its_own(settings: PromptSettings) -> None:
    jobs = finals(settings, ("uci_har",), ())
    noisy = [job.variant.noise for job in jobs if job.variant.noise]
    assert noisy == list(settings.noises)
    assert searches(settings, ("uci_har",), ()) == []


def test_the_best_on_development_is_chosen() -> None:
    options = [Variant(method="lora", rate=rate, rank=4) for rate in (0.1, 0.2, 0.3)]
    found = [
        Cell(job=Job(task="sst2", variant=v, seed=0, search=True), development=d, test=1 - d)
        for v, d in zip(options, (0.6, 0.8, 0.7), strict=True)
    ]
    assert best("sst2", options, found) == options[1]
    assert best("routing", options, found) == options[0]


def test_a_controller_beyond_the_budget_is_tried_but_not_chosen() -> None:
    small = Variant(method="reservoir", rate=0.1, units=3, bottleneck=10)
    large = replace(small, units=4)
    settings = replace(QUICK, sentences=(small, large), budget=40)
    jobs = searches(settings, ("sst2",), ())
    assert [job.variant for job in jobs] == [small, large]
    found = [
        Cell(job=job, development=0.5 + 0.1 * (job.variant == large), test=0.5) for job in jobs
    ]
    chosen = [j.variant for j in finals(settings, ("sst2",), found)]
    assert small in chosen
    assert large not in chosen


def test_committed_figures_show_what_is_claimed() -> None:
    kept = load_prompts(Path(__file__).parents[4] / "results" / "fedresprompt.json")

    def mean(task: str, method: str, what: str) -> float:
        cells = kept.of(task, method)
        assert len(cells) == 3
        return float(np.mean([getattr(cell, what) for cell in cells]))

    assert mean("sst2", "reservoir", "development") >= 0.87
    assert round(mean("sst2", "subspace", "development"), 3) >= 0.885
    for method in ("reservoir", "subspace"):
        fewer = mean("sst2", "lora", "bytes_federated") / mean("sst2", method, "bytes_federated")
        assert fewer >= 50
    for task in ("uci_har", "motionsense"):
        assert mean(task, "closed-form", "test") > mean(task, "ridge", "test") - 0.03


def test_pages_show_the_figures_of_the_files() -> None:
    root = Path(__file__).parents[4]
    section = (root / "docs" / "research" / "prompts.md").read_text()
    for name in ("fedresprompt", "fedresprompt-stories260k"):
        kept = load_prompts(root / "results" / f"{name}.json")
        assert (root / "results" / f"{name}.md").read_text() == markdown(kept)
        for task in ("routing", "sst2", "uci_har", "motionsense"):
            for method in ("ridge", "subspace", "closed-form", "reservoir", "prompt", "lora"):
                found = [100 * cell.test for cell in kept.of(task, method)]
                if found:
                    assert f" {np.mean(found):.1f} ± {np.std(found, ddof=1):.1f} " in section
        assert cost_table(kept) in section
        if parts := instructed_parts(kept):
            assert parts[0].split("\n\n")[1] in section
            words = " ".join(section.split())
            for line in differences(kept):
                assert line.partition(": ")[2].removeprefix("the trained ") in words


def test_the_guide_says_what_was_measured() -> None:
    root = Path(__file__).parents[4]
    words = " ".join((root / "docs" / "guides" / "prompts.md").read_text().split())
    kept = load_prompts(root / "results" / "fedresprompt.json")

    def means(method: str, *keys: str) -> list[str]:
        cells = kept.of("instructed", method)
        new = [f"{100 * np.mean([c.extra[key] for c in cells]):.1f}" for key in keys]
        return [f"{100 * np.mean([c.test for c in cells]):.1f}", *new]

    ours = means("reservoir", "new wordings")
    theirs = means("ridge", "new wordings", "new wordings, by nearest state")
    assert f"name {ours[0]} % with wordings that were trained with and {ours[1]} % with" in words
    assert f"has {theirs[0]} and {theirs[1]} %, and {theirs[2]} % where" in words
    costs = {(r.variant.method, r.variant.rank): r for r in cost_to_reach(kept, 0.88)}
    ours_88, lora = costs["subspace", 0], costs["lora", 4]
    assert f"took {times_fewer(ours_88, lora):.0f} times the constant prompt's" in words
    assert f"and {times_fewer(ours_88, lora, whole=True):.1f} times if" in words


def test_cost_counts_until_an_accuracy_is_first_there() -> None:
    def runs(method: str, rank: int, curves: list[list[float]], search: bool = False) -> list[Cell]:
        variant = Variant(method=method, rank=rank)
        return [
            Cell(
                job=Job(task="sst2", variant=variant, seed=seed, search=search),
                development=curve[-1],
                test=0.0,
                rounds=3,
                bytes_up=1,
                asked_up=300 if method == "subspace" else 0,
                curve=tuple((k + 1, 10 * (k + 1) * max(rank, 1), a) for k, a in enumerate(curve)),
            )
            for seed, curve in enumerate(curves)
        ]

    cells = (
        *runs("lora", 8, [[0.9, 0.8, 0.8], [0.7, 0.8, 0.9], [0.7, 0.9, 0.9]]),
        *runs("subspace", 0, [[0.7, 0.9, 0.7], [0.7, 0.7, 0.7], [0.7, 0.7, 0.9]]),
        *runs("lora", 4, [[0.9, 0.9, 0.9]], search=True),
        *runs("lora", 8, [[0.9, 0.9, 0.9]], search=True),
    )
    result = PromptResult(settings=QUICK, cells=cells)
    subspace, lora, small = cost_to_reach(result, 0.9)
    assert subspace.federation == (20.0, float("inf"), 30.0)
    assert (subspace.n_reached, subspace.median_federation, subspace.median_whole) == (2, 30, 330)
    assert (lora.federation, lora.median_whole) == ((80.0, 240.0, 160.0), 160.0)
    assert (small.variant.rank, small.search, small.n_runs) == (4, True, 1)
    assert times_fewer(subspace, lora) == pytest.approx(160 / 30)
    assert times_fewer(subspace, lora, whole=True) == pytest.approx(160 / 330)
    assert np.isnan(times_fewer(cost_to_reach(result, 0.95)[0], lora))
    text = markdown(result)
    assert "| 87 | lora, rank 4, of the search | 1 of 1 | 1 | 40 B | 40 B |" in text
    assert "None of these models" in text


def test_a_job_that_fails_does_not_cost_the_rest(
    settings: PromptSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Processes have tests of their own (test_pool.py), and each would load torch anew.
    monkeypatch.setattr(
        pool, "ProcessPoolExecutor", lambda workers, **_: ThreadPoolExecutor(workers)
    )
    language_of(settings)  # once, before two threads want it
    broken = replace(settings, routes=(*settings.routes[:2], replace(settings.routes[2], units=-1)))
    result = fedresprompt(broken, ("routing",), workers=2)
    assert len(result.of("routing", "subspace")) == 1
    assert not result.of("routing", "reservoir")
    assert any("failed" in note for note in result.notes)


def test_the_command_writes_tables(
    settings: PromptSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fedresprompt_values, "QUICK", settings)
    words = [
        "fedresprompt",
        "--quick",
        "--out",
        str(tmp_path),
        "--data",
        str(tmp_path),
    ]
    assert available(tmp_path) == ("routing",)
    outcome = CliRunner().invoke(app, words)
    assert outcome.exit_code == 0, outcome.output
    kept = load_prompts(tmp_path / "fedresprompt-quick.json")
    assert np.isfinite([cell.test for cell in kept.cells]).all()
    assert "Routing: three levels" in outcome.output
    assert (tmp_path / "fedresprompt-quick.md").read_text().count("its figures mean nothing") == 2
