"""The list of patients: its rows, its columns, its page."""

from __future__ import annotations

from typing import Any, Final, TypedDict
from uuid import UUID

from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.utils.safestring import SafeString
from django.views.decorators.http import require_http_methods

from backoffice import audit, vocabulary
from backoffice.access import requires
from backoffice.lists.forms import FilterForm
from backoffice.lists.listing import Cell, Column, Listing
from backoffice.lists.screen import Screen
from backoffice.models import AS_RECEIVED
from backoffice.paging.counts import COUNT_CAP, Count
from backoffice.paging.gathering import gathered
from backoffice.paging.pages import Page, Place, place_of
from backoffice.sealed_words import seal_address, to_address
from backoffice.statements import array, by_key, cursor
from patients.drawing import draw
from patients.forms import PatientFilters
from patients.models import Called, Demographics, Patient, PatientQuerySet
from patients.told import ToldByOrder, people_of

NAMELESS: Final = (
    "Sorted by name, here and in a download: patients without a name, and those named by an order"
    " alone, are left out."
)
FINISHED: Final = (vocabulary.RESULT_IN, vocabulary.CLOSED)
_UNDER_WAY: Final = (
    "SELECT user_id, count(*) FROM orders_order WHERE user_id = ANY(%s)"  # noqa: S608 - our names
    f" AND bucket NOT IN {FINISHED} GROUP BY user_id"
)


KNOWN: Final = Demographics.objects.only("user_id", "name_key")
"""Patients whose name is known: what a list by name is of."""


class Row(TypedDict):
    """One patient with who they are and how many of their orders are under way."""

    patient: Patient
    person: Demographics | ToldByOrder | None
    open_orders: int


def _of_person(name: str) -> Any:
    return lambda row: getattr(row["person"], name, None)


COLUMNS: Final = (
    Column(
        "name",
        "Name",
        (
            Cell("Patient", lambda row: row["patient"].pk),
            Cell("First name", _of_person("first_name")),
            Cell("Last name", _of_person("last_name")),
        ),
        sort="name",
    ),
    Column("born", "Born", (Cell("Born", _of_person("dob")),)),
    Column(
        "sex",
        "Sex",
        (
            Cell(
                "Sex",
                lambda row: vocabulary.term("person.gender", _of_person("gender")(row)).label,
            ),
        ),
    ),
    Column("phone", "Phone", (Cell("Phone", _of_person("phone_number")),)),
    Column(
        "lives",
        "Lives in",
        (Cell("City", _of_person("city")), Cell("State", _of_person("state"))),
    ),
    Column(
        "open", "Open orders", (Cell("Open orders", lambda row: row["open_orders"]),), css="num"
    ),
    Column(
        "ours", "Our reference", (Cell("Our reference", lambda row: row["patient"].client_user_id),)
    ),
    Column(
        "since",
        "Since",
        (Cell("Since", lambda row: row["patient"].created_on, timed=True),),
        sort="created_on",
    ),
    Column("patient", "Patient", css="roomy"),
    Column("email", "E-mail", (Cell("E-mail", _of_person("email")),), shown=False),
    Column("zip", "ZIP", (Cell("ZIP", _of_person("zip")),), shown=False),
)


class Patients(Listing):
    name = "patients"
    subject = "patient"
    nouns = ("patient", "patients")
    needs = ("patients.view",)
    columns = COLUMNS
    words = PatientFilters.WORDS

    def form(self, data: QueryDict, user: Any) -> PatientFilters:
        return PatientFilters(data)

    def everything(self, user: Any) -> PatientQuerySet:
        return Patient.objects.defer("record", "content_hash")

    def everybody(self, form: Any, user: Any) -> QuerySet[Any]:
        """What the list is of: patients; by name those who are `KNOWN`."""
        return KNOWN if _by_name(form) else self.everything(user)

    def rows(self, form: Any, user: Any) -> QuerySet[Any]:
        if not form.text:
            return self.everybody(form, user)
        if _by_name(form):
            return KNOWN.found_by(form.text)
        return self.everything(user).matching(form.text)

    def page(
        self,
        rows: QuerySet[Any],
        form: FilterForm,
        size: int,
        place: Place,
        whole: QuerySet[Any] | None = None,
    ) -> Page[Any]:
        """Of patients; by name of those who are `KNOWN`."""
        if not _by_name(form):
            return super().page(rows, form, size, place, whole)
        known = KNOWN.filter(user__in=rows) if rows.model is Patient else rows
        page = super().page(known, form, size, place, whole)
        patients = by_key(Patient, (person.pk for person in page.rows), but=AS_RECEIVED)
        found = [patients[person.pk] for person in page.rows if person.pk in patients]
        return Page(found, next=page.next, previous=page.previous)

    def dressed(self, rows: list[Patient], user: Any) -> list[Row]:
        people = people_of(patient.pk for patient in rows)
        with cursor() as asked:
            asked.execute(_UNDER_WAY, [array(patient.pk for patient in rows)])
            under_way = dict(asked.fetchall())
        return [
            {
                "patient": patient,
                "person": people.get(patient.pk),
                "open_orders": under_way.get(patient.pk, 0),
            }
            for patient in rows
        ]

    def drawn(self, rows: list[Any], screen: Screen) -> SafeString:
        return draw(rows, screen)

    def patient_of(self, row: Patient) -> UUID:
        return row.pk


def _by_name(form: FilterForm) -> bool:
    return form.sort[0] == "name"


PATIENTS: Final = Patients()


@requires("patients.view")
@require_http_methods(["GET", "HEAD", "POST"])
def patient_list(request: HttpRequest) -> HttpResponse:
    """Patients, newest first or by name; one box finds them by whatever the caller gives."""
    words = PATIENTS.words_of(request.user)
    if request.method == "POST":
        return to_address(request, PATIENTS.address(), words)
    seal_address(request, words)
    filters = PATIENTS.form(request.GET, request.user)
    valid = filters.is_valid()
    screen = Screen.of(request, PATIENTS, filters)
    if screen.elsewhere:
        return redirect(screen.elsewhere)
    total = Count(0)
    page: Page[Patient] = Page()
    if valid:
        total, page = _found(filters, request.user, screen.size, place_of(request))
        if _by_name(filters):
            screen.notices.append(NAMELESS)
    audit.listed(
        request,
        "patient",
        [patient.pk for patient in page.rows],
        [patient.pk for patient in page.rows],
        searched=bool(filters.text),
    )
    pager = screen.pager(page, total)
    context = {
        "list": screen,
        "filters": filters,
        "page": page,
        "pager": pager,
        "rows": PATIENTS.dressed(page.rows, request.user),
        "total": pager["total"],
    }
    return render(request, "patients/list.html", context, status=200 if valid else 400)


def _found(form: PatientFilters, user: Any, size: int, place: Place) -> tuple[Count, Page[Patient]]:
    """How many patients a valid form asks for, and a page of them."""
    everybody = PATIENTS.everybody(form, user)
    called = Called.alone(form.text) if form.text else None
    if called and called.few is None:
        crowd, many = called.among(everybody), Count(COUNT_CAP, capped=True)
        return many, PATIENTS.page(crowd, form, size, place)
    rows = called.among(everybody) if called else PATIENTS.rows(form, user)
    found = gathered(rows, everybody, form.keyset())
    return found.count, PATIENTS.page(found.rows, form, size, place, found.whole)
