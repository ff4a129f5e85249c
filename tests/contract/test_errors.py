"""What the real sandbox refuses, as the errors of the client; and that no call goes untested."""

from __future__ import annotations

import functools
import inspect
import io
from datetime import UTC, datetime
from typing import Any

import pytest

from backoffice.service import Service, errors
from backoffice.service.exchange import Calls
from backoffice.service.reports import Upload
from tests.contract import (
    test_appointment_writes,
    test_appointments,
    test_lab_writes,
    test_order_writes,
    test_orders,
    test_people,
    test_people_writes,
    test_reports,
    test_unmatched,
    test_wearables,
    test_webhooks,
)
from tests.contract.test_orders import NOBODY, TEAM, one, some_order
from tests.labs.documents import pdf
from tests.sandboxes import Sandbox
from tests.service.writes import LOOKUPS, WRITES

CHAPTERS = (
    "users", "insurance", "labs", "orders", "appointments", "wearables", "reports", "unmatched",
    "management",
)  # fmt: skip
TOGETHER = {
    "appointments.phlebotomy": "test_appointments",
    "appointments.psc": "test_appointments",
    "appointments.reschedule_phlebotomy": "test_appointments_book_phlebotomy",
    "appointments.cancel_phlebotomy": "test_appointments_book_phlebotomy",
    "appointments.reschedule_psc": "test_appointments_book_psc",
    "appointments.cancel_psc": "test_appointments_book_psc",
    "appointments.phlebotomy_cancellation_reasons": "test_appointments_cancellation_reasons",
    "appointments.psc_cancellation_reasons": "test_appointments_cancellation_reasons",
    "labs.update_test": "test_labs_create_test",
    "reports.job": "test_reports_upload",
    "management.every_webhook": "test_management_webhooks",
    "management.webhook": "test_management_webhooks",
    "management.switch_webhook": "test_management_create_webhook",
    "management.delete_webhook": "test_management_create_webhook",
    "management.webhook_secret": "test_management_webhooks",
    "management.rotate_webhook_secret": "test_management_create_webhook",
}
"""Calls tested by the test of another."""


def calls(client: Service) -> set[str]:
    """Every public call of the client, by chapter and name."""
    found = set()
    for chapter in CHAPTERS:
        kind = type(getattr(client, chapter))
        assert issubclass(kind, Calls)
        for name, _ in inspect.getmembers(kind, inspect.isfunction):
            if not name.startswith("_"):
                found.add(f"{chapter}.{name}")
    return found


def test_every_chapter_is_listed(client: Service) -> None:
    public = {name for name in vars(client) if isinstance(getattr(client, name), Calls)}
    assert public | {"management"} == set(CHAPTERS)


def test_every_call_is_tested(client: Service) -> None:
    """A call that is new needs a test named after it here, or this fails."""
    modules = (
        test_appointments, test_orders, test_people, test_reports, test_wearables, test_webhooks,
        test_appointment_writes, test_lab_writes, test_order_writes,
        test_people_writes, test_unmatched,
    )  # fmt: skip
    tested = {name for module in modules for name in vars(module)}
    untested = {
        call
        for call in calls(client)
        if TOGETHER.get(call, f"test_{call.replace('.', '_')}") not in tested
    }
    assert untested == set()
    assert len(calls(client)) >= 80


def everything(client: Service) -> dict[str, Any]:
    """One way to make each call."""
    return reads(client) | {
        name: functools.partial(write.call, client)
        for name, write in (WRITES | LOOKUPS).items()
        if ", " not in name
    }


def reads(client: Service) -> dict[str, Any]:
    users, labs, orders, draws = client.users, client.labs, client.orders, client.appointments
    wearables, report = client.wearables, Upload(io.BytesIO(pdf()), "application/pdf")
    return {
        "users.list": users.list,
        "users.get": lambda: users.get(NOBODY),
        "users.resolve": lambda: users.resolve("nobody"),
        "users.info": lambda: users.info(NOBODY),
        "users.connections": lambda: users.connections(NOBODY),
        "users.historical_pulls": users.historical_pulls,
        "insurance.latest": lambda: client.insurance.latest(NOBODY),
        "insurance.search_payors": client.insurance.search_payors,
        "insurance.search_diagnoses": lambda: client.insurance.search_diagnoses("A"),
        "labs.labs": labs.labs,
        "labs.lab_tests": labs.lab_tests,
        "labs.lab_test": lambda: labs.lab_test(NOBODY),
        "labs.markers": labs.markers,
        "labs.lab_test_markers": lambda: labs.lab_test_markers(NOBODY),
        "labs.lab_accounts": labs.lab_accounts,
        "labs.physicians": lambda: labs.physicians(TEAM),
        "orders.list": orders.list,
        "orders.get": lambda: orders.get(NOBODY),
        "orders.communication_settings": lambda: orders.communication_settings(NOBODY),
        "orders.transaction": lambda: orders.transaction(NOBODY),
        "orders.result": lambda: orders.result(NOBODY),
        "orders.result_pdf": lambda: orders.result_pdf(NOBODY).__enter__(),
        "orders.transaction_result_pdf": lambda: orders.transaction_result_pdf(NOBODY).__enter__(),
        "orders.labels_pdf": lambda: orders.labels_pdf(NOBODY, MOMENT).__enter__(),
        "orders.requisition_pdf": lambda: orders.requisition_pdf(NOBODY).__enter__(),
        "orders.abn_pdf": lambda: orders.abn_pdf(NOBODY).__enter__(),
        "orders.collection_instruction_pdf": lambda: orders.collection_instruction_pdf(
            NOBODY
        ).__enter__(),
        "appointments.phlebotomy": lambda: draws.phlebotomy(NOBODY),
        "appointments.psc": lambda: draws.psc(NOBODY),
        "appointments.area_info": lambda: draws.area_info("85004"),
        "appointments.psc_info": lambda: draws.psc_info("85004", -1),
        "appointments.order_psc_info": lambda: draws.order_psc_info(NOBODY),
        "appointments.phlebotomy_cancellation_reasons": draws.phlebotomy_cancellation_reasons,
        "appointments.psc_cancellation_reasons": draws.psc_cancellation_reasons,
        "orders.resend_events": lambda: orders.resend_events([NOBODY]),
        "wearables.providers": wearables.providers,
        "wearables.summaries": lambda: wearables.summaries("sleep", NOBODY, MOMENT),
        "wearables.profile": lambda: wearables.profile(NOBODY),
        "wearables.samples": lambda: wearables.samples("steps", NOBODY, MOMENT),
        "wearables.workout_stream": lambda: wearables.workout_stream(NOBODY),
        "unmatched.list": client.unmatched.list,
        "unmatched.get": lambda: client.unmatched.get(NOBODY),
        "reports.upload": lambda: client.reports.upload(NOBODY, [report]),
        "reports.job": lambda: client.reports.job(NOBODY),
        "management.lab_accounts": lambda: client.management.lab_accounts(),
        "management.webhooks": lambda: client.management.webhooks(TEAM),
        "management.every_webhook": lambda: list(client.management.every_webhook(TEAM)),
        "management.webhook": lambda: client.management.webhook(TEAM, "ep_nobody"),
        "management.webhook_secret": lambda: client.management.webhook_secret(TEAM, "ep_nobody"),
    }


MOMENT = datetime(2026, 6, 1, tzinfo=UTC)


def test_wrong_key_is_denied_everywhere(client: Service, asked_sandbox: Sandbox) -> None:
    """401 of every call, team and management alike, and the words of the service with it."""
    assert set(everything(client)) == calls(client)
    url, org = asked_sandbox.url, "0d4f7c1e-0000-4000-8000-00000000c11c"
    with Service(
        url, "sk_us_wrong", management_url=url, management_key="mg_wrong", management_org_id=org
    ) as stranger:
        for name, call in everything(stranger).items():
            with pytest.raises(errors.Denied) as denied:
                call()
            assert denied.value.status == 401, name
            assert denied.value.message
            assert "wrong" not in f"{denied.value!r}{denied.value}"


def test_keys_do_not_open_the_other_door(asked_sandbox: Sandbox) -> None:
    """Management with the team key, and the team's calls with the management key."""
    url, org = asked_sandbox.url, "0d4f7c1e-0000-4000-8000-00000000c11c"
    with Service(
        url,
        "mg_local_sandbox",
        management_url=url,
        management_key="sk_us_local_sandbox",
        management_org_id=org,
    ) as mixed:
        for call in (mixed.management.lab_accounts, mixed.labs.lab_accounts, mixed.orders.list):
            with pytest.raises(errors.Denied) as denied:
                call()
            assert denied.value.status == 401


def test_another_organisation(asked_sandbox: Sandbox) -> None:
    url = asked_sandbox.url
    with (
        Service(
            url,
            "sk_us_local_sandbox",
            management_url=url,
            management_key="mg_local_sandbox",
            management_org_id=str(NOBODY),
        ) as other,
        pytest.raises(errors.Denied) as denied,
    ):
        other.management.lab_accounts()
    assert denied.value.status == 403


def test_no_management_key_is_no_call(asked_sandbox: Sandbox) -> None:
    with Service(asked_sandbox.url, "sk_us_local_sandbox") as plain, pytest.raises(errors.Denied):
        plain.management.lab_accounts()


def test_unknown_ids_are_missing(client: Service) -> None:
    """404 of every read that names a record; writes have tests of their own."""
    lists = {
        "users.list", "users.historical_pulls", "insurance.search_payors",
        "insurance.search_diagnoses", "labs.labs", "labs.lab_tests", "labs.markers",
        "labs.lab_accounts", "labs.physicians", "orders.list", "appointments.area_info",
        "wearables.providers", "management.lab_accounts", "management.webhooks",
        "management.every_webhook",
        "orders.resend_events", "appointments.phlebotomy_cancellation_reasons",
        "appointments.psc_cancellation_reasons", "unmatched.list",
    }  # fmt: skip
    for name, call in reads(client).items():
        if name in lists:
            call()
            continue
        with pytest.raises(errors.Missing) as missing:
            call()
        assert missing.value.status == 404 and missing.value.message, name
        assert str(NOBODY) not in str(missing.value)


def test_orders_of_another_team(client: Service, asked_sandbox: Sandbox) -> None:
    key = one(asked_sandbox, f"SELECT id FROM sandbox_order WHERE team_id <> '{TEAM}' LIMIT 1")
    with pytest.raises(errors.Denied) as denied:
        client.orders.get(key)
    assert denied.value.status == 403


def test_no_result_yet_is_missing(client: Service, asked_sandbox: Sandbox) -> None:
    key = some_order(asked_sandbox, "result_version = 0")
    with pytest.raises(errors.Missing):
        client.orders.result(key)


REFUSED: list[tuple[Any, tuple[str, ...]]] = [
    (lambda c: c.orders.list(size=101), ("query", "size")),
    (lambda c: c.orders.list(page=0), ("query", "page")),
    (lambda c: c.orders.list(status=["no-such"]), ("query", "status", "0")),
    (lambda c: c.orders.list(order_key="no-such"), ("query", "order_key")),
    (lambda c: c.orders.list(user_id="not-a-uuid"), ("query", "user_id")),
    (lambda c: c.orders.get("not-a-uuid"), ("path", "order_id")),
    (lambda c: c.users.list(limit=501), ("query", "limit")),
    (lambda c: c.labs.markers(size=101), ("query", "size")),
    (lambda c: c.labs.lab_tests(limit=0), ("query", "lab_test_limit")),
    (lambda c: c.appointments.area_info("1234"), ("query", "zip_code")),
    (lambda c: c.appointments.area_info("85004", radius="7"), ("query", "radius")),
    (lambda c: c.users.historical_pulls(provider="nobody"), ("query", "provider")),
    (lambda c: c.wearables.summaries("sleep", NOBODY, "soon"), ("query", "start_date")),
    (lambda c: c.wearables.samples("steps", NOBODY, MOMENT, "soon"), ("query", "end_date")),
    (lambda c: c.reports.job("not-a-uuid"), ("path", "job_id")),
    (lambda c: c.management.webhooks(TEAM, limit=0), ("query", "limit")),
]


@pytest.mark.parametrize(
    ("call", "where"), REFUSED, ids=lambda value: "" if callable(value) else "-".join(value)
)
def test_fields_are_refused_by_name(client: Service, call: Any, where: tuple[str, ...]) -> None:
    """422 names the field, in the service's words, and none of what was sent."""
    with pytest.raises(errors.Refused) as refused:
        call(client)
    assert type(refused.value) is errors.Refused and refused.value.status == 422
    assert [field.loc for field in refused.value.fields] == [where]
    assert all(field.msg for field in refused.value.fields)


def test_cursor_of_another_list(client: Service) -> None:
    cursor = client.labs.lab_tests(2).next_cursor
    user_id = client.users.list(limit=1).records[0].data.user_id
    assert cursor is not None
    for call in (
        lambda: client.labs.lab_tests(2, cursor, name="other"),
        lambda: client.labs.lab_tests(2, "garbage"),
        lambda: client.users.historical_pulls(next_cursor=cursor),
        lambda: client.wearables.samples("steps", user_id, MOMENT, next_cursor="garbage"),
    ):
        with pytest.raises(errors.Refused) as refused:
            call()
        assert refused.value.status == 400 and refused.value.message
