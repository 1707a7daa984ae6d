"""Reading pickles of strangers without running them.

A pickle is a program: it may name any function of any module and call it. WESAD is published only
as pickles, so they have to be read. What numpy itself needs to make an array again is admitted;
any other global is refused by name.
"""

from __future__ import annotations

import pickle
from typing import IO

from catchment.errors import IntegrityError

_ADMITTED = {
    ("numpy.core.multiarray", "_reconstruct"),
    ("numpy", "ndarray"),
    ("numpy", "dtype"),
    ("_codecs", "encode"),  # of bytes that Python 3 wrote for readers of protocol 2
}
_DAMAGE = (ArithmeticError, AttributeError, EOFError, ImportError, LookupError, MemoryError)


def unpickle(stream: IO[bytes], *, name: str = "the pickle") -> object:
    """Return the value in a pickle of plain values and numpy arrays; refuse everything else.

    Parameters
    ----------
    stream
        Binary file, read up to the end of the first pickle. Byte strings written by Python 2
        become text in Latin-1, as numpy's arrays of that time need it.
    name
        What to call the pickle in errors.

    >>> import io
    >>> unpickle(io.BytesIO(pickle.dumps({"a": [1, 2.5]})))
    {'a': [1, 2.5]}
    >>> unpickle(io.BytesIO(pickle.dumps(print)))
    Traceback (most recent call last):
    catchment.errors.IntegrityError: the pickle asks for builtins.print, which is no numpy array...
    """
    try:
        return _Restricted(stream, encoding="latin1").load()
    except _RefusedError as error:
        raise IntegrityError(f"{name} {error}; do not trust this file") from error
    except (*_DAMAGE, pickle.UnpicklingError, RecursionError, TypeError, ValueError) as error:
        raise IntegrityError(f"{name} is damaged or forged ({error}); get a fresh copy") from error


class _RefusedError(Exception):
    """What the pickle asked for, as the tail of a sentence."""


class _Restricted(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> object:
        if (module.replace("numpy._core", "numpy.core"), name) not in _ADMITTED:
            raise _RefusedError(f"asks for {module}.{name}, which is no numpy array")
        return super().find_class(module.replace("numpy.core", "numpy._core"), name)
