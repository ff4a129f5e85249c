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

MARK: Final = "~"
"""Begins what is sealed."""
SHORTEST: Final = 2 + cipher.NONCE + 16
"""Bytes of what is sealed without its content: head, nonce and tag."""


@dataclass(frozen=True, slots=True)
class Words:
    """Parameters of one list that take words about people, for somebody who sees names or not."""

    listing: str
    names: frozenset[str] = frozenset()
    by_name: bool = True

    def seal(self, name: str, value: str) -> str:
        packed = cipher.sealed_bytes(value.encode("utf-8", "replace"), self._places(name)[0])
        return MARK + urlsafe_b64encode(packed).decode().rstrip("=")

    def open(self, name: str, value: str) -> str | None:
        """What is sealed in a value; None where it is not sealed, or not for this person here."""
        packed = _packed(value)
        if packed is None:
            return None
        for place in self._places(name):
            with suppress(cipher.CannotOpen):
                return cipher.opened_bytes(packed, place).decode()
        return None

    def _places(self, name: str) -> tuple[str, ...]:
        """All from which this person may open; they seal in the first."""
        everybody = f"words in an address: {self.listing}.{name}"
        return (f"{everybody}, with names", everybody) if self.by_name else (everybody,)


def to_address(request: HttpRequest, address: str, words: Words) -> HttpResponse:
    """From a posted form of filters to the list with them."""
    given = request.POST.copy()
    given.pop("csrfmiddlewaretoken", None)
    for name in words.names & given.keys():
        # What looks sealed and does not open was typed, and may be about somebody.
        typed = [one for one in given.getlist(name) if one]
        done = [one if words.open(name, one) else words.seal(name, one) for one in typed]
        given.setlist(name, done)
    query = sealed(given, words).urlencode()
    return redirect(f"{address}?{query}" if query else address)


def seal_address(request: HttpRequest, words: Words) -> None:
    """Of a page: what its links are made of has no words to read."""
    if any(value for name in words.names for value in request.GET.getlist(name)):
        request.GET = sealed(request.GET, words)  # type: ignore[assignment]


def sealed(given: QueryDict, words: Words) -> QueryDict:
    """A query with these words sealed, and without what is empty."""
    found = QueryDict(mutable=True)
    for name, values in given.lists():
        kept = [value for value in values if value]
        if name in words.names:
            kept = [one if is_sealed(one) else words.seal(name, one) for one in kept]
        if kept:
            found.setlist(name, kept)
    return found


def opened(given: QueryDict, words: Words) -> QueryDict:
    """A query with these words as they were typed. Raises BadRequest where one does not open."""
    closed = [name for name in words.names if any(map(is_sealed, given.getlist(name)))]
    if not closed:
        return given
    found = given.copy()
    for name in closed:
        found.setlist(name, [_opened(words, name, value) for value in given.getlist(name)])
    return found


def is_sealed(value: str) -> bool:
    """By its looks: words may begin with the mark, too."""
    return _packed(value) is not None


def _packed(value: str) -> bytes | None:
    if not value.startswith(MARK):
        return None
    packed = value.removeprefix(MARK)
    try:
        content = b64decode(packed + "=" * (-len(packed) % 4), altchars=b"-_", validate=True)
    except ValueError:
        return None
    return content if len(content) > SHORTEST and cipher.is_sealed(content) else None


def _opened(words: Words, name: str, value: str) -> str:
    if not is_sealed(value):
        return value
    found = words.open(name, value)
    if found is None:
        raise BadRequest(
            "The words in this address cannot be read: part of it is missing or was changed, your "
            "role does not show the names in it, or the key that sealed them is gone. Open the "
            "list and type them again."
        )
    return found
