"""Replay: first what it would change, then, by POST and on record, the doing."""

from __future__ import annotations

from typing import Any, Final

from django.contrib import messages
from django.db.models import Count, Max, QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods

from backoffice import audit
from backoffice.access import may, requires
from webhooks import log, replaying
from webhooks.forms import ReplayFilters
from webhooks.models import Event
from webhooks.pages import fetched, rows_of

TRIED: Final = 10
"""Events of many that are tried before staff confirm."""
GROUPS: Final = 50


@requires("events.view", "events.replay")
@require_http_methods(["GET", "HEAD", "POST"])
def replay_one(request: HttpRequest, event_id: int) -> HttpResponse:
    """What applying one event again would change; POST has it applied."""
    event = fetched(event_id)
    if request.method == "POST":
        _on_record(request, [event.pk], 1, "")
        count = replaying.replay(Event.objects.filter(pk=event.pk))
        if count:
            messages.success(request, "The event is applied again within seconds.")
        else:
            messages.error(request, "Its body has been forgotten: it cannot be applied again.")
        return redirect("events:detail", event.pk)
    values = may(request.user, "records.view")
    audit.viewed(request, "event payload" if values else "event", [event.pk], [event.user_id])
    context = {
        "row": rows_of([event], by_name=may(request.user, "patients.view"))[0],
        "event": event,
        "preview": replaying.preview(event),
        "values": values,
    }
    return render(request, "webhooks/replay_one.html", context)


@requires("events.view", "events.replay")
@require_http_methods(["GET", "HEAD", "POST"])
def replay_failed(request: HttpRequest) -> HttpResponse:
    """Failed events by type and reason, how the first of them would fare now; POST replays all."""
    given = request.POST if request.method == "POST" else request.GET
    form = ReplayFilters(given)
    valid = form.is_valid()
    chosen = Event.objects.none()
    if valid:
        chosen = form.apply(replaying.replayable(), list(log.type_counts()))
    if request.method == "POST" and valid:
        through = form.cleaned_data.get("through")
        if not through:
            return redirect("events:replay")
        return _replayed(request, chosen, form)
    found = chosen.aggregate(count=Count("pk"), through=Max("pk"))
    trials = replaying.try_some(list(chosen.order_by("pk")[:TRIED]))
    audit.listed(
        request,
        "event",
        (trial.event.pk for trial in trials),
        (trial.event.user_id for trial in trials),
    )
    context = {
        "form": form,
        "count": found["count"],
        "through": found["through"],
        "groups": _groups(chosen),
        "rows": rows_of(
            [trial.event for trial in trials], by_name=may(request.user, "patients.view")
        ),
        "trials": trials,
        "fails": sum(trial.preview.failed for trial in trials),
        "values": may(request.user, "records.view"),
        "chips": _chips(form) if valid else [],
    }
    return render(request, "webhooks/replay.html", context, status=200 if valid else 400)


def _replayed(request: HttpRequest, chosen: QuerySet[Event], form: ReplayFilters) -> HttpResponse:
    count = chosen.count()
    limits = [f"up to number {form.cleaned_data['through']}"]
    limits += [f"{chip['name']} {chip['value']}" for chip in _chips(form)]
    _on_record(request, [], count, ", ".join(limits))
    done = replaying.replay(chosen)
    if done:
        words = "event is" if done == 1 else "events are"
        messages.success(request, f"{done:,} {words} applied again within seconds.")
    else:
        messages.info(request, "None was left to be applied again.")
    return redirect("events:list")


def _on_record(request: HttpRequest, ids: list[int], count: int, limits: str) -> None:
    """Before it is done: what cannot be put on record does not happen."""
    reason = f"replay of failed events {limits}" if limits else "replay"
    audit.record(request, "change", "event", ids=ids, reason=reason, row_count=count)


def _groups(chosen: QuerySet[Event]) -> list[dict[str, Any]]:
    found = chosen.values("event_type", "reason").annotate(count=Count("pk")).order_by("-count")
    return [
        {**group, "words": log.type_words(group["event_type"])}
        for group in found.order_by("-count", "event_type", "reason")[:GROUPS]
    ]


def _chips(form: ReplayFilters) -> list[dict[str, str]]:
    return [
        {
            "name": name,
            "value": form.data[name],
            "label": f"{form.fields[name].label}: {form.data[name]}",
        }
        for name in ("since", "type", "reason")
        if form.cleaned_data.get(name)
    ]
