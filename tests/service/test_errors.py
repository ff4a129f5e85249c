"""Error bodies of every documented shape become one tree with the service's words."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from backoffice.service import Service, errors

from .faulty import Faulty, answer, says

ORDER_ID = "11111111-0000-4000-8000-000000000001"


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, errors.Refused),
        (401, errors.Denied),
        (403, errors.Denied),
        (404, errors.Missing),
        (409, errors.Refused),
        (410, errors.Refused),
        (413, errors.Refused),
        (422, errors.Refused),
        (429, errors.Limited),
        (408, errors.Unreachable),
        (500, errors.Unreachable),
        (503, errors.Unreachable),
        (599, errors.Unreachable),
    ],
)
def test_statuses(
    service: Service, remote: Faulty, status: int, kind: type[errors.ServiceError]
) -> None:
    remote.then(says({"detail": "text"}, status))
    with pytest.raises(errors.ServiceError) as caught:
        service.orders.get(ORDER_ID)
    assert type(caught.value) is kind
    assert caught.value.status == status
    assert caught.value.route == "GET /v3/order/{order_id}"


@pytest.mark.parametrize(
    ("body", "message", "fields"),
    [
        ({"detail": "The order is not walk-in"}, "The order is not walk-in", []),
        (
            {"detail": {"error_type": "DUPLICATE", "error_message": "known", "user_id": ORDER_ID}},
            "known",
            [],
        ),
        ({"detail": {"message": "no"}}, "no", []),
        (
            {"success": False, "user_id": ORDER_ID, "error": "sources", "failed_sources": []},
            "sources",
            [],
        ),
        (
            {"error": "Bad Request", "message": "cannot cancel", "status_code": 400},
            "cannot cancel",
            [],
        ),
        (
            {
                "detail": [
                    {"loc": ["query", "size"], "msg": "too big", "type": "x", "input": "CANARY"},
                    {"loc": ["body", 0, "a"], "msg": "wrong", "type": "x", "ctx": {"v": "CANARY"}},
                    {"loc": "path", "msg": "one"},
                    {"msg": "nowhere"},
                    {"loc": ["query"]},
                    "and this",
                ]
            },
            "and this",
            [
                (("query", "size"), "too big"),
                (("body", "0", "a"), "wrong"),
                (("path",), "one"),
                ((), "nowhere"),
            ],
        ),
        ({"detail": 7}, "", []),
        ({"detail": {"odd": 1}}, "", []),
        ({"detail": {"zip": ["too short"], "input": "CANARY"}}, "too short", []),
        ({"detail": None, "title": "not today"}, "not today", []),
        (["one", {"message": "two"}], "one two", []),
        ([1, 2], "", []),
        ({"detail": "two\nlines\x00"}, "two lines", []),
    ],
)
def test_words_of_a_refusal(
    service: Service,
    remote: Faulty,
    body: Any,
    message: str,
    fields: list[tuple[tuple[str, ...], str]],
) -> None:
    remote.then(says(body, 422))
    with pytest.raises(errors.Refused) as caught:
        service.orders.get(ORDER_ID)
    assert caught.value.message == message
    assert [(one.loc, one.msg) for one in caught.value.fields] == fields
    assert "CANARY" not in repr(vars(caught.value)) + repr(caught.value.fields)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"", ""),
        (b"<html><body>\n<b>Busy</b>, come back</html>", "Busy , come back"),
        (b"plain words", "plain words"),
        (b'{"detail": "cut of', '{"detail": "cut of'),
        (b'{"detail": "' + b"x" * 100_000 + b'"}', '{"detail": "' + "x" * 488),
        (b"[" * 60_000, "[" * 500),
        (b'{"a":' * 200 + b'"deep"' + b"}" * 200, ""),
    ],
    ids=["empty", "html", "plain", "cut", "long", "broken", "deep"],
)
def test_of_an_unknown_body_its_text_is_kept(
    service: Service, remote: Faulty, body: bytes, message: str
) -> None:
    remote.then(answer(body, 400, "text/html"))
    with pytest.raises(errors.Refused) as caught:
        service.orders.get(ORDER_ID)
    assert caught.value.message == message


def test_a_long_message_is_shortened(service: Service, remote: Faulty) -> None:
    remote.then(says({"detail": "x" * 10_000}, 400))
    with pytest.raises(errors.Refused) as caught:
        service.orders.get(ORDER_ID)
    assert caught.value.message == "x" * 500


@pytest.mark.parametrize(
    "error",
    [
        errors.Refused(status=422, message="m", fields=(errors.FieldError(("a",), "b"),)),
        errors.Limited(retry_after=7),
        errors.Unreachable(retry_after=None, reason="ReadTimeout"),
        errors.Uncertain(route="POST /v3/order/create", trace_id="t"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_errors_travel_between_processes(error: errors.ServiceError) -> None:
    copy = pickle.loads(pickle.dumps(error))  # noqa: S301
    assert type(copy) is type(error)
    assert vars(copy) == vars(error)


def test_the_wait_is_capped_both_ways() -> None:
    assert errors.Limited(retry_after=1e9).retry_after == 300
    assert errors.Limited(retry_after=-1).retry_after == 0
