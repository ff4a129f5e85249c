"""The bar of critical results above every page, the page's icon, and the rows of the digest."""

from __future__ import annotations

from typing import Any

from django import template
from django.template import Context
from django.templatetags.static import static
from django.utils.safestring import SafeString

from backoffice.accounts.access import may
from orders.models import Order, Review
from orders.results import result_badges
from orders.results.critical_calls import MAX_COUNTED
from orders.today.digest import PatientActivity
from orders.today.rendering import DigestContext, render_criticals, render_digest

register = template.Library()


@register.inclusion_tag("today/_critical.html", takes_context=True)
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


@register.simple_tag(takes_context=True)
def critical_count(context: Context) -> int:
    """Return the number of unacknowledged critical results, for the title of the page."""
    return result_badges(context["request"].user).unacknowledged


@register.simple_tag(takes_context=True)
def digest_rows(context: Context, groups: list[PatientActivity]) -> SafeString:
    """Render the digest, patient by patient."""
    digest_context = DigestContext(
        user=context["request"].user,
        snapshot=context["snapshot"],
        by_name=context["by_name"],
        may_take=context["may_take"],
        token=str(context["csrf_token"]),
    )
    return render_digest(groups, digest_context)


@register.simple_tag
def critical_rows(rows: list[tuple[Review, Order | None]]) -> SafeString:
    return render_criticals(rows)


@register.simple_tag(takes_context=True)
def page_icon(context: Context) -> str:
    """Return the URL of the icon. It changes while a critical result is not acknowledged."""
    user = _user(context)
    alarm = user is not None and result_badges(user).unacknowledged
    return static("today/icon-critical.svg" if alarm else "backoffice/icon.svg")


def _user(context: Context) -> Any:
    """Return the user, or None on a page that is rendered without a request."""
    return getattr(context.get("request"), "user", None)
