"""The compiled loops that read CSV: where fields are, which numbers they hold, which are equal.

A field is a range of bytes. `split_rows` finds them and moves their bytes together, without quotes
and spaces around them; `read_numbers` makes numbers of a column of them, `find_words` finds which
are equal. A number of up to 19 digits is m 10^e with an integer m below 2^64; m and 10^e
are sums of two floats each, and so is their product, to 2^-100 of it: rounded, that is the float
nearest to what is written, unless this lies so close to the middle of two that the last bits
decide. Those, and numbers that are very long, large or small, are left to Python.

The first file on a machine waits for the compilation. What takes time there is the inference of
types: so there are few functions and few calls, no arrays are made, and integers have one type.
"""

from __future__ import annotations

import numpy as np
from numba import types
from numba.extending import intrinsic

from catchment.compiling import njit

LF, CR, SPACE, QUOTE = 10, 13, 32, 34
PLUS, MINUS, ZERO, EXPONENT = 43, 45, 48, 101
MISSING = {"", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND"}
MISSING |= {"1.#QNAN", "N/A", "NA", "NULL", "NaN", "n/a", "nan", "null"}
UNFIT = -1  # what is returned in the place of a number of words or fields


def _power(exponent: int) -> tuple[float, float]:
    """Return the float nearest to a power of ten, and the one nearest to what is left."""
    above, below = 10 ** max(exponent, 0), 10 ** max(-exponent, 0)
    nearest = above / below
    n, d = nearest.as_integer_ratio()
    return nearest, (above * d - n * below) / (below * d)


# Words of up to eight bytes as integers.
_MARKS = np.array([int.from_bytes(word.encode(), "little") for word in MISSING], dtype=np.int64)
_LARGEST = 250  # exponent of ten for which no product here leaves the range of floats
_POWERS = np.array([_power(e) for e in range(-_LARGEST, _LARGEST + 1)])


@intrinsic
def _fma(context, x, y, z):
    """Return x y + z, rounded once."""
    signature = types.float64(types.float64, types.float64, types.float64)
    return signature, lambda context, builder, signature, values: builder.fma(*values)


@njit(cache=True, nogil=True, error_model="numpy")
def split_rows(text, delimiter, stops):
    """Move the fields of a table side by side, and write where each stops behind a first 0.

    Return how many fields there are, and how many in each row. UNFIT is returned for the first if
    rows differ, or if a quote is never closed.
    """
    size = len(text)
    read = write = n = width = column = 0
    while read < size or column > 0:
        if column == 0 and (text[read] == LF or text[read] == CR):
            read += 1
            continue
        begin, quoted, last = write, read < size and text[read] == QUOTE, LF
        if quoted:
            read += 1
        while read < size:
            c = text[read]
            read += 1
            if quoted and c == QUOTE:
                if read == size or text[read] != QUOTE:
                    quoted = False
                    continue
                read += 1
            elif not quoted and (c in (delimiter, LF, CR)):
                last = c
                break
            if c != SPACE or write > begin:
                text[write] = c
                write += 1
        while write > begin and text[write - 1] == SPACE:
            write -= 1
        n += 1
        column += 1
        stops[n] = write
        if last != delimiter:
            if width == 0:
                width = n
            if column != width or quoted:
                return UNFIT, width
            column = 0
    stops[0] = 0
    return n, width


@njit(error_model="numpy", no_cpython_wrapper=True, no_cfunc_wrapper=True)
def _nearest(m, e):
    """Return the float nearest to m 10^e, m being without a sign; NaN if that is not certain."""
    if m == 0:
        return 0.0
    if e < -_LARGEST or e > _LARGEST:
        return np.nan
    x = float(np.uint64(m))
    y = float(m - np.int64(np.uint64(x)))
    p, q = _POWERS[e + _LARGEST]
    z = x * p
    rest = _fma(x, p, -z) + (x * q + y * p)
    margin = z * 2.0**-100
    low, high = z + (rest - margin), z + (rest + margin)
    return low if low == high else np.nan


@njit(error_model="numpy", no_cpython_wrapper=True, no_cfunc_wrapper=True)
def _is_gap(text, a, b):
    """Return whether a field is empty, or one of the marks of what is missing."""
    if b - a > 8 or (a < b and text[b - 1] == 0):
        return False
    word = k = 0
    for place in range(b - 1, a - 1, -1):
        word = (word << 8) | text[place]
    while k < len(_MARKS) and _MARKS[k] != word:
        k += 1
    return k < len(_MARKS)


@njit(cache=True, nogil=True, error_model="numpy")
def read_numbers(text, stops, width, column, point, whole, first, values, reals):
    """Read a column of numbers from a row on: `whole` ones into `values`, or any into `reals`.

    Return how many rows there are, or the first one whose field is no such number, at first sight:
    among those that are not whole Python knows some more. Gaps are NaN, and not whole.
    """
    for row in range(first, len(values)):
        place = row * width + column
        a, b = stops[place], stops[place + 1]
        sign = text[a] if a < b else 0
        begin = k = a + 1 if sign in (PLUS, MINUS) else a
        m = e = n = after = c = 0
        while k < b:
            c = text[k] - ZERO
            if 0 <= c <= 9:
                if n < 19:  # beyond 2^63 m wraps around, as a number without a sign
                    m = m * 10 + c
                    e -= after
                else:
                    e += 1 - after
                n += int(n > 0 or c > 0)
            elif c == point - ZERO and after == 0:
                after = 1
            else:
                break
            k += 1
        known = k - begin > after
        if whole:
            if not known or k < b or after == 1 or n > 19 or sign == PLUS:
                return row
            if m < 0 and (m != -m or sign != MINUS):
                return row
            values[row] = -m if sign == MINUS else m
            continue
        if known and k + 1 < b and c | 32 == EXPONENT - ZERO:
            k += 1
            c, power = text[k], 0
            if c in (PLUS, MINUS):
                k += 1
            known = k < b
            while k < b and ZERO <= text[k] <= ZERO + 9:
                if power < 100_000:
                    power = power * 10 + text[k] - ZERO
                k += 1
            e += -power if c == MINUS else power
        if known and k == b:
            x = _nearest(m, e)
            if x != x or (n > 19 and _nearest(m + 1, e) != x):
                return row
            reals[row] = -x if sign == MINUS else x
            continue
        if not _is_gap(text, a, b):
            return row
        reals[row] = np.nan
    return len(values)


@njit(cache=True, nogil=True, error_model="numpy")
def find_words(text, stops, width, column, codes, table, words):
    """Number the words of a column, equal ones alike, in the order of their first rows.

    `words` (n, 2) has where each of them lies, `table` (2^k,) the numbers by their hashes, from 1
    on. Return how many words there are, UNFIT if there is no room for them.
    """
    n = 0
    for row in range(len(codes)):
        place = row * width + column
        a, b = stops[place], stops[place + 1]
        place = 0
        for k in range(a, b):
            place = (place ^ text[k]) * 1099511628211
        place ^= place >> 29
        while True:
            place &= len(table) - 1
            code = table[place] - 1
            if code < 0:
                if n == len(words):
                    return UNFIT
                code = n
                n += 1
                table[place] = n
                words[code, 0], words[code, 1] = a, b
                break
            start = words[code, 0]
            if words[code, 1] - start == b - a:
                k = 0
                while k < b - a and text[start + k] == text[a + k]:
                    k += 1
                if k == b - a:
                    break
            place += 1
        codes[row] = code
    return n
