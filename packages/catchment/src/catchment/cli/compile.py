"""`catchment compile`: fill the cache of compiled kernels beforehand."""

from __future__ import annotations

import typer


def compile_command() -> None:
    """Compile all kernels for this processor now, for images and build machines."""
    from catchment.precompile import compile_kernels

    done = compile_kernels()
    if not done.kernels:
        typer.echo("everything is compiled already")
    else:
        typer.echo(f"compiled {done.kernels} kernels in {done.seconds:.0f} s")
    if not done.kept:
        raise ValueError("no folder can be written to keep them; set NUMBA_CACHE_DIR to one")
