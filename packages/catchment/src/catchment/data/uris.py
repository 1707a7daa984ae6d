"""What is the address of a bucket or a server, and what a path."""

from __future__ import annotations

import re
from pathlib import Path

_URI = re.compile(r"[a-z][a-z0-9+.-]+://", re.IGNORECASE)


def is_uri(path: str | Path) -> bool:
    """Return whether a path is the address of a bucket or a server.

    >>> is_uri("s3://lake/people"), is_uri("lake/people")
    (True, False)
    """
    return isinstance(path, str) and bool(_URI.match(path))
