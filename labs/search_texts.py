"""The text of a search box."""

from __future__ import annotations

from typing import Final

from django.core.exceptions import BadRequest
from django.utils.translation import gettext

MAX_LENGTH: Final = 100


def clean_search_text(text: str) -> str:
    """Return the text without spaces around it, at most 100 characters.

    Raises BadRequest for a null character, which PostgreSQL text cannot have.
    """
    text = text.strip()[:MAX_LENGTH]
    if "\x00" in text:
        raise BadRequest(gettext("The search text contains an invalid character."))
    return text
