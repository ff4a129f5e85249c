"""Whatever the service sends within its documents, and beyond them, is read and kept."""

from __future__ import annotations

import json
import time
from datetime import UTC, date, datetime
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from backoffice.service import Payload, Reader, Record, Unreadable
from backoffice.service.appointments import AppointmentPayload
from backoffice.service.areas import AreaInfo, PscInfo
from backoffice.service.insurance import DiagnosisPayload, InsurancePayload, PayorPayload
from backoffice.service.labs import (
    LabAccountPayload,
    LabPayload,
    LabTestPayload,
    MarkerPayload,
    PhysicianPayload,
)
from backoffice.service.orders import (
    CommunicationSettings,
    OrderPayload,
    TransactionPayload,
    bucket,
    low_level,
    method,
)
from backoffice.service.results import ResultMetadata, ResultPayload, moment
from backoffice.service.users import (
    ConnectionPayload,
    ConnectLinkPayload,
    HistoricalPullReport,
    Pull,
    UserInfo,
    UserPayload,
)
from backoffice.service.wearables import WearableProvider

from . import deciding, devices, kinds, people, shapes

NOW = datetime(2026, 1, 1, tzinfo=UTC)
KINDS: dict[type[Payload], kinds.Drawn] = {
    UserPayload: people.user,
    UserInfo: people.user_info,
    ConnectionPayload: people.connection,
    ConnectLinkPayload: people.connect_link,
    Pull: people.pull,
    HistoricalPullReport: people.pull_report,
    InsurancePayload: people.insurance,
    PayorPayload: people.payor,
    DiagnosisPayload: people.diagnosis,
    LabPayload: shapes.lab,
    LabTestPayload: shapes.lab_test,
    MarkerPayload: shapes.marker,
    LabAccountPayload: shapes.lab_account,
    PhysicianPayload: shapes.physician,
    OrderPayload: shapes.order,
    TransactionPayload: shapes.transaction,
    CommunicationSettings: shapes.communication,
    ResultPayload: shapes.result,
    ResultMetadata: shapes.metadata,
    AppointmentPayload: shapes.appointment,
    AreaInfo: shapes.area,
    PscInfo: shapes.psc_info,
    WearableProvider: shapes.catalogue_provider,
    **devices.KINDS,
    **deciding.KINDS,
}
READERS: dict[type[Payload], Reader[Any]] = {kind: Reader(kind) for kind in KINDS}


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
@settings(max_examples=80, deadline=None, database=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_nothing_raises_and_nothing_is_lost(kind: type[Payload], data: st.DataObject) -> None:
    sent, expected = data.draw(KINDS[kind])
    raw = json.dumps(
        sent,
        ensure_ascii=data.draw(st.booleans()),
        indent=data.draw(st.sampled_from([None, 1])),
    ).encode()
    record = READERS[kind].read(raw, NOW)
    assert isinstance(record, Record), record
    assert record.raw == raw
    kinds.check(record.data, expected)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
@settings(max_examples=25, deadline=None, database=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_any_json_is_read_or_kept(kind: type[Payload], data: st.DataObject) -> None:
    """A field of the wrong kind never raises, and never shows in the reason."""
    sent, _ = data.draw(KINDS[kind])
    name = data.draw(st.sampled_from(sorted(sent)))
    sent[name] = data.draw(st.sampled_from(["CANARY", {"CANARY": 1}, ["CANARY"], 1e308, True]))
    raw = json.dumps(sent).encode()
    read = READERS[kind].read(raw, NOW)
    assert read.raw == raw
    if isinstance(read, Unreadable):
        assert read.path.startswith("$") and "CANARY" not in read.path + read.reason + repr(read)


ODD = ["CANARY", {"CANARY": 1}, ["CANARY"], 1e308, 10**30, True, "\x00", "\ud800", "0000-00-00", ""]


MORE_THAN_ONE_FIELD = [kind for kind in KINDS if len(msgspec.structs.fields(kind)) > 1]


@pytest.mark.parametrize("kind", MORE_THAN_ONE_FIELD, ids=lambda kind: kind.__name__)
@settings(max_examples=25, deadline=None, database=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_one_odd_field_costs_no_other_field(kind: type[Payload], data: st.DataObject) -> None:
    sent, _ = data.draw(KINDS[kind])
    fields = {field.encode_name: field for field in msgspec.structs.fields(kind)}
    names = sorted(sent.keys() & fields.keys())
    assume(len(names) > 1 and getattr(kind, "wrapped_in", None) not in sent)
    name = data.draw(st.sampled_from(names))
    before = READERS[kind].read(json.dumps(sent).encode(), NOW)
    sent[name] = data.draw(st.sampled_from(ODD))
    read = READERS[kind].read(json.dumps(sent).encode(), NOW)
    if isinstance(read, Unreadable):
        rest = [sent[other] for other in names if other != name]
        is_id = fields[name].required or name in ("id", "job_id")
        assert is_id or not any(one is not None for one in rest)
        return
    assert isinstance(before, Record)
    for other, field in fields.items():
        if other != name:
            assert getattr(read.data, field.name) == getattr(before.data, field.name), other


# The documented differences, one by one


def order(**fields: Any) -> OrderPayload:
    base = {
        "id": "11111111-0000-4000-8000-000000000001",
        "user_id": "11111111-0000-4000-8000-000000000002",
        "team_id": "11111111-0000-4000-8000-000000000003",
        "created_at": "2026-01-01T10:00:00Z",
        "updated_at": "2026-01-01T10:00:00Z",
    }
    return READERS[OrderPayload].value(json.dumps(base | fields).encode())  # type: ignore[no-any-return]


def test_a_bare_order_reads_as_empty() -> None:
    bare = order(events=None, lab_test=None, details=None, priority=None, has_abn=None)
    assert (bare.events, bare.lab_test.name, bare.details.type) == ([], "", "")
    assert (bare.priority, bare.has_abn, list(bare.volatile), bare.latest_event) == (
        False,
        False,
        [],
        None,
    )
    assert bare.lab_test.markers == []


def test_the_latest_event_falls_back() -> None:
    old = {"id": 1, "created_at": "2026-01-01T10:00:00", "status": "received.testkit.ordered"}
    new = {"id": 2, "created_at": "2026-01-02T10:00:00", "status": "completed.testkit.completed"}
    for found in (order(last_event=new, events=[old]), order(events=[new, old])):
        assert found.latest_event is not None
        assert found.latest_event.id == 2


def test_the_signed_link_is_volatile_in_the_bytes_received() -> None:
    raw = (
        json.dumps(
            {
                "id": "11111111-0000-4000-8000-000000000001",
                "user_id": "11111111-0000-4000-8000-000000000002",
                "team_id": "11111111-0000-4000-8000-000000000003",
                "created_at": "2026-01-01T10:00:00",
                "updated_at": "2026-01-01T10:00:00",
                "requisition_form_url": "https://x.invalid/?sig=1\u00e9",
            }
        )
        .replace("//", "\\/\\/")
        .encode()
    )
    (link,) = READERS[OrderPayload].value(raw).volatile
    assert link == b'"https:\\/\\/x.invalid\\/?sig=1\\u00e9"'.replace(b"d\\/?", b"d/?")
    assert raw.count(link) == 1


def test_statuses_are_taken_apart() -> None:
    kit = "received.testkit.testkit_registered"
    assert (bucket(kit), method(kit), low_level(kit)) == ("received", "testkit", "registered")
    assert (bucket("lost"), method("lost"), low_level("lost")) == ("lost", None, "lost")
    assert low_level("a.b.c.d") == "c.d"


def test_area_samples_of_both_kinds() -> None:
    area = READERS[AreaInfo].value(
        b"""{"zip_code": "85004", "phlebotomy": {"is_served": true, "providers":
        [{"name": "draw-west", "tier": "appointment-ready"}]},
        "central_labs": {"lab-north": {"lab_id": 6, "patient_service_centers":
        {"within_radius": 2, "radius": "25", "appointment_with_brand": true,
        "supported_bill_types": ["client_bill"], "capabilities": ["stat"]}},
        "lab-south": {"within_radius": 3, "patient_service_centers": null}}}"""
    )
    north, south = area.central_labs["lab-north"], area.central_labs["lab-south"]
    assert area.phlebotomy.providers[0].service_types == ["appointment-ready"]
    assert (north.within_radius, north.radius, north.bookable) == (2, "25", True)
    assert (north.supported_bill_types, north.capabilities) == (["client_bill"], ["stat"])
    assert (south.within_radius, south.bookable, south.supported_bill_types) == (3, False, [])


def test_pulls_keep_their_bytes_one_by_one() -> None:
    report = READERS[HistoricalPullReport].value(
        b"""{"user_id": "11111111-0000-4000-8000-000000000001", "provider": {"band-one":
        {"not_pulled": ["ecg"], "pulled": {"steps": {"status": "success",  "days_with_data": 3},
        "sleep": {"status": ["odd"]}}}}}"""
    )
    steps, sleep = report.entries()
    assert (steps.provider, steps.resource) == ("band-one", "steps")
    assert steps.raw == b'{"status": "success",  "days_with_data": 3}'
    assert steps.pull is not None and steps.pull.days_with_data == 3
    assert sleep.pull is None and sleep.unreadable is not None
    assert sleep.unreadable.path == "$.status"


def test_sample_moments() -> None:
    sample = READERS[ResultPayload].value(
        b"""{"metadata": {"patient": "x"}, "results": {"legacy": 1}, "sample_information":
        {"a": {"date_collected": {"timestamp": "2026-01-01T10:00:00", "timezone_offset": -3600},
        "date_received": "2026-01-02T10:00:00", "date_reported": "2026-01-02T10:00:00-05:00"}}}"""
    )
    one = sample.sample_information["a"]
    assert sample.results == []
    assert moment(one.date_collected) == datetime(2026, 1, 1, 10, tzinfo=UTC)
    assert moment(one.date_received) is None, "without an offset it is no instant"
    assert moment(one.date_reported) == datetime(2026, 1, 2, 15, tzinfo=UTC)
    assert moment("soon") is moment(None) is None


def test_a_birth_date_that_is_none_reads_as_none() -> None:
    info = {"first_name": "A", "last_name": "B"}
    reader = READERS[UserInfo]
    assert reader.value(json.dumps(info | {"dob": "31/12/1980"}).encode()).dob is None
    assert reader.value(json.dumps(info | {"dob": "1980-12-31T23:00:00-05:00"}).encode()).dob == (
        date(1980, 12, 31)
    )


@pytest.mark.parametrize("zone", ["Pacific/Auckland", "America/Los_Angeles", "UTC"])
def test_a_birth_date_stands_on_no_clock(zone: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    try:
        reader = READERS[UserInfo]
        for said in ("1815-12-10", "1815-12-10T00:00:00Z", "1815-12-10T23:59:59-11:00"):
            told = {"first_name": "A", "last_name": "B", "dob": said}
            assert reader.value(json.dumps(told).encode()).dob == date(1815, 12, 10)
    finally:
        monkeypatch.undo()
        time.tzset()


@pytest.mark.parametrize("turned", ["\u202d", "\u202e", "\\u202d", "\\u202E", "\\u0000"])
def test_characters_that_turn_text_around_are_replaced(turned: str) -> None:
    raw = f'{{"name": "4{turned}10", "slug": "x"}}'.encode()
    record = Reader(WearableProvider).read(raw, NOW)
    assert isinstance(record, Record)
    assert (record.data.name, record.raw) == ("4\N{REPLACEMENT CHARACTER}10", raw)


class _LooseReading(Payload):
    a: Any = None
    b: int = 0


def test_huge_number_of_any_type_is_kept_beside_a_misfit() -> None:
    raw = b'{"a": 123456789012345678901234567890, "b": "x"}'
    record = Reader(_LooseReading).read(raw, NOW)
    assert isinstance(record, Record)
    assert (record.data.a, record.data.b) == (123456789012345678901234567890, 0)
