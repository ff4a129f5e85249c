"""Ids that say what they stand for, so that a record is found by its id though none is stored.

64 bits of place (kind, user, provider, day, number of the day), masked, and 58 bits that prove the
sandbox made it: 122, what a version 4 uuid has room for.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import NamedTuple
from uuid import UUID

_PROOF = (1 << 58) - 1
_KINDS = (
    "activity", "body", "sleep", "sleep_cycle", "workouts", "meal", "profile", "menstrual_cycle",
    "electrocardiogram",
)  # fmt: skip


class SummaryKey(NamedTuple):
    """What an id stands for; `day` is the ordinal of a date."""

    kind: str
    user: int
    offer: int
    day: int
    number: int


def make(seed: int, key: SummaryKey) -> str:
    """The id of `key` in the world of this seed."""
    place = _KINDS.index(key.kind) << 60
    place |= key.user << 32 | key.offer << 28 | key.day << 4 | key.number
    proof = _hash(seed, "proof", place) & _PROOF
    bits = (place ^ _hash(seed, "mask", proof)) << 58 | proof
    head, tail = bits >> 74, bits & ((1 << 62) - 1)
    middle = bits >> 62 & 0xFFF
    return str(UUID(int=head << 80 | 4 << 76 | middle << 64 | 2 << 62 | tail))


def read(seed: int, value: UUID) -> SummaryKey | None:
    """What this id stands for; None when it was not made here."""
    bits = (value.int >> 80) << 74 | (value.int >> 64 & 0xFFF) << 62 | value.int & ((1 << 62) - 1)
    proof = bits & _PROOF
    place = (bits >> 58) ^ _hash(seed, "mask", proof)
    if _hash(seed, "proof", place) & _PROOF != proof or place >> 60 >= len(_KINDS):
        return None
    user, offer = place >> 32 & (1 << 28) - 1, place >> 28 & 15
    return SummaryKey(_KINDS[place >> 60], user, offer, place >> 4 & (1 << 24) - 1, place & 15)


def _hash(seed: int, purpose: str, value: int) -> int:
    text = f"{seed} {purpose} {value}".encode()
    return int.from_bytes(blake2b(text, digest_size=8).digest())
