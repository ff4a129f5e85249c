"""Notices about results that could not be read, for the pages that show an older version."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django import template
from django.template.context import Context

from backoffice.core.access import may
from orders.results import unreadable_versions

register = template.Library()


@register.inclusion_tag("reviewing/_unread.html", takes_context=True)
def unread_result(context: Context, order_id: UUID) -> dict[str, Any]:
    """Whether a newer version of this order or its result could not be read, and what to do."""
    return _notice(context, unreadable_versions.of_order(order_id), is_single=True)


@register.inclusion_tag("reviewing/_unread.html", takes_context=True)
def unread_results_of_patient(context: Context, patient_id: UUID) -> dict[str, Any]:
    return _notice(context, unreadable_versions.of_patient(patient_id))


@register.inclusion_tag("reviewing/_unread.html", takes_context=True)
def unread_results(context: Context) -> dict[str, Any]:
    """All of them, above the review queue: those without an older version are in no queue."""
    return _notice(context, unreadable_versions.of_all())


def _notice(
    context: Context, found: list[unreadable_versions.UnreadVersion], *, is_single: bool = False
) -> dict[str, Any]:
    request = context["request"]
    return {
        "request": request,
        "csrf_token": context.get("csrf_token"),
        "results": found[: unreadable_versions.MOST],
        "has_more": len(found) > unreadable_versions.MOST,
        "is_single": is_single,
        "can_retry": may(request.user, "results.view"),
        "can_open": may(request.user, "orders.view"),
    }
