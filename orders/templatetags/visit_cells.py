"""Cells of a visit, in Python and not in templates: a page has fifty."""

from __future__ import annotations

from html import escape

from django import template
from django.utils.html import conditional_escape
from django.utils.safestring import SafeString

from backoffice.addresses import record_url
from backoffice.templatetags.ui import day, initials, when
from orders.appointments.rows import Visit

register = template.Library()


@register.simple_tag
def visit_time(visit: Visit, brief: bool = False) -> SafeString:
    """Start of a visit: the draw's clock big, the staff member's small."""
    clocks = visit.clocks
    if clocks is None:
        return SafeString('<span class="muted">No time yet</span>')
    if not clocks.known:
        shown = when(visit.appointment.start_at)
        return SafeString(
            f'<strong>{shown}</strong><span class="second">zone of the draw not given</span>'
        )
    yours = escape(clocks.yours)
    if yours and brief:
        words = f'<span class="sr">your time </span><span aria-hidden="true">you </span>{yours}'
        yours = f'<span class="second">{words}</span>'
    elif yours:
        yours = f'<span class="second">{yours} your time</span>'
    return SafeString(
        f'<time class="draw" datetime="{clocks.here.isoformat()}"><strong>{clocks.time}</strong>'
        f" {escape(clocks.zone)}</time>{yours}"
    )


@register.simple_tag
def visit_who(visit: Visit, sees_names: bool) -> SafeString:
    """Who a visit is for, a link to its order."""
    name = (
        escape(visit.name or "Name not given")
        if sees_names
        else conditional_escape(initials(visit.name))
    )
    if visit.appointment.order_id:
        url = record_url("orders:detail", visit.appointment.order_id)
        name = f'<a href="{url}" hx-boost="false">{name}</a>'
    born = ""
    if sees_names and visit.born:
        born = f'<span class="second">{day(visit.born)}</span>'
    return SafeString(f'<th scope="row" class="lead">{name}{born}</th>')
