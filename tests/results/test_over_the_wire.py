"""Unusual results as the service would send them: how the mirror, the pages and the API show them,
who is notified, and who may sign."""

from __future__ import annotations

import html
import json
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from backoffice.audit.models import AuditEntry
from backoffice.core.models import UnknownValue
from orders.models import Delegation, Order, Result, ResultMarker, ResultVersion, Review
from orders.results import critical_calls, open_criticals, rereading
from tests.api.rows import staff, token_for
from tests.reviewing.test_pages import text_of as shown_text
from tests.sandbox_service import look_up
from tests.sandboxes import Sandbox

pytestmark = pytest.mark.django_db(transaction=True)

CASES = Path(__file__).parent.parent / "cases"


def case(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((CASES / name).read_text())
    return found


def send_result(world: Sandbox, key: UUID, body: dict[str, Any]) -> None:
    """Let the service answer with `body` as the result of this order, and read it."""
    world.prepare_answer(f"^/v3/order/{key}/result$", body=body, times=1)
    look_up("results", key)


def glucose_body(**changes: Any) -> dict[str, Any]:
    """Return a result of one glucose, in range and normal, with `changes` of its line.

    It names nobody.
    """
    body = case("B06.json")
    body["metadata"] |= {"patient": "", "dob": "", "age": ""}
    line = {"value": 80, "result": "80", "is_above_max_range": False, "interpretation": "normal",
            "source_interpretation": ""}  # fmt: skip
    body["results"][0] |= {**line, **changes}
    return body


def signed_in(role: str) -> Client:
    client = Client()
    client.force_login(staff(role))
    return client


def words(client: Client, name: str, *args: Any) -> str:
    return html.unescape(shown_text(client.get(reverse(name, args=args))))


def readings(key: UUID) -> list[tuple[str, str]]:
    rows = ResultMarker.objects.filter(result_id=key).order_by("position")
    return list(rows.values_list("interpretation", "side"))


def sign(client: Client, key: UUID, **given: str) -> int:
    given["version"] = str(Review.objects.get(pk=key).version)
    return client.post(reverse("reviewing:sign", args=[key]), given).status_code


def delegate_to(key: UUID) -> Client:
    """Return a coordinator with a delegation for this result and for every normal one."""
    clinician, helper = staff("clinician", "giver"), staff("lab coordinator", "helper")
    until = timezone.now() + timezone.timedelta(days=1)  # type: ignore[attr-defined]
    for order_id in (key, None):
        Delegation.objects.create(by=clinician, to=helper, order_id=order_id, until=until)
    client = Client()
    client.force_login(helper)
    return client


def test_b05_critical_spellings_alert_under_a_normal_head(world: Sandbox, key: UUID) -> None:
    send_result(world, key, case("B05.json"))
    assert readings(key) == [("critical", "high"), ("critical", "low")]
    assert Result.objects.get(pk=key).interpretation == "critical"
    assert Order.objects.get(pk=key).interpretation == "critical"
    review = Review.objects.get(pk=key)
    assert review.place == "critical" and [row.pk for row in open_criticals()] == [key]
    [version] = ResultVersion.objects.filter(order_id=key)
    assert {line["name"] for line in version.critical} == {"Potassium", "Sodium"}
    client = signed_in("clinician")
    assert "Not yet acknowledged" in words(client, "reviewing:report", key)
    for page in (words(client, "reviewing:report", key), words(client, "orders:detail", key)):
        for wanted in ("Critical", "Lab’s flag: HH", "Lab’s flag: LL", "Sent as “critical_high”"):
            assert wanted in page, wanted
    assert "Critical" in words(client, "reviewing:queue")
    assert str(key) in client.get(reverse("orders:list"), {"is_critical": "true"}).content.decode()
    assert client.get(reverse("today:page")).content.decode().count(str(key)) > 0
    assert sign(client, key) == 409, "it has to be acknowledged first"
    item = api(key)
    assert item["interpretation"] == "critical" and item["interpretation_received"] == "normal"
    assert [one["source_interpretation"] for one in item["markers"]] == ["HH", "LL"]


def test_newer_version_does_not_make_a_critical_result_younger(world: Sandbox, key: UUID) -> None:
    """The waiting time counts from the first version, not from a later equal one."""
    body = case("B05.json")
    send_result(world, key, body)
    first = critical_calls.result_badges(staff("clinician", "early")).oldest
    body["metadata"]["status"] = "corrected"
    body["results"].append({**body["results"][0], **case("B06.json")["results"][0]})
    send_result(world, key, body)
    one, two = ResultVersion.objects.filter(order_id=key).order_by("number")
    review = Review.objects.get(pk=key)
    assert (review.version, review.critical_since) == (two.number, one.number)
    assert review.since == two.received_at
    assert (
        critical_calls.result_badges(staff("clinician", "late")).oldest == first == one.received_at
    )


def test_b06_line_without_interpretation_is_never_normal(world: Sandbox, key: UUID) -> None:
    send_result(world, key, case("B06.json"))
    assert readings(key) == [("abnormal", "high")]
    assert Review.objects.get(pk=key).place == "abnormal"
    assert Order.objects.get(pk=key).interpretation == "abnormal"
    client = signed_in("clinician")
    patient = Order.objects.get(pk=key).user_id
    look_up("users", patient)
    for page in (
        words(client, "reviewing:report", key),
        words(client, "orders:detail", key),
        words(client, "of-patient:results", patient),
        words(client, "reviewing:version", key, 1),
    ):
        assert "High" in page and "Lab’s flag: H" in page
    assert api(key)["markers"][0]["interpretation"] == "abnormal"
    assert sign(client, key, is_identity_confirmed="on") == 302, "a clinician signs it"


def api(key: UUID) -> dict[str, Any]:
    headers = token_for(staff("administrator", "api"))
    found: dict[str, Any] = Client().get(f"/api/results/{key}/", headers=headers).json()
    return found


@pytest.mark.parametrize(
    ("changes", "shown"),
    [
        ({"interpretation": "ominous"}, "Sent as “ominous”"),
        ({"interpretation": "anómalo"}, "Sent as “anómalo”"),
        ({"interpretation": 3}, "Sent as “3”"),
        ({"interpretation": {"code": "Q"}}, 'Sent as “{"code":'),
        ({"interpretation": "", "source_interpretation": []}, "Lab’s flag: []"),
        ({"interpretation": ""}, "Not interpreted"),
        ({"result": "QNS"}, "QNS"),
        ({"source_interpretation": "odd flag"}, "Lab’s flag: odd flag"),
        ({"interpretation": None}, "Not interpreted"),
        ({"result": "", "value": None}, "Not interpreted"),
    ],
    ids=[
        *("word", "foreign", "number", "object", "list", "empty"),
        *("QNS", "flag", "nothing", "no value"),
    ],
)
def test_not_interpreted_is_signed_by_a_clinician_only(
    world: Sandbox, key: UUID, changes: dict[str, Any], shown: str
) -> None:
    send_result(world, key, glucose_body(**changes))
    assert readings(key) == [("unknown", "")]
    assert Result.objects.get(pk=key).is_whole
    review = Review.objects.get(pk=key)
    assert (review.place, review.rank, review.has_uninterpreted) == ("unknown", 1, True)
    assert Order.objects.get(pk=key).interpretation == "unknown"
    helper = delegate_to(key)
    assert sign(helper, key) == 403
    page = words(helper, "reviewing:report", key)
    assert "Not interpreted" in page and shown in page
    assert "A clinician must sign it" in page
    assert sign(signed_in("clinician"), key) == 302


@pytest.mark.parametrize(
    "changes",
    [
        {"interpretation": ["HH"]},
        {"source_interpretation": ["H", "panic"]},
        {"interpretation": "*CRITICAL*"},
        {"source_interpretation": " hh "},
    ],
    ids=["list", "flags", "marks", "flag"],
)
def test_odd_spelling_of_critical_alerts(
    world: Sandbox, key: UUID, changes: dict[str, Any]
) -> None:
    send_result(world, key, glucose_body(**changes))
    assert [found for found, _ in readings(key)] == ["critical"]
    assert [row.pk for row in open_criticals()] == [key]
    page = words(signed_in("clinician"), "reviewing:report", key)
    assert "Not yet acknowledged" in page and "Sent as “normal”" in page


def test_word_without_reference_contradicts_its_range(world: Sandbox, key: UUID) -> None:
    send_result(
        world,
        key,
        glucose_body(
            type="coded_value",
            result="REACTIVE",
            value=-1,
            reference_range="Non-Reactive",
            min_range_value=None,
            max_range_value=None,
        ),
    )
    assert readings(key) == [("abnormal", "")]
    assert "Abnormal Sent as “normal”" in words(signed_in("clinician"), "orders:detail", key)


def test_absent_interpretation_is_not_the_default_normal(world: Sandbox, key: UUID) -> None:
    body = glucose_body()
    del body["results"][0]["interpretation"]
    send_result(world, key, body)
    assert readings(key) == [("unknown", "")]


@pytest.mark.parametrize(
    "changes",
    [
        {"value": 410, "result": "410", "is_above_max_range": True},
        {"value": 410, "result": "410", "is_above_max_range": None},
        {"value": None, "result": "410"},
        {"value": 410, "result": "410", "min_range_value": None, "max_range_value": None},
        {"source_interpretation": "H"},
    ],
    ids=["above", "by us", "text alone", "range as text", "flag"],
)
def test_contradiction_is_shown_and_counts_as_abnormal(
    world: Sandbox, key: UUID, changes: dict[str, Any]
) -> None:
    send_result(world, key, glucose_body(**changes))
    assert readings(key) == [("abnormal", "high")]
    assert Review.objects.get(pk=key).place == "abnormal"
    page = words(signed_in("clinician"), "reviewing:report", key)
    assert "High Sent as “normal”" in page


def test_normal_in_range_stays_normal_and_delegable(world: Sandbox, key: UUID) -> None:
    order = Order.objects.get(pk=key)
    body = glucose_body()
    assert order.patient_dob is not None
    body["metadata"]["patient"] = f"{order.patient_first_name} {order.patient_last_name}"
    body["metadata"] |= {"dob": order.patient_dob.strftime("%d/%m/%Y"), "age": None}
    send_result(world, key, body)
    assert readings(key) == [("normal", "")]
    review = Review.objects.get(pk=key)
    assert (review.place, review.has_uninterpreted) == ("normal", False)
    assert sign(delegate_to(key), key) == 302


def test_unknown_status_is_not_final(world: Sandbox, key: UUID) -> None:
    body = glucose_body()
    body["metadata"]["status"] = "Odd status"
    send_result(world, key, body)
    review = Review.objects.get(pk=key)
    assert (review.kind, review.place) == ("unknown", "unknown")
    assert sign(delegate_to(key), key) == 403
    assert "Status unknown" in words(signed_in("clinician"), "reviewing:report", key)


def test_null_status_is_not_final(world: Sandbox, key: UUID) -> None:
    body = glucose_body()
    body["metadata"]["status"] = None
    send_result(world, key, body)
    assert (Review.objects.get(pk=key).kind, Review.objects.get(pk=key).rank) == ("unknown", 1)
    assert sign(delegate_to(key), key) == 403


def test_partial_in_another_spelling_is_partial(world: Sandbox, key: UUID) -> None:
    body = glucose_body()
    body["metadata"]["status"] = "Preliminary"
    send_result(world, key, body)
    assert Review.objects.get(pk=key).kind == "partial"


def test_order_read_again_keeps_what_its_result_says(world: Sandbox, key: UUID) -> None:
    send_result(world, key, case("B05.json"))
    record = Order.objects.get(pk=key)
    Order.objects.filter(pk=key).update(content_hash=b"", as_of=record.created_at)
    look_up("orders", key)
    assert Order.objects.get(pk=key).interpretation == "critical"
    Order.objects.filter(pk=key).delete()
    look_up("orders", key)
    assert Order.objects.get(pk=key).interpretation == "critical", "the result was there before"
    send_result(world, key, glucose_body())
    assert Order.objects.get(pk=key).interpretation == "normal", "the result was corrected"


def test_final_result_without_a_value_is_not_normal(world: Sandbox, key: UUID) -> None:
    """The result as a whole is normal, and every marker is missing."""
    body = glucose_body()
    lost = {
        "name": "Glucose",
        "slug": "glucose",
        "inferred_failure_type": "quantity_not_sufficient",
    }
    body |= {"results": [], "missing_results": [lost]}
    body["metadata"] |= {"interpretation": "normal", "status": "final"}
    send_result(world, key, body)
    review = Review.objects.get(pk=key)
    assert (review.place, review.has_uninterpreted) == ("unknown", True)
    assert Order.objects.get(pk=key).interpretation == "unknown"
    body["metadata"]["status"] = "partial"
    send_result(world, key, body)
    assert Review.objects.get(pk=key).place == "partial"


# Decisions of an administrator on a word


def decide(rank: str, **more: str) -> None:
    row = UnknownValue.objects.get(value="ominous")
    client = Client()
    client.force_login(staff("administrator", f"says {rank or 'nothing'}"))
    given = {"bucket": rank, "label": "Ominous", "seen": str(row.decision), **more}
    answer = client.post(reverse("system:unknown-value", args=[row.pk]), given)
    assert answer.status_code == 302


def test_decision_on_a_word_rereads_open_results_and_back(world: Sandbox, key: UUID) -> None:
    body = glucose_body(interpretation="ominous")
    send_result(world, key, body)
    word = UnknownValue.objects.get(value="ominous")
    page = words(signed_in("administrator"), "system:unknown-value", word.pk)
    assert "A result with this value is Normal Abnormal Critical" in page
    decide("critical")
    assert rereading.apply_decisions() == 1
    review = Review.objects.get(pk=key)
    assert (review.place, review.kind, review.version) == ("critical", "final", 2)
    assert [row.pk for row in open_criticals()] == [key]
    assert Order.objects.get(pk=key).interpretation == "critical"
    assert AuditEntry.objects.filter(object_type="unknown value").exists()
    assert rereading.apply_decisions() == 0, "it is read under this decision"
    decide("", take_back="1")
    rereading.apply_decisions()
    assert Review.objects.get(pk=key).place == "unknown"
    assert not open_criticals().exists()
    decide("normal")
    rereading.apply_decisions()
    assert (Review.objects.get(pk=key).place, readings(key)) == ("normal", [("normal", "")])


def test_decision_on_a_word_applies_to_later_spellings(world: Sandbox, key: UUID) -> None:
    send_result(world, key, glucose_body(interpretation="ominous"))
    decide("abnormal")
    send_result(world, key, glucose_body(interpretation="OMINOUS-"))
    rereading.apply_decisions()
    assert readings(key) == [("abnormal", "")]


def test_word_ranked_normal_does_not_hide_a_value_out_of_range(world: Sandbox, key: UUID) -> None:
    send_result(world, key, glucose_body(interpretation="ominous"))
    decide("normal")
    send_result(world, key, glucose_body(interpretation="ominous", value=410, result="410"))
    rereading.apply_decisions()
    assert readings(key) == [("abnormal", "high")]


def test_decision_on_a_word_leaves_signed_results(world: Sandbox, key: UUID) -> None:
    send_result(world, key, glucose_body(interpretation="ominous"))
    assert sign(signed_in("clinician"), key) == 302
    decide("critical")
    assert rereading.apply_decisions() == 0
    assert not Review.objects.get(pk=key).in_queue


def test_open_results_of_an_earlier_release_are_read_again(world: Sandbox, key: UUID) -> None:
    send_result(world, key, case("B06.json"))
    Result.objects.filter(pk=key).update(content_hash=b"\0" * 15 + b"\1", interpretation="normal")
    ResultMarker.objects.filter(result_id=key).update(interpretation="normal", side="")
    assert rereading.reread_open_results() == 1
    assert readings(key) == [("abnormal", "high")]
    assert rereading.reread_open_results() == 0


def test_trend_needs_no_deprecated_field(world: Sandbox, key: UUID) -> None:
    body = glucose_body(value=None, timestamp="2026-11-13T09:00:00+00:00")
    for name in ("date_collected", "date_received"):
        body["metadata"][name] = None
    send_result(world, key, body)
    patient = Order.objects.get(pk=key).user_id
    answer = signed_in("clinician").get(reverse("reviewing:trend", args=[patient, "loinc:glucose"]))
    assert answer.status_code == 200
    [value] = answer.context["plotted"]
    assert value.number == 80 and value.at.text.startswith("2026-11-13T09:00")
