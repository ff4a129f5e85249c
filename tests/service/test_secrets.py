"""No key and no personal data in a log, a repr, a traceback or an error's text."""

from __future__ import annotations

import json
import logging
import traceback
from collections.abc import Callable
from typing import Any

import pytest

from backoffice.service import Record, Service, errors
from backoffice.service.exchange import Key

from .conftest import MANAGEMENT_KEY, TEAM_KEY
from .faulty import Answer, Faulty, answer, cut_short, drip, reset, says

NAME = "Canaryname"
USER_ID = "ca0a7e57-0000-4000-8000-000000000001"
CANARIES = (TEAM_KEY, MANAGEMENT_KEY, NAME, USER_ID)
ORDER = {
    "id": "11111111-0000-4000-8000-000000000001",
    "user_id": USER_ID,
    "team_id": "11111111-0000-4000-8000-000000000003",
    "created_at": "2026-01-01T10:00:00Z",
    "updated_at": "2026-01-01T10:00:00Z",
    "patient_details": {"first_name": NAME, "last_name": NAME, "dob": "1980-01-01"},
}
INFO = {"first_name": NAME, "last_name": NAME, "dob": "1980-01-01", "gender": "female"}


def clean(text: str) -> bool:
    return not any(canary.lower() in text.lower() for canary in CANARIES)


def orders(service: Service) -> Any:
    return service.orders.list(patient_name=NAME, user_id=USER_ID, search_input=NAME)


def info(service: Service) -> Any:
    return service.users.info(USER_ID)


def resolve(service: Service) -> Any:
    return service.users.resolve(NAME)


def managed(service: Service) -> Any:
    return service.management.lab_accounts(team_id=USER_ID)


def pdf(service: Service) -> Any:
    with service.orders.result_pdf(USER_ID) as document:
        return list(document)


FAULTS = {
    "refused": says({"detail": f"{NAME} is refused"}, 400, X_Request_Id=NAME + "é!"),
    "fields": says({"detail": [{"loc": ["body", NAME], "msg": NAME, "input": NAME}]}, 422),
    "denied": says({"detail": f"key {TEAM_KEY} is wrong"}, 401),
    "missing": says({"detail": f"{NAME} not found"}, 404),
    "limited": says({"detail": NAME}, 429, Retry_After="1000"),
    "broken": says({"detail": NAME}, 500),
    "redirect": answer(b"", 302, Location=f"https://{NAME}.invalid/{USER_ID}"),
    "html": answer(f"<html>{NAME}</html>".encode(), kind="text/html"),
    "wrong type": answer(f'"{NAME}"'.encode()),
    "cut": answer(json.dumps({"orders": [ORDER], "first_name": NAME}).encode()[:-4]),
    "hung up": cut_short(json.dumps(INFO).encode()),
    "reset": reset,
    "bad field": says({"first_name": {NAME: NAME}, "user_id": [NAME], "data": NAME}),
    "slow": drip(0.05),
}


@pytest.mark.parametrize("fault", FAULTS.values(), ids=list(FAULTS))
@pytest.mark.parametrize("call", [orders, info, resolve, managed, pdf])
def test_a_failure_tells_nothing(
    service: Service,
    remote: Faulty,
    caplog: pytest.LogCaptureFixture,
    call: Callable[[Service], Any],
    fault: Answer,
) -> None:
    caplog.set_level(logging.DEBUG)
    remote.then(fault)
    with pytest.raises(errors.ServiceError) as caught:
        call(service.within(0.3))
    error = caught.value
    told = "".join(traceback.format_exception(error))
    assert clean(told), told
    assert clean(str(error) + repr(error) + str(error.args))
    assert clean(caplog.text), caplog.text
    assert error.trace_id and error.trace_id in str(error)
    assert error.__cause__ is None and error.__context__ is None


def test_success_tells_nothing(
    service: Service, remote: Faulty, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    bad = ORDER | {"created_at": {"x": NAME}, "id": NAME}
    remote.then(
        says({"orders": [ORDER, bad]}, Set_Cookie=NAME, Content_Disposition=NAME),
        says(INFO),
        answer(b"%PDF-", kind="application/pdf", Content_Disposition=NAME),
    )
    page = orders(service)
    record = info(service)
    with service.orders.result_pdf(USER_ID) as document:
        seen = [document, list(document)]
    order = page.records[0].data
    seen += [page, page.records, page.unreadable, record, record.data, order]
    seen += [order.patient_details, order.lab_test, service, service.orders, service.management]
    assert isinstance(record, Record) and record.data.first_name == NAME
    assert len(page.unreadable) == 1
    assert clean(" ".join(f"{one!r} {one}" for one in seen))
    assert clean(caplog.text), caplog.text
    assert "backoffice.service" in caplog.text


def test_credentials_do_not_show() -> None:
    key = Key("x-service-api-key", TEAM_KEY)
    assert repr(key) == str(key) == f"{key}" == "***"
    for bad in (TEAM_KEY + "\n", TEAM_KEY + "é"):
        with pytest.raises(ValueError, match="printable ASCII") as caught:
            Key("x-service-api-key", bad)
        assert clean("".join(traceback.format_exception(caught.value)))


@pytest.mark.parametrize(
    "url", ["", "localhost:8100", "ftp://x", "http://", f"http://h:{NAME}", f"http://{NAME}:x@h"]
)
def test_a_bad_address_is_refused_at_once(url: str) -> None:
    with pytest.raises(ValueError, match="the service address") as caught:
        Service(url, TEAM_KEY)
    assert clean(str(caught.value))
