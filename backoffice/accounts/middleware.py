"""What every request of a member of staff passes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from zoneinfo import ZoneInfo

from django.contrib.auth.base_user import AbstractBaseUser
from django.contrib.auth.models import AnonymousUser
from django.http import HttpRequest, HttpResponseBase
from django.utils import timezone

from backoffice.accounts import first_passwords, limits, second_factor
from backoffice.models import User
from backoffice.templatetags.ages import zone_of


class StaffMiddleware:
    """No page without the second factor that is demanded, none with a first password; every answer
    in the time zone of whom it is for, refusals and errors too; and what people do is noticed."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        with timezone.override(_zone_of(request.user)):
            response = self.get_response(request)
        limits.extend_after_request(request)
        return response

    def process_view(
        self, request: HttpRequest, view: Callable[..., Any], *_: Any
    ) -> HttpResponseBase | None:
        return second_factor.refuse_without_second_factor(
            request, view
        ) or first_passwords.refuse_first_password(request, view)


def _zone_of(user: AbstractBaseUser | AnonymousUser) -> ZoneInfo | None:
    """None, which is the zone of the house, for strangers."""
    return zone_of(user.time_zone) or ZoneInfo("UTC") if isinstance(user, User) else None
