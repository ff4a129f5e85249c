"""System > Unknown values: values that this release does not know, and decisions on them."""

from __future__ import annotations

from typing import Final

from django.contrib import messages
from django.contrib.auth.base_user import AbstractBaseUser
from django.contrib.auth.models import AnonymousUser
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import NoReverseMatch, reverse
from django.views.decorators.http import require_http_methods, require_safe

from backoffice.accounts.access import may, requires
from backoffice.core import vocabulary
from backoffice.core.models import UnknownValue
from backoffice.core.vocabulary import interpretations
from backoffice.operations.forms import BUCKETS, PLAIN, RANKS, STATUS, UnknownValueForm
from backoffice.operations.value_decisions import DecidedMeanwhile, decide
from backoffice.pages.paging.pages import Sort, fetch_page, page_position

SIZE: Final = 50
LAST_SEEN: Final = Sort(("last_seen", "id"), descending=True)
EVENT_TYPE: Final = "event_type"
RECORD_ROUTES: Final = {
    **dict.fromkeys(("order", "result", "missing"), "orders:detail"),
    "lab": "labs:detail",
    "lab_account": "labs:account",
    "lab_test": "labs:test",
    "marker": "labs:marker",
    **dict.fromkeys(("person", "connection", "historical_pull"), "patients:detail"),
    "unmatched": "unmatched:detail",
}
"""Route of the page of a sample record, by the first word of the vocabulary."""
SAVED: Final = "Saved. Pages say so from now on{}."
DECISION_REVOKED: Final = "Taken back. It is shown as it came{}."
MOVING: Final = ", and orders move within seconds"
RANKING: Final = ", and open results are ranked again within seconds"


@requires("system.view")
@require_safe
def unknown(request: HttpRequest) -> HttpResponse:
    """List unknown values, last seen first."""
    page = fetch_page(UnknownValue.objects.all(), LAST_SEEN, size=SIZE, **page_position(request))
    context = {"page": page, "rows": [_value_context(row) for row in page.rows]}
    return render(request, "system/unknown.html", context)


@requires("system.view")
@require_http_methods(["GET", "HEAD", "POST"])
def value(request: HttpRequest, value_id: int) -> HttpResponse:
    """Show one unknown value, and save or take back a decision on it."""
    row = get_object_or_404(UnknownValue.objects.select_related("decided_by"), pk=value_id)
    obstacle = _obstacle(row, request.user)
    form = UnknownValueForm.of(row)
    status = 200
    if request.method == "POST":
        takes_back = "take_back" in request.POST
        form, status = UnknownValueForm(row, request.POST), 422
        if obstacle:
            form.add_error(None, obstacle)
        elif takes_back or form.is_valid():
            bucket = "" if takes_back else form.cleaned_data["bucket"]
            label = "" if takes_back else form.cleaned_data["label"]
            try:
                decide(request, row, bucket, label, request.POST.get("seen", ""))
            except DecidedMeanwhile:
                form.add_error(None, "Somebody has just decided on this. See what it says now.")
                row.refresh_from_db()
                form.data = {**request.POST.dict(), "seen": str(row.decision)}
            else:
                moving = MOVING if row.vocabulary == STATUS else ""
                moving = RANKING if row.vocabulary in interpretations.VOCABULARIES else moving
                messages.success(
                    request, (DECISION_REVOKED if takes_back else SAVED).format(moving)
                )
                return redirect("system:unknown-value", row.pk)
    context = {"unknown": _value_context(row), "row": row, "form": form, "obstacle": obstacle}
    return render(request, "system/unknown_value.html", context, status=status)


def latest(most: int) -> list[dict[str, object]]:
    """Return the contexts of the values seen last, at most `most`."""
    return [_value_context(row) for row in UnknownValue.objects.last_seen_first()[:most]]


def _obstacle(row: UnknownValue, user: AbstractBaseUser | AnonymousUser) -> str:
    """Return why the user cannot decide on this value; empty if they can."""
    if row.vocabulary not in vocabulary.VOCABULARIES:
        return "Only a release can teach the back office this: it has to be read, not only named."
    if vocabulary.is_known(row.vocabulary, row.value):
        return "The release that runs here knows this value. Its words hold."
    if not may(user, "vocabulary.change"):
        return "Lab admins and administrators say what a value means."
    return ""


def _value_context(row: UnknownValue) -> dict[str, object]:
    """Return the template context of a value: its label, its sample record, and its list."""
    has_vocabulary = row.vocabulary in vocabulary.VOCABULARIES
    term = vocabulary.term(row.vocabulary, row.value) if has_vocabulary else None
    return {
        "row": row,
        "term": term,
        "known": has_vocabulary and vocabulary.is_known(row.vocabulary, row.value),
        "bucket": {**BUCKETS, **PLAIN, **RANKS}.get(row.bucket, ""),
        "is_ranked": row.vocabulary in interpretations.VOCABULARIES and row.decision > 0,
        "sample": _sample_url(row),
        "all": _list_link(row),
        "orders": row.vocabulary == STATUS and row.decision > 0,
        "arrived": row.spread_at is not None,
    }


def _sample_url(row: UnknownValue) -> str:
    """Return the URL of the record it was first found in; empty if there is none."""
    route = RECORD_ROUTES.get(row.vocabulary.partition(".")[0])
    if not route or not row.sample_key:
        return ""
    try:
        return reverse(route, args=[row.sample_key])
    except NoReverseMatch:
        return ""


def _list_link(row: UnknownValue) -> tuple[str, str]:
    """Return URL and name of the list of all records with this value; empty if there is none."""
    if row.vocabulary == STATUS:
        return reverse("orders:list", query={"status": row.value}), "Orders"
    if row.vocabulary == EVENT_TYPE:
        return reverse("events:list", query={"type": row.value}), "Events"
    return "", ""
