"""Whether recordings have the channels that are expected of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from catchment.data.recording import Recording


def check_channels(recordings: Iterable[Recording], channels: Sequence[str]) -> None:
    """Raise ValueError, naming the channels, where recordings have others or another order.

    Recordings without names must have the right number of inputs.

    >>> check_channels([Recording([[0.1, 0.2]], channels=("y", "x"))], ("x", "y"))
    Traceback (most recent call last):
    ValueError: recording 0 has the channels y, x where x, y are expected; pass them in this order
    """
    expected = tuple(channels)
    for number, recording in enumerate(recordings):
        own = recording.channels
        if own is None and recording.n_inputs == len(expected):
            continue
        if own != expected:
            got = (
                f"{recording.n_inputs} channels"
                if own is None
                else f"the channels {', '.join(own)}"
            )
            same = own is not None and sorted(own) == sorted(expected)
            raise ValueError(
                f"recording {number} has {got} where "
                f"{', '.join(expected)} are expected; pass "
                f"{'them in this order' if same else 'these channels, in this order'}"
            )


def refuse_mixed_channels(recordings: list[Recording]) -> None:
    """Raise ValueError unless all recordings have as many channels as the first, and its names."""
    if not recordings:
        return
    first = recordings[0]
    names = next((one.channels for one in recordings if one.channels is not None), None)
    for number, recording in enumerate(recordings):
        if recording.n_inputs != first.n_inputs:
            raise ValueError(
                f"recording {number} has {recording.n_inputs} channels, recording 0 has "
                f"{first.n_inputs}; pass recordings of the same channels"
            )
    if names is not None:
        check_channels(recordings, names)
