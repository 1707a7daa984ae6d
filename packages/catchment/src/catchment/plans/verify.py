"""A run's hashes computed again, with the recordings that its plan names or that one has."""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from catchment.data.files import find_files
from catchment.data.recording import Recording
from catchment.engine.local import data_of
from catchment.errors import CatchmentError
from catchment.federation.runs.folder import MODEL, PLAN
from catchment.federation.runs.read import Run, read_run
from catchment.federation.runs.verify import Check, Verification, compared, verified
from catchment.plans.by_files import own_data
from catchment.plans.data import About, Clients
from catchment.plans.file import PlanFile, fingerprint_of, read_plan
from catchment.readout.answers import read_for
from catchment.readout.storage import load


def verify_run(
    folder: str | Path,
    *,
    files: Sequence[str | Path] = (),
    client: str | None = None,
    plan: str | Path | None = None,
    clients: Clients | None = None,
    data: Path | None = None,
    kept_only: bool = False,
    use: Iterable[Callable[..., Any]] = (),
) -> Verification:
    """Return what can be computed again of a run's folder, each compared with what it says.

    Parameters
    ----------
    folder
        Of the run.
    files
        Raw recordings in place of those that the plan names: those of all clients or, with
        `client`, that one's.
    client
        Whose statistics are looked at; everybody's if not given.
    plan
        The plan beside its files; if not given, the run's copy, with the files where they were.
    clients
        Recordings by client in place of files and plan, as they were before any preparation.
    data
        Directory of public data sets; the usual ones if not given.
    kept_only
        Whether to compare only what the folder holds, and read no recordings.
    use
        Classes of feature maps of one's own.

    >>> import tempfile
    >>> from catchment.plans import parse_plan, run_plan
    >>> plan = parse_plan('[data]\\nsource = "narma"\\nsteps = 400\\n[features]\\nunits = 10\\n')
    >>> with tempfile.TemporaryDirectory() as place:
    ...     _ = run_plan(plan, Path(place) / "run")
    ...     verify_run(Path(place) / "run").agrees
    True
    """
    run = read_run(folder)
    sys.path.insert(0, "")  # a map of one's own may lie in the folder where one is
    file = plan_of(run, plan)
    known = tuple(use)
    found, reason = clients, "they were left out"
    try:
        if clients is None and not kept_only and files:
            found = _of_files(run, file, files, client, known)
        elif clients is None and not kept_only:
            reason = "no plan names them; pass files"
            found = None if file is None else file.load_data(data).train
    except (CatchmentError, ValueError, OSError) as error:
        if files:
            raise
        reason = f"the recordings are not here: {error}"
    sources = None
    if found is not None:
        sources = {name: data_of(source) for name, source in found.items()}
    made = partial(load, use=known)
    checked = verified(folder, made, clients=sources, reason=reason, only=client)
    return Verification((*_plan_checks(run), *checked.checks))


def plan_of(run: Run, plan: str | Path | None) -> PlanFile | None:
    """Return the plan of a run, None if it has none; what it imports is known from here on."""
    if plan is not None:
        return read_plan(plan)
    path = run.folder / PLAN
    if not path.is_file():
        return None
    base = run.folder / run.facts["base"] if "base" in run.facts else Path()
    try:
        return read_plan(path, base=base)
    except (CatchmentError, ValueError):
        return None


def _plan_checks(run: Run) -> list[Check]:
    path, said = run.folder / PLAN, run.facts.get("fingerprint", "")
    if not path.is_file():
        return []
    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        return [Check(PLAN, "differs", note=f"it is not valid TOML: {error}")]
    return [compared(PLAN, fingerprint_of(tables), said)]


def _of_files(
    run: Run,
    file: PlanFile | None,
    files: Sequence[str | Path],
    client: str | None,
    use: tuple[Callable[..., Any], ...],
) -> Clients:
    """Return what files hold for the training, all of it one client's if that is named."""
    model = load(run.folder / MODEL, use=use)
    held: dict[str, list[Recording]] = {}
    for path in find_files([str(one) for one in files]):
        for name, recordings in read_for(model, path, targets=True).items():
            held.setdefault(client or name, []).extend(recordings)
    if file is None:
        return held
    about = About(model.channels or (), model.classes, columns=tuple(model.columns.items()))
    return own_data(file, dict(held), about).train
