"""One page on which an order is written, and one on which it is reviewed and placed."""

from __future__ import annotations

from typing import Any, Final
from uuid import UUID

from django import forms
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils.http import urlencode
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from backoffice import audit, outbox
from backoffice.core.access import requires
from backoffice.models import CommandRecord
from backoffice.outbox.forms import conflict_message
from backoffice.pages.drafts import WRITTEN
from backoffice.pages.hidden_answers import unshown
from orders.models import Order
from orders.placing import drafts, request_bodies
from orders.placing.catalog_choices import choices
from orders.placing.diagnoses import Matches, findings_of_codes, look_up
from orders.placing.finding_type import CONFIRM, STOP, Finding
from orders.placing.findings import UNNAMED, findings, ordered_before, stops
from orders.placing.former_answers import former_answers
from orders.placing.forms import PlaceForm, typed_of
from orders.placing.order_request import Typed, Wish, codes_in
from orders.placing.requested_accounts import order_sources
from patients.models import Demographics, Patient

METHODS: Final = ("GET", "HEAD", "POST")
NEEDED: Final = ("orders.view", "patients.view", "labs.view", "orders.create")
MEANT: Final = (
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
"""Words of refusals that come without a field (orders.md 2.3: match them loosely)."""
CODE_LETTERS: Final = 20
CHANGED: Final = "The draft changed meanwhile: look at it again."


class ReviewForm(outbox.CommandForm):
    """What was reviewed is what is placed: a draft may change in another tab."""

    draft = forms.CharField(widget=forms.HiddenInput, required=False)

    def is_of(self, asked: CommandRecord) -> bool:
        return drafts.digest(asked.form_data) == str(self.cleaned_data["draft"])


@requires(*NEEDED)
@require_safe
def start(request: HttpRequest) -> HttpResponse:
    """An order in place of, or like, another one; without one, a patient is looked for first."""
    for name in ("replaces", "repeat"):
        given = request.GET.get(name, "")
        if given:
            order = _order(given)
            address = reverse("orders:new", args=[order.user_id])
            return redirect(f"{address}?{urlencode({name: str(order.pk)})}")
    return redirect("patients:list")


@requires(*NEEDED)
@require_http_methods(METHODS)
def write(request: HttpRequest, patient_id: UUID, *, importing: bool = False) -> HttpResponse:
    """The page of an order that is being written: everything on one screen."""
    patient, person = _who(patient_id)
    if request.method == "POST":
        return _written(request, patient, person, importing)
    draft = drafts.of(request.user, patient, importing)
    asked = _asked(request, patient)
    begun = _begun(request, patient, person, asked, importing)
    if begun and draft is not None and draft.typed != begun:
        audit.viewed(request, "patient", [patient.pk], [patient.pk])
        context = {"wish": Wish(patient, person, begun, importing), "draft": draft}
        context["address"] = _address(patient, importing)
        return render(request, "orders/placing/begin.html", context)
    if begun:
        typed, draft = begun, None
    elif draft is not None:
        typed = draft.typed
    else:
        typed = drafts.of_person(patient, person)
    wish = Wish(patient, person, typed, importing)
    form = PlaceForm(wish)
    if asked is not None:
        _told(form, asked)
    audit.viewed(request, "patient", [patient.pk], [patient.pk])
    return _page(request, form, draft=draft)


@requires(*NEEDED)
@require_safe
def panels(request: HttpRequest, patient_id: UUID) -> HttpResponse:
    """What can be chosen, by the letters typed."""
    patient, person = _who(patient_id)
    importing = request.GET.get("importing") == "yes"
    wish = Wish(patient, person, typed_of(request.GET), importing)
    word = request.GET.get("panel", "").strip()
    context = {"wish": wish, "word": word, "choices": choices(wish, word)}
    return render(request, "orders/placing/_choices.html", context)


@requires(*NEEDED)
@require_POST
def diagnoses(request: HttpRequest) -> HttpResponse:
    """Diagnosis codes for the letters typed: a fragment. Posted, so that no diagnosis stands in an
    address."""
    return render(request, "orders/placing/_diagnoses.html", {"matches": _matches(request)})


def _matches(request: HttpRequest) -> Matches:
    chosen = codes_in(request.POST.get("icd_codes", ""))
    return look_up(request.POST.get("diagnosis", ""), chosen)


@requires(*NEEDED)
@require_http_methods(METHODS)
def review(request: HttpRequest, patient_id: UUID, *, importing: bool = False) -> HttpResponse:
    """The order as it will be sent, once more, and the button that sends it."""
    patient, person = _who(patient_id)
    draft = drafts.of(request.user, patient, importing)
    sent = ReviewForm(request.POST if request.method == "POST" else None)
    if sent.is_valid():
        # A second click finds no draft any more, but what the first one asked.
        same = CommandRecord.objects.filter(form_id=sent.cleaned_data["form_id"]).first()
        if same is not None and same.requested_by_id == request.user.pk and sent.is_of(same):
            return redirect("commands:detail", same.pk)
    if draft is None:
        return redirect(_address(patient, importing))
    wish = Wish(patient, person, draft.typed, importing)
    found, shown = findings(wish), PlaceForm(wish)
    if stops(found, wish) or not shown.is_valid():
        return redirect(f"{_address(patient, importing)}?check=1")
    form = ReviewForm(initial={"draft": drafts.digest(draft.typed)})
    if request.method == "POST":
        asked = _ask(request, sent, wish)
        if isinstance(asked, CommandRecord):
            drafts.drop(request.user, patient, importing)
            return redirect("commands:detail", asked.pk)
        form = ReviewForm({name: form[name].value() for name in form.fields})
        form.full_clean()
        form.add_error(None, asked)
    found += findings_of_codes(wish.icd_codes)
    audit.viewed(request, "patient", [patient.pk], [patient.pk])
    context = {
        "form": form,
        "wish": wish,
        "shown": shown,
        "found": found,
        "stopped": [one for one in found if one.level == STOP],
        "back": _address(patient, importing),
        "name": f"{wish.one('first_name')} {wish.one('last_name')}",
    }
    status = 422 if request.method == "POST" else 200
    return render(request, "orders/placing/review.html", context, status=status)


def _ask(request: HttpRequest, sent: ReviewForm, wish: Wish) -> CommandRecord | str:
    """Record what was reviewed; or why it cannot be asked now, in words."""
    if not sent.is_valid() or sent.cleaned_data["draft"] != drafts.digest(wish.typed):
        return CHANGED
    command = request_bodies.import_(wish) if wish.importing else request_bodies.create(wish)
    typed = {name: list(values) for name, values in wish.typed.items()}
    try:
        return outbox.enqueue(request, command, sent.cleaned_data["form_id"], "", typed)
    except outbox.PreconditionFailed as error:
        return error.message
    except outbox.Conflict as error:
        return conflict_message(error.other, request.user)


def _written(
    request: HttpRequest, patient: Patient, person: Demographics | None, importing: bool
) -> HttpResponse:
    """What a person typed so far: kept, and answered with what there is to say about it."""
    do, typed = request.POST.get("do", ""), typed_of(request.POST)
    address = _address(patient, importing)
    if do == "discard":
        drafts.drop(request.user, patient, importing)
        return redirect(address)
    if do == "begin":
        asked = _asked(request, patient)
        if begun := _begun(request, patient, person, asked, importing):
            drafts.keep(request.user, patient, importing, begun)
        return redirect(f"{address}?again={asked.pk}" if asked else address)
    code = request.POST.get("add_code", "").replace("\x00", "")[:CODE_LETTERS]
    if code and not importing:
        typed["icd_codes"] = [_with_code(typed.get("icd_codes", [""])[-1], code)]
    wish = Wish(patient, person, typed, importing)
    if wish.replaced_source is not None:
        # Other tests than before may ask what was answered then.
        typed.update({**former_answers(wish.replaced_source, wish), **typed})
    _name_ticks(wish, typed, is_same_choice=_keeps_choice(request, wish))
    drafts.keep(request.user, patient, importing, typed, request.POST.get(WRITTEN, ""))
    if do == "leave":
        return HttpResponse(status=204)
    if code:
        return redirect(f"{address}#id_icd_codes")
    form = PlaceForm(wish)
    if do == "diagnose":
        return _page(request, form, matches=_matches(request))
    if do == "review":
        found = findings(wish)
        if form.is_valid() and not stops(found, wish):
            return redirect(_address(patient, importing, "review"))
        return _page(request, form, status=422, check=True)
    if request.headers.get("HX-Request") == "true":
        return _refreshed(request, form)
    word = request.POST.get("panel", "").strip()
    return redirect(f"{address}?{urlencode({'panel': word})}" if word else address)


def _with_code(typed: str, code: str) -> str:
    """The codes as typed, and one more that was chosen, unless it is one of them."""
    return typed if code.upper() in codes_in(typed) else f"{typed.strip()} {code}".strip()


def _keeps_choice(request: HttpRequest, wish: Wish) -> bool:
    """Whether the page that was sent showed the same tests and markers as chosen."""
    before = request.POST.get("shape")
    return before is None or before.partition("|")[0] == wish.chosen


def _name_ticks(wish: Wish, typed: dict[str, list[str]], *, is_same_choice: bool) -> None:
    """A tick names the order that it confirms; one without a name is for the one that was shown."""
    if UNNAMED not in typed.get("another", ()):
        return
    named = [tick for tick in typed.pop("another") if tick != UNNAMED]
    last = ordered_before(wish) if is_same_choice else None
    if last is not None:
        named.append(str(last.pk))
    if named:
        typed["another"] = named


def _refreshed(request: HttpRequest, form: PlaceForm) -> HttpResponse:
    """What changed of the page: the summary, and the fields too where they hang on a choice. A
    search ends with the choice that it was for."""
    is_same = _keeps_choice(request, form.wish)
    context = _context(request, form, word=request.POST.get("panel", "") if is_same else "")
    if request.POST.get("shape") == form.wish.shape:
        return render(request, "orders/placing/_summary.html", context)
    response = render(request, "orders/placing/_changed.html", context)
    response.headers["HX-Retarget"] = "#blocks"
    return response


def _page(
    request: HttpRequest,
    form: PlaceForm,
    *,
    draft: Any = None,
    status: int = 200,
    check: bool = False,
    matches: Matches | None = None,
) -> HttpResponse:
    found = findings(form.wish)
    if check or request.GET.get("check"):
        _complain(form, found)
    word = request.GET.get("panel", request.POST.get("panel", ""))
    context = _context(request, form, word, found, matches)
    return render(request, "orders/placing/write.html", {**context, "draft": draft}, status=status)


def _context(
    request: HttpRequest,
    form: PlaceForm,
    word: str,
    found: list[Finding] | None = None,
    matches: Matches | None = None,
) -> dict[str, Any]:
    """What the page shows; what was answered to questions that it does not show now is part of it,
    too."""
    wish, word = form.wish, word.strip()
    found = findings(wish) if found is None else found
    context: dict[str, Any] = {
        "wish": wish,
        "form": form,
        "found": found,
        "stopped": stops(found, wish),
        "confirm": next((one for one in found if one.level == CONFIRM), None),
        "who_open": any(one.field in form.WHO for one in found)
        or any(name in form.WHO for name in form.errors),
        "choices": choices(wish, word),
        "word": word,
        "matches": matches,
        "diagnosis": request.POST.get("diagnosis", "").replace("\x00", ""),
        "address": _address(wish.patient, wish.importing),
    }
    for part in ("blocks", "summary"):
        template = f"orders/placing/_{part}.html"
        context[part] = render_to_string(template, context, request=request)
    page = context["blocks"] + context.pop("summary")
    return {**context, "unshown": unshown(wish.typed, page)}


def _complain(form: PlaceForm, found: list[Finding]) -> None:
    """The findings that stop an order, at their fields."""
    form.is_valid()
    for one in stops(found, form.wish):
        field = one.field if one.field in form.fields else None
        if field is None or field not in form.errors:
            form.add_error(field, one.words)


def _told(form: PlaceForm, asked: CommandRecord) -> None:
    """What the service said to the same order, at the fields it named."""
    form.is_valid()
    named = {told["field"] for told in asked.refusal_fields} & form.fields.keys()
    for told in asked.refusal_fields:
        if told["field"] in named:
            form.add_error(told["field"], told["words"])
    if asked.refusal and not named:
        form.add_error(_meant(asked.refusal, form), asked.refusal)


def _meant(words: str, form: PlaceForm) -> str | None:
    """The field that a refusal without a place speaks of, as far as its words tell."""
    said = words.lower()
    for hint, field in MEANT:
        if hint in said and field in form.fields:
            return field
    return None


def _who(patient_id: UUID) -> tuple[Patient, Demographics | None]:
    patient = Patient.objects.filter(pk=patient_id, missing_since=None).first()
    if patient is None:
        raise Http404
    return patient, Demographics.objects.filter(pk=patient.pk).first()


def _begun(
    request: HttpRequest,
    patient: Patient,
    person: Demographics | None,
    asked: CommandRecord | None,
    importing: bool,
) -> Typed:
    """What an order begins with that was refused, or that repeats or replaces another one."""
    if asked is not None:
        return dict(asked.form_data)
    replaces, repeat = request.GET.get("replaces", ""), request.GET.get("repeat", "")
    if not replaces and not repeat:
        return {}
    order = _order(replaces or repeat)
    if order.user_id != patient.pk:
        raise Http404
    typed = {**drafts.of_person(patient, person), **drafts.like(order)}
    if replaces:
        typed["replaces"] = [str(order.pk)]
    if not importing and (replaces or order.was_canceled()):
        source = order_sources([order]).get(order.pk)
        typed |= former_answers(source, Wish(patient, person, typed))
    return typed


def _order(given: str) -> Order:
    try:
        order = Order.objects.filter(pk=UUID(given)).first()
    except ValueError:
        order = None
    if order is None:
        raise Http404
    return order


def _asked(request: HttpRequest, patient: Patient) -> CommandRecord | None:
    """The refused command whose form this is."""
    return outbox.resubmitted_command(
        request, patient_id=patient.pk, kind__in=("order.create", "order.import")
    )


def _address(patient: Patient, importing: bool, page: str = "") -> str:
    name = "import" if importing else "new"
    return reverse(f"orders:{name}-{page}" if page else f"orders:{name}", args=[patient.pk])
