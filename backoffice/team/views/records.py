"""Views to write notes and change assignments.

With htmx they answer with a fragment; without it they redirect to the page of the form.
"""

from __future__ import annotations

from django.contrib import messages
from django.core.exceptions import BadRequest
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.utils.http import url_has_allowed_host_and_scheme
from django.utils.translation import gettext, gettext_noop, ngettext
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from backoffice.accounts.access import may, requires, staff_user
from backoffice.audit.recording import record_view
from backoffice.core.time_formats import ago
from backoffice.team import actions
from backoffice.team.changes import MAX_CHANGES, change_log
from backoffice.team.subjects import InvalidSubject, Subject, subject_label, subject_url
from backoffice.team.template_functions import assigned_context, notes_context, staff_name

EMPTY_NOTE = gettext_noop("Write a note first.")
NOTE_TOO_LONG = gettext_noop(
    "A note can have at most %(count)s characters. Split it into two notes."
)


@requires("notes.write", "patients.view")
@require_POST
def write_note(request: HttpRequest) -> HttpResponse:
    """Add a note to a record. After an error, the form keeps the typed text."""
    subject, text = _subject_of(request), request.POST.get("text", "")
    error = message = ""
    try:
        row = actions.add_note(request, subject.type, subject.id, text, subject.patient_id)
    except actions.EmptyNote:
        error = gettext(EMPTY_NOTE)
    except actions.NoteTooLong:
        error = gettext(NOTE_TOO_LONG) % {"count": f"{actions.MAX_NOTE_LENGTH:,}"}
    else:
        staff = actions.mentioned_staff(row.text)
        message = _unknown_names_message(
            [name for name in actions.mentioned_names(row.text) if name not in staff]
        )
    context = notes_context(
        request,
        subject,
        next_page=_return_url(request),
        typed=text if error else "",
        error=error,
        message=message,
    )
    if request.headers.get("HX-Request") == "true":
        return render(request, "team/_notes.html", context)
    if error:
        page = {"word": subject_label(subject.type), "back": _return_url(request), "notes": context}
        return render(request, "team/note.html", page, status=400)
    if message:
        messages.warning(request, message)
    return redirect(f"{_return_url(request)}#notes-{subject.type}-{subject.id}")


@requires("notes.write")
@require_POST
def assign_to_me(request: HttpRequest) -> HttpResponse:
    """Assign a record to the user. Replace only the assignee that the page showed."""
    subject = _subject_of(request)
    shown_assignee = request.POST.get("seen", "")
    message = ""
    try:
        actions.assign(
            request,
            subject.type,
            subject.id,
            staff_user(request),
            subject.patient_id,
            take=bool(shown_assignee),
            shown_assignee=int(shown_assignee)
            if shown_assignee.isascii() and shown_assignee.isdigit() and len(shown_assignee) < 10
            else None,
        )
    except actions.AlreadyAssigned as error:
        message = _already_assigned_message(error)
    return _assignment_response(request, subject, message)


@requires("notes.write")
@require_POST
def release(request: HttpRequest) -> HttpResponse:
    """End the assignment of a record."""
    subject = _subject_of(request)
    was_assigned = actions.release(request, subject.type, subject.id)
    message = "" if was_assigned else gettext("Already unassigned.")
    return _assignment_response(request, subject, message)


@requires("notes.write")
@require_http_methods(["GET", "HEAD", "POST"])
def assign_to_colleague(request: HttpRequest) -> HttpResponse:
    """Assign a record to a chosen colleague."""
    subject = _subject_of(request)
    people = list(actions.colleagues().order_by("first_name", "last_name", "username"))
    error = ""
    if request.method == "POST":
        chosen = {str(user.pk): user for user in people}.get(request.POST.get("user", ""))
        if chosen is not None:
            actions.assign(request, subject.type, subject.id, chosen, subject.patient_id, take=True)
            return _assignment_response(request, subject, "")
        error = gettext("Choose a colleague.")
    context = {
        "about": subject.signed(),
        "word": subject_label(subject.type),
        "people": people,
        "next_page": _return_url(request),
        "error": error,
        "key": f"{subject.type}-{subject.id}",
    }
    if request.headers.get("HX-Request") == "true":
        return render(request, "team/_give.html", context)
    return render(request, "team/give.html", context, status=400 if error else 200)


@requires("patients.view", "commands.view")
@require_safe
def changes(request: HttpRequest) -> HttpResponse:
    """Show the change log of a record, as a fragment or as a page of its own."""
    subject = _subject_of(request)
    record_view(request, "changes", [subject.id], [subject.patient_id])
    context = {
        "changes": change_log(subject, sees_results=may(request.user, "results.view")),
        "most": MAX_CHANGES,
        "word": subject_label(subject.type),
        "back_url": subject_url(subject.type, subject.id),
    }
    part = request.headers.get("HX-Request") == "true"
    return render(request, "team/_changes.html" if part else "team/changes.html", context)


def _assignment_response(request: HttpRequest, subject: Subject, message: str) -> HttpResponse:
    if request.headers.get("HX-Request") == "true":
        context = assigned_context(
            request, subject, next_page=_return_url(request), message=message
        )
        return render(request, "team/_assigned.html", context)
    if message:
        messages.warning(request, message)
    return redirect(_return_url(request))


def _already_assigned_message(error: actions.AlreadyAssigned) -> str:
    return gettext("%(name)s took this %(ago)s.") % {
        "name": staff_name(error.user),
        "ago": ago(error.at, timezone.now()),
    }


def _unknown_names_message(names: list[str]) -> str:
    if not names:
        return ""
    names_text = ", ".join(f"@{name}" for name in names)
    return ngettext(
        "Note saved. No one was notified as %(names)s: there is no such username.",
        "Note saved. No one was notified as %(names)s: there are no such usernames.",
        len(names),
    ) % {"names": names_text}


def _subject_of(request: HttpRequest) -> Subject:
    signed = request.POST.get("about") or request.GET.get("about", "")
    try:
        return Subject.read(signed)
    except InvalidSubject:
        raise BadRequest(
            gettext("This form is incomplete. Reload its page and try again.")
        ) from None


def _return_url(request: HttpRequest) -> str:
    """Return the URL to return to: a page of this site, or else the page of the record."""
    next_url = request.POST.get("next") or request.GET.get("next", "")
    if next_url.startswith("/") and url_has_allowed_host_and_scheme(next_url, None):
        return next_url
    subject = _subject_of(request)
    return subject_url(subject.type, subject.id) or "/"
