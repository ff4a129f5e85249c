"""System > Unknown values: values that this release does not know, and decisions on them."""

from __future__ import annotations

from typing import Final

from django.contrib import messages
from django.contrib.auth.base_user import AbstractBaseUser
from django.contrib.auth.models import AnonymousUser
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import NoReverseMatch, reverse
from django.utils.translation import gettext, gettext_noop
from django.views.decorators.http import require_http_methods, require_safe

from backoffice.accounts.access import may, requires
from backoffice.core import vocabulary
from backoffice.core.models import UnknownValue
from backoffice.core.vocabulary import interpretations
from backoffice.operations.forms import STATUS, UnknownValueForm
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
SAVED: Final = (
    gettext_noop("Saved. Pages show this label from now on."),
    gettext_noop("Saved. Pages show this label from now on. Orders move within seconds."),
    gettext_noop(
        "Saved. Pages show this label from now on. Open results are ranked again within seconds."
    ),
)
DECISION_REMOVED: Final = (
    gettext_noop("Decision removed. The value is shown as received."),
    gettext_noop("Decision removed. The value is shown as received. Orders move within seconds."),
    gettext_noop(
        "Decision removed. The value is shown as received. Open results are ranked again within"
        " seconds."
    ),
)
"""The messages for a value that only has a label, for a status of orders, for a rank of results."""


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
                form.add_error(
                    None,
                    gettext("Someone else just changed this. Check the current setting below."),
                )
                row.refresh_from_db()
                form.data = {**request.POST.dict(), "seen": str(row.decision)}
            else:
                texts = DECISION_REMOVED if takes_back else SAVED
                messages.success(request, gettext(texts[_effect(row)]))
                return redirect("system:unknown-value", row.pk)
    context = {"unknown": _value_context(row), "row": row, "form": form, "obstacle": obstacle}
    return render(request, "system/unknown_value.html", context, status=status)


def latest(most: int) -> list[dict[str, object]]:
    """Return the contexts of the values seen last, at most `most`."""
    return [_value_context(row) for row in UnknownValue.objects.last_seen_first()[:most]]


def _obstacle(row: UnknownValue, user: AbstractBaseUser | AnonymousUser) -> str:
    """Return why the user cannot decide on this value; empty if they can."""
    if row.vocabulary not in vocabulary.VOCABULARIES:
        return gettext(
            "No label can be set for this value. Reading it needs a new release of the back office."
        )
    if vocabulary.is_known(row.vocabulary, row.value):
        return gettext("This release already knows this value and uses its built-in label.")
    if not may(user, "vocabulary.change"):
        return gettext("Only lab admins and administrators can set what a value means.")
    return ""


def _effect(row: UnknownValue) -> int:
    """Return the index of the message that says what follows from a decision."""
    if row.vocabulary in interpretations.VOCABULARIES:
        return 2
    return 1 if row.vocabulary == STATUS else 0


def _value_context(row: UnknownValue) -> dict[str, object]:
    """Return the template context of a value: its label, its sample record, and its list."""
    has_vocabulary = row.vocabulary in vocabulary.VOCABULARIES
    term = vocabulary.term(row.vocabulary, row.value) if has_vocabulary else None
    return {
        "row": row,
        "term": term,
        "known": has_vocabulary and vocabulary.is_known(row.vocabulary, row.value),
        "sets_rank": row.vocabulary in interpretations.VOCABULARIES,
        "moves_orders": row.vocabulary == STATUS,
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
    """Return URL and text of the link to all records with this value; empty if there is none."""
    if row.vocabulary == STATUS:
        return reverse("orders:list", query={"status": row.value}), gettext(
            "Orders with this value"
        )
    if row.vocabulary == EVENT_TYPE:
        return reverse("events:list", query={"type": row.value}), gettext("Events with this value")
    return "", ""
