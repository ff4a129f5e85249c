"""The middleware for requests of signed-in staff."""

from __future__ import annotations

from collections.abc import Callable
from zoneinfo import ZoneInfo

from django.contrib.auth.base_user import AbstractBaseUser
from django.contrib.auth.models import AnonymousUser
from django.http import HttpRequest, HttpResponseBase
from django.utils import timezone

from backoffice.accounts import first_passwords, limits, second_factor
from backoffice.accounts.models import User
from backoffice.core import time_formats
from backoffice.core.time_formats import DateStyle, zone_of


class StaffMiddleware:
    """Require the second factor and an own password, and extend the session.

    Every response, refusals and errors too, has the time zone and the date style of its reader.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        user = request.user
        with timezone.override(_zone_of(user)), time_formats.override(date_style_of(user)):
            response = self.get_response(request)
        limits.extend_after_request(request)
        return response

    def process_view(
        self, request: HttpRequest, view: Callable[..., object], *_: object
    ) -> HttpResponseBase | None:
        return second_factor.refuse_without_second_factor(
            request, view
        ) or first_passwords.refuse_first_password(request, view)


def _zone_of(user: AbstractBaseUser | AnonymousUser) -> ZoneInfo | None:
    """Return the time zone of the user; None, the default zone, for anonymous users."""
    return zone_of(user.time_zone) or ZoneInfo("UTC") if isinstance(user, User) else None


def date_style_of(user: AbstractBaseUser | AnonymousUser) -> DateStyle:
    """Return how this user prefers dates and times."""
    if not isinstance(user, User):
        return time_formats.UNITED_STATES
    return DateStyle(day_first=user.day_first, hours_24=user.hours_24)
