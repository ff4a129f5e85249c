"""Notices about results that could not be read, for the pages that show an older version."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from jinja2.runtime import Context

from backoffice.accounts.access import may
from backoffice.core.template_functions import renders
from orders.results import unreadable_versions


@renders("results/_unread.html")
def unreadable_result_notice(context: Context, order_id: UUID) -> dict[str, Any]:
    """Show a notice if a newer version of this order or its result could not be read."""
    return _notice(context, unreadable_versions.for_order(order_id), is_single=True)


@renders("results/_unread.html")
def unreadable_patient_notices(context: Context, patient_id: UUID) -> dict[str, Any]:
    return _notice(context, unreadable_versions.for_patient(patient_id))


@renders("results/_unread.html")
def unreadable_result_notices(context: Context) -> dict[str, Any]:
    """Show all notices above the queue, which has no results without an older version."""
    return _notice(context, unreadable_versions.first_results())


def _notice(
    context: Context,
    versions: list[unreadable_versions.UnreadableVersion],
    *,
    is_single: bool = False,
) -> dict[str, Any]:
    request = context["request"]
    return {
        "request": request,
        "csrf_token": context.get("csrf_token"),
        "results": versions[: unreadable_versions.MAX_SHOWN],
        "has_more": len(versions) > unreadable_versions.MAX_SHOWN,
        "is_single": is_single,
        "can_retry": may(request.user, "results.view"),
        "can_open": may(request.user, "orders.view"),
    }
