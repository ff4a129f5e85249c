"""Template tags for rows of visits (`orders.appointment_list.rendering`)."""

from __future__ import annotations

from datetime import date
from typing import Any

from django import template
from django.utils.safestring import SafeString

from orders.appointment_list import rendering
from orders.appointment_list.rows import AppointmentRow, AppointmentSite

register = template.Library()


@register.simple_tag
def list_rows(rows: Any, tab: str, today: date, sees_names: bool) -> SafeString:
    return SafeString(rendering.list_rows(rows, tab, today, sees_names))


@register.simple_tag
def site_sections(groups: Any, sees_names: bool) -> SafeString:
    return SafeString(rendering.site_sections(groups, sees_names))


@register.simple_tag
def week_entries(visits: list[AppointmentRow], sees_names: bool) -> SafeString:
    return SafeString(rendering.week_entries(visits, sees_names))


@register.simple_tag
def site_sheets(sites: list[AppointmentSite]) -> SafeString:
    return SafeString(rendering.site_sheets(sites))
