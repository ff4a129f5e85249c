"""Replay of events: GET previews it, POST runs it and records it in the audit log."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final
from urllib.parse import urlencode

from django.conf import settings
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.translation import gettext, ngettext
from django.views.decorators.http import require_http_methods

from backoffice.accounts.access import may, requires
from backoffice.audit.recording import record_entry, record_list, record_view
from backoffice.pages.paging.counts import COUNT_CAP, capped_count
from webhooks import event_log, replay
from webhooks.event_list_rows import event_rows
from webhooks.forms import ReplayFilters
from webhooks.models import Event, EventQuerySet
from webhooks.views.events import event_or_404

PREVIEWED_EVENTS: Final = 10
"""Events that are previewed before staff confirm."""
STATES: Final = ReplayFilters.STATES
REASON_WORDS: Final[Mapping[str, str]] = {
    Event.State.DEAD: "failed",
    Event.State.SKIPPED: "skipped",
    Event.State.QUARANTINED: "quarantined",
}
"""States in the reason of an audit entry, which is not translated."""


@requires("events.view", "events.replay")
@require_http_methods(["GET", "HEAD", "POST"])
def replay_one(request: HttpRequest, event_id: int) -> HttpResponse:
    """Preview the replay of one event; POST replays it."""
    event = event_or_404(event_id)
    if request.method == "POST":
        _record_audit(request, [event.pk], 1, "replay")
        count = replay.replay(Event.objects.filter(pk=event.pk))
        if count:
            messages.success(request, gettext("The event will be replayed within seconds."))
        else:
            messages.error(
                request,
                gettext("The event cannot be replayed because its content has been deleted."),
            )
        return redirect("events:detail", event.pk)
    values = may(request.user, "records.view")
    record_view(request, "event payload" if values else "event", [event.pk], [event.user_id])
    context = {
        "row": event_rows([event], by_name=may(request.user, "patients.view"))[0],
        "event": event,
        "preview": replay.preview(event),
        "values": values,
    }
    return render(request, "webhooks/replay_one.html", context)


@requires("events.view", "events.replay")
@require_http_methods(["GET", "HEAD", "POST"])
def replay_failed(request: HttpRequest) -> HttpResponse:
    """Show events that were not applied by type and reason, and preview the first of them.

    POST replays all.
    """
    data = request.POST if request.method == "POST" else request.GET
    form = ReplayFilters(data)
    valid = form.is_valid()
    chosen = Event.objects.none()
    if valid:
        chosen = form.apply(Event.objects.with_body(), event_log.received_types())
    if request.method == "POST" and valid:
        if not form.cleaned_data.get("through"):
            return redirect("events:replay")
        return _replay_chosen(request, chosen, form)
    # Read this before anything is counted. So events that arrive or fail meanwhile are not replayed
    # without having been shown.
    through, shown_at = event_log.latest()
    choice = form.cleaned_data if valid else {}
    trials = replay.preview_all(list(chosen.order_by("pk")[:PREVIEWED_EVENTS]))
    values = may(request.user, "records.view")
    patients = [trial.event.user_id for trial in trials]
    record_list(request, "event", (trial.event.pk for trial in trials), patients)
    if values and trials:
        record_view(request, "event payload", (trial.event.pk for trial in trials), patients)
    context = {
        "form": form,
        "state": form.chosen_state() if valid else "",
        "count": capped_count(chosen),
        "through": choice.get("through") or through,
        "shown_at": (choice.get("shown_at") or shown_at).isoformat(),
        "groups": replay.count_by_reason(chosen),
        "grouped": COUNT_CAP,
        "rows": event_rows(
            [trial.event for trial in trials], by_name=may(request.user, "patients.view")
        ),
        "trials": trials,
        "fails": sum(trial.preview.failed for trial in trials),
        "aside": sum(trial.preview.set_aside for trial in trials),
        "values": values,
        "active_filters": _active_filters(form) if valid else [],
    }
    return render(request, "webhooks/replay.html", context, status=200 if valid else 400)


def _replay_chosen(
    request: HttpRequest, chosen: EventQuerySet, form: ReplayFilters
) -> HttpResponse:
    limits = [f"up to number {form.cleaned_data['through']}"]
    limits += [
        f"{chip['name']} {chip['value']}"
        for chip in _active_filters(form)
        if chip["name"] != "state"
    ]
    of = f"{REASON_WORDS[form.chosen_state()]} events {', '.join(limits)}"
    done, more = replay.replay_in_steps(
        chosen,
        lambda count: _record_audit(request, [], count, f"replay of {of}"),
        settings.EVENT_REPLAY_SECONDS,
    )
    if more:
        message = ngettext(
            "%(count)s event will be replayed within seconds. More events are left: replay again.",
            "%(count)s events will be replayed within seconds. More events are left: replay again.",
            done,
        )
        messages.warning(request, message % {"count": f"{done:,}"})
        return redirect(f"{reverse('events:replay')}?{_same_query(form)}")
    if done:
        message = ngettext(
            "%(count)s event will be replayed within seconds.",
            "%(count)s events will be replayed within seconds.",
            done,
        )
        messages.success(request, message % {"count": f"{done:,}"})
    else:
        messages.info(request, gettext("No events were left to replay."))
    return redirect("events:list")


def _same_query(form: ReplayFilters) -> str:
    """Return the query string of the same selection, as it was first shown."""
    names = ("state", "since", "type", "reason", "through", "shown_at")
    return urlencode({name: form.data[name] for name in names if form.data.get(name)})


def _record_audit(request: HttpRequest, ids: list[int], count: int, reason: str) -> None:
    """Record a replay in the audit log before it runs, so that no replay lacks an entry."""
    record_entry(request, "change", "event", ids=ids, reason=reason, row_count=count)


def _active_filters(form: ReplayFilters) -> list[dict[str, str]]:
    return [
        {
            "name": name,
            "value": form.data[name],
            "label": f"{form.fields[name].label}: {_value_label(name, form.data[name])}",
        }
        for name in ("state", "since", "type", "reason")
        if form.cleaned_data.get(name)
    ]


def _value_label(name: str, value: str) -> str:
    return gettext(STATES[value]) if name == "state" else value
