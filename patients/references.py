"""Client user ids: our references for patients at the service (specification: Users).

The service sees them, so they must not contain anything personal.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterable
from typing import Final
from uuid import UUID

from django.utils.translation import gettext

from backoffice.core.identifiers import UnusableCharacter, clean
from patients.search_keys import fold

_PHONE_LIKE: Final = re.compile(r"[0-9 +().\-/]{7,}")
_SHORTEST_NAME: Final = 3
"""A name of at least this many letters is not in a reference by chance."""


class UnusableReference(ValueError):
    """A reference that may reveal something about the patient. `words` is the text for staff."""

    def __init__(self, words: str) -> None:
        super().__init__(words)
        self.words = words


def new_reference() -> str:
    """Return a random reference."""
    return str(uuid.uuid4())


def is_random(reference: str) -> bool:
    """Whether it has the form of `new_reference`. Any word in it is there by chance."""
    try:
        parsed = UUID(reference)
    except ValueError:
        return False
    return parsed.version == 4 and str(parsed) == reference


def clean_reference(text: str, names: Iterable[str] = ()) -> str:
    """Return the reference as it is sent.

    Raises UnusableReference if it is, or may be, an email address, a phone number, or contains one
    of `names`.
    """
    try:
        reference = clean(text)
    except UnusableCharacter as error:
        raise UnusableReference(error.words) from error
    if is_random(reference):
        return reference
    if "@" in reference:
        raise UnusableReference(
            gettext("This looks like an email address. Choose another reference.")
        )
    if _PHONE_LIKE.fullmatch(reference):
        raise UnusableReference(
            gettext("This looks like a phone number. Choose another reference.")
        )
    if not reference.isprintable() or "/" in reference:
        raise UnusableReference(gettext("Use letters, numbers and symbols, but no slash."))
    folded = fold(reference)
    if any(len(name) >= _SHORTEST_NAME and name in folded for name in map(fold, names)):
        raise UnusableReference(
            gettext("This contains the patient's name. Choose another reference.")
        )
    return reference
