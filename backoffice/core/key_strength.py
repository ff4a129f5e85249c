"""Which keys and secrets are too weak for a deployment: typed, repeated, counted, or published.

Keys must come from a random generator. What these functions refuse, a generator produces once in
more than 10^9 keys; what they accept is no proof of randomness.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Final

MIN_DISTINCT: Final = 10
"""Different characters (or bytes) in a key."""
PUBLISHED: Final = frozenset(
    {
        "development-only-" * 4,
        "1:ZGV2ZWxvcG1lbnQtb25seS1kZXZlbG9wbWVudC1vbmw=",
        "ZGV2ZWxvcG1lbnQtb25seS1kZXZlbG9wbWVudC1vbmw=",
        "sk_us_local_sandbox",
        "mg_local_sandbox",
        "whsec_bG9jYWwtc2FuZGJveC13ZWJob29rLXNlY3JldA==",
    }
)
"""Development values of the settings, which everybody can read in the source."""


def weakness(key: str) -> str | None:
    """Return why a key of text is weak, as the end of a sentence about it; None when it is not."""
    if key in PUBLISHED or key.startswith(("django-insecure-", "development-only-")):
        return "is a published development value"
    if len(set(key)) < MIN_DISTINCT:
        return f"has fewer than {MIN_DISTINCT} different characters"
    return _pattern(key.encode())


def weakness_of_bytes(key: bytes) -> str | None:
    """Return why a key of random bytes is weak, like `weakness`."""
    if len(set(key)) < MIN_DISTINCT:
        return f"has fewer than {MIN_DISTINCT} different bytes"
    if all(0x20 <= byte < 0x7F for byte in key):
        return "is text, not random bytes"
    return _pattern(key)


def _pattern(key: Sequence[int]) -> str | None:
    if len({(after - before) % 256 for before, after in pairwise(key)}) == 1:
        return "counts"
    for length in range(1, len(key) // 2 + 1):
        if all(key[index] == key[index % length] for index in range(length, len(key))):
            return "repeats itself"
    return None
