"""Pages that make and change lab tests."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.core.exceptions import BadRequest
from django.db.models import Q
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_safe

from backoffice.core.access import may, requires
from backoffice.outbox import Command, CommandForm
from labs.lab_tests.commands import (
    ARCHIVED,
    ArchiveLabTest,
    CreateLabTest,
    RenameLabTest,
    RestoreLabTest,
)
from labs.lab_tests.forms import NewTestForm, ReasonForm, RenameForm, orderable
from labs.models import Lab, LabTest, Marker

METHODS = ("GET", "HEAD", "POST")
SHOWN = 30
"""Markers a search shows."""
ARCHIVING = (
    "Nobody can order it any more.",
    "Orders under way go on.",
    "It can be restored later.",
)
RESTORING = ("It can be ordered again, without a new approval.",)
RENAMING = ("Orders that were placed keep the name they were placed under until they change.",)


@requires("labs.view", "lab_tests.change")
@require_http_methods(METHODS)
def new(request: HttpRequest, lab_id: int) -> HttpResponse:
    """Make a lab test at one lab."""
    lab = get_object_or_404(Lab, pk=lab_id)
    form = NewTestForm.from_request(request, lab=lab)
    searching = request.method == "POST" and "search" in request.POST
    if request.method == "POST" and not searching and form.is_valid():
        if form.enqueue(request, _creation(form)) is not None:
            return redirect(f"{reverse('labs:detail', args=[lab.pk])}?show=tests")
    elif searching:
        form.errors.clear()  # Looking for a marker is not yet asking.
    word = _word(request.POST.get("find", ""))
    chosen = form.chosen()
    context = {
        "lab": lab,
        "form": form,
        "find": word,
        "chosen": chosen,
        "markers": _found(lab, word, {marker.pk for marker in chosen}),
    }
    failed = request.method == "POST" and not searching
    return render(request, "labs/testing/new.html", context, status=422 if failed else 200)


@requires("labs.view", "lab_tests.change")
@require_safe
def markers(request: HttpRequest, lab_id: int) -> HttpResponse:
    """Markers of a lab to choose from: the part of the page that lists them."""
    lab = get_object_or_404(Lab, pk=lab_id)
    form = NewTestForm(request.GET, lab=lab)
    chosen = form.chosen()
    word = _word(request.GET.get("find", ""))
    context = {
        "lab": lab,
        "find": word,
        "chosen": chosen,
        "markers": _found(lab, word, {marker.pk for marker in chosen}),
    }
    return render(request, "labs/testing/_markers.html", context)


@requires("labs.view", "lab_tests.change")
@require_http_methods(METHODS)
def rename(request: HttpRequest, lab_test_id: UUID) -> HttpResponse:
    """Give a lab test another name."""
    test = get_object_or_404(LabTest, pk=lab_test_id)
    form = RenameForm.from_request(request, initial={"name": test.name})
    command: Command | None = None
    if request.method == "POST" and form.is_valid():
        command = RenameLabTest(
            lab_test_id=test.pk, name=test.name, new_name=form.cleaned_data["name"]
        )
    return _change(request, test, form, command, "Rename", "Rename it", RENAMING)


@requires("labs.view", "lab_tests.change")
@require_http_methods(METHODS)
def archive(request: HttpRequest, lab_test_id: UUID) -> HttpResponse:
    """Take a lab test out of use."""
    test = get_object_or_404(LabTest, pk=lab_test_id)
    command = ArchiveLabTest(lab_test_id=test.pk, name=test.name)
    form = ReasonForm.from_request(request)
    return _change(request, test, form, command, "Archive", "Archive it", ARCHIVING)


@requires("labs.view", "lab_tests.change")
@require_http_methods(METHODS)
def restore(request: HttpRequest, lab_test_id: UUID) -> HttpResponse:
    """Bring an archived lab test back."""
    test = get_object_or_404(LabTest, pk=lab_test_id)
    command = RestoreLabTest(lab_test_id=test.pk, name=test.name)
    form = ReasonForm.from_request(request)
    return _change(request, test, form, command, "Restore", "Restore it", RESTORING)


def actions_of(test: LabTest, user: Any) -> list[tuple[str, str]]:
    """What this person may do with a lab test: address name and words."""
    if not may(user, "lab_tests.change") or test.auto_generated or test.missing_since:
        return []
    if test.status == ARCHIVED:
        return [("labs:test-restore", "Restore…")]
    return [("labs:test-rename", "Rename…"), ("labs:test-archive", "Archive…")]


def _change(
    request: HttpRequest,
    test: LabTest,
    form: CommandForm,
    command: Command | None,
    title: str,
    verb: str,
    follows: tuple[str, ...],
) -> HttpResponse:
    if command is not None and request.method == "POST" and form.is_valid():
        reason = form.cleaned_data["reason"]
        if form.enqueue(request, command, reason) is not None:
            return redirect("labs:test", test.pk)
    context = {"test": test, "form": form, "title": title, "verb": verb, "follows": follows}
    status = 422 if request.method == "POST" else 200
    return render(request, "labs/testing/change.html", context, status=status)


def _creation(form: NewTestForm) -> CreateLabTest:
    given = form.cleaned_data
    chosen = form.chosen()
    codes = [marker.provider_id for marker in chosen if marker.provider_id]
    return CreateLabTest(
        lab_id=form.lab.pk,
        lab_slug=form.lab.slug,
        name=given["name"],
        method=given["method"],
        description=given["description"],
        marker_ids=[marker.pk for marker in chosen],
        codes=codes if len(codes) == len(chosen) else None,
        fasting=given["fasting"],
        lab_account_id=UUID(given["lab_account"]) if given["lab_account"] else None,
    )


def _found(lab: Lab, word: str, chosen: set[int]) -> list[Marker]:
    """Markers by a part of their name or the beginning of the lab's code, less the chosen ones."""
    rows = orderable(lab).exclude(pk__in=chosen)
    if word:
        rows = rows.filter(Q(name__icontains=word) | Q(provider_id__istartswith=word))
    return list(rows.order_by("name", "id")[:SHOWN])


def _word(text: str) -> str:
    if "\x00" in text:
        raise BadRequest("A search holds letters.")
    return text.strip()[:100]
