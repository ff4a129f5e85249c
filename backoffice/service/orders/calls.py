"""Calls about orders and their PDFs. Interface: orders, chapter 1."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import date, datetime
from uuid import UUID

from backoffice.service.exchange import Calls, Document, Exchange, as_json, idempotency_headers
from backoffice.service.orders.bodies import ImportedOrder, NewOrder, SimulationFlags
from backoffice.service.orders.records import (
    COMMUNICATION,
    ORDER,
    RESENT,
    TRANSACTION,
    CommunicationSettings,
    OrderPayload,
    ResentOrders,
    TransactionPayload,
)
from backoffice.service.payload import Record, RecordPage
from backoffice.service.results import RESULT, ResultPayload
from backoffice.service.wire import Query


class OrderCalls(Calls):
    """Calls of orders.md 1, 2, 4-6, 8, 10 and 11."""

    def __init__(self, call: Exchange, create_path: str) -> None:
        super().__init__(call)
        self._create_path = create_path

    def list(
        self,
        *,
        page: int = 1,
        size: int = 100,
        search_input: str | None = None,
        start_date: date | datetime | None = None,
        end_date: date | datetime | None = None,
        updated_start_date: datetime | None = None,
        updated_end_date: datetime | None = None,
        status: Sequence[str] | None = None,
        order_key: str | None = None,
        order_direction: str | None = None,
        order_type: Sequence[str] | None = None,
        is_critical: bool | None = None,
        interpretation: str | None = None,
        order_activation_types: Sequence[str] | None = None,
        user_id: UUID | str | None = None,
        patient_name: str | None = None,
        shipping_recipient_name: str | None = None,
        order_ids: Sequence[UUID | str] | None = None,
        order_transaction_id: UUID | str | None = None,
    ) -> RecordPage[OrderPayload]:
        """Return a page of at most 100 orders of the team.

        ``status`` takes low-level statuses. A time without a zone is UTC. An ``end_date`` without a
        time includes its day.
        """
        query: Query = {
            "search_input": search_input,
            "start_date": start_date,
            "end_date": end_date,
            "updated_start_date": updated_start_date,
            "updated_end_date": updated_end_date,
            "status": status,
            "order_key": order_key,
            "order_direction": order_direction,
            "order_type": order_type,
            "is_critical": is_critical,
            "interpretation": interpretation,
            "order_activation_types": order_activation_types,
            "user_id": user_id,
            "patient_name": patient_name,
            "shipping_recipient_name": shipping_recipient_name,
            "order_ids": order_ids,
            "order_transaction_id": order_transaction_id,
            "page": page,
            "size": size,
        }
        return self._call.page("/v3/orders", ORDER, "orders", query=query)

    def get(self, order_id: UUID | str) -> Record[OrderPayload]:
        return self._call.record("/v3/order/{order_id}", ORDER, order_id=order_id)

    def transaction(self, transaction_id: UUID | str) -> Record[TransactionPayload]:
        path = "/v3/order_transaction/{transaction_id}"
        return self._call.record(path, TRANSACTION, transaction_id=transaction_id)

    def result(self, order_id: UUID | str) -> Record[ResultPayload]:
        """Return the result, partial or final; raises Missing while there is none."""
        return self._call.record("/v3/order/{order_id}/result", RESULT, order_id=order_id)

    def create(
        self,
        order: NewOrder,
        *,
        idempotency_key: str,
        no_cache: bool = False,
        extra: Mapping[str, str] | None = None,
    ) -> Record[OrderPayload]:
        """Place an order.

        The service stores the outcome of a key, success or error, for at least 24 hours and returns
        it again. With ``no_cache`` it stores only a success. It stores nothing when it refused the
        parameters (422), or while another request with the key is in progress. ``extra`` is added
        to the body, for fields whose names are settings: the update reason (specification, notes on
        states and transitions).
        """
        return self._call.send(
            "POST",
            self._create_path,
            ORDER,
            as_json({**as_json(order)["json"], **(extra or {})}),
            member="order",
            headers=idempotency_headers(idempotency_key, no_cache),
        )

    def import_(self, order: ImportedOrder) -> Record[OrderPayload]:
        """Register an order that was placed elsewhere.

        There is no idempotency key: ``sample_id`` is unique, and the service refuses one that is in
        use.
        """
        return self._call.send("POST", "/v3/order/import", ORDER, as_json(order), member="order")

    def cancel(
        self, order_id: UUID | str, extra: Mapping[str, str] | None = None
    ) -> Record[OrderPayload]:
        """Cancel an order.

        The service refuses when the status of the order does not allow it. A phlebotomy appointment
        is canceled with the order; one at a patient service center is not. ``extra`` is the body,
        for services that accept one here: none is documented.
        """
        path = "/v3/order/{order_id}/cancel"
        body = as_json(extra) if extra else None
        return self._call.send("POST", path, ORDER, body, member="order", order_id=order_id)

    def change_activation(
        self, order_id: UUID | str, activate_by: date | None
    ) -> Record[OrderPayload]:
        """Move a scheduled order to another day; None dispatches it at once."""
        body = {"activate_by": activate_by}
        path = "/v3/order/{order_id}"
        return self._call.send(
            "PATCH", path, ORDER, as_json(body), member="order", order_id=order_id
        )

    def draw_completed(self, order_id: UUID | str) -> Record[OrderPayload]:
        """Record that the sample of an on-site collection was drawn."""
        path = "/v3/order/{order_id}/draw_completed"
        return self._call.send("PATCH", path, ORDER, member="order", order_id=order_id)

    def communication_settings(self, order_id: UUID | str) -> Record[CommunicationSettings]:
        """Return whether the patient gets text messages about this order (orders.md 1)."""
        path = "/v3/order/{order_id}/communication_settings"
        return self._call.record(path, COMMUNICATION, order_id=order_id)

    def change_communication(
        self, order_id: UUID | str, sms_enabled: bool
    ) -> Record[CommunicationSettings]:
        """Turn the text messages about one order on or off (orders.md 1)."""
        body = as_json({"sms_enabled": sms_enabled})
        path = "/v3/order/{order_id}/communication_settings"
        return self._call.send("PATCH", path, COMMUNICATION, body, order_id=order_id)

    def simulate(
        self,
        order_id: UUID | str,
        final_status: str | None = None,
        delay: int | None = None,
        flags: SimulationFlags | None = None,
    ) -> None:
        """Advance an order, in a sandbox only.

        It moves to ``final_status`` (dotted) or to the end of its successful path. The unit of
        ``delay`` is not documented.
        """
        self._call.send_without_record(
            "POST",
            "/v3/order/{order_id}/test",
            None if flags is None else as_json(flags),
            query={"final_status": final_status, "delay": delay},
            order_id=order_id,
        )

    def resend_events(
        self,
        order_ids: Sequence[UUID | str] | None = None,
        start_at: datetime | None = None,
        end_at: datetime | None = None,
    ) -> Record[ResentOrders]:
        """Request a new delivery of the latest event of some orders.

        Name the orders, or a window of at most 60 days. The call changes nothing, so it is safe to
        repeat when it is Uncertain.
        """
        if not order_ids and start_at is None:
            raise ValueError("which orders: by id, or since when")
        values = {"order_ids": order_ids or None, "start_at": start_at, "end_at": end_at}
        body = as_json({name: value for name, value in values.items() if value is not None})
        return self._call.send("POST", "/v3/order/resend_events", RESENT, body)

    def result_pdf(self, order_id: UUID | str) -> AbstractContextManager[Document]:
        return self._call.document("/v3/order/{order_id}/result/pdf", order_id=order_id)

    def transaction_result_pdf(
        self, transaction_id: UUID | str
    ) -> AbstractContextManager[Document]:
        path = "/v3/order_transaction/{transaction_id}/result/pdf"
        return self._call.document(path, transaction_id=transaction_id)

    def labels_pdf(
        self, order_id: UUID | str, collection_date: datetime, number_of_labels: int = 3
    ) -> AbstractContextManager[Document]:
        query: Query = {"collection_date": collection_date, "number_of_labels": number_of_labels}
        path = "/v3/order/{order_id}/labels/pdf"
        return self._call.document(path, query=query, order_id=order_id)

    def requisition_pdf(self, order_id: UUID | str) -> AbstractContextManager[Document]:
        """Return the requisition; raises Missing for imported orders."""
        return self._call.document("/v3/order/{order_id}/requisition/pdf", order_id=order_id)

    def abn_pdf(self, order_id: UUID | str) -> AbstractContextManager[Document]:
        """Return the advance beneficiary notice; it exists only when the order has ``has_abn``."""
        return self._call.document("/v3/order/{order_id}/abn_pdf", order_id=order_id)

    def collection_instruction_pdf(self, order_id: UUID | str) -> AbstractContextManager[Document]:
        path = "/v3/order/{order_id}/collection_instruction_pdf"
        return self._call.document(path, order_id=order_id)
