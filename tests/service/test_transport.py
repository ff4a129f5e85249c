"""The client against a real server that misbehaves."""

from __future__ import annotations

import logging
import time
import tracemalloc
import uuid
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest

from backoffice.service import Clock, Service, errors
from backoffice.service.transport import CONNECTIONS

from .conftest import MANAGEMENT_KEY, TEAM_KEY, Slept
from .faulty import (
    Answer,
    Faulty,
    answer,
    bomb,
    cut_short,
    drip,
    endless,
    reset,
    says,
    serving,
    silence,
    zipped,
)

USER: dict[str, Any] = {
    "user_id": "11111111-0000-4000-8000-000000000001",
    "team_id": "7ea00000-0000-4000-8000-000000000001",
    "client_user_id": "patient-1",
    "created_on": "2026-01-01T10:00:00Z",
    "connected_sources": [],
    "fallback_time_zone": None,
}
USERS = {"users": [USER], "total": 1, "offset": 0, "limit": 500}
USER_ID = uuid.UUID(USER["user_id"])


def test_a_page_arrives_with_its_bytes_and_clocks(service: Service, remote: Faulty) -> None:
    raw = b'{ "user_id":"11111111-0000-4000-8000-000000000001", "client_user_id" : "\\u00e9" ,'
    raw += b'"created_on":"2026-01-01T10:00:00", "new":[1, 2 ] }'
    remote.then(answer(b'{"users":[ ' + raw + b' ],"total":"7","next_cursor":null}'))
    before = datetime.now(UTC)
    page = service.users.list()
    (record,) = page.records
    assert record.raw == raw
    assert record.data.client_user_id == "\u00e9"
    assert record.data.created_on == datetime(2026, 1, 1, 10, tzinfo=UTC)
    assert before <= record.asked_at == page.asked_at <= datetime.now(UTC)
    assert (page.total, page.next_cursor, page.unreadable) == (7, None, [])
    assert page.server_date is not None and abs(page.server_date - before) < timedelta(seconds=5)


def test_one_bad_record_does_not_spoil_the_page(service: Service, remote: Faulty) -> None:
    bad = USER | {"created_on": {"at": "2026"}}
    remote.then(says({"users": [USER, bad, "x", None, USER]}))
    page = service.users.list()
    assert len(page.records) == 2
    assert [(one.path, one.reason) for one in page.unreadable] == [
        ("$.created_on", "Expected `datetime`, got `object`"),
        ("$", "Expected `object`, got `str`"),
        ("$", "Expected `object`, got `null`"),
    ]
    assert page.unreadable[1].raw == b'"x"'


def test_a_bad_single_record_is_an_error_that_keeps_it(service: Service, remote: Faulty) -> None:
    remote.then(says({"unexpected": True}))
    with pytest.raises(errors.Malformed) as caught:
        service.users.get(USER_ID)
    assert caught.value.unreadable is not None
    assert caught.value.unreadable.raw == b'{"unexpected": true}'
    assert isinstance(caught.value, errors.Unreachable)


def test_what_is_sent(service: Service, remote: Faulty) -> None:
    remote.then(says(USERS), says(USERS), says({"orders": []}))
    service.users.list(offset=5, limit=7)
    service.users.list()
    service.orders.list(
        status=["ordered", "completed"],
        is_critical=False,
        updated_start_date=datetime(2026, 1, 2, 3, 4, 5),
        updated_end_date=datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC) + timedelta(microseconds=1),
        order_ids=[USER_ID],
        patient_name="A&B ü",
    )
    first, second, third = remote.requests
    assert first.target == "/v2/user/?offset=5&limit=7"
    assert third.target == (
        "/v3/orders?updated_start_date=2026-01-02T03%3A04%3A05Z"
        "&updated_end_date=2026-01-02T03%3A04%3A05.000001Z&status=ordered&status=completed"
        f"&is_critical=false&patient_name=A%26B%20%C3%BC&order_ids={USER_ID}&page=1&size=100"
    ).replace("A%26B%20", "A%26B+")
    assert first.headers["x-service-api-key"] == TEAM_KEY
    assert first.headers["accept-encoding"] == "gzip"
    traces = [one.headers["traceparent"].split("-") for one in remote.requests]
    assert all(len(t) == 4 and t[0] == "00" and len(t[1]) == 32 and len(t[2]) == 16 for t in traces)
    assert traces[0][1] != traces[1][1]
    assert "cookie" not in second.headers


def test_path_values_cannot_leave_their_place(service: Service, remote: Faulty) -> None:
    remote.then(says(USER))
    for value in ("a/b?c#d", "..", ".", "x y%2e"):
        service.users.resolve(value)
    assert [one.target for one in remote.requests] == [
        "/v2/user/resolve/a%2Fb%3Fc%23d",
        "/v2/user/resolve/%2E%2E",
        "/v2/user/resolve/%2E",
        "/v2/user/resolve/x%20y%252e",
    ]
    with pytest.raises(ValueError, match="empty path value"):
        service.users.resolve("")


def test_no_cookie_is_kept(service: Service, remote: Faulty) -> None:
    remote.then(says(USERS, Set_Cookie="a=b"), says(USERS))
    service.users.list()
    service.users.list()
    assert "cookie" not in remote.requests[1].headers


def test_each_interface_has_its_own_key_only(service: Service, remote: Faulty) -> None:
    remote.then(says({"data": []}))
    service.management.lab_accounts(status="active")
    service.labs.lab_accounts()
    managed, team = remote.requests
    assert managed.target == (
        "/v1/org/0d4f7c1e-0000-4000-8000-00000000c11c/lab_account/sandbox/us?status=active"
    )
    assert managed.headers["x-management-key"] == MANAGEMENT_KEY
    assert TEAM_KEY not in managed.headers.values()
    assert MANAGEMENT_KEY not in team.headers.values()


def test_without_management_settings_nothing_is_called(remote: Faulty) -> None:
    with Service(remote.url, TEAM_KEY) as service, pytest.raises(errors.Denied):
        service.management.lab_accounts()
    assert remote.requests == []


# Retries


@pytest.mark.parametrize("status", [500, 502, 503, 504])
def test_a_read_is_tried_again_on_5xx(
    service: Service, remote: Faulty, slept: Slept, status: int
) -> None:
    remote.then(says({}, status), says({}, status), says(USERS))
    assert len(service.users.list().records) == 1
    assert len(slept.seconds) == 2
    assert 0.125 <= slept.seconds[0] <= 0.25 <= slept.seconds[1] <= 0.5
    traces = {one.headers["traceparent"].split("-")[1] for one in remote.requests}
    assert len(traces) == 1


def test_three_times_500_is_unreachable(service: Service, remote: Faulty) -> None:
    remote.then(says({"detail": "x"}, 500, X_Request_Id="req-1"))
    with pytest.raises(errors.Unreachable) as caught:
        service.users.list()
    assert len(remote.requests) == 3
    assert (caught.value.status, caught.value.request_id) == (500, "req-1")
    assert caught.value.trace_id == remote.requests[0].headers["traceparent"].split("-")[1]


@pytest.mark.parametrize("status", [400, 401, 403, 404, 409, 418, 422])
def test_a_refusal_is_not_tried_again(service: Service, remote: Faulty, status: int) -> None:
    remote.then(says({"detail": "no"}, status))
    with pytest.raises(errors.ServiceError):
        service.users.list()
    assert len(remote.requests) == 1


def http_date(seconds: float) -> str:
    return format_datetime(datetime.now(UTC) + timedelta(seconds=seconds), usegmt=True)


@pytest.mark.parametrize(
    ("headers", "waits"),
    [
        (lambda: {"Retry_After": "3"}, (3, 3)),
        (lambda: {"Retry_After": "1.5"}, (1.5, 1.5)),
        (lambda: {"Retry_After": "0"}, (0, 0)),
        (lambda: {"retry_after_ms": "250"}, (0.25, 0.25)),
        (lambda: {"Retry_After": http_date(4)}, (2.5, 5)),
        (lambda: {"Retry_After": http_date(-60)}, (0, 0)),
        (lambda: {"Retry_After": "-1"}, (0.1, 0.25)),
        (lambda: {"Retry_After": "soon"}, (0.1, 0.25)),
        (lambda: {"Retry_After": "nan"}, (0.1, 0.25)),
        (dict, (0.1, 0.25)),
    ],
)
def test_retry_after_is_honoured(
    service: Service,
    remote: Faulty,
    slept: Slept,
    headers: Callable[[], dict[str, str]],
    waits: tuple[float, float],
) -> None:
    remote.then(says({}, 429, **headers()), says(USERS))
    service.users.list()
    assert waits[0] <= slept.seconds[0] <= waits[1]


@pytest.mark.parametrize(
    ("asked", "capped"), [("120", 120.0), ("99999999", 300.0), ("1e400", 5.0), ("-1", 5.0)]
)
def test_a_long_wait_is_handed_to_the_caller(remote: Faulty, asked: str, capped: float) -> None:
    remote.then(says({}, 429, Retry_After=asked))
    with Service(remote.url, TEAM_KEY, attempts=1) as service:
        started = time.monotonic()
        with pytest.raises(errors.Limited) as caught:
            service.users.list()
    assert caught.value.retry_after == capped
    assert time.monotonic() - started < 2


def test_a_wait_beyond_the_deadline_is_not_slept(
    service: Service, remote: Faulty, slept: Slept
) -> None:
    remote.then(says({}, 429, Retry_After=http_date(3600)))
    with pytest.raises(errors.Limited) as caught:
        service.users.list()
    assert (caught.value.retry_after, slept.seconds, len(remote.requests)) == (300.0, [], 1)


def test_503_keeps_its_wait(service: Service, remote: Faulty, slept: Slept) -> None:
    remote.then(says({}, 503, Retry_After="60"))
    with pytest.raises(errors.Unreachable) as caught:
        service.users.list()
    assert (caught.value.retry_after, slept.seconds) == (60.0, [])


def test_a_reset_connection_is_tried_again(service: Service, remote: Faulty) -> None:
    remote.then(reset, reset, says(USERS))
    assert len(service.users.list().records) == 1


def test_a_body_cut_short_is_tried_again(service: Service, remote: Faulty) -> None:
    remote.then(cut_short(b'{"users": []}'), says(USERS))
    assert len(service.users.list().records) == 1


def test_nobody_listening_is_unreachable(slept: Slept) -> None:
    with serving() as gone:
        url = gone.here.url
    client = Service(url, TEAM_KEY, clock=slept.clock())
    with client as service, pytest.raises(errors.Unreachable) as caught:
        service.users.list()
    assert caught.value.status is None
    assert len(slept.seconds) == 2


# Answers that are none


@pytest.mark.parametrize(
    "nonsense",
    [
        answer(b"<html>busy</html>", kind="text/html"),
        answer(b"<html>busy</html>"),
        answer(b'{"users": [{"user_id": '),
        answer(b'{"users": []}', kind="text/plain"),
        answer(b'{"users": null}'),
        answer(b'{"people": []}'),
        answer(b"[]"),
        answer(b""),
        answer(b'{"users":' + b"[" * 200_000),
        answer(b'{"users": []}', status=206),
        answer(b"", status=204),
        answer(b'{"users": []}', Content_Encoding="gzip"),
        answer(b'{"users": []}', Content_Encoding="br"),
    ],
    ids=lambda one: "answer",
)
def test_nonsense_is_malformed(service: Service, remote: Faulty, nonsense: Answer) -> None:
    remote.then(nonsense)
    with pytest.raises(errors.Malformed) as caught:
        service.users.list()
    assert caught.value.trace_id
    assert len(remote.requests) == 1


def test_gzip_is_read(service: Service, remote: Faulty) -> None:
    remote.then(zipped(USERS | {"pad": "x" * 300_000}))
    assert len(service.users.list().records) == 1


@pytest.mark.parametrize("huge", [bomb(200), endless("application/json")])
def test_too_large_is_refused_early(service: Service, remote: Faulty, huge: Answer) -> None:
    remote.then(huge)
    tracemalloc.start()
    try:
        with pytest.raises(errors.Malformed, match="too large"):
            service.users.list()
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 40 * 1024 * 1024


# Time


@pytest.mark.parametrize(
    "slow", [drip(0.02), drip(0.02, before_headers=True), silence(5)], ids=["body", "head", "none"]
)
def test_the_deadline_is_total(remote: Faulty, slow: Answer) -> None:
    remote.then(slow)
    with Service(remote.url, TEAM_KEY, deadline=0.6) as service:
        started = time.monotonic()
        with pytest.raises(errors.Unreachable):
            service.users.list()
        assert 0.5 < time.monotonic() - started < 4


def test_within_shortens_the_deadline(remote: Faulty) -> None:
    remote.then(drip(0.02))
    with Service(remote.url, TEAM_KEY) as service:
        started = time.monotonic()
        with pytest.raises(errors.Unreachable):
            service.within(0.4).users.list()
        assert time.monotonic() - started < 4


# Redirects


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_elsewhere_is_refused_and_the_key_stays(
    service: Service, remote: Faulty, status: int
) -> None:
    with serving() as other:
        elsewhere = other.here.then(says(USERS))
        remote.then(answer(b"", status, Location=elsewhere.url + "/v2/user"))
        with pytest.raises(errors.Redirected):
            service.users.list()
        assert elsewhere.requests == []
    assert len(remote.requests) == 1


@pytest.mark.parametrize("location", ["/v2/user", "/v2/user?offset=0&limit=500", "{url}/v2/user"])
def test_a_missing_or_extra_slash_is_followed_once(
    service: Service, remote: Faulty, location: str
) -> None:
    remote.then(answer(b"", 307, Location=location.format(url=remote.url)), says(USERS))
    assert len(service.users.list().records) == 1
    assert [one.target for one in remote.requests] == [
        "/v2/user/?offset=0&limit=500",
        "/v2/user?offset=0&limit=500",
    ]


@pytest.mark.parametrize(
    "location",
    [
        "/v2/users",
        "/v2/user/?offset=0&limit=500",
        "/v2/user?offset=0&limit=1",
        "https://127.0.0.1/v2/user",
        "//user:pw@{host}/v2/user",
        "//example.invalid/v2/user",
        "\\\\example.invalid/v2/user",
        "",
        "http://[",
    ],
)
def test_any_other_redirect_is_refused(service: Service, remote: Faulty, location: str) -> None:
    host = remote.url.removeprefix("http://")
    remote.then(answer(b"", 302, Location=location.format(host=host)), says(USERS))
    with pytest.raises(errors.Redirected):
        service.users.list()
    assert len(remote.requests) == 1


def test_slashes_do_not_ping_pong(service: Service, remote: Faulty) -> None:
    remote.then(
        answer(b"", 307, Location="/v2/user"), answer(b"", 307, Location="/v2/user/"), says(USERS)
    )
    with pytest.raises(errors.Redirected):
        service.users.list()
    assert len(remote.requests) == 2


# Documents


def test_a_pdf_streams(service: Service, remote: Faulty) -> None:
    body = b"%PDF-1.7\n" + b"x" * 500_000
    remote.then(answer(body, kind="application/pdf"))
    with service.orders.labels_pdf(USER_ID, datetime(2026, 1, 2, tzinfo=UTC)) as document:
        assert (document.content_type, document.length) == ("application/pdf", len(body))
        assert b"".join(document) == body
    assert remote.requests[0].headers["accept"] == "application/pdf"
    assert remote.requests[0].target.endswith(
        "/labels/pdf?collection_date=2026-01-02T00%3A00%3A00Z&number_of_labels=3"
    )


def test_json_instead_of_a_pdf_is_malformed(service: Service, remote: Faulty) -> None:
    remote.then(says({"url": "x"}))
    with pytest.raises(errors.Malformed), service.orders.result_pdf(USER_ID):
        pass


def test_an_endless_pdf_is_cut_at_its_limit(service: Service, remote: Faulty) -> None:
    remote.then(endless("application/pdf"))
    size = 0
    too_large = pytest.raises(errors.Malformed, match="too large")
    with too_large, service.orders.result_pdf(USER_ID) as document:
        for chunk in document:
            size += len(chunk)
    assert 29 * 1024 * 1024 < size <= 30 * 1024 * 1024


def test_a_pdf_that_breaks_off_is_unreachable(service: Service, remote: Faulty) -> None:
    def half(handler: Any) -> None:
        handler.head(200, {"Content-Type": "application/pdf", "Content-Length": "1000"})
        handler.wfile.write(b"%PDF-")
        handler.close_connection = True

    remote.then(half)
    with pytest.raises(errors.Unreachable), service.orders.result_pdf(USER_ID) as document:
        list(document)


def test_a_missing_pdf_is_missing(service: Service, remote: Faulty) -> None:
    remote.then(says({"detail": "no result yet"}, 404))
    with pytest.raises(errors.Missing) as caught, service.orders.result_pdf(USER_ID):
        pass
    assert caught.value.message == "no result yet"


def test_the_connection_is_kept(service: Service, remote: Faulty) -> None:
    """Over successes, refusals and busy answers alike."""
    ports: list[int] = []

    def noted(give: Answer) -> Answer:
        def note(handler: Any) -> None:
            ports.append(handler.client_address[1])
            give(handler)

        return note

    remote.then(noted(says({"detail": "busy"}, 503)), noted(says({}, 429)), noted(says(USERS)))
    remote.then(noted(says({"detail": "none"}, 404)), noted(says(USERS)))
    service.users.list()
    with pytest.raises(errors.Missing):
        service.users.list()
    service.users.list()
    assert len(ports) == 5
    assert len(set(ports)) == 1


def test_an_interrupted_call_gives_its_connection_back(remote: Faulty) -> None:
    class TimeLimit(BaseException):
        pass

    def now() -> datetime:
        moments.append(datetime.now(UTC))
        if len(moments) == 2:  # the head of a busy answer is here, its body is not read yet
            raise TimeLimit
        return moments[-1]

    moments: list[datetime] = []
    busy = says({"detail": "busy"}, 503)
    remote.then(*[busy] * (CONNECTIONS + 1), says(USERS))
    with Service(remote.url, TEAM_KEY, clock=Clock(now=now), deadline=2) as service:
        for _ in range(CONNECTIONS + 1):
            moments.clear()
            with pytest.raises(TimeLimit):
                service.users.list()
        assert len(service.users.list().records) == 1


def test_each_call_is_logged_without_its_ids(
    service: Service, remote: Faulty, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    remote.then(says(USER))
    service.users.get(USER_ID)
    (record,) = [one for one in caplog.records if one.name == "backoffice.service"]
    trace = remote.requests[0].headers["traceparent"].split("-")[1]
    assert record.getMessage().startswith("GET /v2/user/{user_id} 200 ")
    assert record.getMessage().endswith(f" ms trace {trace}")
