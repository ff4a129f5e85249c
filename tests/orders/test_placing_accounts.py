"""Orders and imports under lab accounts: findings, choices and the import table."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from backoffice.outbox.command import PreconditionFailed
from backoffice.outbox.models import CommandRecord
from labs.models import LabAccount, LabAccountMarker, LabAccountTest, LabTest, LabTestMarker
from orders.commands import CreateOrder
from tests.api.rows import uid
from tests.orders.placing import (
    ACCOUNT,
    OTHER,
    TEST,
    create_account,
    form_values,
    open_review,
    order_form_url,
)

EAST, WEST = ACCOUNT, uid("account", 2)
READ_AT = timezone.now() - timedelta(minutes=1)
WALK_IN = {"collection_method": "walk_in_test"}


def set_catalog(pk: UUID, tests: Sequence[UUID], markers: Sequence[int] = ()) -> None:
    """Store the catalog of an account as if it had just been read."""
    LabAccountTest.objects.bulk_create(
        LabAccountTest(account_id=pk, lab_test_id=test) for test in tests
    )
    LabAccountMarker.objects.bulk_create(
        LabAccountMarker(account_id=pk, marker_id=marker) for marker in markers
    )
    LabAccount.objects.filter(pk=pk).update(catalog_read_at=READ_AT)


@pytest.fixture(autouse=True)
def names(lab_catalog: None) -> None:
    LabAccount.objects.filter(pk=EAST).update(account_name="Made-up Clinic East")
    LabTest.objects.filter(pk=TEST).update(name="Liver Screen")
    LabTest.objects.filter(pk=OTHER).update(name="Heart Screen")


def create_west_account(**values: Any) -> None:
    create_account(WEST, account_name="Made-up Clinic West", **values)


def send_review(client: Client, page: str = "", **values: Any) -> Any:
    return client.post(page or order_form_url(client), {**form_values(**values), "do": "review"})


def findings(answer: Any) -> dict[str, Any]:
    return {one.kind: one for one in answer.context["findings"]}


def import_url() -> str:
    return reverse("orders:import", args=[uid("patient", 1)])


def test_test_not_offered_by_account_stops_order(clinician_client: Client) -> None:
    set_catalog(EAST, [OTHER])
    answer = send_review(clinician_client)
    assert answer.status_code == 422
    one = findings(answer)["not offered"]
    assert (one.level, one.field) == ("stop", "panel")
    assert one.words.startswith("Made-up Clinic East does not offer Liver Screen.")
    page = answer.content.decode()
    assert one.words in page and 'href="#id_panel" data-fix' in page
    assert str(TEST) not in one.words and str(EAST) not in one.words


def test_test_offered_by_account_is_ordered(clinician_client: Client) -> None:
    set_catalog(EAST, [TEST])
    assert send_review(clinician_client).status_code == 302


def test_marker_not_offered_by_account_stops_order(clinician_client: Client) -> None:
    set_catalog(EAST, [TEST], [2])
    answer = send_review(clinician_client, markers=["1"], **WALK_IN)
    assert "does not offer Marker 1." in findings(answer)["not offered"].words


def test_finding_names_accounts_that_offer_test(clinician_client: Client) -> None:
    create_west_account()
    set_catalog(EAST, [])
    set_catalog(WEST, [TEST])
    answer = send_review(clinician_client, lab_account=str(EAST))
    one = findings(answer)["not offered"]
    assert one.field == "lab_account"
    assert one.words == (
        "Made-up Clinic East does not offer Liver Screen. "
        "Accounts that offer everything ordered: Made-up Clinic West."
    )
    assert send_review(clinician_client, lab_account=str(WEST)).status_code == 302


def test_unknown_catalog_warns_and_does_not_stop(clinician_client: Client) -> None:
    assert send_review(clinician_client).status_code == 302
    page = clinician_client.get(order_form_url(clinician_client))
    one = findings(page)["account not checked"]
    assert one.level == "warn"
    assert one.words == "Could not check what Made-up Clinic East offers."
    assert one.words in page.content.decode()
    again = clinician_client.get(reverse("orders:new-review", args=[uid("patient", 1)]))
    assert one.words in again.content.decode() and not again.context["stopped"]


def test_catalog_that_is_days_old_does_not_stop_order(clinician_client: Client) -> None:
    """The service refused to list the account since then, or was not reached."""
    set_catalog(EAST, [OTHER])
    LabAccount.objects.update(catalog_read_at=timezone.now() - timedelta(hours=49))
    assert send_review(clinician_client).status_code == 302
    assert "account not checked" in findings(clinician_client.get(order_form_url(clinician_client)))


def test_test_newer_than_the_catalog_is_not_checked(clinician_client: Client) -> None:
    set_catalog(EAST, [])
    LabTest.objects.filter(pk=TEST).update(as_of=READ_AT + timedelta(minutes=1))
    assert send_review(clinician_client).status_code == 302
    assert "account not checked" in findings(clinician_client.get(order_form_url(clinician_client)))


def test_account_is_chosen_by_what_is_ordered(clinician_client: Client) -> None:
    create_west_account()
    set_catalog(EAST, [OTHER])
    set_catalog(WEST, [TEST])
    answer = send_review(clinician_client)
    assert answer.status_code == 302, findings(answer)
    page = clinician_client.get(order_form_url(clinician_client))
    assert page.context["order_request"].account.pk == WEST
    labels = dict(page.context["form"].fields["lab_account"].choices)
    assert "the only one that offers everything ordered" in labels[""]
    assert list(labels)[1] == str(WEST)
    assert labels[str(EAST)].endswith("(does not offer: Liver Screen)")
    assert "the only account that offers everything ordered" in page.content.decode()


def test_account_with_unknown_catalog_may_offer_it_too(clinician_client: Client) -> None:
    create_west_account()
    set_catalog(WEST, [TEST])
    answer = send_review(clinician_client)
    one = findings(answer)["several accounts"]
    assert "Made-up Clinic East, number" in one.words and "could not check" in one.words
    assert one.words.index("West") < one.words.index("East"), (
        "the account that offers it comes first"
    )


def test_no_account_offers_everything_ordered(clinician_client: Client) -> None:
    create_west_account()
    set_catalog(EAST, [OTHER])
    set_catalog(WEST, [TEST])
    answer = send_review(clinician_client, tests=[TEST, OTHER], **WALK_IN)
    one = findings(answer)["not offered"]
    assert one.field == "panel"
    assert "Made-up Clinic East does not offer Liver Screen" in one.words
    assert "Made-up Clinic West does not offer Heart Screen" in one.words


def test_test_of_unknown_lab_says_that_service_picks_account(clinician_client: Client) -> None:
    LabTest.objects.filter(pk=TEST).update(lab=None)
    assert send_review(clinician_client).status_code == 302
    one = findings(clinician_client.get(order_form_url(clinician_client)))["account by service"]
    assert one.level == "warn" and "Liver Screen" in one.words


def test_test_without_a_lab_is_checked_by_its_markers(clinician_client: Client) -> None:
    LabTest.objects.filter(pk=TEST).update(lab=None)
    LabTestMarker.objects.create(lab_test_id=TEST, marker_id=1, position=0)
    set_catalog(EAST, [])
    assert "not offered" in findings(send_review(clinician_client))


def test_pending_account_is_checked_for_imports(clinician_client: Client) -> None:
    LabAccount.objects.update(status="pending")
    set_catalog(EAST, [OTHER])
    answer = send_review(clinician_client, import_url(), sample_id="S-1")
    assert "does not offer Liver Screen." in findings(answer)["not offered"].words
    good = {"sample_id": "S-1", "tests": [OTHER]}
    assert send_review(clinician_client, import_url(), **good).status_code == 302
    page = clinician_client.get(reverse("orders:import-review", args=[uid("patient", 1)]))
    assert "(Being set up – import only)" in page.content.decode()


def test_pending_account_is_labeled_among_several(clinician_client: Client) -> None:
    create_west_account(status="pending")
    answer = send_review(clinician_client, import_url(), sample_id="S-1")
    labels = dict(answer.context["form"].fields["lab_account"].choices)
    assert "being set up" in labels[str(WEST)] and "being set up" not in labels[str(EAST)]


def test_waiting_order_names_test_that_became_inactive(clinician_client: Client) -> None:
    send_review(clinician_client)
    address, sent = open_review(clinician_client)
    clinician_client.post(address, sent)
    command = CreateOrder.read(CommandRecord.objects.get().payload)
    command.check()
    LabTest.objects.filter(pk=TEST).update(status="inactive")
    with pytest.raises(PreconditionFailed, match="Liver Screen can no longer be ordered"):
        command.check()
    LabTest.objects.filter(pk=TEST).update(status="active")
    LabAccount.objects.update(status="suspended")
    with pytest.raises(PreconditionFailed, match="Made-up Clinic East can no longer be used"):
        command.check()


# Choices


def choices(client: Client, word: str, **values: Any) -> Any:
    address = reverse("orders:panels", args=[uid("patient", 1)])
    return client.get(address, {"panel": word, **values})


def test_choices_say_what_account_does_not_offer(clinician_client: Client) -> None:
    set_catalog(EAST, [OTHER], [2])
    answer = choices(clinician_client, "screen")
    shown = answer.context["choices"]
    assert [test.name for test in shown.tests] == ["Heart Screen"]
    assert [one.name for one in shown.missing] == ["Liver Screen"]
    assert "Not offered by Made-up Clinic East" in answer.content.decode()
    assert f'value="{TEST}"' not in answer.content.decode()
    markers = choices(clinician_client, "marker").context["choices"]
    assert [one.pk for one in markers.markers] == [2]
    assert [one.name for one in markers.missing] == ["Marker 1"]


def test_usual_tests_are_those_that_are_offered(clinician_client: Client) -> None:
    set_catalog(EAST, [OTHER])
    names = {test.name for test in choices(clinician_client, "").context["choices"].tests}
    assert "Heart Screen" in names and "Liver Screen" not in names


@pytest.mark.parametrize("account_id", ["", str(EAST)])
def test_choices_follow_the_chosen_account(
    clinician_client: Client,
    account_id: str,
) -> None:
    create_west_account()
    set_catalog(EAST, [OTHER])
    set_catalog(WEST, [TEST])
    given = {"tests": [OTHER], "lab_account": account_id}
    shown = choices(clinician_client, "screen", **given).context["choices"]
    assert not shown.tests
    assert [one.reason for one in shown.missing] == ["Not offered by Made-up Clinic East"]


def test_choices_of_unknown_catalog_are_all(clinician_client: Client) -> None:
    shown = choices(clinician_client, "screen").context["choices"]
    assert len(shown.tests) == 2 and not shown.missing


def test_pending_lab_is_searched_for_imports_only(clinician_client: Client) -> None:
    LabAccount.objects.update(status="pending")
    assert not choices(clinician_client, "screen").context["choices"].tests
    shown = choices(clinician_client, "screen", importing="yes").context["choices"]
    assert len(shown.tests) == 2
    assert "?importing=yes" in clinician_client.get(import_url()).content.decode()


# The import table


def check_table(client: Client, *rows: tuple[str, str, str]) -> Any:
    """Check a table with test, sample ID and account of each row."""
    lines = [f"{uid('patient', 1)},{','.join(row)}" for row in rows]
    text = "\r\n".join(["patient,test,sample_id,lab_account", *lines])
    sheet = reverse("orders:import-sheet")
    form_id = client.get(sheet).context["form"]["form_id"].value()
    return client.post(sheet, {"form_id": form_id, "rows": text, "do": "check"})


def account_of(row: Any) -> str:
    [choice] = [one for one in row.choices if one.label == "Lab account"]
    return f"{choice.text} ({choice.origin})" if choice.origin else str(choice.text)


def test_table_chooses_accounts_by_test(clinician_client: Client) -> None:
    create_west_account()
    set_catalog(EAST, [OTHER])
    set_catalog(WEST, [TEST])
    answer = check_table(
        clinician_client,
        ("Liver Screen", "S-1", ""),
        ("Heart Screen", "S-2", ""),
        ("Liver Screen", "S-3", "East"),
    )
    first, second, third = answer.context["rows"]
    assert "Made-up Clinic West" in account_of(first) and first.is_importable
    assert account_of(first).endswith("(only one that offers the test)")
    assert "Made-up Clinic East" in account_of(second) and second.is_importable
    assert not third.is_importable
    assert third.faults == [
        "Made-up Clinic East does not offer Liver Screen. "
        "Accounts that offer everything ordered: Made-up Clinic West."
    ]
    assert third.faults[0] in answer.content.decode()


def test_table_says_that_account_was_not_checked(clinician_client: Client) -> None:
    answer = check_table(clinician_client, ("Liver Screen", "S-1", ""))
    [row] = answer.context["rows"]
    assert row.is_importable and row.notes == ["Could not check what Made-up Clinic East offers."]
    assert row.notes[0] in answer.content.decode()


def test_table_accepts_accounts_by_name_and_number(clinician_client: Client) -> None:
    create_west_account(provider_account_id="NUM-2")
    LabAccount.objects.filter(pk=EAST).update(provider_account_id="NUM-1")
    create_account(uid("account", 3), account_name="Made-up Clinic South", status="suspended")
    for pk in (EAST, WEST):
        set_catalog(pk, [TEST])
    rows = check_table(
        clinician_client,
        ("Liver Screen", "S-1", "made-up clinic EAST"),
        ("Liver Screen", "S-2", "num-2"),
        ("Liver Screen", "S-3", "Clinic"),
        ("Liver Screen", "S-4", "South"),
        ("Liver Screen", "S-5", "elsewhere"),
    ).context["rows"]
    assert account_of(rows[0]) == "Made-up Clinic East, number NUM-1"
    assert account_of(rows[1]) == "Made-up Clinic West, number NUM-2"
    assert rows[2].faults == [
        "“Clinic” matches several accounts: Made-up Clinic East, number NUM-1; "
        "Made-up Clinic West, number NUM-2. Enter the number of one."
    ]
    assert "Made-up Clinic South, number" in rows[3].faults[0]
    assert "cannot be used because it is suspended" in rows[3].faults[0]
    assert "“elsewhere” is not an account that can be used here." in rows[4].faults[0]


def test_table_reads_catalogs_once_for_all_rows(clinician_client: Client) -> None:
    create_west_account()
    for pk in (EAST, WEST):
        set_catalog(pk, [TEST, OTHER])
    check_table(clinician_client, ("Liver Screen", "S-0", "West"))
    counts = []
    for row_count in (2, 60):
        rows = [
            ("Liver Screen" if number % 2 else "Heart Screen", f"S-{number}", "West")
            for number in range(row_count)
        ]
        with CaptureQueriesContext(connection) as captured:
            assert len(check_table(clinician_client, *rows).context["good"]) == row_count
        counts.append(len(captured))
        catalogs_by_account = [one for one in captured if "catalog_read_at," in one["sql"]]
        assert sum("labs_labaccounttest" in one["sql"] for one in catalogs_by_account) == 1
    assert counts[0] == counts[1], counts
