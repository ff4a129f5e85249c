"""A world to place orders in, and bodies of orders that are accepted as they are."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx

from tests.sandbox.conftest import TEAM_KEY
from tests.sandboxes import Sandbox, running

TEAM = "7ea00000-0000-4000-8000-000000000001"
PHYSICIAN = {"first_name": "Ada", "last_name": "Madeup", "npi": "1900000011"}
ADDRESS = {
    "receiver_name": "Nora Notreal",
    "first_line": "12 Sample Street",
    "second_line": None,
    "city": "Phoenix",
    "state": "AZ",
    "zip": "85004",
    "country": "US",
    "access_notes": None,
    "phone_number": "+15550100001",
}
DETAILS = {
    "first_name": "Nora",
    "last_name": "Notreal",
    "dob": "1980-05-06",
    "gender": "female",
    "phone_number": "+15550100001",
    "email": "nora@example.invalid",
}


@dataclass
class World:
    sandbox: Sandbox
    http: httpx.Client = field(repr=False)

    def value(self, sql: str, *values: Any) -> Any:
        rows = self.sandbox.query(sql, values)
        assert rows, "the made-up world holds no such row"
        return rows[0][0]

    def test(self, name: str) -> str:
        return str(self.value("SELECT id FROM sandbox_labtest WHERE name = %s", name))

    def account(self, status: str, lab: str) -> str:
        return str(
            self.value(
                "SELECT a.id FROM sandbox_labaccount a JOIN sandbox_lab l ON l.id = a.lab_id"
                " WHERE a.status = %s AND l.slug = %s",
                status,
                lab,
            )
        )

    def user(self, *, primary: bool = True) -> str:
        """A user of the team with demographics, and with or without a primary insurance."""
        return str(
            self.value(
                "SELECT u.id FROM sandbox_user u JOIN sandbox_userinfo i ON i.user_id = u.id"
                " WHERE u.team_id = %s AND u.deleted_at IS NULL AND i.medical_proxy IS NULL"
                " AND EXISTS (SELECT 1 FROM sandbox_insurance n"
                " WHERE n.user_id = u.id AND n.is_primary) = %s ORDER BY u.seq LIMIT 1",
                TEAM,
                primary,
            )
        )

    def body(self, *tests: str, **more: Any) -> dict[str, Any]:
        """An order of these tests; Clinic Draw Basic when none is named."""
        keys = [self.test(name) for name in tests or ("Clinic Draw Basic",)]
        return {
            "user_id": self.user(),
            "order_set": {"lab_test_ids": keys},
            "patient_details": dict(DETAILS),
            "patient_address": dict(ADDRESS),
            **more,
        }

    def imported(self, **more: Any) -> dict[str, Any]:
        address = {name: each for name, each in ADDRESS.items() if name != "phone_number"}
        return {
            **self.body(),
            "billing_type": "client_bill",
            "collection_method": "on_site_collection",
            "sample_id": f"REQ-{uuid.uuid4().hex[:10]}",
            "patient_address": address,
            **more,
        }

    def post(self, path: str, body: Any = None, key: str = "", **headers: str) -> httpx.Response:
        if key:
            headers["X-Idempotency-Key"] = key
        return self.http.post(path, json=body, headers=headers)

    def place(self, *tests: str, **more: Any) -> dict[str, Any]:
        """The record of a new order."""
        answer = self.post("/v3/order/create", self.body(*tests, **more))
        assert answer.status_code == 200, answer.text
        record: dict[str, Any] = answer.json()["order"]
        return record

    def record(self, order_id: str) -> dict[str, Any]:
        answer = self.http.get(f"/v3/order/{order_id}")
        assert answer.status_code == 200
        record: dict[str, Any] = answer.json()
        return record

    def lows(self, order_id: str) -> list[str]:
        """The statuses the order has gone through."""
        return [event["status"].split(".")[-1] for event in self.record(order_id)["events"]]

    def go(self, order_id: str, status: str) -> None:
        """Simulates the order up to a dotted status."""
        answer = self.http.post(f"/v3/order/{order_id}/test", params={"final_status": status})
        assert answer.status_code == 200, answer.text

    def count(self) -> int:
        return int(self.value("SELECT count(*) FROM sandbox_order"))


def open_second_account(sandbox: Sandbox) -> str:
    """Make the suspended account of a lab active, and let it offer all that the lab has: the lab
    has two active accounts then. Its id."""
    [(key,)] = sandbox.query(
        "UPDATE sandbox_labaccount SET status = 'active'"
        " WHERE account_name = 'Made-up account south-second' RETURNING id::text"
    )
    for part in ("markers", "lab_tests"):
        sandbox.query(
            f"DELETE FROM sandbox_labaccount_{part} WHERE labaccount_id = %s RETURNING 1", (key,)
        )
    return str(key)


@contextmanager
def open_world(**options: Any) -> Iterator[World]:
    """A world of its own in which nothing moves by itself."""
    with (
        running(users=40, orders=60, seed=21, **options) as sandbox,
        httpx.Client(base_url=sandbox.url, headers=TEAM_KEY, timeout=30) as http,
    ):
        yield World(sandbox, http)


def said(answer: httpx.Response) -> str:
    """The text of a refusal with a single sentence."""
    return str(answer.json()["detail"])


def misfits(answer: httpx.Response) -> set[str]:
    """The fields a 422 names."""
    assert answer.status_code == 422, (answer.status_code, answer.text)
    return {".".join(map(str, each["loc"][1:])) for each in answer.json()["detail"]}
