"""Add Z Z' to a running sum: one triangle only, in place, and without the interpreter's lock.

numpy's Z @ Z.T computes the same triangle, but copies it to the other one and returns a new matrix
that must be added; for blocks that fit the cache this costs more than a tenth of the product. So
dsyrk is called where scipy keeps it for compiled code, and ssyrk for whole numbers of few bits.
"""

from __future__ import annotations

import ctypes
from functools import cache
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cython_blas

if TYPE_CHECKING:
    from ctypes import _CFunctionType

Rows = NDArray[np.floating[Any]]


def add_gram(total: Rows, Z: Rows, *, keep: bool = True) -> None:
    """Add Z Z', for Z (n, m), to the upper triangle of total (n, n), in place.

    Both are float64 or both float32; without `keep` what was in the triangle is overwritten.

    What lies below the diagonal has no meaning afterwards. Fastest if the numbers of Z are
    neighbours along one of its axes; it need not be contiguous.

    >>> total = np.zeros((2, 2))
    >>> add_gram(total, np.array([[1.0, 2.0], [3.0, 4.0]]))
    >>> np.triu(total)
    array([[ 5., 11.],
           [ 0., 25.]])
    """
    n, m = Z.shape
    if n == 0 or m == 0:
        if not keep:
            total[:] = 0.0
        return
    single = Z.dtype == np.float32
    syrk = _syrk("ssyrk" if single else "dsyrk")
    if syrk is None:
        total[:] = total + Z @ Z.T if keep else Z @ Z.T
        return
    if Z.itemsize not in Z.strides:
        Z = np.ascontiguousarray(Z)
    # BLAS counts columns first: to it our rows are columns, and our upper triangle is the lower.
    by_rows = Z.strides[1] == Z.itemsize
    apart = max(Z.strides[0 if by_rows else 1] // Z.itemsize, m if by_rows else n)
    rows, columns, stride = (ctypes.c_int(n), ctypes.c_int(m), ctypes.c_int(apart))
    one, zero = _ONES[single], _ZEROS[single]
    syrk(
        b"L",
        b"T" if by_rows else b"N",
        ctypes.byref(rows),
        ctypes.byref(columns),
        ctypes.byref(one),
        Z.ctypes.data,
        ctypes.byref(stride),
        ctypes.byref(one if keep else zero),
        total.ctypes.data,
        ctypes.byref(rows),
    )


_ONES = (ctypes.c_double(1.0), ctypes.c_float(1.0))
_ZEROS = (ctypes.c_double(0.0), ctypes.c_float(0.0))


@cache
def _syrk(name: Literal["dsyrk", "ssyrk"]) -> _CFunctionType | None:
    """Return BLAS's function, or None where scipy was built with integers other than C's int."""
    capsule = cython_blas.__pyx_capi__[name]
    name_of = ctypes.pythonapi.PyCapsule_GetName
    name_of.restype, name_of.argtypes = ctypes.c_char_p, [ctypes.py_object]
    pointer_of = ctypes.pythonapi.PyCapsule_GetPointer
    pointer_of.restype, pointer_of.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    signature = name_of(capsule)
    if not signature.startswith(b"void (char *, char *, int *, int *, "):
        return None
    text, pointer = ctypes.c_char_p, ctypes.c_void_p
    prototype = ctypes.CFUNCTYPE(None, text, text, *(8 * [pointer]))
    return prototype(pointer_of(capsule, signature))
