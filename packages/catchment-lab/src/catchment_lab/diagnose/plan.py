"""Why one person is served as they are: their recordings, a model that may judge them, the others.

Computed where the data are. Where only a server is, it says what the server knows.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from catchment import load
from catchment.data import Recording
from catchment.engine import data_of
from catchment.errors import CatchmentError
from catchment.federation import RunFolder, messages_of, model_of, read_run
from catchment.federation.measure import Scores, metrics
from catchment.federation.runs import MODEL, Run
from catchment.plans import PlanData, PlanFile, plan_of
from catchment.readout import Predictor, read_for
from catchment_lab.diagnose.client import About
from catchment_lab.diagnose.judges import Judge, saved_judge, trained_without, without
from catchment_lab.diagnose.reasons import Evidence
from catchment_lab.diagnose.records import Served, read_confusions, write_served
from catchment_lab.diagnose.run_features import channel_names, kept_moments
from catchment_lab.diagnose.shift import feature_shift

log = logging.getLogger(__name__)


def how_served(
    folder: str | Path,
    client: str,
    *,
    files: Sequence[str | Path] = (),
    data: Path | None = None,
    use: Iterable[Callable[..., Any]] = (),
    threads: int | None = None,
) -> Served:
    """Return how one person is served by a run's model, and likely reasons.

    Parameters
    ----------
    folder
        Of the run.
    client
        Whose recordings are looked at: any client of the run or, with files, anybody.
    files
        The person's raw recordings, in place of those that the plan names.
    data
        Directory of public data sets; the usual ones if not given.
    use
        Classes of feature maps of one's own.

    >>> import tempfile
    >>> from catchment.plans import parse_plan, run_plan
    >>> data = '[data]\\nsource = "wearables"\\nusers = 5\\nwindows_per_user = 12\\n'
    >>> plan = parse_plan(data + 'test = "folds"\\n[features]\\nunits = 10\\n')
    >>> with tempfile.TemporaryDirectory() as place:
    ...     _ = run_plan(plan, Path(place) / "run")
    ...     how_served(Path(place) / "run", "user-001").rows
    12
    """
    run = read_run(folder)
    model = load(run.folder / MODEL, use=tuple(use))
    file = plan_of(run, None)
    held, missing = _held(file, data)
    if files:
        recordings: Sequence[Recording] | None = _of_files(model, files, client)
    else:
        if held is not None and client not in held.names and messages_of(folder, client, 1):
            held, missing = None, "the plan's data have no such client: it was a device"
        recordings = _of_client(held, client)
    if recordings is None:
        return as_the_server_knows(run, client, missing)
    judge = saved_judge(client, model, held) or without(run.folder, client, model)
    if judge is None:
        assert file is not None
        assert held is not None
        judge = trained_without(file, held, client, threads)
    notes = (f"the others' recordings are not here ({missing})",) if held is None else ()
    about = About(run, client, held, judge, model, read_confusions(folder, len(run.classes)))
    return about.served(recordings, notes)


def keep_worst(
    store: RunFolder,
    file: PlanFile,
    held: PlanData,
    model: Predictor,
    scores: Scores,
    models: Mapping[str, Predictor],
) -> None:
    """Keep how the worst client is served, if badly, at the end of a run in this process.

    It has raw signals and exact numbers of one client, so that plans that hide their clients keep
    none of it. What goes wrong here is told and does not end a run that is done.

    Parameters
    ----------
    models
        By client: the model that it was tested by, where that is not the run's own.
    """
    known = {name: one for name, one in scores.by_client.items() if not np.isnan(one.value)}
    if file.is_noisy or file.is_secret or len(known) < 3:
        return
    client, _ = Scores(scores.total, known).worst()
    metric = metrics(known[client])[0][0]
    others = [one.value for name, one in known.items() if name != client]
    if not Evidence(metric, known[client].value, 0, others).is_badly_served:
        return
    judge = Judge(models[client], "by the model of the other folds", False) if models else None
    judge = judge or saved_judge(client, model, held)
    recordings = _of_client(held, client)
    if judge is None or recordings is None:
        return
    try:
        run = read_run(store.folder)
        counts = {k: one.counts.confusion for k, one in known.items() if one.counts is not None}
        write_served(store, About(run, client, held, judge, model, counts).served(recordings))
    except (CatchmentError, ValueError, ArithmeticError) as error:
        log.info("why %s is served badly is not known: %s", client, error)


def _held(file: PlanFile | None, data: Path | None) -> tuple[PlanData | None, str]:
    if file is None:
        return None, "the run's folder has no plan that names them"
    try:
        held = file.load_data(data)
    except (CatchmentError, ValueError, OSError) as error:
        return None, str(error)
    return held, ""


def _of_files(model: Predictor, files: Sequence[str | Path], client: str) -> list[Recording]:
    """Return all recordings of files; only the client's where they name several clients."""
    from catchment.data import find_files

    found: dict[str, list[Recording]] = {}
    for path in find_files([str(one) for one in files]):
        for name, recordings in read_for(model, path, targets=True).items():
            found.setdefault(name, []).extend(recordings)
    if "client" in model.columns and client in found:
        return found[client]
    return [one for recordings in found.values() for one in recordings]


def _of_client(held: PlanData | None, client: str) -> list[Recording] | None:
    if held is None:
        return None
    source = held.test.get(client, held.train.get(client))
    if source is None:
        names = ", ".join(held.names[:8]) + (", ..." if len(held.names) > 8 else "")
        raise ValueError(
            f"{client!r} is no client of this run; there are {names}. For somebody else pass "
            "their recordings: --files FILES"
        )
    return list(data_of(source)())


def as_the_server_knows(run: Run, client: str, missing: str) -> Served:
    """Return what a run's folder alone says of a client, and that the rest is not here."""
    asked = {name for name in (*run.scores, *run.rows_by_client) if name}
    if client not in asked and not messages_of(run.folder, client, 1):
        known = ", ".join(sorted(asked)[:8])
        raise ValueError(f"{client!r} is no client of this run; there are {known or 'none'}")
    others = {n: s[run.metric] for n, s in run.scores.items() if n not in ("", client)}
    own = run.scores.get(client, {})
    counts = read_confusions(run.folder, len(run.classes))
    rest = [one for name, one in counts.items() if name != client]
    notes = [
        f"Their recordings are not here ({missing}). The server knows scores, the messages and "
        "what is below; it does not know their signals, and nothing about them is said here.",
        "Whoever has the recordings learns the rest with the run's folder: catchment explain "
        f"RUN --client {client} --files FILES",
    ]
    notes += [f"It stands out: {flag}" for flag in run.flags if flag.client == client]
    return Served(
        client,
        run.metric,
        own.get(run.metric, float("nan")),
        run.score_rows.get(client, 0),
        "as the run's own test had it" if own else "not tested: they trained the model",
        others,
        run.classes,
        counts.get(client),
        sum(rest[1:], start=rest[0]) if rest else None,
        features=_features_of_sums(run, client),
        notes=tuple(notes),
    )


def _features_of_sums(run: Run, client: str) -> Any:
    """Return how far a training client's features lie off, by the sums that it sent."""
    try:
        model = model_of(load(run.folder / MODEL))
        kept = kept_moments(run, model) if model is not None else {}
    except (CatchmentError, ValueError, OSError):
        return None
    if model is None or client not in kept or len(kept) < 3:
        return None
    own = kept.pop(client)
    return feature_shift(own, list(kept.values()), channel_names(model))
