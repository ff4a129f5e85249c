"""System > Audit: what an auditor sees there and what is hidden."""

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
from tests.audit.trail import ENTRIES, as_table_owner, create_entries, sql

pytestmark = pytest.mark.django_db

ADDRESS = "/system/audit/"
PATIENT_ID, OTHER_PATIENT_ID = uid("patient", 1), uid("patient", 2)


def create_entry(**values: Any) -> AuditEntry:
    fields = {"action": "view", "object_type": "order", "request_id": uuid4().hex, **values}
    return AuditEntry.objects.create(**fields)


def find_entries(client: Client, query: str = "") -> list[AuditEntry]:
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
def patients() -> None:
    for n in (1, 2):
        patient(n).save()
        demographics(n, first_name=f"Canary{n}", last_name="Testperson").save()
    order(1, user_id=PATIENT_ID).save()


def test_home_of_auditor_is_the_audit_page(client: Client, auditor: User) -> None:
    assert client.get("/", follow=True).redirect_chain[-1][0] == ADDRESS
    page = client.get(ADDRESS).content.decode()
    assert 'href="/system/audit/"' in page and 'href="/system/runs/"' not in page


@pytest.mark.parametrize("role", ["viewer", "front desk", "clinician", "lab coordinator"])
def test_audit_pages_require_permission(client: Client, role: str) -> None:
    client.force_login(staff(role))
    key = create_entry().pk
    for path in ("", f"{key}/", "integrity/", "reviews/", "views/"):
        assert client.get(f"{ADDRESS}{path}").status_code == 403
    assert client.post(f"{ADDRESS}export/", {"everything": "1"}).status_code == 403
    assert client.post(f"{ADDRESS}integrity/check/").status_code == 403
    assert not AuditCheck.objects.exists()


def test_list_is_newest_first_and_each_filter_works(
    client: Client, auditor: User, ada: User
) -> None:
    now = timezone.now()
    one = create_entry(
        actor=ada, object_ids=["a"], patient_ids=[PATIENT_ID], at=now - timedelta(days=3)
    )
    two = create_entry(
        actor=ada, action="export", object_type="patient", object_ids=["a", "b"], at=now
    )
    three = create_entry(outcome="refused", action="login", object_type="session", request_id="77",
                 actor_kind="anonymous", at=now - timedelta(minutes=1))  # fmt: skip
    own_filter = {"person": auditor.pk}
    assert [row.pk for row in find_entries(client, "?order_direction=asc")][:3] == [
        one.pk, three.pk, two.pk
    ]  # fmt: skip
    assert [row.pk for row in find_entries(client, f"?person={ada.pk}")] == [two.pk, one.pk]
    assert find_entries(client, "?person=nobody") == [three]
    assert find_entries(client, "?did=export&did=login") == [two, three]
    assert find_entries(client, "?kind=patient") == [two]
    assert find_entries(client, "?outcome=refused") == [three]
    assert find_entries(client, f"?patient={PATIENT_ID}") == [one]
    assert find_entries(client, "?record=a") == [two, one]
    assert find_entries(client, "?record=b") == [two]
    assert find_entries(client, "?request=77") == [three]
    day = f"{now - timedelta(days=3):%Y-%m-%d}"
    assert find_entries(client, f"?since={day}&until={day}") == [one]
    assert find_entries(client, f"?since={now:%Y-%m-%d}&until={day}") == []
    assert one not in find_entries(client, "?day=today")
    assert len(find_entries(client, f"?person={own_filter['person']}")) > 5


def test_filters_are_combined(client: Client, auditor: User, ada: User) -> None:
    one = create_entry(actor=ada, action="print", object_ids=["a"], patient_ids=[PATIENT_ID])
    create_entry(actor=ada, action="print", object_ids=["a"], patient_ids=[OTHER_PATIENT_ID])
    create_entry(actor=ada, action="view", object_ids=["a"], patient_ids=[PATIENT_ID])
    create_entry(action="print", object_ids=["a"], patient_ids=[PATIENT_ID])
    query = (
        f"?person={ada.pk}&did=print&kind=order&record=a&patient={PATIENT_ID}&day=today&outcome=ok"
    )
    assert find_entries(client, query) == [one]


@pytest.mark.parametrize(
    "query",
    ["?patient=nobody", "?since=yesterday", "?person=x",
     "?outcome=perhaps", "?record=%00"],
)  # fmt: skip
def test_invalid_filter_shows_an_error(client: Client, auditor: User, query: str) -> None:
    answer = client.get(f"{ADDRESS}{query}")
    assert answer.status_code == 400
    assert answer.context["page"].rows == []
    assert answer.context["filters"].errors


def test_paging_handles_close_timestamps(client: Client, auditor: User) -> None:
    create_entries(130, at="timestamptz '2026-03-01 10:00+00' - n * interval '1 ms'")
    seen, query = [], "?until=2026-03-02&size=25"
    while query:
        answer = client.get(f"{ADDRESS}{query}")
        seen += [row.pk for row in answer.context["page"].rows]
        following = answer.context["page"].next
        query = f"?until=2026-03-02&size=25&after={following}" if following else ""
    assert seen == sorted(seen, reverse=True) and len(seen) == 130


def test_query_count_is_fixed(client: Client) -> None:
    client.force_login(staff("lab admin"))

    def count_queries(path: str) -> int:
        with CaptureQueriesContext(connection) as seen:
            assert client.get(path).status_code == 200
        return len(seen)

    def all_counts(key: int) -> list[int]:
        paths = (
            "",
            f"?patient={PATIENT_ID}&did=view",
            f"{key}/",
            "mine/",
            "integrity/",
            "reviews/",
        )
        for path in paths:
            count_queries(f"{ADDRESS}{path}")
        return [count_queries(f"{ADDRESS}{path}") for path in paths]

    key = create_entry(patient_ids=[PATIENT_ID], object_ids=["1"], request_id="1").pk
    create_entry(patient_ids=[PATIENT_ID], object_ids=["1"], request_id="1")
    few = all_counts(key)
    for n in range(40):
        create_entry(
            patient_ids=[PATIENT_ID],
            object_ids=[str(n)],
            request_id="1",
            actor=staff("viewer", f"v{n}"),
        )
    seals.seal()
    verification.run_due_check()
    assert [now - then for now, then in zip(all_counts(key), few, strict=True)] == [
        0,
        0,
        0,
        0,
        0,
        0,
    ]


# Names


def test_auditor_sees_ids_but_no_names(client: Client, auditor: User, patients: None) -> None:
    key = create_entry(patient_ids=[PATIENT_ID], object_ids=[str(uid("order", 1))]).pk
    for path in ("", f"{key}/", f"?patient={PATIENT_ID}", "mine/"):
        page = client.get(f"{ADDRESS}{path}").content.decode()
        assert "Canary" not in page
        assert f'/patients/{PATIENT_ID}/"' not in page and "/orders/" not in page
    assert str(PATIENT_ID) in client.get(f"{ADDRESS}{key}/").content.decode()
    # No patient was shown, so no view is recorded.
    assert (
        not AuditEntry.objects.filter(actor=auditor, patient_ids__contains=[PATIENT_ID])
        .exclude(object_type="audit entry", action="list")
        .exists()
    )


def test_names_require_permission_and_are_recorded(client: Client, patients: None) -> None:
    user = staff("lab admin")
    client.force_login(user)
    key = create_entry(patient_ids=[PATIENT_ID], object_ids=[str(uid("order", 1))]).pk
    for path in (ADDRESS, f"{ADDRESS}{key}/"):
        page = client.get(path).content.decode()
        assert "Canary1" in page
        assert f"/patients/{PATIENT_ID}/" in page and f"/orders/{uid('order', 1)}/" in page
        entry = AuditEntry.objects.filter(actor=user).latest("pk")
        assert PATIENT_ID in entry.patient_ids
    assert entry.action == "view" and entry.object_ids == [str(key)]


def test_patient_filter_is_recorded(client: Client, auditor: User) -> None:
    find_entries(client, f"?patient={PATIENT_ID}")
    entry = AuditEntry.objects.get(actor=auditor)
    assert (entry.action, entry.object_type) == ("list", "audit entry")
    assert entry.patient_ids == [PATIENT_ID]


# One entry


def test_entry_shows_changes_and_other_entries_of_request(
    client: Client, auditor: User, ada: User
) -> None:
    other = create_entry(request_id="r1", object_type="note", action="change")
    entry = create_entry(
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
    assert page.context["beside"] == [other]
    assert page.context["seal"].n == 1
    unsealed = create_entry()
    assert client.get(f"{ADDRESS}{unsealed.pk}/").context["seal"] is None


def test_unknown_entry_is_404(client: Client, auditor: User) -> None:
    for key in (99_999_999, 2**63):
        assert client.get(f"{ADDRESS}{key}/").status_code == 404


# Export


def test_export_contains_filtered_entries(client: Client, auditor: User, ada: User) -> None:
    create_entry(
        actor=ada,
        action="print",
        object_ids=["a", "b"],
        patient_ids=[PATIENT_ID, OTHER_PATIENT_ID],
        reason="=cmd()",
        ip="192.0.2.9",
    )
    create_entry(actor=ada)
    answer = client.post(f"{ADDRESS}export/", {"everything": "1", "query": "did=print"})
    text = b"".join(answer.streaming_content).decode()  # type: ignore[attr-defined]
    (row,) = csv.DictReader(io.StringIO(text))
    assert (row["Who"], row["Action"], row["Records"]) == ("ada-sample", "print", "a b")
    assert row["Patients"] == f"{PATIENT_ID} {OTHER_PATIENT_ID}"
    assert row["Reason"] == "'=cmd()"
    entry = AuditEntry.objects.get(actor=auditor)
    assert (entry.action, entry.object_type, entry.row_count) == ("export", "audit entry", 1)


def test_view_can_be_saved(client: Client, auditor: User) -> None:
    form = {"name": "Prints", "query": "did=print", "opens_for": ""}
    assert client.post(f"{ADDRESS}views/", form).status_code == 302
    view = SavedView.objects.get(listing="audit")
    assert view.query == {"did": ["print"]}


# Own entries


@pytest.mark.parametrize("role", ["viewer", "front desk", "clinician", "auditor"])
def test_everyone_sees_only_their_own_entries(
    client: Client, ada: User, patients: None, role: str
) -> None:
    user = staff(role)
    client.force_login(user)
    own = create_entry(actor=user, patient_ids=[PATIENT_ID], object_ids=["mine"])
    create_entry(actor=ada, object_ids=["hers"])
    answer = client.get(f"{ADDRESS}mine/?person={ada.pk}")
    assert answer.context["page"].rows == [own]
    text = answer.content.decode()
    assert ("Canary1" in text) is (role in ("front desk", "clinician"))
    entry = AuditEntry.objects.filter(actor=user).latest("pk")
    assert entry.object_type == "own entries"
    assert (PATIENT_ID in entry.patient_ids) is ("Canary1" in text)
    assert f"{ADDRESS}mine/" in client.get("/preferences/").content.decode()


def test_own_entries_require_sign_in(client: Client) -> None:
    assert client.get(f"{ADDRESS}mine/").status_code == 302


# Integrity


def test_integrity_page_shows_result_and_head(client: Client, auditor: User) -> None:
    assert "No check yet" in client.get(f"{ADDRESS}integrity/").content.decode()
    create_entries(3)
    seals.seal()
    verification.run_due_check()
    page = client.get(f"{ADDRESS}integrity/").content.decode()
    assert "No entries were changed, removed or inserted" in page
    assert seals.head() in page


def test_broken_log_is_reported_on_both_pages(client: Client, auditor: User) -> None:
    create_entries(3)
    seals.seal()
    with as_table_owner():
        sql(f"UPDATE {ENTRIES} SET reason = 'x' WHERE id = (SELECT min(id) FROM {ENTRIES})")
    verification.run_due_check()
    for path in ("", "integrity/"):
        page = client.get(f"{ADDRESS}{path}").content.decode()
        assert "changed or cut off" in page and "at least one of its" in page


def test_auditor_can_request_one_check(client: Client, auditor: User) -> None:
    for _ in range(2):
        assert client.post(f"{ADDRESS}integrity/check/").status_code == 302
    check = AuditCheck.objects.get()
    assert check.asked_by == auditor
    assert "A check is running" in client.get(f"{ADDRESS}integrity/").content.decode()
    verification.run_due_check()
    check.refresh_from_db()
    assert check.finished_at is not None


def test_late_sealing_is_reported(client: Client, auditor: User) -> None:
    create_entry(at=timezone.now() - timedelta(minutes=11))
    assert client.get(f"{ADDRESS}integrity/").context["late"]
    seals.seal()
    assert not client.get(f"{ADDRESS}integrity/").context["late"]


# Reviews


def first_of_month(months_ago: int) -> date:
    first = timezone.localdate().replace(day=1)
    for _ in range(months_ago):
        first = (first - timedelta(days=1)).replace(day=1)
    return first


def test_past_month_can_be_signed_off_by_several_people(client: Client, auditor: User) -> None:
    start = first_of_month(2)
    create_entry(at=datetime(start.year, start.month, 15, tzinfo=UTC))
    page = client.get(f"{ADDRESS}reviews/")
    assert [one["first"] for one in page.context["months"]] == [
        first_of_month(1),
        first_of_month(2),
    ]
    key = f"{first_of_month(1):%Y-%m}"
    assert client.post(f"{ADDRESS}reviews/", {"month": key, "note": "Fine"}).status_code == 302
    again = client.post(f"{ADDRESS}reviews/", {"month": key, "note": "typed again"})
    assert again.status_code == 422
    assert "already signed off this month" in again.content.decode()
    client.force_login(staff("lab admin"))
    assert client.post(f"{ADDRESS}reviews/", {"month": key, "note": ""}).status_code == 302
    assert AuditReview.objects.filter(month=first_of_month(1)).count() == 2
    assert AuditEntry.objects.filter(object_type="audit review", object_ids=[key]).count() == 2
    text = client.get(f"{ADDRESS}reviews/").content.decode()
    assert "Fine" in text and text.count("Not reviewed") == 1


@pytest.mark.parametrize("key", ["", "2026-13", "now", "9999-12"])
def test_other_months_cannot_be_signed_off(client: Client, auditor: User, key: str) -> None:
    create_entry(at=datetime(2026, 1, 1, tzinfo=UTC))
    answer = client.post(f"{ADDRESS}reviews/", {"month": key, "note": "kept words"})
    assert answer.status_code == 422
    assert not AuditReview.objects.exists()


def test_current_month_cannot_be_signed_off(client: Client, auditor: User) -> None:
    key = f"{first_of_month(0):%Y-%m}"
    answer = client.post(f"{ADDRESS}reviews/", {"month": key, "note": ""})
    assert answer.status_code == 422 and b"after it ends" in answer.content


# Viewers of a patient


def get_viewers(client: Client, path: str = "") -> Any:
    return client.get(f"/patients/{PATIENT_ID}/viewers/{path}")


def test_viewers_are_counted_completely_per_person(
    client: Client, ada: User, patients: None
) -> None:
    client.force_login(staff("lab admin", "lena"))
    moment = datetime(2026, 5, 1, tzinfo=UTC)
    for n, action in enumerate(("view", "view", "list", "search", "print", "export", "change")):
        create_entry(
            actor=ada,
            action=action,
            patient_ids=[OTHER_PATIENT_ID, PATIENT_ID],
            at=moment + timedelta(hours=n),
        )
    create_entry(actor=ada, patient_ids=[OTHER_PATIENT_ID])
    create_entry(action="view", patient_ids=[PATIENT_ID], actor=ada, actor_kind="token", at=moment)
    create_entry(action="view", patient_ids=[PATIENT_ID], actor=None, actor_kind="staff", at=moment)
    by_person = {
        (one.user and one.user.username, one.kind): one
        for one in get_viewers(client).context["people"]
    }
    one = by_person["ada-sample", "staff"]
    assert (one.opened, one.listed, one.taken) == (2, 2, 2)
    assert (one.first, one.last) == (moment, moment + timedelta(hours=5))
    assert by_person["ada-sample", "token"].opened == 1 and by_person[None, "staff"].opened == 1
    page = get_viewers(client)
    # There are eight earlier entries and the first view of this page, which the second view shows.
    assert page.context["total"] == len(page.context["page"].rows) == 9
    assert "Canary1" in page.content.decode()


def test_sheet_is_recorded_as_print_and_lists_all_views(
    client: Client, ada: User, patients: None
) -> None:
    user = staff("lab admin")
    client.force_login(user)
    for _ in range(70):
        create_entry(actor=ada, patient_ids=[PATIENT_ID])
    answer = get_viewers(client, "sheet/")
    assert len(answer.context["looks"]) == 70
    entry = AuditEntry.objects.get(actor=user)
    assert (entry.action, entry.object_type, entry.patient_ids) == (
        "print",
        "access log",
        [PATIENT_ID],
    )


def test_viewers_are_paged(client: Client, ada: User, patients: None) -> None:
    client.force_login(staff("lab admin"))
    for _ in range(70):
        create_entry(actor=ada, patient_ids=[PATIENT_ID])
    page = get_viewers(client).context["page"]
    assert len(page.rows) == 50
    rest = client.get(f"/patients/{PATIENT_ID}/viewers/?after={page.next}").context["page"].rows
    assert {row.pk for row in rest}.isdisjoint(row.pk for row in page.rows)


def test_auditor_sees_viewers_but_no_patient_name(
    client: Client, auditor: User, ada: User, patients: None
) -> None:
    create_entry(actor=ada, patient_ids=[PATIENT_ID])
    for path in ("", "sheet/"):
        text = get_viewers(client, path).content.decode()
        assert "Ada Sample" in text and str(PATIENT_ID)[:8] in text
        assert "Canary" not in text and "+1555" not in text
    assert client.get(f"/patients/{uuid4()}/viewers/").status_code == 404


def test_viewers_require_audit_permission(client: Client, patients: None) -> None:
    client.force_login(staff("clinician"))
    assert get_viewers(client).status_code == get_viewers(client, "sheet/").status_code == 403
    assert isinstance(PATIENT_ID, UUID)


def test_object_types_are_shown_as_labels(client: Client, auditor: User) -> None:
    entry = create_entry(
        action="change", object_type="lab_account.allowlist", object_ids=["a", "b"]
    )
    page = client.get(ADDRESS).content.decode()
    assert "Lab account allowlist" in page and "(2 records)" in page
    assert "Lab_account" not in page
    assert "Lab account allowlist" in client.get(f"{ADDRESS}{entry.pk}/").content.decode()
