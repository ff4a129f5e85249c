"""PDF documents of orders and lab tests (orders.md 1, errors-and-limits.md 6)."""

from __future__ import annotations

from django.db.models import Q
from django.http import StreamingHttpResponse

from sandbox.api.answers import PDF, pdf_answer
from sandbox.api.calls import Asked, Call
from sandbox.api.documents import pdf
from sandbox.api.errors import Refusal, missing
from sandbox.api.orders import find_order
from sandbox.api.params import Moment, Param, Whole
from sandbox.models import LabTest

# The account number every sandbox label carries.
_LABEL_ACCOUNT = "1234567890"
_MOST_LABELS = 100


def labels(asked: Asked) -> StreamingHttpResponse:
    """Specimen labels, one page each."""
    order = find_order(asked)
    page = [
        "Specimen label",
        f"Account {_LABEL_ACCOUNT}",
        f"Order {order.id}",
        f"Sample {order.sample_id or '-'}",
        f"Collected {asked['collection_date']:%Y-%m-%d %H:%M} UTC",
    ]
    return pdf_answer(pdf([page] * asked["number_of_labels"]), "labels.pdf")


def requisition(asked: Asked) -> StreamingHttpResponse:
    """The requisition; imported orders never get one, others not before it is created."""
    order = find_order(asked)
    if order.imported or not order.has_requisition:
        raise Refusal(404, "This order has no requisition")
    return pdf_answer(
        pdf([["Requisition", f"Order {order.id}", f"Sample {order.sample_id or '-'}"]]),
        "requisition.pdf",
    )


def abn(asked: Asked) -> StreamingHttpResponse:
    """The advance beneficiary notice, where the order has one."""
    order = find_order(asked)
    if not order.has_abn:
        raise Refusal(404, "This order has no advance beneficiary notice")
    return pdf_answer(pdf([["Advance beneficiary notice", f"Order {order.id}"]]), "abn.pdf")


def _instructions(test: LabTest) -> StreamingHttpResponse:
    if not test.has_collection_instructions:
        raise Refusal(404, "This lab test has no collection instructions")
    return pdf_answer(
        pdf([["Collection instructions", f"Lab test {test.pk}", test.name]]),
        "collection_instructions.pdf",
    )


def order_instructions(asked: Asked) -> StreamingHttpResponse:
    return _instructions(find_order(asked, "lab_test").lab_test)


def lab_test_instructions(asked: Asked) -> StreamingHttpResponse:
    visible = LabTest.objects.filter(Q(team__isnull=True) | Q(team_id=asked.caller.team))
    test = visible.filter(pk=asked["lab_test_id"]).first()
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
