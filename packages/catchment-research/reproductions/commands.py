"""The commands of studies with options of their own, thin: each calls a module, prints its tables
and writes them.

A study's modules are imported when its command is called: some of them need packages that others do
without.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, cast

import typer

from catchment.cli import counting, each
from reproductions.command import DataOption, began
from reproductions.options import NO_MEANING, Options, listed, mark_quick, report

ResumeOption = Annotated[bool, typer.Option(help="Keep the cells that are there.")]
SeedsOption = Annotated[int, typer.Option(help="How many seeds.", min=1)]
OutOption = Annotated[Path, typer.Option(help="Folder for results.")]
SetsOption = Annotated[str | None, typer.Option(help="Names, separated by commas.")]
RESULTS = Path("results")


def warn(quick: bool) -> None:
    """Say that the figures of a quick run mean nothing."""
    if quick:
        typer.echo(NO_MEANING.replace("**", ""))


def run_study(
    stem: str,
    run: Callable[..., Any],
    load: Callable[[Path], Any],
    markdown: Callable[[Any], str],
    write: Callable[[Any, Path], Sequence[Path]],
    *given: Any,
    quick: bool,
    resume: bool,
    out: Path,
    **settings: Any,
) -> None:
    """Run a study, print its tables, and write them.

    Parameters
    ----------
    stem
        What its result is called, in which cells are kept as they end.
    given, settings
        What the study is called with, beside what it has already and whom it tells.
    """
    path = out / f"{stem}{'-quick' if quick else ''}.json"
    usual: dict[str, Any] = {"kept": lambda so_far: so_far.save(path), "began": began}
    earlier = load(path) if resume and path.is_file() else None
    warn(quick)
    result = run(*given, quick=quick, earlier=earlier, **{**usual, **settings})
    typer.echo(markdown(result))
    report(write(result, out), Options(quick=quick))
    warn(quick)


def adapt(
    quick: Annotated[bool, typer.Option(help="Synthetic people, seconds.")] = False,
    resume: ResumeOption = False,
    sets: Annotated[str, typer.Option(help="Of people; all four if left out.")] = "",
    seeds: SeedsOption = 5,
    rows: Annotated[Path | None, typer.Option(help="Folder that keeps feature rows.")] = None,
    out: OutOption = RESULTS,
    data: DataOption = None,
) -> None:
    """Unlabeled windows of a new person correct the readout: gains, losers, worth in labels."""
    from reproductions.adapt import adapt as run
    from reproductions.adapt import load_adapt, sets_of
    from reproductions.adapt_tables import markdown, write

    known, n_seeds = sets_of(quick, listed(sets)), 1 if quick else seeds
    own: dict[str, Any] = {"seeds": n_seeds, "directory": data, "kept_rows": rows}
    study = ("adapt", run, load_adapt, markdown, write)
    run_study(*study, known, quick=quick, resume=resume, out=out, **own)


def anomaly(
    quick: Annotated[bool, typer.Option(help="A small version; its figures mean nothing.")] = False,
    sets: Annotated[str, typer.Option(help="Sets, separated by commas.")] = "skab,nab",
    seeds: Annotated[int | None, typer.Option(help="How many reservoirs.", min=1)] = None,
    resume: ResumeOption = False,
    out: OutOption = RESULTS,
    data: DataOption = None,
) -> None:
    """Anomalies on SKAB and NAB by their own scoring: one's own sums against everybody's."""
    from reproductions.anomaly import QUICK, SETS, AnomalySettings
    from reproductions.anomaly import anomaly as run
    from reproductions.anomaly_tables import markdown, write
    from reproductions.anomaly_values import load_anomaly

    named = listed(sets) or ()
    if unknown := set(named) - set(SETS):
        raise ValueError(f"no set is called {min(unknown)!r}; use {', '.join(SETS)}")
    settings = QUICK if quick else AnomalySettings()
    if seeds is not None:
        settings = replace(settings, seeds=tuple(range(seeds)))
    with counting("families", 1 if quick else 20) as done:
        own: dict[str, Any] = {"directory": data, "sets": named}
        own["began"] = lambda text, k, n: done(f"{text} ({k + 1} of {n})")
        study = ("anomaly", run, load_anomaly, markdown, write)
        run_study(*study, settings, quick=quick, resume=resume, out=out, **own)


def arena(
    sets: SetsOption = None,
    seeds: Annotated[int, typer.Option(help="Draws of every map.", min=1)] = 3,
    resume: ResumeOption = False,
    out: OutOption = RESULTS,
    data: DataOption = None,
    prepared: Annotated[
        Path | None,
        typer.Option(help="Folder of sets as whar-datasets wrote them, instead of ours."),
    ] = None,
) -> None:
    """Activity sets by the protocol of WHAR Arena: ten groups of people, 3 s windows, macro-F1."""
    from reproductions.arena import STEM, load_arena, markdown
    from reproductions.arena import arena as run

    path = out / f"{STEM}.json"
    result = run(
        sets=listed(sets),
        seeds=seeds,
        directory=data,
        prepared=prepared,
        earlier=load_arena(path) if resume and path.is_file() else None,
        kept=lambda so_far: so_far.save(path),
        began=began,
    )
    path.with_suffix(".md").write_text(markdown(result), encoding="utf-8")
    typer.echo(markdown(result))


def forecast(
    quick: Annotated[
        bool, typer.Option(help="Two channels, one horizon and synthetic regions.")
    ] = False,
    resume: ResumeOption = False,
    seeds: Annotated[int, typer.Option(min=1, help="Draws of a reservoir.")] = 3,
    out: OutOption = RESULTS,
    data: DataOption = None,
) -> None:
    """A transformer station by the usual protocol, and the weather of 15 regions."""
    from reproductions.forecast_study import run
    from reproductions.forecast_tables import written

    warn(quick)
    path = run(quick=quick, resume=resume, seeds=seeds, directory=data, out=out, each=shown)
    report(written(path), Options(quick=quick))
    warn(quick)


def lags(
    quick: Annotated[bool, typer.Option(help="Synthetic series and few clients.")] = False,
    resume: ResumeOption = False,
    out: OutOption = RESULTS,
    data: DataOption = None,
) -> None:
    """Forecasts from autocovariances, beside the exact Gram matrix, naive ones and noise."""
    from reproductions.lags_study import run
    from reproductions.lags_tables import written

    warn(quick)
    path = run(quick=quick, resume=resume, directory=data, out=out, each=shown)
    report(written(path), Options(quick=quick))


def shown(jobs: Sequence[Any], text: str) -> Iterable[Any]:
    """Yield jobs, and show how many of them are done."""
    return each(jobs, text)


def freeze(
    quick: Annotated[
        bool, typer.Option(help="A small version, in minutes; its figures mean nothing.")
    ] = False,
    sets: Annotated[
        str | None, typer.Option(help="Of layers, bits, dropout and echo, by commas; all if none.")
    ] = None,
    seeds: Annotated[int | None, typer.Option(help="How many seeds.", min=1)] = None,
    rounds: Annotated[int | None, typer.Option(help="Rounds on digits.", min=1)] = None,
    resume: Annotated[bool, typer.Option(help="Take rows that the folder's result has.")] = False,
    workers: Annotated[int, typer.Option(help="Processes.", min=1)] = 1,
    out: OutOption = RESULTS,
    data: DataOption = None,
) -> None:
    """Which layers to freeze, few bits, parts of the units, and the echo state network."""
    from reproductions.freeze import freeze as run
    from reproductions.freeze_pictures import write
    from reproductions.freeze_tables import markdown
    from reproductions.freeze_values import PARTS, QUICK, FreezeSettings, load_freeze

    settings = QUICK if quick else FreezeSettings()
    if seeds is not None:
        settings = replace(settings, seeds=tuple(range(seeds)))
    if rounds is not None:
        settings = replace(settings, rounds=rounds)
    path = out / ("freeze-quick.json" if quick else "freeze.json")
    result = run(
        settings,
        parts=listed(sets) or PARTS,
        directory=data,
        workers=workers,
        began=began,
        kept=None if quick else lambda so_far: so_far.save(path),
        earlier=load_freeze(path) if resume and path.is_file() else None,
        quick=quick,
    )
    typer.echo(markdown(result))
    report(write(result, out), Options())


def keywords(
    quick: Annotated[bool, typer.Option(help="Two synthetic words, seconds.")] = False,
    resume: Annotated[bool, typer.Option(help="Keep the words that are there.")] = False,
    out: OutOption = RESULTS,
    data: DataOption = None,
) -> None:
    """A new keyword, brought by one speaker in one upload: spoken digits, a frozen encoder."""
    from reproductions.keywords import keywords as run
    from reproductions.keywords import load_keywords
    from reproductions.keywords_data import spoken, synthetic
    from reproductions.keywords_tables import markdown, write

    words = synthetic() if quick else spoken(data, began)
    study = ("keywords", run, load_keywords, markdown, write)
    run_study(*study, words, quick=quick, resume=resume, out=out)


def life(
    quick: Annotated[bool, typer.Option(help="Synthetic engines, seconds.")] = False,
    resume: ResumeOption = False,
    seeds: SeedsOption = 3,
    out: OutOption = RESULTS,
    data: DataOption = None,
) -> None:
    """Cycles left of turbofan engines, an engine a client, with intervals: C-MAPSS FD001."""
    from reproductions.life import life as run
    from reproductions.life import load_life
    from reproductions.life_data import fd001, generated
    from reproductions.life_tables import markdown, write

    engines, n_seeds = generated() if quick else fd001(data), 1 if quick else seeds
    study = ("life", run, load_life, markdown, write)
    run_study(*study, engines, quick=quick, resume=resume, out=out, seeds=n_seeds)


def pixels(
    quick: Annotated[bool, typer.Option(help="Synthetic images, seconds.")] = False,
    resume: ResumeOption = False,
    sets: Annotated[str, typer.Option(help="Of images.")] = "mnist_writers,fashion_mnist",
    seeds: SeedsOption = 3,
    device: Annotated[str | None, typer.Option(help="cuda for a GPU.")] = None,
    out: OutOption = RESULTS,
    data: DataOption = None,
) -> None:
    """Images pixel by pixel, in order and permuted, by diagonal reservoirs in closed form."""
    from reproductions.data.load import load_images
    from reproductions.pixels import WIDTHS, load_pixels, synthetic
    from reproductions.pixels import pixels as run
    from reproductions.pixels_tables import markdown, write

    names = listed(sets) or ()
    run_study(
        "pixels",
        run,
        load_pixels,
        markdown,
        write,
        [synthetic()] if quick else [load_images(name, directory=data) for name in names],
        quick=quick,
        resume=resume,
        out=out,
        seeds=1 if quick else seeds,
        widths=dict.fromkeys(WIDTHS, (40,)) if quick else WIDTHS,
        searched=40 if quick else 2000,
        by_clients=40 if quick else 1000,
        device=device,
    )


def scales(
    sets: SetsOption = None,
    seeds: Annotated[int, typer.Option(help="Draws of the map.", min=1)] = 3,
    out: OutOption = RESULTS,
    data: DataOption = None,
) -> None:
    """Which scale serves whoever sets nothing, by training people, and of files of any length."""
    from reproductions.map_sets import PEOPLE
    from reproductions.scales import markdown, save
    from reproductions.scales import scales as run

    cells = run(sets=listed(sets) or PEOPLE, seeds=seeds, directory=data, began=began)
    typer.echo(markdown(cells))
    report(save(cells, out), Options())


def speech(
    quick: Annotated[bool, typer.Option(help="Five recordings of each digit.")] = False,
    out: OutOption = RESULTS,
    data: DataOption = None,
) -> None:
    """Spoken digits by speakers nobody trained on, with a frozen speech encoder."""
    from reproductions.speech import Cell, markdown
    from reproductions.speech import speech as run

    result = run(quick=quick, directory=data, out=out, began=began)
    cells = result["cells"]
    assert isinstance(cells, list)
    typer.echo(markdown([Cell(**row) for row in cells]))  # type: ignore[arg-type]
    if quick:
        mark_quick([out / "speech-quick.md"])
    warn(quick)


def sentences(
    quick: Annotated[bool, typer.Option(help="Forty sentences of each client.")] = False,
    limit: Annotated[
        int | None, typer.Option(min=10, help="Sentences of each client and set, at most.")
    ] = None,
    seeds: Annotated[int, typer.Option(min=1, help="Cuts into clients.")] = 3,
    out: OutOption = RESULTS,
    data: DataOption = None,
) -> None:
    """Film reviews by the frozen hidden states of a language model."""
    from reproductions.sentences import LIMIT, markdown
    from reproductions.sentences import sentences as run

    asked: dict[str, Any] = {"quick": quick, "directory": data, "out": out, "began": began}
    result = run(limit=LIMIT if limit is None else limit, seeds=range(seeds), **asked)
    typer.echo(markdown(result["cells"]))  # type: ignore[arg-type]
    if quick:
        mark_quick([out / "sentences-quick.md"])
    warn(quick)


def streams(
    quick: Annotated[bool, typer.Option(help="A small version, in minutes at most.")] = False,
    only: Annotated[
        str | None, typer.Option(help="Contenders, separated by commas; all if left out.")
    ] = None,
    tasks: Annotated[str, typer.Option(help="Tasks, separated by commas.")] = "changes,gaps",
    seeds: Annotated[int | None, typer.Option(help="How many seeds.", min=1)] = None,
    device: Annotated[
        str, typer.Option(help="Where the recurrent network trains: cpu or cuda.")
    ] = "cpu",
    export: Annotated[
        Path | None, typer.Option(help="Only write the streams, for reproductions.streams_gru.")
    ] = None,
    labels: Annotated[
        Path | None, typer.Option(help="What reproductions.streams_gru wrote elsewhere.")
    ] = None,
    synthetic: Annotated[
        bool, typer.Option(help="Synthetic people instead of MotionSense.")
    ] = False,
    out: OutOption = RESULTS,
    data: DataOption = None,
) -> None:
    """Labels for every step of a stream: reservoirs, lags, windows and a GRU on unseen people.

    Cells that the folder's result has already are taken as they are.
    """
    from reproductions.streams import GRU, QUICK, StreamSettings, folds, load_streams
    from reproductions.streams import streams as run
    from reproductions.streams_contenders import CONTENDERS
    from reproductions.streams_data import TASKS, People, Task, generated, motionsense, spliced
    from reproductions.streams_tables import markdown, write

    named = listed(tasks) or ()
    if unknown := set(named) - set(TASKS):
        raise ValueError(f"no task is called {min(unknown)!r}; use {', '.join(TASKS)}")
    known = (*CONTENDERS, GRU)
    chosen = listed(only)
    if unknown := set(chosen or ()) - set(known):
        raise ValueError(f"no contender is called {min(unknown)!r}; use {', '.join(known)}")
    settings = QUICK if quick else StreamSettings()
    if seeds is not None:
        settings = replace(settings, seeds=tuple(range(seeds)))
    people, n_classes = generated(settings.most_people or 12) if synthetic else motionsense(data)
    some = dict(sorted(people.items())[: settings.most_people])

    def make(task: Task, seed: int) -> People:
        size = {"n_streams": settings.n_streams, "steps": settings.steps}
        return spliced(some, n_classes, task=task, seed=seed, **size)

    if export is not None:
        from reproductions.streams_network import export as write_streams

        draws = [(cast(Task, name), seed) for name in named for seed in settings.seeds]
        write_streams(make, draws, folds, n_classes, export)
        return
    known_labels = None
    if labels is not None:
        from reproductions.streams_network import read_labels

        known_labels = read_labels(labels)
    path = out / ("streams-quick.json" if quick else "streams.json")
    result = run(
        make,
        n_classes,
        settings,
        contenders=chosen,
        tasks=[cast(Task, name) for name in named],
        device=device,
        labels=known_labels,
        earlier=load_streams(path) if path.is_file() and not quick else None,
        kept=lambda so_far: write(so_far, out),
        began=began,
        quick=quick,
    )
    typer.echo(markdown(result))
    report(write(result, out), Options(quick=quick))
    warn(quick)
