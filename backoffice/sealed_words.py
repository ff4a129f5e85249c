"""Words about people in the addresses of lists: sealed.

An address stays in histories, bookmarks and logs. So a form of filters is posted, and leads to an
address in which words are sealed under `FIELD_KEYS`: whoever may use the list can open it, keep it
and hand it on, and nobody can read it. Words that stand there as they were typed are understood,
and sealed in every address of the page.
"""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterable
from typing import Final

from django.core.exceptions import BadRequest
from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect

from backoffice.encryption import CannotOpen, opened_bytes, sealed_bytes

PLACE: Final = "words in an address"
MARK: Final = "~"
"""Begins what is sealed."""


def to_address(request: HttpRequest, address: str, names: Iterable[str]) -> HttpResponse:
    """From a posted form of filters to the list with them."""
    given = request.POST.copy()
    given.pop("csrfmiddlewaretoken", None)
    query = sealed(given, names).urlencode()
    return redirect(f"{address}?{query}" if query else address)


def seal_address(request: HttpRequest, names: Iterable[str]) -> None:
    """Of a page: what its links are made of has no words to read."""
    if any(value for name in names for value in request.GET.getlist(name)):
        request.GET = sealed(request.GET, names)  # type: ignore[assignment]


def sealed(given: QueryDict, names: Iterable[str]) -> QueryDict:
    """A query with these words sealed, and without what is empty."""
    words = frozenset(names)
    found = QueryDict(mutable=True)
    for name, values in given.lists():
        kept = [seal(value) if name in words else value for value in values if value]
        if kept:
            found.setlist(name, kept)
    return found


def opened(given: QueryDict, names: Iterable[str]) -> QueryDict:
    """A query with these words as they were typed. Raises BadRequest where a key is gone."""
    closed = [name for name in names if any(map(is_sealed, given.getlist(name)))]
    if not closed:
        return given
    found = given.copy()
    for name in closed:
        found.setlist(name, [_opened(value) for value in given.getlist(name)])
    return found


def is_sealed(value: str) -> bool:
    return value.startswith(MARK)


def seal(value: str) -> str:
    if is_sealed(value):
        return value
    packed = sealed_bytes(value.encode("utf-8", "replace"), PLACE)
    return MARK + urlsafe_b64encode(packed).decode().rstrip("=")


def _opened(value: str) -> str:
    if not is_sealed(value):
        return value
    packed = value.removeprefix(MARK)
    try:
        content = urlsafe_b64decode(packed + "=" * (-len(packed) % 4))
        return opened_bytes(content, PLACE).decode()
    except (CannotOpen, ValueError):
        raise BadRequest(
            "The words in this address cannot be read: part of it is missing, or the key that "
            "sealed them is gone. Open the list and type them again."
        ) from None
