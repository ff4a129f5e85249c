"""The bar of critical results above every page, and the page's icon."""

from __future__ import annotations

from typing import Any

from django import template
from django.template import Context
from django.templatetags.static import static
from django.utils.safestring import SafeString

from backoffice.core.access import may
from orders.models import Order, Review
from orders.results import result_badges
from orders.results.criticals import MAX_COUNTED
from orders.today.digest import PatientActivity
from orders.today.rendering import DigestContext, render_criticals, render_digest

register = template.Library()


@register.inclusion_tag("today/_critical.html", takes_context=True)
def critical_results(context: Context) -> dict[str, Any]:
    """How many critical results want somebody, and since when. Names stand on their page only."""
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
    """Critical results that nobody has acknowledged, for the title of the page."""
    return result_badges(context["request"].user).unacknowledged


@register.simple_tag(takes_context=True)
def digest_rows(context: Context, groups: list[PatientActivity]) -> SafeString:
    """What is new, patient by patient."""
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
    """Another icon while a critical result is not acknowledged, and only then."""
    user = _user(context)
    alarm = user is not None and result_badges(user).unacknowledged
    return static("today/icon-critical.svg" if alarm else "backoffice/icon.svg")


def _user(context: Context) -> Any:
    """None on a page that is drawn before anybody is known."""
    return getattr(context.get("request"), "user", None)
