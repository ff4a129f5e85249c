"""What each write sends, and that its outcome is told truly whatever comes back: once, never
twice."""

from __future__ import annotations

import json
import logging
import time
import traceback
from typing import Any

import pytest

from backoffice.service import Record, Service, errors

from .conftest import MANAGEMENT_KEY, TEAM_KEY, Slept
from .faulty import Answer, Faulty, answer, cut_short, drip, reset, says, silence
from .sample_bodies import ACCOUNT, KEY, NAME, ORDER, PLACED, U1, U2, VISIT
from .writes import LOOKUPS, WRITES, Write

each_write = pytest.mark.parametrize("write", WRITES.values(), ids=list(WRITES))
each_look_up = pytest.mark.parametrize("write", LOOKUPS.values(), ids=list(LOOKUPS))
BODY_HEADERS = ("x-idempotency-key", "x-idempotency-error")


def answers(write: Write) -> Answer:
    return answer(b"", 204) if write.answer is None else says(write.answer)


@pytest.mark.parametrize("write", [*WRITES.values(), *LOOKUPS.values()], ids=[*WRITES, *LOOKUPS])
def test_what_is_sent(service: Service, remote: Faulty, write: Write) -> None:
    remote.then(answers(write))
    write.call(service)
    (request,) = remote.requests
    assert (request.method, request.target) == (write.method, write.target)
    if write.body is None:
        assert request.body == b"" and "content-type" not in request.headers
    else:
        assert request.headers["content-type"] == "application/json"
        assert json.loads(request.body) == write.body
    sent = {name: request.headers[name] for name in BODY_HEADERS if name in request.headers}
    assert sent == dict(write.headers)
    managed = request.headers.get("x-management-key"), request.headers.get("x-service-api-key")
    by_management = write.target.startswith("/v1/")
    assert managed == ((MANAGEMENT_KEY, None) if by_management else (None, TEAM_KEY))


def test_the_path_of_order_creation_is_a_setting(remote: Faulty) -> None:
    remote.then(says(PLACED))
    with Service(remote.url, TEAM_KEY, order_create_path="/v3/order") as service:
        for one in (service, service.within(3)):
            WRITES["orders.create"].call(one)
    assert [request.target for request in remote.requests] == ["/v3/order", "/v3/order"]


def test_the_record_inside_an_answer_is_kept_as_it_came(service: Service, remote: Faulty) -> None:
    raw = json.dumps(ORDER | {"new": "\u00e9"}, indent=1).encode()
    remote.then(answer(b'{"status":"success", "order" : ' + raw + b', "message":"m"}'))
    record = WRITES["orders.create"].call(service)
    assert isinstance(record, Record)
    assert record.raw == raw and record.data.id == U2


@pytest.mark.parametrize("status", [200, 201, 202])
def test_what_a_write_answers_is_a_record(service: Service, remote: Faulty, status: int) -> None:
    remote.then(says(VISIT, status))
    booked = WRITES["appointments.book_psc"].call(service)
    assert booked.data.order_id == U2 and json.loads(booked.raw) == VISIT


# What comes back when it does not go well

LOST: dict[str, Answer] = {
    "500": says({"detail": "later"}, 500),
    "502": answer(b"<html>", 502, "text/html"),
    "503": says({"detail": "later"}, 503, Retry_After="0"),
    "503 without words": answer(b"", 503),
    "504": says({}, 504),
    "408": says({}, 408),
    "html": answer(b"<html>", kind="text/html"),
    "cut": answer(b'{"order": {'),
    "empty": answer(b""),
    "list": says([]),
    "number": says(7),
    "bytes": answer(b'{"id": "\xff"}'),
    "hung up": cut_short(b'{"order": {"id": "22222222-0000-4000-8000-000000000001"}}'),
    "reset": reset,
    "206": says({}, 206),
    "203": says({}, 203),
    "302": says({}, 302, Location="/elsewhere"),
    "303": says({}, 303, Location="/elsewhere"),
    "307": says({}, 307, Location="/v3/order/create/"),
    "304": answer(b"", 304),
    "unknown packing": answer(b"{}", Content_Encoding="br"),
}
WITHOUT_RECORD = ("simulate", "update", "deregister")
"""Writes whose answer holds nothing, so that any JSON will do."""


@each_write
def test_without_a_certain_answer_it_is_uncertain(
    service: Service, remote: Faulty, slept: Slept, write: Write
) -> None:
    whatever = write.answer is None or write.call(_asked(service, remote, write)) is None
    for name, lost in LOST.items():
        if whatever and name in ("list", "number", "empty"):
            continue
        remote.script.clear()
        remote.requests.clear()
        remote.then(lost)
        with pytest.raises(errors.Uncertain) as caught:
            write.call(service)
        assert type(caught.value) is errors.Uncertain, name
        assert len(remote.requests) == 1 and slept.seconds == [], name
        assert caught.value.trace_id == remote.requests[0].headers["traceparent"].split("-")[1]
        assert caught.value.failed == name.startswith("50"), name


def _asked(service: Service, remote: Faulty, write: Write) -> Service:
    remote.then(answers(write))
    return service


@each_write
@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, errors.Refused),
        (401, errors.Denied),
        (403, errors.Denied),
        (404, errors.Missing),
        (405, errors.Refused),
        (409, errors.Refused),
        (410, errors.Refused),
        (413, errors.Refused),
        (422, errors.Refused),
        (429, errors.Limited),
    ],
)
def test_a_refusal_keeps_the_services_words(
    service: Service,
    remote: Faulty,
    slept: Slept,
    write: Write,
    status: int,
    kind: type[errors.ServiceError],
) -> None:
    remote.then(says({"detail": "not like this"}, status, Retry_After="7"))
    with pytest.raises(errors.ServiceError) as caught:
        write.call(service)
    if status == 409 and write.headers:  # an earlier request with the key may yet succeed
        kind = errors.Uncertain
    assert type(caught.value) is kind and caught.value.status == status
    assert caught.value.message == "not like this"
    assert len(remote.requests) == 1 and slept.seconds == []
    if isinstance(caught.value, errors.Limited):
        assert caught.value.retry_after == 7


@each_write
def test_fields_are_named(service: Service, remote: Faulty, write: Write) -> None:
    detail = [
        {"loc": ["body", "patient_address", "zip"], "msg": "too short", "input": NAME},
        {"loc": ["path", "order_id"], "msg": "no id"},
        {"loc": ["aoe_answers", 0, "answer"], "msg": "missing"},
        {"loc": [], "msg": "as a whole"},
    ]
    remote.then(says({"detail": detail}, 422))
    with pytest.raises(errors.Refused) as caught:
        write.call(service)
    assert [(one.path, one.msg) for one in caught.value.fields] == [
        ("patient_address.zip", "too short"),
        ("order_id", "no id"),
        ("aoe_answers.0.answer", "missing"),
        ("", "as a whole"),
    ]


@each_write
def test_nobody_listening_means_it_never_left(slept: Slept, write: Write) -> None:
    with (
        Service(
            "http://127.0.0.1:1",
            TEAM_KEY,
            management_url="http://127.0.0.1:1",
            management_key=MANAGEMENT_KEY,
            management_org_id="x",
            clock=slept.clock(),
        ) as service,
        pytest.raises(errors.Unreachable) as caught,
    ):
        write.call(service)
    assert type(caught.value) is errors.Unreachable and slept.seconds == []


def test_without_a_safe_line_it_never_left(remote: Faulty) -> None:
    """The other side does not speak TLS."""
    remote.then(says(PLACED))
    with (
        Service(remote.url.replace("http:", "https:"), TEAM_KEY) as service,
        pytest.raises(errors.Unreachable) as caught,
    ):
        WRITES["orders.create"].call(service)
    assert type(caught.value) is errors.Unreachable
    assert remote.requests == []


@pytest.mark.parametrize(
    "slow", [drip(0.02), drip(0.02, before_headers=True), silence(3)], ids=["body", "head", "none"]
)
def test_the_deadline_of_a_write_is_total(remote: Faulty, slow: Answer) -> None:
    remote.then(slow)
    with Service(remote.url, TEAM_KEY, write_deadline=0.5) as service:
        started = time.monotonic()
        with pytest.raises(errors.Uncertain):
            WRITES["orders.create"].call(service)
        assert 0.4 < time.monotonic() - started < 2.5
    assert len(remote.requests) == 1


def test_a_write_has_more_time_than_a_read(remote: Faulty) -> None:
    def slow(handler: Any) -> None:
        time.sleep(0.8)
        says(PLACED)(handler)

    remote.then(slow)
    with Service(remote.url, TEAM_KEY, deadline=0.3) as service:
        assert WRITES["orders.create"].call(service).data.id == U2
        with pytest.raises(errors.Unreachable):
            service.orders.get(U2)


def test_a_write_is_not_sent_on_a_tired_connection(service: Service, remote: Faulty) -> None:
    """The service hangs up when a second call comes on the same connection."""

    def once(handler: Any) -> None:
        if getattr(handler, "answered", False):
            handler.close_connection = True
            return
        handler.answered = True
        says({**PLACED, **ORDER})(handler)

    remote.then(once)
    for _ in range(3):
        assert service.orders.get(U2).data.id == U2
        assert WRITES["orders.create"].call(service).data.id == U2
    assert len([one for one in remote.requests if one.method == "POST"]) == 3
    assert len([one for one in remote.requests if one.method == "GET"]) == 5


# Answers with a meaning of their own


def test_a_taken_reference_names_its_user(service: Service, remote: Faulty) -> None:
    detail = {
        "error_type": "INVALID_REQUEST",
        "error_message": "Client user id already exists.",
        "user_id": str(U1),
        "created_on": "2026-01-01T10:00:00+00:00",
    }
    remote.then(
        says({"detail": detail}, 400),
        says({"detail": detail | {"user_id": "nonsense"}}, 400),
        says({"detail": detail | {"user_id": None}}, 400),
        says({"success": False, "user_id": str(U1), "error": "sources"}, 400),
    )
    with pytest.raises(errors.Duplicate) as caught:
        WRITES["users.create"].call(service)
    assert caught.value.existing_id == U1
    assert caught.value.message == "Client user id already exists."
    assert str(U1) not in f"{caught.value}{caught.value!r}"
    for _ in range(3):
        with pytest.raises(errors.Refused) as plain:
            WRITES["users.create"].call(service)
        assert type(plain.value) is errors.Refused and plain.value.message


@pytest.mark.parametrize(
    ("words", "kind"),
    [
        ("PSC scheduling is not enabled for this team", errors.NotEnabled),
        ("Scheduling has not been Enabled.", errors.NotEnabled),
        ("Feature disabled", errors.NotEnabled),
        ("Service overloaded, try again", errors.Uncertain),
        ("", errors.Uncertain),
    ],
)
def test_what_is_not_enabled_is_refused(
    service: Service, remote: Faulty, words: str, kind: type[errors.ServiceError]
) -> None:
    remote.then(says({"detail": words}, 503))
    for verb in ("book_psc", "reschedule_psc", "cancel_psc"):
        with pytest.raises(errors.ServiceError) as caught:
            WRITES[f"appointments.{verb}"].call(service)
        assert type(caught.value) is kind and caught.value.message == words
    with pytest.raises(errors.Uncertain):
        WRITES["appointments.book_phlebotomy"].call(service)


def test_success_false_is_a_refusal(service: Service, remote: Faulty) -> None:
    remote.then(says({"success": False, "message": "not this one"}))
    with pytest.raises(errors.Refused) as caught:
        service.users.deregister(U1, "watch")
    assert caught.value.message == "not this one"


@pytest.mark.parametrize(
    "nothing", [answer(b"", 204), answer(b"", 200, ""), says(None), says({}), says([1])]
)
def test_a_write_may_answer_with_nothing(service: Service, remote: Faulty, nothing: Answer) -> None:
    remote.then(nothing)
    assert WRITES["users.update"].call(service) is None
    assert WRITES["orders.simulate"].call(service) is None


def test_an_allowlist_may_be_answered_with_null(service: Service, remote: Faulty) -> None:
    write = WRITES["management.set_allowlist"]
    remote.then(says({"lab_account": None}), says({"lab_account": ACCOUNT}), says({"other": 1}))
    assert write.call(service) is None
    record = write.call(service)
    assert record is not None and record.data.id == U1 and json.loads(record.raw) == ACCOUNT
    with pytest.raises(errors.Uncertain):
        write.call(service)


@pytest.mark.parametrize("key", ["", " ", "a ", "a\n", "x" * 256, "\u00e9", "a\x00"])
def test_an_impossible_key_is_not_sent(service: Service, remote: Faulty, key: str) -> None:
    remote.then(says(VISIT))
    with pytest.raises(ValueError, match="idempotency key"):
        service.appointments.book_psc(U2, "bk", idempotency_key=key)
    assert remote.requests == []
    service.appointments.book_psc(U2, "bk", idempotency_key="x" * 255)
    assert remote.requests[0].headers["x-idempotency-key"] == "x" * 255


# Look-ups: they only ask


@each_look_up
def test_a_look_up_is_asked_again(
    service: Service, remote: Faulty, slept: Slept, write: Write
) -> None:
    remote.then(says({}, 503), reset, answers(write))
    write.call(service)
    assert len(remote.requests) == 3 and len(slept.seconds) == 2
    assert len({request.body for request in remote.requests}) == 1


@each_look_up
@pytest.mark.parametrize(
    ("bad", "kind"),
    [
        (says({"detail": "no"}, 500), errors.Unreachable),
        (says({"detail": "no"}, 404), errors.Missing),
        (says({"detail": "no"}, 400), errors.Refused),
        (says({}, 201), errors.Malformed),
        (says(7), errors.Malformed),
        (says({"other": []}), errors.Malformed),
        (answer(b"<html>", kind="text/html"), errors.Malformed),
        (says({}, 307, Location="/elsewhere"), errors.Redirected),
        (reset, errors.Unreachable),
    ],
    ids=lambda one: getattr(one, "__name__", "answer"),
)
def test_a_look_up_changes_nothing(
    service: Service, remote: Faulty, write: Write, bad: Answer, kind: type[errors.ServiceError]
) -> None:
    remote.then(bad)
    with pytest.raises(kind) as caught:
        write.call(service)
    assert type(caught.value) is kind


def test_a_person_does_not_wait_long(remote: Faulty, slept: Slept) -> None:
    """Half a minute asked for is more than the five seconds there are."""
    remote.then(says({}, 503, Retry_After="6"))

    def reasons(service: Service) -> Any:
        return service.appointments.psc_cancellation_reasons()

    with Service(remote.url, TEAM_KEY, clock=slept.clock()) as service:
        for call in (*(one.call for one in LOOKUPS.values()), reasons):
            with pytest.raises(errors.Unreachable):
                call(service)
    assert len(remote.requests) == len(LOOKUPS) + 1 and slept.seconds == []


def test_slots_know_their_zone(service: Service, remote: Faulty) -> None:
    slot = {
        "booking_key": "bk",
        "start": "2026-03-08T14:00:00",
        "end": "2026-03-08T16:00:00Z",
        "expires_at": None,
        "price": 990,
        "is_priority": False,
        "num_appointments_available": 2,
    }
    site = {
        "location": {"lng": -112.0, "lat": 33.4},
        "distance": 3,
        "address": {"first_line": "1 Made Up", "city": "P", "state": "AZ", "zip_code": "85004"},
        "code": "S1",
        "name": "Made Up Center",
        "iana_timezone": "America/Denver",
    }
    days = [
        {"date": "2026-03-08", "slots": [slot]},
        {"date": "2026-03-09T00:00:00", "slots": [], "location": site},
    ]
    remote.then(says({"slots": days, "timezone": "America/Phoenix"}))
    found = LOOKUPS["appointments.phlebotomy_availability"].call(service).data
    first, second = found.slots
    assert [found.zone_of(one) for one in (first, second)] == ["America/Phoenix", "America/Denver"]
    assert str(second.date) == "2026-03-09" and second.location.code == "S1"
    (time_slot,) = first.slots
    assert time_slot.start.isoformat() == "2026-03-08T14:00:00+00:00"
    assert (time_slot.booking_key, time_slot.places, time_slot.price) == ("bk", 2, 990)


# Nothing personal anywhere

CANARIES = (TEAM_KEY, MANAGEMENT_KEY, NAME, KEY, str(U1), str(U2))


@each_write
def test_a_write_leaks_nothing(
    service: Service, remote: Faulty, caplog: pytest.LogCaptureFixture, write: Write
) -> None:
    caplog.set_level(logging.DEBUG)
    told = []
    for fault in (
        says({"detail": f"{NAME} is refused"}, 400),
        says({"detail": [{"loc": ["body", NAME], "msg": NAME, "input": NAME}]}, 422),
        says({"detail": NAME}, 500),
        answer(f'"{NAME}'.encode()),
        says({"order": {"id": NAME}, "lab_account": {"id": NAME}, "id": NAME, "success": False}),
        reset,
    ):
        remote.script.clear()
        remote.then(fault)
        with pytest.raises(errors.ServiceError) as caught:
            write.call(service)
        fields = getattr(caught.value, "fields", ())
        told.append(f"{caught.value}{caught.value!r}{fields!r}")
        told += traceback.format_exception(caught.value)
    written = "\n".join(told + [record.getMessage() for record in caplog.records])
    # The source lines that a traceback quotes are ours: they hold names of values, no values.
    assert not [one for one in CANARIES if one.lower() in written.lower()]
