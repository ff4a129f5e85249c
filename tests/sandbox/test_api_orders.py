"""GET /v3/orders: every filter against SQL that reads the same facts elsewhere.

The SQL below looks into the record texts and the event table, not at the columns the service
filters on.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from typing import Any, LiteralString

import pytest

from tests.sandbox.conftest import Sandbox

# One row per order of the team, facts taken from the record texts and the events.
FACTS: LiteralString = """
WITH facts AS (
  SELECT o.number, o.id, o.user_id, o.transaction_id,
    (('{' || o.fixed_part || '}')::jsonb ->> 'created_at')::timestamptz AS made,
    (('{' || o.moving_part || '}')::jsonb ->> 'updated_at')::timestamptz AS changed,
    ('{' || o.moving_part || '}')::jsonb ->> 'interpretation' AS interpretation,
    (('{' || o.fixed_part || '}')::jsonb ->> 'activate_by')::date AS activate_by,
    coalesce(('{' || o.fixed_part || '}')::jsonb #>> '{patient_details,first_name}', '') || ' ' ||
      coalesce(('{' || o.fixed_part || '}')::jsonb #>> '{patient_details,last_name}', '')
      AS patient,
    left(('{' || o.fixed_part || '}')::jsonb #>> '{patient_details,dob}', 10) AS dob,
    coalesce(('{' || o.fixed_part || '}')::jsonb #>> '{shipping_details,receiver_name}',
      ('{' || o.fixed_part || '}')::jsonb #>> '{patient_address,receiver_name}') AS recipient,
    (SELECT method FROM sandbox_labtest t WHERE t.id = o.lab_test_id) AS method,
    (SELECT split_part(e.status, '.', 3) FROM sandbox_orderevent e WHERE e.order_id = o.number
      ORDER BY e.id DESC LIMIT 1) AS low
  FROM sandbox_order o WHERE o.team_id = '7ea00000-0000-4000-8000-000000000001')
SELECT id::text FROM facts
"""


def pages(sandbox: Sandbox, **params: Any) -> Iterator[dict[str, Any]]:
    """Every page of the list, until one is short."""
    page = 1
    while True:
        body = sandbox.get("/v3/orders", **params, page=page, size=100)
        assert (body["page"], body["size"]) == (page, 100)
        yield body
        if len(body["orders"]) < 100:
            return
        page += 1


def found(sandbox: Sandbox, **params: Any) -> list[str]:
    """Ids of all pages in order; the total of each page must agree with them."""
    bodies = list(pages(sandbox, **params))
    ids = [order["id"] for body in bodies for order in body["orders"]]
    assert {body["total"] for body in bodies} == {len(ids)}
    assert len(ids) == len(set(ids))
    return ids


@pytest.fixture(scope="module")
def middle(sandbox: Sandbox) -> dt.datetime:
    """A moment with orders on both sides of it."""
    moment: dt.datetime = sandbox.value(
        "SELECT percentile_disc(0.6) WITHIN GROUP (ORDER BY created_at) FROM sandbox_order"
    )
    return moment


def expect(sandbox: Sandbox, where: LiteralString, *values: Any) -> list[str]:
    return sandbox.column(FACTS + "WHERE " + where + " ORDER BY number DESC", *values)


def check(sandbox: Sandbox, params: dict[str, Any], where: LiteralString, *values: Any) -> None:
    """The list equals the SQL, in order, and the filter chose some but not all."""
    expected = expect(sandbox, where, *values)
    everything = sandbox.value(
        "SELECT count(*) FROM sandbox_order WHERE team_id = '7ea00000-0000-4000-8000-000000000001'"
    )
    assert 0 < len(expected) < everything, "the filter proves nothing on this world"
    assert found(sandbox, **params) == expected


def test_unfiltered_list_holds_every_order_of_the_team_once(sandbox: Sandbox) -> None:
    ids = found(sandbox)
    assert ids == expect(sandbox, "true")
    others = sandbox.column(
        "SELECT id::text FROM sandbox_order WHERE team_id <> '7ea00000-0000-4000-8000-000000000001'"
    )
    assert others and not set(others) & set(ids)


def test_size_and_page_default_to_50_and_1(sandbox: Sandbox) -> None:
    body = sandbox.get("/v3/orders")
    assert (body["page"], body["size"], len(body["orders"])) == (1, 50, 50)


def test_a_page_past_the_end_is_empty(sandbox: Sandbox) -> None:
    body = sandbox.get("/v3/orders", page=10**15, size=100)
    assert body["orders"] == [] and body["total"] > 0
    body = sandbox.get("/v3/orders", page=10**15, size=100, order_type="testkit")
    assert body["orders"] == [] and body["total"] > 0


@pytest.mark.parametrize("size", [1, 7, 100])
def test_any_page_size_walks_the_same_list(sandbox: Sandbox, size: int) -> None:
    expected = expect(sandbox, "true")
    for page in (1, 2, 5):
        body = sandbox.get("/v3/orders", page=page, size=size)
        ids = [order["id"] for order in body["orders"]]
        assert ids == expected[(page - 1) * size : page * size]


def test_ascending_is_the_reverse(sandbox: Sandbox) -> None:
    expected = expect(sandbox, "true")[::-1]
    assert found(sandbox, order_direction="asc") == expected
    assert found(sandbox, order_key="created_at", order_direction="asc") == expected


def test_start_date(sandbox: Sandbox, middle: dt.datetime) -> None:
    check(sandbox, {"start_date": middle.isoformat()}, "made >= %s", middle)


def test_end_date(sandbox: Sandbox, middle: dt.datetime) -> None:
    check(sandbox, {"end_date": middle.isoformat()}, "made <= %s", middle)


def test_a_bare_start_date_is_the_start_of_that_day(sandbox: Sandbox, middle: dt.datetime) -> None:
    day = middle.date()
    check(
        sandbox,
        {"start_date": day.isoformat()},
        "made >= %s",
        dt.datetime.combine(day, dt.time(), dt.UTC),
    )


def test_a_bare_end_date_is_the_last_second_of_that_day(
    sandbox: Sandbox, middle: dt.datetime
) -> None:
    day = middle.date()
    end = dt.datetime.combine(day, dt.time(23, 59, 59), dt.UTC)
    check(sandbox, {"end_date": day.isoformat()}, "made <= %s", end)


def test_a_bare_updated_end_date_is_the_start_of_that_day(
    sandbox: Sandbox, middle: dt.datetime
) -> None:
    day = middle.date()
    midnight = dt.datetime.combine(day, dt.time(), dt.UTC)
    check(sandbox, {"updated_end_date": day.isoformat()}, "changed <= %s", midnight)
    same_day = sandbox.value(
        "SELECT count(*) FROM sandbox_order WHERE updated_at > %s AND updated_at <= %s",
        midnight,
        midnight + dt.timedelta(hours=23, minutes=59, seconds=59),
    )
    assert same_day > 0, "no order tells the two readings apart"


def test_bare_dates_of_one_day(sandbox: Sandbox, middle: dt.datetime) -> None:
    day = middle.date()
    start = dt.datetime.combine(day, dt.time(), dt.UTC)
    check(
        sandbox,
        {"start_date": day.isoformat(), "end_date": day.isoformat()},
        "made BETWEEN %s AND %s",
        start,
        start + dt.timedelta(hours=23, minutes=59, seconds=59),
    )


@pytest.mark.parametrize("share", [0.02, 0.3, 0.7, 0.98])
@pytest.mark.parametrize("direction", ["asc", "desc"])
def test_updated_start_date(sandbox: Sandbox, share: float, direction: str) -> None:
    since = sandbox.value(
        "SELECT percentile_disc(%s) WITHIN GROUP (ORDER BY updated_at) FROM sandbox_order", share
    )
    expected = expect(sandbox, "changed >= %s", since)
    older = [
        made
        for (made,) in sandbox.rows(
            "SELECT created_at FROM sandbox_order WHERE updated_at >= %s AND created_at < %s",
            since,
            since,
        )
    ]
    assert expected and older, "no order made before and changed after"
    if direction == "asc":
        expected.reverse()
    assert (
        found(sandbox, updated_start_date=since.isoformat(), order_direction=direction) == expected
    )


def test_updated_window(sandbox: Sandbox, middle: dt.datetime) -> None:
    until = middle + dt.timedelta(days=5)
    check(
        sandbox,
        {"updated_start_date": middle.isoformat(), "updated_end_date": until.isoformat()},
        "changed BETWEEN %s AND %s",
        middle,
        until,
    )


@pytest.mark.parametrize("direction", ["asc", "desc"])
def test_all_dates_together(sandbox: Sandbox, middle: dt.datetime, direction: str) -> None:
    start, end = middle - dt.timedelta(days=30), middle + dt.timedelta(days=10)
    for since in (middle - dt.timedelta(days=10), middle + dt.timedelta(days=11)):
        expected = expect(sandbox, "made BETWEEN %s AND %s AND changed >= %s", start, end, since)
        assert expected
        if direction == "asc":
            expected.reverse()
        ids = found(
            sandbox,
            start_date=start.isoformat(),
            end_date=end.isoformat(),
            updated_start_date=since.isoformat(),
            order_direction=direction,
        )
        assert ids == expected


def test_dates_that_hold_nothing(sandbox: Sandbox) -> None:
    for params in (
        {"start_date": "2150-01-01"},
        {"end_date": "1990-01-01"},
        {"updated_start_date": "2150-01-01"},
        {"start_date": "2150-01-01", "end_date": "1990-01-01"},
    ):
        assert found(sandbox, **params) == []


def test_a_time_zone_is_honoured(sandbox: Sandbox, middle: dt.datetime) -> None:
    there = middle.astimezone(dt.timezone(dt.timedelta(hours=-7)))
    check(sandbox, {"start_date": there.isoformat()}, "made >= %s", middle)
    naive = middle.replace(tzinfo=None)
    check(sandbox, {"start_date": naive.isoformat()}, "made >= %s", middle)


def test_status(sandbox: Sandbox) -> None:
    lows = sandbox.column("SELECT low_level_status FROM sandbox_order GROUP BY 1 ORDER BY 1")
    assert len(lows) > 5
    for low in lows:
        assert found(sandbox, status=low) == expect(sandbox, "low = %s", low)
    check(sandbox, {"status": lows[:3]}, "low = ANY(%s)", lows[:3])


@pytest.mark.parametrize(
    "method", ["testkit", "walk_in_test", "at_home_phlebotomy", "on_site_collection"]
)
def test_order_type(sandbox: Sandbox, method: str) -> None:
    check(sandbox, {"order_type": method}, "method = %s", method)


def test_order_types(sandbox: Sandbox) -> None:
    methods = ["testkit", "walk_in_test"]
    check(sandbox, {"order_type": methods}, "method = ANY(%s)", methods)


def test_is_critical(sandbox: Sandbox) -> None:
    check(sandbox, {"is_critical": "true"}, "interpretation = 'critical'")
    check(sandbox, {"is_critical": "false"}, "interpretation IS DISTINCT FROM 'critical'")


@pytest.mark.parametrize("interpretation", ["normal", "abnormal", "critical"])
def test_interpretation(sandbox: Sandbox, interpretation: str) -> None:
    check(sandbox, {"interpretation": interpretation}, "interpretation = %s", interpretation)


def test_order_activation_types(sandbox: Sandbox) -> None:
    today = sandbox.value(
        "SELECT ((now() + clock_offset) AT TIME ZONE 'UTC')::date FROM sandbox_world"
    )
    check(
        sandbox,
        {"order_activation_types": "current"},
        "activate_by IS NULL OR activate_by <= %s",
        today,
    )
    check(sandbox, {"order_activation_types": "scheduled"}, "activate_by > %s", today)
    assert found(sandbox, order_activation_types=["current", "scheduled"]) == expect(
        sandbox, "true"
    )


def test_user_id(sandbox: Sandbox) -> None:
    user = sandbox.value(
        "SELECT user_id::text FROM sandbox_order"
        " WHERE team_id = '7ea00000-0000-4000-8000-000000000001'"
        " GROUP BY 1 HAVING count(*) > 1 ORDER BY 1 LIMIT 1"
    )
    check(sandbox, {"user_id": user}, "user_id = %s", user)


def test_order_ids(sandbox: Sandbox) -> None:
    ids = expect(sandbox, "true")[3:60:7]
    check(sandbox, {"order_ids": ids}, "id = ANY(%s::uuid[])", ids)
    foreign = sandbox.value(
        "SELECT id::text FROM sandbox_order"
        " WHERE team_id <> '7ea00000-0000-4000-8000-000000000001' LIMIT 1"
    )
    assert found(sandbox, order_ids=[ids[0], foreign]) == ids[:1]


def test_order_transaction_id(sandbox: Sandbox) -> None:
    group = sandbox.value(
        "SELECT transaction_id::text FROM sandbox_order"
        " WHERE team_id = '7ea00000-0000-4000-8000-000000000001'"
        " GROUP BY 1 ORDER BY count(*) DESC, 1 LIMIT 1"
    )
    assert len(expect(sandbox, "transaction_id = %s", group)) > 1, "no redraw in this world"
    check(sandbox, {"order_transaction_id": group}, "transaction_id = %s", group)


def name_part(sandbox: Sandbox) -> str:
    """A few letters from inside a patient's name, in the wrong case."""
    name: str = sandbox.value(
        FACTS.replace("SELECT id::text FROM facts", "SELECT patient FROM facts")
        + "WHERE length(patient) > 8 ORDER BY number LIMIT 1"
    )
    return name[1:6].upper()


def test_patient_name(sandbox: Sandbox) -> None:
    part = name_part(sandbox)
    check(sandbox, {"patient_name": part}, "position(lower(%s) in lower(patient)) > 0", part)


@pytest.mark.parametrize("wild", ["%", "_", "\\"])
def test_names_are_searched_literally(sandbox: Sandbox, wild: str) -> None:
    for name in ("patient_name", "shipping_recipient_name", "search_input"):
        assert found(sandbox, **{name: wild}) == []


def test_shipping_recipient_name(sandbox: Sandbox) -> None:
    recipient = sandbox.value(
        FACTS.replace("SELECT id::text FROM facts", "SELECT recipient FROM facts")
        + "WHERE recipient <> '' ORDER BY number LIMIT 1"
    )
    check(sandbox, {"shipping_recipient_name": recipient}, "recipient = %s", recipient)


def test_search_input(sandbox: Sandbox) -> None:
    order = expect(sandbox, "true")[10]
    check(sandbox, {"search_input": order}, "id = %s", order)
    user, dob = sandbox.rows(
        "SELECT user_id::text, patient_dob::text FROM sandbox_order"
        " WHERE team_id = '7ea00000-0000-4000-8000-000000000001' AND patient_dob IS NOT NULL"
        " ORDER BY number DESC LIMIT 1"
    )[0]
    check(sandbox, {"search_input": user}, "user_id = %s", user)
    check(sandbox, {"search_input": dob}, "dob = %s", dob)
    part = name_part(sandbox)
    check(
        sandbox,
        {"search_input": part},
        "position(lower(%s) in lower(patient)) > 0 OR position(lower(%s) in lower(recipient)) > 0",
        part,
        part,
    )


@pytest.mark.parametrize("direction", ["asc", "desc"])
@pytest.mark.parametrize(
    ("key", "column"), [("patient_name", "patient_name"), ("last_status", "low_level_status")]
)
def test_order_key(sandbox: Sandbox, key: str, column: str, direction: str) -> None:
    ids = found(sandbox, order_key=key, order_direction=direction)
    values = dict(
        sandbox.rows("SELECT id::text, patient_name FROM sandbox_order")
        if column == "patient_name"
        else sandbox.rows("SELECT id::text, low_level_status FROM sandbox_order")
    )
    seen = [values[each].casefold() for each in ids]
    # Neighbours may tie under the database's collation; the runs of equal values must be whole.
    runs = [value for place, value in enumerate(seen) if place == 0 or seen[place - 1] != value]
    assert len(runs) == len(set(runs)) > 3
    assert sorted(ids) == sorted(expect(sandbox, "true"))
    assert (
        ids
        == found(sandbox, order_key=key, order_direction="desc")[
            :: 1 if direction == "desc" else -1
        ]
    )


def test_filters_combine(sandbox: Sandbox, middle: dt.datetime) -> None:
    check(
        sandbox,
        {
            "start_date": middle.isoformat(),
            "order_type": ["testkit", "walk_in_test"],
            "is_critical": "false",
            "order_activation_types": "current",
        },
        "made >= %s AND method IN ('testkit', 'walk_in_test')"
        " AND interpretation IS DISTINCT FROM 'critical'"
        " AND (activate_by IS NULL OR activate_by <= current_date)",
        middle,
    )


def test_a_listed_order_equals_the_single_one(sandbox: Sandbox) -> None:
    for order in sandbox.get("/v3/orders", size=20)["orders"]:
        single = sandbox.get(f"/v3/order/{order['id']}")
        links = order.pop("requisition_form_url"), single.pop("requisition_form_url")
        assert order == single
        assert (links[0] is None) == (links[1] is None)


def test_the_requisition_link_differs_on_every_reading(sandbox: Sandbox) -> None:
    order = sandbox.value(
        "SELECT id::text FROM sandbox_order WHERE has_requisition"
        " AND team_id = '7ea00000-0000-4000-8000-000000000001' LIMIT 1"
    )
    links = {sandbox.get(f"/v3/order/{order}")["requisition_form_url"] for _ in range(5)}
    assert len(links) == 5 and all(link.startswith("https://") for link in links)
