"""Password validators: refuse words that anybody would try here, and published passwords."""

from __future__ import annotations

import hashlib
import logging
import re
from bisect import bisect_left
from pathlib import Path
from typing import BinaryIO, Final
from urllib.parse import urlsplit

from django.conf import settings
from django.core.exceptions import ValidationError
from django.utils.translation import gettext

logger = logging.getLogger(__name__)

PRODUCT: Final = ("backoffice",)
_MIN_WORD_LENGTH: Final = 4
"""Characters. Shorter words are parts of too many other words."""
_DIGEST_LENGTH: Final = 40
"""Hexadecimal digits of a SHA-1 digest."""


class SiteWordValidator:
    """Refuse the product's name, its host names, and `PASSWORD_WORDS`, in any spelling."""

    def validate(self, password: str, user: object = None) -> None:
        plain = _normalize(password)
        for word in forbidden_words():
            if word in plain:
                raise ValidationError(
                    gettext("Don’t use “%(word)s”. It is easy to guess here."),
                    "our_word",
                    {"word": word},
                )

    def get_help_text(self) -> str:
        return gettext("Don’t use words that are easy to guess, such as the name of the clinic.")


def forbidden_words() -> list[str]:
    """Return the words that no password may contain, as lower-case letters and digits only."""
    hosts = [*settings.ALLOWED_HOSTS, urlsplit(settings.SITE_URL).hostname or ""]
    # Of office.clinic.example use the first two labels: the last one is not specific to the site.
    parts = [part for host in hosts for part in (host.split(".")[:-1] or [host])]
    words = map(_normalize, [*PRODUCT, *parts, *settings.PASSWORD_WORDS])
    return sorted({word for word in words if len(word) >= _MIN_WORD_LENGTH and not word.isdigit()})


def _normalize(text: str) -> str:
    return re.sub(r"[\W_]", "", text.casefold())


class BreachedPasswordValidator:
    """Refuse passwords in `PASSWORD_BREACHED_FILE`, if it is set."""

    def validate(self, password: str, user: object = None) -> None:
        if settings.PASSWORD_BREACHED_FILE is None:
            return
        try:
            breached = is_breached(password, settings.PASSWORD_BREACHED_FILE)
        except OSError as error:
            logger.exception("PASSWORD_BREACHED_FILE cannot be read")
            raise ValidationError(
                gettext(
                    "Passwords can’t be set right now: the list of leaked ones is unavailable. "
                    "Tell an administrator."
                ),
                "unchecked",
            ) from error
        if breached:
            raise ValidationError(
                gettext("This password appeared in a data leak. Choose another one."),
                "breached",
            )

    def get_help_text(self) -> str:
        return gettext("Don’t use a password that appeared in a data leak.")


def is_breached(password: str, file: Path) -> bool:
    """Return whether the file contains the SHA-1 digest of the password.

    The lines of the file are sorted, and each begins with a digest.
    """
    digest = hashlib.sha1(password.encode(), usedforsecurity=False).hexdigest().upper().encode()
    with file.open("rb") as lines:
        size = lines.seek(0, 2)
        place = bisect_left(range(size), digest, key=lambda at: _digest_after(lines, at))
        return place < size and _digest_after(lines, place) == digest


def _digest_after(lines: BinaryIO, place: int) -> bytes:
    """Return the digest of the first line at or after byte `place`.

    At the end it is a value greater than all digests.
    """
    lines.seek(max(place - 1, 0))
    if place:
        lines.readline()
    return lines.readline()[:_DIGEST_LENGTH].upper() or b"~"
