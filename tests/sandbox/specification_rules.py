"""What a request of the specification is, what may be asked of its answer, and the values it needs.

The values are found with the calls of the specification itself; only what it does not show (the
lab tests of an account, slots) comes from the supplement.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, timedelta
from typing import Any

import httpx

from tests.sandbox.specification_shapes import Shape
from tests.sandbox.test_reports import pdf_bytes

TEAM_KEY = "x-service-api-key"
TEAM = {TEAM_KEY: "{team_key}"}
MANAGEMENT = {"X-Management-Key": "mg_local_sandbox"}
Json = Any  # the specification leaves many fields open
Values = dict[str, str]
PDF = pdf_bytes()
PERSON = {"first_name": "Ada", "last_name": "Stone", "gender": "female", "dob": "1976-04-19",
          "email": "ada@example.test", "phone_number": "+15550100165"}  # fmt: skip
PLACE = {"first_line": "12 Elm Street", "city": "Phoenix", "state": "AZ", "zip": "85004",
         "country": "US"}  # fmt: skip
NOT_PRIMARY = {"payor_code": "{payor_code}", "member_id": "M-2", "relationship": "Self",
               "insured": {**PERSON, "address": PLACE}, "is_primary": False}  # fmt: skip


@dataclass(frozen=True)
class Rule:
    """What must hold of an answer besides its shape."""

    text: str
    holds: Callable[[Json, Callable[[Json], Json]], bool]


@dataclass(frozen=True)
class Asked:
    """A request, and what must come back. `{name}` in any text stands for a value found before;
    `default_status` is the class of status that the supplement permits instead, which only the
    sandbox's default form may use."""

    chapter: str
    method: str
    path: str
    query: Mapping[str, str | Sequence[str]] = field(default_factory=dict)
    body: Json = None
    headers: Mapping[str, str] = field(default_factory=lambda: TEAM)
    upload: tuple[str, bytes] | None = None
    status: str = "2xx"
    at: str = "base"
    default_status: str = ""
    answer: Shape | None = None
    rules: Sequence[Rule] = ()
    note: str = ""

    def __str__(self) -> str:
        text = f"{self.chapter} {self.method} {self.path} {self.status} {self.note}"
        return re.sub(r"[^\w]+", "-", text).strip("-")[:110]

    def send(self, http: httpx.Client, values: Values) -> httpx.Response:
        def fill(value: Json) -> Json:
            return filled(value, values)

        files = data = None
        if self.upload is not None:
            files, data = {"file": self.upload}, {"user_id": values["user_id"]}
        return http.request(
            self.method,
            fill(self.path),
            params=fill(dict(self.query)),
            headers=fill(dict(self.headers)),
            json=fill(self.body),
            files=files,
            data=data,
        )


def filled(value: Json, values: Values) -> Json:
    """The same with the values put in where their names are."""
    match value:
        case str():
            return re.sub(
                r"\{(\w+)\}",
                lambda found: uuid.uuid4().hex[:8] if found[1] == "random" else values[found[1]],
                value,
            )
        case dict():
            return {key: filled(each, values) for key, each in value.items()}
        case list() | tuple():
            return [filled(each, values) for each in value]
    return value


def at(record: Json, path: str) -> Json:
    """The value at a dotted path; None where the path ends early."""
    for name in path.split("."):
        record = record.get(name) if isinstance(record, dict) else None
    return record


def equals(path: str, value: Json) -> Rule:
    return Rule(f"{path} is {value!r}", lambda answer, fill: at(answer, path) == fill(value))


def differs(path: str, value: Json) -> Rule:
    return Rule(
        f"{path} is a text other than {value!r}",
        lambda answer, fill: at(answer, path) not in (None, "", fill(value)),
    )


def is_text(path: str) -> Rule:
    return Rule(f"{path} is a text", lambda answer, fill: isinstance(at(answer, path), str))


def some(name: str) -> Rule:
    return Rule(f"{name} is not empty", lambda answer, fill: bool(answer[name]))


def at_most(name: str, count: int) -> Rule:
    return Rule(f"at most {count} {name}", lambda answer, fill: len(answer[name]) <= count)


def every(name: str, path: str, value: Json) -> Rule:
    return Rule(
        f"every one of {name} has {path} {value}",
        lambda answer, fill: all(str(at(one, path)) == fill(value) for one in answer[name]),
    )


def has(name: str, path: str, value: Json) -> Rule:
    return Rule(
        f"one of {name} has {path} {value}",
        lambda answer, fill: any(str(at(one, path)) == fill(value) for one in answer[name]),
    )


def none_has(name: str, path: str, value: Json) -> Rule:
    return Rule(
        f"none of {name} has {path} {value}",
        lambda answer, fill: not any(str(at(one, path)) == fill(value) for one in answer[name]),
    )


def only_key(name: str, path: str, value: str) -> Rule:
    return Rule(
        f"{path} of {name} has no key but {value}",
        lambda answer, fill: (
            any(one[path] for one in answer[name])
            and all(set(one[path]) <= {fill(value)} for one in answer[name])
        ),
    )


def sorted_by(name: str, path: str, *, reverse: bool = False) -> Rule:
    def holds(answer: Json, fill: Callable[[Json], Json]) -> bool:
        found = [at(one, path) for one in answer[name]]
        return len(set(found)) > 1 and found == sorted(found, reverse=reverse)

    return Rule(f"{name} are sorted by {path}", holds)


def last_low_level_status_in(*statuses: str) -> Rule:
    def holds(answer: Json, fill: Callable[[Json], Json]) -> bool:
        last = {one["events"][-1]["status"].rpartition(".")[2] for one in answer["orders"]}
        return bool(last) and last <= set(statuses)

    return Rule(f"the last status is one of {statuses}", holds)


def days_from(first: str, count: int) -> Rule:
    """Every day, with or without slots, of each place there is."""

    def holds(answer: Json, fill: Callable[[Json], Json]) -> bool:
        start = date.fromisoformat(fill(first))
        wanted = [(start + timedelta(days=number)).isoformat() for number in range(count)]
        places: dict[str, list[str]] = {}
        for day in answer["slots"]:
            places.setdefault((day.get("location") or {}).get("code", ""), []).append(day["date"])
        return bool(places) and all(sorted(days) == wanted for days in places.values())

    return Rule(f"{count} days from {first}", holds)


def values_of(http: httpx.Client) -> Values:
    """What the requests name, found in the world with the calls of the specification."""
    team = {TEAM_KEY: "sk_us_local_sandbox"}

    def get(path: str, **params: Any) -> Json:
        answer = http.get(path, params=params, headers=team)
        assert answer.status_code == 200, (path, answer.text)
        return answer.json()

    def orders(**params: Any) -> Iterator[Json]:
        yield from get("/v3/orders", size=100, **params)["orders"]

    values: Values = {"team_key": team[TEAM_KEY], "org_id": "0d4f7c1e-0000-4000-8000-00000000c11c"}
    # Most values are about one order that has all that can be searched for.
    order = next(
        one
        for one in orders(order_type="testkit")
        if one.get("patient_address") and one.get("patient_details")
        and http.get(f"/v2/user/{one['user_id']}/info/latest", headers=team).status_code == 200
    )  # fmt: skip
    user = next(one for one in get("/v2/user/", limit=500)["users"]
                if one["user_id"] == order["user_id"])  # fmt: skip
    values |= {
        "user_id": order["user_id"],
        "client_user_id": user["client_user_id"],
        "team_id": order["team_id"],
        "order_id": order["id"],
        "receiver_name": order["patient_address"]["receiver_name"],
        "patient_dob": order["patient_details"]["dob"][:10],
        "patient_name": "{first_name} {last_name}".format(**order["patient_details"]),
        "transaction_id": order["order_transaction"]["id"],
        "created_day": order["created_at"][:10],
        "updated_day": order["updated_at"][:10],
    }
    connected = next(one for one in get("/v2/user/")["users"] if one["connected_sources"])
    values |= {
        "connected_user_id": connected["user_id"],
        "connected_provider": connected["connected_sources"][0]["source"]["slug"],
    }
    values |= _visits(http, team, orders)
    values |= _catalogue(get, order["details"]["type"])
    pulls = get("/v2/introspect/historical_pull", user_limit=2)
    pulled = get("/v2/introspect/historical_pull", user_limit=500)["data"]
    values |= {
        "next_cursor": pulls["next_cursor"],
        "first_pulled_user": pulled[0]["user_id"],
        "pulled_user": pulled[-1]["user_id"],
        "pulled_provider": next(iter(pulled[0]["provider"])),
        "payor_code": get("/v3/insurance/search/payor", insurance_name="mutual")[0]["payor_code"],
    }
    cover = filled(NOT_PRIMARY, values)
    http.post(f"/v2/user/{values['user_id']}/insurance", json=cover, headers=team)
    job = http.post(
        "/lab_report/v1/parser/job",
        headers=team,
        files={"file": ("report.pdf", PDF)},
        data={"user_id": values["user_id"]},
    ).json()
    return values | {"job_id": job["id"]}


def _asks_questions(lab_test: Json) -> bool:
    """Return whether an order of it needs answers, which the specification does not show."""
    return any(marker["aoe"] for marker in lab_test["markers"])


def _catalogue(get: Callable[..., Json], collection_method: str) -> Values:
    """Markers, accounts, and lab tests that an active and a pending account offer."""
    by_status: dict[str, list[Json]] = {}
    for account in get("/v3/lab_test/lab_account")["data"]:
        by_status.setdefault(account["status"], []).append(account)

    def tests_of(account: Json) -> list[Json]:
        found = get("/v3/lab_test", lab_account_id=account["id"], generation_method="all")["data"]
        return [one for one in found if one["status"] == "active" and one["lab"]]

    active, pending = (
        next(
            (account, tests_of(account))
            for account in by_status[status]
            # Orders under other flows need a physician.
            if account["delegated_flow"] in ("result_delegated", "not_delegated")
            and tests_of(account)
        )
        for status in ("active", "pending")
    )
    test = next(one for one in active[1] if not _asks_questions(one))
    markers = get("/v3/lab_tests/markers", size=100)["markers"]
    lab_id = test["lab"]["id"]
    marker = next(one for one in markers if one["lab_id"] == lab_id)
    return {
        "active_account": active[0]["id"],
        "lab_slug": active[0]["lab"],
        "lab_id": str(lab_id),
        "other_lab_id": str(next(one["lab_id"] for one in markers if one["lab_id"] != lab_id)),
        "lab_test_id": test["id"],
        "marker_name": marker["name"],
        "marker_code": marker["provider_id"],
        "pending_account": pending[0]["id"],
        "pending_lab_test_id": pending[1][0]["id"],
        "collection_method": pending[1][0]["method"],
    }


def _visits(
    http: httpx.Client, team: dict[str, str], orders: Callable[..., Iterator[Json]]
) -> Values:
    """Orders with a visit at home, with one at a service center, and with none yet."""

    def visit(order: Json, kind: str) -> Json:
        answer = http.get(f"/v3/order/{order['id']}/{kind}/appointment", headers=team)
        return answer.json() if answer.status_code == 200 else {}

    scheduled = "appointment_scheduled"
    at_home = orders(order_type="at_home_phlebotomy", status=scheduled)
    now = http.get("/_control/status").json()["now"]
    tomorrow = (date.fromisoformat(now[:10]) + timedelta(days=1)).isoformat()

    def slots_near(center: Json) -> list[Json]:
        answer = http.post(
            "/v3/order/psc/appointment/availability",
            params={
                "lab": center["provider"],
                "zip_code": center["address"]["zip_code"],
                "radius": "25",
                "start_date": tomorrow,
            },
            headers=team,
        )
        days = answer.json()["slots"] if answer.status_code == 200 else []
        return [slot for day in days for slot in day["slots"]]

    center, slots = next(
        (found, slots)
        for one in orders(order_type="walk_in_test", status=scheduled)
        if (found := visit(one, "psc")).get("can_reschedule") and (slots := slots_near(found))
    )
    busy = {one["user_id"] for one in orders(status=[scheduled, "appointment_pending"])}
    return {
        "visited_order": next(one["id"] for one in at_home if visit(one, "phlebotomy")),
        "phlebotomy_order": next(
            one["id"]
            for one in orders(order_type="at_home_phlebotomy", status="requisition_created")
            if one["user_id"] not in busy and one["patient_details"]["dob"] < "2006"
        ),
        "phlebotomy_provider": "visit-nurse",
        "psc_order": center["order_id"],
        "psc_lab": center["provider"],
        "psc_zip_code": center["address"]["zip_code"],
        "booking_key": slots[0]["booking_key"],
        "tomorrow": tomorrow,
    }
