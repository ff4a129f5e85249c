"""System > Sync: how current the mirror is."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.utils.translation import gettext
from django.views.decorators.http import require_safe

from backoffice.accounts.access import requires
from backoffice.mirror.models import Drift, UnreadRecord
from backoffice.operations.drift_list import DRIFT_LIST
from backoffice.operations.run_list import RunRow, format_duration
from backoffice.operations.unread_list import UNREAD_LIST
from backoffice.operations.views import unknown_values
from backoffice.pages import sync_health
from backoffice.pages.formats import list_name

LATEST: Final = 10
FAILING: Final = ("needs-action", "abnormal")


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
        "failing": [row["name"] for row in rows if row["latest"].state.family in FAILING],
        "late": [row["name"] for row in rows if row["late"]],
        "incomplete": [row["name"] for row in rows if row["as_of"] is None],
        "lookups": lookups,
        "drift_list": DRIFT_LIST,
        "drifts": drifts[:LATEST],
        "more_drifts": len(drifts) > LATEST,
        "unknown": unknown[:LATEST],
        "more_unknown": len(unknown) > LATEST,
        "unread_list": UNREAD_LIST,
        "unread": unread[:LATEST],
        "more_unread": len(unread) > LATEST,
    }
    return render(request, "system/health.html", context)


def _row(synced_list: sync_health.SyncedListHealth, now: datetime) -> dict[str, Any]:
    scope = gettext("everything") if synced_list.full else gettext("changes")
    return {
        "latest": RunRow(synced_list.latest, now),
        "name": f"{list_name(synced_list.resource)} ({scope})",
        "scope": scope,
        "as_of": synced_list.as_of,
        "late": synced_list.is_late(now),
        "every": format_duration(synced_list.interval.total_seconds()),
    }
