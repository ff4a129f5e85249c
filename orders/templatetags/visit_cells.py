"""Rows of visits: see `orders.appointments.rendering`."""

from __future__ import annotations

from datetime import date
from typing import Any

from django import template
from django.utils.safestring import SafeString

from orders.appointments import rendering
from orders.appointments.rows import Site, Visit

register = template.Library()


@register.simple_tag
def list_rows(rows: Any, tab: str, today: date, sees_names: bool) -> SafeString:
    return SafeString(rendering.list_rows(rows, tab, today, sees_names))


@register.simple_tag
def day_by_site(groups: Any, sees_names: bool) -> SafeString:
    return SafeString(rendering.day_by_site(groups, sees_names))


@register.simple_tag
def week_entries(visits: list[Visit], sees_names: bool) -> SafeString:
    return SafeString(rendering.week_entries(visits, sees_names))


@register.simple_tag
def sheets(sites: list[Site]) -> SafeString:
    return SafeString(rendering.sheets(sites))
