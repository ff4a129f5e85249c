"""Calls about appointments and where they can be, against the sandbox's own tables."""

from __future__ import annotations

from typing import Any

import pytest

from backoffice.service import Service, errors
from tests.contract.test_orders import TEAM, some_order
from tests.sandboxes import Sandbox


def visit(sandbox: Sandbox, kind: str) -> tuple[Any, ...]:
    return sandbox.query(
        "SELECT o.id, a.id, a.user_id, o.transaction_id, a.provider, a.provider_id, a.external_id,"
        " a.status, a.event_status, a.start_at, a.end_at, a.iana_timezone, a.can_reschedule,"
        " upper(a.first_line), a.zip_code, a.lng, a.lat FROM sandbox_appointment a"
        f" JOIN sandbox_order o ON o.number = a.order_id WHERE o.team_id = '{TEAM}'"
        " AND a.is_current AND a.type = %s AND a.start_at IS NOT NULL ORDER BY a.id LIMIT 1",
        [kind],
    )[0]


@pytest.mark.parametrize("kind", ["phlebotomy", "patient_service_center"])
def test_appointments(client: Service, asked_sandbox: Sandbox, kind: str) -> None:
    row = visit(asked_sandbox, kind)
    calls = client.appointments
    read_it, other = calls.phlebotomy, calls.psc
    if kind != "phlebotomy":
        read_it, other = other, read_it
    draw = read_it(row[0]).data
    assert draw.address is not None and draw.location is not None and draw.type == kind
    assert (
        draw.order_id, draw.id, draw.user_id, draw.order_transaction_id, draw.provider,
        draw.provider_id, draw.external_id, draw.status, draw.event_status, draw.start_at,
        draw.end_at, draw.iana_timezone, draw.can_reschedule, draw.address.first_line,
        draw.address.zip_code, draw.location.lng, draw.location.lat,
    ) == row  # fmt: skip
    events = asked_sandbox.query(
        "SELECT created_at, status, data FROM sandbox_appointmentevent WHERE appointment_id = %s"
        " ORDER BY created_at, id",
        [draw.id],
    )
    assert [(e.created_at, e.status, e.data) for e in draw.events] == events
    with pytest.raises(errors.Missing):
        other(row[0])


def test_appointments_area_info(client: Service, asked_sandbox: Sandbox) -> None:
    for served in (True, False):
        rows = asked_sandbox.query(
            "SELECT zip_code, phlebotomy FROM sandbox_servicearea"
            f" WHERE (phlebotomy <> '{{}}'::jsonb) = {served} ORDER BY 1 LIMIT 1"
        )
        if not rows:
            continue
        zip_code, providers = rows[0]
        area = client.appointments.area_info(zip_code, radius="100").data
        assert area.zip_code == zip_code and area.phlebotomy.is_served == served
        assert {p.name: p.service_types for p in area.phlebotomy.providers} == providers
    slugs = [row[0] for row in asked_sandbox.query(
        "SELECT slug FROM sandbox_lab WHERE 'walk_in_test' = ANY(collection_methods) ORDER BY id"
    )]  # fmt: skip
    assert list(area.central_labs) == slugs
    only = client.appointments.area_info(zip_code, labs=slugs[:1]).data
    assert list(only.central_labs) == slugs[:1]


def test_appointments_psc_info(client: Service, asked_sandbox: Sandbox) -> None:
    lab_id, slug, zip_code = asked_sandbox.query(
        "SELECT l.id, l.slug, s.zip_code FROM sandbox_pscsite s JOIN sandbox_lab l"
        " ON l.id = s.lab_id JOIN sandbox_servicearea a ON a.zip_code = s.zip_code"
        " WHERE s.is_active ORDER BY s.id LIMIT 1"
    )[0]
    found = client.appointments.psc_info(zip_code, lab_id, radius="50").data
    assert (found.lab_id, found.slug) == (lab_id, slug)
    sites = found.patient_service_centers
    assert 0 < len(sites) <= 30
    rows = asked_sandbox.query(
        "SELECT site_code, name, zip_code, lng, lat, capabilities FROM sandbox_pscsite"
        " WHERE lab_id = %s AND is_active", [lab_id],
    )  # fmt: skip
    by_code = {row[0]: row[1:] for row in rows}
    distances = []
    for site in sites:
        assert site.location is not None and site.distance is not None
        held = (site.metadata.name, site.metadata.zip_code, site.location.lng, site.location.lat,
                site.capabilities)  # fmt: skip
        assert held == by_code[site.site_code]
        distances.append(site.distance)
    assert distances == sorted(distances) and max(distances) <= 50
    bookable = client.appointments.psc_info(
        zip_code, lab_id, radius="50", capabilities=["appointment_scheduling_via_service"]
    ).data.patient_service_centers
    assert [s.site_code for s in bookable] == [s.site_code for s in sites if s.bookable]


def test_appointments_order_psc_info(client: Service, asked_sandbox: Sandbox) -> None:
    key = some_order(asked_sandbox, "method = 'walk_in_test'")
    lab_id, zip_code = asked_sandbox.query(
        "SELECT t.lab_id, left(o.zip_code, 5) FROM sandbox_order o JOIN sandbox_labtest t"
        " ON t.id = o.lab_test_id WHERE o.id = %s",
        [key],
    )[0]
    found = client.appointments.order_psc_info(key, radius="50").data
    same = client.appointments.psc_info(zip_code, lab_id, radius="50").data
    assert found.lab_id == lab_id
    assert [s.site_code for s in found.patient_service_centers] == [
        s.site_code for s in same.patient_service_centers
    ]
    with pytest.raises(errors.Refused) as refused:
        client.appointments.order_psc_info(some_order(asked_sandbox, "method = 'testkit'"))
    assert refused.value.status == 400 and refused.value.message
