"""Many imports at once, from a table: each row is looked at like a form, and asked by itself.

Nothing of a table is kept here: it travels with the page until its rows are asked for.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final
from uuid import UUID

from backoffice.core import vocabulary
from backoffice.core.identifiers import UnusableCharacter, clean, key, visible
from backoffice.core.spreadsheets import damage, doubt, lost_zeros
from backoffice.core.urls import uuid_in
from backoffice.core.vocabulary.words import VOCABULARIES
from backoffice.pages.lists.formulas import harmless
from labs.models import LabTest, Physician
from orders.models import Order
from orders.placing import drafts
from orders.placing.account_findings import NOT_CHECKED
from orders.placing.finding_type import STOP, Finding
from orders.placing.findings import SAY_WHAT, findings
from orders.placing.forms import PlaceForm, account_words
from orders.placing.import_accounts import account_fault, read_accounts
from orders.placing.order_request import Wish
from orders.placing.table_reader import COLUMNS, REASON, Choice, Row, squeezed
from patients.models import Demographics, Patient

MOST_LETTERS: Final = 200
SAMPLE: Final = (
    "our-reference-1",
    "Made-up panel",
    "SAMPLE-0001",
    "client_bill",
    "testkit",
    "",
    "",
)
"""A row to write one's own by. It means nobody, so it cannot be imported by mistake."""
DEFAULT_BILLING: Final = "client_bill"
DEFAULT: Final = "default"
IDENTIFIERS: Final = ("patient", "sample_id", "lab_account", "physician_npi")
CHOICES: Final = {"billing_type": "order.billing_type", "collection_method": "order.method"}
"""Columns that take one of a few words: those of the service."""
END: Final = "\r\n"


def examine(rows: Sequence[Row]) -> None:
    """Find what each row means and what is wrong with it."""
    known = _Known(rows)
    for row in rows:
        row.faults += _unusable(row.cells)
        row.wish = known.wish(row)
    read_accounts([row.wish for row in rows if row.wish])
    met: dict[str, int] = {}
    shortened = lost_zeros(row.cells["sample_id"] for row in rows)
    for row in rows:
        row.choices = list(_choices(row))
        row.faults += [
            f"“{name}” has {len(cell)} letters: at most {MOST_LETTERS} are taken."
            for name, cell in row.cells.items()
            if len(cell) > MOST_LETTERS
        ]
        if row.wish is not None:
            told = " ".join(row.faults)
            found = findings(row.wish)
            stopped = _stopped(row.wish, row.cells["lab_account"], found)
            row.faults += [words for words in stopped if words not in told]
            row.notes += [one.words for one in found if one.kind == NOT_CHECKED]
        row.warnings += [words for name in IDENTIFIERS if (words := doubt(row.cells[name]))]
        row.warnings += filter(None, [shortened.get(row.cells["sample_id"])])
        sample = key(row.cells["sample_id"])
        if sample and sample in met:
            row.faults.append(f"Line {met[sample]} has this sample id too.")
        met.setdefault(sample, row.number)


def _unusable(cells: Mapping[str, str]) -> Iterator[str]:
    """What of the identifiers is no identifier, in words."""
    for name in IDENTIFIERS:
        try:
            clean(cells[name])
        except UnusableCharacter as error:
            yield f"{name}: {error.words}"
    if words := damage(cells["sample_id"]):
        yield f"sample_id: {words}"


def _cleaned(text: str) -> str:
    """As it is looked up and sent; as typed where `_unusable` refuses it."""
    try:
        return clean(text)
    except UnusableCharacter:
        return text


def _choices(row: Row) -> Iterator[Choice]:
    """What decides who pays, how it is collected, and who is responsible; with our defaults."""
    wish, cells = row.wish, row.cells
    billing = wish.billing_type if wish else _service_word("billing_type", cells) or DEFAULT_BILLING
    method = wish.method if wish else _service_word("collection_method", cells)
    yield _choice("Billing", cells["billing_type"], _term("billing_type", billing))
    yield _choice("Collection", cells["collection_method"], _term("collection_method", method))
    account = account_words(wish.account) if wish and wish.account else cells["lab_account"]
    origin = "only one that offers the test" if wish and wish.is_chosen_by_offer else DEFAULT
    yield _choice("Lab account", cells["lab_account"], account, origin)
    npi = key(cells["physician_npi"])
    found = [one for one in wish.physicians if key(one.npi) == npi] if wish and npi else []
    names = [f"{one.first_name} {one.last_name}, NPI {one.npi}" for one in found]
    yield _choice(
        "Physician", cells["physician_npi"], names[0] if names else cells["physician_npi"]
    )


def _choice(label: str, typed: str, text: str, origin: str = DEFAULT) -> Choice:
    return Choice(label, text or "None", "" if typed else origin)


def _term(name: str, value: str) -> str:
    known = value in VOCABULARIES[CHOICES[name]]
    return vocabulary.term(CHOICES[name], value).label if known else value


def _service_word(name: str, cells: Mapping[str, str]) -> str:
    """The service's word for what was typed, whatever its case, spaces and dashes; also by its
    label. As typed where it has none."""
    text = cells[name]
    for word in VOCABULARIES[CHOICES[name]]:
        if squeezed(text) in (squeezed(word), squeezed(_term(name, word))):
            return word
    return text


def _stopped(wish: Wish, account: str, found: Sequence[Finding]) -> list[str]:
    """What would stop the same order on the page where one is imported."""
    strange = [
        name for name, words in CHOICES.items() if wish.one(name) not in ("", *VOCABULARIES[words])
    ]
    found = [one for one in found if one.level == STOP and one.field not in strange]
    told = {*strange, *(one.field for one in found)}
    form = PlaceForm(wish)
    lacks = [one for one in found if _is_lack(one)]
    labels = [str(form.fields[one.field].label).lower() for one in lacks]
    words = [_no_choice(name, wish.one(name)) for name in strange]
    words += [_lacking(labels, known=wish.person is not None)] if lacks else []
    words += [_words(one, wish, account) for one in found if one not in lacks]
    for name, errors in form.errors.items():
        if name == "physician":
            npi = wish.one("physician")
            words.append(f"No physician of ours has this NPI. {damage(npi)}".strip())
        elif name not in told:
            words += [f"{form.fields[name].label}: {error}" for error in errors]
    return words


def _is_lack(one: Finding) -> bool:
    return one.field in SAY_WHAT and one.kind == f"no {one.field}"


def _lacking(labels: Sequence[str], *, known: bool) -> str:
    """One line for all that nobody said of a patient."""
    if not known:
        return (
            "The service has no details of this patient: add them on the patient’s page first"
            f" ({', '.join(labels)})."
        )
    return f"Missing of the patient, to be added on their page: {', '.join(labels)}."


def _no_choice(name: str, text: str) -> str:
    text = visible(text)
    known = ", ".join(VOCABULARIES[CHOICES[name]])
    return f"“{text}” is no {name}. Write one of these: {known}."


def _words(one: Finding, wish: Wish, account: str) -> str:
    """A finding as it is told of a table, where nothing can be chosen but by what is written."""
    if one.kind == "physician missing":
        known = "; ".join(f"{two.npi} {two.first_name} {two.last_name}" for two in wish.physicians)
        return f"Under this account our own physician orders: write their NPI ({known})."
    if one.kind != "account":
        return one.words
    return account_fault(account, wish)


def write(rows: Iterable[Row], *, reasons: bool) -> str:
    """The rows as a table again, safe to open in a spreadsheet. Without reasons each stands on the
    line it was read from."""
    names = [*COLUMNS, REASON] if reasons else list(COLUMNS)
    records, line = [_record(names)], 2
    for row in rows:
        if not reasons:
            records.append(END * (row.number - line))
            line = max(line, row.number)
        cells = {**row.cells, REASON: " ".join(row.faults)}
        records.append(_record([harmless(cells[name]) for name in names]))
        line += len(io.StringIO(records[-1], newline="").readlines())
    return "".join(records)


def _record(cells: Sequence[str]) -> str:
    record = io.StringIO(newline="")
    csv.writer(record, lineterminator=END).writerow(cells)
    return record.getvalue()


def sample() -> str:
    """A table to write one's own by."""
    row = Row(2, dict(zip(COLUMNS, SAMPLE, strict=True)))
    return write([row], reasons=False)


class _Known:
    """What the rows name, read in a few queries whatever their number."""

    def __init__(self, rows: Sequence[Row]) -> None:
        named = {_cleaned(row.cells["patient"]) for row in rows}
        ids = [pk for text in named if (pk := uuid_in(text))]
        patients = Patient.objects.filter(missing_since=None)
        found = [*patients.filter(pk__in=ids), *patients.with_reference(*named)]
        self.patients: dict[str, dict[UUID, Patient]] = {}
        for patient in found:
            for text in (str(patient.pk), patient.client_user_id):
                self.patients.setdefault(key(text), {})[patient.pk] = patient
        people = Demographics.objects.filter(pk__in=[patient.pk for patient in found])
        self.people = {person.pk: person for person in people}
        self.tests: dict[str, list[LabTest]] = {}
        offered = LabTest.objects.filter(auto_generated=False, missing_since=None)
        for test in offered.select_related("lab").defer("record", "content_hash"):
            for name in {key(str(test.pk)), key(test.slug), key(test.name)}:
                self.tests.setdefault(name, []).append(test)
        self.physicians = list(Physician.objects.filter(missing_since=None))
        samples = [row.cells["sample_id"] for row in rows]
        taken = Order.objects.with_sample_id(*samples).only("pk", "sample_id")
        self.taken = {key(order.sample_id or ""): order for order in taken}

    def wish(self, row: Row) -> Wish | None:
        cells = row.cells
        patient, trouble = self._patient(cells["patient"])
        tests = [test for test in self.tests.get(key(cells["test"]), []) if test.status == "active"]
        if patient is None:
            row.faults.append(trouble)
        if len(tests) != 1:
            many = "Several tests have this name: use its id." if tests else ""
            row.faults.append(many or "No test that can be ordered has this id or name.")
        if patient is None or len(tests) != 1:
            return None
        person = self.people.get(patient.pk)
        typed = {
            **drafts.of_person(patient, person),
            "tests": [str(tests[0].pk)],
            "sample_id": [_cleaned(cells["sample_id"])],
            "billing_type": [_service_word("billing_type", cells) or DEFAULT_BILLING],
            "collection_method": [_service_word("collection_method", cells) or tests[0].method],
            "physician": [_cleaned(cells["physician_npi"])],
            "lab_account": [cells["lab_account"]],
        }
        wish = Wish(patient, person, typed, importing=True)
        # Read already, or the same for many rows.
        wish.__dict__["tests"] = tests
        wish.__dict__["physicians"] = self.physicians
        wish.__dict__["same_sample"] = self.taken.get(key(cells["sample_id"]))
        return wish

    def _patient(self, text: str) -> tuple[Patient | None, str]:
        """Who is meant, or why nobody is, in words: in the very spelling, else in another one."""
        found = list(self.patients.get(key(text), {}).values())
        exact = [one for one in found if _cleaned(text) in (str(one.pk), one.client_user_id)]
        if len(exact or found) == 1:
            return (exact or found)[0], ""
        if found:
            names = ", ".join(sorted(one.client_user_id for one in found))
            return None, f"Several patients have this reference; write it exactly: {names}."
        return None, f"No patient has this id or reference. {damage(text)}".strip()
