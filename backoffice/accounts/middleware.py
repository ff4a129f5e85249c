"""What every request of a member of staff passes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.http import HttpRequest, HttpResponseBase

from backoffice.accounts import first_passwords, limits, second_factor


class SignedIn:
    """No page without the second factor that is demanded, none with a first password; and what
    people do is noticed."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        response = self.get_response(request)
        limits.noticed(request)
        return response

    def process_view(
        self, request: HttpRequest, view: Callable[..., Any], *_: Any
    ) -> HttpResponseBase | None:
        return second_factor.owed(request, view) or first_passwords.owed(request, view)
