"""The errors a caller may want to catch; wrong arguments are plain ValueError and TypeError."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path


class CatchmentError(Exception):
    """Base of every error below."""


class MissingExtraError(CatchmentError, ImportError):
    """An optional package is not installed.

    Parameters
    ----------
    extra
        Of `pip install "catchment[extra]"`; a test compares it with those that there are.

    >>> raise MissingExtraError("lab", needed_for="plots")
    Traceback (most recent call last):
    catchment.errors.MissingExtraError: plots need an extra; pip install "catchment[lab]"...
    """

    def __init__(self, extra: str, *, needed_for: str) -> None:
        clone = in_clone(extra)
        here = f", or in your clone: pip install {clone}" if clone else ""
        super().__init__(f'{needed_for} need an extra; pip install "catchment[{extra}]"{here}')


def in_clone(extra: str) -> str:
    """Return what to install where this package was installed from a clone, else nothing."""
    from importlib.metadata import PackageNotFoundError, distribution
    from urllib.parse import urlsplit
    from urllib.request import url2pathname

    try:
        origin = json.loads(distribution("catchment").read_text("direct_url.json") or "{}")
    except PackageNotFoundError:
        return ""
    place = urlsplit(origin.get("url", ""))
    packages = Path(url2pathname(place.path)).parent
    if place.scheme != "file" or not packages.is_dir():
        return ""
    near = Path(os.path.relpath(packages)) if packages.is_relative_to(Path.cwd()) else packages
    beside = near / f"catchment-{extra}"
    return str(beside) if beside.is_dir() else f'"{near / "catchment"}[{extra}]"'


class SettingError(CatchmentError, ValueError):
    """Something is wrong that a setting mends.

    What raises it does not know where the user writes settings: the message is for Python, and who
    reads a plan file says it with `in_plan`.

    Parameters
    ----------
    wrong
        What is wrong, with the value got.
    setting, value
        What to set, in Python or in [data] of a plan file.
    otherwise
        What else would help.

    >>> error = SettingError("ann.csv has no column 'z'", "inputs", ["x", "y"])
    >>> print(error)
    ann.csv has no column 'z'; pass inputs=['x', 'y']
    >>> print(error.in_plan())
    ann.csv has no column 'z'; write inputs = ["x", "y"] into [data]
    """

    def __init__(self, wrong: str, setting: str, value: object, *, otherwise: str = "") -> None:
        self.wrong, self.setting, self.value, self.otherwise = wrong, setting, value, otherwise
        super().__init__(self._said(f"pass {setting}={value!r}"))

    def in_plan(self) -> str:
        """Return the message for somebody who writes a plan file."""
        return self._said(f"write {self.setting} = {as_toml(self.value)} into [data]")

    def within(self, where: str) -> SettingError:
        """Return the error with the place before it."""
        wrong = f"{where}: {self.wrong}"
        return SettingError(wrong, self.setting, self.value, otherwise=self.otherwise)

    def _said(self, remedy: str) -> str:
        return f"{self.wrong}; {f'{self.otherwise}, or ' if self.otherwise else ''}{remedy}"


def as_toml(value: object) -> str:
    """Return a value as a plan file has it: text, numbers, truths and lists of these.

    >>> as_toml(["a", 'say "b"']), as_toml(True), as_toml(0.25)
    ('["a", "say \\\\"b\\\\""]', 'true', '0.25')
    """
    plain = [*value] if isinstance(value, tuple) else value
    return json.dumps(plain, ensure_ascii=False, default=str)


class MissingDataError(CatchmentError, FileNotFoundError):
    """A public data set is not on this machine; the message says where to get and put it."""


class IntegrityError(CatchmentError):
    """A file or message is damaged, forged, or from a newer format."""


class UnknownMapError(IntegrityError):
    """A file names a feature map of one's own that this program does not know."""


class FingerprintError(CatchmentError, ValueError):
    """Two things that must come from the same frozen features do not."""


class SingularError(CatchmentError, ArithmeticError):
    """A linear system has no unique solution; the message gives rank and remedy."""


class ClippingWarning(UserWarning):
    """Inputs beyond the range of fixed point were cut off; the message gives their share."""


class CoarseTargetsWarning(UserWarning):
    """Targets are so small that few of their digits are kept; the message says how many."""


class FinerRadiusWarning(UserWarning):
    """A spectral radius lies between two rounded numbers and was given one bit more."""


class PrecisionWarning(UserWarning):
    """Sums of products have too few digits for what the data hold; the message gives the remedy."""


class RefusedClientsWarning(UserWarning):
    """A run did without some of its clients; the message names them and says why."""


class FederationError(CatchmentError):
    """A run could not go on; the message names the clients."""


class TooFewClientsError(FederationError):
    """Fewer clients answered than the plan asks for."""


class CodedError(FederationError):
    """Base of errors with a `code`: one short word for programs, beside the sentence for people."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class UploadError(CodedError):
    """One client's upload is refused; the round goes on without it."""


class RuleError(CodedError):
    """A client's own rule forbids the step it was asked for; `code` names the rule."""


class DeviceError(CodedError):
    """A small device did not answer, or not with what was asked.

    >>> DeviceError("silent", "the device did not answer within 10 seconds").code
    'silent'
    """


class AbortedError(FederationError):
    """A masked round ended without a sum; nothing was released."""


class BudgetError(FederationError):
    """A release would tell more about a client than the privacy budget allows."""

    code = "budget"


def near(name: str, known: Iterable[str]) -> str | None:
    """Return the name that was probably meant.

    >>> near("activty", ["t", "activity"]), near("Activity", ["activity"]), near("x", ["time"])
    ('activity', 'activity', None)
    """
    from difflib import get_close_matches

    folded = {other.casefold().strip(): other for other in known}
    found = get_close_matches(name.casefold().strip(), folded, n=1, cutoff=0.5)
    return folded[found[0]] if found else None


def nearest(name: str, known: Iterable[object]) -> str:
    """Return what to say of a name that is not known: which one was meant, or which there are.

    >>> nearest("rigde", ["ridge", "rounds"]), nearest("x", ["ridge", "rounds"])
    ("did you mean 'ridge'?", 'choose from ridge, rounds')
    """
    every = [str(other) for other in known]
    if meant := near(name, every):
        return f"did you mean {meant!r}?"
    return f"choose from {', '.join(every[:12])}{' and more' if len(every) > 12 else ''}"
