"""Orders and imports by what lab accounts offer: findings, choices, and the table."""

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
from tests.orders.test_placing_findings import (
    ACCOUNT,
    OTHER,
    TEST,
    account,
    catalogue,
    client_of,
    page_of,
    reviewed,
    typed,
)

__all__ = ["catalogue", "client_of"]
EAST, WEST = ACCOUNT, uid("account", 2)
READ_AT = timezone.now() - timedelta(minutes=1)
WALK_IN = {"collection_method": "walk_in_test"}


def offer(pk: UUID, tests: Sequence[UUID], markers: Sequence[int] = ()) -> None:
    """The catalog of an account, read just now."""
    LabAccountTest.objects.bulk_create(
        LabAccountTest(account_id=pk, lab_test_id=test) for test in tests
    )
    LabAccountMarker.objects.bulk_create(
        LabAccountMarker(account_id=pk, marker_id=marker) for marker in markers
    )
    LabAccount.objects.filter(pk=pk).update(catalog_read_at=READ_AT)


@pytest.fixture(autouse=True)
def names(catalogue: None) -> None:  # noqa: F811
    LabAccount.objects.filter(pk=EAST).update(account_name="Made-up Clinic East")
    LabTest.objects.filter(pk=TEST).update(name="Liver Screen")
    LabTest.objects.filter(pk=OTHER).update(name="Heart Screen")


def west(**values: Any) -> None:
    account(WEST, account_name="Made-up Clinic West", **values)


def review(client: Client, page: str = "", **values: Any) -> Any:
    return client.post(page or page_of(client), {**typed(**values), "do": "review"})


def found(answer: Any) -> dict[str, Any]:
    return {one.kind: one for one in answer.context["found"]}


def import_page() -> str:
    return reverse("orders:import", args=[uid("patient", 1)])


def test_test_that_the_account_lacks_stops_order(client_of: Client) -> None:  # noqa: F811
    offer(EAST, [OTHER])
    answer = review(client_of)
    assert answer.status_code == 422
    one = found(answer)["not offered"]
    assert (one.level, one.field) == ("stop", "panel")
    assert one.words.startswith("Made-up Clinic East does not offer Liver Screen.")
    page = answer.content.decode()
    assert one.words in page and 'href="#id_panel" data-fix' in page
    assert str(TEST) not in one.words and str(EAST) not in one.words


def test_test_that_the_account_offers_is_ordered(client_of: Client) -> None:  # noqa: F811
    offer(EAST, [TEST])
    assert review(client_of).status_code == 302


def test_marker_that_the_account_lacks_stops_order(client_of: Client) -> None:  # noqa: F811
    offer(EAST, [TEST], [2])
    answer = review(client_of, markers=["1"], **WALK_IN)
    assert "does not offer Marker 1." in found(answer)["not offered"].words


def test_lacking_account_names_accounts_that_offer(client_of: Client) -> None:  # noqa: F811
    west()
    offer(EAST, [])
    offer(WEST, [TEST])
    answer = review(client_of, lab_account=str(EAST))
    one = found(answer)["not offered"]
    assert one.field == "lab_account"
    assert one.words == (
        "Made-up Clinic East does not offer Liver Screen. "
        "Accounts that offer everything ordered: Made-up Clinic West."
    )
    assert review(client_of, lab_account=str(WEST)).status_code == 302


def test_unknown_catalog_warns_and_does_not_stop(client_of: Client) -> None:  # noqa: F811
    assert review(client_of).status_code == 302
    page = client_of.get(page_of(client_of))
    one = found(page)["account not checked"]
    assert one.level == "warn"
    assert one.words == "Could not check what Made-up Clinic East offers."
    assert one.words in page.content.decode()
    again = client_of.get(reverse("orders:new-review", args=[uid("patient", 1)]))
    assert one.words in again.content.decode() and not again.context["stopped"]


def test_catalog_that_is_days_old_does_not_stop_order(client_of: Client) -> None:  # noqa: F811
    """The service has refused the account's lists since, or was not reached."""
    offer(EAST, [OTHER])
    LabAccount.objects.update(catalog_read_at=timezone.now() - timedelta(hours=49))
    assert review(client_of).status_code == 302
    assert "account not checked" in found(client_of.get(page_of(client_of)))


def test_test_newer_than_the_catalog_is_not_checked(client_of: Client) -> None:  # noqa: F811
    offer(EAST, [])
    LabTest.objects.filter(pk=TEST).update(as_of=READ_AT + timedelta(minutes=1))
    assert review(client_of).status_code == 302
    assert "account not checked" in found(client_of.get(page_of(client_of)))


def test_account_is_chosen_by_what_is_ordered(client_of: Client) -> None:  # noqa: F811
    west()
    offer(EAST, [OTHER])
    offer(WEST, [TEST])
    answer = review(client_of)
    assert answer.status_code == 302, found(answer)
    page = client_of.get(page_of(client_of))
    assert page.context["order_request"].account.pk == WEST
    labels = dict(page.context["form"].fields["lab_account"].choices)
    assert "the only one that offers everything ordered" in labels[""]
    assert list(labels)[1] == str(WEST)
    assert labels[str(EAST)].endswith("(does not offer: Liver Screen)")
    assert "the only account that offers everything ordered" in page.content.decode()


def test_account_with_unknown_catalog_may_offer_it_too(client_of: Client) -> None:  # noqa: F811
    west()
    offer(WEST, [TEST])
    answer = review(client_of)
    one = found(answer)["several accounts"]
    assert "Made-up Clinic East, number" in one.words and "could not check" in one.words
    assert one.words.index("West") < one.words.index("East"), "the one that offers it comes first"


def test_no_account_offers_everything_ordered(client_of: Client) -> None:  # noqa: F811
    west()
    offer(EAST, [OTHER])
    offer(WEST, [TEST])
    answer = review(client_of, tests=[TEST, OTHER], **WALK_IN)
    one = found(answer)["not offered"]
    assert one.field == "panel"
    assert "Made-up Clinic East does not offer Liver Screen" in one.words
    assert "Made-up Clinic West does not offer Heart Screen" in one.words


def test_test_of_unknown_lab_says_who_picks_account(client_of: Client) -> None:  # noqa: F811
    LabTest.objects.filter(pk=TEST).update(lab=None)
    assert review(client_of).status_code == 302
    one = found(client_of.get(page_of(client_of)))["account by service"]
    assert one.level == "warn" and "Liver Screen" in one.words


def test_test_without_a_lab_is_checked_by_its_markers(client_of: Client) -> None:  # noqa: F811
    LabTest.objects.filter(pk=TEST).update(lab=None)
    LabTestMarker.objects.create(lab_test_id=TEST, marker_id=1, position=0)
    offer(EAST, [])
    assert "not offered" in found(review(client_of))


def test_pending_account_is_checked_for_imports(client_of: Client) -> None:  # noqa: F811
    LabAccount.objects.update(status="pending")
    offer(EAST, [OTHER])
    answer = review(client_of, import_page(), sample_id="S-1")
    assert "does not offer Liver Screen." in found(answer)["not offered"].words
    good = {"sample_id": "S-1", "tests": [OTHER]}
    assert review(client_of, import_page(), **good).status_code == 302
    page = client_of.get(reverse("orders:import-review", args=[uid("patient", 1)]))
    assert "(Being set up – import only)" in page.content.decode()


def test_pending_account_is_labeled_among_several(client_of: Client) -> None:  # noqa: F811
    west(status="pending")
    answer = review(client_of, import_page(), sample_id="S-1")
    labels = dict(answer.context["form"].fields["lab_account"].choices)
    assert "being set up" in labels[str(WEST)] and "being set up" not in labels[str(EAST)]


def test_waiting_order_names_test_that_became_inactive(client_of: Client) -> None:  # noqa: F811
    review(client_of)
    address, sent = reviewed(client_of)
    client_of.post(address, sent)
    command = CreateOrder.read(CommandRecord.objects.get().payload)
    command.check()
    LabTest.objects.filter(pk=TEST).update(status="inactive")
    with pytest.raises(PreconditionFailed, match="Liver Screen cannot be ordered any more"):
        command.check()
    LabTest.objects.filter(pk=TEST).update(status="active")
    LabAccount.objects.update(status="suspended")
    with pytest.raises(PreconditionFailed, match="Made-up Clinic East cannot be used any more"):
        command.check()


# What can be chosen


def choices(client: Client, word: str, **values: Any) -> Any:
    address = reverse("orders:panels", args=[uid("patient", 1)])
    return client.get(address, {"panel": word, **values})


def test_choices_say_what_account_does_not_offer(client_of: Client) -> None:  # noqa: F811
    offer(EAST, [OTHER], [2])
    answer = choices(client_of, "screen")
    shown = answer.context["choices"]
    assert [test.name for test in shown.tests] == ["Heart Screen"]
    assert [one.name for one in shown.missing] == ["Liver Screen"]
    assert "Not offered by Made-up Clinic East" in answer.content.decode()
    assert f'value="{TEST}"' not in answer.content.decode()
    markers = choices(client_of, "marker").context["choices"]
    assert [one.pk for one in markers.markers] == [2]
    assert [one.name for one in markers.missing] == ["Marker 1"]


def test_usual_tests_are_those_that_are_offered(client_of: Client) -> None:  # noqa: F811
    offer(EAST, [OTHER])
    names = {test.name for test in choices(client_of, "").context["choices"].tests}
    assert "Heart Screen" in names and "Liver Screen" not in names


@pytest.mark.parametrize("account_id", ["", str(EAST)])
def test_choices_follow_the_chosen_account(
    client_of: Client,  # noqa: F811
    account_id: str,
) -> None:
    west()
    offer(EAST, [OTHER])
    offer(WEST, [TEST])
    given = {"tests": [OTHER], "lab_account": account_id}
    shown = choices(client_of, "screen", **given).context["choices"]
    assert not shown.tests
    assert [one.reason for one in shown.missing] == ["Not offered by Made-up Clinic East"]


def test_choices_of_unknown_catalog_are_all(client_of: Client) -> None:  # noqa: F811
    shown = choices(client_of, "screen").context["choices"]
    assert len(shown.tests) == 2 and not shown.missing


def test_pending_lab_is_searched_for_imports_only(client_of: Client) -> None:  # noqa: F811
    LabAccount.objects.update(status="pending")
    assert not choices(client_of, "screen").context["choices"].tests
    shown = choices(client_of, "screen", importing="yes").context["choices"]
    assert len(shown.tests) == 2
    assert "?importing=yes" in client_of.get(import_page()).content.decode()


# The table


def check(client: Client, *rows: tuple[str, str, str]) -> Any:
    """Test, sample ID and account of each row."""
    lines = [f"{uid('patient', 1)},{','.join(row)}" for row in rows]
    text = "\r\n".join(["patient,test,sample_id,lab_account", *lines])
    sheet = reverse("orders:import-sheet")
    form_id = client.get(sheet).context["form"]["form_id"].value()
    return client.post(sheet, {"form_id": form_id, "rows": text, "do": "check"})


def account_of(row: Any) -> str:
    [choice] = [one for one in row.choices if one.label == "Lab account"]
    return f"{choice.text} ({choice.origin})" if choice.origin else str(choice.text)


def test_table_chooses_accounts_by_test(client_of: Client) -> None:  # noqa: F811
    west()
    offer(EAST, [OTHER])
    offer(WEST, [TEST])
    answer = check(
        client_of,
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


def test_table_says_that_account_was_not_checked(client_of: Client) -> None:  # noqa: F811
    answer = check(client_of, ("Liver Screen", "S-1", ""))
    [row] = answer.context["rows"]
    assert row.is_importable and row.notes == ["Could not check what Made-up Clinic East offers."]
    assert row.notes[0] in answer.content.decode()


def test_table_accepts_accounts_by_name_and_number(client_of: Client) -> None:  # noqa: F811
    west(provider_account_id="NUM-2")
    LabAccount.objects.filter(pk=EAST).update(provider_account_id="NUM-1")
    account(uid("account", 3), account_name="Made-up Clinic South", status="suspended")
    for pk in (EAST, WEST):
        offer(pk, [TEST])
    rows = check(
        client_of,
        ("Liver Screen", "S-1", "made-up clinic EAST"),
        ("Liver Screen", "S-2", "num-2"),
        ("Liver Screen", "S-3", "Clinic"),
        ("Liver Screen", "S-4", "South"),
        ("Liver Screen", "S-5", "elsewhere"),
    ).context["rows"]
    assert account_of(rows[0]) == "Made-up Clinic East, number NUM-1"
    assert account_of(rows[1]) == "Made-up Clinic West, number NUM-2"
    assert rows[2].faults == [
        "“Clinic” may be several accounts: Made-up Clinic East, number NUM-1 or "
        "Made-up Clinic West, number NUM-2. Write the number of one."
    ]
    assert "Made-up Clinic South, number" in rows[3].faults[0]
    assert "cannot be used: it is suspended" in rows[3].faults[0]
    assert "“elsewhere” is no account that can be used here." in rows[4].faults[0]


def test_table_reads_catalogs_once_for_all_rows(client_of: Client) -> None:  # noqa: F811
    west()
    for pk in (EAST, WEST):
        offer(pk, [TEST, OTHER])
    check(client_of, ("Liver Screen", "S-0", "West"))
    counts = []
    for many in (2, 60):
        rows = [
            ("Liver Screen" if number % 2 else "Heart Screen", f"S-{number}", "West")
            for number in range(many)
        ]
        with CaptureQueriesContext(connection) as made:
            assert len(check(client_of, *rows).context["good"]) == many
        counts.append(len(made))
        catalogs_by_account = [one for one in made if "catalog_read_at," in one["sql"]]
        assert sum("labs_labaccounttest" in one["sql"] for one in catalogs_by_account) == 1
    assert counts[0] == counts[1], counts
