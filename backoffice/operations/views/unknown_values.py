"""System > Unknown values: values that this release does not know, and decisions on them."""

from __future__ import annotations

from typing import Any, Final

from django import forms
from django.contrib import messages
from django.db import connection, transaction
from django.db.models import Max
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import NoReverseMatch, reverse
from django.utils import timezone
from django.views.decorators.http import require_http_methods, require_safe

from backoffice.accounts.access import may, requires
from backoffice.accounts.models import User
from backoffice.audit.recording import record_change
from backoffice.core import vocabulary
from backoffice.core.models import UnknownValue
from backoffice.core.vocabulary import interpretations
from backoffice.pages.paging.pages import Sort, fetch_page, page_position

SIZE: Final = 50
LAST_SEEN: Final = Sort(("last_seen", "id"), descending=True)
STATUS: Final = "order.low_level_status"
EVENT_TYPE: Final = "event_type"
BUCKETS: Final = {
    bucket: label
    for bucket, label in vocabulary.BUCKETS.items()
    if bucket != vocabulary.UNKNOWN
}  # fmt: skip
RANKS: Final = interpretations.RANKS_TO_GIVE
PLAIN: Final = {vocabulary.PLAIN: "Plain words, without a colour"}
LEADS: Final = {
    **dict.fromkeys(("order", "result", "missing"), "orders:detail"),
    "lab": "labs:detail",
    "lab_account": "labs:account",
    "lab_test": "labs:test",
    "marker": "labs:marker",
    **dict.fromkeys(("person", "connection", "historical_pull"), "patients:detail"),
    "unmatched": "unmatched:detail",
}
"""Route of the page of a sample record, by the first word of the vocabulary."""
_ONE_AT_A_TIME: Final = "SELECT pg_advisory_xact_lock(hashtext('decide on an unknown value'))"
SAVED: Final = "Saved. Pages say so from now on{}."
DECISION_REVOKED: Final = "Taken back. It is shown as it came{}."
MOVING: Final = ", and orders move within seconds"
RANKING: Final = ", and open results are ranked again within seconds"


class UnknownValueForm(forms.Form):
    """Bucket or rank, and label, of an unknown value.

    `seen` is the number of the decision that the page showed. It prevents two people from
    overwriting each other's decisions.
    """

    bucket = forms.ChoiceField(label="Bucket", widget=forms.RadioSelect)
    label = forms.CharField(
        label="Words", max_length=80, help_text="What staff read instead of the value."
    )
    seen = forms.IntegerField(widget=forms.HiddenInput)

    def __init__(self, row: UnknownValue, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.row = row
        field = self.fields["bucket"]
        assert isinstance(field, forms.ChoiceField)
        if row.vocabulary in interpretations.VOCABULARIES:
            field.label, field.choices = "Rank", list(RANKS.items())
        else:
            plain = {} if row.vocabulary == STATUS else PLAIN
            field.choices = list({**BUCKETS, **plain}.items())

    @classmethod
    def of(cls, row: UnknownValue) -> UnknownValueForm:
        words = row.label or row.value.replace("_", " ").strip().capitalize()[:80]
        return cls(row, initial={"bucket": row.bucket, "label": words, "seen": row.decision})


class DecidedMeanwhile(Exception):
    """Another person decided after the page was shown."""


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
        back = "take_back" in request.POST
        form, status = UnknownValueForm(row, request.POST), 422
        if obstacle:
            form.add_error(None, obstacle)
        elif back or form.is_valid():
            try:
                _decide(request, row, form)
            except DecidedMeanwhile:
                form.add_error(None, "Somebody has just decided on this. See what it says now.")
                row.refresh_from_db()
                form.data = {**request.POST.dict(), "seen": str(row.decision)}
            else:
                moving = MOVING if row.vocabulary == STATUS else ""
                moving = RANKING if row.vocabulary in interpretations.VOCABULARIES else moving
                messages.success(request, (DECISION_REVOKED if back else SAVED).format(moving))
                return redirect("system:unknown-value", row.pk)
    context = {"unknown": _value_context(row), "row": row, "form": form, "obstacle": obstacle}
    return render(request, "system/unknown_value.html", context, status=status)


def _decide(request: HttpRequest, row: UnknownValue, form: UnknownValueForm) -> None:
    """Save the decision with the next number, and record it in the audit trail.

    Raises DecidedMeanwhile; then nothing is saved.
    """
    back = "take_back" in request.POST
    bucket = "" if back else form.cleaned_data["bucket"]
    label = "" if back else form.cleaned_data["label"]
    with transaction.atomic():
        # The lock makes decisions commit in the order of their numbers. So a process that has read
        # one number has read all smaller ones.
        with connection.cursor() as cursor:
            cursor.execute(_ONE_AT_A_TIME)
        row.refresh_from_db()
        if request.POST.get("seen") != str(row.decision):
            raise DecidedMeanwhile
        before = _words_of(row)
        if (row.bucket, row.label) == (bucket, label):
            return
        last = UnknownValue.objects.aggregate(last=Max("decision"))["last"]
        assert isinstance(request.user, User)
        row.bucket, row.label, row.decision = bucket, label, last + 1
        row.decided_at, row.decided_by = timezone.now(), request.user
        row.spread_at, row.moved = None, 0
        row.save()
        record_change(
            request, "unknown value", [f"{row.vocabulary}: {row.value}"],
            before=before, after=_words_of(row),
        )  # fmt: skip


def latest(most: int) -> list[dict[str, Any]]:
    """Return the contexts of the values seen last, at most `most`."""
    rows = UnknownValue.objects.order_by("-last_seen", "-id")[:most]
    return [_value_context(row) for row in rows]


def _words_of(row: UnknownValue) -> dict[str, str]:
    return {"bucket": row.bucket, "words": row.label}


def _obstacle(row: UnknownValue, user: Any) -> str:
    """Return why the user cannot decide on this value; empty if they can."""
    if row.vocabulary not in vocabulary.VOCABULARIES:
        return "Only a release can teach the back office this: it has to be read, not only named."
    if vocabulary.is_known(row.vocabulary, row.value):
        return "The release that runs here knows this value. Its words hold."
    if not may(user, "vocabulary.change"):
        return "Lab admins and administrators say what a value means."
    return ""


def _value_context(row: UnknownValue) -> dict[str, Any]:
    """Return the template context of a value: its label, its sample record, and its list."""
    known = row.vocabulary in vocabulary.VOCABULARIES
    term = vocabulary.term(row.vocabulary, row.value) if known else None
    return {
        "row": row,
        "term": term,
        "known": known and vocabulary.is_known(row.vocabulary, row.value),
        "bucket": {**BUCKETS, **PLAIN, **RANKS}.get(row.bucket, ""),
        "is_ranked": row.vocabulary in interpretations.VOCABULARIES and row.decision > 0,
        "sample": _sample(row),
        "all": _all(row),
        "orders": row.vocabulary == STATUS and row.decision > 0,
        "arrived": row.spread_at is not None,
    }


def _sample(row: UnknownValue) -> str:
    """Return the URL of the record it was first found in; empty if there is none."""
    route = LEADS.get(row.vocabulary.partition(".")[0])
    if not route or not row.sample_key:
        return ""
    try:
        return reverse(route, args=[row.sample_key])
    except NoReverseMatch:
        return ""


def _all(row: UnknownValue) -> tuple[str, str]:
    """Return URL and name of the list of all records with this value; empty if there is none."""
    if row.vocabulary == STATUS:
        return reverse("orders:list", query={"status": row.value}), "Orders"
    if row.vocabulary == EVENT_TYPE:
        return reverse("events:list", query={"type": row.value}), "Events"
    return "", ""
