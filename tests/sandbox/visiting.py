"""Worlds for tests of bookings: orders that wait for an appointment, and what is told of them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, LiteralString

import httpx

from tests.sandbox.conftest import TEAM_KEY
from tests.sandboxes import Sandbox, running

TEAM = "7ea00000-0000-4000-8000-000000000001"
# On the eve of the Sunday on which clocks go forward.
EPOCH = "2026-03-03T15:00:00+00:00"
READY = ("85004", "85281", "33101", "33602", "30303", "60601", "75201", "78701", "77002", "80202",
         "98101", "94103", "90012", "92101", "89101")  # fmt: skip
REQUEST = ("54650", "02108", "84101", "97201", "85281", "33101", "60601", "77002", "94103")


@dataclass
class World:
    sandbox: Sandbox
    http: httpx.Client = field(repr=False)
    used: set[str] = field(default_factory=set)

    def order(
        self,
        method: str,
        low: str = "requisition_created",
        zips: tuple[str, ...] | None = None,
        *,
        lab: str | None = None,
        adult: bool = True,
    ) -> str:
        """An order nobody has used yet, of a patient without any appointment."""
        rows = self.sandbox.query(
            "SELECT o.id::text, o.zip_code, l.slug, o.user_id::text FROM sandbox_order o"
            " JOIN sandbox_labtest t ON t.id = o.lab_test_id JOIN sandbox_lab l ON l.id = t.lab_id"
            " WHERE o.team_id = %s AND o.method = %s AND o.low_level_status = %s"
            " AND o.collected_at IS NULL AND (o.patient_dob < '2006-01-01') = %s"
            " AND NOT EXISTS (SELECT 1 FROM sandbox_appointment a"
            " WHERE a.user_id = o.user_id AND a.is_current) ORDER BY o.number DESC",
            (TEAM, method, low, adult),
        )
        for key, zip_code, slug, user in rows:
            fits = (zips is None or zip_code in zips) and lab in (None, slug)
            if fits and not {key, user} & self.used:
                self.used |= {key, user}
                return str(key)
        raise AssertionError(f"the made-up world holds no such {method} order in {low}")

    def get(self, path: str, **params: Any) -> Any:
        answer = self.http.get(path, params=params)
        assert answer.status_code == 200, (path, answer.status_code, answer.text[:500])
        return answer.json()

    def record(self, order_id: str) -> dict[str, Any]:
        found: dict[str, Any] = self.get(f"/v3/order/{order_id}")
        return found

    def lows(self, order_id: str) -> list[str]:
        """The statuses the order has gone through."""
        return [event["status"].split(".")[-1] for event in self.record(order_id)["events"]]

    def address(self, order_id: str) -> dict[str, Any]:
        """The patient's address as appointments spell it."""
        found = self.record(order_id)["patient_address"]
        names = ("first_line", "second_line", "city", "state", "access_notes")
        return {name: found.get(name) for name in names} | {"zip_code": found["zip"]}

    def free(self, order_id: str, **params: Any) -> list[dict[str, Any]]:
        """Free slots for a visit at the order's address."""
        answer = self.http.post(
            "/v3/order/phlebotomy/appointment/availability",
            json=self.address(order_id),
            params=params,
        )
        assert answer.status_code == 200, answer.text[:500]
        return [slot for day in answer.json()["slots"] for slot in day["slots"]]

    def centers(self, order_id: str, **params: Any) -> list[dict[str, Any]]:
        """Free days at the centers near the order's patient; none where there are no centers."""
        record = self.record(order_id)
        asked = {
            "lab": record["lab_test"]["lab"]["slug"],
            "zip_code": record["patient_address"]["zip"],
            "radius": "50",
            **params,
        }
        answer = self.http.post("/v3/order/psc/appointment/availability", params=asked)
        if answer.status_code == 404:
            return []
        assert answer.status_code == 200, answer.text[:500]
        found: list[dict[str, Any]] = answer.json()["slots"]
        return found

    def act(self, order_id: str, part: str, what: str, body: Any) -> httpx.Response:
        """`part` is phlebotomy or psc; `what` book, request, reschedule or cancel."""
        method = "POST" if what in ("book", "request") else "PATCH"
        return self.http.request(
            method, f"/v3/order/{order_id}/{part}/appointment/{what}", json=body
        )

    @contextmanager
    def bent(self, order_id: str, column: LiteralString, value: Any) -> Iterator[None]:
        """Another value in a column of the order, for the length of the block."""
        get, put = "SELECT {} FROM sandbox_order WHERE id = %s", "UPDATE sandbox_order SET {} = %s"
        before = self.sandbox.query(get.format(column), (order_id,))[0][0]
        change = put.format(column) + " WHERE id = %s RETURNING 1"
        self.sandbox.query(change, (value, order_id))
        yield
        self.sandbox.query(change, (before, order_id))

    def told(self, order_id: str) -> list[tuple[str, str]]:
        """Type and status of every message about the order or an appointment of it."""
        rows = self.sandbox.query(
            "SELECT event_type, body::json -> 'data' FROM sandbox_message WHERE body LIKE %s"
            " ORDER BY number",
            (f"%{order_id}%",),
        )
        return [
            (
                kind,
                data["event_status"] if "appointment" in kind else data["last_event"]["status"],
            )
            for kind, data in rows
        ]


@contextmanager
def visiting(placed: int = 500, **more: Any) -> Iterator[World]:
    """A world that stands still, with `placed` new orders; nobody takes its webhooks."""
    options = {"users": 150, "orders": 300, "seed": 17, "epoch": EPOCH, **more}
    with (
        running(**options) as sandbox,
        httpx.Client(base_url=sandbox.url, headers=TEAM_KEY, timeout=30) as http,
    ):
        sandbox.control("place", {"orders": placed})
        sandbox.control("change", {"orders": placed + 60})
        sandbox.control("webhooks", {"url": "http://127.0.0.1:9/nobody"})
        yield World(sandbox, http)
