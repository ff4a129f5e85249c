"""System > Audit: what an auditor finds there, and what they do not get to see."""

from __future__ import annotations

import csv
import io
from datetime import UTC, date, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from backoffice.accounts.models import User
from backoffice.audit import seals, verification
from backoffice.audit.models import AuditCheck, AuditEntry, AuditReview
from backoffice.pages.models import SavedView
from tests.api.rows import demographics, order, patient, staff, uid
from tests.audit.trail import ENTRIES, entries, owner, sql

pytestmark = pytest.mark.django_db

ADDRESS = "/system/audit/"
WHO, OTHER = uid("patient", 1), uid("patient", 2)


def made(**values: Any) -> AuditEntry:
    filled = {"action": "view", "object_type": "order", "request_id": uuid4().hex, **values}
    return AuditEntry.objects.create(**filled)


def found(client: Client, query: str = "") -> list[AuditEntry]:
    answer = client.get(f"{ADDRESS}{query}")
    assert answer.status_code == 200, answer.content
    rows: list[AuditEntry] = answer.context["page"].rows
    return rows


@pytest.fixture
def auditor(client: Client) -> User:
    user = staff("auditor")
    client.force_login(user)
    return user


@pytest.fixture
def ada() -> User:
    user = staff("clinician", "ada-sample")
    user.first_name, user.last_name = "Ada", "Sample"
    user.save()
    return user


@pytest.fixture
def known() -> None:
    for n in (1, 2):
        patient(n).save()
        demographics(n, first_name=f"Canary{n}", last_name="Testperson").save()
    order(1, user_id=WHO).save()


def test_an_auditor_lands_there(client: Client, auditor: User) -> None:
    assert client.get("/", follow=True).redirect_chain[-1][0] == ADDRESS
    page = client.get(ADDRESS).content.decode()
    assert 'href="/system/audit/"' in page and 'href="/system/runs/"' not in page


@pytest.mark.parametrize("role", ["viewer", "front desk", "clinician", "lab coordinator"])
def test_it_is_for_who_may_read_it(client: Client, role: str) -> None:
    client.force_login(staff(role))
    key = made().pk
    for path in ("", f"{key}/", "integrity/", "reviews/", "views/"):
        assert client.get(f"{ADDRESS}{path}").status_code == 403
    assert client.post(f"{ADDRESS}export/", {"everything": "1"}).status_code == 403
    assert client.post(f"{ADDRESS}integrity/check/").status_code == 403
    assert not AuditCheck.objects.exists()


def test_newest_first_and_each_filter_by_itself(client: Client, auditor: User, ada: User) -> None:
    now = timezone.now()
    one = made(actor=ada, object_ids=["a"], patient_ids=[WHO], at=now - timedelta(days=3))
    two = made(actor=ada, action="export", object_type="patient", object_ids=["a", "b"], at=now)
    three = made(outcome="refused", action="login", object_type="session", request_id="77",
                 actor_kind="anonymous", at=now - timedelta(minutes=1))  # fmt: skip
    mine = {"person": auditor.pk}
    assert [row.pk for row in found(client, "?order_direction=asc")][:3] == [
        one.pk, three.pk, two.pk
    ]  # fmt: skip
    assert [row.pk for row in found(client, f"?person={ada.pk}")] == [two.pk, one.pk]
    assert found(client, "?person=nobody") == [three]
    assert found(client, "?did=export&did=login") == [two, three]
    assert found(client, "?kind=patient") == [two]
    assert found(client, "?outcome=refused") == [three]
    assert found(client, f"?patient={WHO}") == [one]
    assert found(client, "?record=a") == [two, one]
    assert found(client, "?record=b") == [two]
    assert found(client, "?request=77") == [three]
    day = f"{now - timedelta(days=3):%Y-%m-%d}"
    assert found(client, f"?since={day}&until={day}") == [one]
    assert found(client, f"?since={now:%Y-%m-%d}&until={day}") == []
    assert one not in found(client, "?day=today")
    assert len(found(client, f"?person={mine['person']}")) > 5


def test_filters_add_up(client: Client, auditor: User, ada: User) -> None:
    one = made(actor=ada, action="print", object_ids=["a"], patient_ids=[WHO])
    made(actor=ada, action="print", object_ids=["a"], patient_ids=[OTHER])
    made(actor=ada, action="view", object_ids=["a"], patient_ids=[WHO])
    made(action="print", object_ids=["a"], patient_ids=[WHO])
    query = f"?person={ada.pk}&did=print&kind=order&record=a&patient={WHO}&day=today&outcome=ok"
    assert found(client, query) == [one]


@pytest.mark.parametrize(
    "query",
    ["?patient=nobody", "?since=yesterday", "?person=x",
     "?outcome=perhaps", "?record=%00"],
)  # fmt: skip
def test_nonsense_is_an_error_with_words(client: Client, auditor: User, query: str) -> None:
    answer = client.get(f"{ADDRESS}{query}")
    assert answer.status_code == 400
    assert answer.context["page"].rows == []
    assert answer.context["filters"].errors


def test_pages_follow_each_other_through_equal_moments(client: Client, auditor: User) -> None:
    entries(130, at="timestamptz '2026-03-01 10:00+00' - n * interval '1 ms'")
    seen, query = [], "?until=2026-03-02&size=25"
    while query:
        answer = client.get(f"{ADDRESS}{query}")
        seen += [row.pk for row in answer.context["page"].rows]
        following = answer.context["page"].next
        query = f"?until=2026-03-02&size=25&after={following}" if following else ""
    assert seen == sorted(seen, reverse=True) and len(seen) == 130


def test_the_number_of_queries_is_fixed(client: Client) -> None:
    client.force_login(staff("lab admin"))

    def queries(path: str) -> int:
        with CaptureQueriesContext(connection) as seen:
            assert client.get(path).status_code == 200
        return len(seen)

    def of(key: int) -> list[int]:
        paths = ("", f"?patient={WHO}&did=view", f"{key}/", "mine/", "integrity/", "reviews/")
        for path in paths:
            queries(f"{ADDRESS}{path}")
        return [queries(f"{ADDRESS}{path}") for path in paths]

    key = made(patient_ids=[WHO], object_ids=["1"], request_id="1").pk
    made(patient_ids=[WHO], object_ids=["1"], request_id="1")
    few = of(key)
    for n in range(40):
        made(patient_ids=[WHO], object_ids=[str(n)], request_id="1", actor=staff("viewer", f"v{n}"))
    seals.seal()
    verification.run_due_check()
    assert [now - then for now, then in zip(of(key), few, strict=True)] == [0, 0, 0, 0, 0, 0]


# Who is who


def test_an_auditor_sees_ids_and_no_names(client: Client, auditor: User, known: None) -> None:
    key = made(patient_ids=[WHO], object_ids=[str(uid("order", 1))]).pk
    for path in ("", f"{key}/", f"?patient={WHO}", "mine/"):
        page = client.get(f"{ADDRESS}{path}").content.decode()
        assert "Canary" not in page
        assert f'/patients/{WHO}/"' not in page and "/orders/" not in page
    assert str(WHO) in client.get(f"{ADDRESS}{key}/").content.decode()
    # Nothing of a patient was shown, so no look is on record.
    assert (
        not AuditEntry.objects.filter(actor=auditor, patient_ids__contains=[WHO])
        .exclude(object_type="audit entry", action="list")
        .exists()
    )


def test_who_may_see_patients_sees_names_and_is_recorded(client: Client, known: None) -> None:
    user = staff("lab admin")
    client.force_login(user)
    key = made(patient_ids=[WHO], object_ids=[str(uid("order", 1))]).pk
    for path in (ADDRESS, f"{ADDRESS}{key}/"):
        page = client.get(path).content.decode()
        assert "Canary1" in page
        assert f"/patients/{WHO}/" in page and f"/orders/{uid('order', 1)}/" in page
        entry = AuditEntry.objects.filter(actor=user).latest("pk")
        assert WHO in entry.patient_ids
    assert entry.action == "view" and entry.object_ids == [str(key)]


def test_to_ask_for_a_patient_is_a_look_at_who_it_is_about(client: Client, auditor: User) -> None:
    found(client, f"?patient={WHO}")
    entry = AuditEntry.objects.get(actor=auditor)
    assert (entry.action, entry.object_type) == ("list", "audit entry")
    assert entry.patient_ids == [WHO]


# One entry


def test_an_entry_says_what_changed_and_what_else_the_request_did(
    client: Client, auditor: User, ada: User
) -> None:
    beside = made(request_id="r1", object_type="note", action="change")
    entry = made(
        actor=ada,
        action="change",
        object_type="user",
        object_ids=["7"],
        request_id="r1",
        reason="She is on leave",
        before={"groups": ["viewer"], "is_active": True},
        after={"groups": ["front desk", "viewer"], "is_active": False},
    )
    seals.seal()
    page = client.get(f"{ADDRESS}{entry.pk}/")
    text = page.content.decode()
    assert page.context["differences"] == [
        {"name": "Groups", "before": "viewer", "after": "front desk, viewer"},
        {"name": "Is active", "before": "Yes", "after": "No"},
    ]
    assert "Ada Sample" in text and "She is on leave" in text
    assert page.context["beside"] == [beside]
    assert page.context["seal"].n == 1
    late = made()
    assert client.get(f"{ADDRESS}{late.pk}/").context["seal"] is None


def test_an_entry_that_does_not_exist(client: Client, auditor: User) -> None:
    for key in (99_999_999, 2**63):
        assert client.get(f"{ADDRESS}{key}/").status_code == 404


# The download


def test_the_download_has_what_the_filters_find(client: Client, auditor: User, ada: User) -> None:
    made(actor=ada, action="print", object_ids=["a", "b"], patient_ids=[WHO, OTHER],
         reason="=cmd()", ip="192.0.2.9")  # fmt: skip
    made(actor=ada)
    answer = client.post(f"{ADDRESS}export/", {"everything": "1", "query": "did=print"})
    text = b"".join(answer.streaming_content).decode()  # type: ignore[attr-defined]
    (row,) = csv.DictReader(io.StringIO(text))
    assert (row["Who"], row["Action"], row["Records"]) == ("ada-sample", "print", "a b")
    assert row["Patients"] == f"{WHO} {OTHER}"
    assert row["Reason"] == "'=cmd()"
    entry = AuditEntry.objects.get(actor=auditor)
    assert (entry.action, entry.object_type, entry.row_count) == ("export", "audit entry", 1)


def test_a_view_of_it_can_be_kept(client: Client, auditor: User) -> None:
    form = {"name": "Prints", "query": "did=print", "opens_for": ""}
    assert client.post(f"{ADDRESS}views/", form).status_code == 302
    view = SavedView.objects.get(listing="audit")
    assert view.query == {"did": ["print"]}


# My own


@pytest.mark.parametrize("role", ["viewer", "front desk", "clinician", "auditor"])
def test_everybody_sees_what_they_did_and_nothing_else(
    client: Client, ada: User, known: None, role: str
) -> None:
    user = staff(role)
    client.force_login(user)
    own = made(actor=user, patient_ids=[WHO], object_ids=["mine"])
    made(actor=ada, object_ids=["hers"])
    answer = client.get(f"{ADDRESS}mine/?person={ada.pk}")
    assert answer.context["page"].rows == [own]
    text = answer.content.decode()
    assert ("Canary1" in text) is (role in ("front desk", "clinician"))
    entry = AuditEntry.objects.filter(actor=user).latest("pk")
    assert entry.object_type == "own entries"
    assert (WHO in entry.patient_ids) is ("Canary1" in text)
    assert f"{ADDRESS}mine/" in client.get("/preferences/").content.decode()


def test_a_stranger_has_done_nothing(client: Client) -> None:
    assert client.get(f"{ADDRESS}mine/").status_code == 302


# Integrity


def test_integrity_says_that_it_is_whole_and_what_to_remember(
    client: Client, auditor: User
) -> None:
    assert "None has been made yet" in client.get(f"{ADDRESS}integrity/").content.decode()
    entries(3)
    seals.seal()
    verification.run_due_check()
    page = client.get(f"{ADDRESS}integrity/").content.decode()
    assert "Nothing was changed, removed or inserted" in page
    assert seals.head() in page


def test_what_is_broken_is_said_on_both_pages(client: Client, auditor: User) -> None:
    entries(3)
    seals.seal()
    with owner():
        sql(f"UPDATE {ENTRIES} SET reason = 'x' WHERE id = (SELECT min(id) FROM {ENTRIES})")
    verification.run_due_check()
    for path in ("", "integrity/"):
        page = client.get(f"{ADDRESS}{path}").content.decode()
        assert "not what was recorded" in page and "at least one was changed" in page


def test_an_auditor_asks_for_a_check_once(client: Client, auditor: User) -> None:
    for _ in range(2):
        assert client.post(f"{ADDRESS}integrity/check/").status_code == 302
    asked = AuditCheck.objects.get()
    assert asked.asked_by == auditor
    assert "A check has been requested" in client.get(f"{ADDRESS}integrity/").content.decode()
    verification.run_due_check()
    asked.refresh_from_db()
    assert asked.finished_at is not None


def test_entries_that_wait_too_long_for_a_seal_are_noticed(client: Client, auditor: User) -> None:
    made(at=timezone.now() - timedelta(minutes=11))
    assert client.get(f"{ADDRESS}integrity/").context["late"]
    seals.seal()
    assert not client.get(f"{ADDRESS}integrity/").context["late"]


# Reviews


def month(back: int) -> date:
    first = timezone.localdate().replace(day=1)
    for _ in range(back):
        first = (first - timedelta(days=1)).replace(day=1)
    return first


def test_months_that_are_over_can_be_signed_off_by_several(client: Client, auditor: User) -> None:
    begun = month(2)
    made(at=datetime(begun.year, begun.month, 15, tzinfo=UTC))
    page = client.get(f"{ADDRESS}reviews/")
    assert [one["first"] for one in page.context["months"]] == [month(1), month(2)]
    key = f"{month(1):%Y-%m}"
    assert client.post(f"{ADDRESS}reviews/", {"month": key, "note": "Fine"}).status_code == 302
    again = client.post(f"{ADDRESS}reviews/", {"month": key, "note": "typed again"})
    assert again.status_code == 422
    assert "signed this month off already" in again.content.decode()
    client.force_login(staff("lab admin"))
    assert client.post(f"{ADDRESS}reviews/", {"month": key, "note": ""}).status_code == 302
    assert AuditReview.objects.filter(month=month(1)).count() == 2
    assert AuditEntry.objects.filter(object_type="audit review", object_ids=[key]).count() == 2
    text = client.get(f"{ADDRESS}reviews/").content.decode()
    assert "Fine" in text and text.count("Not reviewed") == 1


@pytest.mark.parametrize("key", ["", "2026-13", "now", "9999-12"])
def test_no_other_month_can(client: Client, auditor: User, key: str) -> None:
    made(at=datetime(2026, 1, 1, tzinfo=UTC))
    answer = client.post(f"{ADDRESS}reviews/", {"month": key, "note": "kept words"})
    assert answer.status_code == 422
    assert not AuditReview.objects.exists()


def test_the_current_month_is_not_over(client: Client, auditor: User) -> None:
    key = f"{month(0):%Y-%m}"
    answer = client.post(f"{ADDRESS}reviews/", {"month": key, "note": ""})
    assert answer.status_code == 422 and b"when it is over" in answer.content


# Who looked at a patient


def looks(client: Client, path: str = "") -> Any:
    return client.get(f"/patients/{WHO}/viewers/{path}")


def test_who_looked_is_counted_person_by_person_and_complete(
    client: Client, ada: User, known: None
) -> None:
    client.force_login(staff("lab admin", "lena"))
    moment = datetime(2026, 5, 1, tzinfo=UTC)
    for n, action in enumerate(("view", "view", "list", "search", "print", "export", "change")):
        made(actor=ada, action=action, patient_ids=[OTHER, WHO], at=moment + timedelta(hours=n))
    made(actor=ada, patient_ids=[OTHER])
    made(action="view", patient_ids=[WHO], actor=ada, actor_kind="token", at=moment)
    made(action="view", patient_ids=[WHO], actor=None, actor_kind="staff", at=moment)
    told = {
        (one.user and one.user.username, one.kind): one for one in looks(client).context["people"]
    }
    one = told["ada-sample", "staff"]
    assert (one.opened, one.listed, one.taken) == (2, 2, 2)
    assert (one.first, one.last) == (moment, moment + timedelta(hours=5))
    assert told["ada-sample", "token"].opened == 1 and told[None, "staff"].opened == 1
    page = looks(client)
    # Eight of before, and the look at this page, which the second one shows.
    assert page.context["total"] == len(page.context["page"].rows) == 9
    assert "Canary1" in page.content.decode()


def test_the_sheet_is_a_print_and_has_every_look(client: Client, ada: User, known: None) -> None:
    user = staff("lab admin")
    client.force_login(user)
    for _ in range(70):
        made(actor=ada, patient_ids=[WHO])
    answer = looks(client, "sheet/")
    assert len(answer.context["looks"]) == 70
    entry = AuditEntry.objects.get(actor=user)
    assert (entry.action, entry.object_type, entry.patient_ids) == ("print", "access log", [WHO])


def test_looks_come_in_pages(client: Client, ada: User, known: None) -> None:
    client.force_login(staff("lab admin"))
    for _ in range(70):
        made(actor=ada, patient_ids=[WHO])
    page = looks(client).context["page"]
    assert len(page.rows) == 50
    rest = client.get(f"/patients/{WHO}/viewers/?after={page.next}").context["page"].rows
    assert {row.pk for row in rest}.isdisjoint(row.pk for row in page.rows)


def test_an_auditor_sees_who_looked_and_not_at_whom(
    client: Client, auditor: User, ada: User, known: None
) -> None:
    made(actor=ada, patient_ids=[WHO])
    for path in ("", "sheet/"):
        text = looks(client, path).content.decode()
        assert "Ada Sample" in text and str(WHO)[:8] in text
        assert "Canary" not in text and "+1555" not in text
    assert client.get(f"/patients/{uuid4()}/viewers/").status_code == 404


def test_one_who_may_not_read_the_audit_is_refused(client: Client, known: None) -> None:
    client.force_login(staff("clinician"))
    assert looks(client).status_code == looks(client, "sheet/").status_code == 403
    assert isinstance(WHO, UUID)


def test_kinds_of_requests_are_said_in_words(client: Client, auditor: User) -> None:
    entry = made(action="change", object_type="lab_account.allowlist", object_ids=["a", "b"])
    page = client.get(ADDRESS).content.decode()
    assert "Lab account allowlist" in page and "(2 records)" in page
    assert "Lab_account" not in page
    assert "Lab account allowlist" in client.get(f"{ADDRESS}{entry.pk}/").content.decode()
