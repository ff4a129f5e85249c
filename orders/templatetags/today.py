"""The bar of critical results above every page, and the page's icon."""

from __future__ import annotations

from typing import Any

from django import template
from django.template import Context
from django.templatetags.static import static
from django.utils.safestring import SafeString

from backoffice.core.access import may
from orders.models import Order, Review
from orders.results import at_a_glance
from orders.results.criticals import MOST
from orders.today.digest import Group
from orders.today.rendering import Sight, criticals, draw

register = template.Library()


@register.inclusion_tag("today/_critical.html", takes_context=True)
def critical_results(context: Context) -> dict[str, Any]:
    """How many critical results want somebody, and since when. Names stand on their page only."""
    user = _reader(context)
    if user is None:
        return {}
    return {
        "glance": at_a_glance(user),
        "sees_results": may(user, "results.view"),
        "most": MOST,
    }


@register.simple_tag(takes_context=True)
def critical_count(context: Context) -> int:
    """Critical results that nobody has acknowledged, for the title of the page."""
    return at_a_glance(context["request"].user).unacknowledged


@register.simple_tag(takes_context=True)
def news(context: Context, groups: list[Group]) -> SafeString:
    """What is new, patient by patient."""
    sight = Sight(
        user=context["request"].user,
        snapshot=context["snapshot"],
        by_name=context["by_name"],
        may_take=context["may_take"],
        token=str(context["csrf_token"]),
    )
    return draw(groups, sight)


@register.simple_tag
def critical_rows(rows: list[tuple[Review, Order | None]]) -> SafeString:
    return criticals(rows)


@register.simple_tag(takes_context=True)
def page_icon(context: Context) -> str:
    """Another icon while a critical result is not acknowledged, and only then."""
    user = _reader(context)
    alarm = user is not None and at_a_glance(user).unacknowledged
    return static("today/icon-critical.svg" if alarm else "backoffice/icon.svg")


def _reader(context: Context) -> Any:
    """None on a page that is drawn before anybody is known."""
    return getattr(context.get("request"), "user", None)
