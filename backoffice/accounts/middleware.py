"""The middleware for requests of signed-in staff."""

from __future__ import annotations

from collections.abc import Callable

from django.http import HttpRequest, HttpResponseBase

from backoffice.accounts import first_passwords, limits, second_factor
from backoffice.accounts.reader_formats import formats_of


class StaffMiddleware:
    """Require the second factor and an own password, and extend the session.

    Every response, refusals and errors too, is in the language, time zone and date style of its
    reader.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        with formats_of(request.user):
            response = self.get_response(request)
        limits.extend_after_request(request)
        return response

    def process_view(
        self, request: HttpRequest, view: Callable[..., object], *_: object
    ) -> HttpResponseBase | None:
        return second_factor.refuse_without_second_factor(
            request, view
        ) or first_passwords.refuse_first_password(request, view)
