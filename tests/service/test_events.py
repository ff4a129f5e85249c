"""The envelope reader: everything documented is read, everything harmful is named and refused."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backoffice.service import events
from backoffice.service.events import Misread, read
from backoffice.service.wearables.timeseries import SAMPLES

from . import kinds

TEAM = "7ea00000-0000-4000-8000-000000000001"
USER = "11111111-0000-4000-8000-000000000001"


def body(data: bytes = b"{}", **changed: Any) -> bytes:
    sent = {
        "event_type": "labtest.order.updated",
        "team_id": TEAM,
        "user_id": USER,
        "client_user_id": "patient-1",
    } | changed
    head = json.dumps(sent, ensure_ascii=False).encode()
    return head[:-1] + b', "data": ' + data + b"}"


def refused(raw: bytes) -> str | None:
    try:
        read(raw)
    except Misread as error:
        return str(error)
    return None


def test_an_event_is_read_and_its_data_kept_byte_for_byte() -> None:
    data = b'{ "b" : [1.50, 2e3 ,"\\u00e9\xc3\xa9\\/"],\n"a":null }'
    event = read(body(data))
    assert event.event_type == "labtest.order.updated"
    assert (event.team_id, event.user_id, event.client_user_id) == (
        UUID(TEAM),
        UUID(USER),
        "patient-1",
    )
    assert bytes(event.data) == data


@pytest.mark.parametrize("data", [b"[]", b"null", b'"x"', b"1", b"[[{}]]"])
def test_data_may_be_anything(data: bytes) -> None:
    assert bytes(read(body(data)).data) == data


def test_the_user_may_be_missing_and_the_reference_a_number() -> None:
    bare = read(b'{"event_type":"labtest.match_review.created","data":{},"new":[{}]}')
    assert (bare.team_id, bare.user_id, bare.client_user_id) == (None, None, None)
    assert read(body(user_id=None, client_user_id=17)).client_user_id == "17"
    assert bytes(read(body(b'{ "a":1}', user_id=None, client_user_id=17)).data) == b'{ "a":1}'


def test_envelope_with_a_misfit_user_is_read_without_it() -> None:
    assert read(body(user_id="nobody")).user_id is None


HARMFUL = {
    "nothing": b"",
    "html": b"<html>",
    "array": b"[]",
    "text": b'"x"',
    "null": b"null",
    "number": b"17",
    "utf-16": body().decode().encode("utf-16"),
    "utf-16 without mark": body().decode().encode("utf-16-le"),
    "mark": b"\xef\xbb\xbf" + body(),
    "cut": body()[:-1],
    "two": body() + body(),
    "no type": b'{"data":{}}',
    "empty type": body(event_type=""),
    "long type": body(event_type="x" * 121),
    "no data": b'{"event_type":"x"}',
    "NaN": body(b"NaN"),
    "Infinity": body(b"[-Infinity]"),
    "1e400": body(b'{"value":1e400}'),
    "NUL": body(b'{"a":[{"b":"x\\u0000"}]}'),
    "NUL in a name": body(b'{"x\\u0000":1}'),
    "raw NUL": body(b'"\x00"'),
    "NUL in the envelope": body(client_user_id="\x00"),
    "surrogate": body(b'"\\ud800"'),
    "swapped surrogates": body(b'"\\udc00\\ud800"'),
    "surrogate name": body(b'{"\\ud800":1}'),
    "raw surrogate": body(b'"\xed\xa0\x80"'),
    "bad UTF-8": body(b'"\xff"'),
    "bad UTF-8 name": body(b'{"\xff":1}'),
    "overlong UTF-8": body(b'"\xc0\xaf"'),
    "10^30": body(b"[1" + b"0" * 30 + b"]"),
    "2^63": body(b'{"a":9223372036854775808}'),
    "-2^63-1": body(b'{"a":[-9223372036854775809]}'),
    "5000 digits": body(b"1" * 5000),
    "65 levels": body(b"[" * 64 + b"]" * 64),
    "65 levels of numbers": body(b"[" * 64 + b"1" + b"]" * 64),
    "100000 levels": body(b"[" * 100_000 + b"]" * 100_000),
    "100000 levels of objects": body(b'{"a":' * 100_000 + b"1" + b"}" * 100_000),
    "twice": body(b'{"a":1,"a":2}'),
    "twice, spaced": body(b'{"a":1,"a" \n:2,"b":"\\":"}'),
    "twice, escaped": body(b'{"a":1,"\\u0061":2}'),
    "twice deep": body(b'[{"x":[{"a":1,"b":2,"a":1}]}]'),
    "two types": body(b'{},"event_type":"y"'),
}


@pytest.mark.parametrize("name", HARMFUL)
def test_the_harmful_is_refused_by_name(name: str) -> None:
    with pytest.raises(Misread) as caught:
        read(HARMFUL[name])
    assert caught.value.path.startswith("$") and caught.value.reason
    assert str(caught.value) == f"{caught.value.reason} at {caught.value.path}"


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (HARMFUL["NUL"], "Text with a NUL character at $"),
        (HARMFUL["10^30"], "Whole number beyond 64 bits at $"),
        (HARMFUL["twice"], "Object with one name given twice at $"),
        (HARMFUL["65 levels"], "More than 64 levels of nesting at $"),
        (HARMFUL["no type"], "Object missing required field `event_type` at $"),
        (HARMFUL["array"], "Expected `object` at $"),
        (HARMFUL["bad UTF-8"], "Invalid text encoding or nesting at $"),
    ],
)
def test_reasons_are_told_in_words(raw: bytes, reason: str) -> None:
    with pytest.raises(Misread) as caught:
        read(raw)
    assert str(caught.value) == reason


def test_type_of_invalid_event_is_known_if_it_can_be_shown() -> None:
    for raw, known in (
        (HARMFUL["twice"], "labtest.order.updated"),
        (body(b'"\\u0000"', event_type="<b>"), ""),
    ):
        with pytest.raises(Misread) as caught:
            read(raw)
        assert caught.value.event_type == known


@pytest.mark.parametrize(
    "data",
    [
        b'{"a":{"a":{"a":1}},"b":[{"a":1},{"a":1}]}',
        b'{"a" :1, "b"\t: 2, "c"\r\n:3}',
        b'{"a":"\\":\\":", "b":"\\\\u0000"}',
        b"[" * 63 + b"]" * 63,
        b"[" * 63 + b"1" + b"]" * 63,
        b"[9223372036854775807,-9223372036854775808,1e300,-0,1E-400]",
        b'"\\ud83d\\ude00"',
        json.dumps({f"x{i}": i for i in range(500)}).encode(),
    ],
)
def test_the_harmless_is_not_refused(data: bytes) -> None:
    assert bytes(read(body(data)).data) == data


@settings(max_examples=300, deadline=None, database=None)
@given(kinds.loose, kinds.words.filter(bool), st.booleans(), st.sampled_from([None, 1]))
def test_any_sound_data_is_kept(
    drawn: tuple[Any, Any], event_type: str, ascii_only: bool, indent: int | None
) -> None:
    data = json.dumps(drawn[0], ensure_ascii=ascii_only, indent=indent).encode()
    raw = body(data, event_type=event_type)
    refusal = refused(raw)
    if refusal is None:
        event = read(raw)
        assert (event.event_type, bytes(event.data)) == (event_type, data)
    elif "NUL" in refusal:
        assert "\\u0000" in json.dumps([drawn[0], event_type])
    else:
        assert refusal == "Whole number beyond 64 bits at $"


@settings(max_examples=1000, deadline=None, database=None)
@given(st.data())
def test_mutated_bytes_are_read_or_refused(data: st.DataObject) -> None:
    raw = bytearray(
        body(b'{"id":"CANARY","n":[1,2.5,true,null],"o":{"CANARY":"x"}}', client_user_id="CANARY")
    )
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, len(raw)))
        raw[place : place + data.draw(st.integers(0, 3))] = data.draw(
            st.binary(max_size=3)
            | st.sampled_from([b"\\u0000", b"\\ud800", b"NaN", b"1e999", b"[" * 2000, b'"', b","])
        )
    refusal = refused(bytes(raw))
    if refusal is None:
        bytes(read(bytes(raw)).data).decode()
    else:
        assert "CANARY" not in refusal


# The payloads of events


@pytest.mark.parametrize(
    ("reader", "raw"),
    [
        (events.CRITICAL_RESULT, b'{"order_id":"%s"}'),
        (events.MATCH_REVIEW, b'{"id":"%s"}'),
        (events.STREAM_READY, b'{"workout_id":"%s","sport":""}'),
        (events.BACKFILL_DONE, b'{"user_id":"%s","provider":"band-one"}'),
        (events.CONNECTION_FAILED, b'{"user_id":"%s","provider":"band-one"}'),
        (events.CONNECTION_CREATED, b'{"user_id":"%s"}'),
        (SAMPLES, b'{"user_id":"%s"}'),
    ],
)
def test_a_payload_needs_little(reader: Any, raw: bytes) -> None:
    assert reader.value(raw % USER.encode()) is not None


def test_a_connection_is_named_in_either_spelling() -> None:
    new = b'{"provider":{"name":"Band One","slug":"band-one","logo":""},"user_id":"%s"}'
    for raw in (new, new.replace(b"provider", b"source")):
        made = events.CONNECTION_CREATED.value(raw % USER.encode())
        assert made.provider is not None and made.provider.slug == "band-one"


def test_a_backfill_needs_no_final_mark_and_takes_bare_dates() -> None:
    done = events.BACKFILL_DONE.value(
        b'{"provider":"band-one","start_date":"2026-01-01","end_date":"2026-02-01T00:00:00"}'
    )
    assert done.start_date == datetime(2026, 1, 1, tzinfo=UTC)
    assert done.end_date == datetime(2026, 2, 1, tzinfo=UTC)


def test_samples_in_every_form() -> None:
    batch = SAMPLES.value(
        b"""{"source":{"slug":"band-one","type":null,"name":"Band"},"source_id":3,"data":[
        {"id":null,"timestamp":"2026-01-01T10:00:00","timezone_offset":-18000,"type":null,
         "unit":"bpm","value":61},
        {"timestamp":"2026-01-01T10:00:00+00:00","start":"2026-01-01T11:00:00-05:00",
         "end":"2026-01-01T11:05:00-05:00","unit":"count","value":12.5},
        {"timestamp":"2026-01-01T10:00:00Z","unit":"mmHg","systolic":120,"diastolic":80.5},
        {"timestamp":"2026-01-01T10:00:00Z","unit":"text","value":"after lunch","tags":["food"]},
        {"timestamp":"2026-01-01T10:00:00Z","value":{"new":true}}]}"""
    )
    assert (batch.source.provider, batch.source.type) == ("band-one", "unknown")
    point, interval, pressure, note, new = batch.data
    assert point.at == datetime(2026, 1, 1, 10, tzinfo=UTC)
    assert (point.number, point.timezone_offset, point.start, point.end) == (61, -18000, None, None)
    assert interval.at == interval.start == datetime(2026, 1, 1, 16, tzinfo=UTC)
    assert interval.end is not None and interval.end - interval.at == timedelta(minutes=5)
    assert (pressure.systolic, pressure.diastolic, pressure.number) == (120, 80.5, None)
    assert (note.value, note.tags, note.number) == ("after lunch", ["food"], None)
    assert (new.value, new.number, new.unit) == ({"new": True}, None, None)


def test_three_hundred_samples_are_read_quickly() -> None:
    """Measured 0.5 ms here; the bound leaves room for a busy machine."""
    sample = {
        "timestamp": "2026-01-01T10:00:00+00:00",
        "timezone_offset": -18000,
        "type": None,
        "unit": "bpm",
        "value": 61,
        "start": "2026-01-01T10:00:00+00:00",
        "end": "2026-01-01T10:05:00+00:00",
    }
    data = json.dumps({"source": {"provider": "band-one"}, "data": [sample] * 300}).encode()
    raw = body(data)
    times = []
    for _ in range(30):
        started = time.process_time()
        assert len(SAMPLES.value(bytes(read(raw).data)).data) == 300
        times.append(time.process_time() - started)
    assert min(times) < 0.01
