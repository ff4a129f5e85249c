"""Headers that every answer has, whoever made it: a page, an error, a static file, the API.

Django's own middleware sends what settings name (HSTS, nosniff, Referrer-Policy, COOP), django-csp
the policy of pages. The rest stands here; what a view has set stays.
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
"""What a browser can do for a page, and no page of ours asks for."""

EVERYWHERE: Final = {
    "Cache-Control": "no-store, private",
    # Of what is no page, such as a picture that is opened by itself; pages have theirs.
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
    """The policy of pages is put together once; few ask for another one, or for a nonce. One that
    only reports, and addresses without any, are not provided for."""

    def process_response(
        self, request: HttpRequest, response: HttpResponseBase
    ) -> HttpResponseBase:
        asked = (*vars(request), *vars(response))
        if settings.DEBUG or any(name.startswith("_csp") for name in asked):
            return super().process_response(request, response)
        response.headers.setdefault(HEADER, _policy())
        return response


@cache
def _policy() -> str:
    return build_policy()
