"""Views of bulk actions: confirmation, progress, and the rows that were not done."""

from __future__ import annotations

import uuid
from typing import Any, Final
from uuid import UUID

from django.contrib import messages
from django.core.exceptions import BadRequest, PermissionDenied
from django.db.models import Count as CountOf
from django.http import Http404, HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.utils.translation import gettext, gettext_noop
from django.views.decorators.http import require_GET, require_POST

from backoffice.accounts.access import may, staff_user
from backoffice.audit.recording import record_list
from backoffice.core.urls import build_query
from backoffice.outbox import enqueueing
from backoffice.outbox.forms import CommandForm
from backoffice.outbox.models import CommandRecord
from backoffice.pages.lists.bulk import (
    BulkAction,
    MatchDigest,
    MatchesChanged,
    TooManyRows,
    rows_with_keys,
    start_run,
    stop_run,
)
from backoffice.pages.lists.definition import ListPage
from backoffice.pages.lists.views.saved_views import selected_keys, selected_rows
from backoffice.pages.models import BulkRow, BulkRun
from backoffice.pages.paging.pages import Sort, fetch_page, page_position

MAX_SHOWN: Final = 50
GONE: Final = gettext_noop("These rows no longer exist. Nothing was done.")
WAKE_TASK: Final = "backoffice.operations.tasks.run_bulk_actions"


@require_POST
def begin(request: HttpRequest, *, list_page: ListPage) -> HttpResponse:
    """Start a bulk run on the selected rows, if needed after a confirmation page with a form."""
    user = staff_user(request)
    back = request.POST.get("here", "").replace("\x00", "")[:4_000]
    if request.POST.get("verb") == "":
        messages.warning(request, gettext("Nothing was done. Choose an action."))
        return redirect(f"{list_page.url()}?{back}")
    action = _action(list_page, request.POST.get("verb", ""), user)
    filters, rows = selected_rows(request, list_page)
    if filters is None:
        messages.error(request, gettext("Some filters are invalid. Correct them first."))
        return redirect(f"{list_page.url()}?{back}")
    everything = bool(request.POST.get("everything"))
    if not everything and not selected_keys(request, list_page):
        messages.error(
            request, gettext("Select the %(nouns)s first.") % {"nouns": list_page.noun()}
        )
        return redirect(f"{list_page.url()}?{back}")
    matches = MatchDigest.of(rows)
    total = matches.total
    # A run on all matching rows always shows their number first.
    confirms_first = action.needs_confirmation or (everything and total > 0)
    begun = "go" in request.POST or not confirms_first
    data = request.POST.copy()
    data.setdefault("form_id", str(uuid.uuid4()))
    form = action.form(data) if begun else action.form()
    if begun and form.is_valid():
        if total > action.max_rows:
            form.add_error(None, _too_many(list_page, action))
        else:
            list_query = {name: values for name, values in QueryDict(back).lists() if name != "run"}
            try:
                confirmed = _confirmed(request) if everything else None
                run = start_run(
                    request, list_page, action, rows, form, list_query, confirmed=confirmed
                )
            except TooManyRows:
                form.add_error(None, _too_many(list_page, action))
            except MatchesChanged:
                matches = MatchDigest.of(rows)
                total = matches.total
                form.add_error(None, _changed(request, list_page, total))
            else:
                if run is None:
                    messages.error(request, gettext(GONE))
                    return redirect(f"{list_page.url()}?{back}")
                enqueueing.wake_worker(WAKE_TASK, "staff")
                return redirect(_back(list_page, run))
    review = action.review(rows, user) if total <= action.max_rows else {}
    keys = [] if everything else selected_keys(request, list_page)
    selected = list(rows[:MAX_SHOWN]) if keys and not review.get("shown") else []
    shown = review.get("shown") or selected
    if review.get("shown"):
        # The page lists these rows one by one. The run takes exactly them, even if the filter
        # matches others by then.
        keys, everything = [row.pk for row in shown], False
    if shown:
        record_list(
            request,
            list_page.subject,
            [row.pk for row in shown],
            map(list_page.patient_id_of, shown),
        )
    context = {
        "list_page": list_page,
        "action": action,
        "form": form,
        "total": total,
        "matches": matches,
        "noun": list_page.noun(total),
        "too_many": total > action.max_rows,
        "most": action.max_rows,
        "here": back,
        "address": f"{list_page.url()}?{back}",
        "keys": keys,
        "everything": everything,
        "query": request.POST.get("query", ""),
        "review": review,
        "selected": [list_page.label_and_url(row, user) for row in selected],
    }
    status = 422 if begun else 200
    return render(request, "lists/bulk.html", context, status=status)


@require_GET
def run_page(request: HttpRequest, key: UUID, *, list_page: ListPage) -> HttpResponse:
    """Show one run: its progress, and each row that was not done, with the reason."""
    run = _run(request, list_page, key)
    failed = BulkRow.objects.filter(run=run.pk, state=BulkRow.State.FAILED)
    page = fetch_page(failed, Sort(("key",)), size=MAX_SHOWN, **page_position(request))
    keys = [row.key for row in page.rows]
    commands = _commands(run)
    refused = CommandRecord.objects.filter(
        pk__in=_rows_of(run).exclude(command_id=None).values("command_id"),
        state__in=(CommandRecord.State.REFUSED, CommandRecord.State.UNDECIDED),
    ).order_by("requested_at")[:MAX_SHOWN]
    labels = list_page.labels_and_urls([*keys, *(row.subject_id for row in refused)], request.user)
    record_list(
        request,
        list_page.subject,
        [*keys, *(row.subject_id for row in refused)],
        [*(row.patient_id for row in page.rows), *(row.patient_id for row in refused)],
    )
    context = {
        "list_page": list_page,
        "run": run,
        "page": page,
        "failed": [(row, *_label_and_url(labels, row.key)) for row in page.rows],
        "commands": commands,
        "refused": [(row, *_label_and_url(labels, row.subject_id)) for row in refused],
        "back": _back(list_page, run, with_run=False),
        "form_id": uuid.uuid4(),
    }
    return render(request, "lists/run.html", context)


@require_GET
def run_progress(request: HttpRequest, key: UUID, *, list_page: ListPage) -> HttpResponse:
    """Return the fragment with the progress of a run. The page of the run polls it."""
    run = _run(request, list_page, key)
    context = {"run": run, "list_page": list_page, "polled": True, "commands": _commands(run)}
    return render(request, "lists/_run.html", context)


@require_POST
def stop(request: HttpRequest, key: UUID, *, list_page: ListPage) -> HttpResponse:
    run = _run(request, list_page, key)
    if stop_run(run):
        messages.success(request, gettext("Stopped. Rows already done stay done."))
    else:
        messages.error(request, gettext("It had already ended."))
    return redirect(list_page.url("run", key))


@require_POST
def repeat(request: HttpRequest, key: UUID, *, list_page: ListPage) -> HttpResponse:
    """Start a new run with the rows that were not done."""
    user = staff_user(request)
    run = _run(request, list_page, key)
    action = _action(list_page, run.verb, user)
    left = _rows_of(run).exclude(state=BulkRow.State.DONE)
    if run.is_open:
        messages.error(request, gettext("It is still in progress."))
        return redirect(list_page.url("run", key))
    rows = rows_with_keys(list_page.visible_rows(user), left)
    # The form of the first run was valid. The new run takes its values from that run.
    form = CommandForm(request.POST)
    if not form.is_valid():
        raise BadRequest(gettext("This form is not valid. Reload the page and try again."))
    new_run = start_run(request, list_page, action, rows, form, run.query, again=run)
    if new_run is None:
        messages.error(request, gettext(GONE))
        return redirect(list_page.url("run", key))
    enqueueing.wake_worker(WAKE_TASK, "staff")
    return redirect(list_page.url("run", new_run.pk))


def _confirmed(request: HttpRequest) -> MatchDigest:
    """Return the digest that the confirmation page showed.

    Without it the digest equals that of no set of rows.
    """
    sent_total = request.POST.get("total", "")
    total = (
        int(sent_total)
        if sent_total.isascii() and sent_total.isdigit() and len(sent_total) < 10
        else -1
    )
    return MatchDigest(total, request.POST.get("digest", ""))


def _changed(request: HttpRequest, list_page: ListPage, total: int) -> str:
    confirmed = _confirmed(request).total
    values = {"count": f"{total:,}", "noun": list_page.noun(total), "confirmed": f"{confirmed:,}"}
    if confirmed == total:
        message = gettext("The filter now matches different %(nouns)s. Check the list again.")
        return message % {"nouns": list_page.noun()}
    if confirmed < 0:
        return gettext("The filter matches %(count)s %(noun)s. Confirm the number.") % values
    message = gettext("The filter now matches %(count)s %(noun)s. It was %(confirmed)s before.")
    return message % values


def _action(list_page: ListPage, name: str, user: Any) -> BulkAction:
    action = next((one for one in list_page.bulk_actions if one.name == name), None)
    if action is None:
        raise BadRequest(gettext("There is no such action."))
    if not may(user, *action.needs):
        raise PermissionDenied
    return action


def _run(request: HttpRequest, list_page: ListPage, key: UUID) -> BulkRun:
    """Return a run of the current user. Raises Http404 for runs of other users."""
    run = BulkRun.objects.filter(pk=key, listing=list_page.name, asked_by=request.user.pk).first()
    if run is None:
        raise Http404
    return run


def _rows_of(run: BulkRun) -> Any:
    return BulkRow.objects.filter(run=run.pk)


def _commands(run: BulkRun) -> list[tuple[str, int]]:
    """Return the number of the run's commands in each state."""
    keys = _rows_of(run).exclude(command_id=None).values("command_id")
    states = CommandRecord.objects.filter(pk__in=keys).values_list("state")
    return sorted(states.annotate(number=CountOf("pk")).order_by("state"))


def _label_and_url(labels: dict[str, tuple[str, str]], key: str) -> tuple[str, str]:
    return labels.get(key, (key[:8], ""))


def _back(list_page: ListPage, run: BulkRun, with_run: bool = True) -> str:
    """Return the URL of the list as the user left it, with the run shown above it."""
    data = build_query(run.query)
    if with_run:
        data["run"] = str(run.pk)
    return f"{list_page.url()}?{data.urlencode()}" if data else list_page.url()


def _too_many(list_page: ListPage, action: BulkAction) -> str:
    values = {"count": f"{action.max_rows:,}", "nouns": list_page.noun()}
    return gettext("At most %(count)s %(nouns)s at a time. Narrow the filter.") % values
