"""Render the digest and critical results in Python: templates would be slow for dozens."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from html import escape
from typing import Any

from django.urls import reverse
from django.utils.html import conditional_escape
from django.utils.safestring import SafeString

from backoffice.core.urls import record_url
from backoffice.pages.icons import glyph_svg, icon_svg
from backoffice.pages.templatetags.ui import day, initials, order_badge, since, when
from backoffice.team.subjects import Subject
from backoffice.team.templatetags.team import staff_name
from orders.appointment_zones import AppointmentZone
from orders.local_time import visit_moment
from orders.models import Order, Review
from orders.today.digest import (
    NEW_PROBLEM,
    OPENED_AND_SOLVED,
    SOLVED,
    VISIT,
    VISIT_MOVED,
    DigestLine,
    OrderActivityGroup,
    PatientActivity,
)


@dataclass(frozen=True, slots=True)
class DigestContext:
    """The values that are the same for all groups of a page."""

    user: Any
    snapshot: str
    by_name: bool
    may_take: bool
    token: str
    """The CSRF token."""


def render_digest(groups: list[PatientActivity], context: DigestContext) -> SafeString:
    return SafeString("\n".join(_group(group, context) for group in groups))


def _group(group: PatientActivity, context: DigestContext) -> str:
    key, seen_url = f"news-{group.about}", reverse("today:seen")
    flag = ' data-flag="critical"' if group.rank == 0 else ""
    born = ""
    if context.by_name and group.order and group.order.patient_dob:
        born = f'<span class="muted">{day(group.order.patient_dob)}</span>'
    return (
        f'<li class="news-of" id="{key}"{flag}>\n  <header>\n'
        f"    <h3>{_who(group, context)}</h3>\n    {born}\n"
        f'    <form method="post" action="{seen_url}" hx-post="{seen_url}" hx-target="#{key}"'
        f' hx-swap="outerHTML">{_token(context)}{_hidden("about", group.about)}'
        f"{_hidden('snapshot', context.snapshot)}"
        '<button class="btn small quiet" type="submit" data-key="v"'
        f' data-key-words="Seen: this patient’s news">{icon_svg("check")}Seen</button></form>\n'
        f"  </header>\n  {''.join(_order_activity(news, context) for news in group.orders)}\n</li>"
    )


def _who(group: PatientActivity, context: DigestContext) -> str:
    order = group.order
    if not context.by_name:
        return conditional_escape(initials(order.patient_name if order else ""))
    if not group.patient_id:
        return "Kit without patient"
    name = "Kit without patient" if order else "Order not read yet"
    if order and (order.patient_first_name or order.patient_last_name):
        first, last = escape(order.patient_first_name), escape(order.patient_last_name)
        name = f"<bdi>{first} {last}</bdi>"
    return f'<a href="{record_url("patients:detail", group.patient_id)}">{name}</a>'


def _order_activity(activity: OrderActivityGroup, context: DigestContext) -> str:
    order, status = activity.order, ""
    if order and not activity.shows_status:
        status = f" {order_badge(order.low_level_status, order.method, order.bucket, True)}"
    test = escape((order and order.lab_test_name) or "Order")
    lines = "".join(
        f'\n      <li data-st="{line.term.family}">{glyph_svg(line.term.glyph)}'
        f'<span>{_line(line, activity.zone)} <span class="muted nowrap">{since(line.at)}</span>'
        "</span></li>"
        for line in activity.lines
    )
    url = record_url("orders:detail", activity.order_id)
    return (
        f'<article>\n    <p class="what"><a href="{url}">'
        f'{test}</a>{status}</p>\n    <ul class="lines">{lines}\n    </ul>\n'
        f"    {_holder(activity, context)}\n  </article>"
    )


def _line(line: DigestLine, zone: AppointmentZone | None) -> str:
    label, words = escape(line.term.label), escape(line.words)
    if line.words == VISIT_MOVED:
        before, after = visit_moment(line.start_before, zone), visit_moment(line.start_after, zone)
        return f"<strong>Visit moved</strong> from {before} to {after}"
    if line.words == VISIT:
        start = f", {visit_moment(line.start_after, zone)}" if line.start_after else ""
        return f"<strong>Visit: {label.lower()}</strong>{start}"
    if line.words == SOLVED:
        return f"<strong>Solved:</strong> {label}"
    if line.words == OPENED_AND_SOLVED:
        return f"<strong>Came up and solved:</strong> {label}"
    if line.words == NEW_PROBLEM:
        return f"<strong>{label}</strong>"
    if not label:
        return words
    return f"<strong>{label}</strong>{f', {words}' if words else ''}"


def _holder(activity: OrderActivityGroup, context: DigestContext) -> str:
    """Render the assignee of an order, with the form of `team`."""
    key, take = f"assigned-order-{activity.order_id}", reverse("team:take")
    if activity.holder:
        holder_name = f"{escape(staff_name(activity.holder.user))} is on this"
        if activity.holder.user_id == context.user.pk:
            holder_name = "Yours"
        holder_html = f'<span class="muted">{icon_svg("user")}{holder_name}</span>'
    elif context.may_take:
        patient = activity.order.user_id if activity.order else None
        subject = Subject("order", str(activity.order_id), patient).signed()
        holder_html = (
            f'<form method="post" action="{take}" hx-post="{take}" hx-target="#{key}"'
            f' hx-swap="outerHTML">{_token(context)}{_hidden("about", subject)}'
            f"{_hidden('next', reverse('today:page'))}"
            '<button class="btn small" type="submit" data-once data-take data-key="a">Take'
            "</button></form>"
        )
    else:
        return ""
    return f'<div class="assigned" id="{key}">{holder_html}</div>'


def render_criticals(rows: Iterable[tuple[Review, Order | None]]) -> SafeString:
    """Render open critical results on the hand-over sheet."""
    return SafeString("".join(_critical(review, order) for review, order in rows))


def _critical(review: Review, order: Order | None) -> str:
    name, born = "Kit without patient", ""
    if order and order.patient_last_name:
        first, last = escape(order.patient_first_name), escape(order.patient_last_name)
        name = f"<bdi>{first} {last}</bdi>"
    if order and order.patient_dob:
        born = f' <span class="muted">{day(order.patient_dob)}</span>'
    test = escape((order and order.lab_test_name) or "order not read yet")
    state = "acknowledged, nobody reached yet"
    if not review.is_acknowledged:
        state = "not yet acknowledged"
    call = f". Next call {when(review.next_call_at)}" if review.next_call_at else ""
    return (
        f'<li data-st="critical">{glyph_svg("octagon")}'
        f' <a href="{record_url("orders:detail", review.pk)}"><strong>{name}</strong></a>{born},'
        f" {test}: {state}, since {when(review.since)}{call}</li>"
    )


def _token(context: DigestContext) -> str:
    return _hidden("csrfmiddlewaretoken", context.token)


def _hidden(name: str, value: object) -> str:
    return f'<input type="hidden" name="{name}" value="{escape(str(value))}">'
