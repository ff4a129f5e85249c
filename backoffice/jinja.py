"""The environment of the Jinja templates: Django's filters, and the functions of our apps.

A function computes, or renders a template of its own. What only makes HTML of values is a macro in
`templates/macros/`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from django.contrib.admin.templatetags.admin_urls import admin_urlname
from django.urls import NoReverseMatch
from django.utils import dateformat, timezone
from jinja2 import Environment
from jinja2.runtime import Context

from backoffice.audit.entry_list import AuditRowContext
from backoffice.core.template_functions import DJANGO_FILTERS, renders, undefined_as_none
from backoffice.outbox import template_functions as outbox_functions
from backoffice.pages import charts, frame, jinja
from backoffice.team import template_functions as team_functions
from labs import template_functions as labs_functions
from orders import next_actor
from orders.results import badges
from orders.results import charts as charts_of_results
from orders.rules import appointment_rules
from orders.template_functions import (
    draw_days,
    exceptions,
    notification_words,
    open_orders,
    replayed_orders,
    results,
    today,
    unreadable_results,
    visits,
)
from patients import template_functions as patients_functions
from patients.search_keys import plain_key
from patients.wearables import template_functions as wearables_functions
from webhooks import template_functions as webhooks_functions


def now_text(format: str) -> str:
    """Return the current local time in a format of Django's `date` filter."""
    return dateformat.format(timezone.localtime(), format)


def url_or_empty(route: str, *args: object, **kwargs: object) -> str:
    """Return the URL of a route; empty if there is none for these arguments."""
    try:
        return jinja.url(route, *args, **kwargs)
    except NoReverseMatch:
        return ""


@renders("components/chart.html")
def render_chart(_context: Context, chart: charts.Chart) -> dict[str, Any]:
    return charts.chart_context(chart)


FILTERS: Final[Mapping[str, Callable[..., Any]]] = {
    "admin_urlname": admin_urlname,
    "ago_exactly": results.ago_exactly,
    "call_outcome": results.outcome,
    "duration": results.duration,
    "exception_outcome": exceptions.outcome_label,
    "hours_minutes": wearables_functions.hours_minutes,
    "is_moment": team_functions.is_moment,
    "lapse": webhooks_functions.lapse,
    "mention_parts": team_functions.mention_parts,
    "name_for": patients_functions.name_for,
    "no_time_text": appointment_rules.no_time_text,
    "plain_key": plain_key,
    "staff_name": team_functions.staff_name,
    "subject_url": outbox_functions.subject_url,
    "teller_label": results.teller_label,
}
GLOBALS: Final[Mapping[str, Callable[..., Any]]] = {
    "add_patient_names": patients_functions.add_patient_names,
    "assigned": team_functions.assigned,
    "audit_row_context": AuditRowContext,
    "bell": team_functions.bell,
    "body_conflicts": webhooks_functions.body_conflicts,
    "changes_of": team_functions.changes_of,
    "collection_day": draw_days.collection_day,
    "critical_count": today.critical_count,
    "critical_results": today.critical_results,
    "cursor": frame.cursor,
    "delivery_health": webhooks_functions.delivery_health,
    "failed_events": webhooks_functions.failed_events,
    "identity_term": badges.identity_term,
    "is_flooded": webhooks_functions.is_flooded,
    "kind_term": badges.kind_term,
    "nav_entries": frame.nav_entries,
    "notes_on": team_functions.notes_on,
    "now_text": now_text,
    "oldest_waiting": webhooks_functions.oldest_waiting,
    "open_order_count": open_orders.open_orders,
    "overdue_by": next_actor.overdue_by,
    "page_icon": today.page_icon,
    "patient_names": patients_functions.patient_names,
    "pending_order_requests": open_orders.pending_order_requests,
    "place_term": badges.place_term,
    "preference": frame.preference,
    "previous_time": visits.previous_time,
    "printed": frame.printed,
    "record_commands": outbox_functions.record_commands,
    "record_label": notification_words.record_label,
    "record_labels": notification_words.record_labels,
    "refused_deliveries": webhooks_functions.refused_deliveries,
    "render_chart": render_chart,
    "replayed_orders": replayed_orders.replayed_orders,
    "role_names": frame.roles,
    "service_environment": frame.environment,
    "session_left": frame.session_left,
    "sparkline_of": charts_of_results.sparkline_of,
    "team_name": labs_functions.team_name,
    "theme": frame.theme,
    "trend_of": charts_of_results.trend_of,
    "unreadable_patient_notices": unreadable_results.unreadable_patient_notices,
    "unreadable_result_notice": unreadable_results.unreadable_result_notice,
    "unreadable_result_notices": unreadable_results.unreadable_result_notices,
    "unsigned_results": results.unsigned_results,
    "url_or_empty": url_or_empty,
    "visit_actions": visits.visit_actions,
}


def environment(**options: Any) -> Environment:
    """Return the environment that the setting `TEMPLATES` names."""
    made = jinja.environment(**options)
    made.filters.update(DJANGO_FILTERS)
    made.filters.update({name: undefined_as_none(function) for name, function in FILTERS.items()})
    made.globals.update(GLOBALS)
    return made
