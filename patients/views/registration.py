"""Pages that register a person, edit details, add an insurance, and disconnect a device."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeVar
from uuid import UUID

from django.core.exceptions import BadRequest
from django.http import Http404, HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.utils.translation import gettext, gettext_noop
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from backoffice.accounts.access import requires, staff_user
from backoffice.audit.recording import record_view
from backoffice.outbox.command import Command
from backoffice.outbox.enqueueing import WRITTEN
from backoffice.outbox.forms import CommandForm, resubmitted_command
from backoffice.outbox.models import CommandRecord
from patients import drafts
from patients.commands import AddInsurance, CreatePayor, CreateUser, Deregister, SetUserInfo
from patients.commands.insurance import (
    INSURANCE_CHANGED,
    current_insurance,
    current_insurance_digest,
)
from patients.commands.patients import DETAILS_CHANGED, home_address, insured_person
from patients.duplicates import TypedPerson, find_duplicate_candidates
from patients.models import Connection, Demographics, Patient
from patients.person_record import person_body, record_digest
from patients.registration_forms import (
    FinishRegistrationForm,
    InsuranceForm,
    PersonForm,
    RegisterForm,
    displayed_values,
    encode_before,
)
from patients.views.duplicates import (
    audit_duplicates,
    duplicates_context,
    unshown_duplicates,
)
from patients.views.payors import payor_context

METHODS: Final = ("GET", "HEAD", "POST")
CHECK_DUPLICATES: Final = gettext_noop(
    "Check the possible duplicates first, then register. Nothing has been submitted yet."
)
ALREADY_SENT: Final = gettext_noop(
    "This form was already submitted with different details. Check that registration before you"
    " submit this one."
)
INSURED_FIELDS: Final = (
    *("first_name", "last_name", "dob", "gender", "phone_number", "email"),
    *("first_line", "city", "state", "zip"),
)
"""Details of the insured person that an insurance needs (users.md 4)."""
NOT_COMPARED: Final = {"csrfmiddlewaretoken", "form_id", "shown", WRITTEN}
FormT = TypeVar("FormT", bound=CommandForm)


@requires("patients.view", "patients.change")
@require_http_methods(METHODS)
def register(request: HttpRequest) -> HttpResponse:
    """Register a person, with or without an insurance. A draft is stored until the form is sent."""
    user = staff_user(request)
    if request.method == "POST" and request.POST.get("do"):
        return _save_or_discard_draft(request, request.POST["do"])
    is_new = request.method != "POST" and "again" not in request.GET
    draft = drafts.load(user) if is_new else None
    if draft is None:
        form = _form(request, RegisterForm, [CreateUser])
    else:
        form = _unvalidated(RegisterForm, draft[1])
    # This is before validation: after the first submission, this form's own patient has the
    # reference.
    earlier = _earlier_submission(request, form)
    if earlier is not None and _has_same_data(earlier, request.POST):
        return redirect("patients:registering", earlier.pk)
    if earlier is not None:
        form.errors.clear()
        form.add_error(None, gettext(ALREADY_SENT))
        form.data = _with_values(form.data, form_id=str(uuid.uuid4()))
    elif _is_valid_post(request, form):
        if unshown_duplicates(form):
            form.add_error(None, gettext(CHECK_DUPLICATES))
        else:
            info = form.info()
            command = CreateUser(
                client_user_id=form.cleaned_data["client_user_id"],
                info=info,
                insuring=form.insurance_request(info.address) if form.has_insurance else None,
                not_same=form.not_same(),
            )
            row = form.enqueue(request, command)
            if row is not None:
                drafts.discard(user, request.POST["form_id"])
                return redirect("patients:registering", row.pk)
    if request.method == "POST":
        assert isinstance(form.data, QueryDict)
        drafts.save(user, form.data)
    return _page(
        request,
        "patients/register.html",
        form,
        title=gettext("Register a patient"),
        sent=earlier,
        draft=draft[0] if draft else None,
    )


def _save_or_discard_draft(request: HttpRequest, do: str) -> HttpResponse:
    """Discard the draft, or save it. `do` is `discard`, `leave` (from a script) or `keep`."""
    user = staff_user(request)
    if do == "discard":
        drafts.discard_any(user)
    else:
        drafts.save(user, request.POST)
    if do == "leave":
        return HttpResponse(status=204)
    return redirect("patients:register")


@requires("patients.view", "patients.change")
@require_safe
def registering(request: HttpRequest, command_id: UUID) -> HttpResponse:
    """Show the state of a registration until the patient exists; then redirect to the patient."""
    row = CommandRecord.objects.filter(pk=command_id, kind=CreateUser.kind).first()
    if row is None:
        raise Http404
    if row.done_url:
        return redirect(row.done_url)
    info = CreateUser.read(row.payload).info
    record_view(request, "registration", [row.pk], [])
    return render(request, "patients/registering.html", {"command": row, "info": info})


@requires("patients.view", "patients.change")
@require_http_methods(METHODS)
def register_on(request: HttpRequest, patient_id: UUID) -> HttpResponse:
    """Finish a registration whose user exists but whose details the service refused."""
    return _details(request, patient_id, FinishRegistrationForm, gettext("Finish registration"))


@requires("patients.view", "patients.change")
@require_http_methods(METHODS)
def edit(request: HttpRequest, patient_id: UUID) -> HttpResponse:
    """Edit the details of a patient."""
    return _details(request, patient_id, PersonForm, gettext("Edit details"))


def _details(
    request: HttpRequest, patient_id: UUID, form_class: type[PersonForm], title: str
) -> HttpResponse:
    patient, person = _patient(patient_id)
    is_registration = form_class is FinishRegistrationForm
    values = displayed_values(person) if person else {}
    digest = record_digest(person)
    initial = {**values, "seen": digest, "before": encode_before(values) if values else ""}
    form = _form(request, form_class, [SetUserInfo], patient_id, on_record=person, initial=initial)
    if request.method != "POST":
        form.rebase(digest)
    if _is_valid_post(request, form):
        insuring = None
        if isinstance(form, FinishRegistrationForm) and form.has_insurance:
            insuring = form.insurance_request(home_address(form.body()))
        command = SetUserInfo(
            user_id=patient.pk,
            info=form.body(),
            seen=form.cleaned_data["seen"],
            registering=is_registration,
            insuring=insuring,
            not_same=form.not_same(),
        )
        if form.enqueue(request, command) is not None:
            return redirect("patients:detail", patient.pk)
        if _has_error(form, gettext(DETAILS_CHANGED)):
            patient, person = _patient(patient_id)
            form = _rebased(form, person)
    return _page(
        request,
        "patients/register.html" if is_registration else "patients/edit.html",
        form,
        title=title,
        patient=patient,
        person=person,
        stored_values=displayed_values(person) if person else {},
    )


@requires("patients.view", "patients.change")
@require_http_methods(METHODS)
def insure(request: HttpRequest, patient_id: UUID) -> HttpResponse:
    """Add an insurance. Earlier ones remain in the history."""
    patient, person = _patient(patient_id)
    if person is None:
        return redirect("patients:edit", patient.pk)
    digests = _insurance_digests(patient)
    form = _form(request, InsuranceForm, [AddInsurance, CreatePayor], patient_id, initial=digests)
    if request.method != "POST":
        form.data = _with_values(form.data, **digests)
    if _is_valid_post(request, form):
        # The insured person is the patient, exactly with the details at the service.
        values = displayed_values(person)
        missing = [name for name in INSURED_FIELDS if not values[name]]
        if missing:
            labels = ", ".join(sorted(str(PersonForm.base_fields[name].label) for name in missing))
            form.add_error(
                None,
                gettext("Complete the patient's details first: %(fields)s.") % {"fields": labels},
            )
        else:
            insured = insured_person(person_body(person.record_at(), values, ()))
            request_data = form.insurance_request(insured.address)
            command = request_data.first_command(patient.pk, insured)
            if form.enqueue(request, command) is not None:
                return redirect("patients:detail", patient.pk)
            if _has_error(form, gettext(INSURANCE_CHANGED)):
                form.data = _with_values(form.data, **_insurance_digests(patient))
    ranks = [current_insurance(patient.pk, True), current_insurance(patient.pk, False)]
    return _page(
        request,
        "patients/insure.html",
        form,
        title=gettext("Add insurance"),
        patient=patient,
        person=person,
        current=[insurance for insurance in ranks if insurance],
    )


@requires("patients.view", "patients.change")
@require_http_methods(METHODS)
def disconnect(request: HttpRequest, patient_id: UUID, slug: str) -> HttpResponse:
    """Disconnect a source after explaining the effects."""
    patient, person = _patient(patient_id)
    source = Connection.objects.filter(user_id=patient_id, slug=slug, missing_since=None).first()
    form = _form(request, CommandForm, [Deregister], patient_id)
    if source is None and not request.GET.get("again"):
        raise Http404
    if request.method == "POST" and form.is_valid():
        name = source.name if source else slug
        command = Deregister(user_id=patient.pk, slug=slug, name=name)
        if form.enqueue(request, command) is not None:
            return redirect("patients:detail", patient.pk)
    return _page(
        request,
        "patients/disconnect.html",
        form,
        title=gettext("Disconnect a device or app"),
        patient=patient,
        person=person,
        source=source,
        slug=slug,
    )


@requires("patients.view", "patients.change")
@require_POST
def check(request: HttpRequest) -> HttpResponse:
    """Show the errors of the field that lost focus: a fragment."""
    form_classes = (RegisterForm, FinishRegistrationForm, PersonForm, InsuranceForm)
    form_class: type[CommandForm] = next(
        (form_class for form_class in form_classes if _has_fields_of(form_class, request.POST)),
        PersonForm,
    )
    form, name = form_class(request.POST), request.POST.get("checked", "")
    if name not in form.fields:
        raise BadRequest("There is no such field.")
    form.is_valid()
    context = {"errors": form[name].errors, "id": form[name].auto_id}
    return render(request, "patients/_field_errors.html", context)


def _has_fields_of(form_class: type[CommandForm], data: QueryDict) -> bool:
    """Whether the data has the fields of this form. Browsers always send text fields."""
    names = {"client_user_id", "first_name", "member_id"}
    return {name for name in names if name in data} == names & form_class.base_fields.keys()


def _patient(patient_id: UUID) -> tuple[Patient, Demographics | None]:
    patient = Patient.objects.filter(pk=patient_id).first()
    if patient is None:
        raise Http404
    return patient, Demographics.objects.filter(pk=patient_id, missing_since=None).first()


def _is_valid_post(request: HttpRequest, form: CommandForm) -> bool:
    """Whether a valid form was posted. A payor search without scripts does not bind the form."""
    return request.method == "POST" and form.is_bound and form.is_valid()


def _earlier_submission(request: HttpRequest, form: CommandForm) -> CommandRecord | None:
    """Return the registration that this user already submitted with this form.

    A second click or the back button leads to it.
    """
    if request.method != "POST" or not form.is_bound:
        return None
    return drafts.submitted_with(staff_user(request), request.POST.get("form_id", ""))


def _has_same_data(row: CommandRecord, data: QueryDict) -> bool:
    """Whether the form has the data of the earlier submission. Shown duplicates may differ."""
    typed = dict(data.lists())
    names = {*typed, *row.form_data} - NOT_COMPARED
    return all(row.form_data.get(name) == typed.get(name) for name in names)


def _has_error(form: CommandForm, words: str) -> bool:
    """Whether a form error begins with these words."""
    return any(str(error).startswith(words) for error in form.non_field_errors())


def _insurance_digests(patient: Patient) -> dict[str, str]:
    """Return the digests of the insurance in force, by form field."""
    return {
        "before_primary": current_insurance_digest(patient.pk, True),
        "before_secondary": current_insurance_digest(patient.pk, False),
    }


def _form(
    request: HttpRequest,
    form_class: type[FormT],
    commands: Sequence[type[Command]],
    patient_id: UUID | None = None,
    **options: Any,
) -> FormT:
    """Return the form as posted, as it was for a refused command (`?again=`), or new.

    The refused command must be one of `commands` about the same patient.
    """
    if request.method == "POST":
        if "find_payor" in request.POST:
            return _unvalidated(form_class, request.POST, **options)
        return form_class(request.POST, **options)
    kinds = [command.kind for command in commands]
    row = resubmitted_command(request, patient_id=patient_id, kind__in=kinds)
    if row is not None and patient_id is None:
        record_view(request, "registration", [row.pk], [])
    return form_class.from_refused(row, **options) if row else form_class(**options)


def _unvalidated(form_class: type[FormT], data: QueryDict, **options: Any) -> FormT:
    """Return the unbound form with typed values. Browsers do not send unchecked boxes."""
    initial = {name: data.get(name, "") for name in form_class.base_fields}
    form = form_class(**{**options, "initial": initial})
    form.data = data
    return form


def _rebased(form: PersonForm, person: Demographics | None) -> PersonForm:
    """Return the typed form on the current details, with its errors."""
    rebased = type(form)(form.data, on_record=person)
    rebased.full_clean()
    for error in form.non_field_errors():
        rebased.add_error(None, error)
    rebased.rebase(record_digest(person))
    return rebased


def _with_values(data: Mapping[str, Any], **values: str) -> Mapping[str, Any]:
    """Return the form data with these values replaced, for a form that is shown again."""
    if not isinstance(data, QueryDict):  # The form is unbound and has no data.
        return data
    copy = data.copy()
    for name, value in values.items():
        copy[name] = value
    return copy


def _page(
    request: HttpRequest,
    template: str,
    form: CommandForm,
    *,
    title: str,
    patient: Patient | None = None,
    person: Demographics | None = None,
    **more: object,
) -> HttpResponse:
    """Render the page of a form, with possible duplicates and payors for its data."""
    context = {"form": form, "title": title, **more}
    if patient is not None:
        record_view(request, "patient", [patient.pk], [patient.pk])
        context |= {"patient": patient, "person": person}
    data = form.data
    if isinstance(form, PersonForm) and (data or person is not None):
        if data or person is None:
            typed = TypedPerson.from_form(data)
        else:
            typed = TypedPerson.from_record(person)
        candidates = find_duplicate_candidates(typed, patient.pk if patient else None)
        audit_duplicates(request, candidates)
        context |= duplicates_context(form, candidates)
    if data and isinstance(form, InsuranceForm):
        context |= payor_context(data)
    context.setdefault("payor_state", person.state if person else "")
    status = 422 if request.method == "POST" and form.is_bound else 200
    return render(request, template, context, status=status)
