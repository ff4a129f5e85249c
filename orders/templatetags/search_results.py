"""Render matching patients and orders for suggestions and results.

This is Python, because rendering is most of the cost of a suggestion.
"""

from __future__ import annotations

from html import escape

from django import template
from django.template.defaultfilters import title
from django.utils.html import conditional_escape
from django.utils.safestring import SafeString

from backoffice.pages.templatetags.ui import age, day, initials, local_day, order_badge, short_id
from orders.models import Order
from orders.search.lookup import PatientMatch
from patients.search_keys import plain_key

register = template.Library()


@register.simple_tag
def patient_match(one: PatientMatch) -> SafeString:
    details = f"{day(one.born)}, {age(one.born)}" if one.born else "Birth date not given"
    if one.former_name:
        details = f"Once {escape(one.former_name)} · {details}"
    if one.patient.is_named_by_order:
        details += f" · From order of {local_day(one.patient.source_order_created_at)}"
    if one.patient.city:
        details += f" · {escape(', '.join(filter(None, (one.patient.city, one.patient.state))))}"
    order, state = one.order, '<span class="more">No orders</span>'
    if order:
        open_note = f" · {len(one.open_order_ids)} open" if len(one.open_order_ids) > 1 else ""
        state = _state(order, f"{_test(order)}, {local_day(order.created_at)}{open_note}")
    return _match_html(f"<bdi>{escape(one.name or 'Name not given')}</bdi>", details, state)


@register.simple_tag
def order_match(order: Order, by_name: bool, by_sample: bool = False) -> SafeString:
    """Render an order. `by_sample`: the search found it by its sample id."""
    name = f"<bdi>{escape(f'{order.patient_first_name} {order.patient_last_name}')}</bdi>"
    details = f"{_test(order)} · {short_id(order.pk, False)}"
    if by_name and order.patient_dob:
        details = f"{day(order.patient_dob)} · {details}"
    if by_sample:
        heading = escape(order.sample_id or "")
        details = f"{name} · {details}" if by_name else details
    elif not by_name:
        heading = conditional_escape(initials(order.patient_name))
    elif order.patient_name:
        heading = name
    elif order.recipient_name:
        heading = f"Parcel for <bdi>{escape(title(plain_key(order.recipient_name)))}</bdi>"
    else:
        heading = "Kit without patient"
    return _match_html(heading, details, _state(order, local_day(order.created_at)))


def _test(order: Order) -> str:
    return escape(order.lab_test_name or "Order")


def _state(order: Order, details: str) -> str:
    badge = order_badge(order.low_level_status, order.method, order.bucket)
    return f'{badge}<span class="more">{details}</span>'


def _match_html(heading: str, details: str, state: str) -> SafeString:
    return SafeString(
        f'<span class="what"><strong>{heading}</strong>\n'
        f'<span class="more">{details}</span></span>\n'
        f'<span class="state">{state}</span>'
    )
