"""Encrypted query parameters: text about people in the addresses of lists.

An address stays in histories, bookmarks and logs. A filter form is therefore posted and redirects
to an address in which personal text is encrypted with `FIELD_KEYS`. Everybody who may use the list
can open, bookmark and share the address, and nobody can read the text in it. Plain text in an
address is understood too, and encrypted in every link of the page.

A token can only be decrypted in its list and parameter. A token of somebody who sees names can only
be decrypted for those who see names.
"""

from __future__ import annotations

from base64 import b64decode, urlsafe_b64encode
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from django.core.exceptions import BadRequest
from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect
from django.utils.translation import gettext

from backoffice.core.encryption import cipher

PREFIX: Final = "~"
"""First character of a token."""
MIN_LENGTH: Final = 2 + cipher.NONCE_LENGTH + 16
"""Bytes of a token with empty content: header, nonce and tag."""


@dataclass(frozen=True, slots=True)
class PersonalParameters:
    """The parameters of one list that hold personal text, for one reader.

    `by_name`: the reader may see names of patients.
    """

    listing: str
    names: frozenset[str] = frozenset()
    by_name: bool = True

    def encrypt(self, name: str, value: str) -> str:
        packed = cipher.encrypt_bytes(value.encode("utf-8", "replace"), self._places(name)[0])
        return PREFIX + urlsafe_b64encode(packed).decode().rstrip("=")

    def decrypt(self, name: str, value: str) -> str | None:
        """Return the text of a token; None when it is not a token, or not for this reader."""
        packed = _unpacked_token(value)
        if packed is None:
            return None
        for place in self._places(name):
            with suppress(cipher.DecryptionError):
                return cipher.decrypt_bytes(packed, place).decode()
        return None

    def _places(self, name: str) -> tuple[str, ...]:
        """Return the places this reader may decrypt; the first one is for encrypting."""
        place = f"words in an address: {self.listing}.{name}"
        return (f"{place}, with names", place) if self.by_name else (place,)


def redirect_to_list(
    request: HttpRequest, address: str, personal: PersonalParameters
) -> HttpResponse:
    """Redirect a posted filter form to the list with these filters."""
    data = request.POST.copy()
    data.pop("csrfmiddlewaretoken", None)
    for name in personal.names & data.keys():
        # A value that looks like a token and cannot be decrypted was typed, and may be personal.
        typed = [value for value in data.getlist(name) if value]
        tokens = [v if personal.decrypt(name, v) else personal.encrypt(name, v) for v in typed]
        data.setlist(name, tokens)
    query = encrypted_query(data, personal).urlencode()
    return redirect(f"{address}?{query}" if query else address)


def encrypt_address(request: HttpRequest, personal: PersonalParameters) -> None:
    """Encrypt the personal parameters of `request.GET`, which the links of a page are made of."""
    if any(value for name in personal.names for value in request.GET.getlist(name)):
        request.GET = encrypted_query(request.GET, personal)  # type: ignore[assignment]


def encrypted_query(query: QueryDict, personal: PersonalParameters) -> QueryDict:
    """Return a query with encrypted personal text and without empty values."""
    encrypted = QueryDict(mutable=True)
    for name, values in query.lists():
        present = [value for value in values if value]
        if name in personal.names:
            present = [v if is_encrypted_token(v) else personal.encrypt(name, v) for v in present]
        if present:
            encrypted.setlist(name, present)
    return encrypted


def decrypted_query(query: QueryDict, personal: PersonalParameters) -> QueryDict:
    """Return a query with its personal text decrypted. Raises BadRequest when that fails."""
    encrypted = [
        name for name in personal.names if any(map(is_encrypted_token, query.getlist(name)))
    ]
    if not encrypted:
        return query
    decrypted = query.copy()
    for name in encrypted:
        decrypted.setlist(
            name, [_decrypted_value(personal, name, value) for value in query.getlist(name)]
        )
    return decrypted


def is_encrypted_token(value: str) -> bool:
    """Return whether a value has the form of a token; typed text may begin with `~`, too."""
    return _unpacked_token(value) is not None


def _unpacked_token(value: str) -> bytes | None:
    if not value.startswith(PREFIX):
        return None
    packed = value.removeprefix(PREFIX)
    try:
        content = b64decode(packed + "=" * (-len(packed) % 4), altchars=b"-_", validate=True)
    except ValueError:
        return None
    return content if len(content) > MIN_LENGTH and cipher.is_encrypted(content) else None


def _decrypted_value(personal: PersonalParameters, name: str, value: str) -> str:
    if not is_encrypted_token(value):
        return value
    text = personal.decrypt(name, value)
    if text is None:
        raise BadRequest(
            gettext(
                "The search words in this link cannot be read: the link is incomplete, was "
                "changed, is too old, or your role does not show names. Open the list and type "
                "them again."
            )
        )
    return text
