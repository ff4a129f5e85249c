"""Pages of work on many rows: what will happen, how far it is, what was not done."""

from __future__ import annotations

import uuid
from typing import Any, Final
from uuid import UUID

from django.contrib import messages
from django.core.exceptions import BadRequest, PermissionDenied
from django.db.models import Count as CountOf
from django.http import Http404, HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.views.decorators.http import require_GET, require_POST

from backoffice import audit
from backoffice.core.access import may
from backoffice.core.urls import build_query
from backoffice.models import CommandRecord
from backoffice.outbox import CommandForm, enqueueing
from backoffice.pages.lists.bulk import Changed, Matches, TooMany, Verb, start, stop
from backoffice.pages.lists.definition import Listing, staff_of
from backoffice.pages.lists.models import BulkRow, BulkRun
from backoffice.pages.lists.views.saved_views import keys_of, selected
from backoffice.pages.paging.pages import Sort, fetch_page, page_position

SHOWN: Final = 50
GONE: Final = "None of these rows is there any more: nothing was done."
BELL: Final = "orders.tasks.work_on_lists"


@require_POST
def bulk(request: HttpRequest, *, listing: Listing) -> HttpResponse:
    """Begin to do something to the chosen rows, after a page that says what and asks for more."""
    user = staff_of(request)
    back = request.POST.get("here", "").replace("\x00", "")[:4_000]
    if request.POST.get("verb") == "":
        messages.warning(request, "Nothing was done: press the button of what is to be done.")
        return redirect(f"{listing.address()}?{back}")
    verb = _verb(listing, request.POST.get("verb", ""), user)
    filters, rows = selected(request, listing)
    if filters is None:
        messages.error(request, "These filters cannot be read any more: correct them first.")
        return redirect(f"{listing.address()}?{back}")
    everything = bool(request.POST.get("everything"))
    if not everything and not keys_of(request):
        messages.error(request, f"Tick the {listing.nouns[1]} first.")
        return redirect(f"{listing.address()}?{back}")
    matches = Matches.of(rows)
    total = matches.total
    # Of all that match one is always told how many there are before it begins.
    asked_first = verb.asked_first or (everything and total > 0)
    begun = "go" in request.POST or not asked_first
    data = request.POST.copy()
    data.setdefault("form_id", str(uuid.uuid4()))
    form = verb.form(data) if begun else verb.form()
    if begun and form.is_valid():
        if total > verb.most:
            form.add_error(None, _too_many(listing, verb))
        else:
            kept = {name: values for name, values in QueryDict(back).lists() if name != "run"}
            try:
                confirmed = _confirmed(request) if everything else None
                found = start(request, listing, verb, rows, form, kept, confirmed=confirmed)
            except TooMany:
                form.add_error(None, _too_many(listing, verb))
            except Changed:
                matches = Matches.of(rows)
                total = matches.total
                form.add_error(None, _changed(request, listing, total))
            else:
                if found is None:
                    messages.error(request, GONE)
                    return redirect(f"{listing.address()}?{back}")
                enqueueing.wake_worker(BELL, "staff")
                return redirect(_back(listing, found))
    review = verb.review(rows, user) if total <= verb.most else {}
    keys = [] if everything else keys_of(request)
    if review.get("shown"):
        shown = review["shown"]
        # What is told one by one is what will be done, whatever the filter finds by then.
        keys, everything = [row.pk for row in shown], False
        audit.record_list(
            request, listing.subject, [row.pk for row in shown], map(listing.patient_of, shown)
        )
    context = {
        "listing": listing,
        "verb": verb,
        "form": form,
        "total": total,
        "matches": matches,
        "noun": listing.nouns[total != 1],
        "too_many": total > verb.most,
        "most": verb.most,
        "here": back,
        "address": f"{listing.address()}?{back}",
        "keys": keys,
        "everything": everything,
        "query": request.POST.get("query", ""),
        "review": review,
    }
    status = 422 if begun else 200
    return render(request, "lists/bulk.html", context, status=status)


@require_GET
def run(request: HttpRequest, key: UUID, *, listing: Listing) -> HttpResponse:
    """One run: how far it is, and each row that was not done, with why."""
    found = _run(request, listing, key)
    failed = BulkRow.objects.filter(run=found.pk, state=BulkRow.State.FAILED)
    page = fetch_page(failed, Sort(("key",)), size=SHOWN, **page_position(request))
    told = listing.told([row.key for row in page.rows], request.user)
    commands = _commands(found)
    refused = CommandRecord.objects.filter(
        pk__in=_rows_of(found).exclude(command_id=None).values("command_id"),
        state__in=(CommandRecord.State.REFUSED, CommandRecord.State.UNDECIDED),
    ).order_by("requested_at")[:SHOWN]
    refused_told = listing.told([UUID(row.subject_id) for row in refused], request.user)
    audit.record_list(
        request,
        listing.subject,
        [*(row.key for row in page.rows), *(row.subject_id for row in refused)],
        [*(row.patient_id for row in page.rows), *(row.patient_id for row in refused)],
    )
    context = {
        "listing": listing,
        "run": found,
        "page": page,
        "failed": [(row, *_named(told, row.key)) for row in page.rows],
        "commands": commands,
        "refused": [(row, *_named(refused_told, UUID(row.subject_id))) for row in refused],
        "back": _back(listing, found, shown=False),
        "form_id": uuid.uuid4(),
    }
    return render(request, "lists/run.html", context)


@require_GET
def strip(request: HttpRequest, key: UUID, *, listing: Listing) -> HttpResponse:
    """How far it is, for the page that shows it."""
    found = _run(request, listing, key)
    context = {"run": found, "listing": listing, "polled": True, "commands": _commands(found)}
    return render(request, "lists/_run.html", context)


@require_POST
def stop_run(request: HttpRequest, key: UUID, *, listing: Listing) -> HttpResponse:
    found = _run(request, listing, key)
    if stop(found):
        messages.success(request, "Stopped. What was done so far stays done.")
    else:
        messages.error(request, "It had ended already.")
    return redirect(listing.address("run", key))


@require_POST
def again(request: HttpRequest, key: UUID, *, listing: Listing) -> HttpResponse:
    """The rows that were not done, once more."""
    user = staff_of(request)
    found = _run(request, listing, key)
    verb = _verb(listing, found.verb, user)
    left = _rows_of(found).exclude(state=BulkRow.State.DONE)
    if found.is_open:
        messages.error(request, "It is still under way.")
        return redirect(listing.address("run", key))
    rows = listing.everything(user).filter(pk__in=left.values("key"))
    # The form of the first time was valid; its contents are the run's.
    form = CommandForm(request.POST)
    if not form.is_valid():
        raise BadRequest("This form is not one of ours.")
    made = start(request, listing, verb, rows, form, found.query, again=found)
    if made is None:
        messages.error(request, GONE)
        return redirect(listing.address("run", key))
    enqueueing.wake_worker(BELL, "staff")
    return redirect(listing.address("run", made.pk))


def _confirmed(request: HttpRequest) -> Matches:
    """What the page before showed; what matches nothing where it was not shown."""
    seen = request.POST.get("total", "")
    total = int(seen) if seen.isascii() and seen.isdigit() and len(seen) < 10 else -1
    return Matches(total, request.POST.get("matches", ""))


def _changed(request: HttpRequest, listing: Listing, total: int) -> str:
    seen = _confirmed(request).total
    noun = listing.nouns[total != 1]
    if seen == total:
        return f"Other {listing.nouns[1]} match now than when you looked. Check the list again."
    if seen < 0:
        return f"The filter matches {total:,} {noun}. Confirm the number."
    return f"The filter matches {total:,} {noun} now; it was {seen:,} when you looked."


def _verb(listing: Listing, name: str, user: Any) -> Verb:
    verb = next((one for one in listing.verbs if one.name == name), None)
    if verb is None:
        raise BadRequest("There is nothing of this kind to do.")
    if not may(user, *verb.needs):
        raise PermissionDenied
    return verb


def _run(request: HttpRequest, listing: Listing, key: UUID) -> BulkRun:
    """Runs are seen by who asked for them."""
    found = BulkRun.objects.filter(pk=key, listing=listing.name, asked_by=request.user.pk).first()
    if found is None:
        raise Http404
    return found


def _rows_of(found: BulkRun) -> Any:
    return BulkRow.objects.filter(run=found.pk)


def _commands(found: BulkRun) -> list[tuple[str, int]]:
    """How what was asked of the service stands, in numbers."""
    keys = _rows_of(found).exclude(command_id=None).values("command_id")
    states = CommandRecord.objects.filter(pk__in=keys).values_list("state")
    return sorted(states.annotate(number=CountOf("pk")).order_by("state"))


def _named(told: dict[UUID, tuple[str, str]], key: UUID) -> tuple[str, str]:
    return told.get(key, (str(key)[:8], ""))


def _back(listing: Listing, found: BulkRun, shown: bool = True) -> str:
    """The list as it was left, with the run above it."""
    data = build_query(found.query)
    if shown:
        data["run"] = str(found.pk)
    return f"{listing.address()}?{data.urlencode()}" if data else listing.address()


def _too_many(listing: Listing, verb: Verb) -> str:
    return f"At most {verb.most:,} {listing.nouns[1]} at once: narrow the filter."
