"""The event log (System > Events) and the page of one event."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Final

from django.db.models import QuerySet
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from backoffice.accounts.access import may, requires, roles_with
from backoffice.audit.recording import record_list, record_view
from backoffice.core import vocabulary
from backoffice.pages.lists.fields import response_status
from backoffice.pages.paging.counts import Count, capped_count
from backoffice.pages.paging.pages import Page, Sort, fetch_page
from orders.models import Order
from webhooks import event_log, payloads, silence
from webhooks.event_list_rows import event_rows, is_about_order
from webhooks.forms import TABS, EventFilters
from webhooks.models import Event

PAGE_SIZE: Final = 50
NEWEST_FIRST: Final = Sort(("id",), descending=True)
RARE_TABS: Final = ("failed", "retrying", "waiting", "skipped", "foreign")
"""Tabs of states with few events, which have partial indexes."""


@requires("events.view")
@require_safe
def event_list(request: HttpRequest) -> HttpResponse:
    """Show events, newest first. The URL has the filters and the page."""
    form = EventFilters(request.GET)
    valid = form.is_valid()
    tab = request.GET.get("show", "")
    tab = tab if tab in TABS else ""
    counts = event_log.state_counts()
    types = event_log.type_counts()
    rows = form.apply(Event.objects.for_list()) if valid else Event.objects.none()
    if TABS[tab][1]:
        rows = rows.filter(state__in=TABS[tab][1])
    page, total = _page_and_total(request, form, rows, types, tab)
    by_name = may(request.user, "patients.view")
    record_list(request, "event", (row.pk for row in page.rows), (row.user_id for row in page.rows))
    context = {
        "form": form,
        "tab": tab,
        "tabs": _tabs(counts, tab),
        "page": page,
        "rows": event_rows(page.rows, by_name=by_name),
        "total": total,
        "chips": form.chips() if valid else [],
        "groups": event_log.group_types(types),
        "dates_set": sum(bool(form.cleaned_data.get(name)) for name in form.DATES),
        "ids_set": sum(bool(form.cleaned_data.get(name)) for name in (*form.IDS, "conflict")),
        "any_events": bool(types),
        "oldest": event_log.oldest_waiting(),
        "silence": silence.read(),
        "failed": counts[Event.State.DEAD],
        "by_name": by_name,
        "may_replay": may(request.user, "events.replay"),
    }
    return render(request, "webhooks/list.html", context, status=response_status(form))


def _page_and_total(
    request: HttpRequest,
    form: EventFilters,
    rows: QuerySet[Event],
    event_types: Iterable[str],
    tab: str,
) -> tuple[Page[Event], Count]:
    """Return a page of the rows of the chosen types, and how many rows there are."""
    types = form.types(event_types) if form.is_valid() else None
    # Another condition has an index, and few rows match.
    has_few_rows = tab in RARE_TABS or not form.is_valid() or form.is_specific()
    after, before = request.GET.get("after"), request.GET.get("before")
    page = partial(fetch_page, sort=NEWEST_FIRST, size=PAGE_SIZE, after=after, before=before)
    if types is not None and not has_few_rows:
        read = partial(event_log.page_of_types, types, form.within)
        return page(rows, read=read), event_log.count_types(types, form.within, rows)
    rows = rows if types is None else rows.filter(event_type__in=types)
    return page(rows), capped_count(rows)


@requires("events.view")
@require_safe
def event_detail(request: HttpRequest, event_id: int) -> HttpResponse:
    """Show one event: its delivery, outcome and body, and the changes since the event before it."""
    event = event_or_404(event_id)
    values = may(request.user, "records.view")
    record_view(request, "event payload" if values else "event", [event.pk], [event.user_id])
    before = event.previous()
    body, cut = payloads.display_body(event, values=values)
    by_name = may(request.user, "patients.view")
    context = {
        "row": event_rows([event], by_name=by_name)[0],
        "event": event,
        "before": before,
        "changes": payloads.field_changes(payloads.data_of(before), payloads.data_of(event))
        if before is not None and before.body is not None and event.body is not None
        else None,
        "body": body,
        "cut": cut,
        "length": len(event.body) if event.body is not None else None,
        "values": values,
        "shown_to": roles_with("records.view"),
        "order": _related_order(event) if may(request.user, "orders.view") else None,
        "may_replay": may(request.user, "events.replay") and event.body is not None,
    }
    return render(request, "webhooks/detail.html", context)


def event_or_404(event_id: int) -> Event:
    try:
        return Event.objects.get(pk=event_id)
    except (Event.DoesNotExist, OverflowError) as error:
        raise Http404 from error


def _tabs(counts: dict[str, Count], current: str) -> list[dict[str, object]]:
    """Return a tab per state. Tabs of errors are left out if they have no events."""
    tabs: list[dict[str, object]] = []
    for name, (label, states) in TABS.items():
        count = counts[states[0]] if states else None
        if count and not count.value and name not in ("failed", "done") and name != current:
            continue
        term = vocabulary.term("event.state", states[0]) if states else None
        tabs.append(
            {
                "name": name,
                "label": label,
                "count": count if name != "done" else None,
                "family": term.family if term else "",
                "glyph": term.glyph if term else "",
                "current": name == current,
            }
        )
    return tabs


def _related_order(event: Event) -> Order | None:
    if not is_about_order(event):
        return None
    return Order.objects.filter(pk=event.subject_id).only("as_of").first()
