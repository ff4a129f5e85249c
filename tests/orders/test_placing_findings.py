"""Findings of the order form: each fault is found, explained and linked to its field."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from backoffice.accounts.models import User
from backoffice.outbox.command import PreconditionFailed
from backoffice.outbox.models import CommandRecord
from labs.models import Lab, LabAccount, Marker
from orders.commands import CreateOrder
from orders.models import Order, OrderDraft
from orders.placing.patient_rules import is_name, is_npi, phone, plain_name
from patients.models import Demographics, Insurance
from tests.api.rows import envelope, order, uid
from tests.dom import Page
from tests.orders.placing import (
    ACCOUNT,
    FAR,
    OTHER,
    QUESTION,
    TEST,
    create_recent_order,
    create_second_account,
    form_values,
    open_review,
    order_form_url,
)


def make_minor() -> None:
    born = timezone.localdate() - timedelta(days=365 * 10)
    Demographics.objects.update(dob=born)


def suspend_accounts() -> None:
    LabAccount.objects.update(status="suspended")


def require_physician() -> None:
    LabAccount.objects.update(delegated_flow="order_delegated")


def change_nothing() -> None:
    pass


YOUNG = (timezone.localdate() - timedelta(days=3650)).isoformat()


Case = tuple[str, str, Callable[[], None], dict[str, Any]]


FAULT_CASES: list[Case] = [
    ("name rule", "first_name", change_nothing, {"first_name": "José"}),
    ("no zip", "zip", change_nothing, {"zip": ""}),
    ("zip", "zip", change_nothing, {"zip": "8500"}),
    ("no phone_number", "phone_number", change_nothing, {"phone_number": ""}),
    ("phone", "phone_number", change_nothing, {"phone_number": "123"}),
    ("no email", "email", change_nothing, {"email": ""}),
    ("email", "email", change_nothing, {"email": "ada"}),
    ("state", "state", change_nothing, {"state": "Arizona"}),
    ("minor without proxy", "dob", change_nothing, {"dob": YOUNG}),
    ("minor at home", "collection_method", change_nothing, {"dob": YOUNG, "tests": [OTHER]}),
    ("no test", "panel", change_nothing, {"tests": []}),
    ("lost test", "panel", change_nothing, {"tests": [TEST, uid("test", 99)]}),
    ("several labs", "panel", change_nothing, {"tests": [TEST, FAR]}),
    ("several methods", "collection_method", change_nothing, {"tests": [TEST, OTHER]}),
    ("add-on without method", "collection_method", change_nothing, {"tests": [], "markers": ["1"]}),
    ("add-on without method", "collection_method", change_nothing, {"markers": ["1"]}),
    ("same test", "another", create_recent_order, {}),
    ("no active account", "panel", suspend_accounts, {}),
    ("several accounts", "lab_account", create_second_account, {}),
    ("physician missing", "physician", require_physician, {}),
    ("physician missing", "physician_first_name", require_physician, {"physician": "typed"}),
    (
        "npi",
        "physician_npi",
        require_physician,
        {
            "physician": "typed",
            "physician_first_name": "Pat",
            "physician_last_name": "Madeup",
            "physician_npi": "12",
        },
    ),
    ("billing not in state", "billing_type", change_nothing, {"billing_type": "patient_bill"}),
    ("no insurance", "billing_type", change_nothing, {"billing_type": "commercial_insurance"}),
    ("no diagnosis", "icd_codes", change_nothing, {"billing_type": "commercial_insurance"}),
    ("note too long", "clinical_notes", change_nothing, {"clinical_notes": "n" * 991}),
    ("date in the past", "activate_by", change_nothing, {"activate_by": "2020-01-01"}),
    (
        "question",
        f"q-2-{QUESTION['id']}",
        change_nothing,
        {"markers": ["2"], "collection_method": "walk_in_test"},
    ),
]


def test_order_without_faults_goes_to_review(clinician_client: Client) -> None:
    answer = clinician_client.post(
        order_form_url(clinician_client), {**form_values(), "do": "review"}
    )
    assert answer.status_code == 302, answer.context["findings"]
    assert answer["Location"].endswith("/review/")


@pytest.mark.parametrize(
    ("kind", "field", "prepare", "values"),
    FAULT_CASES,
    ids=[f"{one[0]}-{one[1]}" for one in FAULT_CASES],
)
def test_each_fault_is_found_at_its_field(
    clinician_client: Client,
    kind: str,
    field: str,
    prepare: Callable[[], None],
    values: dict[str, Any],
) -> None:
    prepare()
    answer = clinician_client.post(
        order_form_url(clinician_client), {**form_values(**values), "do": "review"}
    )
    assert answer.status_code == 422
    found = {(one.kind, one.field) for one in answer.context["findings"]}
    assert (kind, field) in found
    page = answer.content.decode()
    assert f'id="id_{field}"' in page, "the link needs a target"
    if field != "another":
        assert f'href="#id_{field}" data-fix' in page
    # No typed value is lost.
    sent = Page(page, "data-kept").values()
    for name, value in values.items():
        if isinstance(value, str) and value and f'name="{name}"' in page:
            assert sent.get(name) == [value], f"{name} is lost"


def offered_methods(client: Client, **values: Any) -> dict[str, str]:
    shown = client.post(order_form_url(client), {**form_values(**values), "do": "review"})
    if shown.status_code == 302:
        shown = client.get(order_form_url(client))
    return dict(shown.context["form"].fields["collection_method"].choices)


def test_only_methods_of_the_lab_can_be_chosen(clinician_client: Client) -> None:
    Lab.objects.update(collection_methods=["walk_in_test", "testkit"])
    choices = {"": "Test default", "testkit": "Test kit", "walk_in_test": "Walk-in"}
    assert offered_methods(clinician_client) == choices
    unavailable = {"on_site_collection": "On-site collection (not at this lab)"}
    assert (
        offered_methods(clinician_client, collection_method="on_site_collection")
        == choices | unavailable
    )


def test_review_shows_answers_as_text(clinician_client: Client) -> None:
    answers = [{"code": "Y", "value": "Yes"}, {"code": "N", "value": "No"}]
    questions = [
        {"id": 7, "value": "Fasting?", "type": "choice", "sequence": 1, "answers": answers}
    ]
    Marker.objects.filter(pk=2).update(record=json.dumps({"aoe": {"questions": questions}}))
    given = form_values(markers=["2"], collection_method="walk_in_test", **{"q-2-7": "Y"})
    answer = clinician_client.post(order_form_url(clinician_client), {**given, "do": "review"})
    page = clinician_client.get(answer["Location"]).content.decode()
    assert "<dt>Fasting?</dt><dd>Yes</dd>" in page


def test_confirmation_allows_same_test(clinician_client: Client) -> None:
    create_recent_order()
    given = {**form_values(another="on"), "do": "review"}
    assert clinician_client.post(order_form_url(clinician_client), given).status_code == 302


def test_confirmation_applies_only_to_chosen_order(clinician_client: Client) -> None:
    create_recent_order()
    address = order_form_url(clinician_client)
    shape = clinician_client.get(address).context["order_request"].shape
    given = {**form_values(another="on"), "shape": shape, "do": "review"}
    assert clinician_client.post(address, given).status_code == 422
    assert "another" not in OrderDraft.objects.get().typed


def test_canceled_order_needs_no_confirmation(clinician_client: Client) -> None:
    create_recent_order()
    Order.objects.update(low_level_status="cancelled")
    assert (
        clinician_client.post(
            order_form_url(clinician_client), {**form_values(), "do": "review"}
        ).status_code
        == 302
    )


def test_note_length_includes_note_of_account(clinician_client: Client) -> None:
    """990 letters, a line break and the nine letters of the account's own note make a thousand."""
    note = "n" * 990
    answer = clinician_client.post(
        order_form_url(clinician_client), {**form_values(clinical_notes=note), "do": "review"}
    )
    assert answer.status_code == 302
    shown = clinician_client.get(order_form_url(clinician_client)).content.decode()
    assert "1000 of 1000" in shown and "Phone us." in shown


def test_insurance_on_record_is_enough(clinician_client: Client) -> None:
    Insurance.objects.create(
        id=uid("insurance", 1),
        user_id=uid("patient", 1),
        is_primary=True,
        payor_code="MADEUP",
        member_id="M1",
        relationship="Self",
        **envelope(),
    )
    given = form_values(billing_type="commercial_insurance", icd_codes="e11.9, z00.00")
    assert (
        clinician_client.post(
            order_form_url(clinician_client), {**given, "do": "review"}
        ).status_code
        == 302
    )
    assert (
        "Primary insurance: MADEUP"
        in clinician_client.get(order_form_url(clinician_client)).content.decode()
    )


def test_replaced_order_needs_a_chosen_account(clinician_client: Client) -> None:
    canceled = {"user_id": uid("patient", 1), "low_level_status": "cancelled"}
    order(5, **canceled).save()
    given = form_values(replaces=str(uid("order", 5)))
    answer = clinician_client.post(order_form_url(clinician_client), {**given, "do": "review"})
    assert answer.status_code == 422
    assert "account anew" in {one.kind for one in answer.context["findings"]}
    chosen = {**given, "lab_account": str(ACCOUNT), "do": "review"}
    assert clinician_client.post(order_form_url(clinician_client), chosen).status_code == 302


def test_pending_account_is_valid_only_for_imports(clinician_client: Client) -> None:
    LabAccount.objects.update(status="pending")
    answer = clinician_client.post(
        order_form_url(clinician_client), {**form_values(), "do": "review"}
    )
    assert answer.status_code == 422
    address = reverse("orders:import", args=[uid("patient", 1)])
    given = {**form_values(sample_id="S-1"), "do": "review"}
    assert clinician_client.post(address, given).status_code == 302


WEST_OF_UTC = "Etc/GMT+12"


EAST_OF_UTC = "Etc/GMT-12"


@pytest.mark.parametrize("zone", [WEST_OF_UTC, EAST_OF_UTC])
def test_activation_date_uses_time_zone_of_user(clinician_client: Client, zone: str) -> None:
    """In at least one of these zones the day differs from the day in UTC."""
    set_time_zone(zone)
    today = datetime.now(ZoneInfo(zone)).date()
    given = form_values(activate_by=today.isoformat())
    assert (
        clinician_client.post(
            order_form_url(clinician_client), {**given, "do": "review"}
        ).status_code
        == 302
    )
    address, sent = open_review(clinician_client)
    assert clinician_client.post(address, sent).status_code == 302
    given["activate_by"] = (today - timedelta(days=1)).isoformat()
    answer = clinician_client.post(order_form_url(clinician_client), {**given, "do": "review"})
    assert "date in the past" in {one.kind for one in answer.context["findings"]}


def test_order_that_waits_over_midnight_is_sent(clinician_client: Client) -> None:
    clinician_client.post(order_form_url(clinician_client), {**form_values(), "do": "review"})
    address, sent = open_review(clinician_client)
    clinician_client.post(address, sent)
    command = CreateOrder.read(CommandRecord.objects.get().payload)
    today = datetime.now(UTC).date()
    command.body.activate_by = today - timedelta(days=1)
    command.check()
    command.body.activate_by = today - timedelta(days=2)
    with pytest.raises(PreconditionFailed):
        command.check()


@pytest.mark.parametrize("zone", [WEST_OF_UTC, EAST_OF_UTC])
def test_day_of_same_test_uses_time_zone_of_user(clinician_client: Client, zone: str) -> None:
    create_recent_order()
    set_time_zone(zone)
    answer = clinician_client.post(
        order_form_url(clinician_client), {**form_values(), "do": "review"}
    )
    day = Order.objects.get().created_at.astimezone(ZoneInfo(zone))
    assert f"on {day:%b %-d}." in " ".join(one.words for one in answer.context["findings"])


def set_time_zone(zone: str) -> None:
    User.objects.update(time_zone=zone)


def test_malformed_input_is_refused_without_error(clinician_client: Client) -> None:
    malformed = form_values(
        tests=["x", "\x00", str(TEST)],
        markers=["99999999999999999999", "-1"],
        dob="0000-99-99",
        clinical_notes="a\x00b",
        activate_by="soon",
        replaces="nothing",
    )
    answer = clinician_client.post(order_form_url(clinician_client), {**malformed, "do": "review"})
    assert answer.status_code == 422
    assert clinician_client.get(order_form_url(clinician_client)).status_code == 200
    assert (
        clinician_client.get(
            order_form_url(clinician_client), {"again": "x", "repeat": "y"}
        ).status_code
        == 404
    )


def test_name_rules_of_labs() -> None:
    for good in ("D'Arcy", "Anne-Marie", "St. Clair", "3rd", "x" * 50):
        assert is_name(good), good
    for bad in ("", " Ada", "Ada ", "A  B", "-A", "a@b", "Zoë", "Ada\n", "x" * 51):
        assert not is_name(bad), bad
    assert plain_name("José") == "Jose"
    assert plain_name(" Ada  B ") == "Ada B"
    assert plain_name("Núñez-O’Brien") == "Nunez-O'Brien"
    assert plain_name("李") == ""


def test_phone_and_npi_rules() -> None:
    assert phone("(555) 010-0200") == "+15550100200"
    assert phone("+44 20 7946 0000") == "+442079460000"
    assert phone("123") == phone("") == ""
    assert is_npi("1234567893")
    assert not is_npi("1234567890") and not is_npi("123456789")


def test_diagnosis_codes_are_optional_until_insurance_pays(clinician_client: Client) -> None:
    def diagnosis_label(**values: Any) -> str:
        clinician_client.post(
            order_form_url(clinician_client), {**form_values(**values), "do": "save"}
        )
        page = clinician_client.get(order_form_url(clinician_client)).content.decode()
        return page.partition("Diagnosis codes")[2].partition("</label>")[0]

    assert "(optional)" in diagnosis_label()
    assert "(optional)" not in diagnosis_label(billing_type="commercial_insurance")
    assert (
        "Required if insurance is billed"
        in clinician_client.get(order_form_url(clinician_client)).content.decode()
    )
