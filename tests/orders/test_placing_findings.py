"""The linter of orders: each fault is found, said in words, and sends to the field to mend."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from backoffice.accounts.models import User
from backoffice.celery import app
from backoffice.outbox.command import PreconditionFailed
from backoffice.outbox.models import CommandRecord
from labs.models import Lab, LabAccount, LabAccountTeam, LabTest, LabTestMarker, Marker, Physician
from orders.commands import CreateOrder
from orders.models import Order, OrderDraft
from orders.placing.patient_rules import is_name, is_npi, phone, plain_name
from orders.tasks import forget
from patients.models import Demographics, Insurance
from tests.api.rows import TEAM, demographics, envelope, order, patient, staff, uid

PERSON = {
    "first_name": "Ada",
    "last_name": "Testperson",
    "dob": "1980-05-05",
    "gender": "female",
    "phone_number": "+15550100200",
    "email": "ada@example.invalid",
    "first_line": "1 Made-up Street",
    "city": "Phoenix",
    "state": "AZ",
    "zip": "85001",
}
TEST, OTHER, FAR, KIT = (uid("test", n) for n in range(4))
ACCOUNT = uid("account", 1)
QUESTION = {
    "id": 9_007_199_254_740_993,
    "required": True,
    "value": "Weeks pregnant?",
    "type": "numeric",
    "sequence": 1,
    "answers": [],
}


@pytest.fixture
def catalogue(transactional_db: None) -> None:
    """Two labs; one has an account of ours, and a marker that can be added."""
    for number, slug in ((1, "lab-a"), (2, "lab-b")):
        Lab.objects.create(
            id=number,
            slug=slug,
            name=f"Made-up lab {number}",
            collection_methods=["walk_in_test", "at_home_phlebotomy", "testkit"],
            **envelope(),
        )
    for pk, lab, method in (
        (TEST, 1, "walk_in_test"),
        (OTHER, 1, "at_home_phlebotomy"),
        (FAR, 2, "walk_in_test"),
        (KIT, 2, "testkit"),
    ):
        LabTest.objects.create(
            id=pk,
            lab_id=lab,
            slug=str(pk),
            name=f"Panel {str(pk)[:4]}",
            sample_type="serum",
            method=method,
            status="active",
            **envelope(),
        )
    asked = json.dumps({"aoe": {"questions": [QUESTION]}})
    for number, extra in ((1, {}), (2, {"has_questions": True, **envelope(asked)})):
        Marker.objects.create(
            id=number,
            lab_id=1,
            name=f"Marker {number}",
            slug=f"marker-{number}",
            a_la_carte_enabled=True,
            is_orderable=True,
            **{**envelope(), **extra},
        )
    account(ACCOUNT)
    Physician.objects.create(npi="1900000011", first_name="Pat", last_name="Madeup", **envelope())
    patient(1).save()
    demographics(1, **{**PERSON, "dob": date(1980, 5, 5), "phone_digits": "0"}).save()


def account(pk: UUID, **values: Any) -> None:
    billing = {"client_bill": ["AZ", "NY"], "commercial_insurance": ["AZ"]}
    LabAccount.objects.create(
        **{
            "id": pk,
            "lab": "lab-a",
            "status": "active",
            "delegated_flow": "not_delegated",
            "provider_account_id": str(pk)[:6],
            "account_name": "Made-up account",
            "default_clinical_notes": "Phone us.",
            **envelope(json.dumps({"allowed_billing": billing})),
            **values,
        }
    )
    LabAccountTeam.objects.create(account_id=pk, team_id=TEAM)


def minor() -> None:
    born = timezone.localdate() - timedelta(days=365 * 10)
    Demographics.objects.update(dob=born)


def second_account() -> None:
    account(uid("account", 2))


def suspended() -> None:
    LabAccount.objects.update(status="suspended")


def delegated() -> None:
    LabAccount.objects.update(delegated_flow="order_delegated")


def ordered_lately() -> None:
    order(
        1,
        user_id=uid("patient", 1),
        lab_test_id=TEST,
        lab_test_name="Panel",
        created_at=timezone.now() - timedelta(days=3),
    ).save()


def nothing() -> None:
    pass


YOUNG = (timezone.localdate() - timedelta(days=3650)).isoformat()
Case = tuple[str, str, Callable[[], None], dict[str, Any]]
CASES: list[Case] = [
    ("name rule", "first_name", nothing, {"first_name": "José"}),
    ("no zip", "zip", nothing, {"zip": ""}),
    ("zip", "zip", nothing, {"zip": "8500"}),
    ("no phone_number", "phone_number", nothing, {"phone_number": ""}),
    ("phone", "phone_number", nothing, {"phone_number": "123"}),
    ("no email", "email", nothing, {"email": ""}),
    ("email", "email", nothing, {"email": "ada"}),
    ("state", "state", nothing, {"state": "Arizona"}),
    ("minor without proxy", "dob", nothing, {"dob": YOUNG}),
    ("minor at home", "collection_method", nothing, {"dob": YOUNG, "tests": [OTHER]}),
    ("no test", "panel", nothing, {"tests": []}),
    ("lost test", "panel", nothing, {"tests": [TEST, uid("test", 99)]}),
    ("several labs", "panel", nothing, {"tests": [TEST, FAR]}),
    ("several methods", "collection_method", nothing, {"tests": [TEST, OTHER]}),
    ("add-on without method", "collection_method", nothing, {"tests": [], "markers": ["1"]}),
    ("add-on without method", "collection_method", nothing, {"markers": ["1"]}),
    ("same test", "another", ordered_lately, {}),
    ("no active account", "panel", suspended, {}),
    ("several accounts", "lab_account", second_account, {}),
    ("physician missing", "physician", delegated, {}),
    ("physician missing", "physician_first_name", delegated, {"physician": "typed"}),
    (
        "npi",
        "physician_npi",
        delegated,
        {
            "physician": "typed",
            "physician_first_name": "Pat",
            "physician_last_name": "Madeup",
            "physician_npi": "12",
        },
    ),
    ("billing not in state", "billing_type", nothing, {"billing_type": "patient_bill"}),
    ("no insurance", "billing_type", nothing, {"billing_type": "commercial_insurance"}),
    ("no diagnosis", "icd_codes", nothing, {"billing_type": "commercial_insurance"}),
    ("note too long", "clinical_notes", nothing, {"clinical_notes": "n" * 991}),
    ("date in the past", "activate_by", nothing, {"activate_by": "2020-01-01"}),
    (
        "question",
        f"q-2-{QUESTION['id']}",
        nothing,
        {"markers": ["2"], "collection_method": "walk_in_test"},
    ),
]


def typed(**values: Any) -> dict[str, Any]:
    return {**PERSON, "tests": [TEST], "billing_type": "client_bill", **values}


def page_of(client: Client) -> str:
    return reverse("orders:new", args=[uid("patient", 1)])


@pytest.fixture
def client_of(catalogue: None) -> Client:
    client = Client()
    client.force_login(staff("clinician"))
    return client


def test_an_order_without_faults_goes_to_review(client_of: Client) -> None:
    answer = client_of.post(page_of(client_of), {**typed(), "do": "review"})
    assert answer.status_code == 302, answer.context["found"]
    assert answer["Location"].endswith("/review/")


@pytest.mark.parametrize(
    ("kind", "field", "prepare", "values"), CASES, ids=[f"{one[0]}-{one[1]}" for one in CASES]
)
def test_each_fault_is_found_at_its_field(
    client_of: Client, kind: str, field: str, prepare: Callable[[], None], values: dict[str, Any]
) -> None:
    prepare()
    answer = client_of.post(page_of(client_of), {**typed(**values), "do": "review"})
    assert answer.status_code == 422
    found = {(one.kind, one.field) for one in answer.context["found"]}
    assert (kind, field) in found
    page = answer.content.decode()
    assert f'id="id_{field}"' in page, "there is nothing to go to"
    if field != "another":
        assert f'href="#id_{field}" data-fix' in page
    # Nothing typed is lost.
    for name, value in values.items():
        if isinstance(value, str) and value and f'name="{name}"' in page:
            assert value in page or f'value="{value}" selected' in page


def offered(client: Client, **values: Any) -> dict[str, str]:
    shown = client.post(page_of(client), {**typed(**values), "do": "review"})
    if shown.status_code == 302:
        shown = client.get(page_of(client))
    return dict(shown.context["form"].fields["collection_method"].choices)


def test_only_what_the_lab_offers_can_be_chosen(client_of: Client) -> None:
    Lab.objects.update(collection_methods=["walk_in_test", "testkit"])
    choices = {"": "As the tests say", "testkit": "Test kit", "walk_in_test": "Walk-in"}
    assert offered(client_of) == choices
    gone = {"on_site_collection": "On-site collection: not at this lab"}
    assert offered(client_of, collection_method="on_site_collection") == choices | gone


def test_answers_are_read_back_in_words(client_of: Client) -> None:
    answers = [{"code": "Y", "value": "Yes"}, {"code": "N", "value": "No"}]
    asked = [{"id": 7, "value": "Fasting?", "type": "choice", "sequence": 1, "answers": answers}]
    Marker.objects.filter(pk=2).update(record=json.dumps({"aoe": {"questions": asked}}))
    given = typed(markers=["2"], collection_method="walk_in_test", **{"q-2-7": "Y"})
    answer = client_of.post(page_of(client_of), {**given, "do": "review"})
    page = client_of.get(answer["Location"]).content.decode()
    assert "<dt>Fasting?</dt><dd>Yes</dd>" in page


def test_a_tick_lets_the_same_test_pass(client_of: Client) -> None:
    ordered_lately()
    given = {**typed(another="on"), "do": "review"}
    assert client_of.post(page_of(client_of), given).status_code == 302


def test_a_tick_is_for_what_was_chosen_then(client_of: Client) -> None:
    ordered_lately()
    address = page_of(client_of)
    shape = client_of.get(address).context["order_request"].shape
    given = {**typed(another="on"), "shape": shape, "do": "review"}
    assert client_of.post(address, given).status_code == 422
    assert "another" not in OrderDraft.objects.get().typed


def test_a_cancelled_order_is_none(client_of: Client) -> None:
    ordered_lately()
    Order.objects.update(low_level_status="cancelled")
    assert client_of.post(page_of(client_of), {**typed(), "do": "review"}).status_code == 302


def test_the_note_is_counted_as_it_will_print(client_of: Client) -> None:
    """990 letters, a line's end and the nine of the account's own note make a thousand."""
    note = "n" * 990
    answer = client_of.post(page_of(client_of), {**typed(clinical_notes=note), "do": "review"})
    assert answer.status_code == 302
    shown = client_of.get(page_of(client_of)).content.decode()
    assert "1000 of 1000" in shown and "Phone us." in shown


def test_insurance_on_record_is_enough(client_of: Client) -> None:
    Insurance.objects.create(
        id=uid("insurance", 1),
        user_id=uid("patient", 1),
        is_primary=True,
        payor_code="MADEUP",
        member_id="M1",
        relationship="Self",
        **envelope(),
    )
    given = typed(billing_type="commercial_insurance", icd_codes="e11.9, z00.00")
    assert client_of.post(page_of(client_of), {**given, "do": "review"}).status_code == 302
    assert "Primary insurance: MADEUP" in client_of.get(page_of(client_of)).content.decode()


def test_an_account_chosen_anew_when_an_order_is_replaced(client_of: Client) -> None:
    canceled = {"user_id": uid("patient", 1), "low_level_status": "cancelled"}
    order(5, **canceled).save()
    given = typed(replaces=str(uid("order", 5)))
    answer = client_of.post(page_of(client_of), {**given, "do": "review"})
    assert answer.status_code == 422
    assert "account anew" in {one.kind for one in answer.context["found"]}
    chosen = {**given, "lab_account": str(ACCOUNT), "do": "review"}
    assert client_of.post(page_of(client_of), chosen).status_code == 302


def test_a_pending_account_is_good_for_imports_only(client_of: Client) -> None:
    LabAccount.objects.update(status="pending")
    answer = client_of.post(page_of(client_of), {**typed(), "do": "review"})
    assert answer.status_code == 422
    address = reverse("orders:import", args=[uid("patient", 1)])
    given = {**typed(sample_id="S-1"), "do": "review"}
    assert client_of.post(address, given).status_code == 302


WEST_OF_UTC = "Etc/GMT+12"
EAST_OF_UTC = "Etc/GMT-12"


@pytest.mark.parametrize("zone", [WEST_OF_UTC, EAST_OF_UTC])
def test_an_order_goes_out_today_where_its_writer_is(client_of: Client, zone: str) -> None:
    """Of these two zones it is never the same day as by UTC in both."""
    settle_in(zone)
    today = datetime.now(ZoneInfo(zone)).date()
    given = typed(activate_by=today.isoformat())
    assert client_of.post(page_of(client_of), {**given, "do": "review"}).status_code == 302
    address, sent = reviewed(client_of)
    assert client_of.post(address, sent).status_code == 302
    given["activate_by"] = (today - timedelta(days=1)).isoformat()
    answer = client_of.post(page_of(client_of), {**given, "do": "review"})
    assert "date in the past" in {one.kind for one in answer.context["found"]}


def test_an_order_that_waits_over_midnight_is_sent(client_of: Client) -> None:
    client_of.post(page_of(client_of), {**typed(), "do": "review"})
    address, sent = reviewed(client_of)
    client_of.post(address, sent)
    command = CreateOrder.read(CommandRecord.objects.get().payload)
    today = datetime.now(UTC).date()
    command.body.activate_by = today - timedelta(days=1)
    command.check()
    command.body.activate_by = today - timedelta(days=2)
    with pytest.raises(PreconditionFailed):
        command.check()


@pytest.mark.parametrize("zone", [WEST_OF_UTC, EAST_OF_UTC])
def test_the_day_of_the_same_test_is_the_readers(client_of: Client, zone: str) -> None:
    ordered_lately()
    settle_in(zone)
    answer = client_of.post(page_of(client_of), {**typed(), "do": "review"})
    day = Order.objects.get().created_at.astimezone(ZoneInfo(zone))
    assert f"on {day:%-d %b}." in " ".join(one.words for one in answer.context["found"])


def settle_in(zone: str) -> None:
    User.objects.update(time_zone=zone)


# The page


def test_a_draft_is_kept_and_can_be_left(client_of: Client) -> None:
    address = page_of(client_of)
    given = {**typed(clinical_notes="half a tho"), "do": "save"}
    assert client_of.post(address, given).status_code == 302
    page = client_of.get(address).content.decode()
    assert "half a tho" in page and "Your draft" in page
    assert client_of.post(address, {"do": "discard"}).status_code == 302
    assert not OrderDraft.objects.exists()


def reviewed(client: Client) -> tuple[str, dict[str, str]]:
    """Address of the review, and what its button sends."""
    address = reverse("orders:new-review", args=[uid("patient", 1)])
    form = client.get(address).context["form"]
    return address, {name: str(form[name].value()) for name in ("form_id", "draft")}


@pytest.mark.parametrize("name", ["activate_by", "dob"])
def test_a_date_is_read_in_one_way_only(client_of: Client, name: str) -> None:
    """12/31 would be shown on the review, and the order would go out now."""
    given = typed(**{name: f"12/31/{timezone.localdate().year - (30 if name == 'dob' else -1)}"})
    answer = client_of.post(page_of(client_of), {**given, "do": "review"})
    assert answer.status_code == 422
    assert answer.context["form"].errors[name]
    assert given[name] in answer.content.decode()


def test_a_draft_that_changed_after_its_review_is_reviewed_again(client_of: Client) -> None:
    """Another tab, or letters that were saved late."""
    client_of.post(page_of(client_of), {**typed(clinical_notes="first"), "do": "review"})
    address, given = reviewed(client_of)
    client_of.post(page_of(client_of), {**typed(clinical_notes="second"), "do": "leave"})
    answer = client_of.post(address, given)
    assert answer.status_code == 422
    page = answer.content.decode()
    assert "The draft changed meanwhile" in page and "second" in page
    assert not CommandRecord.objects.exists()
    shown = answer.context["form"]
    again = {name: str(shown[name].value()) for name in given}
    assert f'value="{again["draft"]}"' in page
    done = {client_of.post(address, again)["Location"] for _ in range(2)}
    asked = CommandRecord.objects.get()
    assert done == {reverse("commands:detail", args=[asked.pk])}
    assert asked.payload["body"]["clinical_notes"] == "second"


def test_a_draft_that_was_overtaken_on_its_way_changes_nothing(client_of: Client) -> None:
    address = page_of(client_of)
    for note, written in (("whole", "page.10"), ("who", "page.9")):
        sent = {**typed(clinical_notes=note), "written": written, "do": "leave"}
        client_of.post(address, sent)
    kept = OrderDraft.objects.get().typed
    assert kept["clinical_notes"] == ["whole"] and "written" not in kept


def test_a_draft_is_its_writers_own_and_old_ones_go(client_of: Client) -> None:
    address = page_of(client_of)
    client_of.post(address, {**typed(clinical_notes="mine alone"), "do": "leave"})
    other = Client()
    other.force_login(staff("lab coordinator"))
    assert "mine alone" not in other.get(address).content.decode()
    OrderDraft.objects.update(saved_at=timezone.now() - timedelta(days=15))
    other.post(address, {**typed(), "do": "leave"})
    forget()
    assert OrderDraft.objects.count() == 1
    assert "orders.tasks.forget" in {bell["task"] for bell in app.conf.beat_schedule.values()}


def test_typing_brings_the_summary_and_a_choice_the_fields(client_of: Client) -> None:
    address = page_of(client_of)
    shape = client_of.get(address).context["order_request"].shape
    live = {"HX-Request": "true"}
    first = client_of.post(address, {**PERSON, "shape": shape}, headers=live)
    assert "HX-Retarget" in first.headers or 'id="summary"' in first.content.decode()
    chosen = client_of.post(address, {**typed(), "shape": shape}, headers=live)
    assert chosen.headers["HX-Retarget"] == "#blocks"
    same = {**typed(), "shape": chosen.context["order_request"].shape, "clinical_notes": "x"}
    typed_on = client_of.post(address, same, headers=live)
    assert "HX-Retarget" not in typed_on.headers
    assert 'id="blocks"' not in typed_on.content.decode()


def test_panels_are_found_by_name_and_code(client_of: Client) -> None:
    Marker.objects.filter(pk=1).update(provider_id="X-77")
    LabTestMarker.objects.create(lab_test_id=TEST, marker_id=1, position=0)
    address = reverse("orders:panels", args=[uid("patient", 1)])
    by_code = client_of.get(address, {"panel": "x-7"}).context["choices"]
    assert [test.pk for test in by_code.tests] == [TEST]
    assert [marker.pk for marker in by_code.markers] == [1]
    # What is chosen is not offered, nor what another lab has.
    rest = client_of.get(address, {"panel": "panel", "tests": [str(TEST)]}).context["choices"]
    assert [test.pk for test in rest.tests] == [OTHER]
    assert not client_of.get(address, {"panel": "nowhere"}).context["choices"].tests


def test_without_a_script_a_search_is_a_page(client_of: Client) -> None:
    address = page_of(client_of)
    answer = client_of.post(address, {**PERSON, "panel": "Marker 2", "do": "save"})
    assert answer["Location"] == f"{address}?panel=Marker+2"
    page = client_of.get(answer["Location"]).content.decode()
    assert 'name="markers" value="2"' in page and 'value="Marker 2"' in page
    chosen = {**PERSON, "markers": ["2"], "do": "save"}
    assert client_of.post(address, chosen)["Location"] == address
    assert 'id="marker-2" checked' in client_of.get(address).content.decode()


def test_five_thousand_markers_are_searched_at_once(client_of: Client) -> None:
    """Journey 5: 300 ms to the first useful paint; the best of three, the machine is shared."""
    Marker.objects.bulk_create(
        Marker(
            id=number,
            lab_id=1,
            name=f"Made-up analyte {number}",
            slug=f"m-{number}",
            provider_id=f"C{number}",
            a_la_carte_enabled=True,
            is_orderable=True,
            **envelope(),
        )
        for number in range(1000, 6000)
    )
    address = reverse("orders:panels", args=[uid("patient", 1)])
    taken = []
    for _ in range(3):
        began = time.perf_counter()
        found = client_of.get(address, {"panel": "analyte 59"}).context["choices"]
        taken.append(time.perf_counter() - began)
        assert len(found.markers) == 10
    assert min(taken) < 2


def test_repeating_brings_what_was_ordered(client_of: Client) -> None:
    said = {
        "icd_codes": ["Z00.00"],
        "clinical_notes": "as last time\nPhone us.",
        "billing_type": "client_bill",
    }
    ordered_lately()
    Order.objects.update(
        lab_slug="lab-a", record=json.dumps(said), billing_type="client_bill", priority=True
    )
    answer = client_of.get(page_of(client_of), {"repeat": str(uid("order", 1))})
    order_request = answer.context["order_request"]
    assert [test.pk for test in order_request.tests] == [TEST]
    assert (order_request.note, order_request.icd_codes, order_request.value("priority")) == (
        "as last time",
        ["Z00.00"],
        "on",
    )
    assert order_request.value("lab_account") == ""


@pytest.mark.parametrize("name", ["repeat", "replaces"])
def test_a_kept_draft_is_not_lost_to_another_beginning(client_of: Client, name: str) -> None:
    ordered_lately()
    address = page_of(client_of)
    client_of.post(address, {**typed(clinical_notes="my own work"), "do": "leave"})
    kept = OrderDraft.objects.get().typed
    begin = f"{address}?{name}={uid('order', 1)}"
    page = client_of.get(begin).content.decode()
    assert "You have a draft of" in page and f'href="{address}"' in page
    assert "Your draft, kept" not in page
    assert OrderDraft.objects.get().typed == kept
    assert client_of.post(begin, {"do": "begin"})["Location"] == address
    order_request = client_of.get(address).context["order_request"]
    assert (order_request.note, order_request.tests[0].pk) == ("", TEST)
    assert order_request.replaces == (uid("order", 1) if name == "replaces" else None)


def test_a_kept_draft_is_not_lost_to_a_refused_order(client_of: Client) -> None:
    client_of.post(page_of(client_of), {**typed(clinical_notes="refused"), "do": "review"})
    address, sent = reviewed(client_of)
    client_of.post(address, sent)
    CommandRecord.objects.update(state="refused", refusal="The physician is not known.")
    again = f"{page_of(client_of)}?again={CommandRecord.objects.get().pk}"
    assert "refused" in client_of.get(again).content.decode()
    client_of.post(page_of(client_of), {**typed(clinical_notes="newer"), "do": "leave"})
    assert "You have a draft of" in client_of.get(again).content.decode()
    assert client_of.post(again, {"do": "begin"})["Location"] == again
    answer = client_of.get(again)
    assert answer.context["order_request"].note == "refused"
    assert answer.context["form"].errors["physician"] == ["The physician is not known."]


def test_replacing_starts_at_the_order(client_of: Client) -> None:
    ordered_lately()
    address = f"{reverse('orders:start')}?replaces={uid('order', 1)}"
    answer = client_of.get(address)
    assert answer["Location"] == f"{page_of(client_of)}?replaces={uid('order', 1)}"
    page = client_of.get(answer["Location"])
    assert page.context["order_request"].replaces == uid("order", 1)
    assert page.context["order_request"].account is None
    other = reverse("orders:new", args=[uid("patient", 2)])
    patient(2).save()
    assert client_of.get(f"{other}?replaces={uid('order', 1)}").status_code == 404


def test_roles_that_place_no_orders_see_none_of_it(catalogue: None) -> None:
    desk = Client()
    desk.force_login(staff("front desk"))
    for name in ("new", "new-review", "panels", "import", "import-review"):
        address = reverse(f"orders:{name}", args=[uid("patient", 1)])
        assert desk.get(address).status_code == 403
    assert desk.get(reverse("orders:import-sheet")).status_code == 403
    assert not OrderDraft.objects.exists()


def test_odd_input_breaks_nothing(client_of: Client) -> None:
    odd = typed(
        tests=["x", "\x00", str(TEST)],
        markers=["99999999999999999999", "-1"],
        dob="0000-99-99",
        clinical_notes="a\x00b",
        activate_by="soon",
        replaces="nothing",
    )
    answer = client_of.post(page_of(client_of), {**odd, "do": "review"})
    assert answer.status_code == 422
    assert client_of.get(page_of(client_of)).status_code == 200
    assert client_of.get(page_of(client_of), {"again": "x", "repeat": "y"}).status_code == 404


# What labs accept


def test_names() -> None:
    for good in ("D'Arcy", "Anne-Marie", "St. Clair", "3rd", "x" * 50):
        assert is_name(good), good
    for bad in ("", " Ada", "Ada ", "A  B", "-A", "a@b", "Zoë", "Ada\n", "x" * 51):
        assert not is_name(bad), bad
    assert plain_name("José") == "Jose"
    assert plain_name(" Ada  B ") == "Ada B"
    assert plain_name("Núñez-O’Brien") == "Nunez-O'Brien"
    assert plain_name("李") == ""


def test_numbers() -> None:
    assert phone("(555) 010-0200") == "+15550100200"
    assert phone("+44 20 7946 0000") == "+442079460000"
    assert phone("123") == phone("") == ""
    assert is_npi("1234567893")
    assert not is_npi("1234567890") and not is_npi("123456789")


def test_diagnosis_codes_are_optional_until_insurance_pays(client_of: Client) -> None:
    def said(**values: Any) -> str:
        client_of.post(page_of(client_of), {**typed(**values), "do": "save"})
        page = client_of.get(page_of(client_of)).content.decode()
        return page.partition("Diagnosis codes")[2].partition("</label>")[0]

    assert "(optional)" in said()
    assert "(optional)" not in said(billing_type="commercial_insurance")
    assert "Needed where insurance pays" in client_of.get(page_of(client_of)).content.decode()
