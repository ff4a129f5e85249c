"""Devices from which people signed in before: guesses by strangers do not slow them down there.

A signed cookie names the people who signed in on this device, by digests of their user names.
Attempts for these names are counted apart from those of other devices (see `throttle.py`). The
cookie grants no access by itself.
"""

from __future__ import annotations

import secrets
from typing import Final, TypedDict

from django.conf import settings
from django.core import signing
from django.http import HttpRequest, HttpResponse
from django.utils.crypto import salted_hmac

_SALT: Final = "backoffice.accounts.known_devices"
_MAX_AGE_DAYS: Final = 180
_MAX_PEOPLE: Final = 30
"""People remembered on one device."""


class DeviceCookie(TypedDict):
    """The content of the cookie: a random id, and the digests of user names."""

    id: str
    people: list[str]


def cookie_name() -> str:
    return "__Host-bo-device" if settings.HTTPS_ONLY else "bo-device"


def throttle_key(request: HttpRequest, name: str) -> str:
    """Return the key that counts an attempt for `name`: the name, and the device if known."""
    device = _device(request)
    is_known = device is not None and _digest(name) in device["people"]
    return f"{name.lower()}\n{device['id'] if device and is_known else ''}"


def remember_device(request: HttpRequest, response: HttpResponse, name: str) -> None:
    """Add the user `name`, who has just signed in, to the cookie of the device."""
    device = _device(request) or {"id": secrets.token_urlsafe(12), "people": []}
    people = [digest for digest in device["people"] if digest != _digest(name)]
    device["people"] = [*people, _digest(name)][-_MAX_PEOPLE:]
    response.set_cookie(
        cookie_name(),
        signing.dumps(device, salt=_SALT),
        max_age=_MAX_AGE_DAYS * 86_400,
        httponly=True,
        secure=settings.HTTPS_ONLY,
        samesite="Strict",
    )


def _device(request: HttpRequest) -> DeviceCookie | None:
    try:
        device: DeviceCookie = signing.loads(
            request.COOKIES.get(cookie_name(), ""), salt=_SALT, max_age=_MAX_AGE_DAYS * 86_400
        )
    except signing.BadSignature:
        return None
    return device


def _digest(name: str) -> str:
    return salted_hmac(_SALT, name.lower()).hexdigest()[:20]
