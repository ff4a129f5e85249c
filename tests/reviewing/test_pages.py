"""Review pages: the queue with an open report, signing, critical results, versions, trends."""

from __future__ import annotations

import json
import re
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone
from django.utils.html import escape

from backoffice.accounts.models import User
from backoffice.audit.models import AuditEntry
from orders.models import CriticalAcknowledgement, CriticalCall, Delegation, Review, Signature
from orders.results.filters import MAX_ROWS, ROWS_STEP
from orders.results.forms import CallForm, SignForm
from tests.api.rows import NOW, envelope, patient, staff, uid
from tests.reviewing.rows import announce_correction, make_order, receive_result

pytestmark = pytest.mark.django_db

QUEUE = "/results/"
NORMAL = ("Sodium", "4.1", "normal")
HIGH = ("Sodium", "5.6", "abnormal")
CRITICAL = ("Potassium", "6.9", "critical")


@pytest.fixture
def anna(client: Client) -> User:
    user = staff("clinician", "anna")
    client.force_login(user)
    return user


def text_of(answer: Any) -> str:
    return " ".join(re.sub(r"<[^>]+>", " ", answer.content.decode()).split())


def page(n: int) -> str:
    return reverse("reviewing:report", args=[uid("order", n)])


def post_action(client: Client, n: int, action: str, **given: Any) -> Any:
    version = Review.objects.get(pk=uid("order", n)).version
    address = reverse(f"reviewing:{action}", args=[uid("order", n)])
    return client.post(address, {"version": version, **given})


def test_queue_opens_its_first_report(client: Client, anna: User) -> None:
    receive_result(make_order(1).pk, NORMAL)
    receive_result(make_order(2, lab_test_name="Made-up abnormal").pk, NORMAL, HIGH)
    shown = client.get(QUEUE)
    assert shown.status_code == 200
    assert shown.context["review"].pk == uid("order", 2)
    words = text_of(shown)
    for wanted in ("Made-up abnormal", "Maria Testperson", "5.6 mmol/L", "High", "2 unsigned",
                   "no prior result", "Sign"):  # fmt: skip
        assert wanted in words, wanted


def test_long_queue_has_a_show_more_link(client: Client, anna: User) -> None:
    for n in range(1, ROWS_STEP + 3):
        receive_result(make_order(n).pk, NORMAL)
    for filters in ("", "&place=normal"):
        shown = client.get(f"{QUEUE}?{filters}")
        assert len(shown.context["items"]) == ROWS_STEP
        opened = shown.context["review"].pk
        more = f"{reverse('reviewing:report', args=[opened])}{shown.context['longer']}"
        assert f'href="{escape(more)}">Show more</a>' in shown.content.decode()
        further = client.get(more)
        assert f'<li id="{more.partition("#")[2]}"' in further.content.decode()
        assert len(further.context["items"]) == ROWS_STEP + 2 and not further.context["more"]
        query = further.context["filter_query"]
        assert f"shown={2 * ROWS_STEP}" in query, "the next page keeps the filter"
        assert further.context["queue"].is_filtered is bool(filters)
    for invalid in ("0", "9999", "x"):
        assert len(client.get(f"{QUEUE}?shown={invalid}").context["items"]) == ROWS_STEP
    longest = client.get(f"{QUEUE}?shown={MAX_ROWS}")
    assert longest.context["longer"] == ""


def test_empty_queue_says_so(client: Client, anna: User) -> None:
    assert "All results are signed" in text_of(client.get(QUEUE))


def test_signing_opens_the_next_report_and_can_be_undone(client: Client, anna: User) -> None:
    for n in (1, 2, 3):
        receive_result(make_order(n).pk, NORMAL)
    first = client.get(QUEUE).context["review"]
    answer = client.post(
        reverse("reviewing:sign", args=[first.pk]),
        {"version": 1, "note": "fine", "tells": "nurse"},
        follow=True,
    )
    signature = Signature.objects.get()
    assert (signature.by, signature.note, signature.tells, signature.kind) == (
        anna,
        "fine",
        "nurse",
        "signed",
    )
    assert answer.context["review"].pk != first.pk and answer.context["unsigned"] == 2
    assert 'data-key="u"' in answer.content.decode()
    entry = AuditEntry.objects.filter(object_type="sign result").get()
    assert entry.object_ids == [str(first.pk)]
    assert (entry.before, entry.after) == ({"signed": -1}, {"signed": 1})
    answer = client.post(reverse("reviewing:undo", args=[signature.pk]), follow=True)
    assert answer.context["review"].pk == first.pk and answer.context["unsigned"] == 3
    assert "Undid the signature on version 1" in text_of(answer)


def test_next_report_follows_the_signed_one(client: Client, anna: User) -> None:
    keys = []
    for n in range(1, 5):
        row = make_order(n)
        receive_result(row.pk, NORMAL, as_of=NOW + timedelta(minutes=n))
        keys.append(row.pk)
    answer = client.post(reverse("reviewing:sign", args=[keys[1]]), {"version": 1}, follow=True)
    assert answer.context["review"].pk == keys[2]
    answer = client.post(reverse("reviewing:sign", args=[keys[3]]), {"version": 1}, follow=True)
    assert answer.context["review"].pk == keys[0], "after the last one, the skipped reports follow"


def test_second_signer_sees_who_signed_and_when(client: Client, anna: User) -> None:
    receive_result(make_order(1).pk, NORMAL)
    other = Client()
    other.force_login(staff("clinician", "bruno"))
    other.get(page(1))
    assert post_action(client, 1, "sign").status_code == 302
    answer = post_action(other, 1, "sign", note="mine")
    assert answer.status_code == 409
    assert re.search(r"signed by anna \d s ago", text_of(answer))
    assert Signature.objects.count() == 1


def test_new_version_keeps_the_typed_note(client: Client, anna: User) -> None:
    row = make_order(1)
    receive_result(row.pk, NORMAL)
    client.get(page(1))
    receive_result(row.pk, HIGH)
    answer = client.post(
        reverse("reviewing:sign", args=[row.pk]), {"version": 1, "note": "call at noon"}
    )
    assert answer.status_code == 409 and not Signature.objects.exists()
    assert "This result changed while you were reading it" in text_of(answer)
    assert "call at noon" in answer.content.decode() and "5.6" in text_of(answer)
    assert 'name="version" value="2"' in answer.content.decode()


def test_critical_result_from_banner_to_call_back(client: Client, anna: User) -> None:
    receive_result(make_order(1).pk, NORMAL, CRITICAL)
    shown = client.get(QUEUE)
    assert "Not yet acknowledged" in text_of(shown)
    assert 'data-key="s"' not in shown.content.decode()
    assert post_action(client, 1, "sign").status_code == 409
    assert client.get(f"{QUEUE}?critical=1").context["review"].pk == uid("order", 1)
    answer = post_action(client, 1, "acknowledge")
    assert answer.status_code == 302
    assert CriticalAcknowledgement.objects.get().by == anna
    shown = client.get(page(1))
    assert "patient not notified" in text_of(shown) and "Record call" in text_of(shown)
    answer = post_action(client, 1, "call", recipient="Dr. Madeup", outcome="not_reached")
    assert answer.status_code == 422 and "Enter when to try again" in text_of(answer)
    assert "Dr. Madeup" in answer.content.decode() and not CriticalCall.objects.exists()
    due = (timezone.now() + timedelta(minutes=20)).strftime("%Y-%m-%dT%H:%M")
    given = {"recipient": "Dr. Madeup", "outcome": "not_reached", "next_attempt_at": due}
    assert post_action(client, 1, "call", **given).status_code == 302
    assert "Next attempt" in text_of(client.get(page(1)))
    given = {"recipient": "Dr. Madeup", "outcome": "confirmed_read_back"}
    assert post_action(client, 1, "call", **given).status_code == 302
    shown = client.get(page(1))
    assert "Acknowledged and notified" in text_of(shown) and "6.9" in text_of(shown)
    assert post_action(client, 1, "sign").status_code == 302


def test_critical_report_shows_phone_number_and_local_time(client: Client, anna: User) -> None:
    record = {
        "patient_details": {"phone_number": "+15550100123"},
        "patient_address": {"state": "AZ"},
    }
    received = envelope(json.dumps(record))
    receive_result(make_order(1, **received).pk, NORMAL, CRITICAL)
    receive_result(make_order(2, **received).pk, NORMAL)
    called = client.get(page(1)).content.decode()
    assert "tel:+15550100123" in called and "MST" in called
    assert "tel:" not in client.get(page(2)).content.decode()


def test_queue_distinguishes_open_and_handled_criticals(client: Client, anna: User) -> None:
    for n in (1, 2, 3):
        receive_result(make_order(n).pk, CRITICAL)
    for n in (2, 3):
        post_action(client, n, "acknowledge")
    post_action(client, 3, "call", recipient="Dr. Madeup", outcome="confirmed_read_back")

    def badge(n: int) -> tuple[str, str]:
        shown = client.get(QUEUE).content.decode()
        row = shown[shown.index(f'data-row="{uid("order", n)}"') :]
        found = re.search(r'<span class="st" data-st="\w[\w-]*">(<svg.*?</svg>)(.*?)</span>', row)
        assert found
        return found[2], found[1]

    assert [badge(n)[0] for n in (1, 2, 3)] == [
        "Critical",
        "Critical, acknowledged",
        "Critical, notified",
    ]
    assert len({badge(n)[1] for n in (1, 2, 3)}) == 3, "the badges differ by shape, too"
    receive_result(uid("order", 3), ("Potassium", "7.4", "critical"))
    assert badge(3)[0] == "Critical", "the new value is not acknowledged"


def test_call_by_the_service_needs_a_source(client: Client, anna: User) -> None:
    receive_result(make_order(1).pk, CRITICAL)
    post_action(client, 1, "acknowledge")
    given = {
        "recipient": "Patient",
        "outcome": "confirmed_read_back",
        "made_by_service_network": "on",
    }
    answer = post_action(client, 1, "call", **given)
    assert answer.status_code == 422 and "Enter how you know about this call" in text_of(answer)
    assert post_action(client, 1, "call", **given, source="Fax of the service").status_code == 302
    assert "Source: Fax of the service" in text_of(client.get(page(1)))


def test_corrected_result_returns_with_its_differences(client: Client, anna: User) -> None:
    row = make_order(1)
    receive_result(row.pk, NORMAL, ("Iron", "4", "normal"), ("Zinc", "4", "normal"))
    post_action(client, 1, "sign")
    receive_result(row.pk, HIGH, ("Iron", "4", "normal"), missing=("Zinc",))
    announce_correction(row.pk)
    shown = client.get(f"{QUEUE}?mine=on")
    assert shown.context["review"].pk == row.pk, "it returns to the clinician who signed"
    words = text_of(shown)
    assert "Changes in this correction" in words
    changes = {c.name: c.changed_parts for c in shown.context["difference"].changes}
    assert changes == {"Sodium": ("value", "flag"), "Zinc": ("now missing",)}
    assert "1 other marker did not change" in words
    earlier_version = client.get(reverse("reviewing:version", args=[row.pk, 1]))
    assert "4.1" in text_of(earlier_version) and "not the newest version" in text_of(
        earlier_version
    )


def test_partial_result_shows_its_completeness(client: Client, anna: User) -> None:
    receive_result(make_order(1).pk, NORMAL, HIGH, status="partial", missing=("Iron",))
    shown = client.get(QUEUE)
    assert "2 of 3 back · 1 failed: not enough sample" in text_of(shown)
    assert "Acknowledge partial" in text_of(shown)
    assert post_action(client, 1, "sign").status_code == 302
    assert Signature.objects.get().kind == "acknowledged"
    assert "1 partial acknowledged" in text_of(client.get(QUEUE))


def test_report_shows_previous_values_and_links_to_trends(client: Client, anna: User) -> None:
    patient(3).save()
    for n, value in ((1, "4.0"), (2, "4.4"), (3, "4.2")):
        day = NOW - timedelta(days=100 * (4 - n))
        row = make_order(n, user_id=uid("patient", 3), created_at=day)
        receive_result(row.pk, ("Sodium", value, "normal"), date_collected=day.isoformat())
    shown = client.get(page(2))
    (panel,) = shown.context["report"].panels
    (line,) = panel.rows
    assert (line.previous.text, line.direction, line.total) == ("4.0", "up", 3)
    assert shown.context["report"].has_newer_values
    trend = client.get(reverse("reviewing:trend", args=[uid("patient", 3), line.key]))
    assert trend.status_code == 200
    bare = client.get(reverse("reviewing:trend", args=[uid("patient", 3), "sodium"]))
    assert bare.context["values"] == trend.context["values"]
    assert text_of(trend).count("mmol/L") >= 3 and "<svg" in trend.content.decode()
    assert (
        client.get(reverse("reviewing:trend", args=[uid("patient", 4), line.key])).status_code
        == 404
    )


@pytest.mark.parametrize("role", ["front desk", "viewer", "auditor"])
def test_user_without_results_cannot_open_a_report(client: Client, role: str) -> None:
    receive_result(make_order(1).pk, CRITICAL)
    client.force_login(staff(role))
    for address in (
        QUEUE,
        page(1),
        reverse("documents:result", args=[uid("order", 1)]),
        reverse("reviewing:quality"),
        reverse("reviewing:trend", args=[uid("patient", 1), "loinc:potassium"]),
    ):
        answer = client.get(address)
        assert answer.status_code == 403 and "Potassium" not in answer.content.decode(), address
    for action in ("sign", "acknowledge", "call"):
        assert post_action(client, 1, action).status_code == 403
    assert not Signature.objects.exists() and not CriticalAcknowledgement.objects.exists()


def test_delegate_signs_only_delegated_results(client: Client, anna: User) -> None:
    for n in (1, 2):
        receive_result(make_order(n).pk, NORMAL)
    receive_result(make_order(3).pk, HIGH)
    helper = staff("lab coordinator", "helper")
    helper_client = Client()
    helper_client.force_login(helper)
    assert post_action(helper_client, 1, "sign").status_code == 403
    answer = post_action(client, 1, "delegate", to=helper.pk, what="this", days=1)
    assert answer.status_code == 302
    assert post_action(helper_client, 2, "sign").status_code == 403
    assert post_action(helper_client, 1, "sign").status_code == 302
    signature = Signature.objects.get()
    assert (signature.by, signature.delegated_by) == (helper, anna)
    post_action(client, 2, "delegate", to=helper.pk, what="normal", days=7)
    assert post_action(helper_client, 3, "sign").status_code == 403, "it is abnormal"
    row = Delegation.objects.get(order=None)
    assert client.post(reverse("reviewing:end-delegation", args=[row.pk])).status_code == 302
    assert post_action(helper_client, 2, "sign").status_code == 403


def test_queue_filters_by_lab_and_patient(client: Client, anna: User) -> None:
    receive_result(make_order(1).pk, NORMAL)
    receive_result(make_order(2, lab_slug="other-lab").pk, NORMAL)
    shown = client.get(f"{QUEUE}?patient={uid('patient', 2)}")
    assert [item.review.pk for item in shown.context["items"]] == [uid("order", 2)]
    assert "No matching results" in text_of(client.get(f"{QUEUE}?place=critical"))
    assert client.get(f"{QUEUE}?lab=nowhere&patient=x").status_code == 200


def test_only_the_open_report_is_audited_as_viewed(client: Client, anna: User) -> None:
    for n in (1, 2):
        receive_result(make_order(n).pk, NORMAL)
    client.get(page(1))
    found = AuditEntry.objects.filter(object_type="result").values_list("action", "patient_ids")
    assert dict(found) == {"view": [uid("patient", 1)], "list": [uid("patient", 2)]}


def test_queries_do_not_grow_with_queue_or_history(client: Client, anna: User) -> None:
    def count_queries() -> int:
        with CaptureQueriesContext(connection) as seen:
            assert client.get(page(1)).status_code == 200
        return len(seen)

    receive_result(make_order(1, user_id=uid("patient", 1)).pk, NORMAL, CRITICAL)
    receive_result(make_order(2).pk, NORMAL)
    count_queries()
    few = count_queries()
    for n in range(3, 12):
        receive_result(
            make_order(n, user_id=uid("patient", 1)).pk, NORMAL, HIGH, missing=("Iron", "Zinc")
        )
    assert count_queries() == few <= 34


def test_causes_are_counted_by_month_method_and_lab(client: Client, anna: User) -> None:
    now = timezone.now()
    receive_result(make_order(1, created_at=now).pk, NORMAL, missing=("Iron", "Zinc"))
    receive_result(
        make_order(2, created_at=now, lab_slug="other-lab").pk, NORMAL, missing=("Iron",)
    )
    receive_result(make_order(3, created_at=now).pk, NORMAL)
    receive_result(make_order(4, created_at=now - timedelta(days=70)).pk, NORMAL, missing=("Iron",))
    shown = client.get(reverse("reviewing:quality"))
    assert [
        (line.lab, line.affected_results, counts) for line, counts in shown.context["lines"]
    ] == [
        ("made-up-lab", 1, [2]),
        ("other-lab", 1, [1]),
    ]
    assert shown.context["failed"] == 3 and "Not enough sample" in text_of(shown)


def test_forms_of_a_report_have_distinct_ids() -> None:
    call, sign = ({bound.id_for_label for bound in form()} for form in (CallForm, SignForm))
    assert not call & sign
    assert 'id="sign_note"' in str(SignForm()["note"])
