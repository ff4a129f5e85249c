"""PDF documents of orders and lab tests (orders.md 1, errors-and-limits.md 6)."""

from __future__ import annotations

import orjson
from django.db.models import Q
from django.http import StreamingHttpResponse

from sandbox.api.calls import ApiRequest, Call
from sandbox.api.errors import Refusal, missing
from sandbox.api.orders import find_order
from sandbox.api.params import Moment, Param, Whole
from sandbox.api.pdf_files import pdf
from sandbox.api.responses import PDF, pdf_response
from sandbox.models import LabTest, Order, Placement

# The account number every sandbox label carries.
_LABEL_ACCOUNT = "1234567890"
_MOST_LABELS = 100


def labels(api_request: ApiRequest) -> StreamingHttpResponse:
    """Specimen labels, one page each."""
    order = find_order(api_request)
    page = [
        "Specimen label",
        f"Account {_LABEL_ACCOUNT}",
        f"Order {order.id}",
        f"Sample {order.sample_id or '-'}",
        f"Collected {api_request['collection_date']:%Y-%m-%d %H:%M} UTC",
    ]
    return pdf_response(pdf([page] * api_request["number_of_labels"]), "labels.pdf")


def requisition(api_request: ApiRequest) -> StreamingHttpResponse:
    """Return the requisition; imported orders never have one, others once it is created."""
    order = find_order(api_request, "lab_test__lab", "lab_account")
    if order.imported or not order.has_requisition:
        raise Refusal(404, "This order has no requisition")
    fixed = orjson.loads("{" + order.fixed_part + "}")
    physician = fixed["physician"]
    account = order.lab_account
    lines = [
        "Requisition",
        f"Order {order.id}",
        f"Sample {order.sample_id or '-'}",
        f"Laboratory {order.lab_test.lab.name}",
        f"Account {account.provider_account_id if account else '-'}",
        f"Patient {order.patient_name}, born {order.patient_dob or '-'}",
        f"Test {order.lab_test.name}",
        f"Billing {order.billing_type} {' '.join(fixed['icd_codes'] or ())}",
        f"Physician {physician['first_name']} {physician['last_name']}" if physician else "",
        *(f"Note: {note}" for note in (fixed["clinical_notes"] or "").splitlines()),
        *_answers(order),
    ]
    return pdf_response(pdf([[line for line in lines if line]]), "requisition.pdf")


def _answers(order: Order) -> list[str]:
    """Return the answers given at order entry."""
    placed = Placement.objects.filter(order_id=order.pk).first()
    given = placed.aoe_answers if placed else []
    return [f"Question {each['question_id']}: {each['answer']}" for each in given]


def abn(api_request: ApiRequest) -> StreamingHttpResponse:
    """Return the advance beneficiary notice, if the order has one."""
    order = find_order(api_request)
    if not order.has_abn:
        raise Refusal(404, "This order has no advance beneficiary notice")
    return pdf_response(pdf([["Advance beneficiary notice", f"Order {order.id}"]]), "abn.pdf")


def _instructions(test: LabTest) -> StreamingHttpResponse:
    if not test.has_collection_instructions:
        raise Refusal(404, "This lab test has no collection instructions")
    return pdf_response(
        pdf([["Collection instructions", f"Lab test {test.pk}", test.name]]),
        "collection_instructions.pdf",
    )


def order_instructions(api_request: ApiRequest) -> StreamingHttpResponse:
    return _instructions(find_order(api_request, "lab_test").lab_test)


def lab_test_instructions(api_request: ApiRequest) -> StreamingHttpResponse:
    visible = LabTest.objects.filter(Q(team__isnull=True) | Q(team_id=api_request.caller.team))
    test = visible.filter(pk=api_request["lab_test_id"]).first()
    if test is None:
        raise missing("Lab test")
    return _instructions(test)


CALLS = (
    Call(
        "GET",
        "/v3/order/{order_id}/labels/pdf",
        labels,
        "Specimen labels",
        query=(
            Param("collection_date", Moment(), required=True),
            Param("number_of_labels", Whole(ge=1, le=_MOST_LABELS), 3),
        ),
        produces=PDF,
    ),
    Call("GET", "/v3/order/{order_id}/requisition/pdf", requisition, "Requisition", produces=PDF),
    Call("GET", "/v3/order/{order_id}/abn_pdf", abn, "Advance beneficiary notice", produces=PDF),
    Call(
        "GET",
        "/v3/order/{order_id}/collection_instruction_pdf",
        order_instructions,
        "Collection instructions of an order",
        produces=PDF,
    ),
    Call(
        "GET",
        "/v3/lab_test/{lab_test_id}/collection_instruction_pdf",
        lab_test_instructions,
        "Collection instructions of a lab test",
        produces=PDF,
    ),
)
