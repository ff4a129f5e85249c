"""What staff do with notes and assignments. With htmx a part of the page is made anew; without, the
page one came from is shown again."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.core.exceptions import BadRequest
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from backoffice import audit
from backoffice.core.access import may, requires
from backoffice.models import User
from backoffice.team import actions
from backoffice.team.changes import MOST, changes_of
from backoffice.team.subjects import Subject, Unreadable, url_of, word_for
from backoffice.templatetags.ages import ago
from backoffice.templatetags.team import assigned_context, notes_context, staff_name

EMPTY = "Write what your colleagues should know."
TOO_LONG = f"A note has at most {actions.LETTERS:,} characters. Write it as two notes."


@requires("notes.write", "patients.view")
@require_POST
def write_note(request: HttpRequest) -> HttpResponse:
    """Add a note to a record. Nothing typed is lost by an error."""
    about, text = _about(request), request.POST.get("text", "")
    error = told = ""
    try:
        row = actions.note(request, about.type, about.id, text, about.patient_id)
    except actions.Empty:
        error = EMPTY
    except actions.TooLong:
        error = TOO_LONG
    else:
        known = actions.mentioned(row.text)
        told = _nobody([name for name in actions.names_in(row.text) if name not in known])
    context = notes_context(
        request,
        about,
        next_page=_next(request),
        typed=text if error else "",
        error=error,
        told=told,
    )
    if request.headers.get("HX-Request") == "true":
        return render(request, "team/_notes.html", context)
    if error:
        page = {"word": word_for(about.type), "back": _next(request), "notes": context}
        return render(request, "team/note.html", page, status=400)
    if told:
        messages.warning(request, told)
    return redirect(f"{_next(request)}#notes-{about.type}-{about.id}")


@requires("notes.write")
@require_POST
def take(request: HttpRequest) -> HttpResponse:
    """Make a record mine. Where somebody has it, only over the person the page showed."""
    about = _about(request)
    assert isinstance(request.user, User)
    seen = request.POST.get("seen", "")
    told = ""
    try:
        actions.assign(
            request,
            about.type,
            about.id,
            request.user,
            about.patient_id,
            take=bool(seen),
            seen=int(seen) if seen.isascii() and seen.isdigit() and len(seen) < 10 else None,
        )
    except actions.Taken as taken:
        told = _taken(taken)
    return _assigned(request, about, told)


@requires("notes.write")
@require_POST
def give_back(request: HttpRequest) -> HttpResponse:
    """Nobody is on a record any more."""
    about = _about(request)
    told = "" if actions.release(request, about.type, about.id) else "Nobody was on this any more."
    return _assigned(request, about, told)


@requires("notes.write")
@require_http_methods(["GET", "HEAD", "POST"])
def give(request: HttpRequest) -> HttpResponse:
    """Choose a colleague to work on a record."""
    about = _about(request)
    people = list(actions.colleagues().order_by("first_name", "last_name", "username"))
    error = ""
    if request.method == "POST":
        chosen = {str(user.pk): user for user in people}.get(request.POST.get("user", ""))
        if chosen is not None:
            actions.assign(request, about.type, about.id, chosen, about.patient_id, take=True)
            return _assigned(request, about, "")
        error = "Choose a colleague."
    context = {
        "about": about.signed(),
        "word": word_for(about.type),
        "people": people,
        "next_page": _next(request),
        "error": error,
        "key": f"{about.type}-{about.id}",
    }
    if request.headers.get("HX-Request") == "true":
        return render(request, "team/_give.html", context)
    return render(request, "team/give.html", context, status=400 if error else 200)


@requires("patients.view", "commands.view")
@require_safe
def changes(request: HttpRequest) -> HttpResponse:
    """What people did to a record: a part of its page, or a page of its own."""
    about = _about(request)
    audit.viewed(request, "changes", [about.id], [about.patient_id])
    context = {
        "changes": changes_of(about, sees_results=may(request.user, "results.view")),
        "most": MOST,
        "word": word_for(about.type),
        "url": url_of(about.type, about.id),
    }
    part = request.headers.get("HX-Request") == "true"
    return render(request, "team/_changes.html" if part else "team/changes.html", context)


def _assigned(request: HttpRequest, about: Subject, told: str) -> HttpResponse:
    if request.headers.get("HX-Request") == "true":
        context: dict[str, Any] = assigned_context(
            request, about, next_page=_next(request), told=told
        )
        return render(request, "team/_assigned.html", context)
    if told:
        messages.warning(request, told)
    return redirect(_next(request))


def _taken(taken: actions.Taken) -> str:
    return f"{staff_name(taken.user)} took this {ago(taken.at, timezone.now())}."


def _nobody(names: list[str]) -> str:
    if not names:
        return ""
    shown = ", ".join(f"@{name}" for name in names)
    return f"The note is kept, but nobody here is called {shown}: nobody else was told."


def _about(request: HttpRequest) -> Subject:
    signed = request.POST.get("about") or request.GET.get("about", "")
    try:
        return Subject.read(signed)
    except Unreadable:
        raise BadRequest("The form does not say what it is about. Load its page again.") from None


def _next(request: HttpRequest) -> str:
    """The page to go back to: one of ours, or else the record's own."""
    wanted = request.POST.get("next") or request.GET.get("next", "")
    if wanted.startswith("/") and url_has_allowed_host_and_scheme(wanted, None):
        return wanted
    about = _about(request)
    return url_of(about.type, about.id) or "/"
