"""Render visits as HTML in Python, not in templates: a day by site has hundreds of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import date
from html import escape
from typing import Any, Final

from django.utils.html import conditional_escape

from backoffice.core.urls import record_url
from backoffice.pages.icons import icon_svg
from backoffice.pages.templatetags.ui import (
    badge,
    day,
    initials,
    long_day,
    or_dash,
    short_id,
    when,
    words,
)
from orders.appointment_list.rows import AppointmentRow, AppointmentSite
from orders.rules.appointment_rules import no_time_text

RowWithActions = tuple[AppointmentRow, dict[str, Any]]
"""A visit and its actions (`rows.row_actions`)."""


def list_rows(rows: Iterable[RowWithActions], tab: str, today: date, sees_names: bool) -> str:
    """Render the list by day, with a heading before the first visit of each day."""
    rows_html, heading = [], None
    for visit, actions in rows:
        if visit.day != heading:
            heading = visit.day
            rows_html.append(_day_heading(heading, today) if heading else "")
        rows_html.append(
            f'<tr>\n<td class="nowrap" data-label="Time"><span>{_time(visit, tab)}</span></td>\n'
            f"{patient_cell(visit, sees_names)}\n"
            f'<td data-label="Status"><span>{_status(visit)}</span></td>\n'
            f'<td data-label="Where"><span>{_where(visit, sees_names)}</span></td>\n'
            f'{_test(visit)}\n<td class="tight end">{_actions_menu(actions)}</td>\n</tr>\n'
        )
    return "".join(rows_html)


def site_sections(
    groups: Iterable[tuple[AppointmentSite, Sequence[RowWithActions]]], sees_names: bool
) -> str:
    """Render a section for each site of a day."""
    return "\n".join(
        f'<section class="card gap" aria-labelledby="site-{number}"><header>'
        f'<h3 id="site-{number}">{_site_name(site)}</h3>\n'
        f'<span class="muted">{_site_place(site)}</span><span class="count">{len(rows)}</span>'
        '</header>\n<div class="table cards visits by-site"><table>\n'
        f'<caption class="sr">{escape(site.name)}, {escape(site.place)}</caption>\n'
        f"{_SITE_HEADS}\n<tbody>{_site_rows(rows, sees_names)}</tbody>\n"
        "</table></div>\n</section>"
        for number, (site, rows) in enumerate(groups, start=1)
    )


_SITE_HEADS: Final = (
    '<thead><tr><th scope="col">Time at the draw</th><th scope="col">Patient</th>'
    '<th scope="col">Status</th><th scope="col">Test</th>'
    '<th scope="col"><span class="sr">Actions</span></th></tr></thead>'
)


def _site_rows(rows: Iterable[RowWithActions], sees_names: bool) -> str:
    return "".join(
        f'<tr>\n<td class="nowrap" data-label="Time"><span>{visit_time(visit)}</span></td>\n'
        f"{patient_cell(visit, sees_names)}\n"
        f'<td data-label="Status"><span>{_badge(visit)}</span></td>\n'
        f'{_test(visit)}\n<td class="tight end">{_actions_menu(actions)}</td>\n</tr>\n'
        for visit, actions in rows
    )


def week_entries(visits: Iterable[AppointmentRow], sees_names: bool) -> str:
    """Render the visits of one day of a week."""
    return "".join(
        f'<li><a class="entry" {_link(visit)}>\n'
        f'<span class="times">{visit_time(visit, brief=True)}</span>\n'
        f'<span class="name">{_name(visit, sees_names)}</span>\n'
        f'<span class="foot-of">{_badge(visit, bare=True)}</span>\n'
        f'<span class="where">{_short_place(visit, sees_names)}</span>\n</a></li>'
        for visit in visits
    )


def site_sheets(sites: Iterable[AppointmentSite]) -> str:
    """Render a table for each site of a day, for printing."""
    return "\n".join(
        f'<section class="site" tabindex="0" aria-labelledby="site-{number}">\n'
        f'<table class="sheet">\n<caption id="site-{number}"><strong>{_site_name(site)}</strong>'
        f" {_site_place(site)} · {len(site.visits)}</caption>\n"
        f"{_SHEET_HEADS}\n<tbody>{_sheet_rows(site)}</tbody>\n</table>\n</section>"
        for number, site in enumerate(sites, start=1)
    )


_SHEET_HEADS: Final = (
    f"<colgroup>{'<col>' * 9}</colgroup>\n"
    '<thead><tr><th scope="col"><span class="sr">Done</span></th><th scope="col">Time</th>'
    '<th scope="col">Patient</th><th scope="col">Born</th><th scope="col">Test</th>'
    '<th scope="col">Order</th><th scope="col">Lab’s number</th><th scope="col">Status</th>'
    '<th scope="col">Notes</th></tr></thead>'
)


def _sheet_rows(site: AppointmentSite) -> str:
    return "".join(
        '<tr>\n<td><span class="tick-box" aria-hidden="true"></span></td>\n'
        f'<td class="nowrap">{visit_time(visit)}</td>\n'
        f'<th scope="row">{_name(visit, True)}</th>\n'
        f'<td class="nowrap">{day(visit.born)}</td>\n<td>{_test_name(visit)}</td>\n'
        f'<td class="nowrap">{short_id(visit.appointment.order_id, False)}</td>\n'
        f'<td class="nowrap">{or_dash(visit.appointment.external_id)}</td>\n'
        f"<td>{_badge(visit)}</td>\n<td>{_notes(visit, site)}</td>\n</tr>"
        for visit in site.visits
    )


def visit_time(visit: AppointmentRow, brief: bool = False) -> str:
    """Render the start of a visit: large in the draw's zone, small in the staff member's zone."""
    clocks = visit.clocks
    if clocks is None:
        return f'<span class="muted">{no_time_text(visit.appointment)}</span>'
    note = f'<span class="second">{clocks.note}</span>' if clocks.note else ""
    staff_text = clocks.staff_text
    if staff_text and brief:
        label = (
            f'<span class="sr">your time </span><span aria-hidden="true">you </span>{staff_text}'
        )
        staff_text = f'<span class="second">{label}</span>'
    elif staff_text:
        staff_text = f'<span class="second">{staff_text} your time</span>'
    return (
        f'<time class="draw" datetime="{clocks.staff_time.isoformat()}">'
        f"<strong>{clocks.time}</strong> {clocks.zone}</time>{note}{staff_text}"
    )


def patient_cell(visit: AppointmentRow, sees_names: bool) -> str:
    """Render the cell of the patient, with a link to the order."""
    name = _name(visit, sees_names)
    key = visit.appointment.order_id
    if key:
        url = record_url("orders:detail", key)
        name = f'<a href="{url}" hx-boost="false">{name}</a>'
    born = ""
    if sees_names and visit.born:
        born = f'<span class="second">{day(visit.born)}</span>'
    return f'<th scope="row" class="lead">{name}{born}</th>'


def _site_name(site: AppointmentSite) -> str:
    return escape(f"{site.name} {site.code}" if site.code else site.name)


def _site_place(site: AppointmentSite) -> str:
    parts = (site.place, site.provider if site.is_at_home else "")
    return escape(" · ".join(part for part in parts if part))


def _day_heading(of: date, today: date) -> str:
    label = f"{long_day(of)}, today" if of == today else long_day(of)
    return f'<tr class="group"><th colspan="6" scope="colgroup" class="lead">{label}</th></tr>\n'


def _time(visit: AppointmentRow, tab: str) -> str:
    if tab == "requested":
        return str(when(visit.appointment.as_of, relative=True))
    return visit_time(visit)


def _name(visit: AppointmentRow, sees_names: bool) -> str:
    if sees_names:
        return f"<bdi>{escape(visit.name)}</bdi>" if visit.name else "Name not given"
    return conditional_escape(initials(visit.name))


def _link(visit: AppointmentRow) -> str:
    key = visit.appointment.order_id
    return f'href="{record_url("orders:detail", key)}"' if key else ""


def _badge(visit: AppointmentRow, bare: bool = False) -> str:
    return badge("appointment.status", visit.appointment.status, bare)


def _status(visit: AppointmentRow) -> str:
    row, more = visit.appointment, ""
    if visit.has_status_mismatch:
        type_label = conditional_escape(words("appointment.event_status", row.event_status))
        more = f'<span class="second">service reports: {type_label}</span>'
    if row.missing_since:
        more += '<span class="second">no longer at the service</span>'
    return f"{_badge(visit)}{more}"


def _where(visit: AppointmentRow, sees_names: bool) -> str:
    row = visit.appointment
    place = escape(row.provider)
    if sees_names or not visit.is_at_home:
        town = ", ".join(escape(part) for part in (row.city, row.state) if part)
        place = f"{town} · {place}" if town else place
        if not visit.is_at_home and row.provider_id:
            place += f" {escape(row.provider_id)}"
    type_label = conditional_escape(words("appointment.type", row.type))
    return f'{type_label}<span class="second">{place}</span>'


def _short_place(visit: AppointmentRow, sees_names: bool) -> str:
    row = visit.appointment
    if not visit.is_at_home:
        return escape(row.city or row.provider)
    return f"At home, {escape(row.city)}" if sees_names and row.city else "At home"


def _test_name(visit: AppointmentRow) -> str:
    return or_dash(visit.order.lab_test_name if visit.order else "")


def _test(visit: AppointmentRow) -> str:
    number = visit.appointment.external_id
    more = f'<span class="second">Lab’s number {escape(number)}</span>' if number else ""
    return f'<td data-label="Test"><span>{_test_name(visit)}{more}</span></td>'


def _notes(visit: AppointmentRow, site: AppointmentSite) -> str:
    row, address = visit.appointment, ""
    notes = escape(row.appointment_notes or "")
    if site.is_at_home:
        address = escape(row.first_line)
        if row.second_line:
            address += f", {escape(row.second_line)}"
        if notes:
            address += ". "
    return address + notes


_ACTIONS: Final = (
    '<details class="pop end menu-pop" data-pop><summary class="btn quiet square" title="Actions">'
    '{icon}<span class="sr">Actions</span></summary>\n'
    '<div class="panel">{words}<div class="menu">{links}</div></div></details>'
)


def _actions_menu(actions: dict[str, Any]) -> str:
    """Render the menu of actions of a visit; empty if there are none."""
    if not actions:
        return ""
    links = [(actions.get("move", ""), "Reschedule")]
    if actions.get("cancel"):
        again = f"{actions['cancel']}?rebook=1" if actions["rebook"] else ""
        links += [(again, "Cancel and rebook"), (actions["cancel"], "Cancel the visit…")]
    links.append((actions["documents"], "Documents"))
    return _ACTIONS.format(
        icon=icon_svg("ellipsis-horizontal"),
        words=f'<p class="small muted">{escape(actions["words"])}</p>'
        if actions.get("words")
        else "",
        links="".join(
            f'<a class="btn quiet" href="{url}" hx-boost="false" data-drawer>{label}</a>'
            for url, label in links
            if url
        ),
    )
