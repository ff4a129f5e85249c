"""Importing orders placed elsewhere: one by the form, many from a table."""

from __future__ import annotations

import csv
import io
import re
from html import unescape
from typing import Any

import pytest
from django.db import connection
from django.db.models import F, Max
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from backoffice.models import AuditEntry, CommandRecord
from labs.models import LabAccount, LabAccountTeam, LabTest, Physician
from orders.models import Order
from orders.placing import drafts, sheet_import
from orders.placing.order_request import PHYSICIAN_REQUIRED_FLOWS
from orders.placing.patient_rules import is_name
from orders.placing.table_reader import COLUMNS, NEEDED, ImportRow, read
from patients.models import Demographics, Patient
from tests.api.rows import NOBODY, envelope, uid
from tests.audit.trail import forget
from tests.outbox.desk import FORM_ID, Desk

State = CommandRecord.State
SHEET = "/orders/import/"


@pytest.fixture
def person(desk: Desk) -> Demographics:
    known = Demographics.objects.filter(dob__lt="2000-01-01").exclude(zip="").exclude(email="")
    by_last = known.annotate(last=Max("user__orders__created_at")).order_by(
        F("last").asc(nulls_first=True), "pk"
    )
    return next(one for one in by_last if is_name(one.first_name) and is_name(one.last_name))


@pytest.fixture
def panel(desk: Desk) -> LabTest:
    tests = LabTest.objects.filter(lab__slug="lab-south", status="active", auto_generated=False)
    return tests.order_by("name")[0]


def ask(client: Client, person: Demographics, panel: LabTest, sample: str) -> CommandRecord:
    known = {name: given[0] for name, given in drafts.person_values(person.user, person).items()}
    given = {**known, "tests": [str(panel.pk)], "billing_type": "client_bill", "sample_id": sample}
    answer = client.post(reverse("orders:import", args=[person.pk]), {**given, "do": "review"})
    assert answer.status_code == 302, answer.content.decode()
    address = reverse("orders:import-review", args=[person.pk])
    form = client.get(address).context["form"]
    reviewed = {name: str(form[name].value()) for name in ("form_id", "draft")}
    assert client.post(address, reviewed).status_code == 302
    return CommandRecord.objects.get(form_id=reviewed["form_id"])


def imported(desk: Desk, sample: str) -> int:
    return desk.count("SELECT count(*) FROM sandbox_order WHERE sample_id = %s", sample)


def test_an_order_is_imported_once(desk: Desk, person: Demographics, panel: LabTest) -> None:
    asked = ask(desk.client("clinician"), person, panel, "MADEUP-1")
    desk.deliver()
    asked.refresh_from_db()
    assert (asked.state, asked.confirmed_by) == (State.DONE, "answer")
    made = Order.objects.get(pk=asked.remote_id)
    assert (made.sample_id, made.low_level_status) == ("MADEUP-1", "requisition_bypassed")
    assert imported(desk, "MADEUP-1") == 1


@pytest.mark.parametrize("kind", ["drop_after", "status_after", "truncate"])
def test_a_lost_answer_is_found_by_the_sample(
    desk: Desk, person: Demographics, panel: LabTest, kind: str
) -> None:
    sample = f"MADEUP-{kind}"
    asked = ask(desk.client("clinician"), person, panel, sample)
    desk.fault(kind, "/order/import$", statuses=[500])
    desk.deliver()
    desk.later()
    asked.refresh_from_db()
    assert (asked.state, asked.confirmed_by, asked.attempts) == (State.DONE, "look-up", 1)
    assert imported(desk, sample) == 1


def test_a_lost_answer_is_found_whatever_the_clock_of_the_service_says(
    desk: Desk, person: Demographics, panel: LabTest
) -> None:
    asked = ask(desk.client("clinician"), person, panel, "MADEUP-CLOCK")
    desk.fault("drop_after", "/order/import$")
    desk.deliver()
    assert desk.sandbox.query(
        "UPDATE sandbox_order SET created_at = created_at - interval '3 days'"
        " WHERE sample_id = 'MADEUP-CLOCK' RETURNING 1"
    )
    desk.later()
    asked.refresh_from_db()
    assert (asked.state, asked.confirmed_by, asked.attempts) == (State.DONE, "look-up", 1)


def test_a_clash_with_ourselves_is_a_success(
    desk: Desk, person: Demographics, panel: LabTest
) -> None:
    """The first sending was carried out unseen; the second one is refused for it."""
    asked = ask(desk.client("clinician"), person, panel, "MADEUP-TWICE")
    desk.fault("drop_after", "/order/import$")
    desk.deliver()
    CommandRecord.objects.filter(pk=asked.pk).update(
        state=State.WAITING, due_at="2020-01-01T00:00Z"
    )
    desk.deliver()
    asked.refresh_from_db()
    assert (asked.state, asked.confirmed_by, asked.attempts) == (State.DONE, "look-up", 2)
    assert imported(desk, "MADEUP-TWICE") == 1


def test_a_clash_with_another_order_lands_on_the_field(
    desk: Desk, person: Demographics, panel: LabTest
) -> None:
    client = desk.client("clinician")
    ask(client, person, panel, "MADEUP-TAKEN")
    desk.deliver()
    other = Demographics.objects.filter(dob__lt="2000-01-01").exclude(pk=person.pk)
    somebody = next(one for one in other if is_name(one.first_name) and is_name(one.last_name))
    Order.objects.filter(sample_id="MADEUP-TAKEN").delete()  # Not mirrored yet.
    asked = ask(client, somebody, panel, "MADEUP-TAKEN")
    desk.deliver()
    asked.refresh_from_db()
    assert asked.state == State.REFUSED and asked.refusal
    page = client.get(f"{asked.form_url}?again={asked.pk}")
    assert page.context["form"].errors["sample_id"]
    assert 'value="MADEUP-TAKEN"' in page.content.decode()
    assert imported(desk, "MADEUP-TAKEN") == 1


def test_a_sample_id_known_here_is_said_before_sending(
    desk: Desk, person: Demographics, panel: LabTest
) -> None:
    client = desk.client("clinician")
    ask(client, person, panel, "MADEUP-KNOWN")
    desk.deliver()
    known = {name: given[0] for name, given in drafts.person_values(person.user, person).items()}
    given = {**known, "tests": [str(panel.pk)], "sample_id": "MADEUP-KNOWN", "do": "review"}
    answer = client.post(reverse("orders:import", args=[person.pk]), given)
    assert answer.status_code == 422
    assert "sample id already" in answer.content.decode()


# Tables


def table(*rows: list[str], head: str = "patient,test,sample_id") -> bytes:
    sheet_ = io.StringIO(newline="")
    csv.writer(sheet_).writerows(rows)
    return (head + "\r\n" + sheet_.getvalue()).encode()


def send(client: Client, raw: bytes, do: str, form_id: str = "") -> Any:
    if not form_id:
        found = FORM_ID.search(client.get(SHEET).content.decode())
        assert found
        form_id = found[1]
    return client.post(SHEET, {"form_id": form_id, "rows": raw.decode(), "do": do})


def test_good_rows_are_imported_and_bad_ones_come_back_with_reasons(
    desk: Desk, person: Demographics, panel: LabTest
) -> None:
    client = desk.client("clinician")
    reference = Patient.objects.get(pk=person.pk).client_user_id
    raw = table(
        [reference, panel.name, "SHEET-1"],
        [str(person.pk), str(panel.pk), "SHEET-2"],
        ["nobody", panel.name, "SHEET-3"],
        [reference, "=1+1", "SHEET-4"],
        [reference, panel.name, "SHEET-1"],
        [reference, panel.name, ""],
    )
    page = send(client, raw, "check")
    assert page.status_code == 200
    assert (len(page.context["good"]), len(page.context["bad"])) == (2, 4)
    assert not CommandRecord.objects.exists()
    form_id = page.context["form"]["form_id"].value()
    for _ in range(2):
        page = send(client, raw, "import", form_id)
        assert page.status_code == 200
    assert CommandRecord.objects.count() == 2
    desk.deliver()
    assert CommandRecord.objects.filter(state=State.DONE).count() == 2
    assert imported(desk, "SHEET-1") == imported(desk, "SHEET-2") == 1

    answer = send(client, raw, "bad", form_id)
    assert answer["Content-Type"].startswith("text/csv")
    lines = list(csv.DictReader(io.StringIO(answer.content.decode("utf-8-sig"))))
    assert len(lines) == 4
    told = {line["sample_id"]: line for line in lines}
    assert "Line 2 has this sample id too" in told["SHEET-1"]["reason"]
    assert "No patient" in told["SHEET-3"]["reason"]
    assert told["SHEET-4"]["test"] == "'=1+1"
    assert "sample ID is missing" in told[""]["reason"]
    assert AuditEntry.objects.filter(action="export", row_count__gt=0).exists()


def test_an_import_that_is_sent_again_shows_what_it_asked_for(
    desk: Desk, person: Demographics, panel: LabTest
) -> None:
    """Reloaded when the orders are there: their sample ids are taken, by this very page."""
    client = desk.client("clinician")
    raw = table([str(person.pk), panel.name, "RELOAD-1"], ["nobody", panel.name, "RELOAD-2"])
    form_id = send(client, raw, "check").context["form"]["form_id"].value()
    send(client, raw, "import", form_id)
    desk.deliver()
    assert Order.objects.filter(sample_id="RELOAD-1").exists()
    page = send(client, raw, "import", form_id)
    assert (len(page.context["good"]), len(page.context["bad"])) == (1, 1)
    assert "1 row asked for" in page.content.decode()
    assert reverse("commands:detail", args=[desk.newest().pk]) in page.content.decode()
    edited = table([str(person.pk), str(panel.pk), "RELOAD-1"])
    page = send(client, edited, "import", form_id)
    assert "sample id already" in page.content.decode()
    assert CommandRecord.objects.count() == 1


def test_the_page_of_an_import_follows_what_becomes_of_its_rows(
    desk: Desk, person: Demographics, panel: LabTest
) -> None:
    client = desk.client("clinician")
    standing = reverse("orders:import-standing")
    raw = table([str(person.pk), panel.name, "FOLLOW-1"])
    page = send(client, raw, "import").content.decode()
    asked = CommandRecord.objects.get()
    poll = re.search(rf'hx-get="({standing}[^"]+)"', page)
    assert poll and f'id="asked-{asked.pk}"' in page and "Waiting" in page
    assert "hx-get" in client.get(unescape(poll[1])).content.decode()
    desk.deliver()
    answer = client.get(unescape(poll[1])).content.decode()
    assert f'id="asked-{asked.pk}" hx-swap-oob="true"' in answer and "Done" in answer
    assert "hx-get" not in answer, "all is told"
    other = desk.client("lab coordinator").get(unescape(poll[1])).content.decode()
    assert str(asked.pk) not in other
    for nonsense in ("?since=", "?since=tomorrow", "?since=2026-01-01", "?since=2026-02-31T00:00Z"):
        assert client.get(standing + nonsense).status_code == 400, nonsense


def test_rows_are_checked_like_the_form_in_few_queries(
    desk: Desk, person: Demographics, panel: LabTest
) -> None:
    client = desk.client("clinician")
    head = "patient,test,sample_id,billing_type,collection_method,physician_npi,,"
    bad = {
        "No physician of ours": ["CELL-1", "", "", "1234567893"],
        "bananas": ["CELL-2", "bananas", "", ""],
        "teleport": ["CELL-3", "", "teleport", ""],
        "at most 200": ["x" * 250, "", "", ""],
        "at most 100": ["x" * 150, "", "", ""],
    }
    rows = [[str(person.pk), panel.name, *cells, "", ""] for cells in bad.values()]
    page = send(client, table(*rows, head=head), "check")
    assert len(page.context["bad"]) == len(bad), [row.faults for row in page.context["rows"]]
    for words, row in zip(bad, page.context["rows"], strict=True):
        assert words in " ".join(row.faults)
        assert len(row.faults) == len(set(row.faults))
    assert "x" * 250 in page.content.decode()
    counts = []
    for many in (1, 60):
        rows = [[str(person.pk), panel.name, f"MANY-{number}"] for number in range(many)]
        with CaptureQueriesContext(connection) as made:
            assert len(send(client, table(*rows), "check").context["good"]) == many
        counts.append(len(made))
    assert counts[0] == counts[1], counts


def test_whoever_is_named_in_a_table_is_in_the_audit(
    desk: Desk, person: Demographics, panel: LabTest
) -> None:
    client = desk.client("clinician")
    raw = table([str(person.pk), panel.name, ""])
    for do in ("check", "import"):
        forget()
        page = send(client, raw, do)
        assert person.last_name in page.content.decode()
        assert AuditEntry.objects.filter(object_type="order import").count() == 1


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        (b"", "Choose a file"),
        (b"patient,test\r\n1,2\r\n", "missing: sample_id"),
        (b"patient,test,sample_id\r\n", "no rows"),
        (b'patient,test,sample_id\r\n"open,2,3', "cannot be read"),
        (b"patient,test,sample_id,test\r\n1,2,3,4\r\n", "named twice"),
        (b"patient,test,sample_id\r\n" + b"a,b,c\r\n" * 201, "at most 200"),
    ],
)
def test_a_table_that_cannot_be_read_says_why(desk: Desk, raw: bytes, words: str) -> None:
    answer = send(desk.client("clinician"), raw, "check")
    assert answer.status_code == 422
    assert words in answer.content.decode()
    assert not CommandRecord.objects.exists()


def test_cells_come_back_as_they_were_after_a_spreadsheet() -> None:
    raw = table(["=cmd", "-x", "@y"], ["plain", "it's", "'z"])
    rows = read(raw)
    again = read(sheet_import.write_table(rows, reasons=True).encode())
    assert [row.cells for row in again] == [row.cells for row in rows]
    assert "'=cmd" in sheet_import.write_table(rows, reasons=False)


def test_semicolons_and_marks_of_spreadsheets_are_read() -> None:
    raw = "\ufeffPatient;Test;Sample_ID\r\na;b;c\r\n".encode()
    (row,) = read(raw)
    assert (row.cells["patient"], row.cells["test"], row.cells["sample_id"]) == ("a", "b", "c")
    (pasted,) = read(b"patient\ttest\tsample_id\na\tb, with a comma\tc\n")
    assert list(pasted.cells.values())[:3] == ["a", "b, with a comma", "c"]


@pytest.fixture
def accounts(person: Demographics, panel: LabTest) -> tuple[LabAccount, LabAccount]:
    """The two that the patient's team has at the lab of the test."""
    LabAccountTeam.objects.filter(account__lab="lab-south").delete()
    made = [
        LabAccount.objects.create(
            pk=uid("account", number), lab="lab-south", status="active",
            delegated_flow="order_delegated", provider_account_id=f"NUM-{number}",
            account_name=name, **envelope('{"allowed_billing": {}}'),
        )
        for number, name in ((1, "Made-up Clinic East"), (2, "Made-up Clinic West"))
    ]  # fmt: skip
    team_id = Patient.objects.get(pk=person.pk).team_id
    for account in made:
        LabAccountTeam.objects.create(account=account, team_id=team_id)
    return made[0], made[1]


def checked(client: Client, person: Demographics, panel: LabTest, account: str) -> ImportRow:
    head = "patient,test,sample_id,lab_account"
    raw = table([str(person.pk), panel.name, "ACCOUNT-1", account], head=head)
    row: ImportRow = send(client, raw, "check").context["rows"][0]
    return row


def test_where_our_own_physician_orders_a_table_is_told_whose_number_to_write(
    desk: Desk, person: Demographics, panel: LabTest, accounts: tuple[LabAccount, LabAccount]
) -> None:
    account = accounts[0]
    LabAccount.objects.filter(pk=account.pk).update(delegated_flow=PHYSICIAN_REQUIRED_FLOWS[0])
    known = Physician.objects.filter(missing_since=None)[0]
    words = " ".join(checked(desk.client("clinician"), person, panel, str(account.pk)).faults)
    assert "our own physician orders: write their NPI" in words
    assert f"{known.npi} {known.first_name} {known.last_name}" in words


def test_a_word_that_the_service_does_not_know_is_answered_with_those_it_does(
    desk: Desk, person: Demographics, panel: LabTest
) -> None:
    raw = table(
        [str(person.pk), panel.name, "WORDS-1", "Bill", "by post"],
        [str(person.pk), panel.name, "WORDS-2", "Client_Bill", panel.method.upper()],
        head="patient,test,sample_id,billing_type,collection_method",
    )
    strange, loud = send(desk.client("clinician"), raw, "check").context["rows"]
    billing, method = strange.faults
    assert "“Bill” is no billing_type" in billing and "client_bill, " in billing
    assert "“by post” is no collection_method" in method and "testkit" in method
    assert loud.is_importable, loud.faults


def test_accounts_to_choose_from_are_named(
    desk: Desk,
    person: Demographics,
    panel: LabTest,
    accounts: tuple[LabAccount, LabAccount],
) -> None:
    client = desk.client("clinician")
    for typed in ("", "clinic", "nowhere"):
        faults = " ".join(checked(client, person, panel, typed).faults)
        for account in accounts:
            assert f"{account.account_name}, number {account.provider_account_id}" in faults
        assert typed in faults
    assert "may be several accounts" in " ".join(checked(client, person, panel, "clinic").faults)


def test_an_account_is_named_by_whatever_tells_it_from_the_others(
    desk: Desk,
    person: Demographics,
    panel: LabTest,
    accounts: tuple[LabAccount, LabAccount],
) -> None:
    client = desk.client("clinician")
    west = accounts[1]
    named = ("Made-up Clinic West", "made-up clinic WEST", "west", "NUM-2", "num-2")
    for typed in (*named, str(west.pk), str(west.pk)[:8]):
        row = checked(client, person, panel, typed)
        assert row.order_request is not None and row.order_request.account == west, typed
        assert not [fault for fault in row.faults if "choose one" in fault or typed in fault]


def test_of_an_unknown_patient_the_reference_and_one_fault_are_shown(
    desk: Desk, person: Demographics, panel: LabTest
) -> None:
    reference = Patient.objects.get(pk=person.pk).client_user_id
    Patient.objects.filter(pk=person.pk).update(**NOBODY)
    person.delete()
    page = send(desk.client("clinician"), table([reference, panel.name, "NOBODY-1"]), "check")
    (row,) = page.context["rows"]
    (fault,) = row.faults
    assert "The service has no details of this patient" in fault
    assert "first name" in fault and "zip code" in fault
    assert f">{reference}</a>" in page.content.decode()


def test_what_is_missing_of_a_patient_is_one_line(
    desk: Desk, person: Demographics, panel: LabTest
) -> None:
    Demographics.objects.filter(pk=person.pk).update(email="", zip="")
    raw = table([str(person.pk), panel.name, "LACKS-1"])
    (row,) = send(desk.client("clinician"), raw, "check").context["rows"]
    assert row.faults == ["Missing of the patient, to be added on their page: e-mail, zip code."]


def test_rows_have_the_numbers_of_their_lines_however_often_they_travel() -> None:
    head = "patient,test,sample_id,lab_account"
    records = [
        "",
        'a,b,c,"two\r\nlines"',
        ",,",
        "",
        "d,e,f",
        'g,"h\u2028h\r\nh",i',
        "",
        "j,k,l",
        "",
    ]
    raw = "\r\n".join([head, *records]).encode()
    rows = read(raw)
    assert [row.number for row in rows] == [3, 7, 8, 11]
    again = read(sheet_import.write_table(rows, reasons=False).encode())
    assert [(row.number, row.cells) for row in again] == [(row.number, row.cells) for row in rows]
    given_back = read(sheet_import.write_table(rows, reasons=True).encode())
    assert [row.number for row in given_back] == [2, 4, 5, 7]


def test_there_is_a_file_to_begin_with(desk: Desk) -> None:
    client = desk.client("clinician")
    page = client.get(SHEET).content.decode()
    address = reverse("orders:import-sample")
    assert f'href="{address}"' in page
    answer = client.get(address)
    assert answer["Content-Disposition"] == 'attachment; filename="orders-to-import.csv"'
    (row,) = read(answer.content)
    assert tuple(row.cells) == COLUMNS and all(row.cells[name] for name in NEEDED)
    (left_out,) = send(client, answer.content.decode("utf-8-sig").encode(), "check").context["rows"]
    assert not left_out.is_importable
    assert desk.client("viewer").get(address).status_code == 403
