"""Import of orders placed elsewhere: one by the form, many from a table."""

from __future__ import annotations

import csv
import io
import re
from html import unescape
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from backoffice.audit.models import AuditEntry
from backoffice.outbox.models import CommandRecord
from labs.models import LabAccount, LabAccountTeam, LabTest, Physician
from orders.models import Order
from orders.placing import drafts, sheet_import
from orders.placing.order_request import PHYSICIAN_REQUIRED_FLOWS
from orders.placing.patient_rules import is_name
from orders.placing.table_reader import COLUMNS, NEEDED, ImportRow, read
from patients.models import Demographics, Patient
from tests.api.rows import NOBODY, envelope, uid
from tests.audit.trail import delete_all_entries
from tests.outbox.harness import FORM_ID, OutboxHarness

State = CommandRecord.State
IMPORT_URL = "/orders/import/"


def request_import(
    client: Client, person: Demographics, panel: LabTest, sample: str
) -> CommandRecord:
    person_values = {
        name: values[0] for name, values in drafts.person_values(person.user, person).items()
    }
    values = {
        **person_values,
        "tests": [str(panel.pk)],
        "billing_type": "client_bill",
        "sample_id": sample,
    }
    response = client.post(reverse("orders:import", args=[person.pk]), {**values, "do": "review"})
    assert response.status_code == 302, response.content.decode()
    address = reverse("orders:import-review", args=[person.pk])
    form = client.get(address).context["form"]
    reviewed = {name: str(form[name].value()) for name in ("form_id", "draft")}
    assert client.post(address, reviewed).status_code == 302
    return CommandRecord.objects.get(form_id=reviewed["form_id"])


def count_imported(harness: OutboxHarness, sample: str) -> int:
    return harness.count("SELECT count(*) FROM sandbox_order WHERE sample_id = %s", sample)


def test_order_is_imported_once(
    harness: OutboxHarness, person: Demographics, panel: LabTest
) -> None:
    command = request_import(harness.client("clinician"), person, panel, "MADEUP-1")
    harness.deliver()
    command.refresh_from_db()
    assert (command.state, command.confirmed_by) == (State.DONE, "answer")
    made = Order.objects.get(pk=command.remote_id)
    assert (made.sample_id, made.low_level_status) == ("MADEUP-1", "requisition_bypassed")
    assert count_imported(harness, "MADEUP-1") == 1


@pytest.mark.parametrize("kind", ["drop_after", "status_after", "truncate"])
def test_lost_import_answer_is_found_by_sample_id(
    harness: OutboxHarness, person: Demographics, panel: LabTest, kind: str
) -> None:
    sample = f"MADEUP-{kind}"
    command = request_import(harness.client("clinician"), person, panel, sample)
    harness.add_fault(kind, "/order/import$", statuses=[500])
    harness.deliver()
    harness.pass_time()
    command.refresh_from_db()
    assert (command.state, command.confirmed_by, command.attempts) == (State.DONE, "look-up", 1)
    assert count_imported(harness, sample) == 1


def test_lost_import_answer_is_found_at_any_service_clock(
    harness: OutboxHarness, person: Demographics, panel: LabTest
) -> None:
    command = request_import(harness.client("clinician"), person, panel, "MADEUP-CLOCK")
    harness.add_fault("drop_after", "/order/import$")
    harness.deliver()
    assert harness.sandbox.query(
        "UPDATE sandbox_order SET created_at = created_at - interval '3 days'"
        " WHERE sample_id = 'MADEUP-CLOCK' RETURNING 1"
    )
    harness.pass_time()
    command.refresh_from_db()
    assert (command.state, command.confirmed_by, command.attempts) == (State.DONE, "look-up", 1)


def test_sample_id_clash_with_own_first_sending_is_done(
    harness: OutboxHarness, person: Demographics, panel: LabTest
) -> None:
    """The first sending was carried out and its answer was lost. The second one is refused."""
    command = request_import(harness.client("clinician"), person, panel, "MADEUP-TWICE")
    harness.add_fault("drop_after", "/order/import$")
    harness.deliver()
    CommandRecord.objects.filter(pk=command.pk).update(
        state=State.WAITING, due_at="2020-01-01T00:00Z"
    )
    harness.deliver()
    command.refresh_from_db()
    assert (command.state, command.confirmed_by, command.attempts) == (State.DONE, "look-up", 2)
    assert count_imported(harness, "MADEUP-TWICE") == 1


def test_sample_id_clash_with_other_order_is_refused(
    harness: OutboxHarness, person: Demographics, panel: LabTest
) -> None:
    client = harness.client("clinician")
    request_import(client, person, panel, "MADEUP-TAKEN")
    harness.deliver()
    other = Demographics.objects.filter(dob__lt="2000-01-01").exclude(pk=person.pk)
    other_person = next(one for one in other if is_name(one.first_name) and is_name(one.last_name))
    Order.objects.filter(sample_id="MADEUP-TAKEN").delete()  # Not mirrored yet.
    command = request_import(client, other_person, panel, "MADEUP-TAKEN")
    harness.deliver()
    command.refresh_from_db()
    assert command.state == State.REFUSED and command.refusal
    page = client.get(f"{command.form_url}?again={command.pk}")
    assert page.context["form"].errors["sample_id"]
    assert 'value="MADEUP-TAKEN"' in page.content.decode()
    assert count_imported(harness, "MADEUP-TAKEN") == 1


def test_known_sample_id_is_refused_before_sending(
    harness: OutboxHarness, person: Demographics, panel: LabTest
) -> None:
    client = harness.client("clinician")
    request_import(client, person, panel, "MADEUP-KNOWN")
    harness.deliver()
    person_values = {
        name: values[0] for name, values in drafts.person_values(person.user, person).items()
    }
    values = {
        **person_values,
        "tests": [str(panel.pk)],
        "sample_id": "MADEUP-KNOWN",
        "do": "review",
    }
    response = client.post(reverse("orders:import", args=[person.pk]), values)
    assert response.status_code == 422
    assert "already has this sample ID" in response.content.decode()


# Tables


def csv_table(*rows: list[str], head: str = "patient,test,sample_id") -> bytes:
    buffer = io.StringIO(newline="")
    csv.writer(buffer).writerows(rows)
    return (head + "\r\n" + buffer.getvalue()).encode()


def send_table(client: Client, raw: bytes, do: str, form_id: str = "") -> Any:
    if not form_id:
        match = FORM_ID.search(client.get(IMPORT_URL).content.decode())
        assert match
        form_id = match[1]
    return client.post(IMPORT_URL, {"form_id": form_id, "rows": raw.decode(), "do": do})


def test_table_imports_good_rows_and_returns_bad_ones(
    harness: OutboxHarness, person: Demographics, panel: LabTest
) -> None:
    client = harness.client("clinician")
    reference = Patient.objects.get(pk=person.pk).client_user_id
    raw = csv_table(
        [reference, panel.name, "SHEET-1"],
        [str(person.pk), str(panel.pk), "SHEET-2"],
        ["nobody", panel.name, "SHEET-3"],
        [reference, "=1+1", "SHEET-4"],
        [reference, panel.name, "SHEET-1"],
        [reference, panel.name, ""],
    )
    page = send_table(client, raw, "check")
    assert page.status_code == 200
    assert (len(page.context["good"]), len(page.context["bad"])) == (2, 4)
    assert not CommandRecord.objects.exists()
    form_id = page.context["form"]["form_id"].value()
    for _ in range(2):
        page = send_table(client, raw, "import", form_id)
        assert page.status_code == 200
    assert CommandRecord.objects.count() == 2
    harness.deliver()
    assert CommandRecord.objects.filter(state=State.DONE).count() == 2
    assert count_imported(harness, "SHEET-1") == count_imported(harness, "SHEET-2") == 1

    response = send_table(client, raw, "bad", form_id)
    assert response["Content-Type"].startswith("text/csv")
    lines = list(csv.DictReader(io.StringIO(response.content.decode("utf-8-sig"))))
    assert len(lines) == 4
    row_by_sample = {line["sample_id"]: line for line in lines}
    assert "Line 2 has the same sample ID" in row_by_sample["SHEET-1"]["reason"]
    assert "No patient" in row_by_sample["SHEET-3"]["reason"]
    assert row_by_sample["SHEET-4"]["test"] == "'=1+1"
    assert "sample ID is missing" in row_by_sample[""]["reason"]
    assert AuditEntry.objects.filter(action="export", row_count__gt=0).exists()


def test_import_sent_again_shows_its_commands(
    harness: OutboxHarness, person: Demographics, panel: LabTest
) -> None:
    """The page is reloaded after the import: its own orders now have the sample ids."""
    client = harness.client("clinician")
    raw = csv_table([str(person.pk), panel.name, "RELOAD-1"], ["nobody", panel.name, "RELOAD-2"])
    form_id = send_table(client, raw, "check").context["form"]["form_id"].value()
    send_table(client, raw, "import", form_id)
    harness.deliver()
    assert Order.objects.filter(sample_id="RELOAD-1").exists()
    page = send_table(client, raw, "import", form_id)
    assert (len(page.context["good"]), len(page.context["bad"])) == (1, 1)
    assert "1 row requested" in page.content.decode()
    assert reverse("commands:detail", args=[harness.newest_command().pk]) in page.content.decode()
    edited = csv_table([str(person.pk), str(panel.pk), "RELOAD-1"])
    page = send_table(client, edited, "import", form_id)
    assert "already has this sample ID" in page.content.decode()
    assert CommandRecord.objects.count() == 1


def test_import_page_polls_the_state_of_its_rows(
    harness: OutboxHarness, person: Demographics, panel: LabTest
) -> None:
    client = harness.client("clinician")
    status_address = reverse("orders:import-standing")
    raw = csv_table([str(person.pk), panel.name, "FOLLOW-1"])
    page = send_table(client, raw, "import").content.decode()
    command = CommandRecord.objects.get()
    poll = re.search(rf'hx-get="({status_address}[^"]+)"', page)
    assert poll and f'id="asked-{command.pk}"' in page and "Waiting" in page
    assert "hx-get" in client.get(unescape(poll[1])).content.decode()
    harness.deliver()
    response = client.get(unescape(poll[1])).content.decode()
    assert f'id="asked-{command.pk}" hx-swap-oob="true"' in response and "Done" in response
    assert "hx-get" not in response, "nothing is left to poll"
    other = harness.client("lab coordinator").get(unescape(poll[1])).content.decode()
    assert str(command.pk) not in other
    for nonsense in ("?since=", "?since=tomorrow", "?since=2026-01-01", "?since=2026-02-31T00:00Z"):
        assert client.get(status_address + nonsense).status_code == 400, nonsense


def test_rows_are_checked_in_a_fixed_number_of_queries(
    harness: OutboxHarness, person: Demographics, panel: LabTest
) -> None:
    client = harness.client("clinician")
    head = "patient,test,sample_id,billing_type,collection_method,physician_npi,,"
    bad = {
        "None of our physicians": ["CELL-1", "", "", "1234567893"],
        "bananas": ["CELL-2", "bananas", "", ""],
        "teleport": ["CELL-3", "", "teleport", ""],
        "limit is 200": ["x" * 250, "", "", ""],
        "at most 100": ["x" * 150, "", "", ""],
    }
    rows = [[str(person.pk), panel.name, *cells, "", ""] for cells in bad.values()]
    page = send_table(client, csv_table(*rows, head=head), "check")
    assert len(page.context["bad"]) == len(bad), [row.faults for row in page.context["rows"]]
    for words, row in zip(bad, page.context["rows"], strict=True):
        assert words in " ".join(row.faults)
        assert len(row.faults) == len(set(row.faults))
    assert "x" * 250 in page.content.decode()
    counts = []
    for row_count in (1, 60):
        rows = [[str(person.pk), panel.name, f"MANY-{number}"] for number in range(row_count)]
        with CaptureQueriesContext(connection) as captured:
            assert len(send_table(client, csv_table(*rows), "check").context["good"]) == row_count
        counts.append(len(captured))
    assert counts[0] == counts[1], counts


def test_table_check_is_audited(
    harness: OutboxHarness, person: Demographics, panel: LabTest
) -> None:
    client = harness.client("clinician")
    raw = csv_table([str(person.pk), panel.name, ""])
    for do in ("check", "import"):
        delete_all_entries()
        page = send_table(client, raw, do)
        assert person.last_name in page.content.decode()
        assert AuditEntry.objects.filter(object_type="order import").count() == 1


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        (b"", "Choose a file"),
        (b"patient,test\r\n1,2\r\n", "Missing: sample_id"),
        (b"patient,test,sample_id\r\n", "no rows"),
        (b'patient,test,sample_id\r\n"open,2,3', "cannot be read"),
        (b"patient,test,sample_id,test\r\n1,2,3,4\r\n", "more than once: test"),
        (b"patient,test,sample_id\r\n" + b"a,b,c\r\n" * 201, "limit is 200"),
    ],
)
def test_unreadable_table_says_why(harness: OutboxHarness, raw: bytes, words: str) -> None:
    response = send_table(harness.client("clinician"), raw, "check")
    assert response.status_code == 422
    assert words in response.content.decode()
    assert not CommandRecord.objects.exists()


def test_escaped_cells_are_read_back_unchanged() -> None:
    raw = csv_table(["=cmd", "-x", "@y"], ["plain", "it's", "'z"])
    rows = read(raw)
    again = read(sheet_import.write_table(rows, reasons=True).encode())
    assert [row.cells for row in again] == [row.cells for row in rows]
    assert "'=cmd" in sheet_import.write_table(rows, reasons=False)


def test_table_reader_accepts_semicolons_bom_and_tabs() -> None:
    raw = "\ufeffPatient;Test;Sample_ID\r\na;b;c\r\n".encode()
    (row,) = read(raw)
    assert (row.cells["patient"], row.cells["test"], row.cells["sample_id"]) == ("a", "b", "c")
    (pasted,) = read(b"patient\ttest\tsample_id\na\tb, with a comma\tc\n")
    assert list(pasted.cells.values())[:3] == ["a", "b, with a comma", "c"]


@pytest.fixture
def accounts(person: Demographics, panel: LabTest) -> tuple[LabAccount, LabAccount]:
    """Create the two accounts of the patient's team at the lab of the test."""
    LabAccountTeam.objects.filter(account__lab="lab-south").delete()
    accounts = [
        LabAccount.objects.create(
            pk=uid("account", number), lab="lab-south", status="active",
            delegated_flow="order_delegated", provider_account_id=f"NUM-{number}",
            account_name=name, **envelope('{"allowed_billing": {}}'),
        )
        for number, name in ((1, "Made-up Clinic East"), (2, "Made-up Clinic West"))
    ]  # fmt: skip
    team_id = Patient.objects.get(pk=person.pk).team_id
    for account in accounts:
        LabAccountTeam.objects.create(account=account, team_id=team_id)
    return accounts[0], accounts[1]


def check_row(client: Client, person: Demographics, panel: LabTest, account: str) -> ImportRow:
    head = "patient,test,sample_id,lab_account"
    raw = csv_table([str(person.pk), panel.name, "ACCOUNT-1", account], head=head)
    row: ImportRow = send_table(client, raw, "check").context["rows"][0]
    return row


def test_missing_physician_fault_lists_our_npis(
    harness: OutboxHarness,
    person: Demographics,
    panel: LabTest,
    accounts: tuple[LabAccount, LabAccount],
) -> None:
    account = accounts[0]
    LabAccount.objects.filter(pk=account.pk).update(delegated_flow=PHYSICIAN_REQUIRED_FLOWS[0])
    known = Physician.objects.filter(missing_since=None)[0]
    words = " ".join(check_row(harness.client("clinician"), person, panel, str(account.pk)).faults)
    assert "needs an ordering physician. Enter one of these NPIs" in words
    assert f"{known.npi} {known.first_name} {known.last_name}" in words


def test_unknown_choice_fault_lists_the_known_choices(
    harness: OutboxHarness, person: Demographics, panel: LabTest
) -> None:
    raw = csv_table(
        [str(person.pk), panel.name, "WORDS-1", "Bill", "by post"],
        [str(person.pk), panel.name, "WORDS-2", "Client_Bill", panel.method.upper()],
        head="patient,test,sample_id,billing_type,collection_method",
    )
    unknown, other_case = send_table(harness.client("clinician"), raw, "check").context["rows"]
    billing, method = unknown.faults
    assert "“Bill” is not a valid billing_type" in billing and "client_bill, " in billing
    assert "“by post” is not a valid collection_method" in method and "testkit" in method
    assert other_case.is_importable, other_case.faults


def test_ambiguous_account_fault_lists_the_accounts(
    harness: OutboxHarness,
    person: Demographics,
    panel: LabTest,
    accounts: tuple[LabAccount, LabAccount],
) -> None:
    client = harness.client("clinician")
    for typed in ("", "clinic", "nowhere"):
        faults = " ".join(check_row(client, person, panel, typed).faults)
        for account in accounts:
            assert f"{account.account_name}, number {account.provider_account_id}" in faults
        assert typed in faults
    assert "matches several accounts" in " ".join(check_row(client, person, panel, "clinic").faults)


def test_account_is_found_by_any_unique_name_or_number(
    harness: OutboxHarness,
    person: Demographics,
    panel: LabTest,
    accounts: tuple[LabAccount, LabAccount],
) -> None:
    client = harness.client("clinician")
    west = accounts[1]
    named = ("Made-up Clinic West", "made-up clinic WEST", "west", "NUM-2", "num-2")
    for typed in (*named, str(west.pk), str(west.pk)[:8]):
        row = check_row(client, person, panel, typed)
        assert row.order_request is not None and row.order_request.account == west, typed
        assert not [fault for fault in row.faults if "choose one" in fault or typed in fault]


def test_patient_without_details_has_one_fault(
    harness: OutboxHarness, person: Demographics, panel: LabTest
) -> None:
    reference = Patient.objects.get(pk=person.pk).client_user_id
    Patient.objects.filter(pk=person.pk).update(**NOBODY)
    person.delete()
    page = send_table(
        harness.client("clinician"), csv_table([reference, panel.name, "NOBODY-1"]), "check"
    )
    (row,) = page.context["rows"]
    (fault,) = row.faults
    assert "The service has no demographics for this patient" in fault
    assert "first name" in fault and "zip code" in fault
    assert f">{reference}</a>" in page.content.decode()


def test_missing_patient_details_are_one_fault(
    harness: OutboxHarness, person: Demographics, panel: LabTest
) -> None:
    Demographics.objects.filter(pk=person.pk).update(email="", zip="")
    raw = csv_table([str(person.pk), panel.name, "LACKS-1"])
    (row,) = send_table(harness.client("clinician"), raw, "check").context["rows"]
    assert row.faults == ["Missing: email, zip code. Add this on the patient’s page."]


def test_rows_keep_line_numbers_after_a_round_trip() -> None:
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
    returned = read(sheet_import.write_table(rows, reasons=True).encode())
    assert [row.number for row in returned] == [2, 4, 5, 7]


def test_sample_file_has_all_columns(harness: OutboxHarness) -> None:
    client = harness.client("clinician")
    page = client.get(IMPORT_URL).content.decode()
    address = reverse("orders:import-sample")
    assert f'href="{address}"' in page
    response = client.get(address)
    assert response["Content-Disposition"] == 'attachment; filename="orders-to-import.csv"'
    (row,) = read(response.content)
    assert tuple(row.cells) == COLUMNS and all(row.cells[name] for name in NEEDED)
    (sample_row,) = send_table(
        client, response.content.decode("utf-8-sig").encode(), "check"
    ).context["rows"]
    assert not sample_row.is_importable
    assert harness.client("viewer").get(address).status_code == 403
