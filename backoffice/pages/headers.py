"""Security headers of all responses: pages, errors, static files and the API.

Django's own middleware sends the headers that settings name (HSTS, nosniff, Referrer-Policy, COOP).
django-csp sends the content security policy of pages. This module sets the other headers. It does
not replace a header that a view has set.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Final

from csp.constants import HEADER
from csp.middleware import CSPMiddleware
from csp.utils import build_policy
from django.conf import settings
from django.http import HttpRequest, HttpResponseBase

SWITCHED_OFF: Final = (
    *("accelerometer", "autoplay", "browsing-topics", "camera", "display-capture"),
    *("encrypted-media", "fullscreen", "geolocation", "gyroscope", "hid", "idle-detection"),
    *("local-fonts", "magnetometer", "microphone", "midi", "payment", "picture-in-picture"),
    *("screen-wake-lock", "serial", "sync-xhr", "usb", "xr-spatial-tracking"),
)
"""Browser features that no page uses."""

EVERYWHERE: Final = {
    "Cache-Control": "no-store, private",
    # For responses that are not pages, such as an image that is opened alone. Pages have their own.
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": ", ".join(f"{feature}=()" for feature in SWITCHED_OFF),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "X-Permitted-Cross-Domain-Policies": "none",
}


def strict(
    get_response: Callable[[HttpRequest], HttpResponseBase],
) -> Callable[[HttpRequest], HttpResponseBase]:
    def answer(request: HttpRequest) -> HttpResponseBase:
        response = get_response(request)
        for name, value in EVERYWHERE.items():
            response.headers.setdefault(name, value)
        return response

    return answer


class Policy(CSPMiddleware):
    """Middleware that builds the policy of pages once, because few views change it.

    django-csp handles a view that changes the policy or uses a nonce. Report-only policies and
    URLs without a policy are not supported.
    """

    def process_response(
        self, request: HttpRequest, response: HttpResponseBase
    ) -> HttpResponseBase:
        attribute_names = (*vars(request), *vars(response))
        if settings.DEBUG or any(name.startswith("_csp") for name in attribute_names):
            return super().process_response(request, response)
        response.headers.setdefault(HEADER, _policy())
        return response


@cache
def _policy() -> str:
    return build_policy()
