"""Import of many orders from a table: each row is checked like a form, and becomes one command.

`table_reader.py` reads the table.

The server does not store the table. The page has it until its rows are imported.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final
from uuid import UUID

from django.utils.translation import gettext, gettext_noop

from backoffice.core import vocabulary
from backoffice.core.identifiers import UnusableCharacter, clean, comparison_key, visible
from backoffice.core.spreadsheets import damage_message, lost_zero_warnings, warning_message
from backoffice.core.urls import parse_uuid
from backoffice.core.vocabulary.data import VOCABULARIES
from backoffice.pages.lists.formulas import escape_formula
from labs.models import LabTest, Physician
from orders.models import Order
from orders.placing import drafts
from orders.placing.account_findings import NOT_CHECKED
from orders.placing.finding_type import STOP, Finding
from orders.placing.findings import MISSING_MESSAGES, findings
from orders.placing.forms import PlaceForm, account_text
from orders.placing.import_accounts import account_error, read_accounts
from orders.placing.order_request import OrderRequest
from orders.placing.table_reader import COLUMNS, REASON, ImportRow, RowChoice, squeezed
from patients.models import Demographics, Patient

MAX_LETTERS: Final = 200
SAMPLE: Final = (
    "our-reference-1",
    "Made-up panel",
    "SAMPLE-0001",
    "client_bill",
    "testkit",
    "",
    "",
)
"""An example row. It names no patient, so it cannot be imported by mistake."""
DEFAULT_BILLING: Final = "client_bill"
DEFAULT: Final = gettext_noop("default")
IDENTIFIERS: Final = ("patient", "sample_id", "lab_account", "physician_npi")
CHOICES: Final = {"billing_type": "order.billing_type", "collection_method": "order.method"}
"""Columns that accept only values of the service."""
LINE_END: Final = "\r\n"


def check_rows(rows: Sequence[ImportRow]) -> None:
    """Read the meaning of each row, and add its errors."""
    records = _ReferencedRecords(rows)
    for row in rows:
        row.faults += _unusable(row.cells)
        row.order_request = records.make_request(row)
    read_accounts([row.order_request for row in rows if row.order_request])
    first_lines: dict[str, int] = {}
    cut_off = lost_zero_warnings(row.cells["sample_id"] for row in rows)
    for row in rows:
        row.choices = list(_choices(row))
        row.faults += [
            gettext("“%(column)s” has %(count)s characters. The limit is %(limit)s.")
            % {"column": name, "count": len(cell), "limit": MAX_LETTERS}
            for name, cell in row.cells.items()
            if len(cell) > MAX_LETTERS
        ]
        if row.order_request is not None:
            earlier_faults = " ".join(row.faults)
            row_findings = findings(row.order_request)
            stopped = _blocking_messages(row.order_request, row.cells["lab_account"], row_findings)
            row.faults += [words for words in stopped if words not in earlier_faults]
            row.notes += [finding.words for finding in row_findings if finding.kind == NOT_CHECKED]
        row.warnings += [
            words for name in IDENTIFIERS if (words := warning_message(row.cells[name]))
        ]
        row.warnings += filter(None, [cut_off.get(row.cells["sample_id"])])
        sample = comparison_key(row.cells["sample_id"])
        if sample and sample in first_lines:
            row.faults.append(
                gettext("Line %(line)s has the same sample ID.") % {"line": first_lines[sample]}
            )
        first_lines.setdefault(sample, row.number)


def _unusable(cells: Mapping[str, str]) -> Iterator[str]:
    """Yield messages about identifiers that are not valid."""
    for name in IDENTIFIERS:
        try:
            clean(cells[name])
        except UnusableCharacter as error:
            yield f"{name}: {error.words}"
    if words := damage_message(cells["sample_id"]):
        yield f"sample_id: {words}"


def _cleaned(text: str) -> str:
    """Return the text as it is looked up and sent; unchanged if `_unusable` refuses it."""
    try:
        return clean(text)
    except UnusableCharacter:
        return text


def _choices(row: ImportRow) -> Iterator[RowChoice]:
    """Yield billing type, collection method and physician, including our defaults."""
    order_request, cells = row.order_request, row.cells
    billing = (
        order_request.billing_type
        if order_request
        else _service_word("billing_type", cells) or DEFAULT_BILLING
    )
    method = order_request.method if order_request else _service_word("collection_method", cells)
    yield _choice(gettext("Billing"), cells["billing_type"], _term("billing_type", billing))
    yield _choice(
        gettext("Collection"), cells["collection_method"], _term("collection_method", method)
    )
    account = (
        account_text(order_request.account)
        if order_request and order_request.account
        else cells["lab_account"]
    )
    origin = (
        gettext("only one that offers the test")
        if order_request and order_request.is_account_inferred
        else gettext(DEFAULT)
    )
    yield _choice(gettext("Lab account"), cells["lab_account"], account, origin)
    npi = comparison_key(cells["physician_npi"])
    matches = (
        [
            physician
            for physician in order_request.physicians
            if comparison_key(physician.npi) == npi
        ]
        if order_request and npi
        else []
    )
    names = [
        f"{physician.first_name} {physician.last_name}, NPI {physician.npi}"
        for physician in matches
    ]
    yield _choice(
        gettext("Physician"),
        cells["physician_npi"],
        names[0] if names else cells["physician_npi"],
    )


def _choice(label: str, typed: str, text: str, origin: str = "") -> RowChoice:
    return RowChoice(label, text or gettext("None"), "" if typed else origin or gettext(DEFAULT))


def _term(name: str, value: str) -> str:
    is_known = value in VOCABULARIES[CHOICES[name]]
    return gettext(vocabulary.term(CHOICES[name], value).label) if is_known else value


def _service_word(name: str, cells: Mapping[str, str]) -> str:
    """Return the service's value for the typed text, which may also be its label.

    Case, spaces and dashes are ignored. A text without a value is returned unchanged.
    """
    text = cells[name]
    for word in VOCABULARIES[CHOICES[name]]:
        if squeezed(text) in (squeezed(word), squeezed(_term(name, word))):
            return word
    return text


def _blocking_messages(
    order_request: OrderRequest, account: str, row_findings: Sequence[Finding]
) -> list[str]:
    """Return the messages that would stop the same order on the page that imports one order."""
    unknown = [
        name
        for name, words in CHOICES.items()
        if order_request.value(name) not in ("", *VOCABULARIES[words])
    ]
    row_findings = [
        finding
        for finding in row_findings
        if finding.level == STOP and finding.field not in unknown
    ]
    reported = {*unknown, *(finding.field for finding in row_findings)}
    form = PlaceForm(order_request)
    lacks = [finding for finding in row_findings if _is_missing_detail(finding)]
    labels = [str(form.fields[finding.field].label).lower() for finding in lacks]
    words = [_choice_message(name, order_request.value(name)) for name in unknown]
    words += (
        [_missing_details_message(labels, has_record=order_request.person is not None)]
        if lacks
        else []
    )
    words += [
        _table_message(finding, order_request, account)
        for finding in row_findings
        if finding not in lacks
    ]
    for name, errors in form.errors.items():
        if name == "physician":
            npi = order_request.value("physician")
            fault = gettext("None of our physicians has this NPI.")
            words.append(f"{fault} {damage_message(npi)}".strip())
        elif name not in reported:
            words += [f"{form.fields[name].label}: {error}" for error in errors]
    return words


def _is_missing_detail(finding: Finding) -> bool:
    return finding.field in MISSING_MESSAGES and finding.kind == f"no {finding.field}"


def _missing_details_message(labels: Sequence[str], *, has_record: bool) -> str:
    """Return one message for all missing details of a patient."""
    if not has_record:
        sentence = gettext(
            "The service has no demographics for this patient. Add them on the patient’s page "
            "first: %(fields)s."
        )
    else:
        sentence = gettext("Missing: %(fields)s. Add this on the patient’s page.")
    return sentence % {"fields": ", ".join(labels)}


def _choice_message(name: str, text: str) -> str:
    return gettext("“%(text)s” is not a valid %(column)s. Use one of these: %(values)s.") % {
        "text": visible(text),
        "column": name,
        "values": ", ".join(VOCABULARIES[CHOICES[name]]),
    }


def _table_message(finding: Finding, order_request: OrderRequest, account: str) -> str:
    """Return the message of a finding for a table, where staff choose by writing a value."""
    if finding.kind == "physician missing":
        physicians = "; ".join(
            f"{physician.npi} {physician.first_name} {physician.last_name}"
            for physician in order_request.physicians
        )
        return gettext(
            "This account needs an ordering physician. Enter one of these NPIs: %(physicians)s."
        ) % {"physicians": physicians}
    if finding.kind != "account":
        return finding.words
    return account_error(account, order_request)


def write_table(rows: Iterable[ImportRow], *, reasons: bool) -> str:
    """Return the rows as a table again, safe to open in a spreadsheet.

    Without reasons, each row has the line from which it was read.
    """
    names = [*COLUMNS, REASON] if reasons else list(COLUMNS)
    records, line = [_record(names)], 2
    for row in rows:
        if not reasons:
            records.append(LINE_END * (row.number - line))
            line = max(line, row.number)
        cells = {**row.cells, REASON: " ".join(row.faults)}
        records.append(_record([escape_formula(cells[name]) for name in names]))
        line += len(io.StringIO(records[-1], newline="").readlines())
    return "".join(records)


def _record(cells: Sequence[str]) -> str:
    record = io.StringIO(newline="")
    csv.writer(record, lineterminator=LINE_END).writerow(cells)
    return record.getvalue()


def sample_table() -> str:
    """Return a table with an example row."""
    row = ImportRow(2, dict(zip(COLUMNS, SAMPLE, strict=True)))
    return write_table([row], reasons=False)


class _ReferencedRecords:
    """The records that the rows name, read by a few queries whatever the number of rows."""

    def __init__(self, rows: Sequence[ImportRow]) -> None:
        named = {_cleaned(row.cells["patient"]) for row in rows}
        ids = [pk for text in named if (pk := parse_uuid(text))]
        patients = Patient.objects.filter(missing_since=None)
        referenced = [*patients.filter(pk__in=ids), *patients.with_reference(*named)]
        self.patients: dict[str, dict[UUID, Patient]] = {}
        for patient in referenced:
            for text in (str(patient.pk), patient.client_user_id):
                self.patients.setdefault(comparison_key(text), {})[patient.pk] = patient
        people = Demographics.objects.filter(pk__in=[patient.pk for patient in referenced])
        self.people = {person.pk: person for person in people}
        self.tests: dict[str, list[LabTest]] = {}
        offered = LabTest.objects.filter(auto_generated=False, missing_since=None)
        for test in offered.select_related("lab").defer("record", "content_hash"):
            for name in {
                comparison_key(str(test.pk)),
                comparison_key(test.slug),
                comparison_key(test.name),
            }:
                self.tests.setdefault(name, []).append(test)
        self.physicians = list(Physician.objects.filter(missing_since=None))
        samples = [row.cells["sample_id"] for row in rows]
        same_samples = Order.objects.with_sample_id(*samples).only("pk", "sample_id")
        self.taken = {comparison_key(order.sample_id or ""): order for order in same_samples}

    def make_request(self, row: ImportRow) -> OrderRequest | None:
        cells = row.cells
        patient, trouble = self._patient(cells["patient"])
        tests = [
            test
            for test in self.tests.get(comparison_key(cells["test"]), [])
            if test.status == "active"
        ]
        if patient is None:
            row.faults.append(trouble)
        if len(tests) != 1:
            row.faults.append(
                gettext("Several tests have this name. Use the test’s ID.")
                if tests
                else gettext("No test that can be ordered has this ID or name.")
            )
        if patient is None or len(tests) != 1:
            return None
        person = self.people.get(patient.pk)
        typed = {
            **drafts.person_values(patient, person),
            "tests": [str(tests[0].pk)],
            "sample_id": [_cleaned(cells["sample_id"])],
            "billing_type": [_service_word("billing_type", cells) or DEFAULT_BILLING],
            "collection_method": [_service_word("collection_method", cells) or tests[0].method],
            "physician": [_cleaned(cells["physician_npi"])],
            "lab_account": [cells["lab_account"]],
        }
        order_request = OrderRequest(patient, person, typed, importing=True)
        # These are already read, or the same for many rows.
        order_request.tests = tests
        order_request.physicians = self.physicians
        order_request.order_with_sample_id = self.taken.get(comparison_key(cells["sample_id"]))
        return order_request

    def _patient(self, text: str) -> tuple[Patient | None, str]:
        """Return the patient, or why none is found. An exact spelling is preferred to any other."""
        matches = list(self.patients.get(comparison_key(text), {}).values())
        exact = [
            patient
            for patient in matches
            if _cleaned(text) in (str(patient.pk), patient.client_user_id)
        ]
        if len(exact or matches) == 1:
            return (exact or matches)[0], ""
        if matches:
            names = ", ".join(sorted(patient.client_user_id for patient in matches))
            fault = gettext(
                "Several patients have this reference. Enter it exactly as one of these: "
                "%(references)s."
            ) % {"references": names}
            return None, fault
        fault = gettext("No patient has this ID or reference.")
        return None, f"{fault} {damage_message(text)}".strip()
