"""System pages of the mirror: how current it is, unreadable records, and drift."""

from __future__ import annotations

from datetime import datetime
from typing import Final

from django.core.exceptions import BadRequest
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_safe

from backoffice.accounts.access import requires
from backoffice.core import vocabulary
from backoffice.mirror.models import Drift, UnreadRecord
from backoffice.operations.views import unknown_values
from backoffice.pages import sync_health
from backoffice.pages.paging.pages import Sort, fetch_page, page_position
from backoffice.sync.models import SyncRun

SIZE: Final = 50
LATEST: Final = 10
NEWEST_FIRST: Final = Sort(("created_at", "id"), descending=True)
NEWEST_DRIFT_FIRST: Final = Sort(("found_at", "id"), descending=True)
LAST_SEEN: Final = Sort(("last_seen", "id"), descending=True)


@requires("system.view")
@require_safe
def health(request: HttpRequest) -> HttpResponse:
    """Show sync runs, lookups, drift, unknown values and unreadable records on one page."""
    now = timezone.now()
    lists = sync_health.list_health()
    rows = [_row(synced_list, now) for synced_list in lists]
    lookups = sync_health.lookups()
    drifts = list(Drift.objects.newest_first()[: LATEST + 1])
    unknown = unknown_values.latest(LATEST + 1)
    unread = list(UnreadRecord.objects.without_record().last_seen_first()[: LATEST + 1])
    context = {
        "as_of": sync_health.data_as_of(lists),
        "rows": rows,
        "failing": [row["name"] for row in rows if row["family"] in ("needs-action", "abnormal")],
        "late": [row["name"] for row in rows if row["late"]],
        "incomplete": [row["name"] for row in rows if row["as_of"] is None],
        "lookups": lookups,
        "drifts": drifts[:LATEST],
        "more_drifts": len(drifts) > LATEST,
        "unknown": unknown[:LATEST],
        "more_unknown": len(unknown) > LATEST,
        "unread": unread[:LATEST],
        "more_unread": len(unread) > LATEST,
    }
    return render(request, "system/health.html", context)


@requires("system.view")
@require_safe
def runs(request: HttpRequest) -> HttpResponse:
    """List sync runs, newest first, of one list of the service or of all."""
    resource = request.GET.get("resource", "")[:40]
    if "\x00" in resource:
        raise BadRequest("There is no such list.")
    rows = SyncRun.objects.filter(resource=resource) if resource else SyncRun.objects.all()
    page = fetch_page(rows, NEWEST_FIRST, size=SIZE, **page_position(request))
    now = timezone.now()
    context = {
        "page": page,
        "resource": resource,
        "runs": [_run_context(run, now) for run in page.rows],
    }
    return render(request, "system/runs.html", context)


@requires("system.view")
@require_safe
def drift(request: HttpRequest) -> HttpResponse:
    """List drift that full sync runs found and repaired, newest first."""
    page = fetch_page(Drift.objects.all(), NEWEST_DRIFT_FIRST, size=SIZE, **page_position(request))
    return render(request, "system/drift.html", {"page": page})


@requires("system.view")
@require_safe
def unread(request: HttpRequest) -> HttpResponse:
    """List records that could not be read into columns, last seen first."""
    rows = UnreadRecord.objects.without_record()
    page = fetch_page(rows, LAST_SEEN, size=SIZE, **page_position(request))
    return render(request, "system/unread.html", {"page": page})


def _row(synced_list: sync_health.SyncedListHealth, now: datetime) -> dict[str, object]:
    scope = "everything" if synced_list.full else "changes"
    return {
        **_run_context(synced_list.latest, now),
        "name": f"{vocabulary.LISTS.get(synced_list.resource, synced_list.resource)} ({scope})",
        "scope": scope,
        "as_of": synced_list.as_of,
        "late": synced_list.is_late(now),
        "every": _format_duration(synced_list.interval.total_seconds()),
    }


def _run_context(run: SyncRun, now: datetime) -> dict[str, object]:
    family, glyph, word = sync_health.state_of(run)
    length = sync_health.duration(run, now)
    return {
        "run": run,
        "family": family,
        "glyph": glyph,
        "word": word,
        "open": run.state in (SyncRun.State.DUE, SyncRun.State.RUNNING),
        "took": _format_duration(length.total_seconds()) if length is not None else "",
        "rate": sync_health.rate(run, now),
    }


def _format_duration(seconds: float) -> str:
    """Format a duration in its largest unit: `0.4 s`, `30 s`, `15 min`, `24 h`."""
    if seconds < 10:
        return f"{seconds:.1f} s" if seconds >= 0.1 else "under 0.1 s"
    if seconds < 60:
        return f"{seconds:.0f} s"
    if seconds < 3600:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h".replace(".0 ", " ")
