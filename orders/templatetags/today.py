"""The bar of critical results above every page, and the page's icon."""

from __future__ import annotations

from typing import Any

from django import template
from django.http import HttpRequest
from django.template import Context
from django.templatetags.static import static
from django.utils.safestring import SafeString

from backoffice.access import may
from orders.today import criticals
from orders.today.digest import Group
from orders.today.drawing import Sight, draw

register = template.Library()


@register.inclusion_tag("today/_critical.html", takes_context=True)
def critical_results(context: Context) -> dict[str, Any]:
    """How many critical results want somebody, and since when. Names stand on their page only."""
    request: HttpRequest | None = context.get("request")
    if request is None or not hasattr(request, "user"):
        return {}
    found = criticals.of(request)
    return {
        "rows": found.rows,
        "unacknowledged": found.unacknowledged,
        "oldest": found.rows[0].since if found.rows else None,
        "sees_results": may(request.user, "results.view"),
        "most": criticals.MOST,
    }


@register.simple_tag(takes_context=True)
def critical_count(context: Context) -> int:
    """Critical results that nobody has acknowledged, for the title of the page."""
    return criticals.of(context["request"]).unacknowledged


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


@register.simple_tag(takes_context=True)
def page_icon(context: Context) -> str:
    """Another icon while a critical result is not acknowledged, and only then."""
    request: HttpRequest | None = context.get("request")
    alarm = (
        request is not None and hasattr(request, "user") and criticals.of(request).unacknowledged
    )
    return static("today/icon-critical.svg" if alarm else "backoffice/icon.svg")
