"""Documents of one order: opened, saved, recorded, and explained where there is none."""

from __future__ import annotations

import base64
from io import BytesIO
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from pypdf import PdfReader

from backoffice.audit.models import AuditEntry
from orders.documents.fetching import LATER, NO_PDF
from orders.documents.kinds import KINDS
from orders.models import Order
from tests.api.rows import staff
from tests.documents.conftest import FindOrder
from tests.sandboxes import Sandbox

pytestmark = pytest.mark.django_db


@pytest.fixture
def clinician(client: Client) -> Client:
    client.force_login(staff("clinician"))
    return client


def opened(client: Client, kind: str, order: Order, query: str = "") -> Any:
    return client.get(reverse(f"documents:{kind}", args=[order.pk]) + query)


def text_of(answer: Any) -> str:
    assert answer.status_code == 200, answer.content.decode()[:2000]
    assert answer.headers["Content-Type"] == "application/pdf"
    return "".join(page.extract_text() for page in PdfReader(BytesIO(answer.content)).pages)


def recorded(subject: str) -> list[tuple[str, list[str], list[Any]]]:
    rows = AuditEntry.objects.filter(object_type=subject).order_by("pk")
    return [(one.action, one.object_ids, one.patient_ids) for one in rows]


def test_requisition_opens_and_is_recorded(clinician: Client, find_order: FindOrder) -> None:
    order = find_order("ready")
    answer = opened(clinician, "requisition", order)
    assert str(order.pk) in text_of(answer)
    assert recorded("requisition") == [("print", [str(order.pk)], [order.user_id])]
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert answer.headers["Cache-Control"] == "no-store, private"


def test_saved_file_name_says_nothing_personal(clinician: Client, find_order: FindOrder) -> None:
    order = find_order("ready")
    answer = opened(clinician, "requisition", order, "?save")
    name = f'attachment; filename="requisition-{str(order.pk)[:8]}.pdf"'
    assert answer.headers["Content-Disposition"] == name
    assert [action for action, *_ in recorded("requisition")] == ["export"]


@pytest.mark.parametrize(
    ("state", "kind", "words"),
    [
        ("not ready", "requisition", "Not ready yet"),
        ("imported", "requisition", "imported"),
        ("canceled", "requisition", "This order is canceled."),
        ("canceled", "labels", "This order is canceled."),
        ("ready", "abn", "No ABN is needed"),
        ("ready", "result", "No result yet"),
    ],
)
def test_order_without_document_says_why(
    clinician: Client, find_order: FindOrder, state: str, kind: str, words: str
) -> None:
    order = find_order(state)
    answer = opened(clinician, kind, order)
    assert answer.status_code == 404 and words in answer.content.decode()
    page = clinician.get(reverse("documents:order", args=[order.pk])).content.decode()
    assert words in page, "said before anybody presses a button, too"
    assert reverse(f"documents:{kind}", args=[order.pk]) not in page
    assert recorded(KINDS[kind].subject) == []


def test_abn_opens_where_the_order_has_one(
    clinician: Client, find_order: FindOrder, world: Sandbox
) -> None:
    key = find_order("ready").pk
    world.query("UPDATE sandbox_order SET has_abn = true WHERE id = %s RETURNING id", [key])
    world.prepare_answer(f"/v3/order/{key}$", merge={"has_abn": True})
    order = find_order(where=f"id = '{key}'")
    assert "Advance beneficiary notice" in text_of(opened(clinician, "abn", order))
    assert [action for action, *_ in recorded("ABN")] == ["print"]


def test_instructions_open_or_the_lab_gives_none(clinician: Client, find_order: FindOrder) -> None:
    has = "(SELECT has_collection_instructions FROM sandbox_labtest t WHERE t.id = lab_test_id)"
    alive = "low_level_status NOT IN ('cancelled', 'do_not_process')"
    order = find_order(where=f"{has} AND {alive}")
    assert "Collection instructions" in text_of(opened(clinician, "instructions", order))
    without = find_order(where=f"NOT {has} AND {alive}")
    answer = opened(clinician, "instructions", without)
    assert answer.status_code == 404 and "has no collection" in answer.content.decode()


def test_result_documents_of_order_and_transaction_open(
    clinician: Client, find_order: FindOrder
) -> None:
    order = find_order("completed")
    assert str(order.pk) in text_of(opened(clinician, "result", order))
    whole = opened(clinician, "transaction-result", order)
    assert str(order.order_transaction_id) in text_of(whole)
    assert recorded("combined result document")[0][1] == [str(order.pk)]


def test_document_beside_a_report_is_recorded_as_viewed(
    clinician: Client, find_order: FindOrder
) -> None:
    text_of(opened(clinician, "result", find_order("completed"), "?beside"))
    assert [action for action, *_ in recorded("result document")] == ["view"]


@pytest.mark.parametrize(
    ("answer", "status", "words"),
    [
        ({"status": 404, "body": {"detail": "none"}}, 404, "The service has no requisition"),
        ({"status": 403, "body": {"detail": "closed beta"}}, 502, "closed beta"),
        ({"status": 401, "body": {"detail": "no"}}, 502, "did not accept our key"),
        ({"status": 500, "times": 9, "body": {"detail": "no"}}, 503, LATER),
        ({"status": 429, "times": 9, "body": {"detail": "no"}}, 503, LATER),
        ({"body": {"not": "a PDF"}}, 502, NO_PDF),
        ({"body": "<html>Sign in</html>", "headers": {"Content-Type": "text/html"}}, 502, NO_PDF),
        ({"body": "<html>Sign in</html>", "headers": {"Content-Type": "application/pdf"}}, 502,
         NO_PDF),
        ({"body": "%PDF-1.4 and no more", "headers": {"Content-Type": "application/pdf"}}, 502,
         NO_PDF),
        ({"body": "%PDF-1.4 junk %%EOF", "headers": {"Content-Type": "application/pdf"}}, 502,
         NO_PDF),
        ({"body": "", "headers": {"Content-Type": "application/pdf"}}, 502, NO_PDF),
    ],
)  # fmt: skip
def test_broken_answer_is_explained_and_nothing_is_sent(
    clinician: Client,
    find_order: FindOrder,
    world: Sandbox,
    answer: dict[str, Any],
    status: int,
    words: str,
) -> None:
    order = find_order("ready")
    world.prepare_answer("/requisition/pdf", **answer)
    for query in ("", "?save"):
        page = opened(clinician, "requisition", order, query)
        if query and "times" not in answer:
            break
        assert page.status_code == status and words in page.content.decode()
        assert "attachment" not in page.headers.get("Content-Disposition", "")
        assert recorded("requisition") == []


def test_truncated_pdf_is_refused(clinician: Client, find_order: FindOrder, world: Sandbox) -> None:
    order = find_order("ready")
    whole = opened(clinician, "requisition", order).content
    for part in (whole[: len(whole) // 2], whole[:-400]):
        world.prepare_answer(
            "/requisition/pdf",
            body_base64=base64.b64encode(part).decode(),
            headers={"Content-Type": "application/pdf"},
        )
        answer = opened(clinician, "requisition", order)
        assert answer.status_code == 502 and NO_PDF in answer.content.decode()


@pytest.mark.parametrize(
    ("role", "allowed"),
    [
        ("viewer", set()),
        ("auditor", set()),
        ("front desk", {"requisition", "labels", "abn", "instructions"}),
        ("clinician", set(KINDS)),
        ("lab coordinator", set(KINDS)),
    ],
)
def test_roles_open_what_they_may(
    client: Client, find_order: FindOrder, role: str, allowed: set[str]
) -> None:
    client.force_login(staff(role))
    order = find_order("completed")
    answers = {kind: opened(client, kind, order).status_code for kind in KINDS}
    assert {kind for kind, status in answers.items() if status != 403} == allowed
    page = client.get(reverse("documents:order", args=[order.pk]))
    assert page.status_code == (200 if allowed else 403)
    if allowed:
        assert ("Result document" in page.content.decode()) == ("result" in allowed)


def test_order_page_list_and_card_lead_to_documents(
    clinician: Client, find_order: FindOrder
) -> None:
    order = find_order("ready")
    page = clinician.get(reverse("orders:detail", args=[order.pk])).content.decode()
    assert reverse("documents:requisition", args=[order.pk]) in page
    drawer = f'href="{reverse("documents:order", args=[order.pk])}"'
    assert drawer in clinician.get("/orders/").content.decode()
    card = reverse("exceptions:card", args=["lost", order.pk])
    assert drawer in clinician.get(card).content.decode()
