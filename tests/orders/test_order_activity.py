"""The activity stream on the page of one order."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from django.test import Client, RequestFactory

from backoffice.accounts.models import User
from backoffice.team.actions import add_note, assign
from orders.models import (
    OrderEvent,
)
from tests.api.rows import staff
from tests.orders.order_pages import create_events, create_order, get_page

pytestmark = pytest.mark.django_db


def test_activity_is_one_stream_with_three_views(
    client: Client, clinician: User, rf: RequestFactory
) -> None:
    row = create_order(method="testkit")
    scans = ("transit_customer", "out_for_delivery") * 2
    create_events(row, "ordered", *scans, "with_customer")
    for event in OrderEvent.objects.all():
        moment = datetime(2026, 3, 3, 12, event.event_id, tzinfo=UTC)  # all on one day
        OrderEvent.objects.filter(event_id=event.event_id).update(created_at=moment)
    request = rf.get("/")
    request.user = clinician
    add_note(request, "order", row.pk, "Called <them>", row.user_id)
    assign(request, "order", row.pk, clinician, row.user_id)

    def stream(show: str) -> list[str]:
        found = get_page(client, row, stream=show).context["activity"]
        return [one.change.what if one.change else one.text or one.term.value for one in found]

    milestones = ["with_customer", "3 delivery scans", "transit_customer", "ordered"]
    assert stream("milestones") == ["Note", *milestones]
    everything = stream("everything")
    assert everything[2:] == ["with_customer", *scans[::-1], "ordered"]
    assert everything[:2] == stream("people") and "Note" in everything[:2]
    page = get_page(client, row).content.decode()
    assert "Called &lt;them&gt;" in page
    assert all(f'id="event-{event.event_id}"' in page for event in OrderEvent.objects.all())
    assert client.get(f"/orders/{row.pk}/", {"stream": "x"}).status_code == 400
    client.force_login(staff("viewer"))
    assert "Called" not in get_page(client, row).content.decode()


def test_steps_of_same_moment_are_sorted_newest_first(client: Client, clinician: User) -> None:
    row = create_order(method="testkit")
    create_events(row, "ordered", "transit_customer", "with_customer")
    OrderEvent.objects.update(created_at=datetime(2026, 3, 3, 12, tzinfo=UTC))
    shown = [one.term.value for one in get_page(client, row).context["activity"]]
    assert shown == ["with_customer", "transit_customer", "ordered"]


def test_newest_step_is_never_collapsed(client: Client, clinician: User) -> None:
    """A rescheduled visit: three steps of one kind on one day."""
    row = create_order(method="at_home_phlebotomy", low_level_status="appointment_scheduled")
    create_events(row, "ordered", "appointment_pending", *["appointment_scheduled"] * 3)
    for event in OrderEvent.objects.all():
        moment = datetime(2026, 3, 3, 12, event.event_id, tzinfo=UTC)
        OrderEvent.objects.filter(event_id=event.event_id).update(created_at=moment)
    answer = get_page(client, row)
    shown = [one.text or one.term.value for one in answer.context["activity"]]
    assert shown == ["appointment_scheduled", "2 more steps", "appointment_pending", "ordered"]
    assert answer.context["activity"][0].event_id == 4
