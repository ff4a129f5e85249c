"""Pages that create and change lab tests."""

from __future__ import annotations

from uuid import UUID

from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils.translation import gettext, gettext_noop
from django.views.decorators.http import require_http_methods, require_safe

from backoffice.accounts.access import may, requires
from backoffice.accounts.models import User
from backoffice.outbox.command import Command
from backoffice.outbox.forms import CommandForm
from labs.lab_tests.commands import (
    ARCHIVED,
    ArchiveLabTest,
    CreateLabTest,
    RenameLabTest,
    RestoreLabTest,
)
from labs.lab_tests.forms import NewTestForm, ReasonForm, RenameForm
from labs.models import Lab, LabTest, Marker
from labs.search_texts import clean_search_text

METHODS = ("GET", "HEAD", "POST")
MAX_FOUND = 30
"""Most markers that a search shows."""
ARCHIVE_EFFECTS = (
    gettext_noop("The test can no longer be ordered."),
    gettext_noop("Open orders continue."),
    gettext_noop("You can restore the test later."),
)
RESTORE_EFFECTS = (gettext_noop("The test can be ordered again. No new approval is needed."),)
RENAME_EFFECTS = (gettext_noop("Existing orders keep the old name until they are next updated."),)


@requires("labs.view", "lab_tests.change")
@require_http_methods(METHODS)
def new(request: HttpRequest, lab_id: int) -> HttpResponse:
    """Create a lab test at one lab."""
    lab = get_object_or_404(Lab, pk=lab_id)
    form = NewTestForm.from_request(request, lab=lab)
    is_search = "search" in request.POST
    is_submitted = request.method == "POST" and not is_search
    if is_submitted and form.is_valid():
        if form.enqueue(request, _create_command(form)) is not None:
            return redirect(f"{reverse('labs:detail', args=[lab.pk])}?show=tests")
    elif is_search:
        form.errors.clear()  # A search for markers does not submit the form.
    context = {**_marker_context(form, request.POST.get("find", "")), "form": form}
    return render(request, "labs/testing/new.html", context, status=422 if is_submitted else 200)


@requires("labs.view", "lab_tests.change")
@require_safe
def markers(request: HttpRequest, lab_id: int) -> HttpResponse:
    """List markers of a lab to choose from: a fragment."""
    lab = get_object_or_404(Lab, pk=lab_id)
    form = NewTestForm(request.GET, lab=lab)
    context = _marker_context(form, request.GET.get("find", ""))
    return render(request, "labs/testing/_markers.html", context)


@requires("labs.view", "lab_tests.change")
@require_http_methods(METHODS)
def rename(request: HttpRequest, lab_test_id: UUID) -> HttpResponse:
    """Rename a lab test."""
    test = get_object_or_404(LabTest, pk=lab_test_id)
    form = RenameForm.from_request(request, initial={"name": test.name})
    command: Command | None = None
    if request.method == "POST" and form.is_valid():
        command = RenameLabTest(
            lab_test_id=test.pk, name=test.name, new_name=form.cleaned_data["name"]
        )
    return _change(request, test, form, command, gettext("Rename lab test"), RENAME_EFFECTS)


@requires("labs.view", "lab_tests.change")
@require_http_methods(METHODS)
def archive(request: HttpRequest, lab_test_id: UUID) -> HttpResponse:
    """Archive a lab test."""
    test = get_object_or_404(LabTest, pk=lab_test_id)
    command = ArchiveLabTest(lab_test_id=test.pk, name=test.name)
    form = ReasonForm.from_request(request)
    return _change(request, test, form, command, gettext("Archive lab test"), ARCHIVE_EFFECTS)


@requires("labs.view", "lab_tests.change")
@require_http_methods(METHODS)
def restore(request: HttpRequest, lab_test_id: UUID) -> HttpResponse:
    """Restore an archived lab test."""
    test = get_object_or_404(LabTest, pk=lab_test_id)
    command = RestoreLabTest(lab_test_id=test.pk, name=test.name)
    form = ReasonForm.from_request(request)
    return _change(request, test, form, command, gettext("Restore lab test"), RESTORE_EFFECTS)


def actions_of(test: LabTest, user: User) -> list[tuple[str, str]]:
    """Return the actions that this user may take: URL name and label."""
    if not may(user, "lab_tests.change") or test.auto_generated or test.missing_since:
        return []
    if test.status == ARCHIVED:
        return [("labs:test-restore", gettext("Restore…"))]
    return [("labs:test-rename", gettext("Rename…")), ("labs:test-archive", gettext("Archive…"))]


def _change(
    request: HttpRequest,
    test: LabTest,
    form: CommandForm,
    command: Command | None,
    title: str,
    follows: tuple[str, ...],
) -> HttpResponse:
    if command is not None and request.method == "POST" and form.is_valid():
        reason = form.cleaned_data["reason"]
        if form.enqueue(request, command, reason) is not None:
            return redirect("labs:test", test.pk)
    context = {
        "test": test,
        "form": form,
        "title": title,
        "follows": [gettext(effect) for effect in follows],
    }
    status = 422 if request.method == "POST" else 200
    return render(request, "labs/testing/change.html", context, status=status)


def _create_command(form: NewTestForm) -> CreateLabTest:
    data = form.cleaned_data
    chosen = form.chosen()
    codes = [marker.provider_id for marker in chosen if marker.provider_id]
    return CreateLabTest(
        lab_id=form.lab.pk,
        lab_slug=form.lab.slug,
        name=data["name"],
        method=data["method"],
        description=data["description"],
        marker_ids=[marker.pk for marker in chosen],
        codes=codes if len(codes) == len(chosen) else None,
        fasting=data["fasting"],
        lab_account_id=UUID(data["lab_account"]) if data["lab_account"] else None,
    )


def _marker_context(form: NewTestForm, text: str) -> dict[str, object]:
    """Return the chosen markers, and the first other ones that match the search text."""
    text, chosen = clean_search_text(text), form.chosen()
    others = Marker.objects.orderable_at(form.lab).exclude(pk__in=[marker.pk for marker in chosen])
    found = others.matching(text).order_by("name", "id")[:MAX_FOUND]
    return {"lab": form.lab, "find": text, "chosen": chosen, "markers": list(found)}
