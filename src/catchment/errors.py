"""The errors a caller may want to catch; wrong arguments are plain ValueError and TypeError."""

from __future__ import annotations


class CatchmentError(Exception):
    """Base of every error below."""


class MissingExtraError(CatchmentError, ImportError):
    """An optional package is not installed.

    >>> raise MissingExtraError("plot", needed_for="plots")
    Traceback (most recent call last):
    catchment.errors.MissingExtraError: plots need an extra; pip install "catchment[plot]"
    """

    def __init__(self, extra: str, *, needed_for: str) -> None:
        super().__init__(f'{needed_for} need an extra; pip install "catchment[{extra}]"')


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
    """Inputs lie beyond the range of a grid and were cut off; the message gives their share."""


class CoarseTargetsWarning(UserWarning):
    """Targets are so small that a grid keeps few of their digits; the message says how many."""


class RefusedClientsWarning(UserWarning):
    """A run did without some of its clients; the message names them and says why."""


class FederationError(CatchmentError):
    """A run could not go on; the message names the clients."""


class TooFewClientsError(FederationError):
    """Fewer clients answered than the plan asks for."""


class UploadError(FederationError):
    """One client's upload is refused; the round goes on without it.

    `code` is one short word for programs, the message one sentence for people.
    """

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class RuleError(FederationError):
    """A client's own rule forbids the step it was asked for; `code` names the rule."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class AbortedError(FederationError):
    """A masked round ended without a sum; nothing was released."""


class BudgetError(FederationError):
    """A release would tell more about a client than the privacy budget allows."""

    code = "budget"
