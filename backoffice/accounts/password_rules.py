"""What is no password here, besides short and common ones: words anybody would try at this back
office, and passwords that were taken from other places and published."""

from __future__ import annotations

import hashlib
import logging
import re
from bisect import bisect_left
from pathlib import Path
from typing import Any, BinaryIO, Final
from urllib.parse import urlsplit

from django.conf import settings
from django.core.exceptions import ValidationError

logger = logging.getLogger(__name__)

PRODUCT: Final = ("backoffice",)
_MIN_WORD_LENGTH: Final = 4
"""Letters: shorter words are parts of too many others."""
_DIGEST_LENGTH: Final = 40
"""Letters of a SHA-1."""


class SiteWordValidator:
    """Neither the product's name, nor its hosts', nor `PASSWORD_WORDS`, however written."""

    def validate(self, password: str, user: Any = None) -> None:
        plain = _normalize(password)
        for word in forbidden_words():
            if word in plain:
                raise ValidationError(
                    f"Leave out “{word}”: it is among what anybody would try here.", "our_word"
                )

    def get_help_text(self) -> str:
        return "Your password cannot hold words that anybody would try here."


def forbidden_words() -> list[str]:
    """What no password may hold, in small letters and digits alone."""
    hosts = [*settings.ALLOWED_HOSTS, urlsplit(settings.SITE_URL).hostname or ""]
    # Of office.clinic.example the first two: the last one says nothing of us.
    parts = [part for host in hosts for part in (host.split(".")[:-1] or [host])]
    found = map(_normalize, [*PRODUCT, *parts, *settings.PASSWORD_WORDS])
    return sorted({word for word in found if len(word) >= _MIN_WORD_LENGTH and not word.isdigit()})


def _normalize(text: str) -> str:
    return re.sub(r"[\W_]", "", text.casefold())


class BreachedPasswordValidator:
    """Not in `PASSWORD_BREACHED_FILE`, where there is one."""

    def validate(self, password: str, user: Any = None) -> None:
        if settings.PASSWORD_BREACHED_FILE is None:
            return
        try:
            breached = is_breached(password, settings.PASSWORD_BREACHED_FILE)
        except OSError as error:
            logger.exception("PASSWORD_BREACHED_FILE cannot be read")
            raise ValidationError(
                "No password can be set now: the list of published ones cannot be read. Tell an "
                "administrator.",
                "unchecked",
            ) from error
        if breached:
            raise ValidationError(
                "This password was taken from somewhere else and published: choose another one.",
                "breached",
            )

    def get_help_text(self) -> str:
        return "Your password cannot be one that was published."


def is_breached(password: str, file: Path) -> bool:
    """Whether its SHA-1 stands in the file: lines sorted by it, each beginning with it."""
    digest = hashlib.sha1(password.encode(), usedforsecurity=False).hexdigest().upper().encode()
    with file.open("rb") as lines:
        size = lines.seek(0, 2)
        place = bisect_left(range(size), digest, key=lambda at: _digest_after(lines, at))
        return place < size and _digest_after(lines, place) == digest


def _digest_after(lines: BinaryIO, place: int) -> bytes:
    """Of the first line that begins at or after `place`; beyond all digests where none does."""
    lines.seek(max(place - 1, 0))
    if place:
        lines.readline()
    return lines.readline()[:_DIGEST_LENGTH].upper() or b"~"
