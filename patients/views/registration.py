"""Pages that register a person, change who they are, insure them, and disconnect their devices."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from typing import Any, Final
from uuid import UUID

from django.core.exceptions import BadRequest
from django.http import Http404, HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from backoffice import audit
from backoffice.core import service_client
from backoffice.core.access import may, requires
from backoffice.core.urls import parse_uuid
from backoffice.models import CommandRecord
from backoffice.outbox import Command, CommandForm, resubmitted_command
from backoffice.pages.drafts import WRITTEN
from backoffice.service import errors
from patients import drafts
from patients.commands import AddInsurance, CreatePayor, CreateUser, Deregister, SetUserInfo
from patients.commands.insurance import ANOTHER, current_insurance_digest, in_force
from patients.commands.patients import CHANGED, home_address, insured_person
from patients.duplicates import DuplicateCandidate, TypedPerson, find_duplicate_candidates
from patients.models import Connection, Demographics, DifferentPeople, Patient, Payor
from patients.names import birth_date
from patients.person_record import person_body, record_digest
from patients.registration_forms import (
    InsuranceForm,
    PersonForm,
    RegisterForm,
    RegisterOnForm,
    before_of,
    said_of,
)

METHODS: Final = ("GET", "HEAD", "POST")
PAYORS_SHOWN: Final = 12
PAYOR_LETTERS: Final = 3
PAYOR_WAIT: Final = 2.0
"""Seconds a person waits for a search at the service."""
LOOK: Final = "Look at the possible duplicates first, then register. Nothing has been sent yet."
SENT: Final = (
    "This form has been sent already, with other contents. Look at what became of that first;"
    " then send this one, if it is still wanted."
)
INSURED_NEEDS: Final = (
    *("first_name", "last_name", "dob", "gender", "phone_number", "email"),
    *("first_line", "city", "state", "zip"),
)
"""What an insurance has to say of the covered person (users.md 4)."""
NOT_TYPED: Final = {"csrfmiddlewaretoken", "form_id", "shown", WRITTEN}


@requires("patients.view", "patients.change")
@require_http_methods(METHODS)
def register(request: HttpRequest) -> HttpResponse:
    """A person and their insurance on one page, kept as a draft until it is sent."""
    if request.method == "POST" and request.POST.get("do"):
        return _drafted(request, request.POST["do"])
    draft = drafts.of(request.user) if _begins(request) else None
    if draft is None:
        form = _form(request, RegisterForm, [CreateUser])
    else:
        form = _unjudged(RegisterForm, draft[1])
    # Before the form is judged: once it is done, its reference is taken, by itself.
    sent = _sent(request, form)
    if sent is not None and _typed_alike(sent, request.POST):
        return redirect("patients:registering", sent.pk)
    if sent is not None:
        form.errors.clear()
        form.add_error(None, SENT)
        form.data = _with(form.data, form_id=str(uuid.uuid4()))
    elif _asks(request, form):
        alike = _unseen(form)
        if alike:
            form.add_error(None, LOOK)
        else:
            info = form.info()
            command = CreateUser(
                client_user_id=form.cleaned_data["client_user_id"],
                info=info,
                insuring=form.insuring(info.address) if form.insured else None,
                not_same=form.not_same(),
            )
            row = form.enqueue(request, command)
            if row is not None:
                drafts.drop(request.user, request.POST["form_id"])
                return redirect("patients:registering", row.pk)
    if request.method == "POST":
        drafts.keep(request.user, form.data)
    more = {"sent": sent, "draft": draft[0] if draft else None}
    return _page(request, "patients/register.html", form, title="Register a patient", **more)


def _begins(request: HttpRequest) -> bool:
    """Asked for the form itself, not for that of a refused command."""
    return request.method != "POST" and "again" not in request.GET


def _drafted(request: HttpRequest, do: str) -> HttpResponse:
    """What a person typed so far: kept, or thrown away by themselves."""
    if do == "discard":
        drafts.begin_anew(request.user)
    else:
        drafts.keep(request.user, request.POST)
    if do == "leave":
        return HttpResponse(status=204)
    return redirect("patients:register")


@requires("patients.view", "patients.change")
@require_safe
def registering(request: HttpRequest, command_id: UUID) -> HttpResponse:
    """What becomes of a registration, until the patient's own page is there."""
    row = CommandRecord.objects.filter(pk=command_id, kind=CreateUser.kind).first()
    if row is None:
        raise Http404
    if row.done_url:
        return redirect(row.done_url)
    info = CreateUser.read(row.payload).info
    audit.record_view(request, "registration", [row.pk], [])
    return render(request, "patients/registering.html", {"command": row, "info": info})


@requires("patients.view", "patients.change")
@require_http_methods(METHODS)
def register_on(request: HttpRequest, patient_id: UUID) -> HttpResponse:
    """The rest of a registration whose first step is done, with everything that was typed."""
    return _details(request, patient_id, RegisterOnForm, "Finish the registration")


@requires("patients.view", "patients.change")
@require_http_methods(METHODS)
def edit(request: HttpRequest, patient_id: UUID) -> HttpResponse:
    """Who a patient is."""
    return _details(request, patient_id, PersonForm, "Edit details")


def _details(
    request: HttpRequest, patient_id: UUID, kind: type[PersonForm], title: str
) -> HttpResponse:
    patient, person = _patient(patient_id)
    said = said_of(person) if person else {}
    mark = record_digest(person)
    initial = {**said, "seen": mark, "before": before_of(said) if said else ""}
    form = _form(request, kind, [SetUserInfo], patient_id, on_record=person, initial=initial)
    if request.method != "POST":
        form.rebase(mark)
    if _asks(request, form):
        insuring = None
        if isinstance(form, RegisterOnForm) and form.insured:
            insuring = form.insuring(home_address(form.body()))
        command = SetUserInfo(
            user_id=patient.pk,
            info=form.body(),
            seen=form.cleaned_data["seen"],
            registering=kind is RegisterOnForm,
            insuring=insuring,
            not_same=form.not_same(),
        )
        if form.enqueue(request, command) is not None:
            return redirect("patients:detail", patient.pk)
        if _told(form, CHANGED):
            patient, person = _patient(patient_id)
            form = _rebased(form, person)
    template = "patients/register.html" if kind is RegisterOnForm else "patients/edit.html"
    more = {"patient": patient, "person": person, "said": said_of(person) if person else {}}
    return _page(request, template, form, title=title, **more)


@requires("patients.view", "patients.change")
@require_http_methods(METHODS)
def insure(request: HttpRequest, patient_id: UUID) -> HttpResponse:
    """One more insurance of a patient; what was there stays in the history."""
    patient, person = _patient(patient_id)
    if person is None:
        return redirect("patients:edit", patient.pk)
    marks = _insurance_marks(patient)
    form = _form(request, InsuranceForm, [AddInsurance, CreatePayor], patient_id, initial=marks)
    if request.method != "POST":
        form.data = _with(form.data, **marks)
    if _asks(request, form):
        # The covered person is the patient as the service has them, word for word.
        lacking = [name for name in INSURED_NEEDS if not said_of(person)[name]]
        if lacking:
            wrong = ", ".join(sorted(str(PersonForm.base_fields[name].label) for name in lacking))
            form.add_error(None, f"Complete the patient's details first: {wrong}.")
        else:
            insured = insured_person(person_body(person.said(), said_of(person), ()))
            command = form.insuring(insured.address).step(patient.pk, insured)
            if form.enqueue(request, command) is not None:
                return redirect("patients:detail", patient.pk)
            if _told(form, ANOTHER):
                form.data = _with(form.data, **_insurance_marks(patient))
    current = [in_force(patient.pk, True), in_force(patient.pk, False)]
    more = {"patient": patient, "person": person, "current": [one for one in current if one]}
    return _page(request, "patients/insure.html", form, title="Add insurance", **more)


@requires("patients.view", "patients.change")
@require_http_methods(METHODS)
def disconnect(request: HttpRequest, patient_id: UUID, slug: str) -> HttpResponse:
    """End a connection, after what that does and what it may not do."""
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
    more = {"patient": patient, "person": person, "source": source, "slug": slug}
    return _page(request, "patients/disconnect.html", form, title="Disconnect a source", **more)


@requires("patients.view", "patients.change")
@require_POST
def duplicates(request: HttpRequest) -> HttpResponse:
    """Possible duplicates of what stands in the form: a fragment. Posted, so that nothing typed
    about a person stands in an address."""
    form = PersonForm(request.POST)
    them = parse_uuid(request.POST.get("patient", ""))
    but = {them} | DifferentPeople.than(them) if them is not None else set()
    found = find_duplicate_candidates(_typed(request.POST), but)
    audit_found(request, found)
    return render(request, "patients/_duplicates.html", _duplicates(form, found))


def _duplicates(form: PersonForm, found: Sequence[DuplicateCandidate]) -> dict[str, Any]:
    """Possible duplicates, and ticks for those that are none any more: they come back with the
    name that they were given for."""
    ticked = form.not_same()
    shown = {one.person.pk for one in found}
    unshown = [("not_same", str(pk)) for pk in dict.fromkeys(ticked) if pk not in shown]
    return {"found": found, "not_same": ticked, "unshown": unshown}


@requires("patients.view", "patients.change")
@require_POST
def check(request: HttpRequest) -> HttpResponse:
    """What is wrong with the one field that was just left: a fragment."""
    kinds: list[type[CommandForm]] = [RegisterForm, RegisterOnForm, PersonForm, InsuranceForm]
    kind = next((kind for kind in kinds if _fits(kind, request.POST)), PersonForm)
    form, name = kind(request.POST), request.POST.get("checked", "")
    if name not in form.fields:
        raise BadRequest("There is no such field.")
    form.is_valid()
    context = {"errors": form[name].errors, "id": form[name].auto_id}
    return render(request, "patients/_told.html", context)


def _fits(kind: type[CommandForm], data: QueryDict) -> bool:
    """Whether these are the fields of this form: text fields are always sent."""
    marks = {"client_user_id", "first_name", "member_id"}
    return {name for name in marks if name in data} == marks & kind.base_fields.keys()


@requires("patients.view", "patients.change")
@require_POST
def payors(request: HttpRequest) -> HttpResponse:
    """Payors for what was typed: a fragment."""
    return render(request, "patients/_payors.html", payors_found(request.POST))


def payors_found(data: QueryDict) -> dict[str, Any]:
    """Payors at the service by name or alias, and known ones by code; the chosen one stays."""
    text = data.get("payor_query", "").replace("\0", "").strip()[:100]
    chosen = data.get("payor", "")[:300]
    found: dict[str, dict[str, str]] = {}
    trouble = False
    if len(text) >= PAYOR_LETTERS:
        for known in Payor.objects.filter(payor_code__iexact=text)[:1]:
            found[known.payor_code] = _option(known.payor_code, known.name, known.source or "")
        try:
            page = (
                service_client.service()
                .within(PAYOR_WAIT)
                .insurance.search_payors(insurance_name=text)
            )
        except errors.ServiceError:
            trouble = True
        else:
            for record in page.records[:PAYORS_SHOWN]:
                one = record.data
                code, aliases = one.payor_code, ", ".join(one.aliases)
                found.setdefault(code, _option(code, one.name, one.source, aliases))
    code, _, name = chosen.partition(" ")
    if code and code not in found:
        found = {code: _option(code, name, ""), **found}
    return {
        "payor_options": list(found.values()),
        "payor_chosen": code,
        "payor_trouble": trouble,
        "payor_text": text if len(text) >= PAYOR_LETTERS else "",
        "payor_state": data.get("state", "")[:40],
    }


def _option(code: str, name: str, source: str, aliases: str = "") -> dict[str, str]:
    value = f"{code} {name}"
    return {"code": code, "name": name, "source": source, "aliases": aliases, "value": value}


def _typed(data: Any) -> TypedPerson:
    return TypedPerson(
        first_name=data.get("first_name", "")[:100],
        last_name=data.get("last_name", "")[:100],
        dob=birth_date(data.get("dob", "")[:40]),
        phone_number=data.get("phone_number", "")[:40],
        email=data.get("email", "")[:200],
    )


def _on_record(person: Demographics | Patient) -> TypedPerson:
    return TypedPerson(
        first_name=person.first_name,
        last_name=person.last_name,
        dob=person.dob,
        phone_number=person.phone_number,
        email=person.email,
    )


def alike_on_record(person: Demographics | Patient) -> list[DuplicateCandidate]:
    """Who on record may be the same person as somebody on record."""
    but = {person.pk} | DifferentPeople.than(person.pk)
    return find_duplicate_candidates(_on_record(person), but)


def _unseen(form: RegisterForm) -> list[DuplicateCandidate]:
    """Possible duplicates that nobody can have looked at yet: they were not on the page."""
    looked_at = {*form.shown(), *form.not_same()}
    found = find_duplicate_candidates(_typed(form.data))
    return [one for one in found if one.person.pk not in looked_at]


def _patient(patient_id: UUID) -> tuple[Patient, Demographics | None]:
    patient = Patient.objects.filter(pk=patient_id).first()
    if patient is None:
        raise Http404
    return patient, Demographics.objects.filter(pk=patient_id, missing_since=None).first()


def _asks(request: HttpRequest, form: CommandForm) -> bool:
    """Posted, not only to search on a page without scripts, and without faults."""
    return request.method == "POST" and form.is_bound and form.is_valid()


def _sent(request: HttpRequest, form: CommandForm) -> CommandRecord | None:
    """The registration that this person asked for with this very form: a second click, or the
    back button."""
    if request.method != "POST" or not form.is_bound:
        return None
    return drafts.sent_with(request.user, request.POST.get("form_id", ""))


def _typed_alike(row: CommandRecord, data: QueryDict) -> bool:
    """Whether the form holds what it held then, whoever it showed beside it."""
    typed = dict(data.lists())
    names = {*typed, *row.form_data} - NOT_TYPED
    return all(row.form_data.get(name) == typed.get(name) for name in names)


def _told(form: CommandForm, words: str) -> bool:
    """Whether a person hears just now that something changed: then they see what is so today."""
    return any(str(told).startswith(words) for told in form.non_field_errors())


def _insurance_marks(patient: Patient) -> dict[str, str]:
    return {
        "before_primary": current_insurance_digest(patient.pk, True),
        "before_secondary": current_insurance_digest(patient.pk, False),
    }


def _form(
    request: HttpRequest,
    kind: Callable[..., Any],
    commands: Sequence[type[Command]],
    patient_id: UUID | None = None,
    **options: Any,
) -> Any:
    """The form as posted, as it was for a refused one of these commands about the same patient
    (`?again=`), or new."""
    if request.method == "POST":
        if "find_payor" in request.POST:
            return _unjudged(kind, request.POST, **options)
        return kind(request.POST, **options)
    kinds = [command.kind for command in commands]
    row = resubmitted_command(request, patient_id=patient_id, kind__in=kinds)
    if row is not None and patient_id is None:
        audit.record_view(request, "registration", [row.pk], [])
    return kind.from_refused(row, **options) if row else kind(**options)  # type: ignore[attr-defined]


def _unjudged(kind: Callable[..., Any], data: QueryDict, **options: Any) -> Any:
    """The form as it was typed so far. A box that is not ticked is not sent at all."""
    names = kind.base_fields  # type: ignore[attr-defined]
    form = kind(**{**options, "initial": {name: data.get(name, "") for name in names}})
    form.data = data
    return form


def _rebased(form: PersonForm, person: Demographics | None) -> PersonForm:
    """The form as typed beside what is on record now, with its errors."""
    fresh = type(form)(form.data, on_record=person)
    errors = form.non_field_errors()
    fresh.full_clean()
    for words in errors:
        fresh.add_error(None, words)
    fresh.rebase(record_digest(person))
    return fresh


def _with(data: Any, **values: str) -> Any:
    """A form that is shown again speaks of what is on record now, not of what was then."""
    if not data:
        return data
    changed = data.copy()
    for name, value in values.items():
        changed[name] = value
    return changed


def audit_found(request: HttpRequest, found: list[DuplicateCandidate]) -> None:
    if found:
        ids = [one.person.pk for one in found]
        audit.record_list(request, "patient", ids, ids, searched=True)


def _page(
    request: HttpRequest, template: str, form: Any, *, title: str, **more: Any
) -> HttpResponse:
    """A form on its page: with possible duplicates and payors for what stands in it."""
    patient = more.get("patient")
    if patient is not None:
        audit.record_view(request, "patient", [patient.pk], [patient.pk])
    context = {"form": form, "title": title, **more}
    data = form.data
    person = more.get("person")
    if isinstance(form, PersonForm) and (data or person is not None):
        but = {patient.pk} | DifferentPeople.than(patient.pk) if patient else set()
        typed = _typed(data) if data or person is None else _on_record(person)
        found = find_duplicate_candidates(typed, but)
        audit_found(request, found)
        context |= _duplicates(form, found)
    if data and isinstance(form, InsuranceForm):
        context |= payors_found(data)
    context.setdefault("payor_state", person.state if person else "")
    status = 422 if request.method == "POST" and form.is_bound else 200
    return render(request, template, context, status=status)


def done_but_connected(patient_id: UUID, slugs: dict[str, Any]) -> dict[str, CommandRecord]:
    """Sources that stand although the service accepted to end them, with what was asked."""
    if not slugs:
        return {}
    rows = CommandRecord.objects.about("patient", patient_id).filter(
        kind=Deregister.kind, state=CommandRecord.State.DONE, remote_id__in=list(slugs)
    )
    found: dict[str, CommandRecord] = {}
    for row in rows:
        if row.sent_at is None or row.sent_at > slugs[row.remote_id]:
            found.setdefault(row.remote_id, row)
    return found


def actions_of(patient: Patient, user: Any) -> list[dict[str, Any]]:
    """What this person may do with a patient, most wanted first."""
    if patient.missing_since:
        return []
    offers = (
        ("Order tests", "orders:new", "orders.create"),
        ("Edit details", "patients:edit", "patients.change"),
        ("Add insurance", "patients:insure", "patients.change"),
        ("Connect a device", "patients:connect", "patients.change"),
    )
    return [
        {"label": label, "url": reverse(page, args=[patient.pk]), "primary": page == "orders:new"}
        for label, page, permission in offers
        if may(user, permission)
    ]
