"""The language, time zone and date style in which a person reads pages, files and emails."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from zoneinfo import ZoneInfo

from django.contrib.auth.base_user import AbstractBaseUser
from django.contrib.auth.models import AnonymousUser
from django.utils import timezone, translation

from backoffice.accounts.models import User
from backoffice.core import time_formats
from backoffice.core.time_formats import DateStyle, zone_of


@contextmanager
def formats_of(user: AbstractBaseUser | AnonymousUser) -> Iterator[None]:
    """Write texts, dates and times as this person prefers them, inside a `with` block.

    Those who are not signed in get the defaults of the installation.
    """
    if not isinstance(user, User):
        with timezone.override(None), time_formats.override(time_formats.UNITED_STATES):
            yield
        return
    zone = zone_of(user.time_zone) or ZoneInfo("UTC")
    style = DateStyle(day_first=user.day_first, hours_24=user.hours_24)
    with (
        timezone.override(zone),
        time_formats.override(style),
        translation.override(user.language),
    ):
        yield
