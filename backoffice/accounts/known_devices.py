"""Devices their owners have logged in from: guesses of strangers do not keep them waiting there.

A signed cookie says who has logged in on this device, by digests of user names. Passwords tried for
one of these names are counted apart from those of the rest of the world (see `throttle.py`). It
opens nothing by itself.
"""

from __future__ import annotations

import secrets
from typing import Any, Final

from django.conf import settings
from django.core import signing
from django.http import HttpRequest, HttpResponse
from django.utils.crypto import salted_hmac

_SALT: Final = "backoffice.accounts.known_devices"
_MAX_AGE_DAYS: Final = 180
_MAX_PEOPLE: Final = 30
"""People of one device."""


def cookie_name() -> str:
    return "__Host-bo-device" if settings.HTTPS_ONLY else "bo-device"


def throttle_key(request: HttpRequest, name: str) -> str:
    """What to count a try for `name` under: the name itself, or name and device where known."""
    device = _device(request)
    known = device is not None and _digest(name) in device["people"]
    return f"{name.lower()}\n{device['id'] if known and device else ''}"


def remember_device(request: HttpRequest, response: HttpResponse, name: str) -> None:
    """The owner of `name` has just shown that it is them."""
    device = _device(request) or {"id": secrets.token_urlsafe(12), "people": []}
    people = [one for one in device["people"] if one != _digest(name)]
    device["people"] = [*people, _digest(name)][-_MAX_PEOPLE:]
    response.set_cookie(
        cookie_name(),
        signing.dumps(device, salt=_SALT),
        max_age=_MAX_AGE_DAYS * 86_400,
        httponly=True,
        secure=settings.HTTPS_ONLY,
        samesite="Strict",
    )


def _device(request: HttpRequest) -> dict[str, Any] | None:
    try:
        found: dict[str, Any] = signing.loads(
            request.COOKIES.get(cookie_name(), ""), salt=_SALT, max_age=_MAX_AGE_DAYS * 86_400
        )
    except signing.BadSignature:
        return None
    return found


def _digest(name: str) -> str:
    return salted_hmac(_SALT, name.lower()).hexdigest()[:20]
