"""A small front end for speech: the logarithm of a mel filter bank.

Frames are weighted by a Hann window; their power spectrum is summed by triangular filters whose
centres are spaced evenly on the mel scale, m(f) = 2595 log10(1 + f / 700).
"""

from __future__ import annotations

import numpy as np

from catchment import Array


def log_mel(
    audio: Array,
    *,
    rate_hz: float = 8000.0,
    n_bands: int = 24,
    frame: int = 256,
    hop: int = 80,
    floor: float = 1e-8,
) -> Array:
    """Return the log energies (frames, bands) of a recording (samples,).

    Parameters
    ----------
    audio
        (samples,) values, usually within -1 to 1; padded with zeros to at least one frame.
    rate_hz
        Samples per second.
    n_bands
        Number of filters between 0 and half the rate.
    frame
        Samples per frame.
    hop
        Samples from one frame to the next.
    floor
        Added to each energy, so that silence has a logarithm.

    >>> tone = np.sin(2 * np.pi * 1000 * np.arange(8000) / 8000)
    >>> energies = log_mel(tone)
    >>> energies.shape, bool((energies[50].argmax() == energies.argmax(axis=1)).all())
    ((97, 24), True)
    """
    for name, value in (("frame", frame), ("hop", hop), ("n_bands", n_bands)):
        if value < 1:
            raise ValueError(f"{name} is {value}; pass 1 or more")
    audio = np.asarray(audio, dtype=np.float64)
    if audio.ndim != 1:
        raise ValueError(f"audio has {audio.ndim} dimensions; pass one channel, shape (samples,)")
    audio = np.pad(audio, (0, max(0, frame - len(audio))))
    frames = np.lib.stride_tricks.sliding_window_view(audio, frame)[::hop]
    power = np.abs(np.fft.rfft(frames * np.hanning(frame), axis=1)) ** 2 / frame
    bands = mel_filters(n_bands, power.shape[1], rate_hz=rate_hz)
    energies: Array = np.log(power @ bands.T + floor)
    return energies


def mel_filters(n_bands: int, n_bins: int, *, rate_hz: float = 8000.0) -> Array:
    """Return triangular filters (bands, bins) over a spectrum from 0 to half the rate.

    >>> filters = mel_filters(10, 129)
    >>> filters.shape, float(filters.max()) <= 1.0
    ((10, 129), True)
    """
    top = 2595 * np.log10(1 + rate_hz / 2 / 700)
    edges = 700 * (10 ** (np.linspace(0, top, n_bands + 2) / 2595) - 1)
    bins = np.linspace(0, rate_hz / 2, n_bins)
    low, centre, high = edges[:-2, None], edges[1:-1, None], edges[2:, None]
    rising = (bins - low) / (centre - low)
    falling = (high - bins) / (high - centre)
    return np.maximum(0.0, np.minimum(rising, falling))
