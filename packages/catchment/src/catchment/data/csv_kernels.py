"""The compiled loops that read CSV: where fields are, and what they say.

A field is a range of bytes. `split_rows` finds them and moves their bytes together, without quotes;
`read_fields` makes numbers, truths and times of a column of them, `find_words` finds which
are equal. A number of up to 19 digits is m 10^e with an integer m below 2^64; m and 10^e
are sums of two floats each, and so is their product, to 2^-100 of it: rounded, that is the float
nearest to what is written, unless this lies so close to the middle of two that the last bits
decide. Those, and numbers that are very long, large or small, are left to Python.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

import numpy as np
from numba import types
from numba.extending import intrinsic

from catchment.compiling import njit

LF, CR, QUOTE = 10, 13, 34
MISSING = {"", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND"}
MISSING |= {"1.#QNAN", "N/A", "NA", "NULL", "NaN", "n/a", "nan", "null"}
# Kinds of columns. One is of the first kind that all of its fields have, or else it is text.
NOTHING, INTEGER, TRUTH, REAL, DAY, SECOND, NANOSECOND, SECOND_UTC, NANOSECOND_UTC = range(9)
DTYPES = ("O", "i8", "?", "f8", "M8[D]", "M8[s]", "M8[ns]", "M8[s]", "M8[ns]")
NAT = -(2**63)
UNFIT = -1  # what is returned in the place of a row
_NO_WORD = 2**64 - 1


def _keys(words: Iterable[str]) -> np.ndarray:
    """Return words of up to eight bytes as integers."""
    return np.array([int.from_bytes(word.encode(), "little") for word in words], dtype=np.uint64)


def _power(exponent: int) -> tuple[float, float]:
    """Return the float nearest to a power of ten, and the one nearest to what is left."""
    above, below = 10 ** max(exponent, 0), 10 ** max(-exponent, 0)
    nearest = above / below
    n, d = nearest.as_integer_ratio()
    return nearest, (above * d - n * below) / (below * d)


_TRUTHS = ("0", "1", "false", "true", "False", "True", "FALSE", "TRUE")
_N_TRUTHS, _WORDS = len(_TRUTHS), _keys([*_TRUTHS, *sorted(MISSING)])
_SPACES = _keys(chr(k) for k in range(2**16) if chr(k).isspace())
_LARGEST = 250  # exponent of ten for which no product here leaves the range of floats
_POWERS = np.array([_power(e) for e in range(-_LARGEST, _LARGEST + 1)])
_DAYS = np.array([0, 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31])
_TENS = 10 ** np.arange(9)

_BYTES, _PLACES = types.uint8[::1], types.int64[::1]
_kernel = partial(njit, cache=True, nogil=True, error_model="numpy")
# What only kernels call needs no entry for Python: that saves a quarter of the compilation.
_part = njit(error_model="numpy", forceinline=True, no_cpython_wrapper=True, no_cfunc_wrapper=True)


@intrinsic
def _fma(context, x, y, z):
    """Return x y + z, rounded once."""
    signature = types.float64(types.float64, types.float64, types.float64)
    return signature, lambda context, builder, signature, values: builder.fma(*values)


@_kernel([types.Tuple((_PLACES, types.int64))(_BYTES, types.int64)])
def split_rows(text, delimiter):
    """Move the fields of a table side by side; return where each begins, and fields of a row.

    The last number is where the last field ends. There is no number at all if a row has another
    number of fields than the first one, or a quote that is never closed.
    """
    n_ends = 2
    for c in text:
        n_ends += np.int64((c == delimiter) | (c == LF) | (c == CR))
    stops, none = np.empty(n_ends, dtype=np.int64), np.empty(0, dtype=np.int64)
    size, read, write, n, width, column = len(text), 0, 0, 0, 0, 0
    stops[0] = 0
    while True:
        if column == 0:
            while read < size and text[read] in (LF, CR):
                read += 1
            if read >= size:
                return stops[: n + 1], width
        if read < size and text[read] == QUOTE:
            read += 1
            while True:
                if read == size:
                    return none, width
                if text[read] == QUOTE:
                    read += 1
                    if read == size or text[read] != QUOTE:
                        break
                text[write] = text[read]
                write += 1
                read += 1
        last = LF
        while read < size:
            last = np.int64(text[read])
            if last in (delimiter, LF, CR):
                break
            text[write] = last
            write += 1
            read += 1
        if read == size:
            last = LF
        read += 1
        n += 1
        column += 1
        stops[n] = write
        if last != delimiter:
            width = width or n
            if column != width:
                return none, width
            column = 0


@_part
def _key(text, a, b):
    """Return a short word as one integer."""
    if b - a > 8 or (a < b and text[b - 1] == 0):
        return np.uint64(_NO_WORD)
    key = np.uint64(0)
    for k in range(b - 1, a - 1, -1):
        key = (key << np.uint64(8)) | np.uint64(text[k])
    return key


@_part
def _place(key, keys):
    """Return where a word stands among some, UNFIT if it does not."""
    for k in range(len(keys)):
        if keys[k] == key:
            return k
    return UNFIT


@_part
def _trimmed(text, a, b):
    """Return a range without the spaces at its ends, which have up to three bytes each."""
    size = 1
    while size <= min(3, b - a) and not (32 < text[a] < 128 and 32 < text[b - 1] < 128):
        if _place(_key(text, a, a + size), _SPACES) >= 0:
            a, size = a + size, 0
        elif _place(_key(text, b - size, b), _SPACES) >= 0:
            b, size = b - size, 0
        size += 1
    return a, b


@_part
def _digits(text, a, b):
    """Return the integer that digits make, at most 10^9, or UNFIT if one of them is none."""
    value = 0
    for k in range(a, b):
        c = np.int64(text[k]) - 48
        if c < 0 or c > 9:
            return UNFIT
        value = min(value * 10 + c, 1_000_000_000)
    return value


@_part
def _number(text, a, b, point):
    """Return how many digits a number has, 0 if it is none; m, e, and whether it is an integer.

    Zeros before the others count as one digit. Of more than 19 digits m has the first ones.
    """
    m, e, n, found, after, c = np.uint64(0), 0, 0, 0, 0, np.int64(text[a])
    k = a + np.int64((c == 43) | (c == 45))
    whole = c != 43
    while k < b:
        c = np.int64(text[k]) - 48
        if 0 <= c <= 9:
            if n < 19:
                m = m * np.uint64(10) + np.uint64(c)
                e -= after
            else:
                e += 1 - after
            n += np.int64((n > 0) | (c > 0))
            found = 1
        elif c + 48 == point and after == 0:
            after, whole = 1, False
        else:
            break
        k += 1
    if k < b:
        k, whole = k + 1, False
        sign = -1 if k < b and text[k] == 45 else 1
        if k < b and (text[k] == 43 or text[k] == 45):
            k += 1
        power = _digits(text, k, b)
        if (c | 32) != 53 or k == b or power < 0:
            found = 0
        e += sign * power
    return found * max(n, 1), m, e, whole


@_part
def _nearest(m, e):
    """Return the float nearest to m 10^e, NaN if that is not certain."""
    if m == 0:
        return 0.0
    if e < -_LARGEST or e > _LARGEST:
        return np.nan
    x = np.float64(m)
    y = np.float64(np.int64(m - np.uint64(x)))
    p, q = _POWERS[e + _LARGEST]
    z = x * p
    rest = _fma(x, p, -z) + (x * q + y * p)
    margin = z * 2.0**-100
    low, high = z + (rest - margin), z + (rest + margin)
    return low if low == high else np.nan


@_part
def _day(text, a, b):
    """Return the days from 1970 to a date such as 2024-01-31, NAT if it is none."""
    if b - a != 10 or text[a + 4] != 45 or text[a + 7] != 45:
        return NAT
    y, m, d = _digits(text, a, a + 4), _digits(text, a + 5, a + 7), _digits(text, a + 8, b)
    leap = np.int64(y % 4 == 0) - np.int64(y % 100 == 0) + np.int64(y % 400 == 0)
    if (y < 0) | (m < 1) | (m > 12) or (d < 1) | (d > _DAYS[m] + leap * np.int64(m == 2)):
        return NAT
    if m < 3:  # years from March on, so that the day that only some have is the last
        y, m = y - 1, m + 12
    return 365 * y + y // 4 - y // 100 + y // 400 + (153 * m - 457) // 5 + d - 719469


@_part
def _clock(text, a, b):
    """Return the seconds from midnight to 10, 10:30, 1030 or 10:30:59, NAT if it is no time."""
    seconds, unit, most = 0, 3600, 24
    while unit > 0:
        part = _digits(text, a, a + 2) if a + 2 <= b else UNFIT
        if part < 0 or part >= most:
            return NAT
        seconds, unit, most, a = seconds + part * unit, unit // 60, 60, a + 2
        if a == b:
            return seconds
        a += np.int64(text[a] == 58)
    return NAT


@_part
def _moment(text, a, b, kind):
    """Return what a timestamp counts from 1970 on in the unit of a kind, NAT if it is none."""
    days, clock, fraction, shift = _day(text, a, min(b, a + 10)), 0, 0, 0
    fine = kind in (NANOSECOND, NANOSECOND_UTC)
    if kind >= SECOND_UTC:  # with a zone: Z, +05:30, -0530 or +05
        end = a + 11
        while end < b and text[end] != 43 and text[end] != 45 and text[end] != 90:
            end += 1
        if end >= b or (text[end] == 90 and end + 1 < b):
            return NAT
        if text[end] != 90:
            shift = _clock(text, end + 1, b) * (44 - np.int64(text[end]))  # + is 43, - is 45
        b = end
    n = b - a - 20
    if fine and 0 < n < 10 and text[a + 19] == 46:
        fraction, b = _digits(text, a + 20, b) * _TENS[9 - n], a + 19
    if b - a > 10:
        clock = _clock(text, a + 11, b) if text[a + 10] in (32, 84) else NAT
    if days == NAT or clock == NAT or shift == NAT or fraction < 0:
        return NAT
    seconds = 86400 * days + clock - shift
    if not fine:
        return seconds
    return NAT if abs(seconds) >= 9223372036 else seconds * 1_000_000_000 + fraction


_READ = types.int64(types.int64, _BYTES, _PLACES, *[types.int64] * 4, _PLACES, types.float64[::1])


@_kernel([_READ])
def read_fields(kind, text, stops, width, column, point, first, values, reals):
    """Read the fields of a column of a kind from a row on, into `values` or, in its place, `reals`.

    Return how many rows there are, UNFIT if a field is not of this kind, or the row of a number
    that Python has to read. A column of integers has no gaps; with gaps they are reals.
    """
    for row in range(first, len(values)):
        k = row * width + column
        a, b = _trimmed(text, stops[k], stops[k + 1])
        if kind in (INTEGER, REAL) and a < b:
            n, m, e, whole = _number(text, a, b, point)
            negative = text[a] == 45
            if kind == INTEGER and whole and 0 < n < 20:
                if m - np.uint64(negative and m > 0) < np.uint64(2**63):
                    values[row] = -np.int64(m) if negative else np.int64(m)
                    continue
            elif kind == REAL and n > 0:
                x = _nearest(m, e)
                if x != x or (n > 19 and _nearest(m + np.uint64(1), e) != x):
                    return row
                reals[row] = -x if negative else x
                continue
        word, value = _place(_key(text, a, b), _WORDS), NAT
        if word >= _N_TRUTHS:
            if kind == INTEGER:
                return UNFIT
            if kind == REAL:
                reals[row] = np.nan
            else:
                values[row] = NAT
            continue
        if kind == REAL and b - a < 10 and (text[b - 1] | 32) in (102, 110, 121):
            return row  # may be inf, nan or infinity
        if kind == TRUTH and word >= 0:
            value = word % 2
        elif kind == DAY:
            value = _day(text, a, b)
        elif kind >= SECOND:
            value = _moment(text, a, b, kind)
        if value == NAT:
            return UNFIT
        values[row] = value
    return len(values)


_FIND = types.int64(
    _BYTES, _PLACES, types.int64, types.int64, _PLACES, types.int32[::1], types.int64[:, ::1]
)


@_kernel([_FIND])
def find_words(text, stops, width, column, codes, table, words):
    """Number the words of a column, equal ones alike, in the order of their first rows.

    `words` (n, 2) has where each of them lies, `table` (2^k,) the numbers by their hashes, from 1
    on. Return how many words there are, UNFIT if there is no room for them.
    """
    n = 0
    for row in range(len(codes)):
        k = row * width + column
        a, b = _trimmed(text, stops[k], stops[k + 1])
        place = np.uint64(14695981039346656037)
        for k in range(a, b):
            place = (place ^ np.uint64(text[k])) * np.uint64(1099511628211)
        place ^= place >> np.uint64(29)
        while True:
            place &= np.uint64(len(table) - 1)
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
            place += np.uint64(1)
        codes[row] = code
    return n
