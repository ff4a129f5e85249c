"""Many imports at once, from a table: each row is looked at like a form, and asked by itself.

Nothing of a table is kept here: it travels with the page until its rows are asked for.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from backoffice.addresses import uuid_in
from backoffice.lists.formulas import as_typed, harmless
from backoffice.vocabulary.words import VOCABULARIES
from labs.models import LabAccount, LabTest, Physician
from orders.models import Order
from orders.placing import drafts
from orders.placing.findings import SAY_WHAT, STOP, Finding, findings
from orders.placing.forms import PlaceForm, account_words
from orders.placing.wish import Wish
from patients.models import Demographics, Patient

MOST_ROWS: Final = 200
MOST_BYTES: Final = 256 * 1024
MOST_LETTERS: Final = 200
COLUMNS: Final = (
    "patient",
    "test",
    "sample_id",
    "billing_type",
    "collection_method",
    "lab_account",
    "physician_npi",
)
NEEDED: Final = COLUMNS[:3]
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
LEAST_OF_ID: Final = 4
LEAST_OF_NAME: Final = 3
"""Letters from which a part of it means an account."""
SEPARATORS: Final = ",;\t"
"""Tabs are what is pasted from a spreadsheet."""
CHOICES: Final = {"billing_type": "order.billing_type", "collection_method": "order.method"}
"""Columns that take one of a few words: those of the service."""
REASON: Final = "reason"
END: Final = "\r\n"


class Unusable(Exception):
    """The table as a whole cannot be read; words for staff."""


@dataclass(slots=True)
class Row:
    """One line: its cells, whom and what it means, and what is wrong with it."""

    number: int
    """The line of the file on which it begins."""
    cells: dict[str, str]
    wish: Wish | None = None
    faults: list[str] = field(default_factory=list)
    command: Any = None
    """What was asked for it, once it is."""

    @property
    def good(self) -> bool:
        return self.command is not None or (self.wish is not None and not self.faults)


def read(raw: bytes) -> list[Row]:
    """Rows of a CSV file, with a head line; commas, semicolons or tabs, in UTF-8."""
    if len(raw) > MOST_BYTES:
        raise Unusable(f"The table is too large: at most {MOST_BYTES // 1024} KB are taken.")
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise Unusable("The table is not in UTF-8: save it as “CSV UTF-8”.") from error
    if "\x00" in text:
        raise Unusable("This is not a table of text.")
    head, _, _ = text.partition("\n")
    separator = max(SEPARATORS, key=head.count)
    try:
        lines = list(_lines(text, separator))
    except csv.Error as error:
        raise Unusable(f"The table cannot be read: {error}.") from error
    if not lines:
        raise Unusable("The table is empty.")
    names = [name.strip().lower() for name in lines[0][1]]
    lacking = [name for name in NEEDED if name not in names]
    if lacking:
        raise Unusable(f"The first line must name the columns; missing: {', '.join(lacking)}.")
    named = [name for name in names if name]  # Spreadsheets leave empty columns at the end.
    if len(set(named)) != len(named):
        raise Unusable("A column is named twice.")
    rows = [
        Row(number, _cells(names, line))
        for number, line in lines[1:]
        if any(cell.strip() for cell in line)
    ]
    if not rows:
        raise Unusable("The table has no rows below its head line.")
    if len(rows) > MOST_ROWS:
        raise Unusable(f"The table has {len(rows)} rows; at most {MOST_ROWS} are taken at once.")
    return rows


def _lines(text: str, separator: str) -> Iterator[tuple[int, list[str]]]:
    """Each record with the line on which it begins: a cell may have several."""
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=True)
    begins = 1
    for line in reader:
        yield begins, line
        begins = reader.line_num + 1


def examine(rows: Sequence[Row]) -> None:
    """Find what each row means and what is wrong with it."""
    known = _Known(rows)
    met: dict[str, int] = {}
    for row in rows:
        row.wish = known.wish(row)
        row.faults += [
            f"“{name}” has {len(cell)} letters: at most {MOST_LETTERS} are taken."
            for name, cell in row.cells.items()
            if len(cell) > MOST_LETTERS
        ]
        if row.wish is not None:
            row.faults += _stopped(row.wish, row.cells["lab_account"])
        sample = row.cells["sample_id"]
        if sample and sample in met:
            row.faults.append(f"Line {met[sample]} has this sample id too.")
        met.setdefault(sample, row.number)


def _stopped(wish: Wish, account: str) -> list[str]:
    """What would stop the same order on the page where one is imported."""
    strange = [
        name for name, words in CHOICES.items() if wish.one(name) not in ("", *VOCABULARIES[words])
    ]
    found = [one for one in findings(wish) if one.level == STOP and one.field not in strange]
    told = {*strange, *(one.field for one in found)}
    form = PlaceForm(wish)
    lacks = [one for one in found if _is_lack(one)]
    labels = [str(form.fields[one.field].label).lower() for one in lacks]
    words = [_no_choice(name, wish.one(name)) for name in strange]
    words += [_lacking(labels, known=wish.person is not None)] if lacks else []
    words += [_words(one, wish, account) for one in found if one not in lacks]
    for name, errors in form.errors.items():
        if name == "physician":
            words.append("No physician of ours has this NPI.")
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
    known = ", ".join(VOCABULARIES[CHOICES[name]])
    return f"“{text}” is no {name}. Write one of these: {known}."


def _words(one: Finding, wish: Wish, account: str) -> str:
    """A finding as it is told of a table, where nothing can be chosen but by what is written."""
    if one.kind == "physician missing":
        known = "; ".join(f"{two.npi} {two.first_name} {two.last_name}" for two in wish.physicians)
        return f"Under this account our own physician orders: write their NPI ({known})."
    if one.kind != "account":
        return one.words
    names = "; ".join(account_words(each) for each in wish.usable_accounts)
    meant = len(_meant(account, wish.usable_accounts))
    trouble = "may be several accounts" if meant > 1 else "is no account that can be used here"
    return f"“{account}” {trouble}. Write the name or the number of one: {names}."


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


def _cells(names: Sequence[str], line: Sequence[str]) -> dict[str, str]:
    given = dict(zip(names, line, strict=False))
    return {name: _plain(given.get(name, "")) for name in COLUMNS}


def _plain(cell: str) -> str:
    return as_typed(cell.strip())


class _Known:
    """What the rows name, read in a few queries whatever their number."""

    def __init__(self, rows: Sequence[Row]) -> None:
        named = {row.cells["patient"] for row in rows}
        ids = [pk for text in named if (pk := uuid_in(text))]
        patients = Patient.objects.filter(missing_since=None)
        found = [*patients.filter(pk__in=ids), *patients.filter(client_user_id__in=named)]
        self.patients: dict[str, Patient] = {}
        for patient in found:
            self.patients[str(patient.pk)] = patient
            self.patients[patient.client_user_id] = patient
        people = Demographics.objects.filter(pk__in=[patient.pk for patient in found])
        self.people = {person.pk: person for person in people}
        self.tests: dict[str, list[LabTest]] = {}
        offered = LabTest.objects.filter(auto_generated=False, missing_since=None)
        for test in offered.select_related("lab").defer("record", "content_hash"):
            for name in {str(test.pk), test.slug.lower(), test.name.lower()}:
                self.tests.setdefault(name, []).append(test)
        self.physicians = list(Physician.objects.filter(missing_since=None))
        samples = [row.cells["sample_id"] for row in rows]
        taken = Order.objects.filter(sample_id__in=samples).only("pk", "sample_id")
        self.taken = {order.sample_id: order for order in taken}
        self.accounts: dict[tuple[Any, Any], list[LabAccount]] = {}

    def wish(self, row: Row) -> Wish | None:
        cells = row.cells
        patient = self.patients.get(cells["patient"])
        tests = [
            test for test in self.tests.get(cells["test"].lower(), []) if test.status == "active"
        ]
        if patient is None:
            row.faults.append("No patient has this id or reference.")
        if len(tests) != 1:
            many = "Several tests have this name: use its id." if tests else ""
            row.faults.append(many or "No test that can be ordered has this id or name.")
        if patient is None or len(tests) != 1:
            return None
        person = self.people.get(patient.pk)
        typed = {
            **drafts.of_person(person),
            "tests": [str(tests[0].pk)],
            "sample_id": [cells["sample_id"]],
            "billing_type": [cells["billing_type"].lower() or "client_bill"],
            "collection_method": [cells["collection_method"].lower() or tests[0].method],
            "physician": [cells["physician_npi"]],
        }
        wish = Wish(patient, person, typed, importing=True)
        # Read already, or the same for many rows.
        wish.__dict__["tests"] = tests
        wish.__dict__["physicians"] = self.physicians
        wish.__dict__["same_sample"] = self.taken.get(cells["sample_id"])
        # A test that names no lab is at that of its markers.
        lab_and_team = (tests[0].lab_id or tests[0].pk, patient.team_id)
        if lab_and_team in self.accounts:
            wish.__dict__["accounts"] = self.accounts[lab_and_team]
        else:
            self.accounts[lab_and_team] = wish.accounts
        typed["lab_account"] = [_account(cells["lab_account"], wish.usable_accounts)]
        return wish


def _account(named: str, accounts: Sequence[LabAccount]) -> str:
    """The id of the account that was meant, or what was written where that is not certain."""
    meant = _meant(named, accounts)
    return str(meant[0].pk) if len(meant) == 1 else named


def _meant(named: str, accounts: Sequence[LabAccount]) -> list[LabAccount]:
    """Accounts with this id, number or name; else those of which it is a part: the beginning of the
    id, or any of the name."""
    text = named.lower()
    if not text:
        return []
    whole = [one for one in accounts if text in {part.lower() for part in _called(one)}]
    return whole or [one for one in accounts if _is_part(text, one)]


def _called(account: LabAccount) -> tuple[str, str, str]:
    return str(account.pk), account.provider_account_id, account.account_name or ""


def _is_part(text: str, account: LabAccount) -> bool:
    name = (account.account_name or "").lower()
    of_id = len(text) >= LEAST_OF_ID and str(account.pk).startswith(text)
    return of_id or (len(text) >= LEAST_OF_NAME and text in name)
