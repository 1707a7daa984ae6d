"""Who takes part in a secure sum, by public key; and, in one process, what each client keeps."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from catchment.federation.algorithm import Memory


class Identities(Mapping[str, str]):
    """Public keys by client, with the memories of clients that live in this process.

    What is signed, described, printed, copied or pickled are the public keys: private ones stay in
    the memories, and those in this process.

    Parameters
    ----------
    public
        Ed25519 key of every client in hexadecimal.
    memories
        What each client remembers, its private key first of all.

    >>> keys = Identities({"ann": "00" * 32}, {"ann": {"a secret": b"1234"}})
    >>> keys
    Identities(ann)
    """

    def __init__(self, public: Mapping[str, str], memories: Mapping[str, Memory]) -> None:
        self._public = dict(public)
        self.memories: dict[str, Memory] = dict(memories)

    def __getitem__(self, name: str) -> str:
        return self._public[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._public)

    def __len__(self) -> int:
        return len(self._public)

    def __repr__(self) -> str:
        return f"Identities({', '.join(self._public)})"

    def __reduce__(self) -> tuple[type[dict[str, str]], tuple[dict[str, str]]]:
        return dict, (dict(self._public),)
