"""Ray, started on this machine or reached by an address."""

from __future__ import annotations

import importlib.util
import logging
import os
import socket
import sys
import warnings
from typing import Any

from catchment.errors import FederationError, MissingExtraError

SECONDS = 5.0  # for a cluster to answer at all; Ray itself would wait for minutes


def ready_ray(
    *,
    address: str | None = None,
    cpus: int | None = None,
    env: dict[str, str] | None = None,
    needed_for: str = "runs on Ray",
) -> Any:
    """Return Ray, started if it was not; one that runs in this process already is taken as it is.

    Parameters
    ----------
    address
        Of a cluster: `auto`, `host:port` or `ray://host:port`; a Ray of this machine if not given.
    cpus
        Tasks at a time of a Ray that is started here; as many as there are cores if not given.
    env
        What the environment of worker processes says besides.
    needed_for
        For the error where Ray is not installed.
    """
    if importlib.util.find_spec("ray") is None:
        raise MissingExtraError("fleet", needed_for=needed_for)
    import ray

    if ray.is_initialized():
        return ray
    told = dict(env or {})
    if address is None:
        # Workers find the modules that this process has found.
        told["PYTHONPATH"] = os.pathsep.join(entry for entry in sys.path if entry)
        settings: dict[str, Any] = {"include_dashboard": False, "num_cpus": cpus}
    else:
        _refuse_silent(address)
        settings = {"address": address}
    try:
        with warnings.catch_warnings():
            # Of Ray's own code, about what will change in it.
            warnings.filterwarnings("ignore", module=r"ray(\.|$)")
            ray.init(
                **settings,
                logging_level=logging.ERROR,
                log_to_driver=False,
                runtime_env={"env_vars": told},
            )
    except Exception as error:
        where = "on this machine" if address is None else f"at {address}"
        raise FederationError(f"Ray does not start {where}: {in_one_line(error)}") from error
    return ray


def _refuse_silent(address: str) -> None:
    """Raise if nobody listens where a cluster should be."""
    host, colon, port = address.removeprefix("ray://").rpartition(":")
    if not (colon and port.isdigit()):
        return  # `auto`, or something that Ray says its own sentence about
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=SECONDS).close()
    except OSError as error:
        raise FederationError(
            f"no Ray cluster answers at {address}: {error}; start one there with `ray start "
            "--head`, or leave the address out for a Ray of this machine"
        ) from error


def in_one_line(error: BaseException) -> str:
    """Return what an error says without its line breaks, cut off where it is long.

    >>> in_one_line(ValueError("no\\n  answer"))
    'no answer'
    """
    return " ".join(str(error).split())[:300] or type(error).__name__
