"""The bar of critical results above every page, and the page's icon."""

from __future__ import annotations

from typing import Any

from django.templatetags.static import static
from jinja2 import pass_context
from jinja2.runtime import Context

from backoffice.accounts.access import may
from backoffice.core.template_functions import renders
from orders.results import result_badges
from orders.results.critical_calls import MAX_COUNTED


@renders("today/_critical.html")
def critical_results(context: Context) -> dict[str, Any]:
    """Show how many critical results are open, and since when. Only their page has names."""
    user = _user(context)
    if user is None:
        return {}
    return {
        "glance": result_badges(user),
        "sees_results": may(user, "results.view"),
        "most": MAX_COUNTED,
    }


@pass_context
def critical_count(context: Context) -> int:
    """Return the number of unacknowledged critical results, for the title of the page."""
    return result_badges(context["request"].user).unacknowledged


@pass_context
def page_icon(context: Context) -> str:
    """Return the URL of the icon. It changes while a critical result is not acknowledged."""
    user = _user(context)
    alarm = user is not None and result_badges(user).unacknowledged
    return static("today/icon-critical.svg" if alarm else "backoffice/icon.svg")


def _user(context: Context) -> Any:
    """Return the user, or None on a page that is rendered without a request."""
    return getattr(context.get("request"), "user", None)
