"""Words about people in the addresses of lists: sealed.

An address stays in histories, bookmarks and logs. So a form of filters is posted, and leads to an
address in which words are sealed under `FIELD_KEYS`: whoever may use the list can open it, keep it
and hand it on, and nobody can read it. Words that stand there as they were typed are understood,
and sealed in every address of the page.

A sealed word opens in its list and under its parameter alone; and what was typed by somebody who
sees names, only for those who see them.
"""

from __future__ import annotations

from base64 import b64decode, urlsafe_b64encode
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from django.core.exceptions import BadRequest
from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect

from backoffice.core.encryption import cipher

PREFIX: Final = "~"
"""Begins what is sealed."""
MIN_LENGTH: Final = 2 + cipher.NONCE_LENGTH + 16
"""Bytes of what is sealed without its content: head, nonce and tag."""


@dataclass(frozen=True, slots=True)
class PersonalParameters:
    """Parameters of one list that take words about people, for somebody who sees names or not."""

    listing: str
    names: frozenset[str] = frozenset()
    by_name: bool = True

    def seal(self, name: str, value: str) -> str:
        packed = cipher.encrypt_bytes(value.encode("utf-8", "replace"), self._places(name)[0])
        return PREFIX + urlsafe_b64encode(packed).decode().rstrip("=")

    def open(self, name: str, value: str) -> str | None:
        """What is sealed in a value; None where it is not sealed, or not for this person here."""
        packed = _packed(value)
        if packed is None:
            return None
        for place in self._places(name):
            with suppress(cipher.DecryptionError):
                return cipher.decrypt_bytes(packed, place).decode()
        return None

    def _places(self, name: str) -> tuple[str, ...]:
        """All from which this person may open; they seal in the first."""
        everybody = f"words in an address: {self.listing}.{name}"
        return (f"{everybody}, with names", everybody) if self.by_name else (everybody,)


def redirect_to_list(request: HttpRequest, address: str, words: PersonalParameters) -> HttpResponse:
    """From a posted form of filters to the list with them."""
    given = request.POST.copy()
    given.pop("csrfmiddlewaretoken", None)
    for name in words.names & given.keys():
        # What looks sealed and does not open was typed, and may be about somebody.
        typed = [one for one in given.getlist(name) if one]
        done = [one if words.open(name, one) else words.seal(name, one) for one in typed]
        given.setlist(name, done)
    query = encrypted_query(given, words).urlencode()
    return redirect(f"{address}?{query}" if query else address)


def encrypt_address(request: HttpRequest, words: PersonalParameters) -> None:
    """Of a page: what its links are made of has no words to read."""
    if any(value for name in words.names for value in request.GET.getlist(name)):
        request.GET = encrypted_query(request.GET, words)  # type: ignore[assignment]


def encrypted_query(given: QueryDict, words: PersonalParameters) -> QueryDict:
    """A query with these words sealed, and without what is empty."""
    found = QueryDict(mutable=True)
    for name, values in given.lists():
        kept = [value for value in values if value]
        if name in words.names:
            kept = [one if is_encrypted_token(one) else words.seal(name, one) for one in kept]
        if kept:
            found.setlist(name, kept)
    return found


def decrypted_query(given: QueryDict, words: PersonalParameters) -> QueryDict:
    """A query with these words as they were typed. Raises BadRequest where one does not open."""
    closed = [name for name in words.names if any(map(is_encrypted_token, given.getlist(name)))]
    if not closed:
        return given
    found = given.copy()
    for name in closed:
        found.setlist(name, [_decrypted_value(words, name, value) for value in given.getlist(name)])
    return found


def is_encrypted_token(value: str) -> bool:
    """By its looks: words may begin with the mark, too."""
    return _packed(value) is not None


def _packed(value: str) -> bytes | None:
    if not value.startswith(PREFIX):
        return None
    packed = value.removeprefix(PREFIX)
    try:
        content = b64decode(packed + "=" * (-len(packed) % 4), altchars=b"-_", validate=True)
    except ValueError:
        return None
    return content if len(content) > MIN_LENGTH and cipher.is_encrypted(content) else None


def _decrypted_value(words: PersonalParameters, name: str, value: str) -> str:
    if not is_encrypted_token(value):
        return value
    found = words.open(name, value)
    if found is None:
        raise BadRequest(
            "The words in this address cannot be read: part of it is missing or was changed, your "
            "role does not show the names in it, or the key that sealed them is gone. Open the "
            "list and type them again."
        )
    return found
