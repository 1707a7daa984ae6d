"""The command of `maps`."""

from __future__ import annotations

import typer

from reproductions import map_values
from reproductions.data import ucr
from reproductions.map_sets import available
from reproductions.map_tables import markdown, stem_of, write
from reproductions.map_values import QUICK_SETS, MapsSettings, load_maps
from reproductions.maps import cells_beside, maps
from reproductions.options import Options, changed, report

OPTIONS = ("quick", "sets", "seeds", "workers", "resume", "data", "out")


def run_maps(options: Options) -> None:
    """Run the comparison of feature maps, print its tables, and write them."""
    options.refuse_others("maps", OPTIONS)
    here = available(options.data)
    named = options.sets
    if options.quick and named is None:
        named = tuple(name for name in QUICK_SETS if name in here) or None
    published = ucr.published(directory=options.data) if ucr.available(options.data) else None
    path = options.out / f"{stem_of(quick=options.quick)}.json"
    settings = changed(map_values.QUICK if options.quick else MapsSettings(), **options.numbers)
    result = maps(
        settings,
        sets=named,
        directory=options.data,
        earlier=load_maps(path) if options.resume and path.is_file() else None,
        beside=[] if options.quick else cells_beside(options.out),
        workers=options.workers,
        began=lambda text: typer.echo(text, err=True),
        kept=None if options.quick else lambda so_far: so_far.save(path),
        quick=options.quick,
    )
    typer.echo(markdown(result, published))
    report(write(result, options.out, published), options)
