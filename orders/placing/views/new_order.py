"""The page where an order is written, and the page where it is reviewed and placed."""

from __future__ import annotations

from typing import Final
from uuid import UUID

from django import forms
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils.http import urlencode
from django.utils.safestring import mark_safe
from django.utils.translation import gettext, gettext_noop
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from backoffice.accounts.access import requires, staff_user
from backoffice.audit.recording import record_view
from backoffice.outbox.command import PreconditionFailed
from backoffice.outbox.enqueueing import WRITTEN, Conflict, enqueue
from backoffice.outbox.forms import CommandForm, conflict_message, resubmitted_command
from backoffice.outbox.models import CommandRecord
from backoffice.pages.hidden_answers import unshown
from orders.models import Order, OrderDraft
from orders.placing import drafts, request_bodies
from orders.placing.catalog_choices import choices
from orders.placing.diagnoses import Matches, check_codes, match_diagnoses
from orders.placing.finding_type import CONFIRM, STOP, Finding
from orders.placing.findings import (
    CONFIRM_TO_CONTINUE,
    UNNAMED_CONFIRMATION,
    blocking_findings,
    findings,
    recent_same_order,
)
from orders.placing.former_answers import former_answers
from orders.placing.forms import PlaceForm, order_values
from orders.placing.order_request import FormValues, OrderRequest, codes_in
from orders.placing.requested_accounts import order_sources
from patients.models import Demographics, Patient

METHODS: Final = ("GET", "HEAD", "POST")
PERMISSIONS: Final = ("orders.view", "patients.view", "labs.view", "orders.create")
FIELD_HINTS: Final = (
    ("collection_method", "collection_method"),
    ("collection method", "collection_method"),
    ("physician", "physician"),
    ("account", "lab_account"),
    ("icd", "icd_codes"),
    ("diagnosis", "icd_codes"),
    ("billing", "billing_type"),
    ("insurance", "billing_type"),
    ("activate_by", "activate_by"),
    ("proxy", "dob"),
    ("minor", "dob"),
    ("sample", "sample_id"),
    ("address", "first_line"),
)
"""Parts of refusal messages that come without a field (orders.md 2.3: match them loosely)."""
CODE_LETTERS: Final = 20
CHANGED: Final = gettext_noop("The draft has changed. Review it again.")


class OrderReviewForm(CommandForm):
    """Proves that the placed draft is the reviewed one: the draft may change in another tab."""

    draft = forms.CharField(widget=forms.HiddenInput, required=False)

    def is_same_draft(self, command: CommandRecord) -> bool:
        return drafts.digest(command.form_data) == str(self.cleaned_data["draft"])


@requires(*PERMISSIONS)
@require_safe
def start(request: HttpRequest) -> HttpResponse:
    """Start an order that replaces or repeats another one. Otherwise, first choose a patient."""
    for name in ("replaces", "repeat"):
        order_text = request.GET.get(name, "")
        if order_text:
            order = _order(order_text)
            address = reverse("orders:new", args=[order.user_id])
            return redirect(f"{address}?{urlencode({name: str(order.pk)})}")
    return redirect("patients:list")


@requires(*PERMISSIONS)
@require_http_methods(METHODS)
def edit(request: HttpRequest, patient_id: UUID, *, importing: bool = False) -> HttpResponse:
    """Show the page where an order is written."""
    patient, person = _patient_and_demographics(patient_id)
    if request.method == "POST":
        return _save_and_answer(request, patient, person, importing)
    draft = drafts.find_draft(staff_user(request), patient, importing)
    refused = _refused_command(request, patient)
    first_values = _initial_values(request, patient, person, refused, importing)
    if first_values and draft is not None and draft.typed != first_values:
        record_view(request, "patient", [patient.pk], [patient.pk])
        context = {
            "order_request": OrderRequest(patient, person, first_values, importing),
            "draft": draft,
        }
        context["address"] = _address(patient, importing)
        return render(request, "orders/placing/begin.html", context)
    if first_values:
        typed, draft = first_values, None
    elif draft is not None:
        typed = draft.typed
    else:
        typed = drafts.person_values(patient, person)
    order_request = OrderRequest(patient, person, typed, importing)
    form = PlaceForm(order_request)
    if refused is not None:
        _show_refusal(form, refused)
    record_view(request, "patient", [patient.pk], [patient.pk])
    return _page(request, form, draft=draft)


@requires(*PERMISSIONS)
@require_safe
def search_panels(request: HttpRequest, patient_id: UUID) -> HttpResponse:
    """Show panels and markers that match the typed letters: a fragment."""
    patient, person = _patient_and_demographics(patient_id)
    importing = request.GET.get("importing") == "yes"
    order_request = OrderRequest(patient, person, order_values(request.GET), importing)
    word = request.GET.get("panel", "").strip()
    context = {
        "order_request": order_request,
        "word": word,
        "choices": choices(order_request, word),
    }
    return render(request, "orders/placing/_choices.html", context)


@requires(*PERMISSIONS)
@require_POST
def search_diagnoses(request: HttpRequest) -> HttpResponse:
    """Show diagnosis codes for the typed letters: a fragment.

    It is a POST, so that no URL has a diagnosis.
    """
    return render(request, "orders/placing/_diagnoses.html", {"matches": _matches(request)})


def _matches(request: HttpRequest) -> Matches:
    chosen = codes_in(request.POST.get("icd_codes", ""))
    return match_diagnoses(request.POST.get("diagnosis", ""), chosen)


@requires(*PERMISSIONS)
@require_http_methods(METHODS)
def review(request: HttpRequest, patient_id: UUID, *, importing: bool = False) -> HttpResponse:
    """Show the order as it will be sent, with the button that sends it."""
    patient, person = _patient_and_demographics(patient_id)
    draft = drafts.find_draft(staff_user(request), patient, importing)
    review_form = OrderReviewForm(request.POST if request.method == "POST" else None)
    if review_form.is_valid():
        # After a second click the draft is gone, but the command of the first click exists.
        same = CommandRecord.objects.filter(form_id=review_form.cleaned_data["form_id"]).first()
        if (
            same is not None
            and same.requested_by_id == request.user.pk
            and review_form.is_same_draft(same)
        ):
            return redirect("commands:detail", same.pk)
    if draft is None:
        return redirect(_address(patient, importing))
    order_request = OrderRequest(patient, person, draft.typed, importing)
    all_findings, place_form = findings(order_request), PlaceForm(order_request)
    if blocking_findings(all_findings, order_request) or not place_form.is_valid():
        return redirect(f"{_address(patient, importing)}?check=1")
    form = OrderReviewForm(initial={"draft": drafts.digest(draft.typed)})
    if request.method == "POST":
        command = _enqueue(request, review_form, order_request)
        if isinstance(command, CommandRecord):
            drafts.delete_draft(staff_user(request), patient, importing)
            return redirect("commands:detail", command.pk)
        form = OrderReviewForm({name: form[name].value() for name in form.fields})
        form.full_clean()
        form.add_error(None, command)
    all_findings += check_codes(order_request.icd_codes)
    record_view(request, "patient", [patient.pk], [patient.pk])
    context = {
        "form": form,
        "order_request": order_request,
        "place_form": place_form,
        "findings": all_findings,
        "stopped": [finding for finding in all_findings if finding.level == STOP],
        "back": _address(patient, importing),
        "name": f"{order_request.value('first_name')} {order_request.value('last_name')}",
    }
    status = 422 if request.method == "POST" else 200
    return render(request, "orders/placing/review.html", context, status=status)


def _enqueue(
    request: HttpRequest, review_form: OrderReviewForm, order_request: OrderRequest
) -> CommandRecord | str:
    """Enqueue the reviewed order, or return why that is not possible now."""
    if not review_form.is_valid() or review_form.cleaned_data["draft"] != drafts.digest(
        order_request.typed
    ):
        return gettext(CHANGED)
    command = (
        request_bodies.import_command(order_request)
        if order_request.importing
        else request_bodies.create_command(order_request)
    )
    typed = {name: list(values) for name, values in order_request.typed.items()}
    try:
        return enqueue(request, command, review_form.cleaned_data["form_id"], "", typed)
    except PreconditionFailed as error:
        return error.message
    except Conflict as error:
        return conflict_message(error.other, request.user)


def _save_and_answer(
    request: HttpRequest, patient: Patient, person: Demographics | None, importing: bool
) -> HttpResponse:
    """Save the typed values, and return the page's messages about them."""
    do, typed = request.POST.get("do", ""), order_values(request.POST)
    address = _address(patient, importing)
    if do == "discard":
        drafts.delete_draft(staff_user(request), patient, importing)
        return redirect(address)
    if do == "begin":
        refused = _refused_command(request, patient)
        if first_values := _initial_values(request, patient, person, refused, importing):
            drafts.save_draft(staff_user(request), patient, importing, first_values)
        return redirect(f"{address}?again={refused.pk}" if refused else address)
    code = request.POST.get("add_code", "").replace("\x00", "")[:CODE_LETTERS]
    if code and not importing:
        typed["icd_codes"] = [_with_code(typed.get("icd_codes", [""])[-1], code)]
    order_request = OrderRequest(patient, person, typed, importing)
    if order_request.replaced_order_source is not None:
        # New tests may ask questions that already have answers.
        typed.update(
            {**former_answers(order_request.replaced_order_source, order_request), **typed}
        )
    _name_confirmations(
        order_request, typed, is_same_choice=_has_same_choice(request, order_request)
    )
    drafts.save_draft(staff_user(request), patient, importing, typed, request.POST.get(WRITTEN, ""))
    if do == "leave":
        return HttpResponse(status=204)
    if code:
        return redirect(f"{address}#id_icd_codes")
    form = PlaceForm(order_request)
    if do == "diagnose":
        return _page(request, form, matches=_matches(request))
    if do == "review":
        all_findings = findings(order_request)
        if form.is_valid() and not blocking_findings(all_findings, order_request):
            return redirect(_address(patient, importing, "review"))
        return _page(request, form, status=422, check=True)
    if request.headers.get("HX-Request") == "true":
        return _refreshed(request, form)
    word = request.POST.get("panel", "").strip()
    return redirect(f"{address}?{urlencode({'panel': word})}" if word else address)


def _with_code(typed: str, code: str) -> str:
    """Return the typed codes and one more, unless it is already among them."""
    return typed if code.upper() in codes_in(typed) else f"{typed.strip()} {code}".strip()


def _has_same_choice(request: HttpRequest, order_request: OrderRequest) -> bool:
    """Whether the submitted page showed the same chosen tests and markers."""
    before = request.POST.get("shape")
    return before is None or before.partition("|")[0] == order_request.chosen_ids


def _name_confirmations(
    order_request: OrderRequest, typed: dict[str, list[str]], *, is_same_choice: bool
) -> None:
    """Add to each confirmation the order that it confirms.

    A confirmation without an order is for the order that the page showed.
    """
    if UNNAMED_CONFIRMATION not in typed.get("another", ()):
        return
    named = [key for key in typed.pop("another") if key != UNNAMED_CONFIRMATION]
    last = recent_same_order(order_request) if is_same_choice else None
    if last is not None:
        named.append(str(last.pk))
    if named:
        typed["another"] = named


def _refreshed(request: HttpRequest, form: PlaceForm) -> HttpResponse:
    """Return the changed parts of the page: the summary, and fields that depend on a choice.

    A choice ends the search that it was made in.
    """
    is_same = _has_same_choice(request, form.order_request)
    context = _context(request, form, word=request.POST.get("panel", "") if is_same else "")
    if request.POST.get("shape") == form.order_request.shape:
        return render(request, "orders/placing/_summary.html", context)
    response = render(request, "orders/placing/_changed.html", context)
    response.headers["HX-Retarget"] = "#blocks"
    return response


def _page(
    request: HttpRequest,
    form: PlaceForm,
    *,
    draft: OrderDraft | None = None,
    status: int = 200,
    check: bool = False,
    matches: Matches | None = None,
) -> HttpResponse:
    all_findings = findings(form.order_request)
    if check or request.GET.get("check"):
        _add_blocking_errors(form, all_findings)
    word = request.GET.get("panel", request.POST.get("panel", ""))
    context = _context(request, form, word, all_findings, matches)
    return render(request, "orders/placing/write.html", {**context, "draft": draft}, status=status)


def _context(
    request: HttpRequest,
    form: PlaceForm,
    word: str,
    all_findings: list[Finding] | None = None,
    matches: Matches | None = None,
) -> dict[str, object]:
    """Return the context of the page.

    It includes answers to questions that the page does not show now.
    """
    order_request, word = form.order_request, word.strip()
    all_findings = findings(order_request) if all_findings is None else all_findings
    context: dict[str, object] = {
        "order_request": order_request,
        "form": form,
        "findings": all_findings,
        "stopped": blocking_findings(all_findings, order_request),
        "confirm": next((finding for finding in all_findings if finding.level == CONFIRM), None),
        "who_open": any(finding.field in form.WHO for finding in all_findings)
        or any(name in form.WHO for name in form.errors),
        "choices": choices(order_request, word),
        "word": word,
        "matches": matches,
        "diagnosis": request.POST.get("diagnosis", "").replace("\x00", ""),
        "address": _address(order_request.patient, order_request.importing),
    }
    blocks = mark_safe(  # noqa: S308 - HTML of a template
        render_to_string("orders/placing/_blocks.html", context, request=request)
    )
    context["blocks"] = blocks
    summary = render_to_string("orders/placing/_summary.html", context, request=request)
    return {**context, "unshown": unshown(order_request.typed, blocks + summary)}


def _add_blocking_errors(form: PlaceForm, all_findings: list[Finding]) -> None:
    """Show the findings that stop an order as errors of their fields."""
    form.is_valid()
    for finding in blocking_findings(all_findings, form.order_request):
        field = finding.field if finding.field in form.fields else None
        if field is None or field not in form.errors:
            words = finding.words
            if finding.level == CONFIRM:
                words = f"{words} {gettext(CONFIRM_TO_CONTINUE)}"
            form.add_error(field, words)


def _show_refusal(form: PlaceForm, refused: CommandRecord) -> None:
    """Show the service's refusal of the same order as errors of the fields that it named."""
    form.is_valid()
    named = {refusal["field"] for refusal in refused.refusal_fields} & form.fields.keys()
    for refusal in refused.refusal_fields:
        if refusal["field"] in named:
            form.add_error(refusal["field"], refusal["words"])
    if refused.refusal and not named:
        form.add_error(_refused_field(refused.refusal, form), refused.refusal)


def _refused_field(words: str, form: PlaceForm) -> str | None:
    """Return the field that a refusal without a field is about, according to its text."""
    lowered = words.lower()
    for hint, field in FIELD_HINTS:
        if hint in lowered and field in form.fields:
            return field
    return None


def _patient_and_demographics(patient_id: UUID) -> tuple[Patient, Demographics | None]:
    patient = Patient.objects.filter(pk=patient_id, missing_since=None).first()
    if patient is None:
        raise Http404
    return patient, Demographics.objects.filter(pk=patient.pk).first()


def _initial_values(
    request: HttpRequest,
    patient: Patient,
    person: Demographics | None,
    refused: CommandRecord | None,
    importing: bool,
) -> FormValues:
    """Return the values of a refused order, or of the order that this one repeats or replaces."""
    if refused is not None:
        return dict(refused.form_data)
    replaces, repeat = request.GET.get("replaces", ""), request.GET.get("repeat", "")
    if not replaces and not repeat:
        return {}
    order = _order(replaces or repeat)
    if order.user_id != patient.pk:
        raise Http404
    typed = {**drafts.person_values(patient, person), **drafts.values_like(order)}
    if replaces:
        typed["replaces"] = [str(order.pk)]
    if not importing and (replaces or order.was_canceled()):
        source = order_sources([order]).get(order.pk)
        typed |= former_answers(source, OrderRequest(patient, person, typed))
    return typed


def _order(text: str) -> Order:
    try:
        order = Order.objects.filter(pk=UUID(text)).first()
    except ValueError:
        order = None
    if order is None:
        raise Http404
    return order


def _refused_command(request: HttpRequest, patient: Patient) -> CommandRecord | None:
    """Return the refused command that this form corrects."""
    return resubmitted_command(
        request, patient_id=patient.pk, kind__in=("order.create", "order.import")
    )


def _address(patient: Patient, importing: bool, page: str = "") -> str:
    name = "import" if importing else "new"
    return reverse(f"orders:{name}-{page}" if page else f"orders:{name}", args=[patient.pk])
